//! A vision-language model as a judge of single moments.

use std::num::NonZeroUsize;
use std::sync::Arc;

use plaudit_core::Score;

use super::input::InputBuilder;
use super::judge::{answers, at_once};
use super::model::{Answer, Ask, TrendModel};
use super::parse::parse_score;
use super::readout::{Read, Reading};
use crate::judge::{FrameJudge, JudgeError, Moment};

/// Asks a model about single moments.
pub struct VlmMoments {
    /// Who answers.
    pub model: Arc<dyn TrendModel>,
    /// How a moment becomes a question.
    pub input: InputBuilder,
    /// What is wanted of the model.
    pub ask: Ask,
    /// How its answers are read.
    pub reading: MomentReading,
    /// Moments that it is shown at once; not set: all.
    pub micro_batch: Option<NonZeroUsize>,
}

/// How an answer about a moment becomes a score.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum MomentReading {
    /// By the last number from 0 to 1 in it; an answer without one scores 0.
    Number,
    /// By how likely `positive` is; an answer that is no label scores 0.
    Trend(Reading),
}

impl MomentReading {
    fn score(&self, answer: &Answer) -> Score {
        let score = match (self, answer) {
            (Self::Number, Answer::Text(text)) => parse_score(text),
            (Self::Number, _) => None,
            (Self::Trend(reading), answer) => match reading.read(answer) {
                Read::Label(_, leaning) => Score::new(leaning.positive.clamp(0.0, 1.0)),
                Read::Invalid | Read::Missing => None,
            },
        };
        score.unwrap_or(Score::IMPOSSIBLE)
    }
}

impl FrameJudge for VlmMoments {
    fn cameras(&self) -> &[Arc<str>] {
        &self.input.cameras
    }

    fn scores(&self, moments: &[Moment<'_>]) -> Result<Vec<Score>, JudgeError> {
        let mut scores = Vec::with_capacity(moments.len());
        for chunk in moments.chunks(at_once(self.micro_batch, moments.len())) {
            let asked = chunk.iter().map(|moment| self.input.of_moment(&moment.now()));
            let asked = asked.collect::<Result<Vec<_>, _>>()?;
            let answers = answers(&*self.model, &asked, &self.ask)?;
            scores.extend(answers.iter().map(|answer| self.reading.score(answer)));
        }
        Ok(scores)
    }
}
