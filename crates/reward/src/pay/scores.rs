//! Scores of moments, each asked for once and many at a time.

use std::collections::HashMap;

use plaudit_core::{ObsRow, Score};

use super::runs::Place;
use crate::judge::{FrameJudge, JudgeError};

/// Moments shown to a judge at once. A larger batch is no quicker, and its pictures need memory.
const CHUNK: usize = 256;

/// What a judge said about the moments of a segment.
pub(crate) struct Scores<'a> {
    judge: &'a dyn FrameJudge,
    known: HashMap<Place, Score>,
}

impl<'a> Scores<'a> {
    pub(crate) fn new(judge: &'a dyn FrameJudge) -> Self {
        Self { judge, known: HashMap::new() }
    }

    /// Asks the judge about those moments it was not asked about before.
    pub(crate) fn ask<'o>(
        &mut self,
        moments: impl IntoIterator<Item = (Place, ObsRow<'o>)>,
    ) -> Result<(), JudgeError> {
        let new = |(place, _): &(Place, _)| !self.known.contains_key(place);
        let mut moments: Vec<_> = moments.into_iter().filter(new).collect();
        moments.sort_unstable_by_key(|(place, _)| *place);
        moments.dedup_by_key(|(place, _)| *place);
        for chunk in moments.chunks(CHUNK) {
            let seen: Vec<_> = chunk.iter().map(|(_, seen)| *seen).collect();
            let scores = self.judge.scores(&seen)?;
            if scores.len() != seen.len() {
                return Err(JudgeError::Answers { asked: seen.len(), answers: scores.len() });
            }
            self.known.extend(chunk.iter().map(|(place, _)| *place).zip(scores));
        }
        Ok(())
    }

    /// The score of a moment that was asked about.
    pub(crate) fn of(&self, place: Place) -> Score {
        self.known[&place]
    }
}
