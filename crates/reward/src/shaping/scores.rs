//! Scores of frames, each computed once, in batches.

use std::collections::HashMap;

use plaudit_core::{Score, Segment};

use super::episodes::FrameIndex;
use crate::models::{FrameRewardModel, RewardModelError};

/// Frames scored at once. A larger batch is no quicker, and its images need memory.
const CHUNK: usize = 256;

/// The scores of the frames of a segment.
pub(crate) struct Scores<'a> {
    model: &'a dyn FrameRewardModel,
    segment: &'a Segment,
    cache: HashMap<FrameIndex, Score>,
}

impl<'a> Scores<'a> {
    pub(crate) fn new(model: &'a dyn FrameRewardModel, segment: &'a Segment) -> Self {
        Self { model, segment, cache: HashMap::new() }
    }

    /// Scores those frames that have no score yet.
    pub(crate) fn ask(
        &mut self,
        indices: impl IntoIterator<Item = FrameIndex>,
    ) -> Result<(), RewardModelError> {
        let new = |index: &FrameIndex| !self.cache.contains_key(index);
        let mut indices: Vec<_> = indices.into_iter().filter(new).collect();
        indices.sort_unstable();
        indices.dedup();
        let history_len = self.model.history_len();
        for chunk in indices.chunks(CHUNK) {
            let frame = |index: &FrameIndex| index.stack(self.segment, history_len);
            let frames =
                chunk.iter().map(frame).collect::<Result<Vec<_>, _>>().map_err(RewardModelError::History)?;
            let scores = self.model.scores(&frames)?;
            if scores.len() != frames.len() {
                return Err(RewardModelError::Answers { asked: frames.len(), answers: scores.len() });
            }
            self.cache.extend(chunk.iter().copied().zip(scores));
        }
        Ok(())
    }

    /// The score of a frame that was asked for.
    pub(crate) fn of(&self, index: FrameIndex) -> Score {
        self.cache[&index]
    }
}
