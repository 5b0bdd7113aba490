//! Episodes of a LeRobot dataset.

use super::episode::recorded;
use crate::inspect::error::Unusable;
use crate::inspect::recorded::Recorded;
use crate::lerobot::Dataset;

/// One episode.
pub(in crate::inspect) fn lerobot(dataset: &Dataset, number: usize) -> Result<Vec<Recorded>, Unusable> {
    let episode = dataset.read(number)?;
    let paid = ["next.reward", "reward", "rewards"].iter().any(|name| dataset.info().feature(name).is_some());
    Ok(vec![recorded(episode, paid)])
}
