//! The training loop of every reward model.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use plaudit_core::{DiscardEvents, Emit, Event, GradientSync, Level, OneRank, SyncError};
use plaudit_nn::Weights;
use plaudit_nn::classifier::{Sharding, StepOutcome};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::batches::Batches;
use super::checkpoint::{Checkpoints, ResumePoint, write_state};
use super::checkpoint_writer::{CheckpointWriter, Destination, WriteModel};
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

    /// How many micro batches it wants to know of before their turn, to make them ready meanwhile.
    fn lookahead(&self) -> usize {
        0
    }

    /// Says which micro batch comes after those that it knows of.
    fn upcoming(&mut self, _at: MicroBatch, _examples: &[usize]) {}

    /// Adds the gradient of some examples, times `scale`, and gives their loss; nothing if that is only known later.
    fn accumulate(
        &mut self,
        at: MicroBatch,
        examples: &[usize],
        scale: f64,
    ) -> Result<Option<f64>, TrainError>;

    /// Learns together with other ranks from now on, beginning with the model of rank 0.
    fn join_ranks(&mut self, ranks: &Arc<dyn GradientSync>, sharding: Sharding) -> Result<(), TrainError>;

    /// Sums what each rank added; called once after each [`accumulate`](Self::accumulate).
    fn reduce(&mut self) -> Result<(), SyncError>;

    /// One step of the optimiser along what was added, on all ranks; gives what came of it, or nothing if that is only known later. Then one
    /// more step may follow before [`finish_step`](Self::finish_step).
    fn step(&mut self, lr: f64, clip: Option<f64>) -> Result<Option<StepOutcome>, TrainError>;

    /// Waits for the first step of which it was not known what came of it, and gives the losses of its micro batches.
    fn finish_step(&mut self) -> Result<(Vec<f64>, StepOutcome), TrainError> {
        Err(TrainError::Callback("no step is on its way".into()))
    }

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

    /// The model as it is now, for another thread to write while this one goes on; nothing if only [`write`](Self::write) can.
    fn snapshot(
        &self,
        _progress: &Progress<Self::Metrics>,
        _found: Option<&Self::Metrics>,
    ) -> Result<Option<WriteModel>, TrainError> {
        Ok(None)
    }

    /// The same with all that going on needs, on rank 0 alone or where there is one rank; nothing if only [`state`](Self::state) and
    /// [`write`](Self::write) can.
    fn snapshot_with_state(
        &self,
        progress: &Progress<Self::Metrics>,
    ) -> Result<Option<WriteModel>, TrainError> {
        let Some(write) = self.snapshot(progress, None)? else { return Ok(None) };
        let Some(state) = self.state()? else { return Ok(None) };
        Ok(Some(Box::new(move |folder| {
            write(folder)?;
            write_state(folder, &state)
        })))
    }

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
    /// Micro batches that the model knows of before their turn.
    ahead: VecDeque<(MicroBatch, Vec<usize>)>,
    /// Steps that were begun, of which it is not known yet what came of them.
    begun: VecDeque<BegunStep>,
    progress: Progress<P::Metrics>,
    /// Gives back the progress that goes with a checkpoint; nothing with a best model.
    writer: Option<CheckpointWriter<Option<Progress<P::Metrics>>>>,
    /// When the last step was told of.
    told: Instant,
    ranks: Arc<dyn GradientSync>,
}

/// A step that was begun.
struct BegunStep {
    lr: f64,
    began: Instant,
    /// The sum of the losses that are known.
    losses: f64,
    /// The examples of its last micro batch.
    examples: Vec<usize>,
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
        let (ahead, begun) = (VecDeque::new(), VecDeque::new());
        let (writer, told) = (None, Instant::now());
        Self { model, loop_settings, examples, batches, ahead, begun, progress, writer, told, ranks }
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
        let reason = self.run_to_end(checkpoints, callbacks);
        // Also after an error: what was asked for before is kept.
        let written = self.finish_writing(checkpoints, callbacks);
        let reason = reason?;
        written?;
        Ok(TrainOutcome { progress: self.progress, reason })
    }

    fn run_to_end(
        &mut self,
        checkpoints: &Checkpoints,
        callbacks: &mut dyn TrainCallbacks<P::Metrics>,
    ) -> Result<StopReason, TrainError> {
        let last = self.steps();
        while self.progress.step < last {
            let stale = self.progress.is_stale(self.loop_settings.early_stop);
            if stale || self.ranks.any(callbacks.stop())? {
                self.finish_steps(0, checkpoints, callbacks)?;
                let reason = if stale { StopReason::NoImprovement } else { StopReason::Interrupted };
                return self.end(checkpoints, callbacks, reason);
            }
            self.begin_step(checkpoints, callbacks)?;
            self.tell_written(checkpoints, callbacks)?;
            let begun = self.steps_begun();
            let is_due = |every: Option<u64>| every.is_some_and(|every| begun.is_multiple_of(every.max(1)));
            let (validate, save) =
                (is_due(self.loop_settings.val_interval), is_due(self.loop_settings.save_interval));
            // While the next step is computed, the last one is told of.
            let may_run = if validate || save || begun == last { 0 } else { 1 };
            self.finish_steps(may_run, checkpoints, callbacks)?;
            if validate || begun == last {
                self.validate(checkpoints, callbacks)?;
            }
            if save && begun < last {
                self.save(checkpoints, callbacks)?;
            }
        }
        self.end(checkpoints, callbacks, StopReason::Finished)
    }

    /// Steps that were begun, finished or not.
    fn steps_begun(&self) -> u64 {
        self.progress.step + self.begun.len() as u64
    }

    /// Begins one step of the optimiser; where it is known at once what came of it, also ends it.
    fn begin_step(
        &mut self,
        checkpoints: &Checkpoints,
        callbacks: &mut dyn TrainCallbacks<P::Metrics>,
    ) -> Result<(), TrainError> {
        let (step, accumulation) = (self.steps_begun(), self.loop_settings.accumulation());
        let (rank, world) = (self.ranks.rank() as u64, self.ranks.world() as u64);
        let lr = self.loop_settings.schedule.at(step);
        let mut begun = BegunStep { lr, began: Instant::now(), losses: 0.0, examples: Vec::new() };
        for first in (step * accumulation..(step + 1) * accumulation).step_by(world as usize) {
            let (at, examples) = self.next_batch(first + rank, world);
            let loss = self.model.accumulate(at, &examples, 1.0 / accumulation as f64);
            begun.examples = examples;
            let finite = loss.and_then(|loss| match loss {
                Some(loss) => self.finite(loss, &begun, checkpoints),
                None => Ok(0.0),
            });
            // In the order of micro batches, as one rank would add them.
            let loss = self.ranks.agree(finite)?;
            self.ranks.gather_f64(loss)?.into_iter().for_each(|loss| begun.losses += loss);
            self.model.reduce()?;
        }
        match self.model.step(lr, self.loop_settings.clip)? {
            Some(outcome) => self.end_step(begun, &outcome, checkpoints, callbacks),
            None => {
                self.begun.push_back(begun);
                Ok(())
            }
        }
    }

    /// A micro batch, whose number it is; the model hears of those that come after it.
    fn next_batch(&mut self, number: u64, world: u64) -> (MicroBatch, Vec<usize>) {
        let end = self.steps() * self.loop_settings.accumulation();
        let wanted = self.model.lookahead();
        let batches = &mut self.batches;
        let mut batch_of = |number: u64| {
            let at = MicroBatch { number, epoch: batches.epoch(number) };
            (at, batches.frames(number))
        };
        let current = match self.ahead.pop_front() {
            Some(known) if known.0.number == number => known,
            _ => {
                self.ahead.clear();
                batch_of(number)
            }
        };
        while self.ahead.len() < wanted {
            let next = self.ahead.back().map_or(number, |(at, _)| at.number) + world;
            if next >= end {
                break;
            }
            let (at, examples) = batch_of(next);
            self.model.upcoming(at, &examples);
            self.ahead.push_back((at, examples));
        }
        current
    }

    /// A loss that is a number.
    fn finite(&mut self, loss: f64, begun: &BegunStep, checkpoints: &Checkpoints) -> Result<f64, TrainError> {
        match loss.is_finite() {
            true => Ok(loss),
            false => {
                let (frames, kept) = (self.named(&begun.examples), self.kept(checkpoints));
                Err(TrainError::Loss { step: self.progress.step + 1, loss, frames, lr: begun.lr, kept })
            }
        }
    }

    /// Waits until no more than so many steps are on their way.
    fn finish_steps(
        &mut self,
        may_run: usize,
        checkpoints: &Checkpoints,
        callbacks: &mut dyn TrainCallbacks<P::Metrics>,
    ) -> Result<(), TrainError> {
        while self.begun.len() > may_run
            && let Some(mut begun) = self.begun.pop_front()
        {
            let (losses, outcome) = self.model.finish_step()?;
            for loss in losses {
                begun.losses += self.finite(loss, &begun, checkpoints)?;
            }
            self.end_step(begun, &outcome, checkpoints, callbacks)?;
        }
        Ok(())
    }

    /// Counts a step, and tells what came of it.
    fn end_step(
        &mut self,
        begun: BegunStep,
        moved: &StepOutcome,
        checkpoints: &Checkpoints,
        callbacks: &mut dyn TrainCallbacks<P::Metrics>,
    ) -> Result<(), TrainError> {
        let (step, lr) = (self.progress.step + 1, begun.lr);
        self.progress.step = step;
        self.progress.skipped_steps = if moved.skipped { self.progress.skipped_steps + 1 } else { 0 };
        if moved.skipped {
            let text = format!("step {step}: the gradient is not finite, so nothing was learned");
            callbacks.emit(Event::Notice { level: Level::Warning, text });
        }
        if self.progress.skipped_steps >= MAX_SKIPPED_STEPS {
            let (frames, kept) = (self.named(&begun.examples), self.kept(checkpoints));
            return Err(TrainError::Gradient { steps: MAX_SKIPPED_STEPS, step, frames, lr, kept });
        }
        let loss = begun.losses / self.loop_settings.accumulation() as f64;
        let mut values = vec![("train/loss".to_string(), loss)];
        values.append(&mut self.model.train_metrics());
        values.extend([
            ("train/grad_norm".to_string(), moved.grad_norm),
            ("train/learning_rate".to_string(), lr),
            ("time/step_secs".to_string(), begun.began.max(self.told).elapsed().as_secs_f64()),
        ]);
        self.told = Instant::now();
        callbacks.emit(Event::Metrics { step, values });
        callbacks.emit(Event::Progress { step });
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

    fn save_best(&mut self, checkpoints: &Checkpoints, found: Option<&P::Metrics>) -> Result<(), TrainError> {
        if let Some(write) = self.snapshot(found)? {
            return self.writer().write(checkpoints, Destination::Best, write, None);
        }
        let save =
            || Destination::Best.fill(checkpoints, |folder| self.model.write(folder, &self.progress, found));
        self.ranks.agree(if self.is_first_rank() { save() } else { Ok(()) })
    }

    fn save(
        &mut self,
        checkpoints: &Checkpoints,
        callbacks: &mut dyn TrainCallbacks<P::Metrics>,
    ) -> Result<(), TrainError> {
        let began = Instant::now();
        let step = self.progress.step;
        let saved = match self.snapshot_with_state()? {
            Some(write) => {
                let progress = Some(self.progress.clone());
                self.writer().write(checkpoints, Destination::Step(step), write, progress)
            }
            None => self.save_here(checkpoints, callbacks),
        };
        let values = vec![("time/save_secs".to_string(), began.elapsed().as_secs_f64())];
        callbacks.emit(Event::Metrics { step, values });
        self.ranks.agree(saved)
    }

    /// The same on this thread.
    fn save_here(
        &mut self,
        checkpoints: &Checkpoints,
        callbacks: &mut dyn TrainCallbacks<P::Metrics>,
    ) -> Result<(), TrainError> {
        let Some(state) = self.model.state()? else { return Ok(()) };
        let write = |folder: &Path| {
            self.model.write(folder, &self.progress, None)?;
            write_state(folder, &state)
        };
        Destination::Step(self.progress.step).fill(checkpoints, write)?;
        tell_saved(checkpoints, &self.progress, callbacks)
    }

    fn snapshot_with_state(&self) -> Result<Option<WriteModel>, TrainError> {
        match self.ranks.world() {
            1 => self.model.snapshot_with_state(&self.progress),
            _ => Ok(None),
        }
    }

    /// The model for another thread to write, where there is one rank and the model can.
    fn snapshot(&self, found: Option<&P::Metrics>) -> Result<Option<WriteModel>, TrainError> {
        match self.ranks.world() {
            1 => self.model.snapshot(&self.progress, found),
            _ => Ok(None),
        }
    }

    fn writer(&mut self) -> &mut CheckpointWriter<Option<Progress<P::Metrics>>> {
        self.writer.get_or_insert_with(CheckpointWriter::new)
    }

    /// Waits until all checkpoints are on disk.
    fn finish_writing(
        &mut self,
        checkpoints: &Checkpoints,
        callbacks: &mut dyn TrainCallbacks<P::Metrics>,
    ) -> Result<(), TrainError> {
        self.settle();
        self.tell_written(checkpoints, callbacks)
    }

    fn settle(&mut self) {
        if let Some(writer) = &mut self.writer {
            writer.settle();
        }
    }

    /// Tells of checkpoints that are on disk by now.
    fn tell_written(
        &mut self,
        checkpoints: &Checkpoints,
        callbacks: &mut dyn TrainCallbacks<P::Metrics>,
    ) -> Result<(), TrainError> {
        while let Some((progress, written)) = self.writer.as_mut().and_then(CheckpointWriter::next_done) {
            written?;
            if let Some(progress) = progress {
                tell_saved(checkpoints, &progress, callbacks)?;
            }
        }
        Ok(())
    }

    fn end(
        &mut self,
        checkpoints: &Checkpoints,
        callbacks: &mut dyn TrainCallbacks<P::Metrics>,
        reason: StopReason,
    ) -> Result<StopReason, TrainError> {
        self.save(checkpoints, callbacks)?;
        if self.progress.validated.is_none() && reason != StopReason::Interrupted {
            // Without validation, the last model is the best.
            self.save_best(checkpoints, None)?;
        }
        Ok(reason)
    }

    /// The examples of a batch, by name.
    fn named(&self, examples: &[usize]) -> String {
        let named: Vec<String> =
            examples.iter().take(NAMED).map(|example| self.model.name(*example)).collect();
        let more = examples.len().saturating_sub(NAMED);
        let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
        format!("{}{rest}", named.join(", "))
    }

    fn kept(&mut self, checkpoints: &Checkpoints) -> String {
        self.settle();
        checkpoints.kept(self.progress.step, self.loop_settings.save_interval)
    }
}

/// Tells of a checkpoint that is on disk. Only when its progress is stored, too, may the state of the one before it go: a process may be
/// killed in between, and goes on from what the stored progress says.
fn tell_saved<M>(
    checkpoints: &Checkpoints,
    progress: &Progress<M>,
    callbacks: &mut dyn TrainCallbacks<M>,
) -> Result<(), TrainError> {
    callbacks.saved(progress).map_err(TrainError::Callback)?;
    checkpoints.forget_states_before(progress.step);
    Ok(())
}

/// How far a training is cannot be written or read.
fn callback(error: &serde_json::Error) -> TrainError {
    TrainError::Callback(error.to_string())
}

#[cfg(test)]
mod tests {
    use plaudit_core::{LrDecay, Schedule, Seed};

    use super::*;
    use crate::train::Length;

    /// A model of one number, which knows at once what came of a step, or only later, as one on a GPU does.
    struct Fake {
        is_late: bool,
        /// The micro batch whose loss is not a number.
        bad: Option<u64>,
        sum: f64,
        added: Vec<f64>,
        late: VecDeque<(Vec<f64>, StepOutcome)>,
        /// Micro batches that it heard of before their turn.
        known: VecDeque<u64>,
    }

    impl Fake {
        fn new(is_late: bool) -> Self {
            let (added, late, known) = (Vec::new(), VecDeque::new(), VecDeque::new());
            Self { is_late, bad: None, sum: 0.0, added, late, known }
        }
    }

    impl Trainable for Fake {
        type Metrics = ();

        fn lookahead(&self) -> usize {
            3
        }

        fn upcoming(&mut self, at: MicroBatch, _: &[usize]) {
            self.known.push_back(at.number);
        }

        fn accumulate(
            &mut self,
            at: MicroBatch,
            examples: &[usize],
            scale: f64,
        ) -> Result<Option<f64>, TrainError> {
            if at.number > 0 {
                assert_eq!(self.known.pop_front(), Some(at.number));
            }
            let sum: usize = examples.iter().sum();
            let loss = if self.bad == Some(at.number) { f64::NAN } else { sum as f64 };
            self.added.push(loss);
            self.sum += loss * scale;
            Ok((!self.is_late).then_some(loss))
        }

        fn join_ranks(&mut self, _: &Arc<dyn GradientSync>, _: Sharding) -> Result<(), TrainError> {
            Ok(())
        }

        fn reduce(&mut self) -> Result<(), SyncError> {
            Ok(())
        }

        fn step(&mut self, lr: f64, _: Option<f64>) -> Result<Option<StepOutcome>, TrainError> {
            let outcome = StepOutcome { grad_norm: self.sum * lr, skipped: false };
            let losses = std::mem::take(&mut self.added);
            if !self.is_late {
                return Ok(Some(outcome));
            }
            assert!(self.late.len() < 2, "a third step before the first was finished");
            self.late.push_back((losses, outcome));
            Ok(None)
        }

        fn finish_step(&mut self) -> Result<(Vec<f64>, StepOutcome), TrainError> {
            Ok(self.late.pop_front().unwrap())
        }

        fn measure(&mut self) -> Result<Option<ValidationResult<()>>, TrainError> {
            assert!(self.late.is_empty(), "measured while a step runs");
            let values = vec![("eval/sum".into(), self.sum)];
            Ok(Some(ValidationResult { value: -self.sum, better: Better::Lower, metrics: (), values }))
        }

        fn write(&self, _: &Path, _: &Progress<()>, _: Option<&()>) -> Result<(), TrainError> {
            unreachable!("it has a snapshot")
        }

        fn snapshot(&self, _: &Progress<()>, _: Option<&()>) -> Result<Option<WriteModel>, TrainError> {
            assert!(self.late.is_empty(), "saved while a step runs");
            let text = self.sum.to_string();
            let written = move |folder: &Path| {
                let path = folder.join("model");
                std::fs::write(&path, text).map_err(|source| TrainError::Folder { path, source })
            };
            Ok(Some(Box::new(written)))
        }

        fn state(&self) -> Result<Option<Weights>, TrainError> {
            Ok(Some(Weights::new()))
        }

        fn restore(&mut self, _: &Weights) -> Result<(), TrainError> {
            Ok(())
        }

        fn name(&self, example: usize) -> String {
            format!("example {example}")
        }
    }

    #[derive(Default)]
    struct Log {
        events: Vec<(u64, Vec<(String, f64)>)>,
        saved: Vec<u64>,
        /// The first step whose progress cannot be stored.
        unstored: Option<u64>,
    }

    impl Emit for Log {
        fn emit(&mut self, event: Event) {
            if let Event::Metrics { step, values } = event {
                let values = values.into_iter().filter(|(name, _)| !name.starts_with("time/"));
                self.events.push((step, values.collect()));
            }
        }
    }

    impl TrainCallbacks<()> for Log {
        fn saved(&mut self, progress: &Progress<()>) -> Result<(), String> {
            if self.unstored.is_some_and(|first| first <= progress.step) {
                return Err("the disk is full".into());
            }
            self.saved.push(progress.step);
            Ok(())
        }

        fn stop(&self) -> bool {
            false
        }
    }

    fn training(model: Fake) -> TrainLoop<Fake> {
        let schedule = Schedule { lr: 0.5, warmup: 3, decay: LrDecay::Cosine { total: 7, min_lr: 0.0 } };
        let settings = LoopSettings {
            micro_batch: 2,
            global_batch: 4,
            eval_batch: 2,
            length: Length { max_epochs: None, max_steps: Some(7) },
            val_interval: Some(3),
            save_interval: Some(2),
            early_stop: None,
            schedule,
            clip: None,
            shuffle: true,
            seed: Seed::new(4),
        };
        TrainLoop::over(model, settings, 9)
    }

    #[test]
    fn a_model_that_answers_late_is_trained_and_told_of_as_one_that_answers_at_once() {
        let mut found = Vec::new();
        for is_late in [false, true] {
            let (folder, mut log) = (tempfile::tempdir().unwrap(), Log::default());
            let checkpoints = Checkpoints::in_folder(folder.path());
            let outcome = training(Fake::new(is_late)).run(&checkpoints, &mut log).unwrap();
            assert_eq!(outcome.progress.step, 7);
            assert_eq!(log.saved, [2, 4, 6, 7]);
            let model = |place: &Path| std::fs::read_to_string(place.join("model")).unwrap();
            let models = [2, 4, 6, 7].map(|step| model(&checkpoints.step(step)));
            found.push((log.events, models, model(&checkpoints.best())));
        }
        assert_eq!(found[0], found[1]);
    }

    #[test]
    fn a_loss_that_is_not_a_number_names_its_step_and_what_is_kept() {
        for is_late in [false, true] {
            let (folder, mut log) = (tempfile::tempdir().unwrap(), Log::default());
            let model = Fake { bad: Some(5), ..Fake::new(is_late) };
            let error = training(model).run(&Checkpoints::in_folder(folder.path()), &mut log).unwrap_err();
            assert!(matches!(error, TrainError::Loss { step: 3, .. }), "{error}");
            assert!(error.hint().is_some_and(|hint| hint.contains("global_step_2")), "{error:?}");
            assert_eq!(log.saved, [2], "what was asked for before is on disk and told of");
        }
    }

    #[test]
    fn the_state_that_the_stored_progress_names_is_kept_until_that_of_a_later_one_is_stored() {
        let folder = tempfile::tempdir().unwrap();
        let checkpoints = Checkpoints::in_folder(folder.path());
        let mut log = Log { unstored: Some(4), ..Log::default() };
        training(Fake::new(true)).run(&checkpoints, &mut log).unwrap_err();
        assert!(checkpoints.step(4).is_dir() && checkpoints.resume(2).is_ok());
        training(Fake::new(true)).run(&checkpoints, &mut Log::default()).unwrap();
        assert!(checkpoints.resume(2).is_err() && checkpoints.resume(7).is_ok());
    }

    #[test]
    fn a_checkpoint_that_cannot_be_written_ends_the_training() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        let error = training(Fake::new(true)).run(&Checkpoints::in_folder(&file), &mut Log::default());
        assert!(matches!(error.unwrap_err(), TrainError::Folder { .. }));
    }
}
