//! Where there is no bridge to Python yet: everything but Linux.

use std::convert::Infallible;

use plaudit_core::{Env, EnvError, EnvSpec, FramesNeeded, Obs, Seed, Step};

use super::error::BridgeError;
use super::settings::BridgeSettings;

/// A batch of environments that run in a Python process. There are none on this system.
#[derive(Debug)]
pub struct Bridge(Infallible);

impl Bridge {
    /// Says that it needs Linux.
    pub fn start(settings: BridgeSettings) -> Result<Self, BridgeError> {
        settings.check()?;
        Err(BridgeError::System(std::env::consts::OS))
    }

    /// Replaces the process by a fresh one.
    pub fn restart(&mut self) -> Result<(), BridgeError> {
        match self.0 {}
    }

    /// Whether there is a process.
    pub fn is_running(&self) -> bool {
        match self.0 {}
    }

    /// How many times the process was replaced by a fresh one.
    pub fn restarts(&self) -> u64 {
        match self.0 {}
    }

    /// The number of the process.
    pub fn process_id(&self) -> Option<u32> {
        match self.0 {}
    }

    /// The end of what the process printed.
    pub fn output(&self) -> String {
        match self.0 {}
    }
}

impl Env for Bridge {
    fn spec(&self) -> &EnvSpec {
        match self.0 {}
    }

    fn reset(&mut self, _: Seed) -> Result<Obs, EnvError> {
        match self.0 {}
    }

    fn step(&mut self, _: &[f32]) -> Result<Step, EnvError> {
        match self.0 {}
    }

    fn set_frames_needed(&mut self, _: FramesNeeded) {
        match self.0 {}
    }
}
