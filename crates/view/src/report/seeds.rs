//! How sure a number is: over seeds, by the interquartile mean and a bootstrap; over the episodes of one run, by Wilson.

use plaudit_core::Seed;

/// Resamples behind an interval.
const RESAMPLES: u64 = 500;

/// A number and where it would lie, 95 times of 100, with other seeds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// The interquartile mean.
    pub middle: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// The mean of the middle half: a quarter of the values, rounded down, is left out at each end. Outliers do not move
/// it as they move a mean, and it wastes less than a median.
#[must_use]
pub fn interquartile_mean(values: &[f64]) -> f64 {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    let cut = sorted.len() / 4;
    let middle = &sorted[cut..sorted.len() - cut];
    middle.iter().sum::<f64>() / middle.len() as f64
}

/// The interquartile mean with its bootstrap interval over `values`, one per seed.
pub(super) fn interval(values: &[f64]) -> Interval {
    let middle = interquartile_mean(values);
    if values.len() < 2 {
        return Interval { middle, low: middle, high: middle };
    }
    let seed = Seed::new(0).purpose("bootstrap");
    let mut means: Vec<f64> = (0..RESAMPLES)
        .map(|resample| {
            let mut rng = seed.index(resample).rng();
            let sample: Vec<f64> = values.iter().map(|_| values[rng.below(values.len())]).collect();
            interquartile_mean(&sample)
        })
        .collect();
    means.sort_by(f64::total_cmp);
    let at = |share: f64| means[((means.len() - 1) as f64 * share).round() as usize];
    Interval { middle, low: at(0.025), high: at(0.975) }
}

/// Where a share lies, 95 times of 100, that was found in `trials` trials: Wilson's interval.
pub(super) fn share_interval(share: f64, trials: f64) -> Interval {
    const Z: f64 = 1.959_964;
    if trials < 1.0 || !share.is_finite() {
        return Interval { middle: share, low: 0.0, high: 1.0 };
    }
    let shrink = 1.0 + Z * Z / trials;
    let centre = (share + Z * Z / (2.0 * trials)) / shrink;
    let half = Z / shrink * (share * (1.0 - share) / trials + Z * Z / (4.0 * trials * trials)).sqrt();
    Interval { middle: share, low: (centre - half).max(0.0), high: (centre + half).min(1.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_half_decides() {
        assert_eq!(interquartile_mean(&[1.0, 2.0, 3.0, 100.0]), 2.5);
        assert_eq!(interquartile_mean(&[5.0]), 5.0);
        assert_eq!(interquartile_mean(&[1.0, 2.0, 6.0]), 3.0);
        assert_eq!(interquartile_mean(&[0.0, f64::NAN, 4.0]), 2.0);
        assert!(interquartile_mean(&[]).is_nan());
    }

    #[test]
    fn an_interval_holds_its_middle_and_narrows_when_seeds_agree() {
        let wide = interval(&[0.1, 0.5, 0.9, 0.3, 0.7]);
        let narrow = interval(&[0.5, 0.51, 0.49, 0.5, 0.5]);
        assert!(wide.low <= wide.middle && wide.middle <= wide.high);
        assert!(narrow.high - narrow.low < wide.high - wide.low);
        let one = interval(&[0.4]);
        assert_eq!((one.low, one.high), (0.4, 0.4));
    }

    /// Newcombe (1998), table I: the score method without continuity correction.
    #[test]
    fn shares_have_the_interval_of_wilson() {
        for (found, trials, low, high) in [
            (81.0, 263.0, 0.2553, 0.3662),
            (15.0, 148.0, 0.0624, 0.1605),
            (0.0, 20.0, 0.0, 0.1611),
            (1.0, 29.0, 0.0061, 0.1718),
        ] {
            let found = share_interval(found / trials, trials);
            assert!((found.low - low).abs() < 1e-4 && (found.high - high).abs() < 1e-4, "{found:?}");
        }
        assert_eq!(share_interval(0.5, 0.0).high, 1.0);
    }
}
