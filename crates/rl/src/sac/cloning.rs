//! The policy of soft actor-critic as demonstrations would have it.

use std::sync::Arc;

use plaudit_nn::dense::encoder::Dropout;
use plaudit_nn::dense::{Adam, clip_grad_norm};

use super::{Sac, SoftNetworks};
use crate::LearnError;
use crate::cloning::{ClonedSoFar, Cloning, Shown};
use crate::replay::Transitions;
use crate::rows::zero;
use crate::sight::Look;

impl Sac {
    /// Takes the policy towards what was shown, and what sees along with it. The critics, and the optimisers of what
    /// follows, stay as they are.
    pub(super) fn clone_demos(&mut self, cloning: &Cloning, told: ClonedSoFar<'_>) -> Result<(), LearnError> {
        let (chunk, eyes) = (self.settings.networks.chunk, self.networks.eyes());
        let seed = self.seed.purpose("cloning");
        let scale = self.networks.scale.clone();
        let mut shown = Shown::new(cloning, chunk, self.networks.sight.as_ref(), scale, seed)?;
        self.networks.set_deviations(Arc::make_mut(&mut self.policy).as_mut_slice(), &cloning.std);
        let optim = &self.settings.policy_optim;
        let (clip, mut adam) = (optim.clip_grad, Adam::new(self.policy.len(), optim.adam));
        let mut eye_adam = Adam::new(eyes, optim.adam);
        for step in 0..cloning.steps {
            let lr = shown.lr(step);
            let loss = self.cloning_slopes(shown.lesson(step), step);
            let norm = clip_grad_norm(&mut self.work.policy_grads, clip);
            clip_grad_norm(&mut self.work.critic_grads, clip);
            if !(loss.is_finite() && norm.is_finite()) {
                return Err(LearnError::Diverged { what: "the loss of cloning", value: loss, updates: step });
            }
            adam.step(Arc::make_mut(&mut self.policy).as_mut_slice(), &self.work.policy_grads, lr);
            eye_adam.step(&mut self.critics[..eyes], &self.work.critic_grads, lr);
            if told(step + 1, loss).is_break() {
                break;
            }
        }
        if self.networks.has_target() {
            self.target[..eyes].copy_from_slice(&self.critics[..eyes]);
        }
        Ok(())
    }

    /// The distance to what was done; its gradients are left where those of policy and eyes belong.
    fn cloning_slopes(&mut self, batch: &Transitions, step: u64) -> f64 {
        let networks = self.networks.clone();
        let SoftNetworks { sight, policy, gaussian, .. } = &*networks;
        let (n, look) = (batch.len(), Look::from(&batch.seen));
        let eyes = &self.critics[..networks.eyes()];
        let work = &mut self.work;
        let seen = match sight {
            None => look.states,
            Some(sight) => {
                let dropout = Dropout::On(self.seed.purpose("cloning dropout").index(step));
                sight.forward(eyes, &look, n, dropout, &mut work.eyes)
            }
        };
        work.policy_outputs.clear();
        work.policy_outputs.extend_from_slice(policy.forward(&self.policy, seen, n, &mut work.policy_tape));
        work.by_output.resize(work.policy_outputs.len(), 0.0);
        let loss = gaussian.imitate(&work.policy_outputs, &batch.actions, &mut work.by_output);
        zero(&mut work.policy_grads, self.policy.len());
        zero(&mut work.critic_grads, eyes.len());
        work.by_seen.resize(seen.len(), 0.0);
        let by_seen = sight.is_some().then_some(&mut work.by_seen[..]);
        policy.backward(
            &self.policy,
            &mut work.policy_tape,
            &work.by_output,
            &mut work.policy_grads,
            by_seen,
        );
        if let Some(sight) = sight {
            sight.backward(eyes, &look, &mut work.eyes, &work.by_seen, &mut work.critic_grads);
        }
        loss
    }
}
