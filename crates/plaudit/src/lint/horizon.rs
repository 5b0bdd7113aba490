//! Rules about time: when pay comes, and whether it is felt.

use super::{Findings, Remark, Severity};
use crate::config::Purpose;
use crate::config::blocks::reward::RewardMode;

/// Below this share of its worth, a reward at the end does not reach the first step.
const FELT: f64 = 0.01;

impl Findings<'_> {
    /// Steps of an episode, where the config knows.
    pub(super) fn episode_steps(&self) -> Option<u64> {
        self.loaded.config.env.train.max_episode_steps
    }

    fn pays_at_the_end_alone(&self) -> bool {
        let reward = &self.loaded.config.reward;
        self.is_paid_by_model()
            && reward.reward_mode == RewardMode::Terminal
            && reward.env_reward_weight == 0.0
    }
}

/// A reward at the end that discounting hides from the beginning.
pub(super) fn terminal_reward(findings: &mut Findings<'_>) {
    let Some(steps) = findings.episode_steps().filter(|_| findings.pays_at_the_end_alone()) else { return };
    let gamma = findings.loaded.config.algorithm.gamma;
    let felt = gamma.powi(steps.saturating_sub(1) as i32);
    if felt >= FELT {
        return;
    }
    // The discount at which the first step still feels a twentieth of the last.
    let advised = 0.05f64.powf(1.0 / steps.saturating_sub(1).max(1) as f64);
    findings.add("end-not-felt", Severity::Warning, "algorithm.gamma", Remark {
        what: format!("{gamma} over {steps} steps leaves {felt:.1e} of a reward that comes at the end"),
        why: "the first steps of an episode are told next to nothing about how it ended; only a policy that succeeds quickly learns from it".into(),
        fix: format!("choose {:.2} or more, or shorten the episodes", (advised * 100.0).ceil() / 100.0),
    });
}

/// Episodes that never end, under a reward that pays at ends.
pub(super) fn endless_episodes(findings: &mut Findings<'_>) {
    if findings.loaded.purpose != Purpose::Rl || !findings.pays_at_the_end_alone() {
        return;
    }
    let env = &findings.loaded.config.env.train;
    let rollout = env.max_steps_per_rollout_epoch;
    if env.max_episode_steps.is_none() && env.ignore_terminations {
        findings.add(
            "ends-never-come",
            Severity::Error,
            "env.train.max_episode_steps",
            Remark {
                what: "not set, terminations are ignored, and the reward pays at the end of episodes".into(),
                why: "no episode ends, so nothing is ever paid".into(),
                fix: "set env.train.max_episode_steps".into(),
            },
        );
    } else if env.max_episode_steps.is_some_and(|steps| steps > rollout) && !env.auto_reset {
        findings.add("ends-never-come", Severity::Warning, "env.train.max_steps_per_rollout_epoch", Remark {
            what: format!("rollouts of {rollout} steps, episodes of up to {}, and auto_reset: false", env.max_episode_steps.unwrap_or(0)),
            why: "where every rollout starts afresh (as in RLinf), an episode that does not succeed in time is never judged".into(),
            fix: "set auto_reset: true, or make rollouts as long as episodes".into(),
        });
    }
}
