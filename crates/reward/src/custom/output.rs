//! What the numbers of a model mean, and the logits that they are.

use serde::{Deserialize, Serialize};

/// What the numbers of a model mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputMeaning {
    /// One number for each image, from 0 to 1: how likely it shows success.
    Probability,
    /// One number for each image, any: the logit of that.
    Logit,
    /// For each image a probability of each class.
    ClassProbabilities,
    /// For each image a logit of each class, before a softmax.
    ClassLogits,
}

/// Numbers that are none of what they should be.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum OutputError {
    /// A number that is not finite.
    #[error("{value} for image {image}: a score must be a finite number")]
    NotFinite {
        /// The number.
        value: f32,
        /// Which image.
        image: usize,
    },
    /// A probability that is none.
    #[error(
        "{value} for image {image}: a probability lies from 0 to 1; if it is a logit, write \"output\": \"logit\""
    )]
    NotAProbability {
        /// The number.
        value: f32,
        /// Which image.
        image: usize,
    },
}

/// Beyond this a logit makes a score of exactly 0 or 1 in single precision. A probability of 0 or 1 has no finite one.
const SUREST: f64 = 20.0;
/// How far a probability may miss 0 and 1 by rounding.
const ROUNDING: f32 = 1e-5;

impl OutputMeaning {
    /// The logits of success of rows of so many numbers, of which `class` is success if they are of classes.
    pub(super) fn logits(
        self,
        numbers: &[f32],
        columns: usize,
        class: usize,
    ) -> Result<Vec<f32>, OutputError> {
        let rows = numbers.chunks_exact(columns.max(1));
        rows.enumerate().map(|(image, row)| self.logit(row, class, image)).collect()
    }

    fn logit(self, row: &[f32], class: usize, image: usize) -> Result<f32, OutputError> {
        if let Some(value) = row.iter().copied().find(|value| !value.is_finite()) {
            return Err(OutputError::NotFinite { value, image });
        }
        match self {
            Self::Logit => Ok(row[0]),
            Self::Probability => of_probability(row[0], image),
            Self::ClassProbabilities => of_probability(row[class], image),
            Self::ClassLogits => Ok(of_class(row, class)),
        }
    }
}

fn of_probability(value: f32, image: usize) -> Result<f32, OutputError> {
    if !(-ROUNDING..=1.0 + ROUNDING).contains(&value) {
        return Err(OutputError::NotAProbability { value, image });
    }
    let value = f64::from(value).clamp(0.0, 1.0);
    Ok((value / (1.0 - value)).ln().clamp(-SUREST, SUREST) as f32)
}

/// The logit of a class against all others: its own, less the logarithm of the sum of the others' exponentials.
fn of_class(row: &[f32], class: usize) -> f32 {
    let others = || row.iter().enumerate().filter(|(at, _)| *at != class).map(|(_, logit)| f64::from(*logit));
    let largest = others().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = others().map(|logit| (logit - largest).exp()).sum();
    (f64::from(row[class]) - largest - sum.ln()) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn score(logit: f32) -> f64 {
        1.0 / (1.0 + (-f64::from(logit)).exp())
    }

    #[test]
    fn every_meaning_gives_the_same_scores() {
        // Softmax of [1, 3, 0]: the probability of the second of three classes.
        let softmax = [1.0f64, 3.0, 0.0].map(f64::exp);
        let expected = softmax[1] / softmax.iter().sum::<f64>();
        let close = |logits: Vec<f32>| {
            assert!((score(logits[0]) - expected).abs() < 1e-6, "{} and {expected}", score(logits[0]));
        };
        let probabilities: Vec<f32> =
            softmax.iter().map(|one| (one / softmax.iter().sum::<f64>()) as f32).collect();
        close(OutputMeaning::ClassLogits.logits(&[1.0, 3.0, 0.0], 3, 1).unwrap());
        close(OutputMeaning::ClassProbabilities.logits(&probabilities, 3, 1).unwrap());
        close(OutputMeaning::Probability.logits(&[expected as f32], 1, 0).unwrap());
        let logit = (expected / (1.0 - expected)).ln() as f32;
        close(OutputMeaning::Logit.logits(&[logit], 1, 0).unwrap());
    }

    #[test]
    fn certainty_stays_certain_and_finite() {
        let logits = OutputMeaning::Probability.logits(&[0.0, 1.0], 1, 0).unwrap();
        assert!(logits.iter().all(|logit| logit.is_finite()));
        assert_eq!(logits.iter().map(|logit| score(*logit) as f32).collect::<Vec<_>>()[1], 1.0);
        assert!(score(logits[0]) < 1e-8);
    }

    #[test]
    fn what_is_no_score_is_refused_with_its_image() {
        let said =
            |meaning: OutputMeaning, numbers: &[f32]| meaning.logits(numbers, 1, 0).unwrap_err().to_string();
        assert!(said(OutputMeaning::Probability, &[0.5, 3.2]).starts_with("3.2 for image 1"));
        assert!(said(OutputMeaning::Logit, &[f32::NAN]).starts_with("NaN for image 0"));
        assert!(said(OutputMeaning::Probability, &[f32::INFINITY]).starts_with("inf for image 0"));
    }
}
