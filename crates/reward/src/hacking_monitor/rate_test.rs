//! Exact tests of a share: against a limit, and against another share.

use super::LookCount;
use crate::audit::binomial;

/// Points of the integral over what the share before may have been.
const POINTS: usize = 400;
/// How far it reaches, in standard deviations on either side.
const REACH: f64 = 20.0;

/// The probability to see so many, or more, at a rate.
pub(super) fn chance_above(look: LookCount, rate: f64) -> f64 {
    if rate >= 1.0 || look.seen == 0 {
        return 1.0;
    }
    let odds = rate / (1.0 - rate);
    // From where the terms fall: the first of many is too small for a number where few were seen.
    if (look.seen as f64) < rate * look.looked_at as f64 {
        let (mut term, mut below) = (binomial(look.looked_at, look.seen - 1, rate), 0.0);
        for seen in (0..look.seen).rev() {
            below += term;
            term *= seen as f64 / (odds * (look.looked_at - seen + 1) as f64);
        }
        return (1.0 - below).max(0.0);
    }
    let (mut term, mut sum) = (binomial(look.looked_at, look.seen, rate), 0.0);
    for seen in look.seen..=look.looked_at {
        sum += term;
        term *= odds * (look.looked_at - seen) as f64 / (seen + 1) as f64;
    }
    sum.min(1.0)
}

/// The probability to see so many afterwards, or more, if the rate rose by no more than `tolerated`.
///
/// What the rate was before is not known exactly: the mean is over the distribution Beta(seen + 1, not seen) of it. Without
/// tolerance, that is Fisher's exact test (Altham, 1969).
pub(super) fn chance_of_rise(before: LookCount, after: LookCount, tolerated: f64) -> f64 {
    let (a, b) = (before.seen as f64 + 1.0, (before.looked_at - before.seen) as f64);
    if b < 1.0 {
        return 1.0; // nothing is above a rate of 1
    }
    let mean = a / (a + b);
    let std = (mean * (1.0 - mean) / (a + b + 1.0)).sqrt();
    let (low, high) = ((mean - REACH * std).max(0.0), (mean + REACH * std).min(1.0));
    let (mut weights, mut sum) = (0.0, 0.0);
    // The density as a share of what it is at its mean, so that nothing overflows.
    let log_density = |rate: f64| (a - 1.0) * rate.ln() + (b - 1.0) * (1.0 - rate).ln();
    for point in 0..POINTS {
        let rate = low + (high - low) * (point as f64 + 0.5) / POINTS as f64;
        let weight = (log_density(rate) - log_density(mean)).exp();
        weights += weight;
        sum += weight * chance_above(after, (rate + tolerated).min(1.0));
    }
    sum / weights
}

#[cfg(test)]
mod tests {
    use super::*;

    const COUNTS: &str = include_str!("rate_test/scipy.csv");

    /// Fisher's exact test and integrals of SciPy (`rate_test/make_scipy.py`).
    #[test]
    fn chances_are_those_of_scipy() {
        for line in COUNTS.lines().skip(1) {
            let values: Vec<f64> = line.split(',').map(|value| value.parse().unwrap()).collect();
            let [seen_before, before, seen_after, after, tolerated, expected] = values[..] else {
                panic!("{line}")
            };
            let count =
                |looked_at: f64, seen: f64| LookCount { looked_at: looked_at as usize, seen: seen as usize };
            let found = chance_of_rise(count(before, seen_before), count(after, seen_after), tolerated);
            assert!((found / expected - 1.0).abs() < 5e-4, "{line}: {found}");
        }
        assert_eq!(
            chance_of_rise(LookCount { looked_at: 9, seen: 9 }, LookCount { looked_at: 9, seen: 9 }, 0.0),
            1.0
        );
    }

    #[test]
    fn a_share_is_tested_against_a_limit() {
        // scipy.stats.binom.sf(seen - 1, looked_at, rate)
        for (looked_at, seen, rate, expected) in [
            (64, 30, 0.3, 0.003_279_442_089),
            (10, 0, 0.3, 1.0),
            (256, 20, 0.05, 0.033_640_094_828),
            (256, 10, 0.05, 0.827374095566),
            (2048, 36, 0.5, 1.0),
        ] {
            let found = chance_above(LookCount { looked_at, seen }, rate);
            assert!((found - expected).abs() < 1e-8 * expected, "{seen} of {looked_at}: {found}");
        }
    }
}
