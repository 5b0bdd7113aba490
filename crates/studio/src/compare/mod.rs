//! Reward models on the same episodes: where they differ, who is late, who raises false alarms, and whom people believe.
//!
//! Whoever says of a frame whether it is a success is a *rater*: a reward model by the rule of its audit (threshold, guard, so many
//! frames in a row), and the environment's truth. All numbers here are counted from what raters say of frames.

mod agreement;
mod ballots;
mod disagreement;
mod rating;
mod timing;

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

pub(crate) use agreement::Agreement;
pub(crate) use ballots::{Ballot, Verdict};
pub(crate) use disagreement::{Disagreement, Said, disagreements};
pub(crate) use rating::{pair_record, ratings};
pub(crate) use timing::{EpisodeTiming, TimingSummary, wilson};

use plaudit_data::recording::Recording;

use self::ballots::BALLOTS_FILE;
use crate::http::Refusal;
use crate::library::{EpisodeKey, Library};
use crate::lines::LineFile;
use crate::lru::Lru;

/// Frames whose truth is kept.
const KEPT_FRAMES: usize = 8 << 20;
/// Questions that nobody answered yet.
const MOST_TRIALS: usize = 256;

/// Whether each frame is a success, where somebody says so.
pub(crate) type Truth = Arc<Vec<Option<bool>>>;

/// Two unnamed curves, and which models drew them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Trial {
    pub(crate) episode: EpisodeKey,
    pub(crate) first: Arc<str>,
    pub(crate) second: Arc<str>,
}

/// What is remembered between requests.
pub(crate) struct Comparisons {
    truths: Mutex<Lru<EpisodeKey, Truth>>,
    trials: Mutex<Vec<(u64, Trial)>>,
    pub(crate) ballots: LineFile,
}

impl Comparisons {
    /// Answers of people go to a file in this folder.
    pub(crate) fn new(folder: &Path) -> Self {
        let (truths, trials) = (Mutex::new(Lru::new(KEPT_FRAMES)), Mutex::default());
        Self { truths, trials, ballots: LineFile::at(folder.join(BALLOTS_FILE)) }
    }

    /// The environment's truth about an episode.
    pub(crate) fn truth(&self, library: &Library, key: &EpisodeKey) -> Result<Truth, Refusal> {
        if let Some(kept) = self.truths.lock().unwrap_or_else(PoisonError::into_inner).get(key) {
            return Ok(kept);
        }
        let found = Arc::new(truth_of(library.episode(key)?.recording()));
        let cost = found.len().max(1);
        self.truths.lock().unwrap_or_else(PoisonError::into_inner).put(key.clone(), found.clone(), cost);
        Ok(found)
    }

    /// Remembers a question until it is answered. Where too many wait, the oldest goes.
    pub(crate) fn ask(&self, trial: Trial) -> Result<u64, Refusal> {
        let number = random()?;
        let mut trials = self.trials.lock().unwrap_or_else(PoisonError::into_inner);
        if trials.len() >= MOST_TRIALS {
            trials.remove(0);
        }
        trials.push((number, trial));
        Ok(number)
    }

    /// The question of an answer, which is then asked no more.
    pub(crate) fn answered(&self, number: u64) -> Option<Trial> {
        let mut trials = self.trials.lock().unwrap_or_else(PoisonError::into_inner);
        let at = trials.iter().position(|(known, _)| *known == number)?;
        Some(trials.remove(at).1)
    }
}

/// A number that nobody can foresee: which curve stands where must not be known.
pub(crate) fn random() -> Result<u64, Refusal> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(|_| Refusal::failed("the system gives no random bytes"))?;
    // Numbers of JavaScript are exact up to 2^53.
    Ok(u64::from_le_bytes(bytes) >> 11)
}

/// Whether each frame is a success. An episode that failed has none, also where no frame says so.
pub(crate) fn truth_of(recording: &Recording) -> Vec<Option<bool>> {
    let labels = recording.labels();
    let has_labels = labels.iter().any(Option::is_some);
    let unlabelled = match recording.success() {
        Some(false) if !has_labels => Some(false),
        _ => None,
    };
    let label = |at: usize| labels.get(at).copied().flatten().or(unlabelled);
    (0..recording.len()).map(label).collect()
}

/// How often each pair of raters agrees, by their places.
pub(crate) fn agreements(raters: usize, episodes: &[Vec<Said>]) -> HashMap<(usize, usize), Agreement> {
    let mut found: HashMap<(usize, usize), Agreement> = HashMap::new();
    for said in episodes {
        for one in 0..raters {
            for other in one + 1..raters {
                let pair = found.entry((one, other)).or_default();
                let frames = said[one].success.len().min(said[other].success.len());
                (0..frames).for_each(|at| pair.count(said[one].success[at], said[other].success[at]));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_answered_once() {
        let comparisons = Comparisons::new(Path::new("nowhere"));
        let episode = EpisodeKey { dataset: "d".into(), item: 0, part: 0 };
        let trial = Trial { episode, first: "a".into(), second: "b".into() };
        let number = comparisons.ask(trial.clone()).unwrap();
        for _ in 0..MOST_TRIALS - 1 {
            comparisons.ask(trial.clone()).unwrap();
        }
        assert_eq!(comparisons.answered(number), Some(trial.clone()));
        assert_eq!(comparisons.answered(number), None);
        let oldest = comparisons.ask(trial.clone()).unwrap();
        for _ in 0..MOST_TRIALS {
            comparisons.ask(trial.clone()).unwrap();
        }
        assert_eq!(comparisons.answered(oldest), None, "too many wait");
    }
}
