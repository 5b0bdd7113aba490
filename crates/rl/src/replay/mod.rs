//! Experience kept for learning.
//!
//! A replay holds whole rollouts, oldest first, and draws single transitions from the newest of them. Each
//! observation is kept once: what a step led to is what the next step saw. Every rollout knows the version of the
//! reward that paid it, and keeps what a reward would need to pay it again, within a budget of memory.

mod batch;
mod memory;
mod rollout;
mod saved;

use std::collections::VecDeque;
use std::sync::Arc;

use plaudit_core::{Obs, Reward, RewardError, Rng, Segment, Watch};

pub use batch::{Transitions, Views};
pub use memory::{Filling, MemoryError};
use rollout::{Seen, Starts, Stored};
pub use saved::SavedError;

use crate::LearnError;
use crate::sight::Sight;

/// An amount of experience.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Amount {
    /// Whole rollouts, whatever their length: what RLinf calls trajectories.
    Rollouts(usize),
    /// Single transitions.
    Transitions(usize),
}

/// What a replay keeps and draws from.
#[derive(Debug, Clone, PartialEq)]
pub struct ReplaySettings {
    /// The most that is kept. Rollouts are kept or dropped as a whole.
    pub keep: Amount,
    /// The newest experience that is drawn from.
    pub window: Amount,
    /// Actions per transition.
    pub chunk: usize,
    /// The cameras that the policy looks at.
    pub cameras: Vec<Arc<str>>,
    /// What a reward needs to pay again.
    pub repay: Repay,
}

/// What is kept so that a changed reward can pay stored experience again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Repay {
    /// The frames that the reward looks at.
    pub watch: Watch,
    /// Observations before a segment that it asks for.
    pub context: usize,
    /// Bytes of frames kept for this alone; beyond it the oldest rollouts keep the pay they have.
    pub frame_bytes: u64,
}

/// Rollouts to draw transitions from.
#[derive(Debug, Clone)]
pub struct Replay {
    settings: ReplaySettings,
    rollouts: VecDeque<Stored>,
    /// Transitions that were ever added.
    added: u64,
    /// Bytes of frames that are kept for a reward alone.
    frame_bytes: u64,
}

/// A finished and paid rollout on its way into a replay.
#[derive(Debug, Clone)]
pub struct NewRollout {
    /// What happened.
    pub segment: Segment,
    /// Which steps decided anew, `[T, B]`; empty where all did.
    pub fresh: Vec<bool>,
    /// What was paid, `[T, B]`.
    pub reward: Vec<f32>,
    /// The version of the reward that paid.
    pub version: u64,
}

/// Turns observations into what a frozen trunk makes of them, `[B, F]`.
pub type Trunk<'a> = &'a mut dyn FnMut(&Obs) -> Result<Vec<f32>, LearnError>;

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

    /// How many transitions were paid by another version of the reward than this.
    pub fn paid_by_others(&self, version: u64) -> usize {
        let others = self.rollouts.iter().filter(|rollout| rollout.version != version);
        others.map(|rollout| rollout.starts.len()).sum()
    }

    /// The version of the reward that paid each kept transition, oldest first.
    pub fn versions(&self) -> impl Iterator<Item = u64> {
        self.rollouts.iter().flat_map(|rollout| std::iter::repeat_n(rollout.version, rollout.starts.len()))
    }

    /// Adds a rollout and drops what is too old. `trunk` is for policies with a frozen one.
    pub fn add(&mut self, new: NewRollout, trunk: Option<Trunk<'_>>) -> Result<(), LearnError> {
        let mut stored = self.store(new, trunk)?;
        let continues = self.rollouts.back().and_then(|newest| newest.after.as_ref());
        if continues.is_some_and(|after| after.obs == stored.seen[0].obs) {
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

    /// Adds a rollout as these eyes see it.
    pub(crate) fn add_seen(&mut self, new: NewRollout, sight: Option<&Sight>) -> Result<(), LearnError> {
        match sight.filter(|sight| sight.trunk().is_some()) {
            Some(sight) => self.add(new, Some(&mut |obs| Ok(sight.look_through_trunk(obs)?))),
            None => self.add(new, None),
        }
    }

    /// Draws up to `count` transitions, each as likely as any other, and adds them to `to`. Where fewer are there,
    /// that many are drawn; the same one may come twice.
    pub fn sample(&self, count: usize, rng: &mut Rng, to: &mut Transitions) {
        let available = self.window();
        for _ in 0..count.min(available) {
            self.gather(self.added - available as u64 + rng.below(available) as u64, to);
        }
    }

    /// How many transitions are drawn from.
    pub fn window(&self) -> usize {
        let first_of = |rollout: Option<&Stored>| rollout.map_or(self.added, |stored| stored.first);
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

    /// Pays again whatever another version of the reward has paid and can still be paid. Returns how many steps.
    pub fn repay(&mut self, reward: &dyn Reward) -> Result<usize, LearnError> {
        let version = reward.version();
        let mut paid = 0;
        for at in 0..self.rollouts.len() {
            let stored = &self.rollouts[at];
            if stored.version == version || !stored.payable {
                continue;
            }
            let next = self.rollouts.get(at + 1).and_then(|next| next.seen.first());
            let column = match reward.label(&stored.segment(next, self.context_of(at))) {
                Ok(column) => column,
                // Lived under a reward that looked at less: it keeps the pay it has.
                Err(RewardError::Camera { .. } | RewardError::Context { .. }) => {
                    self.rollouts[at].payable = false;
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            paid += column.total.len();
            let stored = &mut self.rollouts[at];
            stored.reward = column.total;
            stored.version = column.version;
        }
        Ok(paid)
    }

    /// Adds transition `number`, counted since the replay began.
    fn gather(&self, number: u64, to: &mut Transitions) {
        let at = self.rollouts.partition_point(|rollout| rollout.first <= number) - 1;
        let stored = &self.rollouts[at];
        let next = self.rollouts.get(at + 1).and_then(|next| next.seen.first());
        let ReplaySettings { chunk, cameras, .. } = &self.settings;
        stored.gather((number - stored.first) as usize, next, *chunk, cameras, to);
    }

    fn store(&self, new: NewRollout, trunk: Option<Trunk<'_>>) -> Result<Stored, LearnError> {
        let NewRollout { segment, fresh, reward, version } = new;
        let batch = segment.batch();
        let starts = Starts::of(&segment.end, &fresh, batch, self.settings.chunk);
        let mut keep = self.keeper(trunk);
        let mut seen = Vec::with_capacity(segment.obs.len());
        for obs in segment.obs {
            seen.push(keep.observation(obs, Watch::Everything)?);
        }
        let mut last = Vec::with_capacity(segment.last.len());
        for (t, row, obs) in segment.last {
            last.push((t, row, keep.observation(obs, Watch::Ends)?));
        }
        let after = seen.pop();
        Ok(Stored {
            first: self.added,
            starts,
            seen,
            after,
            last,
            actions: segment.actions,
            env_reward: segment.env_reward,
            end: segment.end,
            success: segment.success,
            reward,
            version,
            payable: self.settings.repay.watch == Watch::Nothing || self.settings.repay.frame_bytes > 0,
            context: if self.settings.repay.context > 0 { segment.context } else { Vec::new() },
            elapsed: segment.elapsed,
        })
    }

    fn keeper<'a, 't>(&'a self, trunk: Option<Trunk<'t>>) -> Keeper<'a, 't> {
        let Repay { watch, frame_bytes, .. } = self.settings.repay;
        let watch = if frame_bytes == 0 { Watch::Nothing } else { watch };
        Keeper { cameras: &self.settings.cameras, watch, trunk }
    }

    /// What a rollout's context was, from the rollouts before it.
    fn context_of(&self, at: usize) -> Vec<Arc<Obs>> {
        let mut newest_first: Vec<Arc<Obs>> = Vec::new();
        let wanted = self.settings.repay.context;
        let mut at = at;
        loop {
            newest_first.extend(self.rollouts[at].context.iter().rev().cloned());
            let before = at.checked_sub(1).map(|before| &self.rollouts[before]);
            match before.filter(|before| before.after.is_none() && newest_first.len() < wanted) {
                Some(before) => newest_first.extend(before.seen.iter().rev().map(|seen| seen.obs.clone())),
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
            if let Some(next) = self.rollouts.front_mut().filter(|next| next.payable) {
                next.context = context;
            }
        }
    }

    fn drop_frames(&mut self) {
        let mut at = 0;
        while self.frame_bytes > self.settings.repay.frame_bytes && at < self.rollouts.len() {
            let bytes = self.frames_for_reward(&self.rollouts[at]);
            if bytes > 0 {
                self.frame_bytes -= bytes;
                self.rollouts[at].drop_frames(&self.settings.cameras);
            }
            at += 1;
        }
    }

    /// Bytes of a rollout's frames that no policy looks at.
    fn frames_for_reward(&self, stored: &Stored) -> u64 {
        let seen = stored.seen.iter().chain(&stored.after);
        seen.chain(stored.last.iter().map(|(_, _, seen)| seen)).map(|seen| self.frames_of(seen)).sum()
    }

    fn frames_of(&self, seen: &Seen) -> u64 {
        let others = seen.obs.cameras.iter().filter(|(name, _)| !self.settings.cameras.contains(name));
        others.map(|(_, frames)| frames.pixels.len() as u64).sum()
    }
}

/// Decides what of an observation is kept.
struct Keeper<'a, 't> {
    cameras: &'a [Arc<str>],
    watch: Watch,
    trunk: Option<Trunk<'t>>,
}

impl Keeper<'_, '_> {
    /// `needs` is the least a reward must watch to look at this observation.
    fn observation(&mut self, mut obs: Obs, needs: Watch) -> Result<Seen, LearnError> {
        let features = match &mut self.trunk {
            Some(trunk) => trunk(&obs)?,
            None => Vec::new(),
        };
        if self.watch < needs {
            obs.cameras.retain(|(name, _)| self.cameras.contains(name));
        }
        Ok(Seen { obs: Arc::new(obs), features })
    }
}
