//! Whether a replay will fit in memory, asked before the first step.

use plaudit_core::{EnvSpec, FramesNeeded};
use thiserror::Error;

use super::{Amount, ReplaySettings};

/// What to assume of a machine that does not say how much memory it has free.
const UNKNOWN_MACHINE_BYTES: u64 = 64 << 30;

/// A replay larger than memory.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("a full replay of {transitions} transitions needs {bytes} bytes, but {free} are free")]
pub struct MemoryError {
    /// How many transitions would be kept.
    pub transitions: u64,
    /// What they need.
    pub bytes: u64,
    /// What the machine has left.
    pub free: u64,
}

/// What a replay will be filled with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplayFill {
    /// Steps of each rollout.
    pub steps_per_rollout: usize,
    /// Rollouts that will ever be added, where that is known.
    pub rollouts: Option<u64>,
    /// Numbers that a frozen trunk makes of an observation.
    pub feature_width: usize,
}

impl ReplaySettings {
    /// Bytes of the replay when it is full.
    pub fn full_bytes(&self, spec: &EnvSpec, filling: ReplayFill) -> u64 {
        let transitions = self.full_transitions(spec, filling);
        let for_reward =
            transitions.saturating_mul(self.reward_frame_bytes(spec)).min(self.relabel.frame_bytes);
        transitions
            .saturating_mul(self.transition_bytes(spec, filling.feature_width))
            .saturating_add(for_reward)
    }

    /// Refuses a replay that would not fit.
    pub fn check_memory(&self, spec: &EnvSpec, filling: ReplayFill) -> Result<(), MemoryError> {
        let free = free_bytes().unwrap_or(UNKNOWN_MACHINE_BYTES);
        let bytes = self.full_bytes(spec, filling);
        if bytes <= free {
            return Ok(());
        }
        Err(MemoryError { transitions: self.full_transitions(spec, filling), bytes, free })
    }

    fn full_transitions(&self, spec: &EnvSpec, filling: ReplayFill) -> u64 {
        let each = filling.steps_per_rollout as u64 * spec.num_envs as u64;
        let ever = filling.rollouts.map_or(u64::MAX, |rollouts| rollouts.saturating_mul(each));
        match self.keep {
            Amount::Rollouts(rollouts) => (rollouts as u64).saturating_mul(each),
            Amount::Transitions(transitions) => (transitions as u64).saturating_add(each),
        }
        .min(ever)
    }

    /// An observation, an action, two rewards, an end and a success; ends of episodes have an observation more.
    fn transition_bytes(&self, spec: &EnvSpec, feature_width: usize) -> u64 {
        let cameras = spec.cameras.iter().filter(|(name, _)| self.cameras.contains(name));
        let images: usize = cameras.map(|(_, shape)| shape.bytes()).sum();
        let observation = (4 * (spec.state_width + feature_width) + images) as u64;
        let ends = spec.max_episode_steps.map_or(0, |steps| observation / steps.max(1) as u64);
        observation + ends + 4 * (spec.actions.width() as u64 + 2) + 2
    }
}

impl ReplaySettings {
    /// Bytes of a transition's frames that are kept for a changed reward alone.
    fn reward_frame_bytes(&self, spec: &EnvSpec) -> u64 {
        let cameras = spec.cameras.iter().filter(|(name, _)| !self.cameras.contains(name));
        let images: usize = cameras.map(|(_, shape)| shape.bytes()).sum();
        match self.relabel.frames_needed {
            FramesNeeded::Nothing => 0,
            FramesNeeded::Ends => images as u64 / spec.max_episode_steps.unwrap_or(1).max(1) as u64,
            FramesNeeded::Everything => images as u64,
        }
    }
}

/// Linux's own estimate of what can be allocated without swapping.
fn free_bytes() -> Option<u64> {
    let report = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = report.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}
