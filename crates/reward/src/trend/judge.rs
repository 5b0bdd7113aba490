//! A vision-language model as a judge of windows.

use std::num::NonZeroUsize;
use std::sync::Arc;

use plaudit_core::Score;

use super::conversation::Conversation;
use super::input::InputBuilder;
use super::model::{Answer, AnswerMode, TrendModel};
use super::nonsense::NonsenseGuard;
use super::readout::{LabelProbabilities, ParsedAnswer, ReadoutSettings};
use super::reward::TrendReward;
use crate::models::{ClipReward, ClipRewardModel, ClipRewards, RewardModelError};
use crate::shaping::Clip;

/// What is written in the log where nobody answered.
const UNANSWERED: &str = "unanswered";

/// Asks a model whether things get better or worse.
pub struct TrendJudge {
    /// Who answers.
    pub model: Arc<dyn TrendModel>,
    /// How a window becomes a question.
    pub input: InputBuilder,
    /// What is wanted of the model.
    pub ask: AnswerMode,
    /// How its answers are read.
    pub readout: ReadoutSettings,
    /// What they are worth.
    pub reward: TrendReward,
    /// Windows that it is shown at once; not set: all.
    pub micro_batch: Option<NonZeroUsize>,
    /// How much nonsense is taken.
    pub nonsense: NonsenseGuard,
}

impl ClipRewardModel for TrendJudge {
    fn score(&self, clips: &[Clip<'_>]) -> Result<ClipRewards, RewardModelError> {
        let version = self.model.version();
        let mut rewards = Vec::with_capacity(clips.len());
        for chunk in clips.chunks(batch_size(self.micro_batch, clips.len())) {
            let asked = chunk.iter().map(|clip| self.input.of_clip(clip)).collect::<Result<Vec<_>, _>>()?;
            let answers = answers(&*self.model, &asked, &self.ask)?;
            let read: Vec<ParsedAnswer> = answers.iter().map(|answer| self.readout.read(answer)).collect();
            self.nonsense
                .check(answers.iter().zip(read.iter().map(|read| *read == ParsedAnswer::Invalid)))?;
            rewards.extend(read.into_iter().map(|read| self.clip_reward(read)));
        }
        Ok(ClipRewards { rewards, version })
    }

    fn sees_success(&self) -> bool {
        false
    }

    fn words(&self) -> &'static [&'static str] {
        &["positive", "negative", "unclear", "invalid", UNANSWERED]
    }

    fn version(&self) -> u64 {
        self.model.version()
    }
}

impl TrendJudge {
    fn clip_reward(&self, read: ParsedAnswer) -> ClipReward {
        let score = |probabilities: LabelProbabilities| Score::new(probabilities.positive.clamp(0.0, 1.0));
        let (word, score) = match read {
            ParsedAnswer::Label(label, probabilities) => (label.word(), score(probabilities)),
            ParsedAnswer::Invalid => ("invalid", None),
            ParsedAnswer::Missing => (UNANSWERED, None),
        };
        ClipReward { reward: self.reward.of(read), success: false, score, word: Some(word) }
    }
}

/// The answers to questions, one for each.
pub(super) fn answers(
    model: &dyn TrendModel,
    asked: &[Conversation<'_>],
    ask: &AnswerMode,
) -> Result<Vec<Answer>, RewardModelError> {
    let answers = model.answer(asked, ask)?;
    if answers.len() != asked.len() {
        return Err(RewardModelError::Answers { asked: asked.len(), answers: answers.len() });
    }
    Ok(answers)
}

/// How many of `all` are shown at once.
pub(super) fn batch_size(micro_batch: Option<NonZeroUsize>, all: usize) -> usize {
    micro_batch.map_or(all, NonZeroUsize::get).max(1)
}
