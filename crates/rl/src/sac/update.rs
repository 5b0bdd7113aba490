//! One update of soft actor-critic, as the paper has it. Networks compute in `cpu_passes` or `gpu_passes`.

use plaudit_core::End;

use super::{Sac, SacSettings, Transitions, UpdateStats};
use crate::row_ops::zero;
use crate::{Bootstrap, LearnError};

impl Sac {
    pub(super) fn update(&mut self, stats: &mut UpdateStats) -> Result<(), LearnError> {
        self.load_batch()?;
        self.improve_critics(stats)?;
        let is_policys_turn = self.updates.is_multiple_of(self.settings.critic_actor_ratio);
        if is_policys_turn && self.updates >= self.settings.train_actor_steps {
            self.improve_policy(stats)?;
        }
        self.updates += 1;
        if self.networks.has_target() && self.updates.is_multiple_of(self.settings.target_update_freq) {
            self.follow()?;
        }
        Ok(())
    }

    /// One step of all critics towards y.
    fn improve_critics(&mut self, stats: &mut UpdateStats) -> Result<(), LearnError> {
        self.critic_values()?;
        let (loss, mean) = self.critic_errors();
        self.check(loss, "the loss of the critics")?;
        let norm = self.step_critics()?;
        stats.critic_loss += loss;
        stats.critic_grad += f64::from(norm);
        stats.q_data += mean;
        stats.updates += 1.0;
        Ok(())
    }

    /// L(Q) and the mean of Q; leaves the gradient of each output of the critics in the buffers.
    fn critic_errors(&mut self) -> (f64, f64) {
        let SacSettings { gamma, bootstrap, target_range: range, backup_entropy, .. } = self.settings;
        let alpha = if backup_entropy { self.temperature.alpha() } else { 0.0 };
        let buffers = &mut self.buffers;
        let rule = TdTarget { gamma, bootstrap, range, alpha };
        rule.targets(&buffers.batch, &buffers.sampled.log_probs, &buffers.values, &mut buffers.targets);
        let n = buffers.batch.len();
        let (heads, scale) = (buffers.q.len() / n, 1.0 / buffers.q.len() as f32);
        // Of CrossQ's joint batch, the second half is not in the loss.
        let rows = if self.networks.has_target() { n } else { 2 * n };
        zero(&mut buffers.grad_value, heads * rows);
        let (mut loss, mut sum) = (0.0, 0.0);
        for (values, grad_value) in buffers.q.chunks_exact(n).zip(buffers.grad_value.chunks_exact_mut(rows)) {
            for ((value, target), grad_value) in values.iter().zip(&buffers.targets).zip(grad_value) {
                let error = value - target;
                loss += f64::from(error * error);
                sum += f64::from(*value);
                *grad_value = 2.0 * error * scale;
            }
        }
        (loss * f64::from(scale), sum * f64::from(scale))
    }

    /// One step of the policy, and of α after it.
    fn improve_policy(&mut self, stats: &mut UpdateStats) -> Result<(), LearnError> {
        let networks = self.networks.clone();
        let gaussian = &networks.gaussian;
        let (n, alpha) = (self.buffers.batch.len(), self.temperature.alpha());
        // a ~ π(·|s)
        self.policy_outputs()?;
        let buffers = &mut self.buffers;
        gaussian.sample(&buffers.policy_outputs, &buffers.update_noise.noise, &mut buffers.sampled);
        // Q(s, a) and its gradient by the action
        self.values_of_sampled()?;
        let buffers = &mut self.buffers;
        buffers.values.resize(n, 0.0);
        self.settings.actor_agg_q.values(&buffers.q, &mut buffers.values);
        buffers.grad_value.resize(buffers.q.len(), 0.0);
        let each = 1.0 / n as f32;
        self.settings.actor_agg_q.backward(&buffers.q, n, -each, &mut buffers.grad_value);
        self.action_gradients()?;
        // and back through the sampled action to the policy
        let buffers = &mut self.buffers;
        buffers.grad_output.resize(buffers.policy_outputs.len(), 0.0);
        let (sampled, grad_action) = (&buffers.sampled, &buffers.grad_action);
        gaussian.backward(sampled, grad_action, alpha * each, &mut buffers.grad_output);
        if let Some(regularizer) = &self.settings.bc_regularizer {
            stats.bc_loss += buffers.add_bc_gradients(gaussian, regularizer);
        }
        let mean = |values: &[f32]| values.iter().map(|value| f64::from(*value)).sum::<f64>() / n as f64;
        let (log_prob, value) = (mean(&buffers.sampled.log_probs), mean(&buffers.values));
        let loss = f64::from(alpha) * log_prob - value;
        self.check(loss, "the loss of the policy")?;
        let norm = self.step_policy()?;
        let tuned = self.temperature.step(log_prob);
        stats.actor_loss += loss;
        stats.actor_grad += f64::from(norm);
        stats.entropy -= log_prob;
        stats.q_pi += value;
        stats.alpha_loss += tuned.loss;
        stats.alpha_grad += tuned.gradient.abs();
        stats.policy_updates += 1.0;
        Ok(())
    }

    /// Refuses to go on with what is no number.
    pub(super) fn check(&self, value: f64, what: &'static str) -> Result<(), LearnError> {
        if value.is_finite() {
            Ok(())
        } else {
            Err(LearnError::Diverged { what, value, updates: self.updates })
        }
    }
}

/// How y is made of the reward and the next value.
struct TdTarget {
    gamma: f32,
    bootstrap: Bootstrap,
    range: Option<[f32; 2]>,
    alpha: f32,
}

impl TdTarget {
    /// y, `[N]`, from the next values.
    fn targets(&self, batch: &Transitions, log_probs: &[f32], values: &[f32], into: &mut Vec<f32>) {
        into.clear();
        let rows = batch.rewards.iter().zip(&batch.ends).zip(values.iter().zip(log_probs));
        into.extend(rows.map(|((reward, end), (value, log_prob))| {
            let goes_on = *end != End::Terminated || self.bootstrap == Bootstrap::Always;
            let followed = if goes_on { value - self.alpha * log_prob } else { 0.0 };
            let target = reward + self.gamma * followed;
            self.range.map_or(target, |[low, high]| target.clamp(low, high))
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_end_where_episodes_terminate_and_stay_in_their_range() {
        let batch = Transitions {
            rewards: vec![0.0, 1.0, 0.5, 0.0],
            ends: vec![End::No, End::Terminated, End::Truncated, End::No],
            ..Transitions::default()
        };
        let (values, log_probs) = ([1.0, 9.0, 2.0, -3.0], [0.5, 0.5, 0.0, 0.0]);
        for (bootstrap, range, expected) in [
            (Bootstrap::Standard, None, [0.72, 1.0, 2.3, -2.7]),
            (Bootstrap::Always, None, [0.72, 8.92, 2.3, -2.7]),
            (Bootstrap::Standard, Some([0.0, 1.0]), [0.72, 1.0, 1.0, 0.0]),
        ] {
            let mut y = Vec::new();
            let rule = TdTarget { gamma: 0.9, bootstrap, range, alpha: 0.4 };
            rule.targets(&batch, &log_probs, &values, &mut y);
            let close = y.iter().zip(expected).all(|(y, expected): (&f32, f32)| (y - expected).abs() < 1e-6);
            assert!(close, "{bootstrap:?} {range:?}: {y:?}");
        }
    }
}
