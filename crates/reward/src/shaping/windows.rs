//! Rewards from windows of past frames.

use std::sync::Arc;

use plaudit_core::{FramesNeeded, Reward, RewardColumn, RewardError, Score, Segment};

use super::history::{Clip, ClipFrame, History};
use super::scores::Scores;
use super::temporal::{Latch, RewardKind, Rule, SuccessThreshold};
use super::terms::{TermColumns, TermSettings};
use crate::models::{ClipReward, ClipRewardModel, ClipRewards, ReloadableModel, RewardModelError};

/// Rewards by the answers of a [`ClipRewardModel`] for windows.
pub struct WindowReward {
    /// How it is named and logged.
    pub term: TermSettings,
    /// The reward model.
    pub model: Box<dyn ClipRewardModel>,
    /// Which steps have a window, and what it shows.
    pub history: History,
    /// Reward of steps without a window.
    pub interval_reward: f32,
    /// Whether a window's reward goes to each of its steps, not to the last alone. What would go to steps from before the
    /// segment is dropped: they are gone.
    pub to_every_step: bool,
}

impl Reward for WindowReward {
    fn label(&self, segment: &Segment) -> Result<RewardColumn, RewardError> {
        let clips = self.history.clips(segment)?;
        let ClipRewards { rewards, version } = self.model.score(&clips)?;
        if rewards.len() != clips.len() {
            return Err(RewardModelError::Answers { asked: clips.len(), answers: rewards.len() }.into());
        }
        let mut columns = TermColumns::new(segment.end.len(), self.interval_reward);
        for (clip, clip_reward) in clips.iter().zip(&rewards) {
            let Some(t) = clip.t else { continue };
            let at = segment.at(t, clip.row);
            columns.set_word(at, clip_reward.word);
            columns.reward[at] = clip_reward.reward;
            columns.scores[at] = clip_reward.score.map_or(0.0, Score::get);
            columns.success[at] = clip_reward.success;
        }
        columns.bonus = segment.success.iter().map(|success| self.term.bonus(*success)).collect();
        if self.to_every_step {
            columns.reward = spread(segment, &clips, &columns.reward);
            columns.bonus = spread(segment, &clips, &columns.bonus);
        }
        let success = self.model.sees_success().then(|| std::mem::take(&mut columns.success));
        let column = self.term.column(columns, self.model.words(), version)?;
        RewardColumn { success, ..column }.finite(segment.batch())
    }

    fn context(&self) -> usize {
        self.history.context(self.model.history_len())
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

/// Adds the reward of each window's last step to its other steps.
fn spread(segment: &Segment, clips: &[Clip<'_>], rewards: &[f32]) -> Vec<f32> {
    let mut total = rewards.to_vec();
    for clip in clips {
        let Some(t) = clip.t else { continue };
        let amount = rewards[segment.at(t, clip.row)];
        for back in (1..clip.length()).take_while(|back| *back <= t) {
            total[segment.at(t - back, clip.row)] += amount;
        }
    }
    total
}

/// A frame model that scores windows, by the mean score of their frames.
pub struct MeanScoreModel {
    /// The model of frames.
    pub model: Arc<ReloadableModel>,
    /// The mean above which a window shows success; not set: the model's own.
    pub threshold: SuccessThreshold,
    /// How a score becomes a reward.
    pub kind: RewardKind,
}

impl ClipRewardModel for MeanScoreModel {
    fn score(&self, clips: &[Clip<'_>]) -> Result<ClipRewards, RewardModelError> {
        let current = self.model.current();
        let Some(first) = clips.first() else {
            return Ok(ClipRewards { rewards: Vec::new(), version: current.version });
        };
        let mut scores = Scores::new(&*current.model, first.segment);
        scores.ask(clips.iter().flat_map(frames).map(|frame| frame.index))?;
        let rule = Rule { latch: Latch::Threshold(self.threshold), ..Rule::default() };
        let own = current.model.threshold();
        let (level, filtered) = (rule.thresholds(own), rule.filters(own));
        let clip_reward = |clip: &Clip<'_>| {
            let score = mean(frames(clip).map(|frame| scores.of(frame.index)))?;
            let success = level.decides(score) == Some(true);
            let reward = self.kind.amount(score, success, filtered);
            Ok(ClipReward { reward, success, score: Some(score), word: None })
        };
        let rewards = clips.iter().map(clip_reward).collect::<Result<_, RewardModelError>>()?;
        Ok(ClipRewards { rewards, version: current.version })
    }

    fn sees_success(&self) -> bool {
        true
    }

    fn history_len(&self) -> usize {
        self.model.current().model.history_len()
    }

    fn version(&self) -> u64 {
        self.model.current().version
    }

    fn refresh(&self) -> Result<bool, RewardModelError> {
        self.model.refresh()
    }
}

fn frames<'c, 'a>(clip: &'c Clip<'a>) -> impl Iterator<Item = &'c ClipFrame<'a>> {
    clip.buffers.iter().flat_map(|buffer| &buffer.frames)
}

fn mean(scores: impl Iterator<Item = Score>) -> Result<Score, RewardModelError> {
    let (mut sum, mut count) = (0.0, 0);
    for score in scores {
        (sum, count) = (sum + f64::from(score.get()), count + 1);
    }
    let value = (sum / f64::from(count)) as f32;
    Score::new(value).ok_or(RewardModelError::NotAScore { value, frame: 0 })
}
