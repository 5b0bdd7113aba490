//! Signals of hacking, and when one is an alarm.

use serde::{Deserialize, Serialize};

use super::{EpisodeSeen, Look};
use crate::audit::false_alarm_bound;

/// What may go wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Signal {
    /// What the reward calls solved and somebody who knows better does not, as a share of all it calls solved.
    FalseSuccess,
    /// The share of all pay that the best-paid tenth of the paid episodes got.
    Concentration,
    /// When the reward first sees success, as a share of when it did before.
    EarlySuccess,
    /// How often success is lost again in an episode, on average.
    Dithering,
    /// The share of rewarded frames that look like no success the model knows.
    FarFrames,
    /// The share of rewarded frames about which the model does not agree with itself.
    Disagreement,
}

impl Signal {
    /// Its name in logs: `watch/false_success`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::FalseSuccess => "false_success",
            Self::Concentration => "concentration",
            Self::EarlySuccess => "early_success",
            Self::Dithering => "dithering",
            Self::FarFrames => "far_frames",
            Self::Disagreement => "disagreement",
        }
    }
}

/// The signals of one look; `None` where there is too little to go by.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Signals {
    /// Episodes that ended.
    pub episodes: usize,
    /// What the reward calls solved, against somebody who knows better.
    pub compared: Option<Compared>,
    /// [`Signal::Concentration`].
    pub concentration: Option<f64>,
    /// The mean step at which the reward first sees success. Not the median, which leaps where some episodes begin solved.
    pub first_success: Option<f64>,
    /// [`Signal::Dithering`].
    pub dithering: Option<f64>,
    /// [`Signal::FarFrames`].
    pub far_frames: Option<f64>,
    /// [`Signal::Disagreement`].
    pub disagreement: Option<f64>,
}

/// What the reward calls solved, episodes or frames, against somebody who knows better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compared {
    /// How many the reward calls solved.
    pub called: usize,
    /// How many of them are.
    pub right: usize,
}

impl Compared {
    /// Episodes against the environment's truth.
    #[must_use]
    pub fn episodes(episodes: &[EpisodeSeen]) -> Self {
        let called = episodes.iter().filter(|one| one.first_success.is_some());
        Self { called: called.clone().count(), right: called.filter(|one| one.truly_solved).count() }
    }

    /// The rate of false successes that this shows at least, with confidence: the lower bound of Clopper and Pearson.
    fn surely_false(self) -> Option<f64> {
        // At most so many are right; what is not right is false.
        (self.called > 0).then(|| 1.0 - false_alarm_bound(self.right, self.called, CONFIDENCE))
    }
}

/// Episodes or frames below which nothing is said.
const ENOUGH: usize = 10;

impl Signals {
    /// Of the episodes that ended, of rewarded frames that were looked at closely, and of what somebody knows better.
    #[must_use]
    pub fn of(episodes: &[EpisodeSeen], looks: &[Look], compared: Option<Compared>) -> Self {
        let solved: Vec<&EpisodeSeen> = episodes.iter().filter(|one| one.first_success.is_some()).collect();
        let enough = solved.len() >= ENOUGH;
        let mean = |of: fn(&EpisodeSeen) -> usize| {
            enough.then(|| solved.iter().map(|one| of(one) as f64).sum::<f64>() / solved.len() as f64)
        };
        let share = |of: fn(&Look) -> bool| {
            let count = looks.iter().filter(|look| of(look)).count();
            (looks.len() >= ENOUGH).then(|| count as f64 / looks.len() as f64)
        };
        Self {
            episodes: episodes.len(),
            compared,
            concentration: concentration(episodes),
            first_success: mean(|one| one.first_success.unwrap_or(0)),
            dithering: mean(|one| one.lost),
            far_frames: share(|look| look.is_far),
            disagreement: share(|look| look.is_disputed),
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
            (Signal::FarFrames.name(), self.far_frames),
            (Signal::Disagreement.name(), self.disagreement),
        ];
        values.into_iter().filter_map(|(name, value)| Some((format!("watch/{name}"), value?))).collect()
    }
}

/// The share of all pay that the best-paid tenth of the paid episodes got.
fn concentration(episodes: &[EpisodeSeen]) -> Option<f64> {
    let mut paid: Vec<f64> = episodes.iter().map(|one| one.pay).filter(|pay| *pay > 0.0).collect();
    if paid.len() < 2 * ENOUGH {
        return None;
    }
    paid.sort_by(|a, b| b.total_cmp(a));
    Some(paid[..paid.len().div_ceil(10)].iter().sum::<f64>() / paid.iter().sum::<f64>())
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
    /// See [`Signal::FarFrames`].
    pub far_frames: f64,
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
    /// The alarms of one look. `before` is when success first came, in the mean, at earlier looks.
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
        let surely_false = signals.compared.and_then(Compared::surely_false);
        let false_success = above(Signal::FalseSuccess, surely_false, self.false_success);
        let others = [
            above(Signal::Concentration, signals.concentration, self.concentration),
            above(Signal::Dithering, signals.dithering, self.dithering),
            above(Signal::FarFrames, signals.far_frames, self.far_frames),
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
        far_frames: 0.2,
        disagreement: 0.2,
    };

    fn episode(first: usize, truly_solved: bool, lost: usize, pay: f64) -> EpisodeSeen {
        EpisodeSeen { steps: 50, first_success: Some(first), lost, truly_solved, pay }
    }

    fn names(signals: &Signals, before: &[f64]) -> Vec<&'static str> {
        LIMITS.alarms(signals, before).iter().map(|alarm| alarm.signal.name()).collect()
    }

    fn seen(episodes: &[EpisodeSeen], looks: &[Look]) -> Signals {
        Signals::of(episodes, looks, Some(Compared::episodes(episodes)))
    }

    #[test]
    fn honest_episodes_raise_no_alarm() {
        let episodes: Vec<_> = (0..40).map(|i| episode(20 + i % 7, i % 10 != 0, i % 2, 20.0)).collect();
        let looks = vec![Look::default(); 40];
        assert!(names(&seen(&episodes, &looks), &[24.0]).is_empty());
        assert!(names(&seen(&[], &[]), &[]).is_empty());
    }

    #[test]
    fn each_trick_raises_its_own_alarm() {
        let looks = vec![Look::default(); 40];
        let of = |change: fn(usize) -> EpisodeSeen| {
            let episodes: Vec<_> = (0..40).map(change).collect();
            seen(&episodes, &looks)
        };
        assert_eq!(names(&of(|i| episode(22, i % 2 == 0, 0, 20.0)), &[22.0]), ["false_success"]);
        assert_eq!(names(&of(|_| episode(3, true, 0, 20.0)), &[22.0]), ["early_success"]);
        assert_eq!(names(&of(|_| episode(22, true, 9, 20.0)), &[22.0]), ["dithering"]);
        assert_eq!(
            names(&of(|i| episode(22, true, 0, if i < 4 { 500.0 } else { 1.0 })), &[22.0]),
            ["concentration"]
        );
        let far: Vec<_> = (0..40).map(|i| Look { is_far: i % 2 == 0, is_disputed: false }).collect();
        let honest: Vec<_> = (0..40).map(|_| episode(22, true, 0, 20.0)).collect();
        assert_eq!(names(&seen(&honest, &far), &[22.0]), ["far_frames"]);
    }

    #[test]
    fn few_false_successes_may_be_chance() {
        let few: Vec<_> = (0..3).map(|i| episode(22, i > 1, 0, 20.0)).collect();
        assert!(names(&seen(&few, &[]), &[]).is_empty(), "two of three are no proof of 30 %");
    }
}
