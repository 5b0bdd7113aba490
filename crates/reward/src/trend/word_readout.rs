//! Readouts of one's own: any words, and what their probabilities mean.

use plaudit_data::windows::Objective;

/// Words that may begin an answer, and what is made of how likely each is.
#[derive(Debug, Clone, PartialEq)]
pub struct WordReadout {
    words: Vec<String>,
    /// What each word is worth, for an expected score.
    values: Vec<f64>,
    measure: WordMeasure,
    /// What log-probabilities are divided by.
    temperature: f64,
}

/// What is made of how likely words are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WordMeasure {
    /// The probability of the first word among the words.
    Probability,
    /// The mean of the words' values, by how likely each is among the words.
    ExpectedScore,
    /// The logarithm of how many times likelier the first word is than the others together.
    LogOdds,
    /// The logarithm of the first word's probability among all tokens.
    Logprob,
}

/// Words that no number can be read from.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WordReadoutError {
    /// Too few words.
    #[error("{found} words are too few: {least} at least")]
    TooFew {
        /// How many there are.
        found: usize,
        /// How many are needed.
        least: usize,
    },
    /// Not one value for each word.
    #[error("{values} values for {words} words: an expected score needs one for each")]
    Values {
        /// How many values.
        values: usize,
        /// How many words.
        words: usize,
    },
}

impl WordReadout {
    /// A readout of words. Values are needed for an expected score alone.
    ///
    /// # Errors
    /// When there are too few words, or not a value for each.
    pub fn new(
        words: Vec<String>,
        values: Vec<f64>,
        measure: WordMeasure,
        temperature: f64,
    ) -> Result<Self, WordReadoutError> {
        let least = if measure == WordMeasure::Logprob { 1 } else { 2 };
        if words.len() < least {
            return Err(WordReadoutError::TooFew { found: words.len(), least });
        }
        if measure == WordMeasure::ExpectedScore && values.len() != words.len() {
            return Err(WordReadoutError::Values { values: values.len(), words: words.len() });
        }
        Ok(Self { words, values, measure, temperature })
    }

    /// TOPReward: the log-probability of `True`, of a model that was tuned for nothing. With a space before it, as words have
    /// one that go on in a sentence.
    #[must_use]
    pub fn topreward() -> Self {
        Self {
            words: vec![" True".into()],
            values: Vec::new(),
            measure: WordMeasure::Logprob,
            temperature: 1.0,
        }
    }

    /// What the answers to a question mean: a share of the task, or the probability of the first answer. A trend is no number.
    #[must_use]
    pub fn of_objective(objective: Objective) -> Option<Self> {
        let words: Vec<String> = objective.answers().iter().map(ToString::to_string).collect();
        let last = (words.len() - 1) as f64;
        let (measure, values) = match objective {
            Objective::Trend => return None,
            Objective::Progress => {
                (WordMeasure::ExpectedScore, (0..words.len()).map(|digit| digit as f64 / last).collect())
            }
            Objective::Success | Objective::Preference => (WordMeasure::Probability, Vec::new()),
        };
        Some(Self { words, values, measure, temperature: 1.0 })
    }

    /// The words.
    #[must_use]
    pub fn words(&self) -> &[String] {
        &self.words
    }

    /// The number that log-probabilities of the words stand for; `None` where they are no numbers, or no word is possible.
    #[must_use]
    pub fn number(&self, logprobs: &[f32]) -> Option<f64> {
        if logprobs.len() != self.words.len() || logprobs.iter().any(|logprob| logprob.is_nan()) {
            return None;
        }
        let scaled: Vec<f64> =
            logprobs.iter().map(|logprob| f64::from(*logprob) / self.temperature).collect();
        let number = match self.measure {
            WordMeasure::Logprob => f64::from(*logprobs.first()?),
            WordMeasure::LogOdds => scaled.first()? - log_sum_exp(&scaled[1..]),
            WordMeasure::Probability => (scaled.first()? - log_sum_exp(&scaled)).exp(),
            WordMeasure::ExpectedScore => {
                let sum = log_sum_exp(&scaled);
                scaled.iter().zip(&self.values).map(|(logprob, value)| (logprob - sum).exp() * value).sum()
            }
        };
        number.is_finite().then_some(number)
    }
}

fn log_sum_exp(logprobs: &[f64]) -> f64 {
    let largest = logprobs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if largest == f64::NEG_INFINITY {
        return largest;
    }
    largest + logprobs.iter().map(|logprob| (logprob - largest).exp()).sum::<f64>().ln()
}

/// TOPReward's statement, which the answer finishes in the same turn; `{task}` is filled in.
pub const TOPREWARD_PROMPT: &str = "The above video shows a robot manipulation trajectory that completes the following task: \
     {task} Decide whether the above statement is True or not. The answer is:";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probabilities_become_numbers() {
        let words = |words: &[&str]| words.iter().map(ToString::to_string).collect::<Vec<_>>();
        let logprobs: Vec<f32> = [0.6_f32, 0.15, 0.05].iter().map(|p| p.ln()).collect();
        let three = words(&["high", "middle", "low"]);
        let number = |measure, temperature| {
            let readout = WordReadout::new(three.clone(), vec![1.0, 0.5, 0.0], measure, temperature).unwrap();
            readout.number(&logprobs).unwrap()
        };
        for (found, expected) in [
            (number(WordMeasure::Probability, 1.0), 0.75),
            (number(WordMeasure::ExpectedScore, 1.0), (0.6 + 0.5 * 0.15) / 0.8),
            (number(WordMeasure::LogOdds, 1.0), (0.6_f64 / 0.2).ln()),
            (number(WordMeasure::Logprob, 1.0), 0.6_f64.ln()),
            // At temperature 1/2, shares are squared.
            (number(WordMeasure::Probability, 0.5), 0.36 / (0.36 + 0.0225 + 0.0025)),
        ] {
            assert!((found - expected).abs() < 1e-6, "{found} {expected}");
        }
        let topreward = WordReadout::topreward();
        assert_eq!(topreward.words(), [" True"]);
        assert_eq!(topreward.number(&[-2.5]), Some(-2.5));
        for odd in [&[f32::NAN][..], &[f32::NEG_INFINITY], &[], &[0.0, 0.0]] {
            assert_eq!(topreward.number(odd), None, "{odd:?}");
        }
        let error = WordReadout::new(words(&["yes"]), Vec::new(), WordMeasure::Probability, 1.0).unwrap_err();
        assert_eq!(error.to_string(), "1 words are too few: 2 at least");
        let error = WordReadout::new(three, vec![1.0], WordMeasure::ExpectedScore, 1.0).unwrap_err();
        assert!(error.to_string().contains("1 values for 3 words"));
    }
}
