//! Whether a reward model can be trusted, in numbers: how well it ranks, how honest its probabilities are, which
//! threshold keeps false alarms rare, when it notices success, and what it looks at. Judges of windows, which say whether
//! things get better, have numbers of their own ([`JudgedWindows`]).
//!
//! Everything is computed over whole episodes where that matters: frames of one episode look alike, so that counting
//! them as independent would make every interval too narrow and every guarantee void.

mod backdrop;
mod bootstrap;
mod calibration;
mod curves;
mod episodes;
mod guarantee;
mod labels;
mod latency;
mod logits;
mod rank;
mod saliency;
mod slices;
mod stress;
mod temperature;
mod timing;
mod verdict;
mod windows;

pub use backdrop::Backdrop;
pub use bootstrap::{Interval, over_episodes, resampled};
pub use calibration::{Calibration, Honesty, calibrate};
pub use curves::{CurvePoint, precision_over_episodes, roc_over_episodes};
pub use episodes::{Detection, JudgedEpisode, detection};
pub use guarantee::{Alarm, Guarantee, GuaranteeError, alarms, false_alarm_bound, guaranteed_threshold};
pub use labels::{SuspectedLabel, suspected_labels};
pub use latency::{Latency, latency};
pub use logits::{OnScored, judged, logits};
pub use rank::spearman;
pub use saliency::{Saliency, saliency};
pub use slices::{Slice, by_length};
pub use stress::{Region, RegionSource, RegionsOf, StressTest, Stressed, sample};
pub use temperature::{fit_label_temperature, fit_temperature, tempered};
pub use timing::{EpisodeTiming, ScoresAt, Timing, scores_over_time, timing};
pub use verdict::{Finding, Severity, Verdict};
pub use windows::{
    Agreement, AtBand, Disturbed, JudgedWindows, LabelCalibration, LabelHonesty, VotesAt, WindowChange,
    agreement, at_bands, calibrate_labels, disturbed_window,
};
