//! Rules about time: when rewards come, and whether discounting leaves anything of them.

use super::{Findings, Remark, Severity};
use crate::config::Purpose;
use crate::config::blocks::reward::RewardMode;

/// Below this share of its worth, a reward at the end does not reach the first step.
const MIN_SHARE: f64 = 0.01;

impl Findings<'_> {
    /// Steps of an episode, where the config knows.
    pub(super) fn episode_steps(&self) -> Option<u64> {
        self.loaded.config.env.train.max_episode_steps
    }

    fn rewards_only_at_end(&self) -> bool {
        let reward = &self.loaded.config.reward;
        self.uses_reward_model()
            && reward.reward_mode == RewardMode::Terminal
            && reward.env_reward_weight == 0.0
    }
}

/// A reward at the end that discounting hides from the beginning.
pub(super) fn terminal_reward(findings: &mut Findings<'_>) {
    let Some(steps) = findings.episode_steps().filter(|_| findings.rewards_only_at_end()) else { return };
    let gamma = findings.loaded.config.algorithm.gamma;
    let remaining = gamma.powi(steps.saturating_sub(1) as i32);
    if remaining >= MIN_SHARE {
        return;
    }
    // The discount at which the first step still gets a twentieth of the last.
    let advised = 0.05f64.powf(1.0 / steps.saturating_sub(1).max(1) as f64);
    findings.add("terminal-reward-vanishes", Severity::Warning, "algorithm.gamma", Remark {
        what: format!("{gamma} over {steps} steps leaves {remaining:.1e} of a reward that comes at the end"),
        why: "almost nothing of the reward reaches the first steps of an episode; only a policy that succeeds quickly learns from it".into(),
        fix: format!("choose {:.2} or more, or shorten the episodes", (advised * 100.0).ceil() / 100.0),
    });
}

/// Episodes that never end, under a terminal reward.
pub(super) fn endless_episodes(findings: &mut Findings<'_>) {
    if findings.loaded.purpose != Purpose::Rl || !findings.rewards_only_at_end() {
        return;
    }
    let env = &findings.loaded.config.env.train;
    let rollout = env.max_steps_per_rollout_epoch;
    if env.max_episode_steps.is_none() && env.ignore_terminations {
        findings.add(
            "episodes-never-end",
            Severity::Error,
            "env.train.max_episode_steps",
            Remark {
                what: "not set, terminations are ignored, and the reward comes at the end of episodes".into(),
                why: "no episode ends, so there is never a reward".into(),
                fix: "set env.train.max_episode_steps".into(),
            },
        );
    } else if env.max_episode_steps.is_some_and(|steps| steps > rollout) && !env.auto_reset {
        findings.add("episodes-never-end", Severity::Warning, "env.train.max_steps_per_rollout_epoch", Remark {
            what: format!("rollouts of {rollout} steps, episodes of up to {}, and auto_reset: false", env.max_episode_steps.unwrap_or(0)),
            why: "where every rollout starts afresh (as in RLinf), an episode that does not succeed in time is never scored".into(),
            fix: "set auto_reset: true, or make rollouts as long as episodes".into(),
        });
    }
}
