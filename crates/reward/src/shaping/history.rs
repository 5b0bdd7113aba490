//! Windows of past frames: which steps have one, and what it shows. The rules are those of RLinf's `HistoryManager`.
//!
//! Outcomes of an episode are numbered from 1; what a reset shows is in no window. At outcome `n`, a buffer
//!
//! * has nothing to show, and the step is not scored at all, while it has fewer than `min_history_size` frames;
//! * shows its newest `history_size` frames if `n` is a multiple of `input_interval`;
//! * shows the newest `n % input_interval` if the episode ends there and `input_on_done` is set;
//! * is left out otherwise.
//!
//! A step is scored if at least one buffer shows something. RLinf decides that for a whole batch at once, so that there
//! a row's windows depend on its neighbours when several buffers have different intervals; here they never do.

use std::num::NonZeroUsize;
use std::sync::Arc;

use plaudit_core::{ObsRow, RewardError, Segment};

use super::episodes::{EpisodeSlice, FrameIndex, episodes};

/// One kind of window.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryBuffer {
    /// Its name, for models that distinguish buffers.
    pub name: Arc<str>,
    /// Frames in a full window.
    pub history_size: NonZeroUsize,
    /// Frames needed before the first window.
    pub min_history_size: usize,
    /// Steps between windows.
    pub input_interval: NonZeroUsize,
    /// Score what is left when an episode ends between windows.
    pub input_on_done: bool,
}

/// All windows of a reward model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct History {
    buffers: Vec<HistoryBuffer>,
    /// Frames that are there at most when a window is cut: the largest size is kept, and one is new.
    held: usize,
}

/// The input of a window model at one step.
#[derive(Debug, Clone)]
pub struct Clip<'a> {
    /// Where it is cut from.
    pub segment: &'a Segment,
    /// The step of the segment that completes it; `None` of a window from before the segment.
    pub t: Option<usize>,
    /// The row.
    pub row: usize,
    /// The buffers that show something, in the order they were declared.
    pub buffers: Vec<ClipBuffer<'a>>,
}

/// What one buffer shows.
#[derive(Debug, Clone)]
pub struct ClipBuffer<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its frames, oldest first; never none.
    pub frames: Vec<ClipFrame<'a>>,
}

/// One frame of a window.
#[derive(Debug, Clone, Copy)]
pub struct ClipFrame<'a> {
    /// Its index; overlapping windows share their frames.
    pub index: FrameIndex,
    /// What is to be seen.
    pub obs: ObsRow<'a>,
}

impl Clip<'_> {
    /// Frames of the shortest buffer.
    pub fn length(&self) -> usize {
        self.buffers.iter().map(|buffer| buffer.frames.len()).min().unwrap_or(0)
    }
}

impl History {
    /// Windows of these kinds.
    pub fn new(buffers: Vec<HistoryBuffer>) -> Self {
        let held = buffers.iter().map(|buffer| buffer.history_size.get() + 1).max().unwrap_or(0);
        Self { buffers, held }
    }

    /// Observations that a segment must carry from before its first step, if each frame is seen with `history_len` others
    /// before it.
    pub(crate) fn context(&self, history_len: usize) -> usize {
        let longest = |buffer: &HistoryBuffer| {
            let left_over = if buffer.input_on_done { buffer.input_interval.get() - 1 } else { 0 };
            buffer.history_size.get().max(left_over.min(self.held))
        };
        // Of a window's frames, one is the outcome of the first step and one the segment's first observation.
        (self.buffers.iter().map(longest).max().unwrap_or(0) + history_len).saturating_sub(2)
    }

    /// How many frames each buffer shows at outcome `number`; `None` if the step is not scored.
    fn shown(&self, number: usize, ended: bool) -> Option<Vec<usize>> {
        let held = number.min(self.held);
        let of = |buffer: &HistoryBuffer| {
            let over = number % buffer.input_interval.get();
            match (over, ended && buffer.input_on_done) {
                (0, _) => buffer.history_size.get().min(held),
                (over, true) => over.min(held),
                (_, false) => 0,
            }
        };
        let too_few = self.buffers.iter().any(|buffer| held < buffer.min_history_size);
        let shown: Vec<usize> = self.buffers.iter().map(of).collect();
        (!too_few && shown.iter().any(|frames| *frames > 0)).then_some(shown)
    }

    /// All clips of a segment, row by row.
    pub fn clips<'a>(&'a self, segment: &'a Segment) -> Result<Vec<Clip<'a>>, RewardError> {
        let mut clips = Vec::new();
        for episode in episodes(segment) {
            for t in episode.start..episode.stop {
                let ended = episode.end.is_end() && t + 1 == episode.stop;
                if let Some(shown) = self.shown(episode.number(t), ended) {
                    let buffers = self.buffers_at(segment, &episode, episode.number(t), &shown)?;
                    clips.push(Clip { segment, t: Some(t), row: episode.row, buffers });
                }
            }
        }
        Ok(clips)
    }

    /// The windows that the segment's first episodes had before it, row by row, oldest first.
    pub(crate) fn clips_before<'a>(&'a self, segment: &'a Segment) -> Result<Vec<Clip<'a>>, RewardError> {
        let mut clips = Vec::new();
        for episode in episodes(segment).into_iter().filter(|episode| episode.elapsed > 0) {
            for number in 1..=episode.elapsed {
                if let Some(shown) = self.shown(number, false) {
                    let buffers = self.buffers_at(segment, &episode, number, &shown)?;
                    clips.push(Clip { segment, t: None, row: episode.row, buffers });
                }
            }
        }
        Ok(clips)
    }

    /// What the buffers show at outcome `last` of an episode.
    fn buffers_at<'a>(
        &'a self,
        segment: &'a Segment,
        episode: &EpisodeSlice,
        last: usize,
        shown: &[usize],
    ) -> Result<Vec<ClipBuffer<'a>>, RewardError> {
        let frame = |number: usize| {
            let index = episode.index(segment, number)?;
            Ok(ClipFrame { index, obs: index.obs(segment) })
        };
        let mut buffers = Vec::new();
        for (buffer, frames) in self.buffers.iter().zip(shown).filter(|(_, frames)| **frames > 0) {
            let frames = (last + 1 - frames..=last).map(frame).collect::<Result<_, RewardError>>()?;
            buffers.push(ClipBuffer { name: &buffer.name, frames });
        }
        Ok(buffers)
    }
}
