//! What no single key can know: values that do not go together. The range of a single key stands in its declaration.

use plaudit_compose::{ComposeError, ErrorKind, Node};

use super::block::Fill;
use super::blocks::actor::{ModelType, PolicySetup};
use super::blocks::algorithm::LossType;
use super::blocks::cluster::Placement;
use super::blocks::env::{EnvSettings, EnvType};
use super::blocks::reward::{
    CompareWith, Hysteresis, RewardMode, RewardSettings, RewardTerm, TermSource, WorkerType,
};
use super::blocks::runner::{LoggerBackend, TaskType};
use super::{Config, Notice, Purpose, edit, range};

/// Completes what follows from other keys, refuses what cannot be, and says what deserves a word.
pub(crate) fn check(config: &mut Config, tree: &Node) -> Result<Vec<Notice>, ComposeError> {
    derive(config, tree);
    let checker = Checker { tree };
    checker.numbers()?;
    range::check_written(tree)?;
    checker.groups(config)?;
    checker.batches(config)?;
    checker.rewards(config)?;
    checker.placements(config)?;
    Ok(notices(config, tree))
}

/// What a config is for, as far as it says.
pub(crate) fn purpose(config: &Config, tree: &Node) -> Result<Purpose, ComposeError> {
    match (config.runner.task_type, config.actor.model.model_type) {
        (TaskType::Embodied | TaskType::EmbodiedEval, _) => Ok(Purpose::Rl),
        (TaskType::Sft, ModelType::Resnet | ModelType::Progress) => Ok(Purpose::RewardTraining),
        (TaskType::Sft, ModelType::Qwen3Vl | ModelType::Foreign) => Ok(Purpose::JudgeTuning),
        (TaskType::Sft, other) => {
            let message = format!("supervised training is for reward models, not for `{}`", other.word());
            let hint = "set actor.model.model_type to resnet, progress or qwen3_vl";
            Err(Checker { tree }.problem("actor.model.model_type", message, hint))
        }
    }
}

/// Values that follow from other keys.
fn derive(config: &mut Config, tree: &Node) {
    // RLinf's SAC is Adam without decay; only PPO and supervised training decay by default.
    if config.algorithm.loss_type == LossType::Sac {
        let (optim, critic_optim) = (&mut config.actor.optim, config.actor.critic_optim.as_mut());
        for (key, optim) in [("optim", Some(optim)), ("critic_optim", critic_optim)] {
            let is_written = edit::get(tree, &format!("actor.{key}.weight_decay")).is_some();
            if let Some(optim) = optim.filter(|_| !is_written) {
                optim.weight_decay = 0.0;
            }
        }
    }
    for env in [&mut config.env.train, &mut config.env.eval] {
        env.total_num_envs = env.total_num_envs.or(env.init_params.num_envs);
        env.max_episode_steps = env.max_episode_steps.or(env.init_params.max_episode_steps);
    }
    control_by_policy(config, tree);
}

/// RLinf's `policy_setup` decides what an action means, whatever `control_mode` says. One that nobody wrote decides
/// only where nothing else does.
fn control_by_policy(config: &mut Config, tree: &Node) {
    let Some(mode) = control_of(config.actor.model.policy_setup) else { return };
    let is_written = edit::is_set(tree, "actor.model.policy_setup");
    for env in [&mut config.env.train, &mut config.env.eval] {
        let control = &mut env.init_params.control_mode;
        if env.env_type == EnvType::Maniskill && (is_written || control.is_none()) {
            *control = Some(mode.into());
        }
    }
}

/// ManiSkill's name for the actions of a policy.
fn control_of(setup: PolicySetup) -> Option<&'static str> {
    match setup {
        PolicySetup::PandaQpos => Some("pd_joint_delta_pos"),
        PolicySetup::PandaEeDpos => Some("pd_ee_delta_pos"),
        PolicySetup::PandaEeDpose => Some("pd_ee_delta_pose"),
        PolicySetup::PandaEeTargetDpose => Some("pd_ee_target_delta_pose"),
        PolicySetup::Other => None,
    }
}

/// A problem with the value of a key, at the place where it, or the nearest block around it, was written.
pub(crate) fn problem(tree: &Node, key: &str, message: String, hint: &str) -> ComposeError {
    let error = ComposeError::new(ErrorKind::Invalid { message }).or_key(key).or_hint(hint);
    let mut path = key;
    loop {
        match (edit::get(tree, path), path.rsplit_once('.')) {
            (Some(node), _) => return error.or_origin(&node.origin),
            (None, Some((parent, _))) => path = parent,
            (None, None) => return error,
        }
    }
}

struct Checker<'a> {
    tree: &'a Node,
}

impl Checker<'_> {
    fn problem(&self, key: &str, message: String, hint: &str) -> ComposeError {
        problem(self.tree, key, message, hint)
    }

    /// A number that is not one is always a mistake.
    fn numbers(&self) -> Result<(), ComposeError> {
        for (path, node) in self.tree.leaves() {
            if node.as_f64().is_some_and(f64::is_nan) {
                return Err(self.problem(&path, "it is not a number (NaN)".into(), "write a number"));
            }
        }
        Ok(())
    }

    /// Environments that share a start state come in whole groups.
    fn groups(&self, config: &Config) -> Result<(), ComposeError> {
        for (path, env) in [("env.train", &config.env.train), ("env.eval", &config.env.eval)] {
            if let Some(number) = env.total_num_envs
                && !(number as u64).is_multiple_of(env.group_size)
            {
                let message =
                    format!("{number} environments do not divide into groups of {}", env.group_size);
                let hint = "make total_num_envs a multiple of group_size";
                return Err(self.problem(&format!("{path}.group_size"), message, hint));
            }
        }
        Ok(())
    }

    fn batches(&self, config: &Config) -> Result<(), ComposeError> {
        let (global, micro) = (config.actor.global_batch_size, config.actor.micro_batch_size);
        // A batch smaller than what fits at once goes through whole.
        if global > micro && !global.is_multiple_of(micro) {
            let message = format!("global_batch_size {global} is no multiple of micro_batch_size {micro}");
            let hint = "make the global batch a whole number of micro batches";
            return Err(self.problem("actor.global_batch_size", message, hint));
        }
        Ok(())
    }
}

impl Checker<'_> {
    /// What a learned reward needs, where one is used.
    fn rewards(&self, config: &Config) -> Result<(), ComposeError> {
        let reward = &config.reward;
        for (path, term) in learned_terms(reward) {
            self.term(&path, &term)?;
        }
        if let (false, Some(name)) = (reward.use_reward_model, reward.terms.keys().next()) {
            let message = "a further reward term without a reward model".into();
            let hint = "set reward.use_reward_model to true, or remove the terms";
            return Err(self.problem(&format!("reward.terms.{name}"), message, hint));
        }
        if !reward.use_reward_model {
            return Ok(());
        }
        if let Some(name) = reward.terms.keys().find(|name| matches!(name.as_str(), "model" | "env")) {
            let message = format!("`{name}` is the name of a term that is always there");
            return Err(self.problem(&format!("reward.terms.{name}"), message, "choose another name"));
        }
        for (path, term) in learned_terms(reward) {
            self.windows_in_use(&path, &term)?;
        }
        self.hacking_monitor_in_use(reward)?;
        self.online_in_use(reward)
    }

    /// What monitoring needs, where it is on.
    fn hacking_monitor_in_use(&self, reward: &RewardSettings) -> Result<(), ComposeError> {
        let watch = &reward.hacking_monitor;
        if !watch.is_on() {
            return Ok(());
        }
        if reward.reward_mode == RewardMode::HistoryBuffer || reward.main_term().judges_windows() {
            let message = "windows of frames cannot be monitored".into();
            return Err(self.problem(
                "reward.hacking_monitor.every",
                message,
                "set it to 0, or another reward_mode",
            ));
        }
        let path = "reward.hacking_monitor.model.model_path";
        match (watch.compare_with, &watch.model.model_path) {
            (CompareWith::Model, None) => {
                let message = "a second model is to be asked, and none is named".into();
                let hint = "give a model that was trained on other episodes, or set compare_with: none";
                Err(self.problem(path, message, hint))
            }
            (_, second) if second.is_some() && *second == reward.model.model_path => {
                let message = "this is the reward model itself: it would agree with itself".into();
                Err(self.problem(path, message, "give a model that was trained on other episodes"))
            }
            _ => Ok(()),
        }
    }

    /// What a model that learns online needs.
    fn online_in_use(&self, reward: &RewardSettings) -> Result<(), ComposeError> {
        let online = &reward.online;
        if !online.is_on() {
            return Ok(());
        }
        let refuse = |key: &str, message: &str, hint: &str| Err(self.problem(key, message.into(), hint));
        if !reward.model.model_type.is_image_classifier() {
            let message = "a vision-language model does not learn online";
            return refuse(
                "reward.online.every",
                message,
                "set it to 0, or reward.model.model_type to resnet",
            );
        }
        if reward.model.model_type.is_custom() {
            let message = "a model of one's own making is not trained here";
            return refuse(
                "reward.online.every",
                message,
                "set it to 0, or reward.model.model_type to resnet",
            );
        }
        if reward.worker_type == WorkerType::Api {
            let message = "a model on a server does not learn online";
            return refuse("reward.online.every", message, "set it to 0, or reward.worker_type to local");
        }
        if reward.reload_model {
            let message = "the model learns online, so that it cannot follow its file as well";
            return refuse("reward.reload_model", message, "set it to false, or reward.online.every to 0");
        }
        if reward.reward_mode == RewardMode::HistoryBuffer {
            let message = "a model of windows of frames does not learn online";
            return refuse("reward.online.every", message, "set it to 0, or another reward_mode");
        }
        if online.min_frames > online.frames {
            let message = "more frames than are kept, so that no round would begin";
            return refuse(
                "reward.online.min_frames",
                message,
                "make it no larger than reward.online.frames",
            );
        }
        Ok(())
    }

    /// What `reward_mode: history_buffer` needs, and what it cannot be joined with.
    fn windows_in_use(&self, path: &str, term: &RewardTerm) -> Result<(), ComposeError> {
        let key = format!("{path}.reward_mode");
        let judge = term.judges_windows();
        match term.reward_mode {
            RewardMode::HistoryBuffer => {}
            RewardMode::Potential if judge => {}
            RewardMode::PerStep | RewardMode::Terminal if judge => {
                let message = "a `buffered_vlm` judges windows of frames, not single ones".into();
                let hint = "set it to history_buffer or potential, or the model to vlm";
                return Err(self.problem(&key, message, hint));
            }
            RewardMode::PerStep | RewardMode::Terminal | RewardMode::Potential => return Ok(()),
        }
        if term.model.history_buffers.is_empty() {
            let message =
                format!("windows without {path}.model.history_buffers: there is no window to judge");
            let hint = "add a window, such as history_window: {history_size: 5, history_keys: [main_images]}";
            return Err(self.problem(&key, message, hint));
        }
        if term.hold_steps > 1 || term.hysteresis.is_some() || !term.guards.is_empty() {
            let message =
                "hold_steps, hysteresis and guards are rules about single frames, not about windows".into();
            return Err(self.problem(
                &key,
                message,
                "set reward_mode to per_step or terminal, or leave the rules out",
            ));
        }
        Ok(())
    }

    /// What one learned term says twice, or not at all.
    fn term(&self, path: &str, term: &RewardTerm) -> Result<(), ComposeError> {
        if let Some(Hysteresis { enter, leave }) = term.hysteresis
            && enter < leave
        {
            let message =
                format!("success would begin above {enter} and end below {leave}, both at once in between");
            let hint = "make enter the larger of the two";
            return Err(self.problem(&format!("{path}.hysteresis"), message, hint));
        }
        if term.source == TermSource::State && term.guards.is_empty() {
            let message = "a term that goes by the state and has no guards".into();
            let hint = "add conditions, such as guards: [is_grasped, \"obj_pose.z > 0.04\"]";
            return Err(self.problem(path, message, hint));
        }
        self.history_buffers(path, term)
    }

    fn history_buffers(&self, path: &str, term: &RewardTerm) -> Result<(), ComposeError> {
        let buffers = &term.model.history_buffers;
        let longest = buffers.values().map(|buffer| buffer.history_size).max().unwrap_or(0);
        for (name, buffer) in buffers {
            let path = format!("{path}.model.history_buffers.{name}");
            if buffer.history_keys.is_empty() {
                let message = "no history_keys: the window would hold nothing".into();
                return Err(self.problem(&path, message, "name the cameras, such as [main_images]"));
            }
            if buffer.min_history_size > longest {
                let (least, key) = (buffer.min_history_size, format!("{path}.min_history_size"));
                let message = format!("only {longest} frames are kept, so that {least} never come together");
                return Err(self.problem(&key, message, "make it no larger than history_size"));
            }
        }
        Ok(())
    }

    /// Places such as `0-3` and `0-1:0-3`.
    fn placements(&self, config: &Config) -> Result<(), ComposeError> {
        for (component, placement) in &config.cluster.component_placement {
            if let Placement::Ranges(text) = placement
                && !is_placement(text)
            {
                let message = format!("`{text}` names no places");
                let hint = "write places such as 0, 0-3, 0,2 or all, with processes after a colon: 0-1:0-3";
                return Err(self.problem(&format!("cluster.component_placement.{component}"), message, hint));
            }
        }
        Ok(())
    }
}

/// The main model's term and the further ones, with the path of each.
fn learned_terms(reward: &RewardSettings) -> Vec<(String, RewardTerm)> {
    let further = reward.terms.iter().map(|(name, term)| (format!("reward.terms.{name}"), term.clone()));
    std::iter::once(("reward".to_string(), reward.main_term())).chain(further).collect()
}

fn is_placement(text: &str) -> bool {
    let is_range = |range: &str| match range.trim().split_once('-') {
        _ if matches!(range.trim(), "all" | "node") => true,
        Some((first, last)) => match (first.trim().parse::<u64>(), last.trim().parse::<u64>()) {
            (Ok(first), Ok(last)) => first <= last,
            _ => false,
        },
        None => range.trim().parse::<u64>().is_ok(),
    };
    text.split(',').all(|part| part.split(':').all(is_range))
}

fn notices(config: &Config, tree: &Node) -> Vec<Notice> {
    let mut notices = Vec::new();
    let mut notify = |text: String| notices.push(Notice { text });
    for backend in &config.runner.logger.logger_backends {
        match backend {
            LoggerBackend::Tensorboard | LoggerBackend::Wandb | LoggerBackend::Mlflow | LoggerBackend::Trackio => {}
            LoggerBackend::Swanlab => notify("plaudit does not talk to swanlab itself: run `swanlab convert -t tensorboard --tb_logdir <run directory>/tensorboard` to send what TensorBoard files hold".into()),
        }
    }
    let envs = [("env.train", &config.env.train), ("env.eval", &config.env.eval)];
    let on_gpu = |env: &EnvSettings| env.init_params.sim_backend.as_deref() == Some("gpu");
    if envs.iter().any(|(_, env)| env.env_type == EnvType::Maniskill && on_gpu(env)) {
        notify("sim_backend: gpu — the embedded simulator runs on the CPU".into());
    }
    for (path, env) in envs {
        if edit::get(tree, path).is_some() {
            env_notices(path, env, &mut notify);
            overruled_control(path, env, config, tree, &mut notify);
        }
    }
    if config.reward.hacking_monitor.is_on() && !config.reward.use_reward_model {
        notify("reward.hacking_monitor: no reward model is used, so there is nothing to monitor".into());
    }
    if config.reward.online.is_on() && !config.reward.use_reward_model {
        notify("reward.online: no reward model is used, so there is nothing that could learn".into());
    }
    if config.actor.model.model_type == ModelType::Mlp && edit::is_set(tree, "actor.model.hidden_dim") {
        notify("actor.model.hidden_dim is for image reward models: the layers of an mlp_policy are as wide as actor.model.hidden_sizes says".into());
    }
    for (path, term) in learned_terms(&config.reward) {
        let bonus = term.model.gt_success_bonus;
        if config.reward.use_reward_model && bonus != 0.0 {
            notify(format!(
                "{path}.model.gt_success_bonus adds {bonus} by simulator ground truth: the reward is then not learned alone"
            ));
        }
    }
    notices
}

/// What an action means, where the config says it twice and differently.
fn overruled_control(
    path: &str,
    env: &EnvSettings,
    config: &Config,
    tree: &Node,
    notify: &mut impl FnMut(String),
) {
    let key = format!("{path}.init_params.control_mode");
    if let (Some(written), Some(mode)) = (edit::text(tree, &key), &env.init_params.control_mode)
        && !written.is_empty()
        && written != mode
    {
        let setup = config.actor.model.policy_setup.word();
        notify(format!(
            "{key} says {written}, and actor.model.policy_setup: {setup} means {mode}: the policy decides, as in RLinf"
        ));
    }
}

fn env_notices(path: &str, env: &EnvSettings, notify: &mut impl FnMut(String)) {
    if env.data_collection.enabled && env.data_collection.only_success && env.ignore_terminations {
        notify(format!(
            "{path}: only_success with ignore_terminations keeps successful episodes that end by the clock (RLinf writes none of them)"
        ));
    }
    if let Fill::Blank(blank) = &env.override_cfg.target_ee_pose {
        notify(format!(
            "{path}.override_cfg.target_ee_pose still says {blank}: fill it in before the robot moves"
        ));
    }
}
