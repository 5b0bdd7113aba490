//! How often a model is wrong at most, from checks that somebody looks at after each one.
//!
//! A Clopper-Pearson bound is meant for a number of checks that was fixed beforehand. Who looks after each check and stops as soon as
//! the bound is low enough would be wrong more often than promised. So the doubt is divided among the counts of wrong decisions: with
//! `e` of them, the bound has the confidence `1 - doubt / ((e + 1) (e + 2))`, and these shares add up to the whole doubt.
//!
//! That is enough for all numbers of checks together. For one `e` the bound falls as checks are added, so if it is ever below the true
//! rate while `e` are wrong, then at most `e` were wrong at the first number of checks at which it was below; and that number is fixed by
//! the rate and `e` alone. This happens with a probability of at most the share of `e`. Summed over `e`, the bound is ever too low with a
//! probability of at most the doubt.

use crate::audit::false_alarm_bound;

/// What checks say about the share of wrong decisions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ErrorBound {
    /// Frames chosen at random that have a label.
    pub checks: usize,
    /// Those that the model decides otherwise.
    pub wrong: usize,
    /// How sure the bound is, over all numbers of checks together.
    pub confidence: f64,
}

impl ErrorBound {
    /// The bound: the share of wrong decisions among all frames is at most this.
    #[must_use]
    pub fn upper(&self) -> f64 {
        let share = (self.wrong as f64 + 1.0) * (self.wrong as f64 + 2.0);
        false_alarm_bound(self.wrong, self.checks, 1.0 - (1.0 - self.confidence) / share)
    }

    /// How many checks would do if no more decisions were wrong.
    #[must_use]
    pub fn checks_for(&self, max_error: f64) -> usize {
        let is_enough = |checks: usize| Self { checks, ..*self }.upper() <= max_error;
        let mut high = self.checks.max(1);
        while !is_enough(high) && high < 1 << 24 {
            high *= 2;
        }
        let mut low = self.checks;
        while low < high {
            let middle = usize::midpoint(low, high);
            if is_enough(middle) { high = middle } else { low = middle + 1 }
        }
        low
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plaudit_core::Seed;

    fn bound(wrong: usize, checks: usize) -> ErrorBound {
        ErrorBound { checks, wrong, confidence: 0.95 }
    }

    /// Roots of the binomial distribution function at `0.05 / ((k + 1) (k + 2))`, by bisection with Python's exact fractions.
    #[test]
    fn a_bound_is_that_of_clopper_and_pearson_with_a_part_of_the_doubt() {
        for (wrong, checks, expected) in [
            (0, 71, 0.050_629_407_954_403_71),
            (0, 72, 0.049_944_083_705_854_68),
            (1, 10, 0.515_237_638_819_157_4),
            (3, 200, 0.058_130_486_023_310_196),
        ] {
            let found = bound(wrong, checks).upper();
            assert!((found - expected).abs() < 1e-9, "{wrong} of {checks}: {found} is not {expected}");
        }
        assert_eq!((bound(0, 0).upper(), bound(3, 3).upper()), (1.0, 1.0), "nothing is known");
    }

    #[test]
    fn it_says_how_many_checks_would_do() {
        for (wrong, checks, expected) in [(0, 0, 72), (0, 50, 72), (0, 90, 90)] {
            assert_eq!(bound(wrong, checks).checks_for(0.05), expected, "{wrong} of {checks}");
        }
        let more = bound(4, 30).checks_for(0.05);
        assert!(bound(4, more).upper() <= 0.05 && bound(4, more - 1).upper() > 0.05);
    }

    /// The promise itself: somebody who looks after each of 1,000 checks finds a bound below the true rate in at most 5 % of 20,000
    /// cases (three standard deviations of that are 0.5 %). A plain Clopper-Pearson bound breaks it.
    #[test]
    fn the_bound_holds_for_whoever_looks_after_every_check() {
        const CHECKS: usize = 1000;
        let broken = |rate: f64, upper: &dyn Fn(usize, usize) -> f64| {
            // For each count of wrong decisions, the checks from which on the bound is below the rate.
            let first_below = |wrong: usize| {
                let (mut low, mut high) = (wrong, CHECKS + 1);
                while low < high {
                    let middle = usize::midpoint(low, high);
                    if upper(wrong, middle) < rate { high = middle } else { low = middle + 1 }
                }
                low
            };
            let below: Vec<usize> = (0..=(rate * CHECKS as f64) as usize).map(first_below).collect();
            let is_broken = |case: u64| {
                let mut rng = Seed::new(3).purpose("looks").index(case).rng();
                let mut wrong = 0;
                (1..=CHECKS).any(|checks| {
                    wrong += usize::from(rng.unit() < rate);
                    below.get(wrong).is_some_and(|below| checks >= *below)
                })
            };
            (0..20_000).filter(|case| is_broken(*case)).count() as f64 / 20_000.0
        };
        let ours = |wrong: usize, checks: usize| bound(wrong, checks).upper();
        let plain = |wrong: usize, checks: usize| false_alarm_bound(wrong, checks, 0.95);
        for rate in [0.02, 0.05, 0.1] {
            let share = broken(rate, &ours);
            assert!(share <= 0.05 + 0.005, "{share} of the bounds are ever below {rate}");
        }
        assert!(broken(0.05, &plain) > 0.1, "looking often is not free");
    }
}
