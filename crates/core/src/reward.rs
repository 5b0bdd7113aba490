//! Rewards: a function from a finished segment to a column of numbers, with every term kept by name.

use std::sync::Arc;

use thiserror::Error;

use crate::{FramesNeeded, Segment};

/// Labels a finished segment with rewards.
///
/// `label` is pure: the same segment gives the same column, whatever was labelled before, in whatever order
/// the rows stand, and wherever the segment was cut (given the `context` it asks for). A model on another
/// machine or in another language is another implementation, never another code path.
pub trait Reward: Send + Sync {
    /// One number per step and row, and where they came from.
    fn label(&self, segment: &Segment) -> Result<RewardColumn, RewardError>;

    /// How many observations before the first step a segment must carry for this reward.
    fn context(&self) -> usize {
        0
    }

    /// Which frames it needs.
    fn frames_needed(&self) -> FramesNeeded {
        FramesNeeded::Nothing
    }

    /// Grows when the reward changes, so that stored experience can be relabelled.
    fn version(&self) -> u64 {
        0
    }

    /// Reloads its model if that has changed, and uses the new one from now on; says whether it did.
    /// An error leaves everything as it was.
    fn refresh(&self) -> Result<bool, RewardError> {
        Ok(false)
    }
}

impl<R: Reward + ?Sized> Reward for Arc<R> {
    fn label(&self, segment: &Segment) -> Result<RewardColumn, RewardError> {
        (**self).label(segment)
    }

    fn context(&self) -> usize {
        (**self).context()
    }

    fn frames_needed(&self) -> FramesNeeded {
        (**self).frames_needed()
    }

    fn version(&self) -> u64 {
        (**self).version()
    }

    fn refresh(&self) -> Result<bool, RewardError> {
        (**self).refresh()
    }
}

/// The rewards of a segment, `[T, B]`, in total and term by term.
#[derive(Debug, Clone, PartialEq)]
pub struct RewardColumn {
    /// The sum of all weighted terms.
    pub total: Vec<f32>,
    /// Each term before weighting; each is its own curve in the log.
    pub terms: Vec<Term>,
    /// Where the reward itself sees the task solved, `[T, B]`, if it decides that. Never the environment's ground truth.
    pub success: Option<Vec<bool>>,
    /// The version of the reward that labelled it.
    pub version: u64,
}

/// One named part of a reward.
#[derive(Debug, Clone, PartialEq)]
pub struct Term {
    /// Its name in logs and reports.
    pub name: Arc<str>,
    /// What it is multiplied with in the total.
    pub weight: f32,
    /// Its own values, `[T, B]`.
    pub values: Vec<f32>,
}

impl RewardColumn {
    /// The weighted sum of terms of equal length.
    pub fn of_terms(terms: Vec<Term>, version: u64) -> Result<Self, RewardError> {
        let length = terms.first().map_or(0, |term| term.values.len());
        let mut total = vec![0.0; length];
        for term in &terms {
            if term.values.len() != length {
                let (name, values) = (term.name.clone(), term.values.len());
                return Err(RewardError::Length { name, values, expected: length });
            }
            for (sum, value) in total.iter_mut().zip(&term.values) {
                *sum += term.weight * value;
            }
        }
        Ok(Self { total, terms, success: None, version })
    }

    /// Refuses numbers that are none, of a column over `batch` environments.
    pub fn finite(self, batch: usize) -> Result<Self, RewardError> {
        let total = ("total", &self.total);
        let columns = self.terms.iter().map(|term| (&*term.name, &term.values)).chain([total]);
        for (name, values) in columns {
            if let Some(at) = values.iter().position(|value| !value.is_finite()) {
                let (step, row, value) = (at / batch, at % batch, values[at]);
                return Err(RewardError::NotFinite { name: name.into(), step, row, value });
            }
        }
        Ok(self)
    }
}

/// A score between 0 (surely not) and 1 (surely). A score becomes a reward only through a rule.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Score(f32);

impl Score {
    /// Surely.
    pub const CERTAIN: Self = Self(1.0);
    /// Surely not.
    pub const IMPOSSIBLE: Self = Self(0.0);

    /// `None` for anything outside 0..=1, including NaN.
    pub fn new(value: f32) -> Option<Self> {
        (0.0..=1.0).contains(&value).then_some(Self(value))
    }

    /// The logistic function of a logit.
    pub fn from_logit(logit: f32) -> Option<Self> {
        Self::new(1.0 / (1.0 + (-logit).exp()))
    }

    /// The same of a logit that is divided by a temperature first. Whoever applies a threshold computes scores this way, in
    /// 32 bits, so that a threshold found by one of them means the same to all.
    pub fn at_temperature(logit: f32, temperature: f64) -> Option<Self> {
        Self::from_logit(logit / temperature as f32)
    }

    /// The number.
    pub fn get(self) -> f32 {
        self.0
    }
}

/// The environment's own reward, unchanged.
#[derive(Debug, Clone, Copy, Default)]
pub struct EnvReward;

impl Reward for EnvReward {
    fn label(&self, segment: &Segment) -> Result<RewardColumn, RewardError> {
        let values = segment.env_reward.clone();
        let terms = vec![Term { name: "env".into(), weight: 1.0, values }];
        RewardColumn::of_terms(terms, 0)?.finite(segment.batch())
    }
}

/// Why a segment could not be labelled.
#[derive(Debug, Error)]
pub enum RewardError {
    /// A term of the wrong length.
    #[error("reward term `{name}` has {values} values where {expected} are due")]
    Length {
        /// The term.
        name: Arc<str>,
        /// Its length.
        values: usize,
        /// What it should be.
        expected: usize,
    },
    /// A reward that is not finite.
    #[error("reward term `{name}` is {value} at step {step} of environment {row}")]
    NotFinite {
        /// The term.
        name: Arc<str>,
        /// The step of the segment.
        step: usize,
        /// The environment.
        row: usize,
        /// Its value there.
        value: f32,
    },
    /// A segment with less context than the reward needs.
    #[error(
        "the reward needs {needed} observations from before the segment, which carries {carried} of an \
         episode that is {elapsed} steps old; give it what `Reward::context` asks for"
    )]
    Context {
        /// Observations the reward asked for.
        needed: usize,
        /// Observations the segment holds.
        carried: usize,
        /// How old the episode was.
        elapsed: usize,
    },
    /// A camera that the reward needs and the segment lacks.
    #[error("the reward needs camera `{camera}`, which the segment does not hold")]
    Camera {
        /// Its name.
        camera: Arc<str>,
    },
    /// Whatever computes the reward failed.
    #[error("the reward failed: {0}")]
    Backend(#[source] Box<dyn std::error::Error + Send + Sync>),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn term(name: &str, weight: f32, values: &[f32]) -> Term {
        Term { name: name.into(), weight, values: values.to_vec() }
    }

    #[test]
    fn a_total_is_the_weighted_sum_of_its_terms() {
        let terms = vec![term("env", 0.5, &[1.0, 2.0]), term("model", 2.0, &[0.0, 1.0])];
        assert_eq!(RewardColumn::of_terms(terms, 3).unwrap().total, [0.5, 3.0]);
        let uneven = vec![term("env", 1.0, &[1.0, 2.0]), term("model", 1.0, &[0.0])];
        let error = RewardColumn::of_terms(uneven, 0).unwrap_err();
        assert_eq!(error.to_string(), "reward term `model` has 1 values where 2 are due");
    }

    #[test]
    fn a_reward_that_is_not_finite_is_named() {
        let terms =
            vec![term("env", 1.0, &[1.0; 6]), term("model", 1.0, &[0.0, 0.0, 0.0, 0.0, f32::NAN, 0.0])];
        let error = RewardColumn::of_terms(terms, 0).unwrap().finite(3).unwrap_err();
        assert_eq!(error.to_string(), "reward term `model` is NaN at step 1 of environment 1");
        let terms = vec![term("env", 2.0, &[f32::MAX])];
        let error = RewardColumn::of_terms(terms, 0).unwrap().finite(1).unwrap_err();
        assert_eq!(error.to_string(), "reward term `total` is inf at step 0 of environment 0");
    }

    #[test]
    fn a_score_is_a_probability_or_nothing() {
        assert_eq!(Score::new(0.25).unwrap().get(), 0.25);
        assert!(Score::new(1.1).is_none() && Score::new(-0.1).is_none() && Score::new(f32::NAN).is_none());
        assert_eq!(Score::from_logit(0.0).unwrap().get(), 0.5);
        assert_eq!(Score::from_logit(-1000.0).unwrap().get(), 0.0);
        assert!(Score::from_logit(f32::NAN).is_none());
    }
}
