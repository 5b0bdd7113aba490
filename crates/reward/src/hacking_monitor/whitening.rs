//! Distances that account for how numbers vary together: where a cube always lies at its goal, one that lies beside it is far away, though
//! both places are usual.
//!
//! The covariance of few samples is not to be trusted in every direction, so that it is shrunk towards equal variances (Ledoit and Wolf,
//! "A well-conditioned estimator for large-dimensional covariance matrices", 2004). Distances after whitening are Mahalanobis distances.

/// Added to standard deviations: a number that never changed counts, but not without limit.
const LEAST_STD: f64 = 1e-3;
/// Added to the diagonal: where nothing ever changed, there is no covariance.
const RIDGE: f64 = 1e-9;

/// What makes samples uncorrelated and of equal variance.
#[derive(Debug, Clone)]
pub(super) struct Whitening {
    mean: Vec<f64>,
    inverse_std: Vec<f64>,
    /// The Cholesky factor of the covariance of scaled samples: rows of a lower triangle.
    lower: Vec<Vec<f64>>,
}

impl Whitening {
    /// Of samples of equal width, at least one.
    pub(super) fn of(samples: &[&[f32]]) -> Self {
        let (count, width) = (samples.len() as f64, samples[0].len());
        let column = |at: usize| samples.iter().map(move |sample| f64::from(sample[at]));
        let mean: Vec<f64> = (0..width).map(|at| column(at).sum::<f64>() / count).collect();
        let variance = |at: usize| column(at).map(|x| (x - mean[at]).powi(2)).sum::<f64>() / count;
        let inverse_std: Vec<f64> = (0..width).map(|at| 1.0 / (variance(at).sqrt() + LEAST_STD)).collect();
        let mut whitening = Self { mean, inverse_std, lower: Vec::new() };
        let scaled: Vec<Vec<f64>> = samples.iter().map(|sample| whitening.scale(sample)).collect();
        whitening.lower = cholesky(ledoit_wolf(&scaled).0);
        whitening
    }

    fn scale(&self, sample: &[f32]) -> Vec<f64> {
        let scaled = |((x, mean), inverse_std): ((&f32, &f64), &f64)| (f64::from(*x) - mean) * inverse_std;
        sample.iter().zip(&self.mean).zip(&self.inverse_std).map(scaled).collect()
    }

    /// The same sample, whitened.
    pub(super) fn apply(&self, sample: &[f32]) -> Vec<f64> {
        let mut white = self.scale(sample);
        for (at, row) in self.lower.iter().enumerate() {
            let known: f64 = row[..at].iter().zip(&white).map(|(factor, x)| factor * x).sum();
            white[at] = (white[at] - known) / row[at];
        }
        white
    }
}

/// The covariance of samples whose mean is zero, shrunk, and by how much it is: 0 not at all, 1 to equal variances.
fn ledoit_wolf(samples: &[Vec<f64>]) -> (Vec<Vec<f64>>, f64) {
    let (count, width) = (samples.len() as f64, samples[0].len());
    let mut covariance = vec![vec![0.0; width]; width];
    for sample in samples {
        for (row, x) in covariance.iter_mut().zip(sample) {
            row.iter_mut().zip(sample).for_each(|(sum, y)| *sum += x * y / count);
        }
    }
    let variance = (0..width).map(|at| covariance[at][at]).sum::<f64>() / width as f64;
    let squares: f64 = covariance.iter().flatten().map(|x| x * x).sum();
    let fourth: f64 = samples.iter().map(|sample| sample.iter().map(|x| x * x).sum::<f64>().powi(2)).sum();
    let apart = squares - width as f64 * variance * variance;
    let noise = (fourth / count - squares) / count;
    let shrinkage = if apart > 0.0 { (noise / apart).clamp(0.0, 1.0) } else { 1.0 };
    for (at, row) in covariance.iter_mut().enumerate() {
        row.iter_mut().for_each(|x| *x *= 1.0 - shrinkage);
        row[at] += shrinkage * variance + RIDGE;
    }
    (covariance, shrinkage)
}

/// The lower triangle whose product with its transpose is a positive definite matrix.
fn cholesky(mut matrix: Vec<Vec<f64>>) -> Vec<Vec<f64>> {
    for at in 0..matrix.len() {
        let (done, rest) = matrix.split_at_mut(at);
        let row = &mut rest[0];
        for (column, other) in done.iter().enumerate() {
            let known: f64 = (0..column).map(|k| row[k] * other[k]).sum();
            row[column] = (row[column] - known) / other[column];
        }
        let known: f64 = row[..at].iter().map(|x| x * x).sum();
        row[at] = (row[at] - known).max(RIDGE).sqrt();
        row.truncate(at + 1);
    }
    matrix
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLES: &str = include_str!("whitening/samples.csv");
    const EXPECTED: &str = include_str!("whitening/sklearn.csv");

    fn numbers(text: &str) -> Vec<Vec<f64>> {
        text.lines().map(|line| line.split(',').map(|value| value.parse().unwrap()).collect()).collect()
    }

    /// `sklearn.covariance.ledoit_wolf`, and Mahalanobis distances of SciPy by it (`whitening/make_sklearn.py`).
    #[test]
    fn covariance_and_distances_are_those_of_sklearn() {
        let samples: Vec<Vec<f32>> =
            numbers(SAMPLES).iter().map(|row| row.iter().map(|x| *x as f32).collect()).collect();
        let rows: Vec<&[f32]> = samples.iter().map(Vec::as_slice).collect();
        let whitening = Whitening::of(&rows);
        let scaled: Vec<Vec<f64>> = rows.iter().map(|row| whitening.scale(row)).collect();
        let expected = numbers(EXPECTED);
        let (covariance, shrinkage) = ledoit_wolf(&scaled);
        assert!((shrinkage - expected[0][0]).abs() < 1e-6, "{shrinkage}");
        for (row, expected) in covariance.iter().zip(&expected[1..]) {
            assert!(row.iter().zip(expected).all(|(x, y)| (x - y).abs() < 1e-6), "{row:?}");
        }
        let first = whitening.apply(rows[0]);
        for (at, expected) in expected.last().unwrap().iter().enumerate() {
            let found: f64 =
                whitening.apply(rows[at + 1]).iter().zip(&first).map(|(a, b)| (a - b).powi(2)).sum();
            assert!((found.sqrt() - expected).abs() < 1e-5 * expected, "{at}: {}", found.sqrt());
        }
    }

    #[test]
    fn what_never_changes_is_finite() {
        let rows = [[1.0f32, 2.0], [1.0, 2.0], [1.0, 2.0]];
        let whitening = Whitening::of(&rows.each_ref().map(<[f32; 2]>::as_slice));
        assert!(whitening.apply(&[1.0, 2.0]).iter().all(|x| x.abs() < 1e-9));
        assert!(whitening.apply(&[1.0, 3.0]).iter().all(|x| x.is_finite()));
    }
}
