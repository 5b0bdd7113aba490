//! A vision-language model as a judge of single frames.

use std::num::NonZeroUsize;
use std::sync::Arc;

use plaudit_core::Score;

use super::input::InputBuilder;
use super::judge::{answers, batch_size};
use super::model::{Answer, AnswerMode, TrendModel};
use super::nonsense::NonsenseGuard;
use super::parse::parse_score;
use super::readout::{ParsedAnswer, ReadoutSettings};
use crate::models::{FrameRewardModel, FrameStack, RewardModelError};

/// Asks a model about single frames.
pub struct VlmFrameJudge {
    /// Who answers.
    pub model: Arc<dyn TrendModel>,
    /// How a frame becomes a question.
    pub input: InputBuilder,
    /// What is wanted of the model.
    pub ask: AnswerMode,
    /// How its answers are read.
    pub readout: FrameReadout,
    /// Frames that it is shown at once; not set: all.
    pub micro_batch: Option<NonZeroUsize>,
    /// How much nonsense is taken.
    pub nonsense: NonsenseGuard,
}

/// How an answer about a frame becomes a score.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum FrameReadout {
    /// By the last number from 0 to 1 in it; an answer without one scores 0.
    Number,
    /// By how likely `positive` is; an answer that is no label scores 0.
    Trend(ReadoutSettings),
}

impl FrameReadout {
    /// The score of an answer; `None` where it says none.
    fn score(&self, answer: &Answer) -> Option<Score> {
        match (self, answer) {
            (Self::Number, Answer::Text(text)) => parse_score(text),
            (Self::Number, _) => None,
            (Self::Trend(readout), answer) => match readout.read(answer) {
                ParsedAnswer::Label(_, probabilities) => Score::new(probabilities.positive.clamp(0.0, 1.0)),
                ParsedAnswer::Invalid | ParsedAnswer::Missing => None,
            },
        }
    }
}

impl FrameRewardModel for VlmFrameJudge {
    fn cameras(&self) -> &[Arc<str>] {
        &self.input.cameras
    }

    fn scores(&self, frames: &[FrameStack<'_>]) -> Result<Vec<Score>, RewardModelError> {
        let mut scores = Vec::with_capacity(frames.len());
        for chunk in frames.chunks(batch_size(self.micro_batch, frames.len())) {
            let asked = chunk.iter().map(|frame| self.input.of_frame(&frame.now()));
            let asked = asked.collect::<Result<Vec<_>, _>>()?;
            let answers = answers(&*self.model, &asked, &self.ask)?;
            let read: Vec<Option<Score>> = answers.iter().map(|answer| self.readout.score(answer)).collect();
            self.nonsense.check(answers.iter().zip(read.iter().map(Option::is_none)))?;
            scores.extend(read.into_iter().map(|score| score.unwrap_or(Score::IMPOSSIBLE)));
        }
        Ok(scores)
    }
}
