//! Rewards from votes that add up: a bounded potential, so that going back and forth earns nothing.
//!
//! The votes of an episode's windows, each from -1 to 1, are summed; the potential is `tanh(sum / votes)`, between -1 and 1.
//! The reward of a step is `gamma * phi' - phi`. Whatever happens in between, the discounted reward of a subsegment depends on the
//! potential at its two ends alone, and votes that cancel out leave the potential where it was.

use plaudit_core::{End, FramesNeeded, Reward, RewardColumn, RewardError, Score, Segment};

use super::episodes::{EpisodeSlice, episodes};
use super::history::History;
use super::terms::{TermColumns, TermSettings};
use crate::models::{ClipRewardModel, ClipRewards, RewardModelError};

/// Rewards by what the votes of a [`ClipRewardModel`] add up to; its clip rewards are the votes.
pub struct VoteReward {
    /// How it is named and logged.
    pub term: TermSettings,
    /// The model that votes.
    pub model: Box<dyn ClipRewardModel>,
    /// Which steps have a window, and what it shows.
    pub history: History,
    /// The discount of the learner.
    pub gamma: f32,
    /// Votes that make the potential `tanh(1)`, three quarters of its bound.
    pub potential_votes: f32,
    /// What the potential is worth when the task ends an episode.
    pub at_termination: AtTermination,
    /// Steps of the longest episode, since every vote of one counts.
    pub longest_episode: usize,
    /// What the windows of an episode come to.
    pub counting: VoteCounting,
}

/// What the windows of an episode come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VoteCounting {
    /// Votes add up.
    Sum,
    /// Each says how far the episode is: the newest counts. Before the first, the potential is that of the first, so that nothing is
    /// rewarded for what nobody compared.
    Newest,
}

/// What the potential is worth when the task itself ends an episode. When the clock does, it keeps its worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AtTermination {
    /// What it was: an episode is rewarded for where it got.
    Keep,
    /// 0: the best policy is then that of the other rewards, exactly.
    Zero,
}

impl Reward for VoteReward {
    fn label(&self, segment: &Segment) -> Result<RewardColumn, RewardError> {
        let mut clips = self.history.clips_before(segment)?;
        let past = clips.len();
        clips.extend(self.history.clips(segment)?);
        let ClipRewards { rewards, version } = self.model.score(&clips)?;
        if rewards.len() != clips.len() {
            return Err(RewardModelError::Answers { asked: clips.len(), answers: rewards.len() }.into());
        }
        let mut columns = TermColumns::new(segment.end.len(), 0.0);
        let mut before: Vec<Option<f64>> = vec![None; segment.batch()];
        for (clip, clip_reward) in clips.iter().zip(&rewards).take(past) {
            let so_far = &mut before[clip.row];
            *so_far = Some(self.counted(*so_far, clip_reward.reward));
        }
        let mut has_vote = vec![false; segment.end.len()];
        for (clip, clip_reward) in clips.iter().zip(&rewards).skip(past) {
            let Some(t) = clip.t else { continue };
            let at = segment.at(t, clip.row);
            columns.reward[at] = clip_reward.reward; // a vote so far
            has_vote[at] = true;
            columns.scores[at] = clip_reward.score.map_or(0.0, Score::get);
            columns.set_word(at, clip_reward.word);
        }
        columns.bonus = segment.success.iter().map(|success| self.term.bonus(*success)).collect();
        for episode in episodes(segment) {
            let before = before[episode.row].filter(|_| episode.elapsed > 0);
            self.apply_potential(segment, &episode, before, &has_vote, &mut columns.reward);
        }
        let column = self.term.column(columns, self.model.words(), version)?;
        column.finite(segment.batch())
    }

    fn context(&self) -> usize {
        // The oldest outcome that counts is an episode's first, and the newest is the segment's first observation.
        let episode = (self.longest_episode + self.model.history_len()).saturating_sub(2);
        episode.max(self.history.context(self.model.history_len()))
    }

    fn frames_needed(&self) -> FramesNeeded {
        FramesNeeded::Everything
    }

    fn version(&self) -> u64 {
        self.model.version()
    }

    fn refresh(&self) -> Result<bool, RewardError> {
        Ok(self.model.refresh()?)
    }
}

impl VoteReward {
    /// What the windows so far come to with one more.
    fn counted(&self, so_far: Option<f64>, vote: f32) -> f64 {
        match self.counting {
            VoteCounting::Sum => so_far.unwrap_or(0.0) + f64::from(vote),
            VoteCounting::Newest => f64::from(vote),
        }
    }

    /// Replaces votes by rewards, for the steps of an episode before which windows came to `so_far`.
    fn apply_potential(
        &self,
        segment: &Segment,
        episode: &EpisodeSlice,
        mut so_far: Option<f64>,
        has_vote: &[bool],
        votes: &mut [f32],
    ) {
        for t in episode.start..episode.stop {
            let at = segment.at(t, episode.row);
            let next = if has_vote[at] { Some(self.counted(so_far, votes[at])) } else { so_far };
            let phi = match (so_far, self.counting) {
                (None, VoteCounting::Newest) => next.map_or(0.0, |first| self.potential(first)),
                (so_far, _) => self.potential(so_far.unwrap_or(0.0)),
            };
            so_far = next;
            let after = match (segment.end[at], self.at_termination) {
                (End::Terminated, AtTermination::Zero) => 0.0,
                _ => so_far.map_or(0.0, |sum| self.potential(sum)),
            };
            votes[at] = (f64::from(self.gamma) * after - phi) as f32;
        }
    }

    fn potential(&self, sum: f64) -> f64 {
        (sum / f64::from(self.potential_votes)).tanh()
    }
}
