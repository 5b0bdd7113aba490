//! Scores of moments, each asked for once and many at a time.

use std::collections::HashMap;

use plaudit_core::{Score, Segment};

use super::runs::Place;
use crate::judge::{FrameJudge, JudgeError};

/// Moments shown to a judge at once. A larger batch is no quicker, and its pictures need memory.
const CHUNK: usize = 256;

/// What a judge said about the moments of a segment.
pub(crate) struct Scores<'a> {
    judge: &'a dyn FrameJudge,
    segment: &'a Segment,
    known: HashMap<Place, Score>,
}

impl<'a> Scores<'a> {
    pub(crate) fn new(judge: &'a dyn FrameJudge, segment: &'a Segment) -> Self {
        Self { judge, segment, known: HashMap::new() }
    }

    /// Asks the judge about those moments it was not asked about before.
    pub(crate) fn ask(&mut self, places: impl IntoIterator<Item = Place>) -> Result<(), JudgeError> {
        let new = |place: &Place| !self.known.contains_key(place);
        let mut places: Vec<_> = places.into_iter().filter(new).collect();
        places.sort_unstable();
        places.dedup();
        let reach = self.judge.reach();
        for chunk in places.chunks(CHUNK) {
            let moment = |place: &Place| place.moment(self.segment, reach);
            let moments =
                chunk.iter().map(moment).collect::<Result<Vec<_>, _>>().map_err(JudgeError::Past)?;
            let scores = self.judge.scores(&moments)?;
            if scores.len() != moments.len() {
                return Err(JudgeError::Answers { asked: moments.len(), answers: scores.len() });
            }
            self.known.extend(chunk.iter().copied().zip(scores));
        }
        Ok(())
    }

    /// The score of a moment that was asked about.
    pub(crate) fn of(&self, place: Place) -> Score {
        self.known[&place]
    }
}
