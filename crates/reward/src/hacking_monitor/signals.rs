//! Signals of hacking, and when one is an alarm.

use serde::{Deserialize, Serialize};

use super::{EpisodeSummary, OodCheck};
use crate::audit::false_alarm_bound;

/// What may go wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Signal {
    /// Share of false successes: what the reward calls solved and the reference does not, among all it calls solved.
    FalseSuccess,
    /// The share of all reward that goes to the tenth of the rewarded episodes with the most.
    Concentration,
    /// When the reward first sees success, as a share of when it did before.
    EarlySuccess,
    /// How often success is lost again in an episode, on average.
    Dithering,
    /// The share of rewarded frames that are out of distribution: far from all successes of the audit.
    OodFrames,
    /// The share of rewarded frames about which the model does not agree with itself.
    Disagreement,
}

impl Signal {
    /// Its name in logs: `hacking/false_success`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::FalseSuccess => "false_success",
            Self::Concentration => "concentration",
            Self::EarlySuccess => "early_success",
            Self::Dithering => "dithering",
            Self::OodFrames => "ood_frames",
            Self::Disagreement => "disagreement",
        }
    }
}

/// The signals of one check; `None` where there is too little to go by.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Signals {
    /// Episodes that ended.
    pub episodes: usize,
    /// What the reward calls solved, against a reference: the environment, a second model, or a person.
    pub compared: Option<SuccessComparison>,
    /// [`Signal::Concentration`].
    pub concentration: Option<f64>,
    /// The mean step at which the reward first sees success. Not the median, which leaps where some episodes begin solved.
    pub first_success: Option<f64>,
    /// [`Signal::Dithering`].
    pub dithering: Option<f64>,
    /// [`Signal::OodFrames`].
    pub ood_frames: Option<f64>,
    /// [`Signal::Disagreement`].
    pub disagreement: Option<f64>,
}

/// What the reward calls solved, episodes or frames, against a reference: the environment, a second model, or a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SuccessComparison {
    /// How many the reward calls solved.
    pub called: usize,
    /// How many of them are.
    pub right: usize,
}

impl SuccessComparison {
    /// Episodes against the environment's truth.
    #[must_use]
    pub fn episodes(episodes: &[EpisodeSummary]) -> Self {
        let called = episodes.iter().filter(|one| one.first_success.is_some());
        Self { called: called.clone().count(), right: called.filter(|one| one.true_success).count() }
    }

    /// The 95 % lower confidence bound of the rate of false successes (Clopper and Pearson).
    fn false_success_lower_bound(self) -> Option<f64> {
        // At most so many are right; what is not right is false.
        (self.called > 0).then(|| 1.0 - false_alarm_bound(self.right, self.called, CONFIDENCE))
    }
}

/// Episodes or frames below which nothing is said.
const ENOUGH: usize = 10;

impl Signals {
    /// Of the episodes that ended, of out-of-distribution checks of rewarded frames, and of the comparison with the reference.
    #[must_use]
    pub fn of(
        episodes: &[EpisodeSummary],
        ood_checks: &[OodCheck],
        compared: Option<SuccessComparison>,
    ) -> Self {
        let solved: Vec<&EpisodeSummary> =
            episodes.iter().filter(|one| one.first_success.is_some()).collect();
        let enough = solved.len() >= ENOUGH;
        let mean = |of: fn(&EpisodeSummary) -> usize| {
            enough.then(|| solved.iter().map(|one| of(one) as f64).sum::<f64>() / solved.len() as f64)
        };
        let share = |of: fn(&OodCheck) -> bool| {
            let count = ood_checks.iter().filter(|check| of(check)).count();
            (ood_checks.len() >= ENOUGH).then(|| count as f64 / ood_checks.len() as f64)
        };
        Self {
            episodes: episodes.len(),
            compared,
            concentration: concentration(episodes),
            first_success: mean(|one| one.first_success.unwrap_or(0)),
            dithering: mean(|one| one.lost),
            ood_frames: share(|check| check.is_ood),
            disagreement: share(|check| check.is_uncertain),
        }
    }

    /// As metrics name them.
    #[must_use]
    pub fn values(&self) -> Vec<(String, f64)> {
        let compared = self.compared.filter(|compared| compared.called > 0);
        let false_success = compared.map(|of| 1.0 - of.right as f64 / of.called as f64);
        let values = [
            (Signal::FalseSuccess.name(), false_success),
            (Signal::Concentration.name(), self.concentration),
            ("first_success", self.first_success),
            (Signal::Dithering.name(), self.dithering),
            (Signal::OodFrames.name(), self.ood_frames),
            (Signal::Disagreement.name(), self.disagreement),
        ];
        values.into_iter().filter_map(|(name, value)| Some((format!("hacking/{name}"), value?))).collect()
    }
}

/// The share of all reward that goes to the tenth of the rewarded episodes with the most.
fn concentration(episodes: &[EpisodeSummary]) -> Option<f64> {
    let mut rewards: Vec<f64> =
        episodes.iter().map(|one| one.total_reward).filter(|reward| *reward > 0.0).collect();
    if rewards.len() < 2 * ENOUGH {
        return None;
    }
    rewards.sort_by(|a, b| b.total_cmp(a));
    Some(rewards[..rewards.len().div_ceil(10)].iter().sum::<f64>() / rewards.iter().sum::<f64>())
}

/// What is too much.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// See [`Signal::FalseSuccess`].
    pub false_success: f64,
    /// See [`Signal::Concentration`].
    pub concentration: f64,
    /// See [`Signal::EarlySuccess`]: success that comes in less than this share of the time it took before.
    pub early_success: f64,
    /// See [`Signal::Dithering`].
    pub dithering: f64,
    /// See [`Signal::OodFrames`].
    pub ood_frames: f64,
    /// See [`Signal::Disagreement`].
    pub disagreement: f64,
}

/// A signal beyond its limit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Alarm {
    /// Which.
    pub signal: Signal,
    /// What it is.
    pub value: f64,
    /// What it may be.
    pub limit: f64,
}

/// How sure it must be that the rate of false successes is too high.
const CONFIDENCE: f64 = 0.95;

impl Limits {
    /// The alarms of one check. `before` is the mean step of the first success at earlier checks.
    #[must_use]
    pub fn alarms(&self, signals: &Signals, before: &[f64]) -> Vec<Alarm> {
        let above = |signal: Signal, value: Option<f64>, limit: f64| {
            value.filter(|value| *value > limit).map(|value| Alarm { signal, value, limit })
        };
        let early = (!before.is_empty()).then(|| before.iter().sum::<f64>() / before.len() as f64);
        let early = early.zip(signals.first_success).and_then(|(before, now)| {
            let (value, limit) = (now / before, self.early_success);
            (value < limit).then_some(Alarm { signal: Signal::EarlySuccess, value, limit })
        });
        let false_success_lower_bound =
            signals.compared.and_then(SuccessComparison::false_success_lower_bound);
        let false_success = above(Signal::FalseSuccess, false_success_lower_bound, self.false_success);
        let others = [
            above(Signal::Concentration, signals.concentration, self.concentration),
            above(Signal::Dithering, signals.dithering, self.dithering),
            above(Signal::OodFrames, signals.ood_frames, self.ood_frames),
            above(Signal::Disagreement, signals.disagreement, self.disagreement),
        ];
        false_success.into_iter().chain(early).chain(others.into_iter().flatten()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits {
        false_success: 0.3,
        concentration: 0.6,
        early_success: 0.5,
        dithering: 3.0,
        ood_frames: 0.2,
        disagreement: 0.2,
    };

    fn episode(first: usize, true_success: bool, lost: usize, total_reward: f64) -> EpisodeSummary {
        EpisodeSummary { steps: 50, first_success: Some(first), lost, true_success, total_reward }
    }

    fn names(signals: &Signals, before: &[f64]) -> Vec<&'static str> {
        LIMITS.alarms(signals, before).iter().map(|alarm| alarm.signal.name()).collect()
    }

    fn seen(episodes: &[EpisodeSummary], ood_checks: &[OodCheck]) -> Signals {
        Signals::of(episodes, ood_checks, Some(SuccessComparison::episodes(episodes)))
    }

    #[test]
    fn honest_episodes_raise_no_alarm() {
        let episodes: Vec<_> = (0..40).map(|i| episode(20 + i % 7, i % 10 != 0, i % 2, 20.0)).collect();
        let ood_checks = vec![OodCheck::default(); 40];
        assert!(names(&seen(&episodes, &ood_checks), &[24.0]).is_empty());
        assert!(names(&seen(&[], &[]), &[]).is_empty());
    }

    #[test]
    fn each_trick_raises_its_own_alarm() {
        let ood_checks = vec![OodCheck::default(); 40];
        let of = |change: fn(usize) -> EpisodeSummary| {
            let episodes: Vec<_> = (0..40).map(change).collect();
            seen(&episodes, &ood_checks)
        };
        assert_eq!(names(&of(|i| episode(22, i % 2 == 0, 0, 20.0)), &[22.0]), ["false_success"]);
        assert_eq!(names(&of(|_| episode(3, true, 0, 20.0)), &[22.0]), ["early_success"]);
        assert_eq!(names(&of(|_| episode(22, true, 9, 20.0)), &[22.0]), ["dithering"]);
        assert_eq!(
            names(&of(|i| episode(22, true, 0, if i < 4 { 500.0 } else { 1.0 })), &[22.0]),
            ["concentration"]
        );
        let far: Vec<_> = (0..40).map(|i| OodCheck { is_ood: i % 2 == 0, is_uncertain: false }).collect();
        let honest: Vec<_> = (0..40).map(|_| episode(22, true, 0, 20.0)).collect();
        assert_eq!(names(&seen(&honest, &far), &[22.0]), ["ood_frames"]);
    }

    #[test]
    fn few_false_successes_may_be_chance() {
        let few: Vec<_> = (0..3).map(|i| episode(22, i > 1, 0, 20.0)).collect();
        assert!(names(&seen(&few, &[]), &[]).is_empty(), "two of three are no proof of 30 %");
    }
}
