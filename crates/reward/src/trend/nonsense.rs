//! Stops a run whose judge answers nonsense: it would go on rewarded by nothing.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use super::model::Answer;
use crate::models::RewardModelError;

/// The newest answers that are looked at, and how many there must be.
const RECENT: usize = 200;
const FEWEST: usize = 20;
/// Answers that are shown, and how much of each.
const SAMPLES: usize = 3;
const SAMPLE_CHARS: usize = 80;

/// Counts answers that are none of those asked for.
pub struct NonsenseGuard {
    most: f64,
    state: Mutex<RecentAnswers>,
}

#[derive(Default)]
struct RecentAnswers {
    /// Whether each was nonsense, oldest first.
    answers: VecDeque<bool>,
    samples: VecDeque<String>,
}

impl NonsenseGuard {
    /// Allows this share of nonsense; 1 allows all.
    #[must_use]
    pub fn new(most: f64) -> Self {
        Self { most, state: Mutex::default() }
    }

    /// Takes in answers, each with whether it is nonsense.
    pub(super) fn check<'a>(
        &self,
        answers: impl Iterator<Item = (&'a Answer, bool)>,
    ) -> Result<(), RewardModelError> {
        let mut recent = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        for (answer, is_nonsense) in answers.filter(|(answer, _)| **answer != Answer::Missing) {
            if recent.answers.len() == RECENT {
                recent.answers.pop_front();
            }
            recent.answers.push_back(is_nonsense);
            if is_nonsense {
                recent.remember(answer);
            }
        }
        let (answers, nonsense) = (recent.answers.len(), recent.answers.iter().filter(|odd| **odd).count());
        if answers < FEWEST || nonsense as f64 <= self.most * answers as f64 {
            return Ok(());
        }
        let samples = recent.samples.iter().cloned().collect();
        Err(RewardModelError::Nonsense { nonsense, answers, samples })
    }
}

impl RecentAnswers {
    /// Keeps the newest few, each text once.
    fn remember(&mut self, answer: &Answer) {
        let text = match answer {
            Answer::Text(text) | Answer::NoLabel(text) => text.chars().take(SAMPLE_CHARS).collect(),
            Answer::Logits(logits) => format!("logits {:?}", logits.0),
            Answer::WordLogprobs(logprobs) => format!("log-probabilities {logprobs:?}"),
            Answer::Missing => return,
        };
        if self.samples.contains(&text) {
            return;
        }
        if self.samples.len() == SAMPLES {
            self.samples.pop_front();
        }
        self.samples.push_back(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_much_nonsense_stops_with_samples_and_a_little_does_not() {
        let words = |text: &str| Answer::Text(text.into());
        let guard = NonsenseGuard::new(0.5);
        let take = |guard: &NonsenseGuard, text: &str, is_nonsense: bool, count: usize| {
            let answer = words(text);
            guard.check((0..count).map(|_| (&answer, is_nonsense)))
        };
        take(&guard, "I cannot say", true, 19).unwrap(); // too few to tell
        take(&guard, "positive", false, 21).unwrap();
        guard.check([(&Answer::Missing, true); 50].into_iter()).unwrap(); // nobody said anything
        let error = take(&guard, "as an AI", true, 3).unwrap_err().to_string();
        assert!(error.contains("22 of the last 43 answers"), "{error}");
        assert!(error.contains("`I cannot say`") && error.contains("`as an AI`"), "{error}");
        take(&NonsenseGuard::new(1.0), "no", true, 500).unwrap();
        assert!(take(&NonsenseGuard::new(0.0), "no", true, 20).is_err());
    }
}
