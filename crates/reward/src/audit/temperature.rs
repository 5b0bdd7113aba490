//! Temperature scaling: one number that makes probabilities honest without changing their order.

/// A logit at a temperature.
#[must_use]
pub fn tempered(logit: f64, temperature: f64) -> f64 {
    logit / temperature
}

/// The temperature under which the logits explain the truth best (least log loss), between 1/100 and 100.
///
/// The loss is convex in 1/temperature, so narrowing an interval around its lowest point finds it. `None` where one
/// class is missing: any confidence would then be the best.
#[must_use]
pub fn fit_temperature(logits: &[f64], truth: &[bool]) -> Option<f64> {
    if truth.iter().all(|truth| *truth) || !truth.iter().any(|truth| *truth) {
        return None;
    }
    let slope = |sharpness: f64| -> f64 {
        logits
            .iter()
            .zip(truth)
            .map(|(logit, truth)| {
                let score = 1.0 / (1.0 + (-sharpness * logit).exp());
                (score - f64::from(u8::from(*truth))) * logit
            })
            .sum()
    };
    let (mut low, mut high) = (0.01, 100.0);
    for _ in 0..80 {
        let middle = f64::sqrt(low * high);
        if slope(middle) > 0.0 { high = middle } else { low = middle }
    }
    Some(1.0 / (low * high).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;
    use plaudit_core::Seed;

    /// Draws truth from known probabilities and hands out logits that are three times too sure.
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
