//! What a vision-language judge can learn to say about frames.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::convert::window_prompt;

/// What is asked about a window, and what may be answered. Answers begin with different tokens in Qwen's vocabulary, so that
/// the first one tells them apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Objective {
    /// Whether some consecutive frames get the task further: RLinf's.
    #[default]
    Trend,
    /// How far the task is at the end of an episode so far, by a digit.
    Progress,
    /// Whether the task is done at the end of an episode so far.
    Success,
    /// Which of two clips gets further.
    Preference,
}

impl Objective {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Trend, Self::Progress, Self::Success, Self::Preference];

    /// As manifests, configs and the command line write it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Trend => "trend",
            Self::Progress => "progress",
            Self::Success => "success",
            Self::Preference => "preference",
        }
    }

    /// What may be answered.
    #[must_use]
    pub const fn answers(self) -> &'static [&'static str] {
        match self {
            Self::Trend => &["positive", "negative", "unclear"],
            Self::Progress => &["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"],
            Self::Success => &["yes", "no"],
            Self::Preference => &["first", "second"],
        }
    }

    /// What is asked about a task, of videos of so many frames from the main view and so many others.
    #[must_use]
    pub fn question(self, task: &str, frames: usize, extra_views: usize) -> String {
        // RLinf writes the task as it is, also if it ends with a period.
        let sentence = task.trim().trim_end_matches('.');
        match self {
            Self::Trend => window_prompt(task, frames, extra_views),
            Self::Progress => format!(
                "You see the episode so far of a robot that performs the task: {sentence}. How far is the task at the end of it, \
                 from 0 (not begun) to 9 (done)? Answer with exactly one digit."
            ),
            Self::Success => format!(
                "You see the episode so far of a robot that performs the task: {sentence}. Is the task done at the end of it? \
                 Answer with exactly one word: yes or no."
            ),
            Self::Preference => format!(
                "You see two clips of a robot that performs the task: {sentence}. Which of them gets further? Answer with \
                 exactly one word: first or second."
            ),
        }
    }

    /// The digit for a share of the task.
    pub(crate) fn digit(share: f64) -> &'static str {
        let digits = Self::Progress.answers();
        let most = digits.len() - 1;
        digits[((share * most as f64).round().max(0.0) as usize).min(most)]
    }
}

/// So many of `total` places, evenly spaced, with the first and the last; all where there are fewer. How an episode so far is
/// shown.
#[must_use]
pub fn evenly_spaced(total: usize, most: usize) -> Vec<usize> {
    match most.min(total) {
        0 => Vec::new(),
        1 => vec![total - 1],
        count => (0..count).map(|at| at * (total - 1) / (count - 1)).collect(),
    }
}

impl fmt::Display for Objective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_a_task_become_digits() {
        let digits = [-1.0, 0.0, 0.04, 0.06, 0.5, 0.95, 1.0, 7.0].map(Objective::digit);
        assert_eq!(digits, ["0", "0", "0", "1", "5", "9", "9", "9"]);
    }

    #[test]
    fn places_are_spaced_evenly() {
        assert_eq!(evenly_spaced(10, 4), [0, 3, 6, 9]);
        assert_eq!(evenly_spaced(5, 5), [0, 1, 2, 3, 4]);
        assert_eq!(evenly_spaced(2, 5), [0, 1]);
        assert_eq!((evenly_spaced(7, 1), evenly_spaced(0, 3)), (vec![6], vec![]));
    }
}
