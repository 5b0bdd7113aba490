//! What a logit costs, and how that changes with it.

use serde::{Deserialize, Serialize};

/// The loss of a logit against a label in 0..1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Loss {
    /// Binary cross entropy.
    #[default]
    Bce,
    /// Binary cross entropy, times `(1 - p)^gamma` where `p` is the probability of the truth: what is already right
    /// counts less.
    Focal {
        /// How much less.
        gamma: f64,
    },
}

impl Loss {
    /// The loss and its derivative by the logit.
    pub(super) fn of(self, logit: f64, label: f64) -> (f64, f64) {
        let probability = 1.0 / (1.0 + (-logit).exp());
        let entropy = logit.max(0.0) - logit * label + (-logit.abs()).exp().ln_1p();
        let gradient = probability - label;
        match self {
            Self::Bce => (entropy, gradient),
            Self::Focal { gamma } => {
                let wrong = probability + label - 2.0 * probability * label;
                let factor = wrong.powf(gamma);
                let wrong_gradient = probability * (1.0 - probability) * (1.0 - 2.0 * label);
                let factor_gradient =
                    if wrong > 0.0 { gamma * wrong.powf(gamma - 1.0) * wrong_gradient } else { 0.0 };
                (entropy * factor, gradient * factor + entropy * factor_gradient)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gradients_are_those_of_the_loss() {
        for loss in
            [Loss::Bce, Loss::Focal { gamma: 2.0 }, Loss::Focal { gamma: 0.5 }, Loss::Focal { gamma: 0.0 }]
        {
            for label in [0.0, 1.0, 0.3] {
                for logit in [-20.0, -3.0, -0.1, 0.0, 0.7, 5.0] {
                    let step = 1e-6;
                    let (above, _) = loss.of(logit + step, label);
                    let (below, _) = loss.of(logit - step, label);
                    let (_, gradient) = loss.of(logit, label);
                    let measured = (above - below) / (2.0 * step);
                    assert!(
                        (gradient - measured).abs() < 1e-6,
                        "{loss:?} {label} {logit}: {gradient} {measured}"
                    );
                }
            }
        }
    }

    #[test]
    fn pytorch_agrees() {
        #[derive(Deserialize)]
        struct Case {
            gamma: Option<f64>,
            label: f64,
            logits: Vec<f64>,
            loss: Vec<f64>,
            gradient: Vec<f64>,
        }
        let cases: Vec<Case> = serde_json::from_str(include_str!("../../tests/torch/losses.json")).unwrap();
        for Case { gamma, label, logits, loss, gradient: expected } in cases {
            let kind = gamma.map_or(Loss::Bce, |gamma| Loss::Focal { gamma });
            for (i, logit) in logits.iter().enumerate() {
                let (cost, gradient) = kind.of(*logit, label);
                assert!((cost - loss[i]).abs() < 1e-9, "{kind:?} of {logit} for {label}: {cost} {}", loss[i]);
                assert!(
                    (gradient - expected[i]).abs() < 1e-9,
                    "{kind:?} of {logit} for {label}: {gradient} {}",
                    expected[i]
                );
            }
        }
    }

    #[test]
    fn far_logits_cost_what_they_should() {
        assert_eq!(Loss::Bce.of(800.0, 0.0), (800.0, 1.0));
        assert_eq!(Loss::Bce.of(-800.0, 0.0), (0.0, 0.0));
        let (focal, gradient) = Loss::Focal { gamma: 2.0 }.of(-800.0, 0.0);
        assert_eq!((focal, gradient), (0.0, 0.0));
        assert_eq!(Loss::Focal { gamma: 0.0 }.of(1.5, 1.0), Loss::Bce.of(1.5, 1.0));
    }
}
