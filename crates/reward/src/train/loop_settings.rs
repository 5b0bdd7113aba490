//! What every training has, whatever learns in it.

use plaudit_core::{Schedule, Seed};

use super::batches::{micro_batches, steps_per_epoch};
use super::early_stop::EarlyStop;
use super::length::Length;

/// Batch sizes, length, learning rate and intervals of a training.
#[derive(Clone, Debug)]
pub struct LoopSettings {
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
    /// Seeds orders, and everything else that is random.
    pub seed: Seed,
}

impl LoopSettings {
    /// Steps in all, for so many examples.
    pub(crate) fn steps(&self, examples: usize) -> u64 {
        self.length.steps(steps_per_epoch(examples, self.micro_batch, self.global_batch))
    }

    /// Micro batches of a step.
    pub(crate) fn accumulation(&self) -> u64 {
        micro_batches(self.micro_batch, self.global_batch)
    }
}
