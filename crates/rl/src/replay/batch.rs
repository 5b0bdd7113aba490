//! A batch of transitions, gathered from wherever they are kept into buffers that are used again and again.

use std::sync::Arc;

use plaudit_core::{End, FrameShape, ObsRow};

/// N transitions: observations, actions, rewards, ends and next observations.
#[derive(Debug, Clone, Default)]
pub struct Transitions {
    /// The observations that the policy saw.
    pub obs: ObsBuffer,
    /// Actions, `[N, A]`; all actions of a chunk one after the other.
    pub actions: Vec<f32>,
    /// Rewards, `[N]`; a chunk's rewards are summed up to its end.
    pub rewards: Vec<f32>,
    /// How each transition ended, `[N]`.
    pub ends: Vec<End>,
    /// The next observations: the last real one where an episode ended.
    pub next_obs: ObsBuffer,
}

impl Transitions {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.rewards.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rewards.is_empty()
    }

    /// Forgets the transitions and keeps the memory.
    pub fn clear(&mut self) {
        self.obs.clear();
        self.next_obs.clear();
        self.actions.clear();
        self.rewards.clear();
        self.ends.clear();
    }
}

/// N observations as a network takes them.
#[derive(Debug, Clone, Default)]
pub struct ObsBuffer {
    /// States, `[N, S]`.
    pub states: Vec<f32>,
    /// What a frozen trunk made of the images, `[N, F]`; empty where there is no such trunk.
    pub features: Vec<f32>,
    /// Images by camera, `[N, H, W, C]`; empty where the network takes features or states alone.
    pub images: Vec<(Arc<str>, FrameShape, Vec<u8>)>,
}

impl ObsBuffer {
    /// Forgets the observations and keeps the memory.
    pub fn clear(&mut self) {
        self.states.clear();
        self.features.clear();
        for (_, _, pixels) in &mut self.images {
            pixels.clear();
        }
    }

    /// Adds one observation. Cameras that it lacks are left out; the caller must check.
    pub(crate) fn push(&mut self, row: ObsRow<'_>, features: &[f32], cameras: &[Arc<str>]) {
        self.states.extend_from_slice(row.state);
        self.features.extend_from_slice(features);
        for (at, name) in cameras.iter().enumerate() {
            let Some((shape, pixels)) = row.image(name) else { continue };
            if self.images.len() <= at {
                self.images.push((name.clone(), shape, Vec::new()));
            }
            self.images[at].2.extend_from_slice(pixels);
        }
    }
}
