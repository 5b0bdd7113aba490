//! Behaviour-cloning regularizer: keeps a policy near the demonstrations while the critics are still inaccurate.

use super::{SoftNetworks, TanhGaussian, UpdateBuffers};
use crate::row_ops::{take_encoded, zero};

/// A behaviour-cloning term in the loss of the policy.
#[derive(Debug, Clone, PartialEq)]
pub struct BcRegularizer {
    /// Weight of the distance in the policy's loss, in units of the mean |Q| of its actions (TD3+BC,
    /// Fujimoto and Gu, 2021), so that it means the same at any scale of the reward.
    pub weight: f32,
    /// The deviation that each number of an action is held at; nothing where it is left to the critics and α. The gradients
    /// of those are tiny where success is rare, but Adam takes whole steps along any gradient: in a few hundred updates a
    /// policy that explored with care moves at random.
    pub std: Option<Vec<f32>>,
}

impl UpdateBuffers {
    /// Adds the gradients of the behaviour-cloning loss to those of the policy's outputs; returns that loss.
    pub(super) fn add_bc_gradients(&mut self, gaussian: &TanhGaussian, regularizer: &BcRegularizer) -> f64 {
        let q_scale = self.values.iter().map(|value| value.abs()).sum::<f32>() / self.values.len() as f32;
        let row = 2 * gaussian.width();
        let outputs = &self.policy_outputs[row * self.first_demo..];
        let actions = &self.batch.actions[gaussian.width() * self.first_demo..];
        let distance = regularizer.gradients(gaussian, outputs, actions, &mut self.bc_grads);
        let gradients = self.grad_output[row * self.first_demo..].iter_mut().zip(&self.bc_grads);
        gradients.for_each(|(grad, bc)| *grad += q_scale * bc);
        distance
    }

    /// Adds the gradients of the same loss to those of encoded observations, so that it trains the encoder too.
    pub(super) fn add_bc_encoder_gradients(
        &mut self,
        networks: &SoftNetworks,
        policy: &[f32],
        regularizer: &BcRegularizer,
    ) {
        let (width, demos) = (networks.gaussian.width(), self.batch.len() - self.first_demo);
        if demos == 0 {
            return;
        }
        let row = self.critic_inputs.len() / self.batch.len();
        take_encoded(&self.critic_inputs[row * self.first_demo..], width, demos, &mut self.encoded_demos);
        let outputs = networks.policy.forward(policy, &self.encoded_demos, demos, &mut self.policy_tape);
        let actions = &self.batch.actions[width * self.first_demo..];
        // A deviation is held in every state, so the encoder learns nothing from it.
        regularizer.mean_gradients(&networks.gaussian, outputs, actions, &mut self.bc_grads);
        self.policy_grads.resize(policy.len(), 0.0);
        let (grad_encoded, grads) = (&mut self.encoded_demos[..], &mut self.policy_grads);
        networks.policy.backward_overwrite(
            policy,
            &mut self.policy_tape,
            &self.bc_grads,
            grads,
            Some(grad_encoded),
        );
        let gradients = self.grad_encoded[(row - width) * self.first_demo..].iter_mut().zip(grad_encoded);
        gradients.for_each(|(grad, bc)| *grad += *bc);
    }
}

impl BcRegularizer {
    /// The gradients of w · mean ½ |mode − a|² by a policy's outputs, and of w · the likelihood of the deviation; returns
    /// that mean.
    fn gradients(
        &self,
        gaussian: &TanhGaussian,
        outputs: &[f32],
        actions: &[f32],
        into: &mut Vec<f32>,
    ) -> f64 {
        let width = gaussian.width();
        let distance = self.mean_gradients(gaussian, outputs, actions, into);
        if let Some(std) = &self.std {
            gaussian.hold(outputs, std, into);
            // Where a deviation is a tenth of what is asked for, the gradient is a hundred times as large: on images,
            // which have deviations of their own, one such row would dominate the batch.
            let max_grad = width as f32 / actions.len() as f32;
            let deviations = into.chunks_exact_mut(2 * width).flat_map(|row| &mut row[width..]);
            deviations.for_each(|grad| *grad = grad.max(-max_grad) * self.weight);
        }
        distance
    }

    /// The same without the deviation.
    pub(super) fn mean_gradients(
        &self,
        gaussian: &TanhGaussian,
        outputs: &[f32],
        actions: &[f32],
        into: &mut Vec<f32>,
    ) -> f64 {
        zero(into, outputs.len());
        let distance = gaussian.imitate(outputs, actions, into);
        into.iter_mut().for_each(|grad| *grad *= self.weight);
        distance
    }
}

#[cfg(test)]
mod tests {
    use plaudit_core::ActionSpace;

    use super::*;
    use crate::sac::StdBounds;

    /// Gradient descent from a policy with mean 0 and a large deviation.
    fn held(std: Option<Vec<f32>>) -> (Vec<f32>, Vec<f32>) {
        let actions = ActionSpace::Continuous { low: vec![-1.0, -2.0], high: vec![1.0, 2.0] };
        let gaussian = TanhGaussian::new(&actions, 1, StdBounds::STATES).unwrap();
        let regularizer = BcRegularizer { weight: 0.5, std };
        let (mut outputs, shown) = (vec![0.0; 4], [0.3, -1.2]);
        let mut gradients = Vec::new();
        for _ in 0..20_000 {
            regularizer.gradients(&gaussian, &outputs, &shown, &mut gradients);
            outputs.iter_mut().zip(&gradients).for_each(|(output, grad)| *output -= 0.05 * grad);
        }
        let mut mode = Vec::new();
        gaussian.mode(&outputs, &mut mode);
        (mode, deviations(gaussian.scale(), &outputs[2..]))
    }

    fn deviations(scale: &[f32], outputs: &[f32]) -> Vec<f32> {
        let (mut log_std, mut gradients) = (outputs.to_vec(), vec![0.0; outputs.len()]);
        StdBounds::STATES.log_std(&mut log_std, &mut gradients);
        scale.iter().zip(log_std).map(|(scale, log_std)| scale * log_std.exp()).collect()
    }

    #[test]
    fn gradients_lead_to_the_demonstration_and_to_the_deviation_asked_for() {
        let (mode, deviation) = held(Some(vec![0.05, 0.1]));
        assert!((mode[0] - 0.3).abs() < 1e-3 && (mode[1] + 1.2).abs() < 1e-3, "{mode:?}");
        assert!((deviation[0] - 0.05).abs() < 1e-3 && (deviation[1] - 0.1).abs() < 2e-3, "{deviation:?}");
    }

    #[test]
    fn a_deviation_that_is_far_too_small_does_not_dominate_the_batch() {
        let actions = ActionSpace::Continuous { low: vec![-1.0], high: vec![1.0] };
        let gaussian = TanhGaussian::new(&actions, 1, StdBounds::STATES).unwrap();
        let regularizer = BcRegularizer { weight: 2.0, std: Some(vec![0.1]) };
        let mut gradients = Vec::new();
        regularizer.gradients(&gaussian, &[0.0, -2.0, 0.0, 0.0], &[0.5, 0.5], &mut gradients);
        assert!(gradients[1] == -1.0, "it grows, by no more than 2 · 1/2: {gradients:?}");
        assert!(gradients[3] > 0.0, "the other one shrinks: {gradients:?}");
    }

    #[test]
    fn without_a_deviation_to_hold_it_is_left_alone() {
        let (mode, deviation) = held(None);
        assert!((mode[0] - 0.3).abs() < 1e-3, "{mode:?}");
        assert_eq!(deviation, deviations(&[1.0, 2.0], &[0.0, 0.0]));
    }
}
