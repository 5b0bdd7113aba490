//! From a network's outputs to a choice: what an output row means, for continuous and for discrete actions.

use plaudit_core::{ActionSpace, Rng};

use crate::categorical::Categorical;
use crate::gaussian::Normal;

/// Where standard deviations come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StdKind {
    /// Parameters of their own, the same in every state.
    Independent,
    /// Further outputs of the network.
    StateDependent,
}

/// What an output row means: a distribution over `chunk` actions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ActionHead {
    /// Actions decided at once, C.
    pub chunk: usize,
    /// What kind of action.
    pub kind: HeadKind,
}

/// What kind of action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeadKind {
    /// Real numbers, normally distributed. Outputs are means `[C, width]`, then log-deviations if by state.
    Normal {
        /// Numbers per action.
        width: usize,
        /// Where deviations come from.
        std_kind: StdKind,
    },
    /// One of n choices. Outputs are logits `[C, n]`.
    Choice {
        /// n.
        choices: usize,
    },
}

impl ActionHead {
    /// The head for a space of actions.
    pub fn new(actions: &ActionSpace, chunk: usize, std_kind: StdKind) -> Self {
        let kind = match actions {
            ActionSpace::Discrete { n } => HeadKind::Choice { choices: *n },
            ActionSpace::Continuous { low, .. } => HeadKind::Normal { width: low.len(), std_kind },
        };
        Self { chunk, kind }
    }

    /// Numbers per action.
    pub fn action_width(&self) -> usize {
        match self.kind {
            HeadKind::Normal { width, .. } => width,
            HeadKind::Choice { .. } => 1,
        }
    }

    /// Outputs that say where actions are: means or logits.
    pub fn centers(&self) -> usize {
        match self.kind {
            HeadKind::Normal { width, .. } => self.chunk * width,
            HeadKind::Choice { choices } => self.chunk * choices,
        }
    }

    /// Outputs per row.
    pub fn outputs(&self) -> usize {
        match self.kind {
            HeadKind::Normal { std_kind: StdKind::StateDependent, .. } => 2 * self.centers(),
            _ => self.centers(),
        }
    }

    /// Parameters for independent deviations.
    pub fn independent(&self) -> usize {
        match self.kind {
            HeadKind::Normal { std_kind: StdKind::Independent, .. } => self.centers(),
            _ => 0,
        }
    }

    /// Samples all actions of a row, with the log-probability of each number.
    pub fn sample(
        &self,
        outputs: &[f32],
        log_std: &[f32],
        rng: &mut Rng,
        actions: &mut [f32],
        log_probs: &mut [f32],
    ) {
        match self.kind {
            HeadKind::Normal { .. } => {
                let (mean, log_std) = self.normal_of_row(outputs, log_std);
                Normal { mean, log_std }.sample(rng, actions, log_probs);
            }
            HeadKind::Choice { choices } => {
                let sampled = actions.iter_mut().zip(log_probs).zip(outputs.chunks_exact(choices));
                for ((action, log_prob), logits) in sampled {
                    let (choice, chosen_log_prob) = Categorical { logits }.sample(rng);
                    (*action, *log_prob) = (choice as f32, chosen_log_prob);
                }
            }
        }
    }

    /// The likeliest actions of a row.
    pub fn mode(&self, outputs: &[f32], actions: &mut [f32]) {
        match self.kind {
            HeadKind::Normal { .. } => actions.copy_from_slice(&outputs[..self.centers()]),
            HeadKind::Choice { choices } => {
                for (action, logits) in actions.iter_mut().zip(outputs.chunks_exact(choices)) {
                    *action = Categorical { logits }.mode() as f32;
                }
            }
        }
    }

    /// Log-probability and entropy of action number `at` of a row.
    pub fn measure(&self, outputs: &[f32], log_std: &[f32], actions: &[f32], at: usize) -> (f32, f32) {
        match self.kind {
            HeadKind::Normal { width, .. } => {
                let (mean, log_std) = self.normal_of_row(outputs, log_std);
                let part = at * width..(at + 1) * width;
                let normal = Normal { mean: &mean[part.clone()], log_std: &log_std[part.clone()] };
                (normal.log_prob(&actions[part]), normal.entropy())
            }
            HeadKind::Choice { choices } => {
                let distribution = Categorical { logits: &outputs[at * choices..(at + 1) * choices] };
                (distribution.log_prob(actions[at] as usize), distribution.entropy())
            }
        }
    }

    /// Adds the gradients of the outputs and of independent log-deviations, given those of the log-probability and
    /// the entropy of action number `at`.
    #[allow(clippy::too_many_arguments)] // a row in, its gradients out
    pub fn backward(
        &self,
        outputs: &[f32],
        log_std: &[f32],
        actions: &[f32],
        at: usize,
        grad_log_prob: f32,
        grad_entropy: f32,
        grad_outputs: &mut [f32],
        grad_log_std: &mut [f32],
    ) {
        match self.kind {
            HeadKind::Normal { width, std_kind } => {
                let (mean, log_std) = self.normal_of_row(outputs, log_std);
                let part = at * width..(at + 1) * width;
                let normal = Normal { mean: &mean[part.clone()], log_std: &log_std[part.clone()] };
                let (grad_mean, own) = grad_outputs.split_at_mut(self.centers());
                let grad_std = if std_kind == StdKind::StateDependent { own } else { grad_log_std };
                let (grad_mean, grad_std) = (&mut grad_mean[part.clone()], &mut grad_std[part.clone()]);
                normal.backward(&actions[part], grad_log_prob, grad_entropy, grad_mean, grad_std);
            }
            HeadKind::Choice { choices } => {
                let part = at * choices..(at + 1) * choices;
                let distribution = Categorical { logits: &outputs[part.clone()] };
                distribution.backward(
                    actions[at] as usize,
                    grad_log_prob,
                    grad_entropy,
                    &mut grad_outputs[part],
                );
            }
        }
    }

    /// Adds the gradient of a row's distance to demonstrated actions, scaled by `each`, and returns the
    /// distance: half the squared error, or − log π of a choice.
    pub fn imitate(&self, outputs: &[f32], actions: &[f32], each: f32, grad: &mut [f32]) -> f32 {
        match self.kind {
            HeadKind::Normal { .. } => {
                let mut distance = 0.0;
                for ((mean, action), grad) in outputs[..self.centers()].iter().zip(actions).zip(grad) {
                    distance += 0.5 * (mean - action) * (mean - action);
                    *grad += each * (mean - action);
                }
                distance
            }
            HeadKind::Choice { choices } => {
                let mut distance = 0.0;
                for (at, &action) in actions.iter().enumerate() {
                    let part = at * choices..(at + 1) * choices;
                    let distribution = Categorical { logits: &outputs[part.clone()] };
                    distance -= distribution.log_prob(action as usize);
                    distribution.backward(action as usize, -each, 0.0, &mut grad[part]);
                }
                distance
            }
        }
    }

    /// Means and log-deviations of a row.
    fn normal_of_row<'a>(&self, outputs: &'a [f32], independent: &'a [f32]) -> (&'a [f32], &'a [f32]) {
        let (mean, by_state) = outputs.split_at(self.centers());
        (mean, if by_state.is_empty() { independent } else { by_state })
    }
}
