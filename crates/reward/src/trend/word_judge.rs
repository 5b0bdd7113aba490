//! A vision-language model that says a number of a window, by the probabilities of words.

use std::num::NonZeroUsize;
use std::sync::Arc;

use plaudit_core::Score;

use super::input::InputBuilder;
use super::judge::{answers, batch_size};
use super::model::{Answer, AnswerMode, TrendModel};
use super::nonsense::NonsenseGuard;
use super::word_readout::WordReadout;
use crate::models::{ClipReward, ClipRewardModel, ClipRewards, RewardModelError};
use crate::shaping::Clip;

/// Asks a model about windows, and reads a number from how likely words are.
pub struct WordJudge {
    /// Who answers.
    pub model: Arc<dyn TrendModel>,
    /// How a window becomes a question.
    pub input: InputBuilder,
    /// How answers are read; the number is the reward.
    pub readout: WordReadout,
    /// The reward where nobody answered, or no number could be read.
    pub missing: f32,
    /// Windows that it is shown at once; not set: all.
    pub micro_batch: Option<NonZeroUsize>,
    /// How much nonsense is taken.
    pub nonsense: NonsenseGuard,
}

impl ClipRewardModel for WordJudge {
    fn score(&self, clips: &[Clip<'_>]) -> Result<ClipRewards, RewardModelError> {
        let version = self.model.version();
        let ask = AnswerMode::Words(self.readout.words().into());
        let mut rewards = Vec::with_capacity(clips.len());
        for chunk in clips.chunks(batch_size(self.micro_batch, clips.len())) {
            let asked = chunk.iter().map(|clip| self.input.of_clip(clip)).collect::<Result<Vec<_>, _>>()?;
            let answers = answers(&*self.model, &asked, &ask)?;
            let numbers: Vec<Option<f64>> = answers.iter().map(|answer| self.number(answer)).collect();
            self.nonsense.check(answers.iter().zip(numbers.iter().map(Option::is_none)))?;
            rewards.extend(numbers.into_iter().map(|number| self.clip_reward(number)));
        }
        Ok(ClipRewards { rewards, version })
    }

    fn sees_success(&self) -> bool {
        false
    }

    fn version(&self) -> u64 {
        self.model.version()
    }
}

impl WordJudge {
    fn number(&self, answer: &Answer) -> Option<f64> {
        match answer {
            Answer::WordLogprobs(logprobs) => self.readout.number(logprobs),
            Answer::Logits(_) | Answer::Text(_) | Answer::NoLabel(_) | Answer::Missing => None,
        }
    }

    fn clip_reward(&self, number: Option<f64>) -> ClipReward {
        // A number from 0 to 1 is logged as a probability, whatever it is read from.
        let score = number.and_then(|number| Score::new(number as f32));
        let reward = number.map_or(self.missing, |number| number as f32);
        ClipReward { reward, success: false, score, word: None }
    }
}
