//! Behaviour cloning of the policy of soft actor-critic.

use std::sync::Arc;

use plaudit_nn::dense::encoder::Dropout;
use plaudit_nn::dense::{Adam, clip_grad_norm};

use super::{Sac, SoftNetworks};
use crate::LearnError;
use crate::cloning::{Cloning, CloningCallback, DemoBatches};
use crate::replay::Transitions;
use crate::row_ops::zero;
use crate::vision_encoder::ObsBatch;

impl Sac {
    /// Fits the policy to the demonstrations, and the encoder along with it. The critics, and the optimisers of what
    /// follows, stay as they are.
    pub(super) fn clone_demos(
        &mut self,
        cloning: &Cloning,
        callback: CloningCallback<'_>,
    ) -> Result<(), LearnError> {
        let (chunk, encoder_params) = (self.settings.networks.chunk, self.networks.encoder_len());
        let seed = self.seed.purpose("cloning");
        let scale = self.networks.scale.clone();
        let mut demo_batches =
            DemoBatches::new(cloning, chunk, self.networks.vision_encoder.as_ref(), scale, seed)?;
        self.networks.set_std(Arc::make_mut(&mut self.policy).as_mut_slice(), &cloning.std);
        let optim = &self.settings.policy_optim;
        let (clip, mut adam) = (optim.clip_grad, Adam::new(self.policy.len(), optim.adam));
        let mut encoder_adam = Adam::new(encoder_params, optim.adam);
        self.begin_cloning_on_gpu()?;
        for step in 0..cloning.steps {
            let lr = demo_batches.lr(step);
            let batch = demo_batches.batch_at(step);
            let diverged = |value| LearnError::Diverged { what: "the loss of cloning", value, updates: step };
            let loss = if self.gpu.is_some() {
                let (loss, norms) = self.clone_step_on_gpu(batch, &mut adam, lr)?;
                if !(loss.is_finite() && norms[0].is_finite()) {
                    return Err(diverged(loss));
                }
                loss
            } else {
                let loss = self.cloning_gradients(batch, step);
                let norm = clip_grad_norm(&mut self.buffers.policy_grads, clip);
                clip_grad_norm(&mut self.buffers.critic_grads, clip);
                if !(loss.is_finite() && norm.is_finite()) {
                    return Err(diverged(loss));
                }
                adam.step(Arc::make_mut(&mut self.policy).as_mut_slice(), &self.buffers.policy_grads, lr);
                encoder_adam.step(&mut self.critics[..encoder_params], &self.buffers.critic_grads, lr);
                loss
            };
            if callback(step + 1, loss).is_break() {
                break;
            }
        }
        self.end_cloning_on_gpu()
    }

    /// The distance to the demonstrated actions. Its gradients are left where those of policy and encoder belong.
    fn cloning_gradients(&mut self, batch: &Transitions, step: u64) -> f64 {
        let networks = self.networks.clone();
        let SoftNetworks { vision_encoder, policy, gaussian, .. } = &*networks;
        let (n, obs_batch) = (batch.len(), ObsBatch::from(&batch.obs));
        let encoder_params = &self.critics[..networks.encoder_len()];
        let buffers = &mut self.buffers;
        let encoded = match vision_encoder {
            None => obs_batch.states,
            Some(vision_encoder) => {
                let dropout = Dropout::On(self.seed.purpose("cloning dropout").index(step));
                vision_encoder.forward(encoder_params, &obs_batch, n, dropout, &mut buffers.encoder_tape)
            }
        };
        buffers.policy_outputs.clear();
        buffers.policy_outputs.extend_from_slice(policy.forward(
            &self.policy,
            encoded,
            n,
            &mut buffers.policy_tape,
        ));
        buffers.grad_output.resize(buffers.policy_outputs.len(), 0.0);
        let loss = gaussian.imitate(&buffers.policy_outputs, &batch.actions, &mut buffers.grad_output);
        zero(&mut buffers.policy_grads, self.policy.len());
        zero(&mut buffers.critic_grads, encoder_params.len());
        buffers.grad_encoded.resize(encoded.len(), 0.0);
        let grad_encoded = vision_encoder.is_some().then_some(&mut buffers.grad_encoded[..]);
        policy.backward(
            &self.policy,
            &mut buffers.policy_tape,
            &buffers.grad_output,
            &mut buffers.policy_grads,
            grad_encoded,
        );
        if let Some(vision_encoder) = vision_encoder {
            vision_encoder.backward(
                encoder_params,
                &obs_batch,
                &mut buffers.encoder_tape,
                &buffers.grad_encoded,
                &mut buffers.critic_grads,
            );
        }
        loss
    }
}
