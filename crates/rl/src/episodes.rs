//! Keeping count of episodes as steps go by.

use plaudit_core::{End, Step};

/// A finished episode of one environment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Episode {
    /// The environment.
    pub row: usize,
    /// Steps taken.
    pub length: u64,
    /// Sum of the environment's own rewards.
    pub env_return: f64,
    /// Whether the task was solved at any step (the environment's ground truth).
    pub success_once: bool,
    /// Whether the task was solved at the last step.
    pub success_at_end: bool,
    /// Whether it was solved before any person took over.
    pub success_alone: bool,
    /// Steps in which a person acted.
    pub person_steps: u64,
    /// Whether it turned out to be worthless: nothing is learned from it, and it counts neither as success nor as failure.
    pub invalid: bool,
    /// How it ended.
    pub end: End,
}

/// The unfinished episode of each environment.
#[derive(Debug, Clone)]
pub struct Episodes {
    rows: Vec<Episode>,
}

impl Episodes {
    /// All environments at the start of an episode.
    pub fn new(num_envs: usize) -> Self {
        Self { rows: (0..num_envs).map(new_episode).collect() }
    }

    /// Environments in the middle of episodes.
    pub fn in_progress(rows: Vec<Episode>) -> Self {
        Self { rows }
    }

    /// One environment at the start of an episode.
    pub(crate) fn begin_anew(&mut self, row: usize) {
        self.rows[row] = new_episode(row);
    }

    /// The unfinished episodes.
    pub fn open(&self) -> &[Episode] {
        &self.rows
    }

    /// Takes note of a step and returns the episodes it finished.
    pub fn step(&mut self, step: &Step) -> Vec<Episode> {
        let mut finished = Vec::new();
        for row in 0..self.rows.len() {
            let is_persons = step.interventions.iter().any(|by| by.row == row && by.by_person);
            finished.extend(self.count(
                row,
                step.reward[row],
                step.success[row],
                is_persons,
                step.ends_invalid(row),
                step.end[row],
            ));
        }
        finished
    }

    /// The same for one row. `invalid` is whether the step ends an episode that must not be kept.
    pub(crate) fn count(
        &mut self,
        row: usize,
        reward: f32,
        success: bool,
        is_persons: bool,
        invalid: bool,
        end: End,
    ) -> Option<Episode> {
        let episode = self.rows.get_mut(row)?;
        episode.length += 1;
        episode.env_return += f64::from(reward);
        episode.success_at_end = success;
        episode.success_once |= success;
        episode.person_steps += u64::from(is_persons);
        episode.success_alone |= success && episode.person_steps == 0;
        episode.invalid = invalid && end.is_end();
        episode.end = end;
        end.is_end().then(|| std::mem::replace(episode, new_episode(row)))
    }
}

pub(crate) fn new_episode(row: usize) -> Episode {
    Episode {
        row,
        length: 0,
        env_return: 0.0,
        success_once: false,
        success_at_end: false,
        success_alone: false,
        person_steps: 0,
        invalid: false,
        end: End::No,
    }
}
