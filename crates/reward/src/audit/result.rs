//! What an audit of a classifier found, and what of it goes into the checkpoint.

use serde::Serialize;

use super::operating_point::at_temperature;
use super::{
    Calibration, CurvePoint, Interval, Latency, OperatingPoint, RegionSource, Saliency, ScoresAtFrame,
    SharedWithTraining, Slice, StressResult, SuspectedLabel, Timeline, Timing, Verdict,
};
use crate::card::{KnownOfModel, ModelCard};
use crate::custom::{CustomCard, CustomLocation, CustomModelError};
use crate::hacking_monitor::SuccessFeatures;
use crate::images::Mistakes;
use crate::metrics::{Metrics, ProgressMetrics};
use crate::shaping::StateConditions;
use plaudit_nn::WeightsError;

/// Everything that was found. As JSON, it is what a page about the audit shows.
#[derive(Debug, Clone, Serialize)]
pub struct Audit {
    /// The model.
    pub model: String,
    /// What it was audited on.
    pub data: Vec<String>,
    /// Whether the model may be used as a reward.
    pub passed: bool,
    /// Why, or why not.
    pub verdict: Verdict,
    /// How many episodes.
    pub episodes: usize,
    /// Whether the data says which frames are of one episode.
    pub in_episodes: bool,
    /// Probability that a success scores higher than a failure.
    pub auc: Option<Interval>,
    /// Area under precision over recall.
    pub average_precision: Option<Interval>,
    /// What must hold of the state beside a score above the threshold, by the model's card.
    pub conditions: Option<StateConditions>,
    /// The threshold, and its guarantee.
    pub operating: OperatingPoint,
    /// At the threshold and the temperature.
    pub metrics: Metrics,
    /// How honest scores are, before and after the fitted temperature.
    pub calibration: Calibration,
    /// Successes found over failures called a success.
    pub roc: Vec<CurvePoint>,
    /// Precision over recall.
    pub precision_recall: Vec<CurvePoint>,
    /// When success is noticed, and whether it is held.
    pub timing: Timing,
    /// How well scores follow the progress of episodes.
    pub progress: ProgressMetrics,
    /// Scores over time of the episodes with success.
    pub scores_of_successes: Vec<ScoresAtFrame>,
    /// Scores over time of the others.
    pub scores_of_failures: Vec<ScoresAtFrame>,
    /// A few episodes frame by frame.
    pub timelines: Vec<Timeline>,
    /// What it was surest of, and wrong.
    pub mistakes: Mistakes,
    /// Labels that look wrong.
    pub suspected_labels: Vec<SuspectedLabel>,
    /// Whether the model learned from this data.
    pub shared_with_training: SharedWithTraining,
    /// The model on parts of the data.
    pub slices: Slices,
    /// What disturbs it.
    pub stress: Vec<StressResult>,
    /// How it is known what pixels show.
    pub regions_known_by: RegionSource,
    /// Where it looks, view by view.
    pub saliency: Vec<Saliency>,
    /// Whether the background decides.
    pub background: Background,
    /// How fast it answers.
    pub latency: Vec<TimedLatency>,
    /// Long, and for the checkpoint alone.
    #[serde(skip)]
    pub success_features: Option<SuccessFeatures>,
    /// Whether the checkpoint has threshold and temperature of this audit.
    pub stored: Stored,
}

/// The model on parts of the data.
#[derive(Debug, Clone, Serialize)]
pub struct Slices {
    /// Short and long episodes.
    pub by_length: Vec<Slice>,
    /// Each dataset on its own.
    pub by_data: Vec<Slice>,
    /// What is left when a camera is covered.
    pub by_camera: Vec<StressResult>,
}

/// Whether the background decides.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Background {
    /// Whether it does; false also where there are too few frames to say so.
    pub looks_at_background: bool,
    /// Frames it was tried on, of the label that has fewer.
    pub frames_of_each_label: usize,
    /// Whether those are enough for a verdict.
    pub enough_frames: bool,
    /// How much of its ranking a model keeps that sees the background alone: 0 none, 1 all.
    pub ranking_from_background: Option<f64>,
    /// How much of the score of successes is left then: 0 nothing, 1 all, more where an empty scene looks more like success.
    pub score_from_background: Option<f64>,
    /// The share of what matters to it that lies where hardly anything moves.
    pub saliency_on_still_squares: f64,
}

/// Latency and memory at one batch size.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct TimedLatency {
    /// How long answers took.
    #[serde(flatten)]
    pub latency: Latency,
    /// The most memory held beyond what was held before, where the system reports it.
    pub peak_bytes: Option<u64>,
}

/// Whether a checkpoint has what an audit found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "stored")]
pub enum Stored {
    /// It has.
    In {
        /// The file.
        file: String,
    },
    /// It has not.
    No {
        /// Why not.
        why: String,
    },
}

impl Audit {
    /// Writes temperature, threshold and guarantee into the checkpoint that [`Stored::In`] names; without one, nothing.
    /// `before` is the card of that checkpoint.
    ///
    /// # Errors
    /// When the file cannot be read or written.
    pub fn store(&self, before: &ModelCard) -> Result<(), WeightsError> {
        match &self.stored {
            Stored::In { file } => self.card(before).replace_in(file.as_ref()),
            Stored::No { .. } => Ok(()),
        }
    }

    /// The same beside a model of another making. `before` is what was known of it.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn store_beside(&self, model: &CustomLocation, before: &CustomCard) -> Result<(), CustomModelError> {
        match &self.stored {
            Stored::In { .. } => {
                let (temperature, threshold) = self.on_the_new_scale(before.into());
                let guarantee = self.operating.guarantee;
                let temperature = Some(temperature);
                CustomCard { temperature, threshold, guarantee, ..before.clone() }.write(model)
            }
            Stored::No { .. } => Ok(()),
        }
    }

    /// The card with what was found in it.
    fn card(&self, before: &ModelCard) -> ModelCard {
        let (temperature, threshold) = self.on_the_new_scale(before.into());
        ModelCard {
            temperature: Some(temperature),
            threshold,
            guarantee: self.operating.guarantee,
            success_features: self.success_features.clone(),
            ..before.clone()
        }
    }

    /// The temperature and the threshold that hold from now on. A threshold that was there before and stays means the same scores.
    fn on_the_new_scale(&self, before: KnownOfModel<'_>) -> (f64, Option<f64>) {
        let temperature = self.calibration.temperature.unwrap_or(before.temperature);
        let guaranteed = self.operating.guarantee.map(|_| self.operating.threshold);
        let kept =
            before.threshold.map(|threshold| at_temperature(threshold, before.temperature, temperature));
        (temperature, guaranteed.or(kept))
    }
}

/// A share in words, with as many digits as it needs.
#[must_use]
pub fn percent(share: f64) -> String {
    let text = format!("{:.2}", 100.0 * share);
    format!("{} %", text.trim_end_matches('0').trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_have_as_many_digits_as_they_need() {
        assert_eq!([0.01, 0.5, 0.0125].map(percent), ["1 %", "50 %", "1.25 %"]);
    }
}
