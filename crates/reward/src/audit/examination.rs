//! What a model said, and what follows from it on the scale on which others will see its scores.

use super::conditioned::NEVER;
use super::findings::{background, verdict};
use super::labels::suspected_labels;
use super::operating_point::{OperatingPoint, ThresholdChoice, at_temperature};
use super::slices::by_length;
use super::stress::{StressTest, sample_where};
use super::timelines::timelines;
use super::timing::{scores_over_time, timing};
use super::{
    Audit, AuditError, Auditor, BackgroundImage, Calibration, CurvePoint, Interval, RegionSource, RuleAt,
    Saliency, ScoredEpisode, SharedWithTraining, Slice, Slices, Stored, StressResult, TimedLatency, Verdict,
    score_of,
};
use crate::hacking_monitor::SuccessFeatures;
use crate::images::Mistakes;
use crate::metrics::{Confusion, Metrics, ProgressMetrics};
use crate::train::episode_scores;

/// Mistakes of each kind that are kept.
const MISTAKES: usize = 20;

/// What was found that does not depend on where threshold and temperature are stored.
pub struct Examination<'a> {
    pub(super) auditor: &'a Auditor<'a>,
    /// With the network's own logits.
    pub(super) episodes: Vec<ScoredEpisode>,
    pub(super) logits: Vec<f64>,
    pub(super) calibration: Calibration,
    pub(super) auc: Option<Interval>,
    pub(super) average_precision: Option<Interval>,
    pub(super) roc: Vec<CurvePoint>,
    pub(super) precision_recall: Vec<CurvePoint>,
    pub(super) shared_with_training: SharedWithTraining,
    pub(super) background_image: BackgroundImage,
    pub(super) saliency: Vec<Saliency>,
    pub(super) latency: Vec<TimedLatency>,
    pub(super) success_features: Option<SuccessFeatures>,
}

impl Examination<'_> {
    /// Counts on the scale on which others will see scores, which depends on where threshold and temperature are to be
    /// stored: at the fitted temperature if that goes into the checkpoint, else at the checkpoint's own. Numbers that
    /// cannot be believed are not stored, whatever is planned: [`Audit::stored`] says so.
    ///
    /// # Errors
    /// When images do not fit the model.
    pub fn conclude(&self, planned: Stored) -> Result<Audit, AuditError> {
        let (frames, known) = (self.auditor.frames, self.auditor.known);
        let stored = self.storable(planned);
        let temperature = match &stored {
            Stored::In { .. } => self.calibration.temperature.unwrap_or(known.temperature),
            Stored::No { .. } => known.temperature,
        };
        let episodes: Vec<ScoredEpisode> =
            self.episodes.iter().map(|episode| episode.at_temperature(temperature)).collect();
        let scores: Vec<f64> = self.logits.iter().map(|logit| score_of(*logit as f32, temperature)).collect();
        let truth = frames.labels();
        let choice = ThresholdChoice {
            episodes: &episodes,
            scores: &scores,
            truth: &truth,
            temperature,
            fitted: self.calibration.temperature,
            own: known.threshold.map(|own| at_temperature(own, known.temperature, temperature)),
        };
        let operating = OperatingPoint::choose(&choice, &self.auditor.settings);
        let (threshold, rule) = (operating.threshold, operating.rule_at());
        let stressed = self.stress(&operating)?;
        let mut audit = Audit {
            model: self.auditor.model.clone(),
            data: frames.recordings().iter().map(|data| data.path.display().to_string()).collect(),
            passed: false,
            verdict: Verdict::default(),
            episodes: episodes.len(),
            in_episodes: frames.recordings().iter().all(|recording| recording.in_episodes),
            auc: self.auc,
            average_precision: self.average_precision,
            metrics: metrics(&self.logits, &scores, &truth, &operating),
            calibration: self.calibration.clone(),
            roc: self.roc.clone(),
            precision_recall: self.precision_recall.clone(),
            timing: timing(&episodes, rule),
            progress: ProgressMetrics::of(&episode_scores(frames, &self.logits)),
            scores_of_successes: scores_over_time(&episodes, true),
            scores_of_failures: scores_over_time(&episodes, false),
            timelines: timelines(&episodes, threshold),
            mistakes: Mistakes::worst(frames, &scores, threshold, MISTAKES),
            suspected_labels: suspected_labels(&episodes),
            shared_with_training: self.shared_with_training.clone(),
            slices: Slices {
                by_length: by_length(&episodes, rule),
                by_data: self.by_data(&episodes, rule),
                by_camera: stressed.without_cameras,
            },
            background: background(
                &stressed.all,
                stressed.known_by,
                &self.saliency,
                stressed.frames_of_each_label,
            ),
            stress: stressed.all,
            regions_known_by: stressed.known_by,
            saliency: self.saliency.clone(),
            latency: self.latency.clone(),
            success_features: self.success_features.clone(),
            conditions: known.conditions.cloned(),
            operating,
            stored,
        };
        let whole = frames.recordings().iter().all(|recording| recording.has_history);
        audit.verdict = verdict(&audit, self.auditor.settings.min_detection, whole);
        audit.passed = audit.verdict.passed();
        Ok(audit)
    }

    /// What is planned, unless numbers from this data must not go into a checkpoint.
    fn storable(&self, planned: Stored) -> Stored {
        let why = match planned {
            no @ Stored::No { .. } => return no,
            Stored::In { .. } if self.shared_with_training.is_leak() => {
                "the model has learned from this data"
            }
            Stored::In { .. } if self.auc.is_none() => "all frames have one label",
            stored => return stored,
        };
        Stored::No { why: format!("what was measured cannot be believed: {why}") }
    }

    fn stress(&self, operating: &OperatingPoint) -> Result<StressedAll, AuditError> {
        let Auditor { scorer, frames, settings, regions, .. } = *self.auditor;
        // Where its conditions do not hold, nobody asks what the model says.
        let sample = sample_where(frames, settings.stress_frames, |number| self.logits[number] > NEVER);
        let successes = sample.iter().filter(|number| frames.success(**number)).count();
        let frames_of_each_label = successes.min(sample.len() - successes);
        let test = StressTest {
            scorer,
            temperature: operating.temperature,
            threshold: operating.threshold,
            frames,
            sample,
            background_image: &self.background_image,
            regions,
        };
        let on_progress =
            |done, total| self.auditor.report("perturbing images", "perturbations", done, total);
        let (all, known_by) = test.run(&on_progress)?;
        let without = |view: usize| Ok(test.without_view(view)?);
        let without_cameras = (0..frames.views().len()).map(without).collect::<Result<_, AuditError>>()?;
        Ok(StressedAll { all, known_by, without_cameras, frames_of_each_label })
    }

    /// Each of several datasets on its own.
    fn by_data(&self, episodes: &[ScoredEpisode], rule: RuleAt) -> Vec<Slice> {
        let mut rest = episodes.iter();
        let slice = |recording: &std::sync::Arc<plaudit_data::labelled::LabelledData>| {
            let these: Vec<&ScoredEpisode> = rest.by_ref().take(recording.episodes.len()).collect();
            Slice::of(recording.path.display().to_string(), &these, rule)
        };
        self.auditor.frames.recordings().iter().map(slice).collect()
    }
}

/// The results of the perturbations.
struct StressedAll {
    all: Vec<StressResult>,
    known_by: RegionSource,
    without_cameras: Vec<StressResult>,
    /// Of the label that has fewer.
    frames_of_each_label: usize,
}

/// Everything about single frames: calibration and ranking in 64 bits, decisions as they are made.
fn metrics(logits: &[f64], scores: &[f64], truth: &[bool], operating: &OperatingPoint) -> Metrics {
    let OperatingPoint { threshold, temperature, .. } = *operating;
    let exact: Vec<f64> = logits.iter().map(|logit| 1.0 / (1.0 + (-logit / temperature).exp())).collect();
    Metrics::of(&exact, truth, threshold).with_calls(Confusion::at(scores, truth, threshold))
}
