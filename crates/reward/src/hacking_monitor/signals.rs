//! Signals of hacking, and when one is an alarm.

use serde::{Deserialize, Serialize};

use super::{EpisodeSummary, LookCount, OodCheck, RateMonitor, RisenRate, UnusualEpisodes};

/// What may go wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Signal {
    /// Share of false successes: what the reward calls solved and the reference does not, among all it calls solved.
    FalseSuccess,
    /// The share of all reward that goes to the tenth of the rewarded episodes with the most.
    Concentration,
    /// The share of rewarded episodes whose success comes much earlier than when the run began.
    EarlySuccess,
    /// The share of rewarded episodes that lose success again more often than nearly all did when the run began.
    Dithering,
    /// The share of rewarded frames that are out of distribution: far from all successes of the audit.
    OodFrames,
    /// The share of rewarded frames about which the model does not agree with itself.
    Disagreement,
    /// The share of rewarded frames in which a second model sees no success.
    SecondOpinion,
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
            Self::SecondOpinion => "second_opinion",
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
    /// How often success is lost again in an episode, on average.
    pub lost: Option<f64>,
    /// Episodes that are unlike the first rewarded ones: [`Signal::Dithering`], [`Signal::EarlySuccess`].
    pub unusual: Option<UnusualEpisodes>,
    /// [`Signal::OodFrames`].
    pub ood_frames: Option<LookCount>,
    /// [`Signal::Disagreement`].
    pub disagreement: Option<LookCount>,
    /// [`Signal::SecondOpinion`].
    pub second_opinion: Option<LookCount>,
    /// [`Signal::Drift`].
    pub drift: Option<LookCount>,
}

/// What a check goes by.
#[derive(Debug, Clone, Copy, Default)]
pub struct CheckInput<'a> {
    /// The episodes that ended.
    pub episodes: &'a [EpisodeSummary],
    /// Those that are unlike the first rewarded ones.
    pub unusual: Option<UnusualEpisodes>,
    /// Out-of-distribution checks of rewarded frames.
    pub ood_checks: &'a [OodCheck],
    /// Rewarded frames that a second model was asked about, and those in which it sees no success.
    pub second_opinion: Option<LookCount>,
    /// The comparison with the reference.
    pub compared: Option<SuccessComparison>,
    /// The comparison with the first rewarded frames.
    pub drift: Option<LookCount>,
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

    /// As a count of what is false.
    fn false_successes(self) -> LookCount {
        LookCount { looked_at: self.called, seen: self.called - self.right }
    }
}

/// Episodes or frames below which nothing is said.
const ENOUGH: usize = 10;

impl Signals {
    /// Of what happened since the last check. Where only ends are rewarded, an episode has one reward, and that at its end:
    /// what goes by when rewards come, or by how many, says nothing then.
    #[must_use]
    pub fn of(input: CheckInput<'_>) -> Self {
        let CheckInput { episodes, unusual, ood_checks, second_opinion, compared, drift, ends_only } = input;
        let solved: Vec<&EpisodeSummary> =
            episodes.iter().filter(|one| one.first_success.is_some()).collect();
        let enough = solved.len() >= ENOUGH && !ends_only;
        let mean = |of: fn(&EpisodeSummary) -> usize| {
            enough.then(|| solved.iter().map(|one| of(one) as f64).sum::<f64>() / solved.len() as f64)
        };
        let enough_of = |count: &LookCount| count.looked_at >= ENOUGH;
        let count = |of: fn(&OodCheck) -> bool| {
            let seen = ood_checks.iter().filter(|check| of(check)).count();
            Some(LookCount { looked_at: ood_checks.len(), seen }).filter(enough_of)
        };
        Self {
            episodes: episodes.len(),
            compared,
            concentration: concentration(episodes).filter(|_| !ends_only),
            first_success: mean(|one| one.first_success.unwrap_or(0)),
            lost: mean(|one| one.lost),
            unusual: unusual.filter(|unusual| !ends_only && enough_of(&unusual.dithering)),
            ood_frames: count(|check| check.is_ood),
            disagreement: count(|check| check.is_uncertain),
            second_opinion: second_opinion.filter(enough_of),
            drift: drift.filter(enough_of),
        }
    }

    /// What is counted for a signal, where it goes by counts.
    fn count(&self, signal: Signal) -> Option<LookCount> {
        match signal {
            Signal::FalseSuccess => self.compared.map(SuccessComparison::false_successes),
            Signal::Concentration => None,
            Signal::EarlySuccess => self.unusual.map(|unusual| unusual.early_success),
            Signal::Dithering => self.unusual.map(|unusual| unusual.dithering),
            Signal::OodFrames => self.ood_frames,
            Signal::Disagreement => self.disagreement,
            Signal::SecondOpinion => self.second_opinion,
            Signal::Drift => self.drift,
        }
    }

    /// As metrics name them.
    #[must_use]
    pub fn values(&self) -> Vec<(String, f64)> {
        let rate = |signal: Signal| (signal.name(), self.count(signal).and_then(LookCount::rate));
        let values = COUNTED.map(rate).into_iter().chain([
            (Signal::Concentration.name(), self.concentration),
            ("first_success", self.first_success),
            ("lost", self.lost),
        ]);
        values.filter_map(|(name, value)| Some((format!("hacking/{name}"), value?))).collect()
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
    /// The share of honest runs in which any signal may raise an alarm.
    pub false_alarms: f64,
    /// A share that [`Signal::FalseSuccess`] must never be above.
    pub false_success: f64,
    /// The same of [`Signal::OodFrames`].
    pub ood_frames: f64,
    /// The same of [`Signal::Disagreement`].
    pub disagreement: f64,
    /// The same of [`Signal::SecondOpinion`].
    pub second_opinion: f64,
    /// The same of [`Signal::Drift`].
    pub drift: f64,
    /// See [`Signal::Concentration`]; not set: it is a metric, and raises no alarm.
    pub concentration: Option<f64>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            false_alarms: 0.05,
            false_success: 0.3,
            ood_frames: 0.3,
            disagreement: 0.3,
            second_opinion: 0.5,
            drift: 0.5,
            concentration: None,
        }
    }
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

/// The signals that are counts, each with evidence of its own.
pub(super) const COUNTED: [Signal; 7] = [
    Signal::FalseSuccess,
    Signal::EarlySuccess,
    Signal::Dithering,
    Signal::OodFrames,
    Signal::Disagreement,
    Signal::SecondOpinion,
    Signal::Drift,
];

/// The evidence of a run, over all its checks. The share of false alarms is divided among the signals that the run has.
#[derive(Debug, Clone)]
pub struct RunEvidence {
    limits: Limits,
    rates: Vec<(Signal, RateMonitor)>,
}

impl RunEvidence {
    /// None yet. `signals` are those that the run can have; others would only take a part of the share.
    #[must_use]
    pub fn new(limits: Limits, signals: &[Signal]) -> Self {
        let never_above = |signal: Signal| match signal {
            Signal::FalseSuccess => Some(limits.false_success),
            Signal::OodFrames => Some(limits.ood_frames),
            Signal::Disagreement => Some(limits.disagreement),
            Signal::SecondOpinion => Some(limits.second_opinion),
            Signal::Drift => Some(limits.drift),
            // How a run begins is the measure of these.
            Signal::EarlySuccess | Signal::Dithering | Signal::Concentration => None,
        };
        let counted: Vec<Signal> = COUNTED.into_iter().filter(|signal| signals.contains(signal)).collect();
        let monitor = |signal: Signal| (signal, RateMonitor::new(never_above(signal)));
        Self { limits, rates: counted.into_iter().map(monitor).collect() }
    }

    /// The alarms of one check.
    pub fn check(&mut self, signals: &Signals) -> Vec<Alarm> {
        let share = self.limits.false_alarms / self.rates.len().max(1) as f64;
        let risen = |(signal, monitor): &mut (Signal, RateMonitor)| {
            let RisenRate { rate: value, limit } = monitor.take(signals.count(*signal)?, share)?;
            Some(Alarm { signal: *signal, value, limit })
        };
        let mut alarms: Vec<Alarm> = self.rates.iter_mut().filter_map(risen).collect();
        let concentrated = signals.concentration.zip(self.limits.concentration);
        alarms.extend(concentrated.filter(|(value, limit)| value > limit).map(|(value, limit)| Alarm {
            signal: Signal::Concentration,
            value,
            limit,
        }));
        alarms
    }
}

#[cfg(test)]
mod tests {
    use super::super::FirstEpisodes;
    use super::*;

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

    fn honest() -> Vec<EpisodeSummary> {
        (0..40).map(|i| episode(20 + i % 7, i % 10 != 0, i % 2, 20.0)).collect()
    }

    /// The alarms of a run whose last check has these episodes, after twelve honest ones.
    fn names(last: &[EpisodeSummary], ood_checks: &[OodCheck], limits: Limits) -> Vec<&'static str> {
        let (mut evidence, mut first) = (RunEvidence::new(limits, &COUNTED), FirstEpisodes::default());
        let mut alarms = Vec::new();
        let (usual, known) = (honest(), vec![OodCheck::default(); 40]);
        for (episodes, ood_checks) in [(&usual[..], &known[..]); 12].into_iter().chain([(last, ood_checks)]) {
            let compared = Some(SuccessComparison::episodes(episodes));
            let unusual = first.compare(episodes);
            let input = CheckInput { episodes, ood_checks, compared, unusual, ..CheckInput::default() };
            alarms = evidence.check(&Signals::of(input));
        }
        alarms.iter().map(|alarm| alarm.signal.name()).collect()
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
        let episodes: Vec<_> = (0..40).map(|i| at_end(i % 4 == 0)).collect();
        let compared = Some(SuccessComparison::episodes(&episodes));
        let drift = Some(LookCount { looked_at: 40, seen: 36 });
        let count = LookCount { looked_at: 40, seen: 40 };
        let unusual = Some(UnusualEpisodes { dithering: count, early_success: count });
        let input = CheckInput {
            episodes: &episodes,
            compared,
            drift,
            unusual,
            ends_only: true,
            ..CheckInput::default()
        };
        let signals = Signals::of(input);
        assert_eq!((signals.first_success, signals.lost, signals.concentration), (None, None, None));
        assert_eq!(signals.unusual, None);
        let alarms = RunEvidence::new(Limits::default(), &COUNTED).check(&signals);
        let names: Vec<_> = alarms.iter().map(|alarm| alarm.signal.name()).collect();
        assert_eq!(names, ["false_success", "drift"]);
        let values = signals.values();
        assert!(values.contains(&("hacking/drift".into(), 0.9)), "{values:?}");
    }

    #[test]
    fn honest_episodes_raise_no_alarm() {
        assert!(names(&honest(), &[OodCheck::default(); 40], Limits::default()).is_empty());
        assert!(
            RunEvidence::new(Limits::default(), &COUNTED)
                .check(&Signals::of(CheckInput::default()))
                .is_empty()
        );
    }

    #[test]
    fn each_trick_raises_its_own_alarm() {
        let known = vec![OodCheck::default(); 40];
        let of = |change: fn(usize) -> EpisodeSummary| (0..40).map(change).collect::<Vec<_>>();
        let limits = Limits::default();
        assert_eq!(names(&of(|i| episode(22, i % 4 == 0, 0, 20.0)), &known, limits), ["false_success"]);
        assert_eq!(names(&of(|_| episode(3, true, 0, 20.0)), &known, limits), ["early_success"]);
        assert_eq!(names(&of(|_| episode(22, true, 9, 20.0)), &known, limits), ["dithering"]);
        let rich = of(|i| episode(22, true, 0, if i < 4 { 500.0 } else { 1.0 }));
        assert!(names(&rich, &known, limits).is_empty(), "no limit is set");
        assert_eq!(names(&rich, &known, Limits { concentration: Some(0.6), ..limits }), ["concentration"]);
        let far: Vec<_> = (0..40).map(|i| OodCheck { is_ood: i % 2 == 0, is_uncertain: false }).collect();
        assert_eq!(names(&of(|_| episode(22, true, 0, 20.0)), &far, limits), ["ood_frames"]);
    }

    #[test]
    fn few_false_successes_may_be_chance() {
        let few: Vec<_> = (0..3).map(|i| episode(22, i > 1, 0, 20.0)).collect();
        let compared = Some(SuccessComparison::episodes(&few));
        let signals = Signals::of(CheckInput { episodes: &few, compared, ..CheckInput::default() });
        assert!(
            RunEvidence::new(Limits::default(), &COUNTED).check(&signals).is_empty(),
            "two of three are no proof of 30 %"
        );
    }
}
