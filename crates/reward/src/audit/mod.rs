//! Whether a reward model can be trusted.
//!
//! An audit runs a model over episodes that it has not learned from, and asks what whoever trains a policy with it must
//! know: how well it ranks, how honest its probabilities are, which threshold keeps false alarms rare and with which
//! guarantee, when it notices success, what fools it, where it looks, and whether it has seen the data before. Each
//! answer is a number in an [`Audit`]; all of them together are a [`Verdict`].
//!
//! ```no_run
//! use plaudit_nn::Weights;
//! use plaudit_data::recording::Rules;
//! use plaudit_nn::classifier::{Device, Scorer};
//! use plaudit_reward::audit::{Auditor, Stored};
//! use plaudit_reward::card::ModelCard;
//! use plaudit_reward::dataset::Frames;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let file = Weights::locate("logs/reward/checkpoints/best_model")?;
//! let weights = Weights::read(&file)?;
//! let card = ModelCard::from_header(weights.metadata())?.ok_or("not written by plaudit")?;
//! let scorer = Scorer::new(&card.settings, &weights, Device::Cpu)?;
//! let frames = Frames::read(&["main_images".parse()?], &["held_out_episodes"], &Rules::default(), &|_| {})?;
//!
//! let auditor = Auditor::new("best_model", &scorer, &card, &frames);
//! let audit = auditor.examine()?.conclude(Stored::In { file: file.display().to_string() })?;
//! println!("threshold {}: {}", audit.operating.threshold, audit.operating.guarantee_text());
//! for finding in &audit.verdict.findings {
//!     println!("{:?}: {}; {}", finding.severity, finding.what, finding.hint);
//! }
//! audit.store(&card)?; // whoever scores with the checkpoint now does so by this threshold and temperature
//! # Ok(())
//! # }
//! ```
//!
//! Everything is computed over whole episodes where that matters: frames of one episode look alike, so that counting
//! them as independent would make every interval too narrow and every guarantee void.
//!
//! Vision-language judges say of windows of frames whether things get better. They have an audit of their own
//! ([`JudgeAuditor`], [`JudgeAudit`]): accuracy, calibration, agreement with the environment's measure of progress, and
//! whether they react to what happens.

mod auditor;
mod background_image;
mod bootstrap;
mod calibration;
mod conditioned;
mod curves;
mod episodes;
mod error;
mod examination;
mod findings;
mod guarantee;
mod labels;
mod latency;
mod logits;
mod operating_point;
mod progress;
mod result;
mod rule;
mod saliency;
mod slices;
mod stress;
mod temperature;
mod timelines;
mod timing;
mod training_data;
mod verdict;
mod windows;

use crate::metrics::spearman;
pub use auditor::{AuditSettings, Auditor};
use background_image::BackgroundImage;
pub use bootstrap::Interval;
pub(crate) use bootstrap::bootstrap_interval;
pub use calibration::{Calibration, CalibrationMetrics};
pub use conditioned::{ConditionsError, conditioned, conditions_hold};
pub use curves::CurvePoint;
use episodes::detection;
pub use episodes::{ScoredEpisode, score_of};
pub use error::AuditError;
pub use examination::Examination;
pub use guarantee::{Guarantee, GuaranteeError};
pub(crate) use guarantee::{binomial, false_alarm_bound};
pub use labels::SuspectedLabel;
pub use latency::Latency;
pub use logits::{OnScored, logits, scored_episodes};
pub use operating_point::{FalseAlarms, OperatingPoint, ThresholdAt, ThresholdSource};
pub use progress::{AuditProgress, OnAuditProgress};
pub use result::{Audit, Background, Slices, Stored, TimedLatency, percent};
pub use rule::{AlarmFrames, AuditRule, RewardedSuccess, RuleAt};
pub use saliency::Saliency;
pub use slices::Slice;
pub use stress::{Region, RegionSource, RegionsOf, StressResult, sample};
pub use temperature::fit_label_temperature;
use temperature::{fit_temperature, with_temperature};
pub use timelines::Timeline;
pub use timing::{EpisodeTiming, ScoresAtFrame, Timing};
pub use training_data::SharedWithTraining;
pub use verdict::{Finding, Severity, Verdict};
pub use windows::{
    AbstainPoint, Agreement, Disturbed, JudgeAudit, JudgeAuditSettings, JudgeAuditor, JudgeBench,
    LabelCalibration, LabelCalibrationMetrics, NotStored, ScoredWindows, SeenBefore, VotesAtProgress,
    WindowMistake, agreement,
};
