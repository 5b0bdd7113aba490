//! Behaviour cloning: a policy first does as demonstrations do, before any reward has a say.
//!
//! ```text
//! μ(s) → a        by the square of the difference (choices: by their log-probability)
//! σ(s) = b        set before: the deviation to explore with from then on
//! ```
//!
//! over transitions of the demonstrations, each as likely as any other. σ is not what demonstrations differ by: a wide one
//! would excuse a wrong μ, and exploring that widely would undo what was shown. Nor does it learn to be b: its slopes are
//! steeper than those of a nearly right μ, and both go through the same layers.

use std::ops::ControlFlow;

use plaudit_core::{Seed, Segment};

use crate::replay::{Amount, NewRollout, Repay, Replay, ReplaySettings, Transitions};
use crate::sight::Sight;
use crate::{LearnError, StateScale};

/// What is cloned, and how.
#[derive(Debug, Clone)]
pub struct Cloning {
    /// What was shown.
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

/// What [`crate::Learner::imitate`] tells as it goes on: steps done, and the newest loss. It goes on as long as it is
/// told to.
pub type ClonedSoFar<'a> = &'a mut dyn FnMut(u64, f64) -> ControlFlow<()>;

/// Batches of what was shown.
pub(crate) struct Shown<'a> {
    cloning: &'a Cloning,
    replay: Replay,
    scale: Option<StateScale>,
    seed: Seed,
    batch: Transitions,
}

impl<'a> Shown<'a> {
    /// All demonstrations, as a policy with these eyes sees them.
    pub(crate) fn new(
        cloning: &'a Cloning,
        chunk: usize,
        sight: Option<&Sight>,
        scale: Option<StateScale>,
        seed: Seed,
    ) -> Result<Self, LearnError> {
        let all = Amount::Rollouts(cloning.demos.len());
        let cameras = sight.map_or_else(Vec::new, |sight| sight.pictured().to_vec());
        let mut replay =
            Replay::new(ReplaySettings { keep: all, window: all, chunk, cameras, repay: Repay::default() });
        for segment in &cloning.demos {
            let reward = vec![0.0; segment.end.len()];
            let demo = NewRollout { segment: segment.clone(), fresh: Vec::new(), reward, version: 0 };
            replay.add_seen(demo, sight)?;
        }
        if replay.transitions() == 0 {
            return Err(LearnError::Setting("there is nothing to clone: no demonstration has a step".into()));
        }
        Ok(Self { cloning, replay, scale, seed, batch: Transitions::default() })
    }

    /// What a step of the optimiser learns from.
    pub(crate) fn lesson(&mut self, step: u64) -> &Transitions {
        let mut rng = self.seed.index(step).rng();
        self.batch.clear();
        // A replay draws no more than it has; few demonstrations are drawn from several times.
        while self.batch.len() < self.cloning.batch {
            self.replay.sample(self.cloning.batch - self.batch.len(), &mut rng, &mut self.batch);
        }
        if let Some(scale) = &self.scale {
            scale.apply(&mut self.batch.seen.states);
        }
        &self.batch
    }

    /// The learning rate of a step.
    pub(crate) fn lr(&self, step: u64) -> f32 {
        (self.cloning.lr * (1.0 - step as f64 / self.cloning.steps as f64)) as f32
    }
}
