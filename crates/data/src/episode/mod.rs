//! Episodes: what happened in one environment from a reset to an end.

pub mod as_python;
pub(crate) mod claim;
mod collector;
mod files;
mod writer;

use std::ops::Range;
use std::sync::Arc;

use plaudit_core::{End, FrameShape};
use plaudit_pyfiles::Buffer;

pub use collector::{Collector, Keep};
pub use files::EpisodeFormat;
pub use writer::{
    CollectionRun, Counts, Ending, EpisodeSink, EpisodeWriter, ExistingEpisodes, SinkError, Targets,
    WriterError,
};

/// One episode of one environment, from a reset to an end: N actions.
///
/// Observations have N + 1 entries, the first from the reset; actions have N.
#[derive(Debug, Clone, PartialEq)]
pub struct Episode {
    /// The environment it happened in.
    pub row: usize,
    /// Which episode of that environment, dropped ones counted.
    pub number: u64,
    /// Steps of the whole batch when it ended.
    pub batch_step: u64,
    /// Whether the task was solved at any step (simulator ground truth).
    pub success: bool,
    /// The task in words.
    pub task: Option<Arc<str>>,
    /// Images by camera, the main view first.
    pub cameras: Vec<CameraTrack>,
    /// State vectors, `[N + 1][state_width]`.
    pub states: Vec<Vec<f32>>,
    /// Actions, `[N][action_width]`.
    pub actions: Vec<Vec<f32>>,
    /// What happened at each entry, `[N + 1]`.
    pub timesteps: Vec<Timestep>,
}

/// One camera's images of an episode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CameraTrack {
    /// Which camera.
    pub name: Arc<str>,
    /// Shape of each image.
    pub shape: FrameShape,
    /// All images, HWC, one after the other. Shared: neither a copy of the episode nor what is written of it copies them.
    pub pixels: Arc<Vec<u8>>,
}

impl CameraTrack {
    /// Some images as shared bytes: none where there are not that many, which then fit no shape.
    pub(crate) fn shared(&self, images: Range<usize>) -> Buffer {
        let bytes = self.shape.bytes();
        let shared = Buffer::from(self.pixels.clone()).slice(images.start * bytes..images.end * bytes);
        shared.unwrap_or_else(|| Buffer::from(Vec::new()))
    }

    /// Image number `at`.
    pub fn image(&self, at: usize) -> &[u8] {
        let bytes = self.shape.bytes();
        &self.pixels[at * bytes..(at + 1) * bytes]
    }
}

/// One entry of an episode: reward, end, success and info. The first is the reset.
#[derive(Debug, Clone, PartialEq)]
pub struct Timestep {
    /// The environment's own reward; 0 at the reset.
    pub reward: f32,
    /// Whether and how the episode ended here.
    pub end: End,
    /// Whether the task is solved at this step; unknown at the reset.
    pub success: Option<bool>,
    /// Other values of the environment's info, by name.
    pub facts: Vec<(Arc<str>, f32)>,
}

impl Episode {
    /// How many actions were taken.
    pub fn len(&self) -> usize {
        self.actions.len()
    }

    /// Whether nothing was done.
    pub fn is_empty(&self) -> bool {
        self.actions.is_empty()
    }

    /// Bytes it holds, for bounding memory.
    pub fn bytes(&self) -> usize {
        let images: usize = self.cameras.iter().map(|track| track.pixels.len()).sum();
        let numbers: usize = self.states.iter().chain(&self.actions).map(Vec::len).sum();
        images + 4 * numbers + 64 * self.timesteps.len()
    }
}
