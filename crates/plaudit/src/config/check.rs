//! What no single key can know: values that are impossible, or that do not go together.

use plaudit_compose::{ComposeError, ErrorKind, Node, Origin};

use super::block::Fill;
use super::blocks::actor::{ModelType, PolicySetup};
use super::blocks::algorithm::LossType;
use super::blocks::env::{EnvSettings, EnvType};
use super::blocks::runner::{LoggerBackend, TaskType};
use super::{Config, Notice, Purpose, edit};

/// Completes what follows from other keys, refuses what cannot be, and says what deserves a word.
pub(crate) fn check(config: &mut Config, tree: &Node) -> Result<Vec<Notice>, ComposeError> {
    derive(config, tree);
    let checker = Checker { tree };
    checker.ranges(config)?;
    checker.batches(config)?;
    Ok(notices(config, tree))
}

/// What a config is for, as far as it says.
pub(crate) fn purpose(config: &Config, tree: &Node) -> Result<Purpose, ComposeError> {
    match (config.runner.task_type, config.actor.model.model_type) {
        (TaskType::Embodied | TaskType::EmbodiedEval, _) => Ok(Purpose::Rl),
        (TaskType::Sft, ModelType::Resnet) => Ok(Purpose::RewardTraining),
        (TaskType::Sft, ModelType::Qwen3Vl | ModelType::Foreign) => Ok(Purpose::JudgeTuning),
        (TaskType::Sft, other) => {
            let message = format!("supervised training is for reward models, not for `{}`", other.word());
            let hint = "set actor.model.model_type to resnet or qwen3_vl";
            Err(Checker { tree }.problem("actor.model.model_type", message, hint))
        }
    }
}

/// Values that follow from other keys.
fn derive(config: &mut Config, tree: &Node) {
    // RLinf's SAC is Adam without decay; only PPO and supervised training decay by default.
    let decay = &mut config.actor.optim.weight_decay;
    if config.algorithm.loss_type == LossType::Sac && edit::get(tree, "actor.optim.weight_decay").is_none() {
        *decay = 0.0;
    }
    let control = match config.actor.model.policy_setup {
        PolicySetup::PandaQpos => Some("pd_joint_delta_pos"),
        PolicySetup::PandaEeDpos => Some("pd_ee_delta_pos"),
        PolicySetup::PandaEeDpose => Some("pd_ee_delta_pose"),
        PolicySetup::Other => None,
    };
    for env in [&mut config.env.train, &mut config.env.eval] {
        env.total_num_envs = env.total_num_envs.or(env.init_params.num_envs);
        env.max_episode_steps = env.max_episode_steps.or(env.init_params.max_episode_steps);
        if env.env_type == EnvType::Maniskill && env.init_params.control_mode.is_none() {
            env.init_params.control_mode = control.map(String::from);
        }
    }
}

struct Checker<'a> {
    tree: &'a Node,
}

impl Checker<'_> {
    fn problem(&self, key: &str, message: String, hint: &str) -> ComposeError {
        let error = ComposeError::new(ErrorKind::Invalid { message }).or_key(key).or_hint(hint);
        match self.origin(key) {
            Some(origin) => error.or_origin(origin),
            None => error,
        }
    }

    /// Where a key, or the nearest block around it, was written.
    fn origin(&self, key: &str) -> Option<&Origin> {
        let mut path = key;
        loop {
            match (edit::get(self.tree, path), path.rsplit_once('.')) {
                (Some(node), _) => return Some(&node.origin),
                (None, Some((parent, _))) => path = parent,
                (None, None) => return None,
            }
        }
    }

    fn within(&self, key: &str, value: f64, low: f64, high: f64) -> Result<(), ComposeError> {
        if (low..=high).contains(&value) {
            return Ok(());
        }
        let message = format!("{value} is outside {low} to {high}");
        Err(self.problem(key, message, &format!("choose a number from {low} to {high}")))
    }

    fn at_least(&self, key: &str, value: u64, least: u64) -> Result<(), ComposeError> {
        if value >= least {
            return Ok(());
        }
        Err(self.problem(key, format!("{value} is too small"), &format!("choose {least} or more")))
    }

    fn ranges(&self, config: &Config) -> Result<(), ComposeError> {
        let (algorithm, reward) = (&config.algorithm, &config.reward);
        self.within("algorithm.gamma", algorithm.gamma, 0.0, 1.0)?;
        self.within("algorithm.gae_lambda", algorithm.gae_lambda, 0.0, 1.0)?;
        self.within("algorithm.tau", algorithm.tau, 0.0, 1.0)?;
        if let Some(threshold) = reward.reward_threshold {
            self.within("reward.reward_threshold", threshold, 0.0, 1.0)?;
        }
        self.within("reward.model.dropout", reward.model.dropout, 0.0, 1.0)?;
        self.within("actor.model.dropout", config.actor.model.dropout, 0.0, 1.0)?;
        self.within("runner.val_split", config.runner.val_split, 0.0, 1.0)?;
        self.within("data.val_split", config.data.val_split, 0.0, 1.0)?;
        for (name, buffer) in &reward.model.history_buffers {
            let path = format!("reward.model.history_buffers.{name}");
            self.at_least(&format!("{path}.history_size"), buffer.history_size, 1)?;
            if buffer.history_keys.is_empty() {
                let message = "no history_keys: the window would hold nothing".into();
                return Err(self.problem(&path, message, "name the cameras, such as [main_images]"));
            }
        }
        self.env("env.train", &config.env.train)?;
        self.env("env.eval", &config.env.eval)
    }

    fn env(&self, path: &str, env: &EnvSettings) -> Result<(), ComposeError> {
        if let Some(number) = env.total_num_envs {
            self.at_least(&format!("{path}.total_num_envs"), number as u64, 1)?;
        }
        if let Some(steps) = env.max_episode_steps {
            self.at_least(&format!("{path}.max_episode_steps"), steps, 1)?;
        }
        self.at_least(&format!("{path}.group_size"), env.group_size, 1)
    }

    fn batches(&self, config: &Config) -> Result<(), ComposeError> {
        let (global, micro) = (config.actor.global_batch_size, config.actor.micro_batch_size);
        self.at_least("actor.global_batch_size", global, 1)?;
        self.at_least("actor.micro_batch_size", micro, 1)?;
        // A batch smaller than what fits at once goes through whole.
        if global > micro && !global.is_multiple_of(micro) {
            let message = format!("global_batch_size {global} is no multiple of micro_batch_size {micro}");
            let hint = "make the global batch a whole number of micro batches";
            return Err(self.problem("actor.global_batch_size", message, hint));
        }
        Ok(())
    }
}

fn notices(config: &Config, tree: &Node) -> Vec<Notice> {
    let mut notices = Vec::new();
    let mut say = |text: String| notices.push(Notice { text });
    for backend in &config.runner.logger.logger_backends {
        match backend {
            LoggerBackend::Tensorboard => {}
            LoggerBackend::Wandb => say("plaudit does not talk to wandb itself: run `wandb sync <run directory>/tensorboard` to send what TensorBoard files hold".into()),
            LoggerBackend::Swanlab => say("plaudit does not talk to swanlab itself: run `swanlab convert -t tensorboard --tb_logdir <run directory>/tensorboard` to send what TensorBoard files hold".into()),
        }
    }
    let envs = [("env.train", &config.env.train), ("env.eval", &config.env.eval)];
    let on_gpu = |env: &EnvSettings| env.init_params.sim_backend.as_deref() == Some("gpu");
    if envs.iter().any(|(_, env)| env.env_type == EnvType::Maniskill && on_gpu(env)) {
        say("sim_backend: gpu — the embedded simulator runs on the CPU".into());
    }
    for (path, env) in envs {
        if edit::get(tree, path).is_some() {
            env_notices(path, env, &mut say);
        }
    }
    let bonus = config.reward.model.gt_success_bonus;
    if config.reward.use_reward_model && bonus != 0.0 {
        say(format!(
            "reward.model.gt_success_bonus pays {bonus} by the simulator's truth: the reward is then not learned alone"
        ));
    }
    notices
}

fn env_notices(path: &str, env: &EnvSettings, say: &mut impl FnMut(String)) {
    if env.data_collection.enabled && env.data_collection.only_success && env.ignore_terminations {
        say(format!(
            "{path}: only_success with ignore_terminations keeps successful episodes that end by the clock (RLinf writes none of them)"
        ));
    }
    if let Fill::Blank(blank) = &env.override_cfg.target_ee_pose {
        say(format!(
            "{path}.override_cfg.target_ee_pose still says {blank}: fill it in before the robot moves"
        ));
    }
}
