//! Whether a reward model can be trusted, in numbers: how well it ranks, how honest its probabilities are, which
//! threshold keeps false alarms rare, when it notices success, and what it looks at.
//!
//! Everything is computed over whole episodes where that matters: frames of one episode look alike, so that counting
//! them as independent would make every interval too narrow and every guarantee void.

mod bootstrap;
mod episodes;
mod guarantee;
mod rank;
mod temperature;

pub use bootstrap::{Interval, over_episodes};
pub use episodes::{Detection, JudgedEpisode, detection};
pub use guarantee::{Alarm, Guarantee, GuaranteeError, alarms, false_alarm_bound, guaranteed_threshold};
pub use rank::spearman;
pub use temperature::{fit_temperature, tempered};
