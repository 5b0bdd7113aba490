//! Several runs as one curve: the interquartile mean, and how sure it is.

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
            let drawn: Vec<f64> = values.iter().map(|_| values[rng.below(values.len())]).collect();
            interquartile_mean(&drawn)
        })
        .collect();
    means.sort_by(f64::total_cmp);
    let at = |share: f64| means[((means.len() - 1) as f64 * share).round() as usize];
    Interval { middle, low: at(0.025), high: at(0.975) }
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
}
