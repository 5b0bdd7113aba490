//! The training loop of every reward model.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use plaudit_core::{DiscardEvents, Emit, Event, GradientSync, Level, OneRank, SyncError};
use plaudit_nn::Weights;
use plaudit_nn::classifier::{Sharding, StepOutcome};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::batches::Batches;
use super::checkpoint::{Checkpoints, ResumePoint};
use super::early_stop::{Better, Progress};
use super::error::TrainError;
use super::loop_settings::LoopSettings;
use crate::metrics::Metrics;

/// Callbacks of a training: they receive its events, store its progress, and may ask it to stop.
pub trait TrainCallbacks<M = Metrics>: Emit {
    /// A checkpoint is on disk; with it and this progress, the training can go on.
    ///
    /// # Errors
    /// When that cannot be stored, in words.
    fn saved(&mut self, progress: &Progress<M>) -> Result<(), String>;

    /// Whether the training should stop after this step.
    fn stop(&self) -> bool;
}

/// Nobody listens: the training goes on to its end.
impl<M> TrainCallbacks<M> for DiscardEvents {
    fn saved(&mut self, _: &Progress<M>) -> Result<(), String> {
        Ok(())
    }

    fn stop(&self) -> bool {
        false
    }
}

/// How a training ended.
#[derive(Clone, Debug, PartialEq)]
pub struct TrainOutcome<M = Metrics> {
    /// Where it stands.
    pub progress: Progress<M>,
    /// Why it ended.
    pub reason: StopReason,
}

/// Why a training ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// It reached its last step.
    Finished,
    /// Validation no longer improved.
    NoImprovement,
    /// The callbacks asked for it.
    Interrupted,
}

/// A model with the examples it learns from and those it is measured on.
pub trait Trainable {
    /// What a validation finds.
    type Metrics;

    /// Says which examples come after those that are accumulated next, so that they can be made ready meanwhile.
    fn upcoming(&mut self, _at: MicroBatch, _examples: Vec<usize>) {}

    /// Adds the gradient of some examples, times `scale`, and gives their loss.
    fn accumulate(&mut self, at: MicroBatch, examples: &[usize], scale: f64) -> Result<f64, TrainError>;

    /// Learns together with other ranks from now on, beginning with the model of rank 0.
    fn join_ranks(&mut self, ranks: &Arc<dyn GradientSync>, sharding: Sharding) -> Result<(), TrainError>;

    /// Sums what each rank added; called once after each [`accumulate`](Self::accumulate).
    fn reduce(&mut self) -> Result<(), SyncError>;

    /// One step of the optimiser along what was added, on all ranks.
    fn step(&mut self, lr: f64, clip: Option<f64>) -> Result<StepOutcome, TrainError>;

    /// Metrics of the last step beside its loss, as events name them.
    fn train_metrics(&mut self) -> Vec<(String, f64)> {
        Vec::new()
    }

    /// How well it does on other examples; nothing where there are none.
    fn measure(&mut self) -> Result<Option<ValidationResult<Self::Metrics>>, TrainError>;

    /// Writes the model as it is now into a folder. `found` is what was measured of just this model.
    fn write(
        &self,
        folder: &Path,
        progress: &Progress<Self::Metrics>,
        found: Option<&Self::Metrics>,
    ) -> Result<(), TrainError>;

    /// All that going on needs, on rank 0; nothing on the others. All of them call it.
    fn state(&self) -> Result<Option<Weights>, TrainError>;

    /// Goes on from such a state.
    fn restore(&mut self, state: &Weights) -> Result<(), TrainError>;

    /// An example, in words.
    fn name(&self, example: usize) -> String;
}

/// Which micro batch it is, counted from the beginning, and in which pass through all examples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MicroBatch {
    /// Micro batches before it.
    pub number: u64,
    /// Passes before its own.
    pub epoch: u64,
}

/// What a validation found.
pub struct ValidationResult<M> {
    /// The monitored number.
    pub value: f64,
    /// Which way it gets better.
    pub better: Better,
    /// Everything that is kept of it.
    pub metrics: M,
    /// As events name it.
    pub values: Vec<(String, f64)>,
}

/// Skipped steps on end (non-finite gradients) before a training gives up.
const MAX_SKIPPED_STEPS: u64 = 10;
/// Examples that a message names.
const NAMED: usize = 6;

/// A training: a model, its settings, and how far it is.
pub struct TrainLoop<P: Trainable> {
    pub(crate) model: P,
    loop_settings: LoopSettings,
    examples: usize,
    batches: Batches,
    progress: Progress<P::Metrics>,
    ranks: Arc<dyn GradientSync>,
}

impl<P: Trainable<Metrics: Clone>> TrainLoop<P> {
    /// At their beginning, with so many examples to learn from.
    pub(crate) fn over(model: P, loop_settings: LoopSettings, examples: usize) -> Self {
        let batches = Batches::new(
            examples,
            loop_settings.micro_batch,
            loop_settings.shuffle,
            loop_settings.seed.purpose("order"),
        );
        let (progress, ranks) = (Progress::default(), Arc::new(OneRank));
        Self { model, loop_settings, examples, batches, progress, ranks }
    }

    /// Trains together with other ranks from now on: each takes its share of the micro batches of a step. All go on from
    /// where rank 0 is; only there need a checkpoint have been [resumed](Self::resume).
    ///
    /// # Errors
    /// When ranks cannot share a step evenly, or another rank is gone.
    pub fn join_ranks(&mut self, ranks: Arc<dyn GradientSync>, sharding: Sharding) -> Result<(), TrainError>
    where
        P::Metrics: Serialize + DeserializeOwned,
    {
        self.check_ranks(ranks.world())?;
        if ranks.world() == 1 {
            return Ok(());
        }
        self.model.join_ranks(&ranks, sharding)?;
        let progress = serde_json::to_string(&self.progress).map_err(|error| callback(&error))?;
        let progress = ranks.broadcast_text(0, &progress)?;
        self.progress = serde_json::from_str(&progress).map_err(|error| callback(&error))?;
        self.ranks = ranks;
        Ok(())
    }

    /// Whether so many ranks can share a step.
    ///
    /// # Errors
    /// When one would have more micro batches than another.
    pub fn check_ranks(&self, world: usize) -> Result<(), TrainError> {
        let (world, accumulation) = (world as u64, self.loop_settings.accumulation());
        let LoopSettings { micro_batch, global_batch, .. } = self.loop_settings;
        match accumulation.is_multiple_of(world) {
            true => Ok(()),
            false => Err(TrainError::UnevenRanks { world, accumulation, micro_batch, global_batch }),
        }
    }

    fn is_first_rank(&self) -> bool {
        self.ranks.rank() == 0
    }

    /// Goes on from a checkpoint.
    ///
    /// # Errors
    /// When it is of another model.
    pub fn resume(&mut self, progress: Progress<P::Metrics>, from: &ResumePoint) -> Result<(), TrainError> {
        self.model.restore(&from.state)?;
        self.progress = progress;
        Ok(())
    }

    /// How many steps there are in all.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.loop_settings.steps(self.examples)
    }

    /// How many times all steps together go through the examples.
    #[must_use]
    pub fn epochs(&self) -> f64 {
        (self.steps() * self.loop_settings.accumulation()) as f64 / self.batches.per_epoch() as f64
    }

    /// Trains to the end, or until there is a reason to stop.
    ///
    /// # Errors
    /// When the loss leaves the numbers, or a checkpoint cannot be written. What was saved before stays.
    pub fn run(
        mut self,
        checkpoints: &Checkpoints,
        callbacks: &mut dyn TrainCallbacks<P::Metrics>,
    ) -> Result<TrainOutcome<P::Metrics>, TrainError> {
        let last = self.steps();
        while self.progress.step < last {
            let stale = self.progress.is_stale(self.loop_settings.early_stop);
            if stale || self.ranks.any(callbacks.stop())? {
                let reason = if stale { StopReason::NoImprovement } else { StopReason::Interrupted };
                return self.end(checkpoints, callbacks, reason);
            }
            self.step(checkpoints, callbacks)?;
            let is_due = |every: Option<u64>| {
                every.is_some_and(|every| self.progress.step.is_multiple_of(every.max(1)))
            };
            let (validate, save) =
                (is_due(self.loop_settings.val_interval), is_due(self.loop_settings.save_interval));
            if validate || self.progress.step == last {
                self.validate(checkpoints, callbacks)?;
            }
            if save && self.progress.step < last {
                self.save(checkpoints, callbacks)?;
            }
        }
        self.end(checkpoints, callbacks, StopReason::Finished)
    }

    /// One step of the optimiser.
    fn step(
        &mut self,
        checkpoints: &Checkpoints,
        callbacks: &mut dyn TrainCallbacks<P::Metrics>,
    ) -> Result<(), TrainError> {
        let began = Instant::now();
        let (step, accumulation) = (self.progress.step, self.loop_settings.accumulation());
        let (rank, world) = (self.ranks.rank() as u64, self.ranks.world() as u64);
        let lr = self.loop_settings.schedule.at(step);
        let (mut losses, mut examples) = (0.0, Vec::new());
        for first in (step * accumulation..(step + 1) * accumulation).step_by(world as usize) {
            let number = first + rank;
            examples = self.batches.frames(number);
            let at = MicroBatch { number, epoch: self.batches.epoch(number) };
            let next = number + world;
            if next < self.steps() * accumulation {
                let at = MicroBatch { number: next, epoch: self.batches.epoch(next) };
                let examples = self.batches.frames(next);
                self.model.upcoming(at, examples);
            }
            let loss = self.model.accumulate(at, &examples, 1.0 / accumulation as f64);
            let finite = loss.and_then(|loss| match loss.is_finite() {
                true => Ok(loss),
                false => {
                    let (frames, kept) = (self.named(&examples), self.kept(checkpoints));
                    Err(TrainError::Loss { step: step + 1, loss, frames, lr, kept })
                }
            });
            // In the order of micro batches, as one rank would add them.
            let loss = self.ranks.agree(finite)?;
            self.ranks.gather_f64(loss)?.into_iter().for_each(|loss| losses += loss);
            self.model.reduce()?;
        }
        let moved = self.model.step(lr, self.loop_settings.clip)?;
        self.progress.step += 1;
        self.progress.skipped_steps = if moved.skipped { self.progress.skipped_steps + 1 } else { 0 };
        if moved.skipped {
            let text = format!("step {}: the gradient is not finite, so nothing was learned", step + 1);
            callbacks.emit(Event::Notice { level: Level::Warning, text });
        }
        if self.progress.skipped_steps >= MAX_SKIPPED_STEPS {
            let (steps, frames, kept) = (MAX_SKIPPED_STEPS, self.named(&examples), self.kept(checkpoints));
            return Err(TrainError::Gradient { steps, step: step + 1, frames, lr, kept });
        }
        let mut values = vec![("train/loss".to_string(), losses / accumulation as f64)];
        values.append(&mut self.model.train_metrics());
        values.extend([
            ("train/grad_norm".to_string(), moved.grad_norm),
            ("train/learning_rate".to_string(), lr),
            ("time/step_secs".to_string(), began.elapsed().as_secs_f64()),
        ]);
        callbacks.emit(Event::Metrics { step: self.progress.step, values });
        callbacks.emit(Event::Progress { step: self.progress.step });
        Ok(())
    }

    /// Validates, emits the metrics, and saves the model if it is the best.
    fn validate(
        &mut self,
        checkpoints: &Checkpoints,
        callbacks: &mut dyn TrainCallbacks<P::Metrics>,
    ) -> Result<(), TrainError> {
        if self.progress.validated == Some(self.progress.step) {
            return Ok(());
        }
        let began = Instant::now();
        let found = self.model.measure();
        let Some(found) = self.ranks.agree(found)? else { return Ok(()) };
        let ValidationResult { value, better, metrics, mut values } = found;
        values.push(("time/evaluate_secs".into(), began.elapsed().as_secs_f64()));
        callbacks.emit(Event::Metrics { step: self.progress.step, values });
        if self.progress.measured(value, metrics.clone(), better, self.loop_settings.early_stop) {
            self.save_best(checkpoints, Some(&metrics))?;
        }
        Ok(())
    }

    fn save_best(&self, checkpoints: &Checkpoints, found: Option<&P::Metrics>) -> Result<(), TrainError> {
        let save = || checkpoints.save_best(|folder| self.model.write(folder, &self.progress, found));
        self.ranks.agree(if self.is_first_rank() { save() } else { Ok(()) })
    }

    fn save(
        &mut self,
        checkpoints: &Checkpoints,
        callbacks: &mut dyn TrainCallbacks<P::Metrics>,
    ) -> Result<(), TrainError> {
        let write = |folder: &Path| self.model.write(folder, &self.progress, None);
        let saved = match self.model.state()? {
            Some(state) => checkpoints
                .save(self.progress.step, &state, write)
                .and_then(|()| callbacks.saved(&self.progress).map_err(TrainError::Callback)),
            None => Ok(()),
        };
        self.ranks.agree(saved)
    }

    fn end(
        mut self,
        checkpoints: &Checkpoints,
        callbacks: &mut dyn TrainCallbacks<P::Metrics>,
        reason: StopReason,
    ) -> Result<TrainOutcome<P::Metrics>, TrainError> {
        self.save(checkpoints, callbacks)?;
        if self.progress.validated.is_none() && reason != StopReason::Interrupted {
            // Without validation, the last model is the best.
            self.save_best(checkpoints, None)?;
        }
        Ok(TrainOutcome { progress: self.progress, reason })
    }

    /// The examples of a batch, by name.
    fn named(&self, examples: &[usize]) -> String {
        let named: Vec<String> =
            examples.iter().take(NAMED).map(|example| self.model.name(*example)).collect();
        let more = examples.len().saturating_sub(NAMED);
        let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
        format!("{}{rest}", named.join(", "))
    }

    fn kept(&self, checkpoints: &Checkpoints) -> String {
        checkpoints.kept(self.progress.step, self.loop_settings.save_interval)
    }
}

/// How far a training is cannot be written or read.
fn callback(error: &serde_json::Error) -> TrainError {
    TrainError::Callback(error.to_string())
}
