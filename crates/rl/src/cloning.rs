//! Behaviour cloning: a policy first imitates demonstrations, before it learns by reward.
//!
//! ```text
//! μ(s) → a        by the square of the difference (choices: by their log-probability)
//! σ(s) = b        set before: the deviation to explore with from then on
//! ```
//!
//! over transitions of the demonstrations, sampled uniformly. σ is not the deviation of the demonstrations: a wide one
//! would excuse a wrong μ, and exploring that widely would undo what was cloned. Nor is it learned: its gradients are
//! larger than those of a nearly right μ, and both go through the same layers.

use std::ops::ControlFlow;

use plaudit_core::{Seed, Segment};

use crate::replay::{Amount, NewRollout, RelabelSettings, Replay, ReplaySettings, Transitions};
use crate::vision_encoder::VisionEncoder;
use crate::{LearnError, SettingError, StateScale};

/// What is cloned, and how.
#[derive(Debug, Clone)]
pub struct Cloning {
    /// The demonstrations.
    pub demos: Vec<Segment>,
    /// Steps of the optimiser.
    pub steps: u64,
    /// Transitions per step.
    pub batch: usize,
    /// Learning rate of the first step; it falls in a straight line to nothing.
    pub lr: f64,
    /// The deviation that each number of an action is left with; nothing for choices.
    pub std: Vec<f32>,
}

/// Callback of [`crate::Learner::imitate`], with the steps done and the newest loss. Cloning goes on while it returns
/// `Continue`.
pub type CloningCallback<'a> = &'a mut dyn FnMut(u64, f64) -> ControlFlow<()>;

/// Batches of demonstrations.
pub(crate) struct DemoBatches<'a> {
    cloning: &'a Cloning,
    replay: Replay,
    scale: Option<StateScale>,
    seed: Seed,
    batch: Transitions,
}

impl<'a> DemoBatches<'a> {
    /// All demonstrations, encoded as this policy needs them.
    pub(crate) fn new(
        cloning: &'a Cloning,
        chunk: usize,
        vision_encoder: Option<&VisionEncoder>,
        scale: Option<StateScale>,
        seed: Seed,
    ) -> Result<Self, LearnError> {
        let all = Amount::Rollouts(cloning.demos.len());
        let cameras =
            vision_encoder.map_or_else(Vec::new, |vision_encoder| vision_encoder.image_cameras().to_vec());
        let mut replay = Replay::new(ReplaySettings {
            keep: all,
            window: all,
            chunk,
            cameras,
            relabel: RelabelSettings::default(),
        });
        for segment in &cloning.demos {
            let reward = vec![0.0; segment.end.len()];
            let demo = NewRollout { segment: segment.clone(), starts_chunk: Vec::new(), reward, version: 0 };
            replay.add_encoded(demo, vision_encoder)?;
        }
        if replay.transitions() == 0 {
            return Err(SettingError::NothingToClone.into());
        }
        Ok(Self { cloning, replay, scale, seed, batch: Transitions::default() })
    }

    /// The batch of a step of the optimiser.
    pub(crate) fn batch_at(&mut self, step: u64) -> &Transitions {
        let mut rng = self.seed.index(step).rng();
        self.batch.clear();
        // A replay samples no more than it has; few demonstrations are sampled several times.
        while self.batch.len() < self.cloning.batch {
            self.replay.sample(self.cloning.batch - self.batch.len(), &mut rng, &mut self.batch);
        }
        if let Some(scale) = &self.scale {
            scale.apply(&mut self.batch.obs.states);
        }
        &self.batch
    }

    /// The learning rate of a step.
    pub(crate) fn lr(&self, step: u64) -> f32 {
        (self.cloning.lr * (1.0 - step as f64 / self.cloning.steps as f64)) as f32
    }
}
