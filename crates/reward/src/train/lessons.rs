//! The loop that a reward model of any kind learns in.

use std::path::Path;
use std::time::Instant;

use plaudit_core::{Emit, Event, Level};
use plaudit_nn::Weights;
use plaudit_nn::classifier::StepOutcome;

use super::batches::Batches;
use super::checkpoint::{Checkpoints, Resumed};
use super::early_stop::{Better, Progress};
use super::error::TrainError;
use super::pace::Pace;
use crate::metrics::Metrics;

/// Whoever runs a training: hears of it, remembers how far it is, and may ask it to stop.
pub trait Host<M = Metrics>: Emit {
    /// A checkpoint is on disk; with it and this progress, the training can go on.
    ///
    /// # Errors
    /// When that cannot be remembered, in words.
    fn saved(&mut self, progress: &Progress<M>) -> Result<(), String>;

    /// Whether the training should stop after this step.
    fn stop(&self) -> bool;
}

/// How a training ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome<M = Metrics> {
    /// Where it stands.
    pub progress: Progress<M>,
    /// Why it ended.
    pub why: Why,
}

/// Why a training ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// It reached its last step.
    Done,
    /// Validation no longer improved.
    Stale,
    /// Its host asked for it.
    Stopped,
}

/// A model with the examples it learns from and those it is measured on.
pub(crate) trait Pupil {
    /// What a validation finds.
    type Metrics;

    /// Adds the gradient of some examples, times `scale`, and gives their loss.
    fn accumulate(&mut self, at: Micro, examples: &[usize], scale: f64) -> Result<f64, TrainError>;

    /// One step of the optimiser along what was added.
    fn step(&mut self, lr: f64, clip: Option<f64>) -> StepOutcome;

    /// What the examples of the last step showed beside their loss, as events name it.
    fn seen(&mut self) -> Vec<(String, f64)> {
        Vec::new()
    }

    /// How well it does on other examples; nothing where there are none.
    fn measure(&mut self) -> Result<Option<Measured<Self::Metrics>>, TrainError>;

    /// Writes the model as it is now into a folder. `found` is what was measured of just this model.
    fn write(
        &self,
        folder: &Path,
        progress: &Progress<Self::Metrics>,
        found: Option<&Self::Metrics>,
    ) -> Result<(), TrainError>;

    /// All that going on needs.
    fn state(&self) -> Weights;

    /// Goes on from such a state.
    fn restore(&mut self, state: &Weights) -> Result<(), TrainError>;

    /// An example, in words.
    fn name(&self, example: usize) -> String;
}

/// Which micro batch it is, counted from the beginning, and in which pass through all examples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Micro {
    /// Micro batches before it.
    pub(crate) number: u64,
    /// Passes before its own.
    pub(crate) epoch: u64,
}

/// What a validation found.
pub(crate) struct Measured<M> {
    /// The monitored number.
    pub(crate) value: f64,
    /// Which way it gets better.
    pub(crate) better: Better,
    /// Everything that is kept of it.
    pub(crate) metrics: M,
    /// As events name it.
    pub(crate) values: Vec<(String, f64)>,
}

/// Steps on end without a usable gradient before a training gives up.
const VOID_STEPS: u64 = 10;
/// Examples that a message names.
const NAMED: usize = 6;

/// A pupil, its pace, and how far it is.
pub(crate) struct Lessons<P: Pupil> {
    pub(crate) pupil: P,
    pace: Pace,
    examples: usize,
    batches: Batches,
    progress: Progress<P::Metrics>,
}

impl<P: Pupil<Metrics: Clone>> Lessons<P> {
    /// At their beginning, with so many examples to learn from.
    pub(crate) fn new(pupil: P, pace: Pace, examples: usize) -> Self {
        let batches = Batches::new(examples, pace.micro_batch, pace.shuffle, pace.seed.purpose("order"));
        Self { pupil, pace, examples, batches, progress: Progress::default() }
    }

    /// Goes on from a checkpoint.
    pub(crate) fn resume(
        &mut self,
        progress: Progress<P::Metrics>,
        from: &Resumed,
    ) -> Result<(), TrainError> {
        self.pupil.restore(&from.state)?;
        self.progress = progress;
        Ok(())
    }

    /// How many steps there are in all.
    pub(crate) fn steps(&self) -> u64 {
        self.pace.steps(self.examples)
    }

    /// How many times all steps together go through the examples.
    pub(crate) fn epochs(&self) -> f64 {
        (self.steps() * self.pace.accumulation()) as f64 / self.batches.per_epoch() as f64
    }

    /// Goes to the end, or until there is a reason to stop.
    pub(crate) fn run(
        mut self,
        checkpoints: &Checkpoints,
        host: &mut dyn Host<P::Metrics>,
    ) -> Result<Outcome<P::Metrics>, TrainError> {
        let last = self.steps();
        while self.progress.step < last {
            let stale = self.progress.is_stale(self.pace.early_stop);
            if stale || host.stop() {
                let why = if stale { Why::Stale } else { Why::Stopped };
                return self.end(checkpoints, host, why);
            }
            self.step(checkpoints, host)?;
            let is_due = |every: Option<u64>| {
                every.is_some_and(|every| self.progress.step.is_multiple_of(every.max(1)))
            };
            let (validate, save) = (is_due(self.pace.val_interval), is_due(self.pace.save_interval));
            if validate || self.progress.step == last {
                self.validate(checkpoints, host)?;
            }
            if save && self.progress.step < last {
                self.save(checkpoints, host)?;
            }
        }
        self.end(checkpoints, host, Why::Done)
    }

    /// One step of the optimiser.
    fn step(&mut self, checkpoints: &Checkpoints, host: &mut dyn Host<P::Metrics>) -> Result<(), TrainError> {
        let began = Instant::now();
        let (step, accumulation) = (self.progress.step, self.pace.accumulation());
        let lr = self.pace.schedule.at(step);
        let (mut losses, mut examples) = (0.0, Vec::new());
        for number in step * accumulation..(step + 1) * accumulation {
            examples = self.batches.frames(number);
            let at = Micro { number, epoch: self.batches.epoch(number) };
            let loss = self.pupil.accumulate(at, &examples, 1.0 / accumulation as f64)?;
            if !loss.is_finite() {
                let (frames, kept) = (self.named(&examples), self.kept(checkpoints));
                return Err(TrainError::Loss { step: step + 1, loss, frames, lr, kept });
            }
            losses += loss;
        }
        let moved = self.pupil.step(lr, self.pace.clip);
        self.progress.step += 1;
        self.progress.void_steps = if moved.skipped { self.progress.void_steps + 1 } else { 0 };
        if moved.skipped {
            let text = format!("step {}: the gradient is not finite, so nothing was learned", step + 1);
            host.emit(Event::Notice { level: Level::Warning, text });
        }
        if self.progress.void_steps >= VOID_STEPS {
            let (steps, frames, kept) = (VOID_STEPS, self.named(&examples), self.kept(checkpoints));
            return Err(TrainError::Gradient { steps, step: step + 1, frames, lr, kept });
        }
        let mut values = vec![("train/loss".to_string(), losses / accumulation as f64)];
        values.append(&mut self.pupil.seen());
        values.extend([
            ("train/grad_norm".to_string(), moved.grad_norm),
            ("train/learning_rate".to_string(), lr),
            ("time/step_secs".to_string(), began.elapsed().as_secs_f64()),
        ]);
        host.emit(Event::Metrics { step: self.progress.step, values });
        host.emit(Event::Progress { step: self.progress.step });
        Ok(())
    }

    /// Measures, tells, and keeps the model if it is the best.
    fn validate(
        &mut self,
        checkpoints: &Checkpoints,
        host: &mut dyn Host<P::Metrics>,
    ) -> Result<(), TrainError> {
        if self.progress.validated == Some(self.progress.step) {
            return Ok(());
        }
        let began = Instant::now();
        let Some(found) = self.pupil.measure()? else { return Ok(()) };
        let Measured { value, better, metrics, mut values } = found;
        values.push(("time/evaluate_secs".into(), began.elapsed().as_secs_f64()));
        host.emit(Event::Metrics { step: self.progress.step, values });
        if self.progress.measured(value, metrics.clone(), better, self.pace.early_stop) {
            self.save_best(checkpoints, Some(&metrics))?;
        }
        Ok(())
    }

    fn save_best(&self, checkpoints: &Checkpoints, found: Option<&P::Metrics>) -> Result<(), TrainError> {
        checkpoints.save_best(|folder| self.pupil.write(folder, &self.progress, found))
    }

    fn save(&mut self, checkpoints: &Checkpoints, host: &mut dyn Host<P::Metrics>) -> Result<(), TrainError> {
        let write = |folder: &Path| self.pupil.write(folder, &self.progress, None);
        checkpoints.save(self.progress.step, &self.pupil.state(), write)?;
        host.saved(&self.progress).map_err(TrainError::Host)
    }

    fn end(
        mut self,
        checkpoints: &Checkpoints,
        host: &mut dyn Host<P::Metrics>,
        why: Why,
    ) -> Result<Outcome<P::Metrics>, TrainError> {
        self.save(checkpoints, host)?;
        if self.progress.validated.is_none() && why != Why::Stopped {
            // Nothing tells models apart, so the last one is the best.
            self.save_best(checkpoints, None)?;
        }
        Ok(Outcome { progress: self.progress, why })
    }

    /// The examples of a batch, by name.
    fn named(&self, examples: &[usize]) -> String {
        let named: Vec<String> =
            examples.iter().take(NAMED).map(|example| self.pupil.name(*example)).collect();
        let more = examples.len().saturating_sub(NAMED);
        let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
        format!("{}{rest}", named.join(", "))
    }

    fn kept(&self, checkpoints: &Checkpoints) -> String {
        checkpoints.kept(self.progress.step, self.pace.save_interval)
    }
}
