//! Stand-ins for reward models, so that the rules of a reward can be simulated and nothing has to be opened.
//!
//! A simulated state has two numbers: the score that a model would give, and whether conditions on the state hold.

use std::sync::Arc;

use plaudit_core::{EnvSpec, Score};
use plaudit_reward::trend::{Trend, TrendReward};
use plaudit_reward::{
    Clip, ClipReward, ClipRewardModel, ClipRewards, FrameRewardModel, FrameStack, RewardModelError,
};

use crate::config::blocks::reward::{RewardTerm, TermSource};

/// Where a simulated state has the score of the model.
const SCORE: usize = 0;
/// Where it says that conditions on the state hold.
const CONDITIONS: usize = 1;
/// Numbers of a simulated state.
pub(crate) const SIMULATED_STATE_WIDTH: usize = 2;
/// Scores that differ by less show neither progress nor its undoing.
const SAME_SCORE: f32 = 1e-3;

/// What stands in for the models of a config.
#[derive(Clone, Copy)]
pub(crate) struct StandIns<'a> {
    /// The threshold that the model of a term brings along.
    pub(crate) own_threshold: &'a dyn Fn(&RewardTerm) -> Option<f32>,
}

impl StandIns<'_> {
    pub(super) fn frame_model(self, term: &RewardTerm) -> SimulatedFrameModel {
        match term.source {
            TermSource::Model => SimulatedFrameModel { number: SCORE, threshold: (self.own_threshold)(term) },
            TermSource::State => SimulatedFrameModel { number: CONDITIONS, threshold: Some(0.5) },
        }
    }
}

/// A simulated environment with episodes of so many steps.
pub(crate) fn simulated_spec(steps: usize) -> EnvSpec {
    EnvSpec {
        id: "simulation".into(),
        num_envs: 1,
        state_width: SIMULATED_STATE_WIDTH,
        state_parts: Vec::new(),
        actions: plaudit_core::ActionSpace::Discrete { n: 1 },
        cameras: Vec::new(),
        max_episode_steps: Some(steps),
        control_hz: 20.0,
    }
}

/// Gives the score that a state holds.
pub(super) struct SimulatedFrameModel {
    number: usize,
    threshold: Option<f32>,
}

impl FrameRewardModel for SimulatedFrameModel {
    fn cameras(&self) -> &[Arc<str>] {
        &[]
    }

    fn scores(&self, frames: &[FrameStack<'_>]) -> Result<Vec<Score>, RewardModelError> {
        let score = |(frame, stack): (usize, &FrameStack<'_>)| {
            let value = stack.now().state[self.number];
            Score::new(value).ok_or(RewardModelError::NotAScore { value, frame })
        };
        frames.iter().enumerate().map(score).collect()
    }

    fn threshold(&self) -> Option<f32> {
        self.threshold
    }
}

/// A judge that is never wrong: a window shows progress if its last score is above its first.
pub(super) struct SimulatedJudge {
    pub(super) reward: TrendReward,
}

impl ClipRewardModel for SimulatedJudge {
    fn score(&self, clips: &[Clip<'_>]) -> Result<ClipRewards, RewardModelError> {
        let clip_reward = |clip: &Clip<'_>| {
            let trend = trend(clip);
            let reward = self.reward.of_label(trend);
            ClipReward { reward, success: false, score: None, word: Some(trend.word()) }
        };
        Ok(ClipRewards { rewards: clips.iter().map(clip_reward).collect(), version: 0 })
    }

    fn sees_success(&self) -> bool {
        false
    }
}

fn trend(clip: &Clip<'_>) -> Trend {
    let longest = clip.buffers.iter().max_by_key(|buffer| buffer.frames.len());
    let ends = longest.and_then(|buffer| Some((buffer.frames.first()?, buffer.frames.last()?)));
    let change = ends.map_or(0.0, |(first, last)| last.obs.state[SCORE] - first.obs.state[SCORE]);
    match change {
        change if change > SAME_SCORE => Trend::Positive,
        change if change < -SAME_SCORE => Trend::Negative,
        _ => Trend::Unclear,
    }
}
