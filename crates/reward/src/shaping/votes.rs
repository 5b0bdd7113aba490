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
        let mut before = vec![0.0; segment.batch()];
        for (clip, clip_reward) in clips.iter().zip(&rewards).take(past) {
            before[clip.row] += f64::from(clip_reward.reward);
        }
        for (clip, clip_reward) in clips.iter().zip(&rewards).skip(past) {
            let Some(t) = clip.t else { continue };
            let at = segment.at(t, clip.row);
            columns.reward[at] = clip_reward.reward; // a vote so far
            columns.scores[at] = clip_reward.score.map_or(0.0, Score::get);
            columns.set_word(at, clip_reward.word);
        }
        columns.bonus = segment.success.iter().map(|success| self.term.bonus(*success)).collect();
        for episode in episodes(segment) {
            let before = if episode.elapsed > 0 { before[episode.row] } else { 0.0 };
            self.apply_potential(segment, &episode, before, &mut columns.reward);
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
    /// Replaces votes by rewards, for the steps of an episode before which votes came to `sum`.
    fn apply_potential(&self, segment: &Segment, episode: &EpisodeSlice, mut sum: f64, votes: &mut [f32]) {
        for t in episode.start..episode.stop {
            let at = segment.at(t, episode.row);
            let phi = self.potential(sum);
            sum += f64::from(votes[at]);
            let after = match (segment.end[at], self.at_termination) {
                (End::Terminated, AtTermination::Zero) => 0.0,
                _ => self.potential(sum),
            };
            votes[at] = (f64::from(self.gamma) * after - phi) as f32;
        }
    }

    fn potential(&self, sum: f64) -> f64 {
        (sum / f64::from(self.potential_votes)).tanh()
    }
}
