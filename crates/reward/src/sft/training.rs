//! The loop.

use std::path::Path;
use std::time::Instant;

use plaudit_core::{Event, Level, Seed};
use plaudit_data::windows::Windows;
use plaudit_nn::qwen3_vl::{Example, Tuner, VlmError};
use rayon::prelude::*;

use super::{Learned, Showing, TrendMetrics, TrendMonitor, answers, evaluate_windows};
use crate::train::{
    Batches, Better, Checkpoints, EarlyStop, Host, Length, NAMED, Outcome, Progress, Resumed, Schedule,
    TrainError, VOID_STEPS, Why, micro_batches, steps_per_epoch,
};

/// How a judge is trained.
#[derive(Clone, Debug)]
pub struct JudgeSettings {
    /// Windows that go through the network at once.
    pub micro_batch: usize,
    /// Windows of one step: one or more micro batches.
    pub global_batch: usize,
    /// Windows that go through the network at once while measuring.
    pub eval_batch: usize,
    /// How long.
    pub length: Length,
    /// Validate every so many steps; always at the end.
    pub val_interval: Option<u64>,
    /// Save every so many steps; always at the end.
    pub save_interval: Option<u64>,
    /// When to stop before the end.
    pub early_stop: Option<EarlyStop>,
    /// What makes a model the best.
    pub monitor: TrendMonitor,
    /// The learning rate.
    pub schedule: Schedule,
    /// Longest gradient.
    pub clip: Option<f64>,
    /// Which tokens are learned.
    pub learned: Learned,
    /// How windows are shown.
    pub showing: Showing,
    /// Whether every epoch has its own order.
    pub shuffle: bool,
    /// Decides orders.
    pub seed: Seed,
}

/// Writes a model as it is now into a folder: adapters, or all of it.
pub type SaveModel<'a> = Box<dyn Fn(&Tuner, &Path) -> Result<(), VlmError> + 'a>;

/// A judge, what it learns from, and how.
pub struct JudgeTraining<'a> {
    tuner: Tuner,
    save_model: SaveModel<'a>,
    train: &'a Windows,
    val: Option<&'a Windows>,
    settings: JudgeSettings,
    batches: Batches,
    progress: Progress<TrendMetrics>,
}

impl<'a> JudgeTraining<'a> {
    /// A training at its beginning. The first window of each part is looked at.
    ///
    /// # Errors
    /// When nothing can be learned from these windows, or the model cannot see them.
    pub fn new(
        tuner: Tuner,
        save_model: SaveModel<'a>,
        train: &'a Windows,
        val: Option<&'a Windows>,
        settings: JudgeSettings,
    ) -> Result<Self, TrainError> {
        refuse_one_answer(train)?;
        for part in std::iter::once(train).chain(val) {
            settings.showing.inputs(tuner.processor(), part, 0)?;
        }
        tuner.processor().tokenizer().first_tokens(&answers())?;
        let order = settings.seed.purpose("order");
        let batches = Batches::new(train.len(), settings.micro_batch, settings.shuffle, order);
        Ok(Self { tuner, save_model, train, val, settings, batches, progress: Progress::default() })
    }

    /// Goes on from a checkpoint.
    ///
    /// # Errors
    /// When it is of another model.
    pub fn resume(&mut self, progress: Progress<TrendMetrics>, from: &Resumed) -> Result<(), TrainError> {
        self.tuner.restore(&from.state)?;
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
        let JudgeSettings { micro_batch, global_batch, length, .. } = self.settings;
        length.steps(steps_per_epoch(self.train.len(), micro_batch, global_batch))
    }

    /// How many times all steps together go through the training windows.
    #[must_use]
    pub fn epochs(&self) -> f64 {
        (self.steps() * self.accumulation()) as f64 / self.batches.per_epoch() as f64
    }

    /// The model that learns.
    #[must_use]
    pub fn tuner(&self) -> &Tuner {
        &self.tuner
    }

    /// Trains to the end, or until there is a reason to stop.
    ///
    /// # Errors
    /// When the loss leaves the numbers, or a checkpoint cannot be written. What was saved before stays.
    pub fn run(
        mut self,
        checkpoints: &Checkpoints,
        host: &mut dyn Host<TrendMetrics>,
    ) -> Result<Outcome<TrendMetrics>, TrainError> {
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
    fn step(
        &mut self,
        checkpoints: &Checkpoints,
        host: &mut dyn Host<TrendMetrics>,
    ) -> Result<(), TrainError> {
        let began = Instant::now();
        let (step, accumulation) = (self.progress.step, self.accumulation());
        let lr = self.settings.schedule.at(step);
        let (mut losses, mut numbers) = (0.0, Vec::new());
        for micro in step * accumulation..(step + 1) * accumulation {
            numbers = self.batches.frames(micro);
            let loss = self.tuner.accumulate(&self.examples(&numbers)?, 1.0 / accumulation as f64)?;
            if !loss.is_finite() {
                let (frames, kept) = (self.named(&numbers), self.kept(checkpoints));
                return Err(TrainError::Loss { step: step + 1, loss, frames, lr, kept });
            }
            losses += loss;
        }
        let moved = self.tuner.step(lr, self.settings.clip);
        self.progress.step += 1;
        self.progress.void_steps = if moved.skipped { self.progress.void_steps + 1 } else { 0 };
        if moved.skipped {
            let text = format!("step {}: the gradient is not finite, so nothing was learned", step + 1);
            host.emit(Event::Notice { level: Level::Warning, text });
        }
        if self.progress.void_steps >= VOID_STEPS {
            let (steps, frames, kept) = (VOID_STEPS, self.named(&numbers), self.kept(checkpoints));
            return Err(TrainError::Gradient { steps, step: step + 1, frames, lr, kept });
        }
        let values = [
            ("train/loss", losses / accumulation as f64),
            ("train/grad_norm", moved.grad_norm),
            ("train/learning_rate", lr),
            ("time/step_secs", began.elapsed().as_secs_f64()),
        ];
        let values = values.map(|(name, value)| (name.to_string(), value)).into();
        host.emit(Event::Metrics { step: self.progress.step, values });
        host.emit(Event::Progress { step: self.progress.step });
        Ok(())
    }

    fn examples(&self, numbers: &[usize]) -> Result<Vec<Example>, TrainError> {
        let JudgeSettings { showing, learned, .. } = self.settings;
        let (processor, config) = (self.tuner.processor(), self.tuner.config());
        let example = |number: &usize| showing.example(processor, self.train, *number, learned, config);
        numbers.par_iter().map(example).collect()
    }

    /// Measures, tells, and keeps the model if it is the best.
    fn validate(
        &mut self,
        checkpoints: &Checkpoints,
        host: &mut dyn Host<TrendMetrics>,
    ) -> Result<(), TrainError> {
        let Some(val) = self.val else { return Ok(()) };
        if self.progress.validated == Some(self.progress.step) {
            return Ok(());
        }
        let began = Instant::now();
        let JudgeSettings { showing, eval_batch, monitor, early_stop, .. } = &self.settings;
        let metrics = evaluate_windows(&self.tuner, val, showing, *eval_batch)?;
        let mut values = metrics.values();
        values.push(("time/evaluate_secs".into(), began.elapsed().as_secs_f64()));
        host.emit(Event::Metrics { step: self.progress.step, values });
        let better = match monitor {
            TrendMonitor::Loss => Better::Lower,
            TrendMonitor::Accuracy => Better::Higher,
        };
        if self.progress.measured(metrics.value(*monitor), metrics, better, *early_stop) {
            self.save_best(checkpoints)?;
        }
        Ok(())
    }

    fn save_best(&self, checkpoints: &Checkpoints) -> Result<(), TrainError> {
        checkpoints.whole(&checkpoints.best(), |folder| Ok((self.save_model)(&self.tuner, folder)?))
    }

    fn save(
        &mut self,
        checkpoints: &Checkpoints,
        host: &mut dyn Host<TrendMetrics>,
    ) -> Result<(), TrainError> {
        let fill = |folder: &Path| Ok((self.save_model)(&self.tuner, folder)?);
        checkpoints.save_step(self.progress.step, &self.tuner.state(), fill)?;
        host.saved(&self.progress).map_err(TrainError::Host)
    }

    fn end(
        mut self,
        checkpoints: &Checkpoints,
        host: &mut dyn Host<TrendMetrics>,
        why: Why,
    ) -> Result<Outcome<TrendMetrics>, TrainError> {
        self.save(checkpoints, host)?;
        if self.val.is_none() && why != Why::Stopped {
            // Nothing tells models apart, so the last one is the best.
            self.save_best(checkpoints)?;
        }
        Ok(Outcome { progress: self.progress, why })
    }

    /// The windows of a batch, by name.
    fn named(&self, numbers: &[usize]) -> String {
        let name = |number: &usize| {
            let pickle = &self.train.row(*number).pickle;
            pickle.file_name().unwrap_or_default().to_string_lossy().into_owned()
        };
        let named: Vec<String> = numbers.iter().take(NAMED).map(name).collect();
        let more = numbers.len().saturating_sub(NAMED);
        let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
        format!("{}{rest}", named.join(", "))
    }

    fn kept(&self, checkpoints: &Checkpoints) -> String {
        checkpoints.kept(self.progress.step, self.settings.save_interval)
    }
}

/// Whoever sees one answer only learns to say it, whatever is shown.
fn refuse_one_answer(train: &Windows) -> Result<(), TrainError> {
    let balance = train.balance();
    let mut present = balance.iter().filter(|(_, count)| *count > 0);
    match (present.next(), present.next()) {
        (Some((answer, count)), None) => Err(TrainError::NothingToLearn(format!(
            "all {count} training windows are `{answer}`; collect episodes that succeed and fail, or lower \
             --delta-threshold of `plaudit dataset windows`"
        ))),
        _ => Ok(()),
    }
}
