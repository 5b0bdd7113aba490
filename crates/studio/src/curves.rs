//! Curves of any length, made short without losing what stands out.

/// The points of a curve from one place up to another: all of them where they are few, else the lowest and the highest of each
/// column, in the order in which they come. Values that are no numbers stay gaps: a column has one where it has nothing else.
pub(crate) fn decimated(values: &[f32], from: usize, to: usize, columns: usize) -> Vec<(f64, f64)> {
    let to = to.min(values.len());
    let from = from.min(to);
    let count = to - from;
    let point = |at: usize| (at as f64, f64::from(values[at]));
    if count <= 2 * columns.max(1) {
        return (from..to).map(point).collect();
    }
    let columns = columns.max(1);
    let mut points = Vec::with_capacity(2 * columns);
    for column in 0..columns {
        let (start, end) = (from + count * column / columns, from + count * (column + 1) / columns);
        let finite = || (start..end).filter(|at| values[*at].is_finite());
        let low = finite().reduce(|a, b| if values[b] < values[a] { b } else { a });
        let high = finite().reduce(|a, b| if values[b] > values[a] { b } else { a });
        match (low, high) {
            (Some(low), Some(high)) if low == high => points.push(point(low)),
            (Some(low), Some(high)) => points.extend([point(low.min(high)), point(low.max(high))]),
            _ => points.push((start as f64, f64::NAN)),
        }
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_curves_stay_whole() {
        let values: Vec<f32> = (0..20).map(|at| at as f32).collect();
        let points = decimated(&values, 3, 99, 10);
        assert_eq!(points.len(), 17);
        assert_eq!((points[0], points[16]), ((3.0, 3.0), (19.0, 19.0)));
        assert!(decimated(&values, 30, 40, 10).is_empty() && decimated(&[], 0, 9, 0).is_empty());
    }

    /// A spike of one value among a million is seen at any width, where it is.
    #[test]
    fn spikes_survive() {
        let mut values = vec![0.0f32; 1_000_000];
        for at in [7, 123_456, 999_999] {
            values[at] = 1.0;
            values[at - 1] = -1.0;
        }
        for columns in [1, 10, 300, 1000] {
            let points = decimated(&values, 0, values.len(), columns);
            assert!(points.len() <= 2 * columns);
            assert!(points.windows(2).all(|pair| pair[0].0 < pair[1].0), "in order");
            let extremes = |wanted: f64| points.iter().filter(|point| point.1 == wanted).count();
            assert_eq!((extremes(1.0), extremes(-1.0)), (3.min(columns), 3.min(columns)), "{columns}");
        }
        let zoomed = decimated(&values, 123_000, 124_000, 100);
        assert!(zoomed.contains(&(123_456.0, 1.0)));
    }

    #[test]
    fn gaps_stay_gaps() {
        let mut values = vec![1.0f32; 1000];
        values[100..300].fill(f32::NAN);
        let points = decimated(&values, 0, 1000, 10);
        let gaps: Vec<usize> =
            points.iter().filter(|point| point.1.is_nan()).map(|point| point.0 as usize).collect();
        assert_eq!(gaps, [100, 200]);
    }
}
