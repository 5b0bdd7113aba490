//! A segment of experience: T steps of B environments, complete enough that a reward needs nothing else.

use std::sync::Arc;

use thiserror::Error;

use crate::{Obs, ObsRow};

/// Whether a step ended its episode, and how. Bootstrapping differs, so this is not a `bool`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// The episode goes on.
    #[default]
    No,
    /// The task itself ended: nothing follows, so nothing is bootstrapped.
    Terminated,
    /// The clock ran out: what would have followed still has a value.
    Truncated,
}

impl End {
    /// Whether a new episode starts after this step.
    pub fn is_end(self) -> bool {
        self != Self::No
    }
}

/// T steps of B environments.
///
/// Two details make a reward a pure function of a segment. At each [`End`] the segment keeps the last real
/// observation, which automatic resets would hide. And it can carry K observations from before its first
/// step (`context`), so that windows crossing the segment's border see what they would have seen anyway.
#[derive(Debug, Clone)]
pub struct Segment {
    /// Observations from before the first step, oldest first; at most what the reward asked for.
    pub context: Vec<Arc<Obs>>,
    /// Steps each row had taken in its episode before the first step, `[B]`.
    pub elapsed: Vec<usize>,
    /// What the policy saw, `[T + 1]`: one before each step and one after the last.
    pub obs: Vec<Obs>,
    /// Actions, `[T][B, action_width]`.
    pub actions: Vec<Vec<f32>>,
    /// The environment's own reward, `[T, B]`.
    pub env_reward: Vec<f32>,
    /// How each step ended, `[T, B]`.
    pub end: Vec<End>,
    /// Success by the environment's ground truth, `[T, B]`.
    pub success: Vec<bool>,
    /// Last real observations, sorted by step and row: `(t, row, obs of one)`.
    pub last: Vec<(usize, usize, Obs)>,
}

/// The per-row results of one step.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StepRow {
    /// Actions taken, `[B, action_width]`.
    pub actions: Vec<f32>,
    /// The environment's own reward, `[B]`.
    pub env_reward: Vec<f32>,
    /// How each row ended, `[B]`.
    pub end: Vec<End>,
    /// Success by the environment's ground truth, `[B]`.
    pub success: Vec<bool>,
}

impl Segment {
    /// An empty segment before which nothing is known.
    pub fn starting_at(obs: Obs) -> Self {
        let batch = obs.batch();
        Self::continuing(obs, Vec::new(), vec![0; batch])
    }

    /// An empty segment whose row `b` is `elapsed[b]` steps into its episode, and that remembers `context`.
    pub fn continuing(obs: Obs, context: Vec<Arc<Obs>>, elapsed: Vec<usize>) -> Self {
        Self {
            context,
            elapsed,
            obs: vec![obs],
            actions: Vec::new(),
            env_reward: Vec::new(),
            end: Vec::new(),
            success: Vec::new(),
            last: Vec::new(),
        }
    }

    /// Adds a step: its results, what is seen next, and the last real observation of every ended row.
    pub fn push(
        &mut self,
        step: StepRow,
        next: Obs,
        mut last: Vec<(usize, Obs)>,
    ) -> Result<(), SegmentError> {
        let (t, batch) = (self.steps(), self.batch());
        for (what, rows) in [
            ("rewards", step.env_reward.len()),
            ("ends", step.end.len()),
            ("success flags", step.success.len()),
            ("observations", next.batch()),
        ] {
            if rows != batch {
                return Err(SegmentError::Rows { what, rows, batch });
            }
        }
        last.sort_by_key(|(row, _)| *row);
        let ended = step.end.iter().enumerate().filter(|(_, end)| end.is_end()).map(|(row, _)| row);
        if !ended.eq(last.iter().map(|(row, _)| *row)) {
            return Err(SegmentError::Last { t });
        }
        self.actions.push(step.actions);
        self.env_reward.extend(step.env_reward);
        self.end.extend(step.end);
        self.success.extend(step.success);
        self.obs.push(next);
        self.last.extend(last.into_iter().map(|(row, obs)| (t, row, obs)));
        Ok(())
    }

    /// T.
    pub fn steps(&self) -> usize {
        self.actions.len()
    }

    /// B.
    pub fn batch(&self) -> usize {
        self.obs[0].batch()
    }

    /// Where step `t` of row `b` lies in the `[T, B]` columns.
    pub fn at(&self, t: usize, b: usize) -> usize {
        t * self.batch() + b
    }

    /// How many of the newest `context` entries belong to the episode row `b` was in.
    pub fn context_rows(&self, b: usize) -> usize {
        self.elapsed[b].min(self.context.len())
    }

    /// What step `t` led to in row `b`: the last real observation if the episode ended there, else the next one.
    pub fn outcome(&self, t: usize, b: usize) -> ObsRow<'_> {
        match self.last.binary_search_by_key(&(t, b), |(step, row, _)| (*step, *row)) {
            Ok(found) => self.last[found].2.row(0),
            Err(_) => self.obs[t + 1].row(b),
        }
    }
}

/// Parts of a segment that do not fit together.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SegmentError {
    /// A column of the wrong length.
    #[error("{rows} {what} for {batch} environments")]
    Rows {
        /// Which column.
        what: &'static str,
        /// Its length.
        rows: usize,
        /// What it should be.
        batch: usize,
    },
    /// Ended rows and last observations that do not name the same rows.
    #[error("step {t}: the rows that ended and the rows with a last observation differ")]
    Last {
        /// The step.
        t: usize,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(values: &[f32]) -> Obs {
        Obs::from_state(2, values.to_vec()).unwrap()
    }

    fn step(end: [End; 2]) -> StepRow {
        StepRow {
            actions: vec![0.0; 2],
            env_reward: vec![0.0; 2],
            end: end.to_vec(),
            success: vec![false; 2],
        }
    }

    #[test]
    fn an_outcome_is_what_really_happened_not_the_reset() {
        let mut segment = Segment::starting_at(state(&[0.0, 10.0]));
        segment.push(step([End::No, End::No]), state(&[1.0, 11.0]), vec![]).unwrap();
        let last = Obs::from_state(1, vec![12.0]).unwrap();
        segment.push(step([End::No, End::Truncated]), state(&[2.0, 99.0]), vec![(1, last)]).unwrap();
        assert_eq!(segment.outcome(0, 1).state, [11.0]);
        assert_eq!(segment.outcome(1, 0).state, [2.0]);
        assert_eq!(segment.outcome(1, 1).state, [12.0]);
        assert_eq!((segment.steps(), segment.batch(), segment.at(1, 1)), (2, 2, 3));
    }

    #[test]
    fn a_step_that_hides_its_last_observation_is_refused() {
        let mut segment = Segment::starting_at(state(&[0.0, 0.0]));
        let refused = segment.push(step([End::Terminated, End::No]), state(&[1.0, 1.0]), vec![]);
        assert_eq!(refused, Err(SegmentError::Last { t: 0 }));
        let short = StepRow { success: vec![false], ..step([End::No, End::No]) };
        let refused = segment.push(short, state(&[1.0, 1.0]), vec![]).unwrap_err();
        assert_eq!(refused.to_string(), "1 success flags for 2 environments");
        assert_eq!(segment.steps(), 0, "a refused step leaves nothing behind");
    }
}
