//! Temperature scaling: one number that calibrates probabilities without changing their order.

/// A logit at a temperature.
#[must_use]
pub(super) fn with_temperature(logit: f64, temperature: f64) -> f64 {
    logit / temperature
}

use crate::metrics::LABELS;

/// The temperature under which the logits explain the truth best (least log loss), between 1/100 and 100. `None` where
/// one class is missing: any confidence would then be the best.
#[must_use]
pub(super) fn fit_temperature(logits: &[f64], truth: &[bool]) -> Option<f64> {
    if truth.iter().all(|truth| *truth) || !truth.iter().any(|truth| *truth) {
        return None;
    }
    let gradient = |sharpness: f64| -> f64 {
        logits
            .iter()
            .zip(truth)
            .map(|(logit, truth)| {
                let score = 1.0 / (1.0 + (-sharpness * logit).exp());
                (score - f64::from(u8::from(*truth))) * logit
            })
            .sum()
    };
    Some(temperature_of_zero_gradient(gradient))
}

/// The same of the logits of three labels. `None` unless at least two of them are right somewhere.
#[must_use]
pub fn fit_label_temperature(logits: &[[f64; LABELS]], truth: &[usize]) -> Option<f64> {
    let first = truth.first()?;
    if truth.iter().all(|right| right == first) {
        return None;
    }
    let gradient = |sharpness: f64| -> f64 {
        logits
            .iter()
            .zip(truth)
            .map(|(logits, right)| {
                let likely = softmax(logits, 1.0 / sharpness);
                let expected: f64 = likely.iter().zip(logits).map(|(share, logit)| share * logit).sum();
                expected - logits[*right]
            })
            .sum()
    };
    Some(temperature_of_zero_gradient(gradient))
}

/// How likely each label is, at a temperature.
pub(super) fn softmax(logits: &[f64; LABELS], temperature: f64) -> [f64; LABELS] {
    let largest = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let powers = logits.map(|logit| with_temperature(logit - largest, temperature).exp());
    let sum: f64 = powers.iter().sum();
    powers.map(|power| power / sum)
}

/// The loss is convex in 1/temperature, so narrowing an interval around where its gradient is 0 finds its lowest point.
fn temperature_of_zero_gradient(gradient: impl Fn(f64) -> f64) -> f64 {
    let (mut low, mut high) = (0.01, 100.0);
    for _ in 0..80 {
        let middle = f64::sqrt(low * high);
        if gradient(middle) > 0.0 { high = middle } else { low = middle }
    }
    1.0 / (low * high).sqrt()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use plaudit_core::{Rng, Seed};

    /// A label, each as often as it is likely.
    pub(in crate::audit) fn sampled_label([positive, negative, _]: [f64; LABELS], rng: &mut Rng) -> usize {
        let sampled = rng.unit();
        usize::from(sampled >= positive) + usize::from(sampled >= positive + negative)
    }

    /// Samples labels from known probabilities and gives logits that are three times too sure.
    #[test]
    fn overconfidence_is_found_and_measured() {
        let mut rng = Seed::new(3).rng();
        let (mut logits, mut truth) = (Vec::new(), Vec::new());
        for _ in 0..20_000 {
            let logit = 2.0 * rng.normal();
            truth.push(rng.unit() < 1.0 / (1.0 + (-logit).exp()));
            logits.push(3.0 * logit);
        }
        let temperature = fit_temperature(&logits, &truth).unwrap();
        assert!((temperature - 3.0).abs() < 0.1, "{temperature}");
    }

    /// The same with three labels, sampled from known probabilities.
    #[test]
    fn overconfidence_about_three_labels_is_found() {
        let mut rng = Seed::new(4).rng();
        let (mut logits, mut truth) = (Vec::new(), Vec::new());
        for _ in 0..20_000 {
            let honest: [f64; 3] = std::array::from_fn(|_| 2.0 * rng.normal());
            truth.push(sampled_label(softmax(&honest, 1.0), &mut rng));
            logits.push(honest.map(|logit| 2.5 * logit));
        }
        let temperature = fit_label_temperature(&logits, &truth).unwrap();
        assert!((temperature - 2.5).abs() < 0.1, "{temperature}");
        assert_eq!(fit_label_temperature(&logits[..2], &[1, 1]), None);
        assert_eq!(fit_label_temperature(&[], &[]), None);
    }

    /// Two labels are the logit of one against 0, with the third out of reach.
    #[test]
    fn two_of_three_labels_have_the_temperature_of_two() {
        let mut rng = Seed::new(5).rng();
        let logits: Vec<f64> = (0..200).map(|_| 3.0 * rng.normal()).collect();
        let truth: Vec<bool> =
            logits.iter().map(|logit| rng.unit() < 1.0 / (1.0 + (-logit / 2.0).exp())).collect();
        let of_two: Vec<[f64; 3]> = logits.iter().map(|logit| [*logit, 0.0, -1e4]).collect();
        let right: Vec<usize> = truth.iter().map(|truth| usize::from(!truth)).collect();
        let (expected, found) = (fit_temperature(&logits, &truth), fit_label_temperature(&of_two, &right));
        assert!((expected.unwrap() - found.unwrap()).abs() < 1e-9, "{expected:?} {found:?}");
    }

    #[test]
    fn one_class_alone_says_nothing_about_confidence() {
        assert_eq!(fit_temperature(&[1.0, 2.0], &[true, true]), None);
        assert_eq!(fit_temperature(&[], &[]), None);
    }

    /// The least log loss of two frames right and one wrong, all at the same logit, is where the score is 2/3.
    #[test]
    fn the_best_temperature_makes_scores_match_how_often_they_are_right() {
        let temperature =
            fit_temperature(&[4.0, 4.0, 4.0, -4.0, -4.0, -4.0], &[true, true, false, false, false, true]);
        let expected = 4.0 / 2f64.ln();
        assert!((temperature.unwrap() - expected).abs() < 1e-9, "{temperature:?} is not {expected}");
    }
}
