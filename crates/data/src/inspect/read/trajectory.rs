//! Trajectories of a replay buffer: each may hold several episodes.

use super::episode::recorded;
use crate::inspect::error::Unusable;
use crate::inspect::recorded::Recorded;
use crate::python::PyValue;
use crate::replay_buffer::episodes_of;

/// Every episode of a trajectory.
pub(in crate::inspect) fn trajectory(value: &PyValue) -> Result<Vec<Recorded>, Unusable> {
    let name = |(at, episode)| Recorded { name: format!("episode {at}"), ..recorded(episode, true) };
    Ok(episodes_of(value)?.into_iter().enumerate().map(name).collect())
}
