//! The verdict in one sentence, and what should be known beside it.

use plaudit_core::{EndReason, Level};

use super::outcome::{Measure, Reached, When, reached};
use super::{Experiment, Run, all};
use crate::format;
use crate::page::{Finding, Tone, Unit, Verdict};

/// Success rates of reward model and ground truth that differ by more than this are reported.
const APART: f64 = 0.1;

/// What everything comes to.
pub(super) fn of(experiments: &[Experiment]) -> Verdict {
    let measure = Measure::of(experiments);
    let verdict = match (measure, experiments) {
        (None, _) => Verdict {
            tone: Tone::Doubtful,
            word: "no metrics".into(),
            sentence: match all(experiments).count() {
                1 => "This run has no metrics yet".into(),
                runs => format!("None of these {runs} runs has metrics yet"),
            },
            evidence: String::new(),
        },
        (Some(measure), [one]) => of_one(one, measure),
        (Some(measure), several) => of_several(several, measure),
    };
    after_its_end(experiments, verdict)
}

/// How a run ended comes first where it ended badly.
fn after_its_end(experiments: &[Experiment], verdict: Verdict) -> Verdict {
    let runs: Vec<&Run> = all(experiments).collect();
    let [run] = runs[..] else { return verdict };
    let unit = if run.summary.unit.is_empty() { "steps" } else { &run.summary.unit };
    let of = run.summary.steps.map_or(String::new(), |steps| format!(" of {}", format::count(steps)));
    let reached = format!("{}{of} {unit}", format::count(run.summary.step));
    let (tone, word, how) = match &run.summary.end {
        Some(EndReason::Done) => return verdict,
        Some(EndReason::Failed { error }) => {
            (Tone::Bad, "failed", format!("The run failed after {reached}: {}", one_line(error)))
        }
        Some(EndReason::Interrupted) => {
            (Tone::Doubtful, "interrupted", format!("The run was interrupted after {reached}"))
        }
        None => (
            Tone::Doubtful,
            "unfinished",
            format!("The run is still running, or was killed, after {reached}"),
        ),
    };
    let evidence = match (verdict.sentence, verdict.evidence.as_str()) {
        (until, "") => format!("until then: {}", lower_case(&until)),
        (until, evidence) => format!("until then: {}; {evidence}", lower_case(&until)),
    };
    Verdict { tone, word: word.into(), sentence: how, evidence }
}

fn one_line(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    text.trim_end_matches('.').to_string()
}

fn lower_case(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_lowercase().chain(letters).collect())
}

fn of_one(experiment: &Experiment, measure: &Measure) -> Verdict {
    let Some(after) = reached(experiment, measure, When::Last) else { return Verdict::default() };
    let before = reached(experiment, measure, When::First);
    let now = measure.words(after.interval.middle);
    let run = &experiment.runs[0];
    let learns = run.summary.job == "train";
    let is_policy = ["success", "return"].contains(&measure.noun);
    let sentence = match (&before, measure.unit) {
        (Some(before), Unit::Percent) if learns => {
            let then = measure.words(before.interval.middle);
            format!("{}, the policy went from {then} to {now} {}", trained_by(run), measure.noun)
        }
        (Some(before), _) if learns && is_policy => {
            let then = measure.words(before.interval.middle);
            format!("{}, the policy’s {} went from {then} to {now}", trained_by(run), measure.noun)
        }
        (None, Unit::Percent) if learns => {
            format!("{}, the policy has {now} {}", trained_by(run), measure.noun)
        }
        (_, Unit::Percent) => format!("The policy succeeds in {now} of its episodes"),
        (_, _) if is_policy => format!("The policy’s {} is {now}", measure.noun),
        (Some(before), _) => {
            let then = measure.words(before.interval.middle);
            format!("The model’s {} went from {then} to {now}", measure.noun)
        }
        (None, _) => format!("The model’s {} is {now}", measure.noun),
    };
    let (tone, word) = match &before {
        Some(before) if before.is_known && after.is_known => change(before, &after),
        _ => (Tone::Plain, "done"),
    };
    let evidence = [measure.source.to_string(), after.rests_on.clone()]
        .into_iter()
        .chain(interval_words(measure, &after))
        .collect::<Vec<_>>()
        .join(", ");
    Verdict { tone, word: word.into(), sentence, evidence }
}

fn interval_words(measure: &Measure, found: &Reached) -> Option<String> {
    let (low, high) = (measure.words(found.interval.low), measure.words(found.interval.high));
    found.is_known.then(|| format!("95 % interval {low} to {high}"))
}

fn change(before: &Reached, after: &Reached) -> (Tone, &'static str) {
    match (before.interval, after.interval) {
        (then, now) if now.low > then.high => (Tone::Good, "improved"),
        (then, now) if now.high < then.low => (Tone::Bad, "got worse"),
        _ => (Tone::Doubtful, "no clear change"),
    }
}

/// By what a policy learned.
fn trained_by(run: &Run) -> &'static str {
    let of_env = run.reward.weight("env").is_some();
    match (run.reward.is_learned, of_env) {
        (true, false) => "Trained by the learned reward alone",
        (true, true) => "Trained by the learned reward and the environment’s own",
        (false, true) => "Trained by the environment’s own reward",
        (false, false) => "Trained",
    }
}

fn of_several(experiments: &[Experiment], measure: &Measure) -> Verdict {
    let mut found: Vec<(&str, Reached)> = experiments
        .iter()
        .filter_map(|one| Some((one.label.as_str(), reached(one, measure, When::Last)?)))
        .collect();
    found.sort_by(|one, other| other.1.interval.middle.total_cmp(&one.1.interval.middle));
    let [(best, most), rest @ ..] = &found[..] else { return Verdict::default() };
    let said = measure.words(most.interval.middle);
    let noun = measure.noun;
    let Some((next, second)) = rest.first() else {
        let sentence = format!("Only {best} reports {noun}: {said}");
        return Verdict {
            tone: Tone::Doubtful,
            word: "nothing to compare".into(),
            sentence,
            evidence: String::new(),
        };
    };
    let one_task = experiments.iter().all(|one| one.runs[0].task == experiments[0].runs[0].task);
    let known = one_task && most.is_known && second.is_known;
    let ahead = known && most.interval.low > second.interval.high;
    let (tone, word) = match (known, ahead) {
        (true, true) => (Tone::Good, "clearly ahead"),
        (true, false) => (Tone::Doubtful, "no clear winner"),
        (false, _) if !one_task => (Tone::Plain, "different tasks"),
        (false, _) => (Tone::Plain, "compared"),
    };
    let sentence = format!(
        "{best} ends with the highest {noun}, {said}; {next} follows with {}",
        measure.words(second.interval.middle)
    );
    let rests_on = |(label, one): &(&str, Reached)| {
        let interval = interval_words(measure, one).map_or(String::new(), |words| format!(", {words}"));
        format!("{label}: {}{interval}", one.rests_on)
    };
    let evidence: Vec<String> = found.iter().take(2).map(rests_on).collect();
    Verdict {
        tone,
        word: word.into(),
        sentence,
        evidence: format!("{}; {}", measure.source, evidence.join("; ")),
    }
}

/// What should be known beside the verdict: disagreement of reward model and ground truth, failures, warnings.
pub(super) fn findings(experiments: &[Experiment]) -> Vec<Finding> {
    let mut found: Vec<Finding> =
        experiments.iter().filter_map(|one| model_finding(one, experiments.len() > 1)).collect();
    let single = all(experiments).count() == 1;
    for run in all(experiments) {
        if let (Some(EndReason::Failed { error }), false) = (&run.summary.end, single) {
            let what = format!("{} failed: {}", super::folder(run), one_line(error));
            found.push(Finding { tone: Tone::Bad, word: "failed".into(), what, hint: String::new() });
        }
        for (_, text) in run.summary.notices.iter().filter(|(level, _)| *level == Level::Warning) {
            let what = if single { text.clone() } else { format!("{}: {text}", super::folder(run)) };
            found.push(Finding { tone: Tone::Doubtful, word: "warning".into(), what, hint: String::new() });
        }
    }
    found
}

/// The reward model's success rate on the last training episodes beside the ground truth.
fn model_finding(experiment: &Experiment, several: bool) -> Option<Finding> {
    let (truth, model) = truth_and_model(experiment)?;
    let of = if several { format!("{}: the", experiment.label) } else { "The".into() };
    let (said, is) = (format::percent(model), format::percent(truth));
    let (tone, word, what, hint) = match model - truth {
        over if over > APART => (
            Tone::Bad,
            "hacking?",
            format!(
                "{of} reward model reports a success rate of {said} for the last training episodes; the ground truth is {is}."
            ),
            "The policy may be hacking the reward: watch its videos, and audit the model on its episodes.",
        ),
        under if under < -APART => (
            Tone::Plain,
            "strict",
            format!(
                "{of} reward model reports a success rate of {said} for the last training episodes; the ground truth is {is}."
            ),
            "It misses successes, but there is no sign of reward hacking.",
        ),
        _ => (
            Tone::Good,
            "agree",
            format!(
                "{of} reward model reports a success rate of {said} for the last training episodes; the ground truth is {is}."
            ),
            "",
        ),
    };
    Some(Finding { tone, word: word.into(), what, hint: hint.into() })
}

/// The mean of the last training success rates, of ground truth and of the reward model, over the runs.
pub(super) fn truth_and_model(experiment: &Experiment) -> Option<(f64, f64)> {
    let mean = |metric: &str| {
        let last: Vec<f64> =
            experiment.runs.iter().filter_map(|run| run.summary.curves.get(metric)?.last()).collect();
        (!last.is_empty()).then(|| last.iter().sum::<f64>() / last.len() as f64)
    };
    Some((mean("env/success_true")?, mean("env/success_by_model")?))
}
