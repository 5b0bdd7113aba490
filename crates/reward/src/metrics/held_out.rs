//! How well a threshold that was chosen on some scores tells others apart.

use super::Confusion;

/// The balanced accuracy of scores as calls of success, where no score helps to choose its own threshold: successes and failures are
/// dealt into two halves in turn, and each half is called by the threshold that is best on the other. `None` without two of each.
#[must_use]
pub fn held_out_balanced_accuracy(scores: &[f64], truth: &[bool]) -> Option<f64> {
    let mut halves = [(Vec::new(), Vec::new()), (Vec::new(), Vec::new())];
    let mut seen = [0usize; 2];
    for (score, success) in scores.iter().zip(truth) {
        let count = &mut seen[usize::from(*success)];
        let (of_half, truth_of_half) = &mut halves[*count % 2];
        of_half.push(*score);
        truth_of_half.push(*success);
        *count += 1;
    }
    if seen.iter().any(|count| *count < 2) {
        return None;
    }
    let [(one, truth_of_one), (other, truth_of_other)] = &halves;
    let of_one = balanced_accuracy(one, truth_of_one, threshold(other, truth_of_other));
    let of_other = balanced_accuracy(other, truth_of_other, threshold(one, truth_of_one));
    Some((of_one + of_other) / 2.0)
}

/// The mean of the shares of successes and of failures that are called so.
fn balanced_accuracy(scores: &[f64], truth: &[bool], threshold: f64) -> f64 {
    let confusion = Confusion::at(scores, truth, threshold);
    let right = |rate: Option<f64>| rate.unwrap_or(0.0);
    (right(confusion.recall()) + 1.0 - right(confusion.false_positive_rate())) / 2.0
}

/// The threshold of the highest balanced accuracy, half-way between two scores. Among equals the highest, as in
/// [`best_threshold`](super::best_threshold).
fn threshold(scores: &[f64], truth: &[bool]) -> f64 {
    let mut levels = scores.to_vec();
    levels.sort_by(f64::total_cmp);
    levels.dedup();
    let lowest = levels[0] - 1.0;
    let between = levels.windows(2).map(|pair| (pair[0] + pair[1]) / 2.0);
    let candidates = [lowest].into_iter().chain(between).chain(levels.last().copied());
    let accuracy = |threshold: f64| (balanced_accuracy(scores, truth, threshold), threshold);
    let best = candidates.map(accuracy).max_by(|(one, _), (other, _)| one.total_cmp(other));
    best.map_or(lowest, |(_, threshold)| threshold)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_of_each_kind_are_needed() {
        assert_eq!(held_out_balanced_accuracy(&[0.1, 0.2, 0.9], &[false, false, true]), None);
        assert_eq!(held_out_balanced_accuracy(&[], &[]), None);
        let truth = [false, false, true, true];
        assert_eq!(held_out_balanced_accuracy(&[0.1, 0.2, 0.8, 0.9], &truth), Some(1.0));
        // One value says nothing: everything is called a failure.
        assert_eq!(held_out_balanced_accuracy(&[0.5; 4], &truth), Some(0.5));
    }
}
