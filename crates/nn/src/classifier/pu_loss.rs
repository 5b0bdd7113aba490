//! The non-negative risk of positive and unlabelled examples (Kiryo, Niu, du Plessis and Sugiyama, 2017).
//!
//! A share `prior` of the unlabelled examples are positives, and nobody says which. With the logistic loss `l(z, y)`,
//!
//! ```text
//! risk = prior E_p[l(z, 1)] + max(0, E_u[l(z, 0)] - prior E_p[l(z, 0)])
//! ```
//!
//! estimates the risk of a classifier that had seen all labels. What is in the `max` estimates the cost of the negatives among the
//! unlabelled, which cannot be below 0: where it is, the network has learned examples by heart, and the step goes back along its
//! gradient instead.

use serde::{Deserialize, Serialize};

use super::loss::Loss;

/// The non-negative risk of positive and unlabelled examples.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct NonNegativePu {
    /// The share of positives among the unlabelled.
    pub prior: f64,
    /// How far the estimated cost of negatives may be below 0 before a step goes back.
    pub beta: f64,
    /// How long such a step back is.
    pub gamma: f64,
}

/// The risk of a batch, and its gradient by each logit: that of a step of training, which may go back.
#[derive(Clone, Debug, PartialEq)]
pub struct PuRisk {
    /// The risk.
    pub risk: f64,
    /// What is in the `max`.
    pub negative_risk: f64,
    /// By each positive's logit.
    pub positives: Vec<f64>,
    /// By each unlabelled example's logit.
    pub unlabelled: Vec<f64>,
}

impl NonNegativePu {
    /// With the paper's `beta` of 0 and `gamma` of 1.
    #[must_use]
    pub fn with_prior(prior: f64) -> Self {
        Self { prior, beta: 0.0, gamma: 1.0 }
    }

    /// The risk of a batch by its logits. A side without examples costs nothing.
    #[must_use]
    pub fn of(&self, positives: &[f64], unlabelled: &[f64]) -> PuRisk {
        let mean = |logits: &[f64], label: f64| {
            let count = logits.len().max(1) as f64;
            let each: Vec<(f64, f64)> = logits.iter().map(|logit| Loss::Bce.of(*logit, label)).collect();
            let gradients: Vec<f64> = each.iter().map(|(_, gradient)| gradient / count).collect();
            (each.iter().map(|(cost, _)| cost).sum::<f64>() / count, gradients)
        };
        let (as_positive, to_positive) = mean(positives, 1.0);
        let (as_negative, to_negative) = mean(positives, 0.0);
        let (of_unlabelled, from_unlabelled) = mean(unlabelled, 0.0);
        let positive_risk = self.prior * as_positive;
        let negative_risk = of_unlabelled - self.prior * as_negative;
        let goes_back = negative_risk < -self.beta;
        let back = if goes_back { -self.gamma } else { 1.0 };
        let forward = if goes_back { 0.0 } else { 1.0 };
        let gradient = |(to, from): (&f64, &f64)| self.prior * (forward * to - back * from);
        PuRisk {
            risk: if goes_back { positive_risk - self.beta } else { positive_risk + negative_risk },
            negative_risk,
            positives: to_positive.iter().zip(&to_negative).map(gradient).collect(),
            unlabelled: from_unlabelled.iter().map(|gradient| back * gradient).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Deserialize)]
    struct Case {
        prior: f64,
        beta: f64,
        gamma: f64,
        positives: Vec<f64>,
        unlabelled: Vec<f64>,
        risk: f64,
        negative_risk: f64,
        positive_gradients: Vec<f64>,
        unlabelled_gradients: Vec<f64>,
    }

    #[test]
    fn pytorch_agrees() {
        let cases: Vec<Case> = serde_json::from_str(include_str!("../../tests/torch/pu_risks.json")).unwrap();
        let mut went_back = 0;
        for case in cases {
            let found = NonNegativePu { prior: case.prior, beta: case.beta, gamma: case.gamma }
                .of(&case.positives, &case.unlabelled);
            went_back += usize::from(found.negative_risk < -case.beta);
            let close = |found: &[f64], expected: &[f64]| {
                assert_eq!(found.len(), expected.len());
                for (found, expected) in found.iter().zip(expected) {
                    assert!((found - expected).abs() < 1e-9, "{found} is not {expected}");
                }
            };
            close(&[found.risk, found.negative_risk], &[case.risk, case.negative_risk]);
            close(&found.positives, &case.positive_gradients);
            close(&found.unlabelled, &case.unlabelled_gradients);
        }
        assert!(went_back >= 2, "both sides of the max are in the fixture");
    }

    #[test]
    fn the_gradient_is_that_of_the_risk_while_it_is_not_negative() {
        let pu = NonNegativePu::with_prior(0.4);
        let (positives, unlabelled) = (vec![0.3, -1.2, 2.0], vec![1.5, 0.2, -0.7, 3.0]);
        let found = pu.of(&positives, &unlabelled);
        assert!(found.negative_risk > 0.0);
        for at in 0..positives.len() {
            let moved = |by: f64| {
                let mut positives = positives.clone();
                positives[at] += by;
                pu.of(&positives, &unlabelled).risk
            };
            let measured = (moved(1e-6) - moved(-1e-6)) / 2e-6;
            assert!((found.positives[at] - measured).abs() < 1e-7);
        }
    }
}
