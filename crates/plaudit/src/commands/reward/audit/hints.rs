//! What to do about findings, in the words of the command line: the library knows neither flags nor configs.

use plaudit_reward::audit::Verdict;

/// Hints that name a flag, a command or a key, by the code of their finding.
const OF_CLASSIFIERS: &[(&str, &str)] = &[
    ("blind", "allow more false alarms with --max-fpr, or train a better model (see the worst mistakes)"),
    ("flickers", "set reward.hysteresis, or reward only the end (terminal)"),
    ("not_compared", "name it with --train-data"),
    ("miscalibrated", "reward by the decision (reward_type: binary), not by the score"),
    ("fragile", "train with data.augment, and keep camera and light fixed"),
];

/// The same for judges.
const OF_JUDGES: &[(&str, &str)] = &[
    ("unseen_prompt", "make them with the same task: `plaudit dataset windows --task-description`"),
    ("one_direction", "make windows with `plaudit dataset windows`, which balances the labels"),
    ("no_unclear", "make windows with `plaudit dataset windows`, which balances the labels"),
    (
        "inaccurate",
        "tune it longer or on more episodes, see the worst mistakes, or ask for less with --min-accuracy",
    ),
    ("rewards_stillness", "set reward.model.abstain_band, or tune on more windows of stillness"),
    ("no_progress", "make them with `plaudit dataset windows` from episodes with rewards"),
    ("not_compared", "name it with --train-data"),
    (
        "does_not_follow",
        "tune it on windows played backwards and on stillness, as `plaudit dataset windows` makes them",
    ),
    ("miscalibrated", "reward by the likeliest label (reward.model.soft_reward: false)"),
];

/// For the audit of a classifier.
pub(super) fn for_classifiers(verdict: &mut Verdict) {
    reword(verdict, OF_CLASSIFIERS);
}

/// For the audit of a judge.
pub(in crate::commands::reward) fn for_judges(verdict: &mut Verdict) {
    reword(verdict, OF_JUDGES);
}

fn reword(verdict: &mut Verdict, hints: &[(&str, &str)]) {
    for finding in &mut verdict.findings {
        if let Some((_, hint)) = hints.iter().find(|(code, _)| *code == finding.code) {
            finding.hint = (*hint).into();
        }
    }
}
