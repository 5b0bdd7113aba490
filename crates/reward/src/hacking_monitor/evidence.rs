//! Evidence that a rate has risen, look by look, with a stated rate of false alarms for the whole run.
//!
//! A monitor that looks forty times at 5 % raises a false alarm in most runs. So evidence is a bet: 1 at the beginning, times
//! what the rate of some alternative makes more likely than the limit does, frame by frame. While the rate is at or below the
//! limit, no strategy makes the bet grow on average, so it ever reaches `1 / share` in at most that share of runs, however often
//! somebody looks (Ville's inequality). A change may come at any look: a bet is begun at each of them, with a part of the stake;
//! and the rate after the change is unknown: each bet is spread over rates above the limit. The mean of several bets is such
//! a bet as well, so that many signals share one stake, and what several of them see adds up ([`super::RunEvidence`]).

use crate::audit::false_alarm_bound;

/// Rates that a bet is spread over, as multiples of the odds of the limit: most changes that matter are small ones.
const ODDS_RATIOS: [f64; 8] = [2.0, 3.0, 4.5, 7.0, 12.0, 25.0, 60.0, 200.0];
/// Looks within which a change is expected: bets begun at look t have the part h / ((t + h - 1) (t + h)) of the stake, which
/// adds up to 1.
const HORIZON: f64 = 10.0;
/// Frames or episodes behind the first limit, before anything is compared with it: with none in 256, at the default share for each
/// signal, the bound is about what is tolerated anyway. With each doubling there is a tighter limit, of all that was seen until then.
const BASELINE: usize = 256;
/// How many such limits there are at most.
const LIMITS: usize = 5;
/// A rate that is no reason for an alarm, however sure it is: a model is not right about every frame.
const TOLERATED: f64 = 0.02;

/// What was looked at, and in how many of it something was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LookCount {
    /// Frames or episodes, of which no two are of one episode.
    pub looked_at: usize,
    /// Those with what is counted.
    pub seen: usize,
}

impl LookCount {
    /// The share.
    #[must_use]
    pub fn rate(self) -> Option<f64> {
        (self.looked_at > 0).then(|| self.seen as f64 / self.looked_at as f64)
    }

    fn plus(self, other: Self) -> Self {
        Self { looked_at: self.looked_at + other.looked_at, seen: self.seen + other.seen }
    }
}

/// Bets against "the rate is at most the limit".
#[derive(Debug, Clone)]
struct Bets {
    limit: f64,
    /// For each alternative, the sum over all beginnings, as a logarithm.
    log_sums: [f64; ODDS_RATIOS.len()],
    looks: u64,
}

impl Bets {
    fn against(limit: f64) -> Self {
        Self { limit, log_sums: [f64::NEG_INFINITY; ODDS_RATIOS.len()], looks: 0 }
    }

    /// Takes a look into account; gives the logarithm of what the stake has become.
    fn take(&mut self, look: LookCount) -> f64 {
        self.looks += 1;
        let t = self.looks as f64;
        let begun = (HORIZON / ((t + HORIZON - 1.0) * (t + HORIZON))).ln();
        let (seen, not_seen) = (look.seen as f64, (look.looked_at - look.seen) as f64);
        for (sum, ratio) in self.log_sums.iter_mut().zip(ODDS_RATIOS) {
            let odds = ratio * self.limit / (1.0 - self.limit);
            let rate = odds / (1.0 + odds);
            let gain = seen * (rate / self.limit).ln() + not_seen * ((1.0 - rate) / (1.0 - self.limit)).ln();
            *sum = log_add(*sum, begun) + gain;
        }
        let not_begun = (HORIZON / (t + HORIZON)).ln();
        let all = self.log_sums.iter().fold(f64::NEG_INFINITY, |sum, one| log_add(sum, *one));
        log_add(all - (ODDS_RATIOS.len() as f64).ln(), not_begun)
    }
}

/// The logarithm of a sum, from those of its parts.
pub(super) fn log_add(a: f64, b: f64) -> f64 {
    let (low, high) = if a < b { (a, b) } else { (b, a) };
    if low == f64::NEG_INFINITY { high } else { high + (low - high).exp().ln_1p() }
}

/// A rate that should not rise: beyond what is ever accepted, or beyond what it was when the run began.
#[derive(Debug, Clone)]
pub struct RateMonitor {
    /// What is never accepted, if anything is; tested from the first look on.
    absolute: Option<Test>,
    /// What all looks found that a limit may go by.
    baseline: LookCount,
    /// Against upper bounds of what was found in the first looks, and in more and more of them; each tested from then on.
    relative: Vec<Test>,
    /// The share of honest runs in which those bounds may be too low: half of it for the first, a quarter for the second, ….
    bound_share: f64,
    /// What it was at the last look.
    rate: f64,
}

/// The part of a stake or a share that the limit of this number has: a half, a quarter, and so on.
fn part(number: usize) -> f64 {
    0.5f64.powi(number as i32 + 1)
}

/// Bets, and what became of their stake so far, as a logarithm.
#[derive(Debug, Clone)]
struct Test {
    bets: Bets,
    log_stake: f64,
}

impl Test {
    fn against(limit: f64) -> Self {
        // A signal that is on from the beginning says nothing by rising; there is no rate above 1 to bet on.
        Self { bets: Bets::against(limit.clamp(TOLERATED, 0.999)), log_stake: 0.0 }
    }
}

/// A rate that has risen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RisenRate {
    /// What it was at this look.
    pub rate: f64,
    /// What it should not be above.
    pub limit: f64,
}

impl RateMonitor {
    /// `bound_share` is the share of honest runs in which the bound of the first looks may be too low; `never_above` a rate that
    /// is not accepted even if the run begins with it.
    ///
    /// # Panics
    /// Unless the share is between 0 and 1.
    #[must_use]
    pub fn new(bound_share: f64, never_above: Option<f64>) -> Self {
        assert!(bound_share > 0.0 && bound_share < 1.0, "a share between 0 and 1");
        let absolute = never_above.filter(|limit| *limit < 1.0).map(Test::against);
        Self { absolute, baseline: LookCount::default(), relative: Vec::new(), bound_share, rate: 0.0 }
    }

    /// Takes a look into account.
    pub fn take(&mut self, look: LookCount) {
        let Some(rate) = look.rate() else { return };
        self.rate = rate;
        for test in self.absolute.iter_mut().chain(&mut self.relative) {
            test.log_stake = test.bets.take(look);
        }
        self.baseline = self.baseline.plus(look);
        if self.relative.len() < LIMITS && self.baseline.looked_at >= BASELINE << self.relative.len() {
            let LookCount { looked_at, seen } = self.baseline;
            let share = self.bound_share * part(self.relative.len());
            self.relative.push(Test::against(false_alarm_bound(seen, looked_at, 1.0 - share)));
        }
    }

    /// The logarithm of what its stake has become. Half of it bets against what is never accepted, and the rest against bounds: half
    /// of that against the first, a quarter against the second, and so on.
    pub(super) fn log_stake(&self) -> f64 {
        let absolute = self.absolute.as_ref().map_or(0.0, |test| test.log_stake);
        let bets = self.relative.iter().enumerate().map(|(at, test)| test.log_stake + part(at).ln());
        let not_begun = part(self.relative.len()).ln() + 2f64.ln();
        log_add(absolute, bets.fold(not_begun, log_add)) - 2f64.ln()
    }

    /// What has risen, if the stake has become `enough` (a logarithm); the next alarm needs evidence of its own.
    pub(super) fn take_alarm(&mut self, enough: f64) -> Option<RisenRate> {
        if self.log_stake() < enough {
            return None;
        }
        let tests = self.absolute.iter_mut().chain(&mut self.relative);
        let strongest = tests.max_by(|a, b| a.log_stake.total_cmp(&b.log_stake))?;
        let limit = strongest.bets.limit;
        *strongest = Test::against(limit);
        Some(RisenRate { rate: self.rate, limit })
    }

    /// What the rate should not be above, where that is known yet.
    #[must_use]
    pub fn limit(&self) -> Option<f64> {
        let limits = self.absolute.iter().chain(&self.relative).map(|test| test.bets.limit);
        limits.reduce(f64::min)
    }
}

#[cfg(test)]
mod tests {
    use plaudit_core::{Rng, Seed};

    use super::*;

    fn look(rng: &mut Rng, rate: f64, looked_at: usize) -> LookCount {
        LookCount { looked_at, seen: (0..looked_at).filter(|_| rng.unit() < rate).count() }
    }

    /// The first look with an alarm, of forty; the rate is `before` until look `change`, and `after` from then on.
    fn first_alarm(
        seed: u64,
        before: f64,
        after: f64,
        change: usize,
        never_above: Option<f64>,
    ) -> Option<usize> {
        let mut rng = Seed::new(seed).purpose("evidence").rng();
        let mut monitor = RateMonitor::new(0.01, never_above);
        (1..=40).find(|at| {
            let rate = if *at < change { before } else { after };
            monitor.take(look(&mut rng, rate, 64));
            monitor.take_alarm(-0.04f64.ln()).is_some()
        })
    }

    /// The promise: runs whose rate never changes raise an alarm in at most 5 % of cases, over forty looks.
    #[test]
    fn honest_runs_raise_alarms_as_rarely_as_promised() {
        for rate in [0.0, 0.01, 0.05, 0.2, 0.6] {
            let runs = 300;
            let alarms = (0..runs).filter(|seed| first_alarm(*seed, rate, rate, 0, None).is_some()).count();
            // Three standard deviations of a share of 5 % in 300 runs are 0.038.
            assert!((alarms as f64) < (0.05 + 0.038) * runs as f64, "{alarms} of {runs} at {rate}");
        }
    }

    #[test]
    fn a_rate_at_the_limit_that_is_never_accepted_raises_as_few() {
        let runs = 1000;
        let alarms = (0..runs).filter(|seed| first_alarm(*seed, 0.3, 0.3, 0, Some(0.3)).is_some()).count();
        assert!((alarms as f64) < (0.05 + 0.021) * f64::from(runs as u32), "{alarms} of {runs}");
    }

    #[test]
    fn a_rate_that_rises_is_noticed_soon() {
        for (before, after, within) in [(0.0, 0.25, 2), (0.01, 0.4, 1), (0.1, 0.5, 2), (0.3, 0.7, 2)] {
            let late = (0..200).filter(|seed| {
                let alarm = first_alarm(*seed, before, after, 21, None);
                !alarm.is_some_and(|at| (21..21 + within + 1).contains(&at))
            });
            let late = late.count();
            assert!(late <= 30, "{before} to {after}: {late} of 200 not within {within} looks");
        }
    }

    #[test]
    fn a_run_that_begins_with_it_is_noticed_only_by_what_is_never_accepted() {
        assert_eq!(first_alarm(3, 0.8, 0.8, 0, None), None);
        assert_eq!(first_alarm(3, 0.8, 0.8, 0, Some(0.3)), Some(1));
    }

    /// Bets are fair: at the limit, what one look makes of the stake is 1 on average. Every outcome of a look is summed up.
    #[test]
    fn the_stake_does_not_grow_on_average() {
        let looked_at = 12;
        for limit in [0.05f64, 0.3, 0.7] {
            let mut ways = 1.0f64;
            let mut mean = 0.0;
            for seen in 0..=looked_at {
                let probability =
                    ways * limit.powi(seen as i32) * (1.0 - limit).powi((looked_at - seen) as i32);
                mean += probability * Bets::against(limit).take(LookCount { looked_at, seen }).exp();
                ways = ways * (looked_at - seen) as f64 / (seen + 1) as f64;
            }
            assert!((mean - 1.0).abs() < 1e-9, "{mean} at {limit}");
        }
    }
}
