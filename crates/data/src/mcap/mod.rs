//! MCAP: logs of robots, a message after the other with its time, read without ROS and without Foxglove.

mod cdr;
mod error;
mod file;
mod message;

pub use error::McapError;
pub(crate) use file::{Channel, McapFile, Message};
pub(crate) use message::{Content, Kind, Picture};

/// What a reward model said of each frame, where an exported file has that.
pub(crate) const SCORE_TOPIC: &str = "/reward_model/score";
