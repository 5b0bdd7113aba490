//! What a label is worth.

use super::readout::{LabelProbabilities, ParsedAnswer};
use super::vocabulary::Trend;

/// The reward of each answer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LabelRewards {
    /// For `positive`.
    pub positive: f32,
    /// For `negative`.
    pub negative: f32,
    /// For `unclear`.
    pub unclear: f32,
    /// For an answer that is none of these.
    pub invalid: f32,
    /// Where nobody answered.
    pub missing: f32,
}

impl LabelRewards {
    /// RLinf's.
    pub const RLINF: Self = Self { positive: 1.0, negative: -0.2, unclear: 0.0, invalid: 0.0, missing: 0.0 };

    fn of(&self, trend: Trend) -> f32 {
        match trend {
            Trend::Positive => self.positive,
            Trend::Negative => self.negative,
            Trend::Unclear => self.unclear,
            Trend::Invalid => self.invalid,
        }
    }

    fn expected(&self, probabilities: LabelProbabilities) -> f32 {
        let LabelProbabilities { positive, negative, unclear } = probabilities;
        self.positive * positive + self.negative * negative + self.unclear * unclear
    }
}

/// How answers become rewards.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum TrendReward {
    /// The reward of the likeliest label.
    Hard(LabelRewards),
    /// The expected reward over the labels: with RLinf's rewards, p₊ - 0.2 p₋.
    Soft(LabelRewards),
    /// Votes from -1 to 1, for a potential that adds them up: p₊ - p₋, or that of a certain answer.
    Votes {
        /// By how likely each label is, not by the likeliest alone.
        soft: bool,
    },
}

impl TrendReward {
    /// The reward for an answer that leaves no doubt.
    #[must_use]
    pub fn of_label(&self, label: Trend) -> f32 {
        self.of(LabelProbabilities::certain(label)
            .map_or(ParsedAnswer::Invalid, |probabilities| ParsedAnswer::Label(label, probabilities)))
    }

    pub(crate) fn of(&self, read: ParsedAnswer) -> f32 {
        match (*self, read) {
            (Self::Hard(rewards) | Self::Soft(rewards), ParsedAnswer::Invalid) => rewards.of(Trend::Invalid),
            (Self::Hard(rewards) | Self::Soft(rewards), ParsedAnswer::Missing) => rewards.missing,
            (Self::Hard(rewards), ParsedAnswer::Label(label, _)) => rewards.of(label),
            (Self::Soft(rewards), ParsedAnswer::Label(_, probabilities)) => rewards.expected(probabilities),
            (Self::Votes { .. }, ParsedAnswer::Invalid | ParsedAnswer::Missing) => 0.0,
            (Self::Votes { soft: true }, ParsedAnswer::Label(_, probabilities)) => probabilities.vote(),
            (Self::Votes { soft: false }, ParsedAnswer::Label(label, _)) => {
                LabelProbabilities::certain(label).map_or(0.0, |probabilities| probabilities.vote())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_give_their_reward_or_their_share_of_it() {
        let probabilities = LabelProbabilities { positive: 0.5, negative: 0.25, unclear: 0.25 };
        let read = ParsedAnswer::Label(Trend::Positive, probabilities);
        let rewards = LabelRewards { invalid: -3.0, missing: 7.0, ..LabelRewards::RLINF };
        assert_eq!(TrendReward::Hard(rewards).of(read), 1.0);
        assert!((TrendReward::Soft(rewards).of(read) - (0.5 - 0.2 * 0.25)).abs() < 1e-7);
        assert_eq!(TrendReward::Votes { soft: true }.of(read), 0.25);
        assert_eq!(TrendReward::Votes { soft: false }.of(read), 1.0);
        for reward in [TrendReward::Hard(rewards), TrendReward::Soft(rewards)] {
            assert_eq!((reward.of(ParsedAnswer::Invalid), reward.of(ParsedAnswer::Missing)), (-3.0, 7.0));
        }
        assert_eq!(TrendReward::Votes { soft: true }.of(ParsedAnswer::Missing), 0.0);
        let worse = LabelProbabilities::certain(Trend::Negative).unwrap();
        let worse = ParsedAnswer::Label(Trend::Negative, worse);
        assert_eq!(TrendReward::Hard(LabelRewards::RLINF).of(worse), -0.2);
        assert_eq!(TrendReward::Soft(LabelRewards::RLINF).of(worse), -0.2);
        assert_eq!(TrendReward::Votes { soft: false }.of(worse), -1.0);
    }
}
