//! The loop.

use std::time::Instant;

use plaudit_core::{Emit, Event, Level, Seed};
use plaudit_nn::classifier::{Accumulated, ClassifierError, Trainer};

use super::batches::{Batches, micro_batches, steps_per_epoch};
use super::checkpoint::{Checkpoints, Resumed};
use super::early_stop::Progress;
use super::error::TrainError;
use super::evaluate::{Evaluation, evaluate};
use super::settings::Settings;
use crate::card::ModelCard;
use crate::dataset::{self, Batch, Frames, Manifest};
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

/// A classifier, what it learns from, and how.
pub struct Training<'a> {
    trainer: Trainer,
    train: &'a Frames,
    val: Option<&'a Frames>,
    settings: Settings,
    batches: Batches,
    weights: Option<[f32; 2]>,
    card: ModelCard,
    progress: Progress,
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

/// What the micro batches of a step gave.
#[derive(Default)]
struct Seen {
    batches: usize,
    frames: usize,
    right: usize,
    sum_of_losses: f64,
    sum_of_probabilities: f64,
}

impl Seen {
    fn add(&mut self, found: &Accumulated, labels: &[f32]) {
        self.batches += 1;
        self.frames += labels.len();
        self.sum_of_losses += found.loss;
        for (logit, label) in found.logits.iter().zip(labels) {
            self.right += usize::from((*logit > 0.0) == (*label > 0.5));
            self.sum_of_probabilities += 1.0 / (1.0 + (-f64::from(*logit)).exp());
        }
    }

    /// As events name it.
    fn values(&self, grad_norm: f64, lr: f64, secs: f64) -> Vec<(String, f64)> {
        let frames = self.frames as f64;
        let values = [
            ("train/loss", self.sum_of_losses / self.batches as f64),
            ("train/accuracy", self.right as f64 / frames),
            ("train/grad_norm", grad_norm),
            ("train/learning_rate", lr),
            ("train/probabilities_mean", self.sum_of_probabilities / frames),
            ("time/step_secs", secs),
        ];
        values.map(|(name, value)| (name.to_string(), value)).into()
    }
}

/// Steps on end without a usable gradient before a training gives up.
pub(crate) const VOID_STEPS: u64 = 10;
/// Frames that a message names.
pub(crate) const NAMED: usize = 6;

impl<'a> Training<'a> {
    /// A training at its beginning. Looks at every pixel once, for the record.
    ///
    /// # Errors
    /// When nothing can be learned from these frames.
    pub fn new(
        trainer: Trainer,
        train: &'a Frames,
        val: Option<&'a Frames>,
        settings: Settings,
    ) -> Result<Self, TrainError> {
        dataset::check(train)?;
        let val = val.filter(|val| !val.is_empty());
        let card = ModelCard {
            class_balance: Some(train.balance()),
            dataset: Some(Manifest::of(train, val)),
            ..ModelCard::of(trainer.settings().clone())
        };
        let order = settings.seed.purpose("order");
        let batches = Batches::new(train.len(), settings.micro_batch, settings.shuffle, order);
        let weights = settings.class_weight.weights(train.balance());
        Ok(Self { trainer, train, val, settings, batches, weights, card, progress: Progress::default() })
    }

    /// Goes on from a checkpoint.
    ///
    /// # Errors
    /// When it is of another network.
    pub fn resume(&mut self, progress: Progress, from: &Resumed) -> Result<(), TrainError> {
        self.trainer.restore(&from.state)?;
        self.progress = progress;
        Ok(())
    }

    /// Micro batches of a step.
    fn accumulation(&self) -> u64 {
        micro_batches(self.settings.micro_batch, self.settings.global_batch)
    }

    /// How many steps there are in all.
    #[must_use]
    pub fn steps(&self) -> u64 {
        let Settings { micro_batch, global_batch, length, .. } = self.settings;
        length.steps(steps_per_epoch(self.train.len(), micro_batch, global_batch))
    }

    /// How many times all steps together go through the training frames.
    #[must_use]
    pub fn epochs(&self) -> f64 {
        (self.steps() * self.accumulation()) as f64 / self.batches.per_epoch() as f64
    }

    /// What the model will say about itself.
    #[must_use]
    pub fn card(&self) -> &ModelCard {
        &self.card
    }

    /// The seed of an epoch's changes to pictures.
    #[must_use]
    pub fn epoch_seed(seed: Seed, epoch: u64) -> Seed {
        seed.purpose("augment").index(epoch)
    }

    /// Trains to the end, or until there is a reason to stop.
    ///
    /// # Errors
    /// When the loss leaves the numbers, or a checkpoint cannot be written. What was saved before stays.
    pub fn run(mut self, checkpoints: &Checkpoints, host: &mut dyn Host) -> Result<Outcome, TrainError> {
        let last = self.steps();
        while self.progress.step < last {
            let stale = self.progress.is_stale(self.settings.early_stop);
            if stale || host.stop() {
                let why = if stale { Why::Stale } else { Why::Stopped };
                return self.end(checkpoints, host, why);
            }
            self.step(checkpoints, host)?;
            let is_due = |every: Option<u64>| {
                every.is_some_and(|every| self.progress.step.is_multiple_of(every.max(1)))
            };
            let (validate, save) = (is_due(self.settings.val_interval), is_due(self.settings.save_interval));
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
    fn step(&mut self, checkpoints: &Checkpoints, host: &mut dyn Host) -> Result<(), TrainError> {
        let began = Instant::now();
        let (step, accumulation) = (self.progress.step, self.accumulation());
        let lr = self.settings.schedule.at(step);
        let mut seen = Seen::default();
        let mut numbers = Vec::new();
        for micro in step * accumulation..(step + 1) * accumulation {
            numbers = self.batches.frames(micro);
            let (labels, found) = self.accumulate(micro, &numbers, 1.0 / accumulation as f64)?;
            if !found.loss.is_finite() {
                let (frames, kept) =
                    (self.named(&numbers), checkpoints.kept(self.progress.step, self.settings.save_interval));
                return Err(TrainError::Loss { step: step + 1, loss: found.loss, frames, lr, kept });
            }
            seen.add(&found, &labels);
        }
        let moved = self.trainer.step(lr, self.settings.clip);
        self.progress.step += 1;
        self.progress.void_steps = if moved.skipped { self.progress.void_steps + 1 } else { 0 };
        if moved.skipped {
            let text = format!("step {}: the gradient is not finite, so nothing was learned", step + 1);
            host.emit(Event::Notice { level: Level::Warning, text });
        }
        if self.progress.void_steps >= VOID_STEPS {
            let (steps, frames, kept) = (
                VOID_STEPS,
                self.named(&numbers),
                checkpoints.kept(self.progress.step, self.settings.save_interval),
            );
            return Err(TrainError::Gradient { steps, step: step + 1, frames, lr, kept });
        }
        let values = seen.values(moved.grad_norm, lr, began.elapsed().as_secs_f64());
        host.emit(Event::Metrics { step: self.progress.step, values });
        host.emit(Event::Progress { step: self.progress.step });
        Ok(())
    }

    /// Runs a micro batch; gives its labels and what came of it.
    fn accumulate(
        &mut self,
        micro: u64,
        numbers: &[usize],
        scale: f64,
    ) -> Result<(Vec<f32>, Accumulated), TrainError> {
        let Settings { augment, seed, loss, .. } = &self.settings;
        let batch = match augment.is_off() {
            true => Batch::of(self.train, numbers),
            false => {
                let epoch = Self::epoch_seed(*seed, self.batches.epoch(micro));
                Batch::augmented(self.train, numbers, augment, epoch)
            }
        };
        let weights: Option<Vec<f32>> = self.weights.map(|[success, failure]| {
            batch.labels.iter().map(|label| if *label > 0.5 { success } else { failure }).collect()
        });
        let images = batch.images().map_err(ClassifierError::from)?;
        let drop = seed.purpose("dropout").index(micro);
        let found =
            self.trainer.accumulate(&images, &batch.labels, weights.as_deref(), *loss, scale, drop)?;
        Ok((batch.labels, found))
    }

    /// Measures, tells, and keeps the model if it is the best.
    fn validate(&mut self, checkpoints: &Checkpoints, host: &mut dyn Host) -> Result<(), TrainError> {
        let Some(val) = self.val else { return Ok(()) };
        if self.progress.validated == Some(self.progress.step) {
            return Ok(());
        }
        let began = Instant::now();
        let evaluation = evaluate(&self.trainer.scorer(), val, self.settings.eval_batch)?;
        let mut values = evaluation.values();
        values.push(("time/evaluate_secs".into(), began.elapsed().as_secs_f64()));
        host.emit(Event::Metrics { step: self.progress.step, values });
        if self.progress.validated(&evaluation, self.settings.monitor, self.settings.early_stop) {
            checkpoints.save_best(&self.trainer.weights(), &self.card_now(Some(&evaluation)))?;
        }
        Ok(())
    }

    fn card_now(&self, evaluation: Option<&Evaluation>) -> ModelCard {
        let best = self.progress.best.map(|best| best.metrics);
        let metrics = evaluation.map(|evaluation| evaluation.metrics);
        // A checkpoint between validations has no measure of its own; the threshold that was best is a fair guess.
        let threshold = metrics.or(best).map(|metrics| metrics.threshold);
        ModelCard { step: self.progress.step, threshold, metrics, ..self.card.clone() }
    }

    fn save(&mut self, checkpoints: &Checkpoints, host: &mut dyn Host) -> Result<(), TrainError> {
        checkpoints.save(&self.trainer, &self.card_now(None))?;
        host.saved(&self.progress).map_err(TrainError::Host)
    }

    fn end(
        mut self,
        checkpoints: &Checkpoints,
        host: &mut dyn Host,
        why: Why,
    ) -> Result<Outcome, TrainError> {
        self.save(checkpoints, host)?;
        if self.val.is_none() && why != Why::Stopped {
            // Nothing tells models apart, so the last one is the best.
            checkpoints.save_best(&self.trainer.weights(), &self.card_now(None))?;
        }
        Ok(Outcome { progress: self.progress, why })
    }

    /// The frames of a batch, by name.
    fn named(&self, numbers: &[usize]) -> String {
        let name = |number: &usize| {
            let origin = self.train.origin(*number);
            format!("{} {}", origin.episode, origin.at)
        };
        let named: Vec<String> = numbers.iter().take(NAMED).map(name).collect();
        let more = numbers.len().saturating_sub(NAMED);
        let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
        format!("{}{rest}", named.join(", "))
    }
}
