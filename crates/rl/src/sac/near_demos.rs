//! What holds a policy near what demonstrations did, while critics are still learning what anything is worth.

use super::{SoftNetworks, TanhGaussian, Work};
use crate::rows::{take_seen, zero};

/// What holds the policy near what demonstrations did.
#[derive(Debug, Clone, PartialEq)]
pub struct NearDemos {
    /// How much the distance weighs in the policy's loss, in units of what critics think its actions are worth (TD3+BC,
    /// Fujimoto and Gu, 2021): a reward that pays little is not drowned out, nor does one that pays much drown.
    pub weight: f32,
    /// The deviation that each number of an action is held at; nothing where it is left to the critics and α. The slopes
    /// of those are tiny where success is rare, but Adam takes whole steps along any slope: in a few hundred updates a
    /// policy that explored with care waves its arm.
    pub std: Option<Vec<f32>>,
}

impl Work {
    /// Adds the slopes of the distance to what demonstrations did to those of the policy's outputs; gives that distance.
    pub(super) fn add_demo_slopes(&mut self, gaussian: &TanhGaussian, near: &NearDemos) -> f64 {
        let worth = self.values.iter().map(|value| value.abs()).sum::<f32>() / self.values.len() as f32;
        let row = 2 * gaussian.width();
        let outputs = &self.policy_outputs[row * self.first_demo..];
        let actions = &self.batch.actions[gaussian.width() * self.first_demo..];
        let distance = near.slopes(gaussian, outputs, actions, &mut self.by_shown);
        let slopes = self.by_output[row * self.first_demo..].iter_mut().zip(&self.by_shown);
        slopes.for_each(|(slope, shown)| *slope += worth * shown);
        distance
    }

    /// Adds the slopes of the same distance to those of what is seen, so that eyes learn to see what actions depend on.
    pub(super) fn add_demo_slopes_of_sight(
        &mut self,
        networks: &SoftNetworks,
        policy: &[f32],
        near: &NearDemos,
    ) {
        let (width, demos) = (networks.gaussian.width(), self.batch.len() - self.first_demo);
        if demos == 0 {
            return;
        }
        let row = self.critic_inputs.len() / self.batch.len();
        take_seen(&self.critic_inputs[row * self.first_demo..], width, demos, &mut self.seen_of_demos);
        let outputs = networks.policy.forward(policy, &self.seen_of_demos, demos, &mut self.policy_tape);
        let actions = &self.batch.actions[width * self.first_demo..];
        // A deviation is held whatever is seen, so there is nothing about it to see.
        near.slopes_of_means(&networks.gaussian, outputs, actions, &mut self.by_shown);
        self.policy_grads.resize(policy.len(), 0.0);
        let (by_seen, grads) = (&mut self.seen_of_demos[..], &mut self.policy_grads);
        networks.policy.backward_anew(policy, &mut self.policy_tape, &self.by_shown, grads, Some(by_seen));
        let slopes = self.by_seen[(row - width) * self.first_demo..].iter_mut().zip(by_seen);
        slopes.for_each(|(slope, shown)| *slope += *shown);
    }
}

impl NearDemos {
    /// The slopes of w · mean ½ |mode − a|² by a policy's outputs, and of w · the likelihood of the deviation; gives
    /// that mean.
    fn slopes(&self, gaussian: &TanhGaussian, outputs: &[f32], actions: &[f32], into: &mut Vec<f32>) -> f64 {
        let width = gaussian.width();
        let distance = self.slopes_of_means(gaussian, outputs, actions, into);
        if let Some(std) = &self.std {
            gaussian.hold(outputs, std, into);
            // Where a deviation is a tenth of what is asked for, the likelihood is a hundred times as steep: on images,
            // which have deviations of their own, one such row would drown all that a batch has to say.
            let steepest = width as f32 / actions.len() as f32;
            let deviations = into.chunks_exact_mut(2 * width).flat_map(|row| &mut row[width..]);
            deviations.for_each(|slope| *slope = slope.max(-steepest) * self.weight);
        }
        distance
    }

    /// The same without the deviation.
    fn slopes_of_means(
        &self,
        gaussian: &TanhGaussian,
        outputs: &[f32],
        actions: &[f32],
        into: &mut Vec<f32>,
    ) -> f64 {
        zero(into, outputs.len());
        let distance = gaussian.imitate(outputs, actions, into);
        into.iter_mut().for_each(|slope| *slope *= self.weight);
        distance
    }
}

#[cfg(test)]
mod tests {
    use plaudit_core::ActionSpace;

    use super::*;
    use crate::sac::Spread;

    /// Follows the slopes from a policy that does nothing and waves its arm.
    fn held(std: Option<Vec<f32>>) -> (Vec<f32>, Vec<f32>) {
        let actions = ActionSpace::Continuous { low: vec![-1.0, -2.0], high: vec![1.0, 2.0] };
        let gaussian = TanhGaussian::new(&actions, 1, Spread::STATES).unwrap();
        let near = NearDemos { weight: 0.5, std };
        let (mut outputs, shown) = (vec![0.0; 4], [0.3, -1.2]);
        let mut slopes = Vec::new();
        for _ in 0..20_000 {
            near.slopes(&gaussian, &outputs, &shown, &mut slopes);
            outputs.iter_mut().zip(&slopes).for_each(|(output, slope)| *output -= 0.05 * slope);
        }
        let mut mode = Vec::new();
        gaussian.mode(&outputs, &mut mode);
        (mode, deviations(gaussian.scale(), &outputs[2..]))
    }

    fn deviations(scale: &[f32], outputs: &[f32]) -> Vec<f32> {
        let (mut log_std, mut slopes) = (outputs.to_vec(), vec![0.0; outputs.len()]);
        Spread::STATES.log_std(&mut log_std, &mut slopes);
        scale.iter().zip(log_std).map(|(scale, log_std)| scale * log_std.exp()).collect()
    }

    #[test]
    fn slopes_lead_to_what_was_shown_and_to_the_deviation_asked_for() {
        let (mode, deviation) = held(Some(vec![0.05, 0.1]));
        assert!((mode[0] - 0.3).abs() < 1e-3 && (mode[1] + 1.2).abs() < 1e-3, "{mode:?}");
        assert!((deviation[0] - 0.05).abs() < 1e-3 && (deviation[1] - 0.1).abs() < 2e-3, "{deviation:?}");
    }

    #[test]
    fn a_deviation_that_is_far_too_small_does_not_drown_the_rest() {
        let actions = ActionSpace::Continuous { low: vec![-1.0], high: vec![1.0] };
        let gaussian = TanhGaussian::new(&actions, 1, Spread::STATES).unwrap();
        let near = NearDemos { weight: 2.0, std: Some(vec![0.1]) };
        let mut slopes = Vec::new();
        near.slopes(&gaussian, &[0.0, -2.0, 0.0, 0.0], &[0.5, 0.5], &mut slopes);
        assert!(slopes[1] == -1.0, "it grows, by no more than 2 · 1/2: {slopes:?}");
        assert!(slopes[3] > 0.0, "the other one shrinks: {slopes:?}");
    }

    #[test]
    fn without_a_deviation_to_hold_it_is_left_alone() {
        let (mode, deviation) = held(None);
        assert!((mode[0] - 0.3).abs() < 1e-3, "{mode:?}");
        assert_eq!(deviation, deviations(&[1.0, 2.0], &[0.0, 0.0]));
    }
}
