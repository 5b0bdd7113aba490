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
    /// By how much the share of episodes in which the reward sees success is below that of all checks before. Policies learn to be
    /// rewarded: where the reward falls, the policy broke, or what it does now is no longer what the reward knows.
    SuccessDrop,
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
            Self::SuccessDrop => "success_drop",
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
    /// Episodes in which the reward sees no success, among all: [`Signal::SuccessDrop`] goes by how this rises.
    pub unrewarded: Option<LookCount>,
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
            unrewarded: Some(LookCount { looked_at: episodes.len(), seen: episodes.len() - solved.len() })
                .filter(enough_of),
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
            Signal::SuccessDrop => self.unrewarded,
        }
    }

    /// As metrics name them.
    #[must_use]
    pub fn values(&self) -> Vec<(String, f64)> {
        let rate = |signal: Signal| (signal.name(), self.count(signal).and_then(LookCount::rate));
        let rates = COUNTED.into_iter().filter(|signal| *signal != Signal::SuccessDrop).map(rate);
        let values = rates.chain([
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
pub(super) const COUNTED: [Signal; 8] = [
    Signal::FalseSuccess,
    Signal::EarlySuccess,
    Signal::Dithering,
    Signal::OodFrames,
    Signal::Disagreement,
    Signal::SecondOpinion,
    Signal::Drift,
    Signal::SuccessDrop,
];

/// By how many standard deviations of one episode success may fall without a reason for an alarm: policies have their ups and downs.
/// From 0.85 that is 3.6 points, from 0.5 five.
const TOLERATED_DROP: f64 = 0.1;

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
            Signal::EarlySuccess | Signal::Dithering | Signal::Concentration | Signal::SuccessDrop => None,
        };
        let counted: Vec<Signal> = COUNTED.into_iter().filter(|signal| signals.contains(signal)).collect();
        let tolerated = |signal: Signal| if signal == Signal::SuccessDrop { TOLERATED_DROP } else { 0.0 };
        let monitor =
            |signal: Signal| (signal, RateMonitor::new(never_above(signal)).tolerating(tolerated(signal)));
        Self { limits, rates: counted.into_iter().map(monitor).collect() }
    }

    /// [`Signal::SuccessDrop`] of a check that has not been taken into account yet.
    #[must_use]
    pub fn success_drop(&self, signals: &Signals) -> Option<f64> {
        let (_, monitor) = self.rates.iter().find(|(signal, _)| *signal == Signal::SuccessDrop)?;
        Some(signals.unrewarded?.rate()? - monitor.usual()?)
    }

    /// From now on less is rewarded, by a reward that was made stricter: what was rewarded before is no measure for that.
    pub fn forget_success(&mut self) {
        let of_success = self.rates.iter_mut().filter(|(signal, _)| *signal == Signal::SuccessDrop);
        of_success.for_each(|(_, monitor)| monitor.forget());
    }

    /// The alarms of one check.
    pub fn check(&mut self, signals: &Signals) -> Vec<Alarm> {
        let share = self.limits.false_alarms / self.rates.len().max(1) as f64;
        let risen = |(signal, monitor): &mut (Signal, RateMonitor)| {
            let RisenRate { rate, limit, usual } = monitor.take(signals.count(*signal)?, share)?;
            // A drop is told as one, not as what is left.
            let from = usual.filter(|_| *signal == Signal::SuccessDrop).unwrap_or(0.0);
            Some(Alarm { signal: *signal, value: rate - from, limit: limit - from })
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
    use plaudit_core::{Rng, Seed};

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

    /// Checks of which each has this share of its episodes rewarded.
    fn with_rewarded(rng: &mut Rng, share: f64, count: usize) -> Signals {
        let unsolved = EpisodeSummary { steps: 50, ..EpisodeSummary::default() };
        let one = |rng: &mut Rng| if rng.unit() < share { episode(22, true, 0, 20.0) } else { unsolved };
        let episodes: Vec<_> = (0..count).map(|_| one(rng)).collect();
        Signals::of(CheckInput { episodes: &episodes, ..CheckInput::default() })
    }

    #[test]
    fn success_that_falls_is_told_as_a_drop() {
        let mut rng = Seed::new(1).purpose("drop").rng();
        let mut evidence = RunEvidence::new(Limits::default(), &[Signal::SuccessDrop, Signal::Drift]);
        for _ in 0..4 {
            assert!(evidence.check(&with_rewarded(&mut rng, 0.8, 48)).is_empty());
        }
        let broken = with_rewarded(&mut rng, 0.05, 48);
        let drop = evidence.success_drop(&broken).unwrap();
        assert!(drop > 0.6 && drop < 0.9, "{drop}");
        let alarms = evidence.check(&broken);
        let [Alarm { signal: Signal::SuccessDrop, value, limit }] = alarms[..] else { panic!("{alarms:?}") };
        assert!((value - drop).abs() < 1e-9 && limit > 0.03 && limit < 0.05, "{alarms:?}");
        assert!(
            broken.values().iter().all(|(name, _)| name != "hacking/success_drop"),
            "not as what is left"
        );
    }

    #[test]
    fn a_stricter_reward_is_no_drop() {
        let mut rng = Seed::new(2).purpose("drop").rng();
        let mut evidence = RunEvidence::new(Limits::default(), &[Signal::SuccessDrop]);
        for _ in 0..4 {
            assert!(evidence.check(&with_rewarded(&mut rng, 0.9, 128)).is_empty());
        }
        evidence.forget_success();
        for _ in 0..8 {
            assert!(evidence.check(&with_rewarded(&mut rng, 0.5, 128)).is_empty());
        }
        assert!(!evidence.check(&with_rewarded(&mut rng, 0.1, 128)).is_empty());
    }

    /// Success that stays, rises, or falls by no more than is tolerated raises no alarm in 99 of 100 runs of forty checks; one
    /// that falls by 15 points within four checks raises one soon.
    #[test]
    fn success_may_rise_and_waver() {
        let first_alarm = |seed: u64, share: fn(usize) -> f64| {
            let mut rng = Seed::new(seed).purpose("waver").rng();
            let mut evidence = RunEvidence::new(Limits::default(), &[Signal::SuccessDrop, Signal::Drift]);
            (0..40).find(|check| !evidence.check(&with_rewarded(&mut rng, share(*check), 128)).is_empty())
        };
        let quiet: [fn(usize) -> f64; 4] = [
            |_| 0.85,
            |check| 0.6 + 0.01 * check as f64,
            |check| if check % 10 < 5 { 0.9 } else { 0.86 },
            |check| 0.95 - 0.001 * check as f64,
        ];
        for (number, share) in quiet.into_iter().enumerate() {
            let alarms = (0..200).filter(|seed| first_alarm(*seed, share).is_some()).count();
            assert!(alarms <= 4, "{number}: {alarms} of 200");
        }
        let falls = |check: usize| 0.9 - 0.0375 * check.saturating_sub(20).min(4) as f64;
        let late =
            (0..200).filter(|seed| !first_alarm(*seed, falls).is_some_and(|at| (20..28).contains(&at)));
        let late = late.count();
        assert!(late <= 20, "{late} of 200 not within four checks of having fallen");
    }

    /// The promise for a whole run: with every signal at a constant rate, 2,000 runs of forty checks raise alarms in at most 5 %.
    #[test]
    fn runs_with_all_signals_raise_alarms_as_rarely_as_promised() {
        const RUNS: u64 = 2000;
        let has_alarm = |seed: &u64| {
            let mut rng = Seed::new(*seed).purpose("family").rng();
            let mut evidence = RunEvidence::new(Limits::default(), &COUNTED);
            let mut count = |looked_at: usize, rate: f64| LookCount {
                looked_at,
                seen: (0..looked_at).filter(|_| rng.unit() < rate).count(),
            };
            (0..40).any(|_| {
                let wrong = count(64, 0.1);
                let signals = Signals {
                    compared: Some(SuccessComparison { called: 64, right: 64 - wrong.seen }),
                    unusual: Some(UnusualEpisodes {
                        dithering: count(64, 0.05),
                        early_success: count(64, 0.02),
                    }),
                    ood_frames: Some(count(64, 0.01)),
                    disagreement: Some(count(64, 0.02)),
                    second_opinion: Some(count(64, 0.2)),
                    drift: Some(count(64, 0.05)),
                    unrewarded: Some(count(64, 0.4)),
                    ..Signals::default()
                };
                !evidence.check(&signals).is_empty()
            })
        };
        let alarms = (0..RUNS).filter(has_alarm).count();
        // Three standard deviations of a share of 5 % in 2,000 runs are 0.015.
        assert!((alarms as f64) < (0.05 + 0.015) * RUNS as f64, "{alarms} of {RUNS}");
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
