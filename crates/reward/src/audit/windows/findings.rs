//! From numbers about a judge to a verdict: each rule is a few lines, and says what it goes by.

use super::{JudgeAudit, SeenBefore};
use crate::audit::{Interval, Severity, Verdict, percent};
use crate::metrics::LabelMetrics;

/// Probabilities that are further off than this count as miscalibrated.
const MISCALIBRATED: f64 = 0.05;
/// More windows of better or worse that are called the opposite than this teach a policy the wrong way.
const REVERSED: f64 = 0.1;
/// Above this share of stillness called progress, a policy is rewarded for holding still.
const MAX_REWARDED_STILLNESS: f64 = 0.1;
/// A judge that follows fewer changed windows than this watches something else.
const FOLLOWED: f64 = 0.6;
/// What can be said of fewer episodes is little.
const FEW_EPISODES: usize = 10;

/// Everything that speaks for or against using the judge.
pub(super) fn verdict(audit: &JudgeAudit, min_accuracy: f64) -> Verdict {
    let mut verdict = Verdict::default();
    prompts(&mut verdict, audit);
    labels(&mut verdict, audit);
    accuracy(&mut verdict, audit, min_accuracy);
    directions(&mut verdict, &audit.metrics);
    stillness(&mut verdict, &audit.metrics);
    progress(&mut verdict, audit);
    leakage(&mut verdict, &audit.seen_before);
    following(&mut verdict, audit);
    calibration(&mut verdict, audit);
    verdict
}

fn prompts(verdict: &mut Verdict, audit: &JudgeAudit) {
    if let Some(asked) = &audit.unseen_prompt {
        let what = format!("these windows ask `{asked}`, and the judge was tuned with another prompt");
        let hint = "make them with the same description of the task";
        verdict.add(Severity::Fatal, "unseen_prompt", what, hint);
    }
}

fn labels(verdict: &mut Verdict, audit: &JudgeAudit) {
    let missing = |label: usize| audit.metrics.labels[label].windows == 0;
    let hint = "make windows with balanced labels";
    if missing(0) || missing(1) {
        let what =
            "no window is labelled better, or none worse, so that directions cannot be measured".into();
        verdict.add(Severity::Fatal, "one_direction", what, hint);
    } else if missing(2) {
        let what = "no window is labelled unclear: the reward for stillness was not measured".into();
        verdict.add(Severity::Warning, "no_unclear", what, hint);
    }
    if audit.episodes < FEW_EPISODES {
        let what = match audit.episodes {
            1 => "one episode says little about others".to_string(),
            count => format!("{count} episodes say little about others"),
        };
        verdict.add(Severity::Warning, "few_episodes", what, "audit on more of them");
    }
}

fn accuracy(verdict: &mut Verdict, audit: &JudgeAudit, min_accuracy: f64) {
    let Some(Interval { value, low, .. }) = audit.balanced_accuracy else { return };
    if low < min_accuracy {
        let what = format!(
            "its balanced accuracy is {}; on other episodes it may be as low as {}, and {} is required",
            percent(value),
            percent(low),
            percent(min_accuracy)
        );
        let hint = "tune it longer or on more episodes, see the worst mistakes, or ask for less";
        verdict.add(Severity::Fatal, "inaccurate", what, hint);
    }
}

fn directions(verdict: &mut Verdict, metrics: &LabelMetrics) {
    let table = metrics.confusion.0;
    for (right, said, what) in [(1, 0, "gets worse is called better"), (0, 1, "gets better is called worse")]
    {
        let windows = metrics.confusion.right(right);
        let share = table[right][said] as f64 / windows.max(1) as f64;
        if windows > 0 && share > REVERSED {
            let what = format!("{} of what {what}: a policy would learn the wrong way", percent(share));
            let hint =
                "it may not see time: look at the windows played backwards, and at `initializer_range`";
            verdict.add(Severity::Fatal, "reversed", what, hint);
        }
    }
}

fn stillness(verdict: &mut Verdict, metrics: &LabelMetrics) {
    let windows = metrics.confusion.right(2);
    let share = metrics.confusion.0[2][0] as f64 / windows.max(1) as f64;
    if windows > 0 && share > MAX_REWARDED_STILLNESS {
        let what =
            format!("{} of the unclear windows are called better: holding still is rewarded", percent(share));
        let hint = "let it abstain where it is unsure, or tune on more windows of stillness";
        verdict.add(Severity::Warning, "rewards_stillness", what, hint);
    }
}

fn progress(verdict: &mut Verdict, audit: &JudgeAudit) {
    let Some(agreement) = &audit.agreement else {
        let what = "these windows do not say how the environment's own measure grew".into();
        let hint = "make them from episodes with rewards";
        verdict.add(Severity::Note, "no_progress", what, hint);
        return;
    };
    match agreement.rank {
        Some(Interval { value, low, .. }) if low <= 0.0 => {
            let what = format!("its votes may not go with progress at all (rank correlation {value:.3})");
            verdict.add(Severity::Fatal, "no_agreement", what, "tune it on windows of this task");
        }
        _ => {}
    }
}

fn leakage(verdict: &mut Verdict, seen: &SeenBefore) {
    let hint = "audit on windows of episodes that were collected apart, with another seed";
    match seen {
        SeenBefore::Training { episodes, of } => {
            let what = format!("it learned from windows of {episodes} of these {of} episodes");
            verdict.add(Severity::Fatal, "leak", what, hint);
        }
        SeenBefore::Validation => {
            let what =
                "these are windows that it was chosen on: numbers look a little better than they are".into();
            verdict.add(Severity::Warning, "validation", what, hint);
        }
        SeenBefore::Unknown => {
            let what = "its training data is not there, so it was not searched for the same episodes".into();
            verdict.add(Severity::Note, "not_compared", what, "give the windows that it was tuned on");
        }
        SeenBefore::Apart => {}
    }
}

fn following(verdict: &mut Verdict, audit: &JudgeAudit) {
    for changed in audit.changed.iter().filter(|changed| !changed.name.contains("covered")) {
        if changed.right < FOLLOWED {
            let what = format!(
                "{} of changed windows ({}) are labelled correctly: it may ignore what happens",
                percent(changed.right),
                changed.name
            );
            let hint = "tune it on windows played backwards and on stillness";
            verdict.add(Severity::Warning, "does_not_follow", what, hint);
        }
    }
}

fn calibration(verdict: &mut Verdict, audit: &JudgeAudit) {
    let after = audit.calibration.after.ece;
    if after > MISCALIBRATED {
        let what =
            format!("its confidence is off by {} on average, even at the best temperature", percent(after));
        let hint = "reward by the likeliest label, not by probabilities";
        verdict.add(Severity::Warning, "miscalibrated", what, hint);
    }
}
