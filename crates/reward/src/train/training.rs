//! A classifier that learns from labelled frames.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

use plaudit_core::{GradientSync, OneRank, Seed, SyncError};
use plaudit_nn::Weights;
use plaudit_nn::classifier::{
    BatchLoss, ClassifierError, Device, ProgressBins, ProgressLabel, Sharding, StepOutcome, Trainer,
    TrainingImages,
};

use super::checkpoint::write_state;
use super::checkpoint_writer::WriteModel;
use super::early_stop::Progress;
use super::error::TrainError;
use super::evaluate::evaluate_over_ranks;
use super::evaluate_progress::evaluate_progress;
use super::loader::{BatchLoader, BatchMaker};
use super::settings::Settings;
use super::train_loop::{MicroBatch, TrainLoop, Trainable, ValidationResult};
use crate::card::ModelCard;
use crate::dataset::{self, Batch, Frames, Manifest, ProgressLabels};
use crate::metrics::Metrics;
use crate::shaping::StateConditions;

/// A classifier, what it learns from, and how.
pub type Training<'a> = TrainLoop<TrainableClassifier<'a>>;

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
        let labels = match trainer.settings().bins() {
            Some(bins) => Some((bins, known_progress(train)?)),
            None => {
                dataset::check(train)?;
                None
            }
        };
        let val = val.filter(|val| !val.is_empty());
        let card = ModelCard {
            class_balance: Some(train.balance()),
            dataset: Some(Manifest::of(train, val)?),
            ..ModelCard::of(trainer.settings().clone())
        };
        let weights = settings.class_weight.weights(train.balance());
        let loop_settings = settings.loop_settings.clone();
        let maker = BatchMaker {
            frames: train.clone(),
            augment: settings.augment,
            time_warp: labels.is_some().then_some(settings.time_warp),
            seed: loop_settings.seed,
        };
        // A CPU that trains has enough to do.
        let threads = if trainer.device() == Device::Cpu { 0 } else { settings.loader_threads };
        let model = TrainableClassifier {
            trainer,
            loader: BatchLoader::new(maker, threads),
            train,
            val,
            settings,
            weights,
            labels,
            card,
            batch_stats: BatchStats::default(),
            last_batch: Vec::new(),
            running: VecDeque::new(),
            steps_running: VecDeque::new(),
            ranks: Arc::new(OneRank),
        };
        Ok(Self::over(model, loop_settings, train.len()))
    }

    /// The same for frames whose states were chosen by conditions, which the model will carry with it.
    #[must_use]
    pub fn with_conditions(mut self, conditions: Option<StateConditions>) -> Self {
        self.model.card.conditions = conditions;
        self
    }

    /// What the model will say about itself.
    #[must_use]
    pub fn card(&self) -> &ModelCard {
        &self.model.card
    }

    /// Where it trains.
    #[must_use]
    pub fn device(&self) -> Device {
        self.model.trainer.device()
    }

    /// The seed of an epoch's changes to images.
    #[must_use]
    pub fn epoch_seed(seed: Seed, epoch: u64) -> Seed {
        seed.purpose("augment").index(epoch)
    }
}

/// A classifier that learns, with its frames.
pub struct TrainableClassifier<'a> {
    trainer: Trainer,
    loader: BatchLoader,
    train: &'a Frames,
    val: Option<&'a Frames>,
    settings: Settings,
    weights: Option<[f32; 2]>,
    /// Of a network of progress.
    labels: Option<(ProgressBins, ProgressLabels)>,
    card: ModelCard,
    batch_stats: BatchStats,
    /// The logits of the last micro batch, then its labels.
    last_batch: Vec<f32>,
    /// On a GPU: the labels of micro batches that run there, and of each step that runs how many it has.
    running: VecDeque<Vec<f32>>,
    steps_running: VecDeque<usize>,
    ranks: Arc<dyn GradientSync>,
}

/// What the micro batches of a step gave, beside their loss.
#[derive(Default)]
struct BatchStats {
    frames: usize,
    right: usize,
    sum_of_probabilities: f64,
    /// Distances of the scores from labels that are known.
    sum_of_errors: f64,
    known: usize,
}

impl BatchStats {
    /// Logits, then labels, of a micro batch.
    fn add(&mut self, batch: &[f32]) {
        let (logits, labels) = batch.split_at(batch.len() / 2);
        self.frames += labels.len();
        for (logit, label) in logits.iter().zip(labels) {
            self.right += usize::from((*logit > 0.0) == (*label > 0.5));
            let probability = 1.0 / (1.0 + (-f64::from(*logit)).exp());
            self.sum_of_probabilities += probability;
            if !label.is_nan() {
                self.sum_of_errors += (probability - f64::from(*label)).abs();
                self.known += 1;
            }
        }
    }
}

impl TrainableClassifier<'_> {
    /// What the model says about itself as it is now.
    fn card_now(&self, progress: &Progress, found: Option<&Metrics>) -> ModelCard {
        // A checkpoint between validations has no measure of its own; the threshold that was best is a fair guess.
        let known = found.or(progress.best.as_ref().map(|best| &best.metrics));
        let threshold = known.map(|metrics| metrics.threshold);
        ModelCard { step: progress.step, threshold, metrics: found.copied(), ..self.card.clone() }
    }

    /// What decides which numbers are dropped.
    fn dropout_seed(&self, at: MicroBatch) -> Seed {
        self.settings.loop_settings.seed.purpose("dropout").index(at.number)
    }

    /// Whether steps are begun before it is known what came of the last: on a GPU, which also makes the loss.
    fn runs_ahead(&self) -> bool {
        self.trainer.device() != Device::Cpu && self.labels.is_none()
    }

    /// The same for a network of progress: cross entropy over its bins.
    fn accumulate_progress(
        &mut self,
        bins: ProgressBins,
        at: MicroBatch,
        batch: &Batch,
        labels: &[Option<ProgressLabel>],
        scale: f64,
    ) -> Result<f64, TrainError> {
        let images = batch.images().map_err(ClassifierError::from)?;
        let loss = |outputs: &[f32]| progress_loss(bins, outputs, labels);
        let found = self.trainer.accumulate_by(&images, &loss, scale, self.dropout_seed(at))?;
        let logits = found.logits.chunks_exact(bins.count()).map(|outputs| bins.logit(outputs) as f32);
        let targets = labels.iter().map(|label| match label {
            Some(ProgressLabel::At(progress)) => *progress as f32,
            Some(ProgressLabel::Unknown) | None => f32::NAN,
        });
        self.last_batch = logits.chain(targets).collect();
        Ok(found.loss)
    }
}

/// The mean cross entropy of a batch; a frame without a label costs nothing.
pub(crate) fn progress_loss(
    bins: ProgressBins,
    outputs: &[f32],
    labels: &[Option<ProgressLabel>],
) -> BatchLoss {
    let (mut loss, mut gradients) = (0.0, Vec::with_capacity(outputs.len()));
    for (outputs, label) in outputs.chunks_exact(bins.count()).zip(labels) {
        let Some(label) = label else {
            gradients.extend(outputs.iter().map(|_| 0.0));
            continue;
        };
        let (cost, gradient) = bins.cross_entropy(outputs, *label);
        loss += cost / labels.len() as f64;
        gradients.extend(gradient.into_iter().map(|gradient| gradient / labels.len() as f64));
    }
    BatchLoss { loss, gradients }
}

/// The progress in frames that something can be learned from.
fn known_progress(train: &Frames) -> Result<ProgressLabels, TrainError> {
    let labels = ProgressLabels::of(train)?;
    match labels.known() {
        0 => Err(dataset::DatasetError::NoSuccess { frames: train.len() }.into()),
        _ => Ok(labels),
    }
}

impl Trainable for TrainableClassifier<'_> {
    type Metrics = Metrics;

    fn lookahead(&self) -> usize {
        self.loader.lookahead()
    }

    fn upcoming(&mut self, at: MicroBatch, examples: &[usize]) {
        self.loader.begin(at, examples);
    }

    fn accumulate(
        &mut self,
        at: MicroBatch,
        examples: &[usize],
        scale: f64,
    ) -> Result<Option<f64>, TrainError> {
        let batch = self.loader.take(at, examples);
        if let Some((bins, labels)) = &self.labels {
            let labels: Vec<Option<ProgressLabel>> =
                examples.iter().map(|number| labels.get(*number)).collect();
            return self.accumulate_progress(*bins, at, &batch, &labels, scale).map(Some);
        }
        let weights: Option<Vec<f32>> = self.weights.map(|[success, failure]| {
            batch.labels.iter().map(|label| if *label > 0.5 { success } else { failure }).collect()
        });
        let images = batch.images().map_err(ClassifierError::from)?;
        let (loss, drop) = (self.settings.loss, self.dropout_seed(at));
        // A GPU fetches them while it computes the step before.
        let images = match self.trainer.stage(&images)? {
            true => TrainingImages::Staged { count: images.len() },
            false => TrainingImages::Given(&images),
        };
        self.trainer.begin(images, &batch.labels, weights.as_deref(), loss, scale, drop)?;
        if self.runs_ahead() {
            self.last_batch.clear();
            self.running.push_back(batch.labels);
            return Ok(None);
        }
        let found = self.trainer.finish()?;
        self.last_batch = [found.logits, batch.labels].concat();
        Ok(Some(found.loss))
    }

    fn join_ranks(&mut self, ranks: &Arc<dyn GradientSync>, sharding: Sharding) -> Result<(), TrainError> {
        self.ranks = ranks.clone();
        Ok(self.trainer.join_ranks(ranks.clone(), sharding)?)
    }

    fn reduce(&mut self) -> Result<(), SyncError> {
        self.trainer.reduce()?;
        self.ranks.gather(&self.last_batch)?.iter().for_each(|batch| self.batch_stats.add(batch));
        Ok(())
    }

    fn step(&mut self, lr: f64, clip: Option<f64>) -> Result<Option<StepOutcome>, TrainError> {
        if !self.runs_ahead() {
            return Ok(Some(self.trainer.step_over_ranks(lr, clip)?));
        }
        self.trainer.begin_step(lr, clip)?;
        let before: usize = self.steps_running.iter().sum();
        self.steps_running.push_back(self.running.len() - before);
        Ok(None)
    }

    fn finish_step(&mut self) -> Result<(Vec<f64>, StepOutcome), TrainError> {
        let batches = self.steps_running.pop_front().unwrap_or(0);
        let mut losses = Vec::with_capacity(batches);
        for labels in self.running.drain(..batches) {
            let found = self.trainer.finish()?;
            self.batch_stats.add(&[found.logits, labels].concat());
            losses.push(found.loss);
        }
        Ok((losses, self.trainer.finish_step()?))
    }

    fn train_metrics(&mut self) -> Vec<(String, f64)> {
        let stats = std::mem::take(&mut self.batch_stats);
        let BatchStats { frames, right, sum_of_probabilities, sum_of_errors, known } = stats;
        let mean = |sum: f64| sum / frames as f64;
        let waited = ("time/data_secs".into(), self.loader.waited().as_secs_f64());
        if self.labels.is_some() {
            return vec![
                ("train/progress_error".into(), sum_of_errors / known.max(1) as f64),
                ("train/progress_mean".into(), mean(sum_of_probabilities)),
                waited,
            ];
        }
        vec![
            ("train/accuracy".into(), mean(right as f64)),
            ("train/probabilities_mean".into(), mean(sum_of_probabilities)),
            waited,
        ]
    }

    fn measure(&mut self) -> Result<Option<ValidationResult<Metrics>>, TrainError> {
        let Some(val) = self.val else { return Ok(None) };
        let batch = self.settings.loop_settings.eval_batch;
        let monitor = self.settings.monitor;
        if self.labels.is_some() {
            // Every rank measures all of it: demonstrations are few.
            let found = evaluate_progress(&self.trainer.scorer()?, val, batch)?;
            let (value, better) = (monitor.value(&found.evaluation), monitor.better());
            let (values, metrics) = (found.values(), found.evaluation.metrics);
            return Ok(Some(ValidationResult { value, better, metrics, values }));
        }
        let found = evaluate_over_ranks(&*self.ranks, &self.trainer.scorer()?, val, batch)?;
        let (value, better) = (monitor.value(&found), monitor.better());
        Ok(Some(ValidationResult { value, better, metrics: found.metrics, values: found.values() }))
    }

    fn write(&self, folder: &Path, progress: &Progress, found: Option<&Metrics>) -> Result<(), TrainError> {
        Ok(self.card_now(progress, found).write(&self.trainer.weights()?, folder).map(drop)?)
    }

    fn snapshot(
        &self,
        progress: &Progress,
        found: Option<&Metrics>,
    ) -> Result<Option<WriteModel>, TrainError> {
        let card = self.card_now(progress, found);
        if let Some(snapshot) = self.trainer.snapshot(false)? {
            return Ok(Some(Box::new(move |folder| {
                Ok(card.write(&snapshot.fetch()?.0, folder).map(drop)?)
            })));
        }
        let weights = self.trainer.weights()?;
        Ok(Some(Box::new(move |folder| Ok(card.write(&weights, folder).map(drop)?))))
    }

    fn snapshot_with_state(&self, progress: &Progress) -> Result<Option<WriteModel>, TrainError> {
        let card = self.card_now(progress, None);
        if let Some(snapshot) = self.trainer.snapshot(true)? {
            return Ok(Some(Box::new(move |folder| {
                let (weights, state) = snapshot.fetch()?;
                card.write(&weights, folder)?;
                state.map_or(Ok(()), |state| write_state(folder, &state))
            })));
        }
        let (weights, state) = (self.trainer.weights()?, self.trainer.state()?);
        Ok(Some(Box::new(move |folder| {
            card.write(&weights, folder)?;
            write_state(folder, &state)
        })))
    }

    fn state(&self) -> Result<Option<Weights>, TrainError> {
        Ok(self.trainer.state_over_ranks()?)
    }

    fn restore(&mut self, state: &Weights) -> Result<(), TrainError> {
        Ok(self.trainer.restore(state)?)
    }

    fn name(&self, example: usize) -> String {
        let origin = self.train.origin(example);
        format!("{} {}", origin.episode, origin.at)
    }
}
