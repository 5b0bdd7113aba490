//! What every training has, whatever learns in it.

use plaudit_core::Seed;

use super::batches::{micro_batches, steps_per_epoch};
use super::early_stop::EarlyStop;
use super::length::Length;
use super::schedule::Schedule;

/// How examples are dealt out, how long and how fast they are learned from, and what is done every so often.
#[derive(Clone, Debug)]
pub struct Pace {
    /// Examples that go through the network at once.
    pub micro_batch: usize,
    /// Examples of one step: one or more micro batches.
    pub global_batch: usize,
    /// Examples that go through the network at once while measuring.
    pub eval_batch: usize,
    /// How long.
    pub length: Length,
    /// Validate every so many steps; always at the end.
    pub val_interval: Option<u64>,
    /// Save every so many steps; always at the end.
    pub save_interval: Option<u64>,
    /// When to stop before the end.
    pub early_stop: Option<EarlyStop>,
    /// The learning rate.
    pub schedule: Schedule,
    /// Longest gradient.
    pub clip: Option<f64>,
    /// Whether every epoch has its own order.
    pub shuffle: bool,
    /// Decides orders, and whatever else is left to chance.
    pub seed: Seed,
}

impl Pace {
    /// Steps in all, for so many examples.
    pub(crate) fn steps(&self, examples: usize) -> u64 {
        self.length.steps(steps_per_epoch(examples, self.micro_batch, self.global_batch))
    }

    /// Micro batches of a step.
    pub(crate) fn accumulation(&self) -> u64 {
        micro_batches(self.micro_batch, self.global_batch)
    }
}
