//! How well scores put successes before failures, whatever the threshold.

/// So many frames share a score.
struct Level {
    successes: f64,
    failures: f64,
}

/// Frames by score, the highest first; equal scores are one level, since no threshold tells them apart.
fn levels(scores: &[f64], truth: &[bool]) -> Vec<Level> {
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_by(|a, b| scores[*b].total_cmp(&scores[*a]));
    order
        .chunk_by(|a, b| scores[*a] == scores[*b])
        .map(|same| {
            let successes = same.iter().filter(|at| truth[**at]).count();
            Level { successes: successes as f64, failures: (same.len() - successes) as f64 }
        })
        .collect()
}

/// The area under the receiver operating characteristic: the probability that a success scores higher than a failure, equal
/// scores counting half. `None` unless both are there.
#[must_use]
pub fn roc_auc(scores: &[f64], truth: &[bool]) -> Option<f64> {
    let (mut successes, mut failures, mut area) = (0.0, 0.0, 0.0);
    for level in levels(scores, truth) {
        area += level.failures * (successes + level.successes / 2.0);
        successes += level.successes;
        failures += level.failures;
    }
    (successes > 0.0 && failures > 0.0).then(|| area / (successes * failures))
}

/// The mean precision over the successes, each at the threshold that just includes it. `None` without a success.
#[must_use]
pub fn average_precision(scores: &[f64], truth: &[bool]) -> Option<f64> {
    let (mut successes, mut called, mut sum) = (0.0, 0.0, 0.0);
    for level in levels(scores, truth) {
        successes += level.successes;
        called += level.successes + level.failures;
        sum += level.successes * successes / called;
    }
    (successes > 0.0).then(|| sum / successes)
}

/// The receiver operating characteristic: for every score that occurs, used as a threshold, the share of failures
/// and of successes at or above it, from (0, 0) to (1, 1). Empty unless both are there.
#[must_use]
pub fn roc_curve(scores: &[f64], truth: &[bool]) -> Vec<(f64, f64)> {
    let levels = levels(scores, truth);
    let all = levels.iter().map(|level| level.successes).sum::<f64>();
    let others = levels.iter().map(|level| level.failures).sum::<f64>();
    if all == 0.0 || others == 0.0 {
        return Vec::new();
    }
    let (mut successes, mut failures) = (0.0, 0.0);
    let mut curve = vec![(0.0, 0.0)];
    for level in levels {
        successes += level.successes;
        failures += level.failures;
        curve.push((failures / others, successes / all));
    }
    curve
}

/// Recall and precision at every score that occurs, used as a threshold, the highest first. Empty without a success.
#[must_use]
pub fn precision_recall_curve(scores: &[f64], truth: &[bool]) -> Vec<(f64, f64)> {
    let levels = levels(scores, truth);
    let all = levels.iter().map(|level| level.successes).sum::<f64>();
    if all == 0.0 {
        return Vec::new();
    }
    let (mut successes, mut called) = (0.0, 0.0);
    let point = |level: Level| {
        successes += level.successes;
        called += level.successes + level.failures;
        (successes / all, successes / called)
    };
    levels.into_iter().map(point).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn equal_scores_tell_nothing() {
        let truth = [true, false, true, false, false];
        assert_eq!(roc_auc(&[0.3; 5], &truth), Some(0.5));
        assert_eq!(average_precision(&[0.3; 5], &truth), Some(0.4));
    }

    #[test]
    fn one_class_has_no_ranking() {
        assert_eq!(roc_auc(&[0.1, 0.9], &[true, true]), None);
        assert_eq!(roc_auc(&[], &[]), None);
        assert_eq!(average_precision(&[0.1, 0.9], &[false, false]), None);
        assert_eq!(average_precision(&[0.1, 0.9], &[true, true]), Some(1.0));
    }

    proptest! {
        #[test]
        fn the_area_is_the_share_of_pairs_in_order(
            frames in prop::collection::vec((0u8..6, any::<bool>()), 2..40)
        ) {
            let scores: Vec<f64> = frames.iter().map(|(score, _)| f64::from(*score) / 5.0).collect();
            let truth: Vec<bool> = frames.iter().map(|(_, truth)| *truth).collect();
            let (mut pairs, mut right) = (0.0, 0.0);
            for (a, success) in truth.iter().enumerate().filter(|(_, success)| **success) {
                for (b, _) in truth.iter().enumerate().filter(|(_, other)| *other != success) {
                    pairs += 1.0;
                    right += if scores[a] > scores[b] { 1.0 } else if scores[a] == scores[b] { 0.5 } else { 0.0 };
                }
            }
            let area = roc_auc(&scores, &truth);
            prop_assert_eq!(area.is_some(), pairs > 0.0);
            if let Some(area) = area {
                prop_assert!((area - right / pairs).abs() < 1e-12);
            }
        }
    }
}
