//! From numbers about a judge to a verdict: each rule is a few lines, and says what it goes by.

use plaudit_reward::audit::{Interval, Severity, Verdict};
use plaudit_reward::metrics::LabelMetrics;

use super::super::audit::percent;
use super::audit::{JudgeAudit, SeenBefore};

/// Probabilities that are further off than this are called dishonest.
const MISCALIBRATED: f64 = 0.05;
/// More windows of better or worse that are called the opposite than this teach a policy the wrong way.
const REVERSED: f64 = 0.1;
/// More stillness that is called progress than this is worth a policy's while.
const PAID_STILLNESS: f64 = 0.1;
/// A judge that follows fewer changed windows than this watches something else.
const FOLLOWED: f64 = 0.6;
/// What can be said of fewer episodes is little.
const FEW_EPISODES: usize = 10;

/// Everything that speaks for or against using the judge.
pub(super) fn verdict(audit: &JudgeAudit, min_accuracy: f64) -> Verdict {
    let mut verdict = Verdict::default();
    words(&mut verdict, audit);
    labels(&mut verdict, audit);
    accuracy(&mut verdict, audit, min_accuracy);
    directions(&mut verdict, &audit.metrics);
    stillness(&mut verdict, &audit.metrics);
    progress(&mut verdict, audit);
    sharing(&mut verdict, &audit.seen_before);
    following(&mut verdict, audit);
    honesty(&mut verdict, audit);
    verdict
}

fn words(verdict: &mut Verdict, audit: &JudgeAudit) {
    if let Some(asked) = &audit.other_words {
        let what = format!("these windows ask `{asked}`, and the judge was tuned with other words");
        let hint = "make them with the same task: `plaudit dataset windows --task-description`";
        verdict.add(Severity::Fatal, "other_words", what, hint);
    }
}

fn labels(verdict: &mut Verdict, audit: &JudgeAudit) {
    let missing = |label: usize| audit.metrics.labels[label].windows == 0;
    let hint = "make windows with `plaudit dataset windows`, which balances the labels";
    if missing(0) || missing(1) {
        let what = "no window is labelled better, or none worse, so that directions cannot be told".into();
        verdict.add(Severity::Fatal, "one_direction", what, hint);
    } else if missing(2) {
        let what = "no window is labelled unclear: what stillness is paid was not seen".into();
        verdict.add(Severity::Warning, "no_unclear", what, hint);
    }
    if audit.episodes < FEW_EPISODES {
        let what = format!("{} episodes say little about others", audit.episodes);
        verdict.add(Severity::Warning, "few_episodes", what, "audit on more of them");
    }
}

fn accuracy(verdict: &mut Verdict, audit: &JudgeAudit, min_accuracy: f64) {
    let Some(Interval { value, low, .. }) = audit.balanced_accuracy else { return };
    if low < min_accuracy {
        let what = format!(
            "it judges {} of the windows rightly, each label counting equally; that may be {} with other episodes, and {} \
             is asked for",
            percent(value),
            percent(low),
            percent(min_accuracy)
        );
        let hint =
            "tune it longer or on more episodes, see the worst mistakes, or ask for less with --min-accuracy";
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
    if windows > 0 && share > PAID_STILLNESS {
        let what =
            format!("{} of the unclear windows are called better: holding still is paid", percent(share));
        let hint = "set reward.model.abstain_band, or tune on more windows of stillness";
        verdict.add(Severity::Warning, "paid_stillness", what, hint);
    }
}

fn progress(verdict: &mut Verdict, audit: &JudgeAudit) {
    let Some(agreement) = &audit.agreement else {
        let what = "these windows do not say how the environment's own measure grew".into();
        let hint = "make them with `plaudit dataset windows` from episodes with rewards";
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

fn sharing(verdict: &mut Verdict, seen: &SeenBefore) {
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
            let what = "what it learned from is not there, so that nobody looked for episodes in both".into();
            verdict.add(Severity::Note, "not_compared", what, "name it with --train-data");
        }
        SeenBefore::Apart => {}
    }
}

fn following(verdict: &mut Verdict, audit: &JudgeAudit) {
    for changed in audit.changed.iter().filter(|changed| !changed.name.contains("covered")) {
        if changed.right < FOLLOWED {
            let what = format!(
                "of windows with {}, it judges {} as it should: it may not watch what happens",
                changed.name,
                percent(changed.right)
            );
            let hint = "tune it on windows played backwards and on stillness, as `plaudit dataset windows` makes them";
            verdict.add(Severity::Warning, "does_not_follow", what, hint);
        }
    }
}

fn honesty(verdict: &mut Verdict, audit: &JudgeAudit) {
    let after = audit.calibration.after.ece;
    if after > MISCALIBRATED {
        let what =
            format!("its certainty is off by {} on average, even at the best temperature", percent(after));
        let hint = "pay the likeliest label (reward.model.soft_reward: false)";
        verdict.add(Severity::Warning, "miscalibrated", what, hint);
    }
}
