//! Rank correlation.

/// Spearman's rank correlation, ties given their mean rank. `None` where either side is constant or too short.
#[must_use]
pub(crate) fn spearman(a: &[f64], b: &[f64]) -> Option<f64> {
    if a.len() != b.len() || a.len() < 2 {
        return None;
    }
    let (a, b) = (ranks(a), ranks(b));
    let mean = (a.len() as f64 + 1.0) / 2.0;
    let product: f64 = a.iter().zip(&b).map(|(x, y)| (x - mean) * (y - mean)).sum();
    let spread = |ranks: &[f64]| ranks.iter().map(|rank| (rank - mean).powi(2)).sum::<f64>();
    let scale = (spread(&a) * spread(&b)).sqrt();
    (scale > 0.0).then(|| product / scale)
}

/// Kendall's rank correlation (tau-b, which corrects for ties). `None` where either side is constant or too short.
#[must_use]
pub(crate) fn kendall(a: &[f64], b: &[f64]) -> Option<f64> {
    if a.len() != b.len() || a.len() < 2 {
        return None;
    }
    let (mut agreement, mut apart_in_a, mut apart_in_b) = (0.0, 0.0, 0.0);
    for i in 0..a.len() {
        for j in 0..i {
            let (in_a, in_b) = (sign(a[i] - a[j]), sign(b[i] - b[j]));
            agreement += in_a * in_b;
            apart_in_a += in_a.abs();
            apart_in_b += in_b.abs();
        }
    }
    let scale = (apart_in_a * apart_in_b).sqrt();
    (scale > 0.0).then(|| agreement / scale)
}

/// -1, 0 or 1.
fn sign(difference: f64) -> f64 {
    if difference == 0.0 { 0.0 } else { difference.signum() }
}

/// 1 for the smallest; equal values share the mean of their ranks.
fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&i, &j| values[i].total_cmp(&values[j]));
    let mut ranks = vec![0.0; values.len()];
    let mut start = 0;
    while start < order.len() {
        let same = order[start..].iter().take_while(|&&i| values[i] == values[order[start]]).count();
        let shared = start as f64 + (same as f64 + 1.0) / 2.0;
        order[start..start + same].iter().for_each(|&i| ranks[i] = shared);
        start += same;
    }
    ranks
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of scipy.stats.spearmanr.
    #[test]
    fn correlations_are_spearmans() {
        let time = [0.0, 1.0, 2.0, 3.0, 4.0];
        for (scores, expected) in [
            ([0.1, 0.2, 0.2, 0.8, 0.9], 0.974_679_434_480_896_4),
            ([5.0, 4.0, 3.0, 2.0, 1.0], -1.0),
            ([0.3, 0.1, 0.5, 0.2, 0.4], 0.3),
        ] {
            let found = spearman(&time, &scores).unwrap();
            assert!((found - expected).abs() < 1e-12, "{found} is not {expected}");
        }
        assert_eq!(spearman(&time, &[0.5; 5]), None);
    }
}
