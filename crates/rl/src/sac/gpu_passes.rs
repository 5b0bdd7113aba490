//! Passes of the networks on a GPU: what the CPU's passes leave in the buffers, these leave there too.

use std::sync::Arc;

use plaudit_nn::dense::Adam;
use plaudit_nn::dense::gpu::{GpuKernels, adam_numbers};

use super::gpu::{CpuState, GpuNetworks};
use super::{EncoderLoss, Sac, UpdateBuffers};
use crate::LearnError;
use crate::row_ops::zero;

impl Sac {
    /// Lets the networks compute on a GPU from now on; what that is called.
    ///
    /// # Errors
    /// If they cannot: on states, above a frozen trunk, or with too little memory.
    pub fn use_gpu(&mut self, kernels: GpuKernels) -> Result<String, LearnError> {
        let gpu = GpuNetworks::new(
            kernels,
            &self.networks,
            self.settings.batch_size,
            self.average.is_some(),
            self.settings.encoder_loss,
        )?;
        let name = gpu.name();
        self.gpu = Some(gpu);
        Ok(name)
    }

    /// Gives the batch, and parameters if they are others than those there, to the GPU if there is one.
    pub(super) fn load_batch(&mut self) -> Result<(), LearnError> {
        self.upload()?;
        let Self { gpu: Some(gpu), networks, settings, buffers, .. } = self else { return Ok(()) };
        // Demonstrations go through the policy once more where they train the encoder beside the critics.
        let is_apart = settings.bc_regularizer.is_some() && settings.encoder_loss == EncoderLoss::Critics;
        let first_demo = is_apart.then_some(buffers.first_demo);
        Ok(gpu.load(networks, &buffers.batch, first_demo, &buffers.shifts)?)
    }

    pub(super) fn upload(&mut self) -> Result<(), LearnError> {
        if let Some(mut gpu) = self.gpu.take() {
            let uploaded = if gpu.is_current { Ok(()) } else { gpu.upload(&self.state()) };
            self.gpu = Some(gpu);
            uploaded?;
        }
        Ok(())
    }

    /// Takes parameters and moments back from the GPU, if there is one.
    pub(super) fn download(&mut self) -> Result<(), LearnError> {
        if let Some(mut gpu) = self.gpu.take() {
            let downloaded = gpu.download(self.state());
            self.gpu = Some(gpu);
            downloaded?;
        }
        Ok(())
    }

    fn state(&mut self) -> CpuState<'_> {
        let Self { policy, critics, target, policy_adam, critic_adam, average, .. } = self;
        CpuState {
            policy: [Arc::make_mut(policy).as_mut_slice(), &mut policy_adam.m, &mut policy_adam.v],
            critics: [critics, &mut critic_adam.m, &mut critic_adam.v],
            target,
            average: average.as_mut().map(|average| Arc::make_mut(average).as_mut_slice()),
        }
    }

    pub(super) fn critic_values_on_gpu(&mut self) -> Result<(), LearnError> {
        let Self { gpu: Some(gpu), networks, settings, buffers, .. } = self else { return Ok(()) };
        gpu.next_outputs(&mut buffers.policy_outputs)?;
        let noise = &buffers.update_noise;
        networks.gaussian.sample(&buffers.policy_outputs, &noise.next_noise, &mut buffers.sampled);
        let UpdateBuffers { sampled, next_values, q, policy_outputs, .. } = buffers;
        gpu.values(&sampled.actions, next_values, q, policy_outputs)?;
        // The critics whose targets count were all computed: those are picked here.
        let n = buffers.batch.len();
        let chosen = buffers.update_noise.heads.iter();
        let chosen: Vec<f32> =
            chosen.flat_map(|head| &buffers.next_values[head * n..(head + 1) * n]).copied().collect();
        buffers.values.resize(n, 0.0);
        settings.agg_q.values(&chosen, &mut buffers.values);
        Ok(())
    }

    pub(super) fn step_critics_on_gpu(&mut self) -> Result<f32, LearnError> {
        let lr = self.settings.critic_optim.schedule.at(self.updates) as f32;
        let Self { gpu: Some(gpu), networks, settings, buffers, critic_adam, .. } = self else {
            return Ok(0.0);
        };
        zero(&mut buffers.bc_grads, 0);
        if let Some(regularizer) =
            settings.bc_regularizer.as_ref().filter(|_| !buffers.policy_outputs.is_empty())
        {
            let actions = &buffers.batch.actions[networks.gaussian.width() * buffers.first_demo..];
            // A deviation is held in every state, so the encoder learns nothing from it.
            regularizer.mean_gradients(
                &networks.gaussian,
                &buffers.policy_outputs,
                actions,
                &mut buffers.bc_grads,
            );
        }
        critic_adam.step += 1;
        let step = adam_numbers(critic_adam.settings, critic_adam.step, lr, settings.critic_optim.clip_grad);
        let norm = gpu.step_critics(&buffers.grad_value, &buffers.bc_grads, &step)?;
        self.check(f64::from(norm), "the gradient of the critics")?;
        Ok(norm)
    }

    pub(super) fn policy_outputs_on_gpu(&mut self) -> Result<(), LearnError> {
        let Self { gpu: Some(gpu), buffers, .. } = self else { return Ok(()) };
        Ok(gpu.policy_outputs(&mut buffers.policy_outputs)?)
    }

    pub(super) fn values_of_sampled_on_gpu(&mut self) -> Result<(), LearnError> {
        let Self { gpu: Some(gpu), buffers, .. } = self else { return Ok(()) };
        Ok(gpu.policy_values(&buffers.sampled.actions, &mut buffers.q)?)
    }

    pub(super) fn action_gradients_on_gpu(&mut self) -> Result<(), LearnError> {
        let Self { gpu: Some(gpu), buffers, .. } = self else { return Ok(()) };
        Ok(gpu.action_gradients(&buffers.grad_value, &mut buffers.grad_action)?)
    }

    pub(super) fn step_policy_on_gpu(&mut self) -> Result<f32, LearnError> {
        let lr = self.settings.policy_optim.schedule.at(self.updates) as f32;
        let Self { gpu: Some(gpu), settings, buffers, policy_adam, .. } = self else { return Ok(0.0) };
        policy_adam.step += 1;
        let step = adam_numbers(policy_adam.settings, policy_adam.step, lr, settings.policy_optim.clip_grad);
        let [norm, encoder_norm] = match settings.encoder_loss {
            EncoderLoss::Critics => [gpu.step_policy(&buffers.grad_output, &step)?, 0.0],
            EncoderLoss::Policy => gpu.step_policy_and_encoders(&buffers.grad_output, &step)?,
        };
        self.check(f64::from(norm), "the gradient of the policy")?;
        self.check(f64::from(encoder_norm), "the gradient of the encoder")?;
        Ok(norm)
    }

    /// Gives parameters to the GPU, if there is one, for optimisers that have seen nothing.
    pub(super) fn begin_cloning_on_gpu(&mut self) -> Result<(), LearnError> {
        let (policy, critics) = (vec![0.0; self.policy.len()], vec![0.0; self.critics.len()]);
        let Some(mut gpu) = self.gpu.take() else { return Ok(()) };
        let mut state = self.state();
        let (mut policy_moments, mut critic_moments) = ([policy.clone(), policy], [critics.clone(), critics]);
        let [policy_m, policy_v] = &mut policy_moments;
        let [critic_m, critic_v] = &mut critic_moments;
        [state.policy[1], state.policy[2]] = [policy_m, policy_v];
        [state.critics[1], state.critics[2]] = [critic_m, critic_v];
        let uploaded = gpu.upload(&state);
        self.gpu = Some(gpu);
        Ok(uploaded?)
    }

    /// Takes what was cloned, and no moments: the optimisers of what follows are the CPU's.
    pub(super) fn end_cloning_on_gpu(&mut self) -> Result<(), LearnError> {
        let Some(gpu) = &mut self.gpu else { return Ok(()) };
        gpu.is_current = false;
        let policy = Arc::make_mut(&mut self.policy).as_mut_slice();
        Ok(gpu.download_networks(policy, &mut self.critics)?)
    }

    /// The distance to demonstrated actions, after one step of policy and encoder towards them; the norms of both gradients.
    pub(super) fn clone_step_on_gpu(
        &mut self,
        batch: &super::Transitions,
        adam: &mut Adam,
        lr: f32,
    ) -> Result<(f64, [f32; 2]), LearnError> {
        let clip = self.settings.policy_optim.clip_grad;
        let Self { gpu: Some(gpu), networks, buffers, .. } = self else { return Ok((0.0, [0.0; 2])) };
        gpu.load_demos(networks, &batch.obs, batch.len())?;
        gpu.clone_outputs(&mut buffers.policy_outputs)?;
        buffers.grad_output.resize(buffers.policy_outputs.len(), 0.0);
        let (outputs, grads) = (&buffers.policy_outputs, &mut buffers.grad_output);
        let loss = networks.gaussian.imitate(outputs, &batch.actions, grads);
        adam.step += 1;
        let step = adam_numbers(adam.settings, adam.step, lr, clip);
        Ok((loss, gpu.step_policy_and_encoders(&buffers.grad_output, &step)?))
    }
}
