//! Signals of hacking, and when one is an alarm.

use serde::{Deserialize, Serialize};

use super::{DriftedFrames, EpisodeSummary, OodCheck};
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
    /// The share of rewarded frames whose state is unlike those that the run was first rewarded for.
    Drift,
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
            Self::Drift => "drift",
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
    /// [`Signal::Drift`].
    pub drifted: Option<DriftedFrames>,
}

/// What a check goes by.
#[derive(Debug, Clone, Copy, Default)]
pub struct CheckInput<'a> {
    /// The episodes that ended.
    pub episodes: &'a [EpisodeSummary],
    /// Out-of-distribution checks of rewarded frames.
    pub ood_checks: &'a [OodCheck],
    /// The comparison with the reference.
    pub compared: Option<SuccessComparison>,
    /// The comparison with the first rewarded frames.
    pub drifted: Option<DriftedFrames>,
    /// Whether only the ends of episodes are rewarded.
    pub ends_only: bool,
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
    /// Episodes against the environment's truth, in the frames that are called solved.
    #[must_use]
    pub fn episodes(episodes: &[EpisodeSummary]) -> Self {
        let called = episodes.iter().filter(|one| one.first_success.is_some());
        Self { called: called.clone().count(), right: called.filter(|one| one.is_right()).count() }
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
    /// Of what happened since the last check. Where only ends are rewarded, an episode has one reward, and that at its end:
    /// what goes by when rewards come, or by how many, says nothing then.
    #[must_use]
    pub fn of(input: CheckInput<'_>) -> Self {
        let CheckInput { episodes, ood_checks, compared, drifted, ends_only } = input;
        let solved: Vec<&EpisodeSummary> =
            episodes.iter().filter(|one| one.first_success.is_some()).collect();
        let enough = solved.len() >= ENOUGH && !ends_only;
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
            concentration: concentration(episodes).filter(|_| !ends_only),
            first_success: mean(|one| one.first_success.unwrap_or(0)),
            dithering: mean(|one| one.lost),
            ood_frames: share(|check| check.is_ood),
            disagreement: share(|check| check.is_uncertain),
            drifted: drifted.filter(|drifted| drifted.frames >= ENOUGH),
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
            (Signal::Drift.name(), self.drifted.map(|of| of.unlike as f64 / of.frames as f64)),
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
    /// See [`Signal::Drift`]: its lower confidence bound.
    pub drift: f64,
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

/// How sure it must be that a rate is too high.
const CONFIDENCE: f64 = 0.95;

impl DriftedFrames {
    /// The 95 % lower confidence bound of the share of frames that are unlike the first (Clopper and Pearson).
    fn lower_bound(self) -> f64 {
        1.0 - false_alarm_bound(self.frames - self.unlike, self.frames, CONFIDENCE)
    }
}

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
            above(Signal::Drift, signals.drifted.map(DriftedFrames::lower_bound), self.drift),
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
        drift: 0.3,
    };

    fn episode(first: usize, is_right: bool, lost: usize, total_reward: f64) -> EpisodeSummary {
        let (called_frames, right_frames) = (20, if is_right { 18 } else { 2 });
        EpisodeSummary {
            steps: 50,
            first_success: Some(first),
            lost,
            called_frames,
            right_frames,
            total_reward,
        }
    }

    fn names(signals: &Signals, before: &[f64]) -> Vec<&'static str> {
        LIMITS.alarms(signals, before).iter().map(|alarm| alarm.signal.name()).collect()
    }

    fn seen(episodes: &[EpisodeSummary], ood_checks: &[OodCheck]) -> Signals {
        let compared = Some(SuccessComparison::episodes(episodes));
        Signals::of(CheckInput { episodes, ood_checks, compared, ..CheckInput::default() })
    }

    #[test]
    fn where_only_ends_are_rewarded_what_is_always_the_same_is_left_out() {
        let at_end = |is_right: bool| EpisodeSummary {
            steps: 50,
            first_success: Some(50),
            called_frames: 1,
            right_frames: usize::from(is_right),
            lost: 0,
            total_reward: 1.0,
        };
        let episodes: Vec<_> = (0..40).map(|i| at_end(i % 2 == 0)).collect();
        let compared = Some(SuccessComparison::episodes(&episodes));
        let drifted = Some(DriftedFrames { frames: 40, unlike: 30 });
        let input = CheckInput { episodes: &episodes, compared, drifted, ends_only: true, ood_checks: &[] };
        let signals = Signals::of(input);
        assert_eq!((signals.first_success, signals.dithering, signals.concentration), (None, None, None));
        assert_eq!(names(&signals, &[]), ["false_success", "drift"]);
        let values = signals.values();
        assert!(values.contains(&("hacking/drift".into(), 0.75)), "{values:?}");
        let few =
            CheckInput { drifted: Some(DriftedFrames { frames: 40, unlike: 15 }), compared: None, ..input };
        assert!(names(&Signals::of(few), &[]).is_empty(), "15 of 40 may be 30 %");
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
