//! Passes of the networks on the CPU, and which device has them.

use std::mem::take;
use std::sync::Arc;

use plaudit_nn::dense::encoder::Dropout;
use plaudit_nn::dense::{Adam, HeadInputs, clip_grad_norm, polyak};

use super::{EncoderLoss, Sac, SoftNetworks};
use crate::LearnError;
use crate::replay::ObsBuffer;
use crate::row_ops::{join, join_more, take_actions, take_encoded};
use crate::vision_encoder::{ObsBatch, VisionEncoder, VisionEncoderTape};

impl Sac {
    /// Q'(s', a') with log π(a'|s'), and Q(s, a): left in the buffers.
    pub(super) fn critic_values(&mut self) -> Result<(), LearnError> {
        if self.gpu.is_some() {
            return self.critic_values_on_gpu();
        }
        self.sample_next_actions();
        match self.networks.has_target() {
            true => self.q_with_target(),
            false => self.q_without_target(),
        }
        Ok(())
    }

    /// One step of critics, and of the encoder if they train it, along the gradients of Q(s, a); the norm of their gradients.
    pub(super) fn step_critics(&mut self) -> Result<f32, LearnError> {
        if self.gpu.is_some() {
            return self.step_critics_on_gpu();
        }
        self.critic_gradients();
        let optim = &self.settings.critic_optim;
        let first = self.encoder_of_policy();
        let norm = clip_grad_norm(&mut self.buffers.critic_grads[first..], optim.clip_grad);
        let lr = optim.schedule.at(self.updates) as f32;
        self.check(f64::from(norm), "the gradient of the critics")?;
        let group = (first..self.critics.len(), lr);
        self.critic_adam.step_groups(&mut self.critics, &self.buffers.critic_grads, &[group]);
        Ok(norm)
    }

    /// Gradients of critics, and of the encoder if they train it, from those of Q(s, a).
    fn critic_gradients(&mut self) {
        let networks = self.networks.clone();
        let buffers = &mut self.buffers;
        buffers.critic_grads.resize(self.critics.len(), 0.0);
        let grads = &mut buffers.critic_grads[networks.encoder_len()..];
        let (encoder_params, critics) = self.critics.split_at_mut(networks.encoder_len());
        let tape = &mut buffers.critic_tape;
        match networks.vision_encoder.as_ref().filter(|_| self.settings.encoder_loss == EncoderLoss::Critics)
        {
            None => networks.critics.backward_overwrite(critics, tape, &buffers.grad_value, grads, None),
            Some(vision_encoder) => {
                buffers.grad_critic_inputs.resize(buffers.critic_inputs.len(), 0.0);
                let grad_inputs = &mut buffers.grad_critic_inputs;
                networks.critics.backward_overwrite(
                    critics,
                    tape,
                    &buffers.grad_value,
                    grads,
                    Some(grad_inputs),
                );
                let n = buffers.batch.len();
                take_encoded(grad_inputs, networks.gaussian.width(), n, &mut buffers.grad_encoded);
                if let Some(regularizer) = &self.settings.bc_regularizer {
                    buffers.add_bc_encoder_gradients(&networks, &self.policy, regularizer);
                }
                let obs_batch = ObsBatch::from(&buffers.batch.obs);
                let encoder_grads = &mut buffers.critic_grads[..networks.encoder_len()];
                encoder_grads.fill(0.0);
                vision_encoder.backward(
                    encoder_params,
                    &obs_batch,
                    &mut buffers.encoder_tape,
                    &buffers.grad_encoded,
                    encoder_grads,
                );
            }
        }
        if !networks.has_target() {
            networks.critics.update_statistics(critics, &buffers.critic_tape);
        }
    }

    /// a' ~ π(·|s'), with log π.
    fn sample_next_actions(&mut self) {
        let SoftNetworks { vision_encoder, policy, gaussian, .. } = &*self.networks;
        let buffers = &mut self.buffers;
        let n = buffers.batch.len();
        let encoder_params = &self.critics[..self.networks.encoder_len()];
        let encoded = encode_obs(
            vision_encoder.as_ref(),
            encoder_params,
            &buffers.batch.next_obs,
            n,
            &mut buffers.inference_tape,
        );
        let outputs = policy.infer(&self.policy, encoded, n, &mut buffers.policy_scratch);
        gaussian.sample(outputs, &buffers.update_noise.next_noise, &mut buffers.sampled);
    }

    /// Q(s, a) by the critics, and Q'(s', a') by their target.
    fn q_with_target(&mut self) {
        let SoftNetworks { vision_encoder, critics, .. } = &*self.networks;
        let buffers = &mut self.buffers;
        let n = buffers.batch.len();
        let (encoder_params, target) = self.target.split_at(self.networks.encoder_len());
        let encoded = encode_obs(
            vision_encoder.as_ref(),
            encoder_params,
            &buffers.batch.next_obs,
            n,
            &mut buffers.inference_tape,
        );
        join(encoded, &buffers.sampled.actions, n, &mut buffers.critic_inputs);
        let scratch = &mut buffers.critic_scratch;
        let next = critics.infer(target, &buffers.update_noise.heads, &buffers.critic_inputs, n, scratch);
        buffers.values.resize(n, 0.0);
        self.settings.agg_q.values(next, &mut buffers.values);
        let (encoder_params, online) = self.critics.split_at(self.networks.encoder_len());
        let encoded = match vision_encoder {
            None => &buffers.batch.obs.states[..],
            Some(vision_encoder) => {
                let dropout = Dropout::On(self.seed.purpose("dropout").index(self.updates));
                vision_encoder.forward(
                    encoder_params,
                    &ObsBatch::from(&buffers.batch.obs),
                    n,
                    dropout,
                    &mut buffers.encoder_tape,
                )
            }
        };
        join(encoded, &buffers.batch.actions, n, &mut buffers.critic_inputs);
        let inputs = HeadInputs::Shared(&buffers.critic_inputs);
        let now = critics.forward(online, inputs, n, &mut buffers.critic_tape);
        buffers.q.clear();
        buffers.q.extend_from_slice(now);
    }

    /// CrossQ: both halves of the transitions in one batch, whose statistics then fit both. `Q'` is `Q`.
    fn q_without_target(&mut self) {
        let critics = &self.networks.critics;
        let buffers = &mut self.buffers;
        let n = buffers.batch.len();
        join(&buffers.batch.obs.states, &buffers.batch.actions, n, &mut buffers.critic_inputs);
        join_more(&buffers.batch.next_obs.states, &buffers.sampled.actions, n, &mut buffers.critic_inputs);
        let inputs = HeadInputs::Shared(&buffers.critic_inputs);
        let both = critics.forward(&self.critics, inputs, 2 * n, &mut buffers.critic_tape);
        buffers.q.clear();
        buffers.grad_value.clear();
        for head in both.chunks_exact(2 * n) {
            buffers.q.extend_from_slice(&head[..n]);
        }
        for head in &buffers.update_noise.heads {
            buffers.grad_value.extend_from_slice(&both[(2 * head + 1) * n..(2 * head + 2) * n]);
        }
        buffers.values.resize(n, 0.0);
        self.settings.agg_q.values(&buffers.grad_value, &mut buffers.values);
    }

    /// The policy's outputs for the observations of the batch.
    pub(super) fn policy_outputs(&mut self) -> Result<(), LearnError> {
        if self.gpu.is_some() {
            return self.policy_outputs_on_gpu();
        }
        let SoftNetworks { vision_encoder, policy, .. } = &*self.networks;
        let buffers = &mut self.buffers;
        let n = buffers.batch.len();
        let encoder_params = &self.critics[..self.networks.encoder_len()];
        let obs = &buffers.batch.obs;
        let encoded = match (vision_encoder, self.settings.encoder_loss) {
            (Some(vision_encoder), EncoderLoss::Policy) => {
                let dropout = Dropout::On(self.seed.purpose("policy dropout").index(self.updates));
                let tape = &mut buffers.encoder_tape;
                vision_encoder.forward(encoder_params, &ObsBatch::from(obs), n, dropout, tape)
            }
            _ => encode_obs(vision_encoder.as_ref(), encoder_params, obs, n, &mut buffers.inference_tape),
        };
        buffers.encoded.clear();
        buffers.encoded.extend_from_slice(encoded);
        let outputs = policy.forward(&self.policy, &buffers.encoded, n, &mut buffers.policy_tape);
        buffers.policy_outputs.clear();
        buffers.policy_outputs.extend_from_slice(outputs);
        Ok(())
    }

    /// Q(s, a) of the sampled actions, by the critics as they are now.
    pub(super) fn values_of_sampled(&mut self) -> Result<(), LearnError> {
        if self.gpu.is_some() {
            return self.values_of_sampled_on_gpu();
        }
        let buffers = &mut self.buffers;
        let n = buffers.batch.len();
        join(&buffers.encoded, &buffers.sampled.actions, n, &mut buffers.critic_inputs);
        let inputs = HeadInputs::Shared(&buffers.critic_inputs);
        let online = &self.critics[self.networks.encoder_len()..];
        let values = self.networks.critics.forward_eval(online, inputs, n, &mut buffers.critic_tape);
        buffers.q.clear();
        buffers.q.extend_from_slice(values);
        Ok(())
    }

    /// The gradients of these actions, from those of their values.
    pub(super) fn action_gradients(&mut self) -> Result<(), LearnError> {
        if self.gpu.is_some() {
            return self.action_gradients_on_gpu();
        }
        let SoftNetworks { critics, gaussian, .. } = &*self.networks;
        let buffers = &mut self.buffers;
        let n = buffers.batch.len();
        buffers.grad_critic_inputs.resize(buffers.critic_inputs.len(), 0.0);
        critics.backward_inputs(
            &self.critics[self.networks.encoder_len()..],
            &mut buffers.critic_tape,
            &buffers.grad_value,
            &mut buffers.grad_critic_inputs,
        );
        take_actions(&buffers.grad_critic_inputs, gaussian.width(), n, &mut buffers.grad_action);
        Ok(())
    }

    /// One step of the policy, and of the encoder if the policy trains it, along the gradients of its outputs; the norm of the
    /// policy's gradients.
    pub(super) fn step_policy(&mut self) -> Result<f32, LearnError> {
        if self.gpu.is_some() {
            return self.step_policy_on_gpu();
        }
        let buffers = &mut self.buffers;
        buffers.policy_grads.resize(self.policy.len(), 0.0);
        let grads = &mut buffers.policy_grads;
        let tape = &mut buffers.policy_tape;
        let trains_encoder = self.networks.trained_by_policy(self.settings.encoder_loss).is_some();
        buffers.grad_encoded.resize(buffers.encoded.len(), 0.0);
        let grad_encoded = trains_encoder.then_some(&mut buffers.grad_encoded[..]);
        self.networks.policy.backward_overwrite(
            &self.policy,
            tape,
            &buffers.grad_output,
            grads,
            grad_encoded,
        );
        let optim = &self.settings.policy_optim;
        let norm = clip_grad_norm(&mut buffers.policy_grads, optim.clip_grad);
        let lr = optim.schedule.at(self.updates) as f32;
        self.check(f64::from(norm), "the gradient of the policy")?;
        self.policy_adam.step(Arc::make_mut(&mut self.policy).as_mut_slice(), &self.buffers.policy_grads, lr);
        self.step_encoder_with_policy(lr)?;
        Ok(norm)
    }

    /// One step of the encoder along the gradients of what the policy saw, where the policy's loss trains it.
    fn step_encoder_with_policy(&mut self, lr: f32) -> Result<(), LearnError> {
        let networks = self.networks.clone();
        let Some(vision_encoder) = networks.trained_by_policy(self.settings.encoder_loss) else {
            return Ok(());
        };
        let encoder = 0..networks.encoder_len();
        let buffers = &mut self.buffers;
        let grads = &mut buffers.critic_grads[encoder.clone()];
        grads.fill(0.0);
        let obs_batch = ObsBatch::from(&buffers.batch.obs);
        let (params, tape) = (&self.critics[encoder.clone()], &mut buffers.encoder_tape);
        vision_encoder.backward(params, &obs_batch, tape, &buffers.grad_encoded, grads);
        let norm = clip_grad_norm(grads, self.settings.policy_optim.clip_grad);
        self.check(f64::from(norm), "the gradient of the encoder")?;
        // Its moments lie before those of the critics, and it has taken as many steps as the policy.
        let (policy, moments) = (&self.policy_adam, &mut self.critic_adam);
        let (m, v) = (take(&mut moments.m), take(&mut moments.v));
        let mut adam = Adam { settings: policy.settings, step: policy.step - 1, m, v };
        adam.step_groups(&mut self.critics, &self.buffers.critic_grads, &[(encoder, lr)]);
        (self.critic_adam.m, self.critic_adam.v) = (adam.m, adam.v);
        Ok(())
    }

    /// How many of the critics' first parameters are the policy's to train.
    fn encoder_of_policy(&self) -> usize {
        self.networks.trained_by_policy(self.settings.encoder_loss).map_or(0, VisionEncoder::len)
    }

    /// The target follows the critics, and the average the policy.
    pub(super) fn follow(&mut self) -> Result<(), LearnError> {
        if let Some(gpu) = &mut self.gpu {
            return Ok(gpu.follow(self.settings.tau)?);
        }
        polyak(&mut self.target, &self.critics, self.settings.tau);
        if let Some(average) = &mut self.average {
            polyak(Arc::make_mut(average).as_mut_slice(), &self.policy, self.settings.tau);
        }
        Ok(())
    }
}

/// The features that policy and critics take, without a backward pass: states, or encoded images.
fn encode_obs<'a>(
    vision_encoder: Option<&VisionEncoder>,
    encoder_params: &[f32],
    obs_buffer: &'a ObsBuffer,
    n: usize,
    tape: &'a mut VisionEncoderTape,
) -> &'a [f32] {
    match vision_encoder {
        None => &obs_buffer.states,
        Some(vision_encoder) => vision_encoder.infer(encoder_params, &ObsBatch::from(obs_buffer), n, tape),
    }
}
