//! Values counted into buckets.

const BUCKETS: usize = 30;

/// Values counted into buckets of equal width; those that are not finite are left out.
#[derive(Debug, PartialEq)]
pub(super) struct Histogram {
    pub(super) min: f64,
    pub(super) max: f64,
    pub(super) num: f64,
    pub(super) sum: f64,
    pub(super) sum_squares: f64,
    /// The right edge of each bucket.
    pub(super) limits: Vec<f64>,
    /// How many values lie in each.
    pub(super) counts: Vec<f64>,
}

impl Histogram {
    /// Counts values; `None` when not one of them is finite.
    pub(super) fn of(values: &[f64]) -> Option<Self> {
        let finite = || values.iter().copied().filter(|value| value.is_finite());
        let min = finite().reduce(f64::min)?;
        let max = finite().reduce(f64::max)?;
        let (limits, counts) = buckets(finite(), min, max);
        let num = finite().count() as f64;
        Some(Self {
            min,
            max,
            num,
            sum: finite().sum(),
            sum_squares: finite().map(|v| v * v).sum(),
            limits,
            counts,
        })
    }
}

fn buckets(values: impl Iterator<Item = f64>, min: f64, max: f64) -> (Vec<f64>, Vec<f64>) {
    let width = max / BUCKETS as f64 - min / BUCKETS as f64;
    if width <= 0.0 {
        return (vec![max], vec![values.count() as f64]);
    }
    let mut counts = vec![0.0; BUCKETS];
    for value in values {
        let bucket = (value / width - min / width) as usize;
        counts[bucket.min(BUCKETS - 1)] += 1.0;
    }
    let edge = |n: usize| n as f64 / BUCKETS as f64;
    let limits = (1..=BUCKETS).map(|n| min * (1.0 - edge(n)) + max * edge(n)).collect();
    (limits, counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_every_finite_value_once() {
        let histogram = Histogram::of(&[0.0, 15.0, f64::NAN, 30.0, f64::INFINITY]).unwrap();
        assert_eq!((histogram.min, histogram.max, histogram.num), (0.0, 30.0, 3.0));
        assert_eq!((histogram.sum, histogram.sum_squares), (45.0, 1125.0));
        let filled: Vec<_> = (0..BUCKETS).filter(|&bucket| histogram.counts[bucket] > 0.0).collect();
        assert_eq!(filled, [0, 15, 29]);
        assert_eq!(histogram.limits[14], 15.0);
    }

    #[test]
    fn extremes_stay_within_bounds() {
        assert_eq!(Histogram::of(&[f64::NAN]), None);
        let same = Histogram::of(&[2.0, 2.0]).unwrap();
        assert_eq!((same.limits, same.counts), (vec![2.0], vec![2.0]));
        for values in [[f64::MIN, f64::MAX], [0.0, f64::MIN_POSITIVE], [0.0, 5e-324]] {
            let histogram = Histogram::of(&values).unwrap();
            assert_eq!(histogram.counts.iter().sum::<f64>(), 2.0);
            assert!(histogram.limits.is_sorted());
        }
    }
}
