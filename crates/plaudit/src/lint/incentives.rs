//! Rules about what a reward encourages.

use super::{Findings, Remark, Severity};
use crate::config::blocks::reward::{CombineMode, RewardMode};

/// Windows that reward progress more than they penalise its undoing.
pub(super) fn dithering(findings: &mut Findings<'_>) {
    let config = &findings.loaded.config;
    let (reward, parser) = (&config.reward, &config.reward.model.reward_parser_params);
    let is_window_judge = reward.model.model_type.scores_windows();
    let swing = (parser.positive_reward + parser.negative_reward) * reward.reward_weight;
    let adds_up = reward.reward_mode == RewardMode::Potential;
    if !findings.uses_reward_model() || !is_window_judge || adds_up || swing <= 0.0 {
        return;
    }
    let steps = findings.episode_steps().unwrap_or(50);
    let interval = |buffer: &crate::config::blocks::reward::HistoryBuffer| {
        buffer.input_interval.unwrap_or(buffer.history_size)
    };
    let interval = reward.model.history_buffers.values().map(interval).max().unwrap_or(1).max(1);
    let per_episode = swing * (steps / interval / 2) as f64;
    let key = "reward.model.reward_parser_params.negative_reward";
    findings.add("rewards-dithering", Severity::Warning, key, Remark {
        what: format!(
            "a step forth earns {}, its undoing costs {}: each cycle leaves {swing:.2}",
            parser.positive_reward, -parser.negative_reward
        ),
        why: format!(
            "going back and forth for an episode of {steps} steps, a window every {interval}, earns {per_episode:.1} without getting anywhere"
        ),
        fix: format!(
            "set negative_reward: {}, or reward_mode: potential, under which a cycle earns nothing",
            -parser.positive_reward
        ),
    });
}

/// Simulator ground truth inside a reward that is said to be learned.
pub(super) fn ground_truth_in_reward(findings: &mut Findings<'_>) {
    let reward = &findings.loaded.config.reward;
    if !findings.uses_reward_model() {
        return;
    }
    let learned_alone = reward.combine_mode == CombineMode::Replace
        || (reward.combine_mode == CombineMode::Weighted && reward.env_reward_weight == 0.0);
    let bonus = reward.model.gt_success_bonus;
    if bonus != 0.0 {
        let else_from =
            if learned_alone { "the model" } else { "the model and the environment's own reward" };
        findings.add("ground-truth-in-reward", Severity::Warning, "reward.model.gt_success_bonus", Remark {
            what: format!("{bonus} comes from simulator ground truth, and everything else from {else_from}"),
            why: "a curve that rises may then show the bonus and not the model; on a robot there is no ground truth".into(),
            fix: "set it to 0 to learn from the model alone".into(),
        });
    }
    if !learned_alone {
        let key = match reward.combine_mode {
            CombineMode::Add => "reward.combine_mode",
            _ => "reward.env_reward_weight",
        };
        findings.add(
            "env-reward-beside-model",
            Severity::Note,
            key,
            Remark {
                what: "the environment's own reward is added".into(),
                why: "success then says little about the learned reward".into(),
                fix: "keep it if that is meant; otherwise combine_mode: replace".into(),
            },
        );
    }
}
