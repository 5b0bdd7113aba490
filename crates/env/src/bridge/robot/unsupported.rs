//! Where there is no bridge to robots in Python yet: everything but Linux.

use std::convert::Infallible;
use std::time::Duration;

use super::{PythonRobotReading, PythonRobotSettings, PythonRobotSpec};
use crate::bridge::error::BridgeError;

/// A robot that a Python process is connected to. There are none on this system.
#[derive(Debug)]
pub struct PythonRobot(Infallible);

impl PythonRobot {
    /// Says that it needs Linux.
    pub fn start(settings: PythonRobotSettings) -> Result<Self, BridgeError> {
        settings.check()?;
        Err(BridgeError::System(std::env::consts::OS))
    }

    /// What the robot is like.
    pub fn spec(&self) -> &PythonRobotSpec {
        match self.0 {}
    }

    /// Whether there is a process.
    pub fn is_running(&self) -> bool {
        match self.0 {}
    }

    /// The number of the process.
    pub fn process_id(&self) -> Option<u32> {
        match self.0 {}
    }

    /// Replaces the process by a fresh one.
    pub fn restart(&mut self) -> Result<(), BridgeError> {
        match self.0 {}
    }

    /// Observes.
    pub fn observe(&mut self, _: Duration) -> Result<PythonRobotReading, BridgeError> {
        match self.0 {}
    }

    /// Sends a target for each joint.
    pub fn act(&mut self, _: &[f32], _: Duration) -> Result<Vec<f32>, BridgeError> {
        match self.0 {}
    }
}
