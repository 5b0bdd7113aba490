//! PPO's policy as demonstrations would have it.

use plaudit_nn::dense::{Adam, clip_grad_norm};

use super::{Desk, Ppo};
use crate::actor_critic::Parameters;
use crate::cloning::{ClonedSoFar, Cloning, Shown};
use crate::learner::LearnError;
use crate::replay::Transitions;
use crate::rows::zero;
use crate::sight::Look;

impl Ppo {
    /// Takes the actor towards what was shown. The critic, and the optimiser of what follows, stay as they are.
    pub(super) fn clone_demos(&mut self, cloning: &Cloning, told: ClonedSoFar<'_>) -> Result<(), LearnError> {
        let (chunk, seed) = (self.networks.head().chunk, self.seed.purpose("cloning"));
        let mut shown = Shown::new(cloning, chunk, self.networks.sight(), None, seed)?;
        self.networks.set_deviations(&mut self.params, &cloning.std);
        let mut adam = Adam::new(self.params.len(), self.settings.adam);
        for step in 0..cloning.steps {
            let lr = shown.lr(step);
            let loss = self.cloning_slopes(shown.lesson(step));
            let norm = clip_grad_norm(&mut self.desk.grads, self.settings.clip_grad);
            if !(loss.is_finite() && norm.is_finite()) {
                return Err(LearnError::Diverged { what: "the loss of cloning", value: loss, updates: step });
            }
            adam.step_groups(&mut self.params, &self.desk.grads, &[(self.networks.actor_range(), lr)]);
            if told(step + 1, loss).is_break() {
                break;
            }
        }
        Ok(())
    }

    /// The distance to what was done, and its gradient, which is left on the desk.
    fn cloning_slopes(&mut self, batch: &Transitions) -> f64 {
        let (networks, n) = (&self.networks, batch.len());
        let (head, look) = (networks.head(), Look::from(&batch.seen));
        let Desk { thoughts, grad_outputs, grad_values, grads, .. } = &mut self.desk;
        networks.forward(&self.params, &look, n, thoughts);
        zero(grad_outputs, thoughts.outputs.len());
        zero(grad_values, thoughts.values.len());
        zero(grads, self.params.len());
        let (each, wide) = (1.0 / n as f32, head.chunk * head.action_width());
        let outputs = thoughts.outputs.chunks_exact(head.outputs());
        let rows = outputs.zip(grad_outputs.chunks_exact_mut(head.outputs()));
        let mut distance = 0.0;
        for ((outputs, grad), actions) in rows.zip(batch.actions.chunks_exact(wide)) {
            distance += f64::from(head.imitate(outputs, actions, each, grad));
        }
        let since = Parameters::Changed;
        networks.backward(&self.params, since, &look, thoughts, grad_outputs, grad_values, grads);
        distance / n as f64
    }
}
