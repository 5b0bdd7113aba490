//! A threshold that keeps false alarms rare, with a proof.
//!
//! An episode raises a false alarm when it is rewarded without success, by the rule that rewards ([`AuditRule`]). What matters
//! for each episode is one number, its level: the threshold below which that happens. With the plainest rule it is the
//! highest score that the episode reached without success. If these numbers are exchangeable samples of one distribution, then
//! the j-th highest of n of them, used as the threshold, is exceeded by a new episode with a probability that is
//! Beta(j, n + 1 - j) distributed, whatever the distribution of scores is. Hence
//!
//! ```text
//! P(rate > bound) = P(Binomial(n, bound) <= j - 1)
//! ```
//!
//! and the largest j for which that is at most 1 - confidence gives the lowest threshold that may be promised. The
//! choice of j depends on n alone, not on the scores, so picking the threshold and proving it on the same episodes is
//! no cheat. (It is the order-statistic form of the Clopper-Pearson bound; split conformal prediction promises the
//! rate on average only, where a robot wants it with confidence.)

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::{AuditRule, ScoredEpisode};

/// A threshold and what is promised about it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Guarantee {
    /// Scores above it count as success.
    pub threshold: f64,
    /// The share of episodes that may raise a false alarm.
    pub max_rate: f64,
    /// How sure that is.
    pub confidence: f64,
    /// Episodes without (or before) success behind the promise.
    pub episodes: usize,
    /// How many of them raise an alarm at the threshold.
    pub alarms: usize,
    /// The rule that it is about; not there in checkpoints of before.
    #[serde(default)]
    pub rule: Option<AuditRule>,
}

/// Why nothing can be promised.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum GuaranteeError {
    /// Not enough episodes.
    #[error(
        "{episodes} episodes are too few to show a false-alarm rate of {max_rate} with confidence {confidence}: collect {needed}, or ask for {possible:.3}"
    )]
    TooFew {
        /// How many there are.
        episodes: usize,
        /// What was asked.
        max_rate: f64,
        /// What was asked.
        confidence: f64,
        /// How many would do.
        needed: usize,
        /// The rate that can be shown with those there are.
        possible: f64,
    },
    /// A rate or a confidence that is none.
    #[error("{what} must lie between 0 and 1, not {value}")]
    Range {
        /// Which.
        what: &'static str,
        /// What was given.
        value: f64,
    },
}

/// The level of each episode that has one: the threshold below which it raises a false alarm.
#[must_use]
pub(super) fn levels(episodes: &[ScoredEpisode], rule: &AuditRule) -> Vec<f64> {
    episodes.iter().filter_map(|episode| rule.level(episode)).collect()
}

/// The lowest threshold of which it can be promised that at most `max_rate` of new episodes exceed it, given the
/// highest score that each of some episodes reached without success.
pub(super) fn guaranteed_threshold(
    highest: &[f64],
    max_rate: f64,
    confidence: f64,
) -> Result<Guarantee, GuaranteeError> {
    for (what, value) in [("the false-alarm rate", max_rate), ("the confidence", confidence)] {
        if !(value > 0.0 && value < 1.0) {
            return Err(GuaranteeError::Range { what, value });
        }
    }
    let n = highest.len();
    let doubt = 1.0 - confidence;
    let mut below = 0.0;
    let mut rank = 0;
    for j in 1..=n {
        below += binomial(n, j - 1, max_rate);
        if below > doubt {
            break;
        }
        rank = j;
    }
    if rank == 0 {
        let needed = (doubt.ln() / (1.0 - max_rate).ln()).ceil() as usize;
        let possible = false_alarm_bound(0, n, confidence);
        return Err(GuaranteeError::TooFew { episodes: n, max_rate, confidence, needed, possible });
    }
    let mut sorted = highest.to_vec();
    sorted.sort_by(|a, b| b.total_cmp(a));
    let threshold = sorted[rank - 1];
    let alarms = sorted.iter().filter(|score| **score > threshold).count();
    Ok(Guarantee { threshold, max_rate, confidence, episodes: n, alarms, rule: None })
}

/// The Clopper-Pearson upper bound of a rate of which `alarms` of `episodes` were seen, at a threshold that was fixed
/// beforehand.
#[must_use]
pub(crate) fn false_alarm_bound(alarms: usize, episodes: usize, confidence: f64) -> f64 {
    if alarms >= episodes {
        return 1.0;
    }
    let at_most = |rate: f64| (0..=alarms).map(|k| binomial(episodes, k, rate)).sum::<f64>();
    // The probability to see so few falls as the rate grows: halve the interval until it is narrow.
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        if at_most(middle) > 1.0 - confidence { low = middle } else { high = middle }
    }
    high
}

/// The probability of `k` among `n`.
pub(crate) fn binomial(n: usize, k: usize, rate: f64) -> f64 {
    if rate <= 0.0 || rate >= 1.0 {
        let certain = if rate <= 0.0 { 0 } else { n };
        return if k == certain { 1.0 } else { 0.0 };
    }
    let (n, k) = (n as f64, k as f64);
    let log =
        ln_factorial(n) - ln_factorial(k) - ln_factorial(n - k) + k * rate.ln() + (n - k) * (1.0 - rate).ln();
    log.exp()
}

/// ln(n!): by multiplication while that is exact enough, then by Stirling's series.
fn ln_factorial(n: f64) -> f64 {
    if n < 32.0 {
        return (2..=n as u64).map(|factor| (factor as f64).ln()).sum();
    }
    let series = 1.0 / (12.0 * n) - 1.0 / (360.0 * n.powi(3)) + 1.0 / (1260.0 * n.powi(5));
    n * n.ln() - n + 0.5 * (2.0 * std::f64::consts::PI * n).ln() + series
}

#[cfg(test)]
mod tests {
    use super::super::AlarmFrames;
    use super::*;
    use plaudit_core::Seed;

    /// Values of scipy.stats.beta.ppf(0.95, k + 1, n - k).
    #[test]
    fn bounds_are_those_of_clopper_and_pearson() {
        for (alarms, episodes, bound) in [
            (0, 10, 0.258_865_550_893_052_2),
            (0, 299, 0.009_969_146_792_899_3),
            (1, 10, 0.394_163_302_436_504_7),
            (3, 50, 0.147_837_176_364_181_2),
            (7, 1000, 0.013_107_715_416_593_3),
        ] {
            let found = false_alarm_bound(alarms, episodes, 0.95);
            assert!((found - bound).abs() < 1e-9, "{alarms} of {episodes}: {found} is not {bound}");
        }
        assert_eq!(false_alarm_bound(4, 4, 0.95), 1.0);
    }

    #[test]
    fn what_cannot_be_shown_is_not_promised() {
        let refused = guaranteed_threshold(&[0.1; 298], 0.01, 0.95).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "298 episodes are too few to show a false-alarm rate of 0.01 with confidence 0.95: collect 299, or ask for 0.010"
        );
        assert!(guaranteed_threshold(&[0.1; 299], 0.01, 0.95).is_ok());
        assert!(matches!(guaranteed_threshold(&[0.1], 1.5, 0.95), Err(GuaranteeError::Range { .. })));
    }

    /// The promise itself: thresholds picked on ever other episodes may be exceeded more often than promised in at
    /// most 5 % of cases. The rate of each is known exactly, because scores are uniform. 20,000 splits leave the
    /// share a standard deviation of 0.0016; 200 splits, as a user might try, leave it 0.016.
    #[test]
    fn the_promised_rate_holds_over_resplits() {
        let broken = |splits: u64, episodes: usize, max_rate: f64| {
            let breaks = |split: u64| {
                let mut rng = Seed::new(7).purpose("resplit").index(split).rng();
                let highest: Vec<f64> = (0..episodes).map(|_| rng.unit()).collect();
                let found = guaranteed_threshold(&highest, max_rate, 0.95).unwrap();
                1.0 - found.threshold > max_rate
            };
            (0..splits).filter(|&split| breaks(split)).count() as f64 / splits as f64
        };
        for (episodes, max_rate) in [(60, 0.05), (300, 0.01), (400, 0.05)] {
            let share = broken(20_000, episodes, max_rate);
            assert!(share < 0.05 + 3.0 * 0.0016, "{share} broke the promise with {episodes} episodes");
        }
        assert!(broken(200, 100, 0.05) <= 0.05);
    }

    /// The promise is not bought by promising nothing: a large sample comes near the bound.
    #[test]
    fn with_many_episodes_the_threshold_is_hardly_higher_than_it_must_be() {
        let mut rng = Seed::new(8).purpose("large").rng();
        let highest: Vec<f64> = (0..20_000).map(|_| rng.unit()).collect();
        for max_rate in [0.01, 0.05] {
            let found = guaranteed_threshold(&highest, max_rate, 0.95).unwrap();
            assert!(1.0 - found.threshold > 0.8 * max_rate, "{found:?}");
        }
    }

    #[test]
    fn only_frames_without_success_raise_an_alarm() {
        let episode = |logits: &[f64], truth: &[bool]| ScoredEpisode {
            name: String::new(),
            logits: logits.to_vec(),
            truth: truth.to_vec(),
        };
        let episodes = [
            episode(&[0.0, 5.0], &[false, true]),
            episode(&[3.0, -1.0], &[false, false]),
            episode(&[4.0], &[true]),
        ];
        let sigmoid = |x: f32| f64::from(1.0 / (1.0 + (-x).exp())); // as scores are compared
        let rule = |alarm, grace| AuditRule { alarm, grace, ..AuditRule::DEFAULT };
        assert_eq!(levels(&episodes, &rule(AlarmFrames::AnyFrame, 0)), [sigmoid(0.0), sigmoid(3.0)]);
        assert_eq!(levels(&episodes, &rule(AlarmFrames::AnyFrame, 1)), [sigmoid(3.0)]);
        assert_eq!(levels(&episodes, &rule(AlarmFrames::LastFrame, 1)), [sigmoid(-1.0)]);
    }
}
