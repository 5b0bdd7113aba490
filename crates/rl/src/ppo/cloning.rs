//! Behaviour cloning of PPO's policy.

use plaudit_nn::dense::gpu::adam_numbers;
use plaudit_nn::dense::{Adam, clip_grad_norm};

use super::{Ppo, UpdateBuffers};
use crate::actor_critic::{ForwardPass, ParamStatus};
use crate::cloning::{Cloning, CloningCallback, DemoBatches};
use crate::learner::LearnError;
use crate::replay::Transitions;
use crate::row_ops::zero;
use crate::vision_encoder::ObsBatch;

impl Ppo {
    /// Fits the actor to the demonstrations. The critic, and the optimiser of PPO, stay as they are.
    pub(super) fn clone_demos(
        &mut self,
        cloning: &Cloning,
        callback: CloningCallback<'_>,
    ) -> Result<(), LearnError> {
        let (chunk, seed) = (self.networks.head().chunk, self.seed.purpose("cloning"));
        let mut demo_batches = DemoBatches::new(cloning, chunk, self.networks.vision_encoder(), None, seed)?;
        self.networks.set_std(&mut self.params, &cloning.std);
        let mut adam = Adam::new(self.params.len(), self.settings.adam);
        if let Some(gpu) = &mut self.gpu {
            gpu.upload([&self.params, &adam.m, &adam.v])?;
        }
        for step in 0..cloning.steps {
            let lr = demo_batches.lr(step);
            let loss = self.cloning_gradients(demo_batches.batch_at(step))?;
            let clip = self.settings.clip_grad;
            let norm = match &mut self.gpu {
                None => clip_grad_norm(&mut self.buffers.grads, clip),
                Some(gpu) => {
                    let log_std = self.networks.log_std_range();
                    let steps = [Some(adam_numbers(adam.settings, step + 1, lr, clip)), None];
                    gpu.step(&self.buffers.grads[log_std.clone()], steps, &mut self.params[log_std])?
                }
            };
            if !(loss.is_finite() && norm.is_finite()) {
                return Err(LearnError::Diverged { what: "the loss of cloning", value: loss, updates: step });
            }
            if self.gpu.is_none() {
                let groups = [(self.networks.actor_range(), lr)];
                adam.step_groups(&mut self.params, &self.buffers.grads, &groups);
            }
            if callback(step + 1, loss).is_break() {
                break;
            }
        }
        if let Some(gpu) = &mut self.gpu {
            // The optimiser of what follows is the CPU's.
            gpu.is_current = false;
            gpu.download(&mut self.params, None)?;
        }
        Ok(())
    }

    /// The distance to the demonstrated actions. Its gradient is left in the buffers.
    fn cloning_gradients(&mut self, batch: &Transitions) -> Result<f64, LearnError> {
        let (networks, n) = (&self.networks, batch.len());
        let (head, obs_batch) = (networks.head(), ObsBatch::from(&batch.obs));
        let UpdateBuffers { forward_pass, grad_outputs, grad_values, grads, .. } = &mut self.buffers;
        match &mut self.gpu {
            None => networks.forward(&self.params, &obs_batch, n, forward_pass),
            Some(gpu) => {
                let ForwardPass { outputs, values, .. } = &mut *forward_pass;
                gpu.forward(networks, &batch.obs, n, outputs, values)?;
            }
        }
        zero(grad_outputs, forward_pass.outputs.len());
        zero(grad_values, forward_pass.values.len());
        zero(grads, self.params.len());
        let (each, wide) = (1.0 / n as f32, head.chunk * head.action_width());
        let outputs = forward_pass.outputs.chunks_exact(head.outputs());
        let rows = outputs.zip(grad_outputs.chunks_exact_mut(head.outputs()));
        let mut distance = 0.0;
        for ((outputs, grad), actions) in rows.zip(batch.actions.chunks_exact(wide)) {
            distance += f64::from(head.imitate(outputs, actions, each, grad));
        }
        if let Some(gpu) = &mut self.gpu {
            gpu.backward(grad_outputs, grad_values, false)?;
            return Ok(distance / n as f64);
        }
        let param_status = ParamStatus::Changed;
        networks.backward(
            &self.params,
            param_status,
            &obs_batch,
            forward_pass,
            grad_outputs,
            grad_values,
            grads,
        );
        Ok(distance / n as f64)
    }
}
