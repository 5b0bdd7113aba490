//! How well rows that may break keep their control period and their limits over a whole run, in little memory.

use plaudit_core::{BROKEN_LIMITS_FACT, PERIOD_FACT, Step};

/// Periods are told apart by so much, seconds.
const RESOLUTION: f64 = 0.0005;
/// Longer ones count as this many times the resolution.
const BINS: usize = 4000;

/// A histogram of control periods, and how often a limit was broken.
#[derive(Debug, Clone, Default)]
pub(crate) struct ControlStats {
    counts: Vec<u64>,
    total: u64,
    broken_limits: Option<f64>,
}

impl ControlStats {
    /// Takes in a step, as far as its environment measures anything.
    pub(crate) fn add(&mut self, step: &Step) {
        let fact = |wanted: &str| {
            let found = step.facts.iter().find(|(name, _)| &**name == wanted);
            found.and_then(|(_, values)| values.first()).map(|value| f64::from(*value))
        };
        // Steps of a broken episode count nothing.
        self.broken_limits = match (self.broken_limits, fact(BROKEN_LIMITS_FACT)) {
            (Some(before), Some(now)) => Some(before.max(now)),
            (before, now) => before.or(now),
        };
        let period = fact(PERIOD_FACT).unwrap_or(0.0);
        if period > 0.0 {
            self.counts.resize(BINS, 0);
            let bin = (period / RESOLUTION).round() as usize;
            self.counts[bin.min(BINS - 1)] += 1;
            self.total += 1;
        }
    }

    /// Commands that broke a limit; nothing where nobody counts.
    pub(crate) fn broken_limits(&self) -> Option<f64> {
        self.broken_limits
    }

    /// The period that this share of all steps does not exceed, seconds.
    pub(crate) fn quantile(&self, share: f64) -> Option<f64> {
        let rank = (share * self.total as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        let bin = self.counts.iter().position(|count| {
            seen += count;
            seen >= rank
        })?;
        Some(bin as f64 * RESOLUTION)
    }
}

#[cfg(test)]
mod tests {
    use plaudit_core::{End, Obs};

    use super::*;

    fn step(period: f32) -> Step {
        Step {
            obs: Obs::from_state(1, vec![0.0]).unwrap(),
            reward: vec![0.0],
            end: vec![End::No],
            success: vec![false],
            last: vec![],
            facts: vec![
                (PERIOD_FACT.into(), vec![period]),
                (BROKEN_LIMITS_FACT.into(), vec![period.floor()]),
            ],
            interventions: vec![],
        }
    }

    #[test]
    fn quantiles_are_of_all_steps_that_were_measured() {
        let mut periods = ControlStats::default();
        assert_eq!((periods.quantile(0.5), periods.broken_limits()), (None, None));
        for period in [0.0, 0.1, 0.1, 0.1, 50.0] {
            periods.add(&step(period));
        }
        assert_eq!(periods.quantile(0.5), Some(0.1));
        assert_eq!(periods.quantile(0.75), Some(0.1));
        assert_eq!(periods.quantile(0.99), Some((BINS - 1) as f64 * RESOLUTION), "as long as is counted");
        periods.add(&step(0.0));
        assert_eq!(periods.broken_limits(), Some(50.0), "as many as ever");
    }
}
