//! Whether a rate has risen, check by check, with a stated rate of false alarms for the whole run.
//!
//! The newest checks are compared with all before them: the last one alone, the last two, four and eight, since a change may be
//! sudden or slow. Each comparison is an exact test of two shares ([`chance_of_rise`]). A monitor that looks forty times at 5 % raises a
//! false alarm in most runs, so each comparison has a part of the stated share, and the parts of all looks, however many, add up to it.

use super::rate_test::{chance_above, chance_of_rise};

/// How many of the newest looks are compared with those before them.
const WINDOWS: [usize; 4] = [1, 2, 4, 8];
/// Looks within which a change is expected: look t has the part h / ((t + h - 1) (t + h)) of the share, which adds up to 1.
const HORIZON: f64 = 20.0;
/// Frames or episodes before which nothing is compared with them.
const BASELINE: usize = 128;
/// By how much a rate may rise without a reason for an alarm, however sure it is: policies change while they learn.
const TOLERATED: f64 = 0.01;
/// The part of the share that tests against a limit have: who begins beyond one is far beyond it.
const OF_LIMITS: f64 = 0.2;

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

    fn total(looks: &[Self]) -> Self {
        looks.iter().fold(Self::default(), |all, look| Self {
            looked_at: all.looked_at + look.looked_at,
            seen: all.seen + look.seen,
        })
    }
}

/// A rate that should not rise: beyond what is ever accepted, or beyond what it was before.
#[derive(Debug, Clone)]
pub struct RateMonitor {
    /// What is never accepted, if anything is; tested from the first look on.
    never_above: Option<f64>,
    /// By how much it may rise without a reason for an alarm, in its standard deviations: √(p (1 - p)) for a rate p.
    tolerated: f64,
    /// What earlier looks found, without those that raised an alarm: what they found is no measure.
    looks: Vec<LookCount>,
    /// Looks since the last alarm: the next one needs evidence of its own.
    since_alarm: usize,
    /// All looks, of which each has its part of the share.
    looked: u64,
}

/// A rate that has risen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RisenRate {
    /// What it was at this look.
    pub rate: f64,
    /// What it should not be above.
    pub limit: f64,
    /// What it was before, where the limit goes by that.
    pub usual: Option<f64>,
}

impl RateMonitor {
    /// `never_above` is a rate that is not accepted even if the run begins with it.
    #[must_use]
    pub fn new(never_above: Option<f64>) -> Self {
        let never_above = never_above.filter(|limit| *limit < 1.0);
        Self { never_above, tolerated: 0.0, looks: Vec::new(), since_alarm: 0, looked: 0 }
    }

    /// The same, of a rate that may rise by so many of its standard deviations, where that is more than a point. That is about the
    /// effect size h (Cohen, 1988): a rate of 0.4 wavers more than one of 0.02 does.
    #[must_use]
    pub fn tolerating(self, deviations: f64) -> Self {
        Self { tolerated: deviations, ..self }
    }

    /// What the rate has been so far, without looks that raised an alarm.
    #[must_use]
    pub fn usual(&self) -> Option<f64> {
        LookCount::total(&self.looks).rate()
    }

    /// Forgets what the rate was: what is counted is another thing from now on.
    pub fn forget(&mut self) {
        self.looks.clear();
        self.since_alarm = 0;
    }

    /// Takes a look into account, and says what has risen. `share` is that of honest runs in which this rate may raise an alarm, ever.
    pub fn take(&mut self, look: LookCount, share: f64) -> Option<RisenRate> {
        let rate = look.rate()?;
        self.looked += 1;
        self.looks.push(look);
        self.since_alarm += 1;
        let t = self.looked as f64;
        let of_look = share * HORIZON / ((t + HORIZON - 1.0) * (t + HORIZON));
        let of_window = of_look / WINDOWS.len() as f64;
        let (window, (limit, usual)) = WINDOWS.iter().find_map(|window| {
            let newest = (*window <= self.since_alarm).then_some(*window)?;
            Some((newest, self.exceeded(newest, of_window)?))
        })?;
        self.looks.truncate(self.looks.len() - window);
        self.since_alarm = 0;
        Some(RisenRate { rate, limit, usual })
    }

    /// The limit that the newest looks are above, if that is no chance, and what the rate was before, if the limit goes by it.
    fn exceeded(&self, newest: usize, share: f64) -> Option<(f64, Option<f64>)> {
        let (before, after) = self.looks.split_at(self.looks.len() - newest);
        let (before, after) = (LookCount::total(before), LookCount::total(after));
        let share = match self.never_above {
            Some(limit) if chance_above(after, limit) <= OF_LIMITS * share => return Some((limit, None)),
            Some(_) => (1.0 - OF_LIMITS) * share,
            None => share,
        };
        let (usual, now) = (before.rate()?, after.rate()?);
        let tolerated = TOLERATED.max(self.tolerated * (usual * (1.0 - usual)).sqrt());
        let limit = usual + tolerated;
        // Quicker than the test itself, and never stricter: it takes the rate before for known.
        let may_have_risen =
            before.looked_at >= BASELINE && now > limit && chance_above(after, limit) <= share;
        (may_have_risen && chance_of_rise(before, after, tolerated) <= share).then_some((limit, Some(usual)))
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
        let mut monitor = RateMonitor::new(never_above);
        (1..=40).find(|at| {
            let rate = if *at < change { before } else { after };
            monitor.take(look(&mut rng, rate, 64), 0.05).is_some()
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
        for (before, after, within) in
            [(0.0, 0.25, 1), (0.01, 0.4, 1), (0.1, 0.5, 1), (0.3, 0.7, 1), (0.05, 0.15, 4)]
        {
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

    /// What raised an alarm is no measure for what comes later, and an alarm is raised again only by new looks.
    #[test]
    fn an_alarm_is_repeated_while_its_reason_lasts() {
        let (usual, odd) = (LookCount { looked_at: 64, seen: 2 }, LookCount { looked_at: 64, seen: 40 });
        let mut monitor = RateMonitor::new(None);
        assert!((0..10).all(|_| monitor.take(usual, 0.05).is_none()));
        assert!((0..6).all(|_| monitor.take(odd, 0.05).is_some()));
        assert!(monitor.take(usual, 0.05).is_none());
    }
}
