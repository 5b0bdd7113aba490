//! Runs a classifier over labelled episodes, and measures what does not depend on a threshold.

use std::path::PathBuf;
use std::time::Duration;

use plaudit_core::Seed;
use plaudit_data::recording::Rules;
use plaudit_nn::process_memory::peak_of;

use super::bootstrap::bootstrap_over_episodes;
use super::calibration::calibrate;
use super::curves::{precision_over_episodes, roc_over_episodes};
use super::examination::Examination;
use super::latency::latency;
use super::saliency::saliency;
use super::stress::{RegionsOf, sample};
use super::{
    Audit, AuditError, AuditProgress, AuditRule, BackgroundImage, OnAuditProgress, Saliency,
    SharedWithTraining, Stored, TimedLatency, conditioned, logits, scored_episodes,
};
use crate::card::KnownOfModel;
use crate::custom::ImageScorer;
use crate::dataset::{Batch, Frames};
use crate::hacking_monitor::SuccessFeatures;
use crate::metrics::{average_precision, roc_auc};

/// Frames scored at a time.
const BATCH: usize = 256;
/// Bootstrap resamples behind an interval, and behind the band of a curve.
const RESAMPLES: u64 = 500;
const BAND_RESAMPLES: u64 = 200;
/// Successes whose features the checkpoint stores.
const KNOWN_FRAMES: usize = 1000;
/// Frames of each label in which squares are covered, at most: the settings may ask for fewer.
const SALIENCY_FRAMES: usize = 16;
/// Batch sizes that are timed, and for about how long each.
const TIMED: [usize; 2] = [1, 128];
const TIMED_FOR: Duration = Duration::from_secs(1);

/// What is asked of a classifier.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AuditSettings {
    /// The share of episodes that may raise a false alarm.
    pub max_fpr: f64,
    /// How sure that must be.
    pub confidence: f64,
    /// The rule that rewards, which false alarms are counted by.
    pub rule: AuditRule,
    /// Audit at this threshold instead of picking one; it must keep the guarantee as well.
    pub threshold: Option<f64>,
    /// A model that detects a smaller share of the successful episodes does not pass.
    pub min_detection: f64,
    /// Frames of each label that are disturbed and covered.
    pub stress_frames: usize,
    /// Seed of the episodes that fit the temperature, and of the intervals.
    pub seed: u64,
}

impl AuditSettings {
    /// What is asked where nothing else is.
    pub const DEFAULT: Self = Self {
        max_fpr: 0.01,
        confidence: 0.95,
        rule: AuditRule::DEFAULT,
        threshold: None,
        min_detection: 0.5,
        stress_frames: 100,
        seed: 42,
    };
}

impl Default for AuditSettings {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// An audit of a classifier about to be made.
pub struct Auditor<'a> {
    /// What the audit calls the model, such as its file.
    pub model: String,
    /// What gives frames their logits.
    pub scorer: &'a dyn ImageScorer,
    /// What the model says about itself.
    pub known: KnownOfModel<'a>,
    /// Labelled frames of whole episodes that it has not learned from.
    pub frames: &'a Frames,
    /// What is asked of it.
    pub settings: AuditSettings,
    /// What it learned from, to look for frames that are in both; none: where its card says it was.
    pub train_data: &'a [PathBuf],
    /// How that is read.
    pub rules: Rules,
    /// What pixels show, where that is known.
    pub regions: Option<&'a RegionsOf<'a>>,
    /// Called as often as there is news.
    pub on_progress: &'a OnAuditProgress<'a>,
}

impl<'a> Auditor<'a> {
    /// With the default settings.
    pub fn new(
        model: impl Into<String>,
        scorer: &'a dyn ImageScorer,
        card: impl Into<KnownOfModel<'a>>,
        frames: &'a Frames,
    ) -> Self {
        Self {
            model: model.into(),
            scorer,
            known: card.into(),
            frames,
            settings: AuditSettings::DEFAULT,
            train_data: &[],
            rules: Rules::default(),
            regions: None,
            on_progress: &|_| {},
        }
    }

    /// The audit of a model whose checkpoint stays as it is. To store what is found, [`examine`](Self::examine), then
    /// [`conclude`](Examination::conclude) with the file, then [`store`](Audit::store).
    ///
    /// # Errors
    /// When the data does not fit the model, or cannot be read.
    pub fn audit(&self) -> Result<Audit, AuditError> {
        self.examine()?.conclude(Stored::No { why: "the checkpoint is left as it is".into() })
    }

    /// Runs the model.
    ///
    /// # Errors
    /// When the data does not fit the model, or cannot be read.
    pub fn examine(&self) -> Result<Examination<'_>, AuditError> {
        if self.frames.is_empty() {
            return Err(AuditError::NoFrames);
        }
        let logits = self.logits()?;
        let seed = Seed::new(self.settings.seed).purpose("audit");
        let episodes = scored_episodes(self.frames, &logits);
        // What a progress model says is how far the task is, and no probability that it is done: its scores stay as they are.
        let fits = self.known.fits_temperature;
        let calibration = calibrate(&episodes, fits, seed);
        let resampled = |done| self.report("resampling episodes", "steps", done, 4);
        resampled(0);
        let interval = |number: fn(&[f64], &[bool]) -> Option<f64>| {
            bootstrap_over_episodes(&episodes, RESAMPLES, seed, number)
        };
        let auc = interval(roc_auc);
        resampled(1);
        let average_precision = interval(average_precision);
        resampled(2);
        let roc = roc_over_episodes(&episodes, BAND_RESAMPLES, seed);
        resampled(3);
        let precision_recall = precision_over_episodes(&episodes, BAND_RESAMPLES, seed);
        let background_image = BackgroundImage::of(self.frames)?;
        Ok(Examination {
            auditor: self,
            shared_with_training: self.shared_with_training()?,
            saliency: self.saliency(&background_image)?,
            latency: self.latency()?,
            success_features: self.success_features()?,
            episodes,
            logits,
            calibration,
            auc,
            average_precision,
            roc,
            precision_recall,
            background_image,
        })
    }

    pub(super) fn report(&self, what: &'static str, unit: &'static str, done: usize, total: usize) {
        (self.on_progress)(AuditProgress { what, unit, done, total });
    }

    fn logits(&self) -> Result<Vec<f64>, AuditError> {
        let on_progress = |done, total| self.report("scoring", "frames", done, total);
        let found = logits(self.scorer, self.frames, BATCH, &on_progress)?;
        if !found.iter().all(|logit| logit.is_finite()) {
            return Err(AuditError::NotFinite { model: self.model.clone(), what: "scores" });
        }
        Ok(conditioned(self.frames, self.known.conditions, found)?)
    }

    fn shared_with_training(&self) -> Result<SharedWithTraining, AuditError> {
        let read = |paths: &[PathBuf]| {
            Frames::read(self.frames.views(), paths, &self.rules, &|progress| {
                self.report("reading", "episodes", progress.done, progress.total);
            })
        };
        Ok(SharedWithTraining::find(self.known.dataset, self.frames, self.train_data, &read)?)
    }

    fn saliency(&self, background_image: &BackgroundImage) -> Result<Vec<Saliency>, AuditError> {
        let looked_at = sample(self.frames, SALIENCY_FRAMES.min(self.settings.stress_frames.max(1)));
        let on_progress = |done, total| self.report("covering squares", "squares", done, total);
        let of_view = |view: usize| {
            Ok(saliency(self.scorer, self.frames, &looked_at, (view, background_image), &on_progress)?)
        };
        (0..self.frames.views().len()).map(of_view).collect()
    }

    fn latency(&self) -> Result<Vec<TimedLatency>, AuditError> {
        let timed = |(done, batch): (usize, &usize)| {
            self.report("timing answers", "batch sizes", done, TIMED.len());
            let (latency, peak_bytes) = peak_of(|| latency(self.scorer, self.frames, *batch, TIMED_FOR));
            Ok(TimedLatency { latency: latency?, peak_bytes })
        };
        TIMED.iter().enumerate().map(timed).collect()
    }

    /// The features of successes, for the hacking monitor. A model of another making does not show its features.
    fn success_features(&self) -> Result<Option<SuccessFeatures>, AuditError> {
        let Some(network) = self.scorer.network() else { return Ok(None) };
        let all: Vec<usize> = (0..self.frames.len()).filter(|number| self.frames.success(*number)).collect();
        let step = all.len().div_ceil(KNOWN_FRAMES).max(1);
        let some: Vec<usize> = all.into_iter().step_by(step).collect();
        self.report("learning successes", "frames", 0, some.len());
        let batches: Vec<Batch> = some.chunks(BATCH).map(|some| Batch::of(self.frames, some)).collect();
        let images = batches.iter().map(|batch| Ok(batch.images()?));
        Ok(SuccessFeatures::of(network, images)?)
    }
}
