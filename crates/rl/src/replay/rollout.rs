//! One stored rollout: T steps of B environments, each observation kept once.

use std::sync::Arc;

use plaudit_core::{End, Obs, ObsRow, Segment};

use super::batch::Transitions;

/// T steps of B environments that a learner can sample transitions from, and a reward can relabel.
#[derive(Debug, Clone)]
pub(super) struct StoredRollout {
    /// The number of its first transition, counted since the replay began.
    pub(super) first: u64,
    /// Which of the steps begin a transition.
    pub(super) starts: Starts,
    /// What the policy saw before each step, `[T]`.
    pub(super) stored_obs: Vec<StoredObs>,
    /// What it saw after the last step; nothing where the next rollout begins with just that.
    pub(super) after: Option<StoredObs>,
    /// Last real observations, sorted by step and row.
    pub(super) last: Vec<(usize, usize, StoredObs)>,
    /// Actions, `[T][B, A]`.
    pub(super) actions: Vec<Vec<f32>>,
    /// The environment's own reward, `[T, B]`.
    pub(super) env_reward: Vec<f32>,
    /// How each step ended, `[T, B]`.
    pub(super) end: Vec<End>,
    /// Success by the environment's ground truth, `[T, B]`.
    pub(super) success: Vec<bool>,
    /// The rewards, `[T, B]`.
    pub(super) reward: Vec<f32>,
    /// The version of the reward that labelled it.
    pub(super) version: u64,
    /// Whether the frames are still there that a reward would need.
    pub(super) can_relabel: bool,
    /// What came before the first step, where the rollout before it is not kept.
    pub(super) context: Vec<Arc<Obs>>,
    /// Steps each row had taken in its episode before the first step, `[B]`.
    pub(super) elapsed: Vec<usize>,
}

/// An observation and what a frozen trunk made of it.
#[derive(Debug, Clone)]
pub(super) struct StoredObs {
    pub(super) obs: Arc<Obs>,
    /// `[B, F]`; empty without such a trunk.
    pub(super) features: Vec<f32>,
}

impl StoredObs {
    fn row(&self, row: usize) -> (ObsRow<'_>, &[f32]) {
        let width = self.features.len() / self.obs.batch();
        (self.obs.row(row), &self.features[row * width..(row + 1) * width])
    }
}

/// Which steps of a rollout begin a transition.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Starts {
    /// All `T · B` of them: each action was decided on its own.
    All(usize),
    /// These, as places in the `[T, B]` columns: actions were decided in chunks.
    Some(Vec<u32>),
}

impl Starts {
    /// The steps at which a chunk of `chunk` actions was decided, and done to its end or to that of the episode.
    pub(super) fn of(end: &[End], chunk_starts: &[bool], batch: usize, chunk: usize) -> Self {
        if chunk == 1 {
            return Self::All(end.len());
        }
        let starts_chunk = |at: usize| chunk_starts.get(at).copied().unwrap_or(true);
        let complete = |&start: &usize| {
            let mut done = 0;
            for at in (start..end.len()).step_by(batch) {
                if done > 0 && starts_chunk(at) {
                    return false; // a new chunk began before this one was done
                }
                done += 1;
                if end[at].is_end() || done == chunk {
                    return true;
                }
            }
            false
        };
        let starts = (0..end.len()).filter(|at| starts_chunk(*at)).filter(complete);
        Self::Some(starts.map(|at| at as u32).collect())
    }

    /// Lets go of the places for which this is false.
    pub(super) fn retain(&mut self, is_kept: impl Fn(usize) -> bool) {
        let before = self.len();
        let kept: Vec<u32> = (0..before)
            .map(|number| self.place(number))
            .filter(|at| is_kept(*at))
            .map(|at| at as u32)
            .collect();
        if kept.len() < before {
            *self = Self::Some(kept);
        }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Self::All(len) => *len,
            Self::Some(places) => places.len(),
        }
    }

    fn place(&self, number: usize) -> usize {
        match self {
            Self::All(_) => number,
            Self::Some(places) => places[number] as usize,
        }
    }
}

impl StoredRollout {
    pub(super) fn steps(&self) -> usize {
        self.stored_obs.len()
    }

    pub(super) fn batch(&self) -> usize {
        self.elapsed.len()
    }

    /// Adds transition `number` of this rollout; `next` is what the following rollout began with.
    pub(super) fn gather(
        &self,
        number: usize,
        next: Option<&StoredObs>,
        chunk: usize,
        cameras: &[Arc<str>],
        to: &mut Transitions,
    ) {
        let (start, batch) = (self.starts.place(number), self.batch());
        let (first, row) = (start / batch, start % batch);
        let (stored_obs, features) = self.stored_obs[first].row(row);
        to.obs.push(stored_obs, features, cameras);
        let (mut reward, mut t) = (0.0, first);
        loop {
            let width = self.actions[t].len() / batch;
            to.actions.extend_from_slice(&self.actions[t][row * width..(row + 1) * width]);
            reward += self.reward[t * batch + row];
            if t + 1 == first + chunk || self.end[t * batch + row].is_end() {
                let missing = (first + chunk - 1 - t) * width;
                to.actions.resize(to.actions.len() + missing, 0.0);
                break;
            }
            t += 1;
        }
        to.rewards.push(reward);
        to.ends.push(self.end[t * batch + row]);
        let (outcome, features) = self.outcome(t, row, next);
        to.next_obs.push(outcome, features, cameras);
    }

    /// What step `t` led to in row `row`.
    fn outcome<'a>(&'a self, t: usize, row: usize, next: Option<&'a StoredObs>) -> (ObsRow<'a>, &'a [f32]) {
        if let Ok(found) = self.last.binary_search_by_key(&(t, row), |(step, row, _)| (*step, *row)) {
            return self.last[found].2.row(0);
        }
        match self.stored_obs.get(t + 1).or(self.after.as_ref()).or(next) {
            Some(stored_obs) => stored_obs.row(row),
            // A rollout without `after` is always followed by one; an end has a last observation.
            None => self.stored_obs[t].row(row),
        }
    }

    /// The segment it was, for a reward to label.
    pub(super) fn segment(&self, next: Option<&StoredObs>, context: Vec<Arc<Obs>>) -> Segment {
        let after = self.after.as_ref().or(next);
        let obs = self.stored_obs.iter().chain(after).map(|stored_obs| (*stored_obs.obs).clone()).collect();
        Segment {
            context,
            elapsed: self.elapsed.clone(),
            obs,
            actions: self.actions.clone(),
            env_reward: self.env_reward.clone(),
            end: self.end.clone(),
            success: self.success.clone(),
            last: self
                .last
                .iter()
                .map(|(t, row, stored_obs)| (*t, *row, (*stored_obs.obs).clone()))
                .collect(),
        }
    }

    /// Lets go of every camera but these.
    pub(super) fn drop_frames(&mut self, cameras: &[Arc<str>]) {
        let stored_obs = self.stored_obs.iter_mut().chain(&mut self.after);
        for stored_obs in stored_obs.chain(self.last.iter_mut().map(|(_, _, stored_obs)| stored_obs)) {
            if stored_obs.obs.cameras.iter().any(|(name, _)| !cameras.contains(name)) {
                Arc::make_mut(&mut stored_obs.obs).cameras.retain(|(name, _)| cameras.contains(name));
            }
        }
        self.context.clear();
        self.can_relabel = false;
    }
}
