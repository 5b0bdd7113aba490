//! MCAP: logs of robots, a message after the other with its time, read without ROS and without Foxglove.

mod cdr;
mod error;
mod file;
mod message;

pub use error::McapError;
pub(crate) use file::{Channel, McapFile, Message};
pub(crate) use message::{Content, Kind, Picture};
