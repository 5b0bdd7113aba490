//! A classifier that learns from labelled frames.

use std::path::Path;
use std::sync::Arc;

use plaudit_core::{GradientSync, OneRank, Seed, SyncError};
use plaudit_nn::Weights;
use plaudit_nn::classifier::{ClassifierError, Sharding, StepOutcome, Trainer};

use super::early_stop::Progress;
use super::error::TrainError;
use super::evaluate::evaluate_over_ranks;
use super::settings::Settings;
use super::train_loop::{MicroBatch, TrainLoop, Trainable, ValidationResult};
use crate::card::ModelCard;
use crate::dataset::{self, Batch, Frames, Manifest};
use crate::metrics::Metrics;

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
        dataset::check(train)?;
        let val = val.filter(|val| !val.is_empty());
        let card = ModelCard {
            class_balance: Some(train.balance()),
            dataset: Some(Manifest::of(train, val)),
            ..ModelCard::of(trainer.settings().clone())
        };
        let weights = settings.class_weight.weights(train.balance());
        let loop_settings = settings.loop_settings.clone();
        let model = TrainableClassifier {
            trainer,
            train,
            val,
            settings,
            weights,
            card,
            batch_stats: BatchStats::default(),
            last_batch: Vec::new(),
            ranks: Arc::new(OneRank),
        };
        Ok(Self::over(model, loop_settings, train.len()))
    }

    /// What the model will say about itself.
    #[must_use]
    pub fn card(&self) -> &ModelCard {
        &self.model.card
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
    train: &'a Frames,
    val: Option<&'a Frames>,
    settings: Settings,
    weights: Option<[f32; 2]>,
    card: ModelCard,
    batch_stats: BatchStats,
    /// The logits of the last micro batch, then its labels.
    last_batch: Vec<f32>,
    ranks: Arc<dyn GradientSync>,
}

/// What the micro batches of a step gave, beside their loss.
#[derive(Default)]
struct BatchStats {
    frames: usize,
    right: usize,
    sum_of_probabilities: f64,
}

impl BatchStats {
    /// Logits, then labels, of a micro batch.
    fn add(&mut self, batch: &[f32]) {
        let (logits, labels) = batch.split_at(batch.len() / 2);
        self.frames += labels.len();
        for (logit, label) in logits.iter().zip(labels) {
            self.right += usize::from((*logit > 0.0) == (*label > 0.5));
            self.sum_of_probabilities += 1.0 / (1.0 + (-f64::from(*logit)).exp());
        }
    }
}

impl Trainable for TrainableClassifier<'_> {
    type Metrics = Metrics;

    fn accumulate(&mut self, at: MicroBatch, examples: &[usize], scale: f64) -> Result<f64, TrainError> {
        let Settings { augment, loss, loop_settings, .. } = &self.settings;
        let batch = if augment.is_off() {
            Batch::of(self.train, examples)
        } else {
            Batch::augmented(
                self.train,
                examples,
                augment,
                Training::epoch_seed(loop_settings.seed, at.epoch),
            )
        };
        let weights: Option<Vec<f32>> = self.weights.map(|[success, failure]| {
            batch.labels.iter().map(|label| if *label > 0.5 { success } else { failure }).collect()
        });
        let images = batch.images().map_err(ClassifierError::from)?;
        let drop = loop_settings.seed.purpose("dropout").index(at.number);
        let found =
            self.trainer.accumulate(&images, &batch.labels, weights.as_deref(), *loss, scale, drop)?;
        self.last_batch = [found.logits, batch.labels].concat();
        Ok(found.loss)
    }

    fn join_ranks(&mut self, ranks: &Arc<dyn GradientSync>, sharding: Sharding) -> Result<(), SyncError> {
        self.ranks = ranks.clone();
        self.trainer.join_ranks(ranks.clone(), sharding)
    }

    fn reduce(&mut self) -> Result<(), SyncError> {
        self.trainer.reduce()?;
        self.ranks.gather(&self.last_batch)?.iter().for_each(|batch| self.batch_stats.add(batch));
        Ok(())
    }

    fn step(&mut self, lr: f64, clip: Option<f64>) -> Result<StepOutcome, SyncError> {
        self.trainer.step_over_ranks(lr, clip)
    }

    fn train_metrics(&mut self) -> Vec<(String, f64)> {
        let BatchStats { frames, right, sum_of_probabilities } = std::mem::take(&mut self.batch_stats);
        let mean = |sum: f64| sum / frames as f64;
        vec![
            ("train/accuracy".into(), mean(right as f64)),
            ("train/probabilities_mean".into(), mean(sum_of_probabilities)),
        ]
    }

    fn measure(&mut self) -> Result<Option<ValidationResult<Metrics>>, TrainError> {
        let Some(val) = self.val else { return Ok(None) };
        let batch = self.settings.loop_settings.eval_batch;
        let found = evaluate_over_ranks(&*self.ranks, &self.trainer.scorer(), val, batch)?;
        let monitor = self.settings.monitor;
        let (value, better) = (monitor.value(&found), monitor.better());
        Ok(Some(ValidationResult { value, better, metrics: found.metrics, values: found.values() }))
    }

    fn write(&self, folder: &Path, progress: &Progress, found: Option<&Metrics>) -> Result<(), TrainError> {
        // A checkpoint between validations has no measure of its own; the threshold that was best is a fair guess.
        let known = found.or(progress.best.as_ref().map(|best| &best.metrics));
        let threshold = known.map(|metrics| metrics.threshold);
        let card = ModelCard { step: progress.step, threshold, metrics: found.copied(), ..self.card.clone() };
        Ok(card.write(&self.trainer.weights(), folder).map(drop)?)
    }

    fn state(&self) -> Result<Option<Weights>, SyncError> {
        self.trainer.state_over_ranks()
    }

    fn restore(&mut self, state: &Weights) -> Result<(), TrainError> {
        Ok(self.trainer.restore(state)?)
    }

    fn name(&self, example: usize) -> String {
        let origin = self.train.origin(example);
        format!("{} {}", origin.episode, origin.at)
    }
}
