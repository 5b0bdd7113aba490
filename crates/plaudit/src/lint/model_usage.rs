//! Rules about how a reward model is used.

use super::checkpoint::input_size;
use super::{Findings, Remark, Severity};
use crate::config::blocks::env::EnvType;
use crate::config::blocks::reward::{RewardMode, RewardType, WorkerType};

/// A reward without a model.
pub(super) fn missing(findings: &mut Findings<'_>) {
    let reward = &findings.loaded.config.reward;
    if !findings.uses_reward_model()
        || reward.worker_type == WorkerType::Api
        || reward.model.model_path.is_some()
    {
        return;
    }
    findings.add(
        "no-model",
        Severity::Error,
        "reward.model.model_path",
        Remark {
            what: "use_reward_model is true and no weights are named".into(),
            why: "an untrained network would give random rewards; plaudit refuses to start".into(),
            fix: "train one with `plaudit reward train` and give its best_model folder".into(),
        },
    );
}

/// Thresholds that are never applied, or that RLinf did not apply.
pub(super) fn threshold(findings: &mut Findings<'_>) {
    let (loaded, key) = (findings.loaded, "reward.reward_threshold");
    if !loaded.is_written(key) {
        return;
    }
    let reward = &loaded.config.reward;
    if !reward.use_reward_model {
        findings.add(
            "threshold-unapplied",
            Severity::Note,
            key,
            Remark {
                what: "no model is used, so nothing is compared with it".into(),
                why: "a reader of this config will believe that it matters".into(),
                fix: "remove it, or set reward.use_reward_model: true".into(),
            },
        );
    } else if reward.model.model_type.scores_windows() {
        findings.add("threshold-unapplied", Severity::Warning, key, Remark {
            what: "a judge's answers are not compared with it".into(),
            why: "its rewards come from reward_parser_params, whatever the threshold says".into(),
            fix: "set the reward of each answer in reward.model.reward_parser_params, and remove the threshold".into(),
        });
    } else if findings.is_from_rlinf() {
        findings.add("threshold-unapplied", Severity::Warning, key, Remark {
            what: "RLinf reads it and never applies it; plaudit does".into(),
            why: "RLinf's runs were rewarded with raw probabilities, also far below the threshold: curves will differ".into(),
            fix: "keep it; to reproduce RLinf's rewards, set it to 0".into(),
        });
    }
}

/// Success decided by comparing a probability with 1.
pub(super) fn equality(findings: &mut Findings<'_>) {
    let reward = &findings.loaded.config.reward;
    if findings.uses_reward_model()
        && reward.standalone_realworld
        && reward.reward_type == RewardType::Continuous
    {
        findings.add("success-by-equality", Severity::Note, "reward.reward_type", Remark {
            what: "continuous, and on the robot the model alone decides about success".into(),
            why: "to RLinf success is a reward of exactly 1.0, which a probability never quite reaches; plaudit compares it with reward_threshold".into(),
            fix: "nothing to do here; for RLinf set reward_type: binary".into(),
        });
    }
}

/// Cameras and models of different sizes.
pub(super) fn image_size(findings: &mut Findings<'_>) {
    let config = &findings.loaded.config;
    let is_here = config.reward.worker_type == WorkerType::Local; // a server knows the size of its own model
    if !findings.uses_reward_model() || !is_here || !config.reward.model.model_type.is_image_classifier() {
        return;
    }
    if config.reward.model.model_type.is_custom() {
        return; // its file or its author says what it makes of images
    }
    let env = &config.env.train;
    let (sensor, side) = (&env.init_params.sensor_configs, env.override_cfg.image_side as usize);
    let (rendered, key) = match env.env_type {
        EnvType::Realworld => ((side, side), "env.train.override_cfg.image_side"),
        _ => {
            let key = "env.train.init_params.sensor_configs";
            ((sensor.height.unwrap_or(128), sensor.width.unwrap_or(128)), key)
        }
    };
    let [_, height, width] = input_size(findings.loaded, "reward.model", &config.reward.model);
    if rendered != (height, width) {
        findings.add(
            "image-size-differs",
            Severity::Warning,
            "reward.model.image_size",
            Remark {
                what: format!(
                    "the model takes {height}x{width} and the camera renders {}x{}",
                    rendered.0, rendered.1
                ),
                why: "every frame is resized, which costs time and blurs what the model learned from".into(),
                fix: format!("let cameras have the model's size ({key}), or train at the camera's"),
            },
        );
    }
}

/// A monitor that never gets to check.
pub(super) fn monitor(findings: &mut Findings<'_>) {
    let every = findings.loaded.config.reward.hacking_monitor.every;
    let why = "the hacking monitor is on and never checks anything";
    beyond_the_run(findings, "monitor-never-checks", "reward.hacking_monitor.every", every, why);
}

/// A model that is to learn while the policy does, and never does.
pub(super) fn online(findings: &mut Findings<'_>) {
    let every = findings.loaded.config.reward.online.every;
    let why = "the reward model is to learn in the run and never does";
    beyond_the_run(findings, "online-never-learns", "reward.online.every", every, why);
}

/// Something that is done every so many updates, and not once in the run.
fn beyond_the_run(findings: &mut Findings<'_>, code: &'static str, key: &str, every: u64, why: &str) {
    let runner = &findings.loaded.config.runner;
    let limits = [runner.max_epochs, runner.max_steps].into_iter();
    let Some(last) = limits.filter_map(|limit| u64::try_from(limit).ok()).min() else { return };
    if findings.uses_reward_model() && every > last {
        let remark = Remark {
            what: format!("every {every} updates, and the run has {last}"),
            why: why.into(),
            fix: format!("set it to {} or so, or to 0 to go without", (last / 10).max(1)),
        };
        findings.add(code, Severity::Warning, key, remark);
    }
}

/// Windows that stop RLinf, and windows that are never used.
pub(super) fn windows(findings: &mut Findings<'_>) {
    let loaded = findings.loaded;
    let reward = &loaded.config.reward;
    if !findings.uses_reward_model() {
        return;
    }
    let adds_votes = reward.main_term().judges_windows() && reward.reward_mode == RewardMode::Potential;
    let looks = reward.reward_mode == RewardMode::HistoryBuffer || adds_votes;
    if !reward.model.history_buffers.is_empty() && !looks {
        findings.add(
            "windows-unused",
            Severity::Warning,
            "reward.reward_mode",
            Remark {
                what: format!(
                    "`{}` does not look at reward.model.history_buffers",
                    reward.reward_mode.word()
                ),
                why: "the windows are never filled".into(),
                fix: "set reward_mode: history_buffer".into(),
            },
        );
    }
    for (name, buffer) in &reward.model.history_buffers {
        if findings.is_from_rlinf() && buffer.input_interval.unwrap_or(buffer.history_size) > 1 {
            let key = format!("reward.model.history_buffers.{name}.input_interval");
            findings.add("interval-stops-rlinf", Severity::Note, &key, Remark {
                what: "above 1".into(),
                why: "RLinf's worker stops at the first step without a window; plaudit gives interval_reward there".into(),
                fix: "nothing to do here; set it to 1 for RLinf".into(),
            });
        }
    }
}
