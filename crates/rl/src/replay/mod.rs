//! The replay buffer: experience kept for learning.
//!
//! A replay holds whole rollouts, oldest first, and samples single transitions from the newest of them. Each
//! observation is kept once: what a step led to is what the next step saw. Every rollout knows the version of the
//! reward that labelled it, and keeps what a reward would need to relabel it, within a budget of memory.

mod batch;
mod memory;
mod rollout;
mod saved;

use std::collections::VecDeque;
use std::sync::Arc;

use plaudit_core::{FramesNeeded, Obs, Reward, RewardError, Rng, Segment};

pub use batch::{ObsBuffer, Transitions};
pub use memory::{MemoryError, ReplayFill};
use rollout::{Starts, StoredObs, StoredRollout};
pub use saved::SavedError;

use crate::LearnError;
use crate::vision_encoder::VisionEncoder;

/// An amount of experience.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Amount {
    /// Whole rollouts, whatever their length: what RLinf calls trajectories.
    Rollouts(usize),
    /// Single transitions.
    Transitions(usize),
}

/// What a replay keeps and samples from.
#[derive(Debug, Clone, PartialEq)]
pub struct ReplaySettings {
    /// The most that is kept. Rollouts are kept or dropped as a whole.
    pub keep: Amount,
    /// The newest experience that is sampled from.
    pub window: Amount,
    /// Actions per transition.
    pub chunk: usize,
    /// The cameras of the policy.
    pub cameras: Vec<Arc<str>>,
    /// What a reward needs to relabel.
    pub relabel: RelabelSettings,
}

/// What is kept so that a changed reward can relabel stored experience.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RelabelSettings {
    /// The frames that the reward needs.
    pub frames_needed: FramesNeeded,
    /// Observations before a segment that it asks for.
    pub context: usize,
    /// Bytes of frames kept for this alone; beyond it the oldest rollouts keep the rewards they have.
    pub frame_bytes: u64,
}

/// Rollouts to sample transitions from.
#[derive(Debug, Clone)]
pub struct Replay {
    settings: ReplaySettings,
    rollouts: VecDeque<StoredRollout>,
    /// Transitions that were ever added.
    added: u64,
    /// Bytes of frames that are kept for a reward alone.
    frame_bytes: u64,
}

/// A finished and labelled rollout on its way into a replay.
#[derive(Debug, Clone)]
pub struct NewRollout {
    /// What happened.
    pub segment: Segment,
    /// Which steps start an action chunk, `[T, B]`; empty where all do.
    pub starts_chunk: Vec<bool>,
    /// Which steps belong to episodes that ended invalid, `[T, B]`; empty where none does. They are never sampled, nor
    /// are the steps of the same episodes in rollouts before.
    pub invalid: Vec<bool>,
    /// The rewards, `[T, B]`.
    pub reward: Vec<f32>,
    /// The version of the reward that labelled it.
    pub version: u64,
}

/// Turns observations into what a frozen trunk makes of them, `[B, F]`.
pub type TrunkFn<'a> = &'a mut dyn FnMut(&Obs) -> Result<Vec<f32>, LearnError>;

impl Replay {
    /// An empty one.
    pub fn new(settings: ReplaySettings) -> Self {
        Self { settings, rollouts: VecDeque::new(), added: 0, frame_bytes: 0 }
    }

    /// An empty one with the same settings.
    #[must_use]
    pub fn emptied(&self) -> Self {
        Self::new(self.settings.clone())
    }

    /// How many rollouts are kept.
    pub fn rollouts(&self) -> usize {
        self.rollouts.len()
    }

    /// How many transitions are kept.
    pub fn transitions(&self) -> usize {
        (self.added - self.rollouts.front().map_or(self.added, |oldest| oldest.first)) as usize
    }

    /// Whether so much is kept.
    pub fn holds(&self, amount: Amount) -> bool {
        match amount {
            Amount::Rollouts(rollouts) => self.rollouts() >= rollouts,
            Amount::Transitions(transitions) => self.transitions() >= transitions,
        }
    }

    /// How many transitions were labelled by another version of the reward than this.
    pub fn labelled_by_others(&self, version: u64) -> usize {
        let others = self.rollouts.iter().filter(|rollout| rollout.version != version);
        others.map(|rollout| rollout.starts.len()).sum()
    }

    /// The version of the reward that labelled each kept transition, oldest first.
    pub fn versions(&self) -> impl Iterator<Item = u64> {
        self.rollouts.iter().flat_map(|rollout| std::iter::repeat_n(rollout.version, rollout.starts.len()))
    }

    /// Adds a rollout and drops what is too old. `trunk` is for policies with a frozen one.
    pub fn add(&mut self, new: NewRollout, trunk: Option<TrunkFn<'_>>) -> Result<(), LearnError> {
        let invalid = new.invalid.clone();
        let mut stored = self.store(new, trunk)?;
        self.forget_begun_episodes(&stored, &invalid);
        if invalid.contains(&true) && stored.starts.len() == 0 {
            return Ok(());
        }
        stored.first = self.added;
        let continues = self.rollouts.back().and_then(|newest| newest.after.as_ref());
        if continues.is_some_and(|after| after.obs == stored.stored_obs[0].obs) {
            stored.context.clear();
            let after = self.rollouts.back_mut().and_then(|newest| newest.after.take());
            self.frame_bytes -= after.map_or(0, |after| self.frames_of(&after));
        }
        self.added += stored.starts.len() as u64;
        self.frame_bytes += self.frames_for_reward(&stored);
        self.rollouts.push_back(stored);
        self.drop_oldest();
        self.drop_frames();
        Ok(())
    }

    /// Drops the transitions of episodes that began in earlier rollouts and turned out to be invalid in this one.
    fn forget_begun_episodes(&mut self, new: &StoredRollout, invalid: &[bool]) {
        let rows = (0..new.batch()).filter(|row| invalid.get(*row) == Some(&true));
        for row in rows.collect::<Vec<_>>() {
            let (mut begun, mut next) = (new.elapsed[row], new.stored_obs.first().cloned());
            for stored in self.rollouts.iter_mut().rev() {
                // The rollout that this one follows: anything else is another stretch of time.
                let follows = stored
                    .after
                    .as_ref()
                    .is_none_or(|after| next.as_ref().is_some_and(|next| next.obs == after.obs));
                if begun == 0 || !follows || stored.batch() != new.batch() {
                    break;
                }
                let (steps, batch) = (stored.steps(), stored.batch());
                let from = steps.saturating_sub(begun);
                stored.starts.retain(|at| at % batch != row || at / batch < from);
                begun -= begun.min(steps);
                next = stored.stored_obs.first().cloned();
            }
        }
        let mut first = self.rollouts.front().map_or(self.added, |oldest| oldest.first);
        for stored in &mut self.rollouts {
            stored.first = first;
            first += stored.starts.len() as u64;
        }
        self.added = first;
    }

    /// Adds a rollout, with the features of the frozen trunk if the encoder has one.
    pub(crate) fn add_encoded(
        &mut self,
        new: NewRollout,
        vision_encoder: Option<&VisionEncoder>,
    ) -> Result<(), LearnError> {
        match vision_encoder.filter(|vision_encoder| vision_encoder.trunk().is_some()) {
            Some(vision_encoder) => self.add(new, Some(&mut |obs| Ok(vision_encoder.trunk_features(obs)?))),
            None => self.add(new, None),
        }
    }

    /// Samples up to `count` transitions uniformly, and adds them to `to`. Where fewer are there,
    /// that many are sampled; the same one may come twice.
    pub fn sample(&self, count: usize, rng: &mut Rng, to: &mut Transitions) {
        let available = self.window();
        for _ in 0..count.min(available) {
            self.gather(self.added - available as u64 + rng.below(available) as u64, to);
        }
    }

    /// How many transitions are sampled from.
    pub fn window(&self) -> usize {
        let first_of = |rollout: Option<&StoredRollout>| rollout.map_or(self.added, |stored| stored.first);
        let oldest = first_of(self.rollouts.front());
        let from = match self.settings.window {
            Amount::Rollouts(rollouts) => {
                first_of(self.rollouts.get(self.rollouts.len().saturating_sub(rollouts)))
            }
            Amount::Transitions(count) => self.added.saturating_sub(count as u64).max(oldest),
        };
        (self.added - from) as usize
    }

    /// Every kept transition, oldest first.
    pub fn all(&self) -> Transitions {
        let mut all = Transitions::default();
        for number in self.added - self.transitions() as u64..self.added {
            self.gather(number, &mut all);
        }
        all
    }

    /// Relabels whatever another version of the reward has labelled and can still be relabelled. Returns how many steps.
    pub fn relabel(&mut self, reward: &dyn Reward) -> Result<usize, LearnError> {
        let version = reward.version();
        let mut relabelled = 0;
        for at in 0..self.rollouts.len() {
            let stored = &self.rollouts[at];
            if stored.version == version || !stored.can_relabel {
                continue;
            }
            let next = self.rollouts.get(at + 1).and_then(|next| next.stored_obs.first());
            let column = match reward.label(&stored.segment(next, self.context_of(at))) {
                Ok(column) => column,
                // Recorded under a reward that needed less: it keeps the rewards it has.
                Err(RewardError::Camera { .. } | RewardError::Context { .. }) => {
                    self.rollouts[at].can_relabel = false;
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            relabelled += column.total.len();
            let stored = &mut self.rollouts[at];
            stored.reward = column.total;
            stored.version = column.version;
        }
        Ok(relabelled)
    }

    /// Adds transition `number`, counted since the replay began.
    fn gather(&self, number: u64, to: &mut Transitions) {
        let at = self.rollouts.partition_point(|rollout| rollout.first <= number) - 1;
        let stored = &self.rollouts[at];
        let next = self.rollouts.get(at + 1).and_then(|next| next.stored_obs.first());
        let ReplaySettings { chunk, cameras, .. } = &self.settings;
        stored.gather((number - stored.first) as usize, next, *chunk, cameras, to);
    }

    fn store(&self, new: NewRollout, trunk: Option<TrunkFn<'_>>) -> Result<StoredRollout, LearnError> {
        let NewRollout { segment, starts_chunk, invalid, reward, version } = new;
        let batch = segment.batch();
        let mut starts = Starts::of(&segment.end, &starts_chunk, batch, self.settings.chunk);
        if invalid.contains(&true) {
            starts.retain(|at| invalid.get(at) != Some(&true));
        }
        let mut keep = self.obs_filter(trunk);
        let mut stored_obs = Vec::with_capacity(segment.obs.len());
        for obs in segment.obs {
            stored_obs.push(keep.observation(obs, FramesNeeded::Everything)?);
        }
        let mut last = Vec::with_capacity(segment.last.len());
        for (t, row, obs) in segment.last {
            last.push((t, row, keep.observation(obs, FramesNeeded::Ends)?));
        }
        let after = stored_obs.pop();
        Ok(StoredRollout {
            first: self.added,
            starts,
            stored_obs,
            after,
            last,
            actions: segment.actions,
            env_reward: segment.env_reward,
            end: segment.end,
            success: segment.success,
            reward,
            version,
            can_relabel: self.settings.relabel.frames_needed == FramesNeeded::Nothing
                || self.settings.relabel.frame_bytes > 0,
            context: if self.settings.relabel.context > 0 { segment.context } else { Vec::new() },
            elapsed: segment.elapsed,
        })
    }

    fn obs_filter<'a, 't>(&'a self, trunk: Option<TrunkFn<'t>>) -> ObsFilter<'a, 't> {
        let RelabelSettings { frames_needed, frame_bytes, .. } = self.settings.relabel;
        let frames_needed = if frame_bytes == 0 { FramesNeeded::Nothing } else { frames_needed };
        ObsFilter { cameras: &self.settings.cameras, frames_needed, trunk }
    }

    /// What a rollout's context was, from the rollouts before it.
    fn context_of(&self, at: usize) -> Vec<Arc<Obs>> {
        let mut newest_first: Vec<Arc<Obs>> = Vec::new();
        let wanted = self.settings.relabel.context;
        let mut at = at;
        loop {
            newest_first.extend(self.rollouts[at].context.iter().rev().cloned());
            let before = at.checked_sub(1).map(|before| &self.rollouts[before]);
            match before.filter(|before| before.after.is_none() && newest_first.len() < wanted) {
                Some(before) => newest_first
                    .extend(before.stored_obs.iter().rev().map(|stored_obs| stored_obs.obs.clone())),
                None => break,
            }
            at -= 1;
        }
        newest_first.truncate(wanted);
        newest_first.reverse();
        newest_first
    }

    fn drop_oldest(&mut self) {
        let is_too_much = |replay: &Self| match replay.settings.keep {
            Amount::Rollouts(most) => replay.rollouts.len() > most.max(1),
            Amount::Transitions(most) => replay
                .rollouts
                .front()
                .is_some_and(|oldest| replay.transitions() - oldest.starts.len() >= most.max(1)),
        };
        while is_too_much(self) && self.rollouts.len() > 1 {
            let context = self.context_of(1);
            let Some(oldest) = self.rollouts.pop_front() else { return };
            self.frame_bytes -= self.frames_for_reward(&oldest);
            if let Some(next) = self.rollouts.front_mut().filter(|next| next.can_relabel) {
                next.context = context;
            }
        }
    }

    fn drop_frames(&mut self) {
        let mut at = 0;
        while self.frame_bytes > self.settings.relabel.frame_bytes && at < self.rollouts.len() {
            let bytes = self.frames_for_reward(&self.rollouts[at]);
            if bytes > 0 {
                self.frame_bytes -= bytes;
                self.rollouts[at].drop_frames(&self.settings.cameras);
            }
            at += 1;
        }
    }

    /// Bytes of a rollout's frames that only the reward needs.
    fn frames_for_reward(&self, stored: &StoredRollout) -> u64 {
        let stored_obs = stored.stored_obs.iter().chain(&stored.after);
        stored_obs
            .chain(stored.last.iter().map(|(_, _, stored_obs)| stored_obs))
            .map(|stored_obs| self.frames_of(stored_obs))
            .sum()
    }

    fn frames_of(&self, stored_obs: &StoredObs) -> u64 {
        let others = stored_obs.obs.cameras.iter().filter(|(name, _)| !self.settings.cameras.contains(name));
        others.map(|(_, frames)| frames.pixels.len() as u64).sum()
    }
}

/// Decides what of an observation is kept.
struct ObsFilter<'a, 't> {
    cameras: &'a [Arc<str>],
    frames_needed: FramesNeeded,
    trunk: Option<TrunkFn<'t>>,
}

impl ObsFilter<'_, '_> {
    /// `needs` is the least a reward must ask for to get the frames of this observation.
    fn observation(&mut self, mut obs: Obs, needs: FramesNeeded) -> Result<StoredObs, LearnError> {
        let features = match &mut self.trunk {
            Some(trunk) => trunk(&obs)?,
            None => Vec::new(),
        };
        if self.frames_needed < needs {
            obs.cameras.retain(|(name, _)| self.cameras.contains(name));
        }
        Ok(StoredObs { obs: Arc::new(obs), features })
    }
}
