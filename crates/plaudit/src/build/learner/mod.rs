//! The learner a config describes, and the policy that its weights make.

mod demos;
mod device;
mod ppo;
mod sac;
pub(crate) mod supported;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use plaudit_compose::ComposeError;
use plaudit_core::{EnvSpec, LrDecay, Policy, Reward, Schedule, Seed};
use plaudit_nn::Weights;
use plaudit_nn::dense::AdamSettings;
use plaudit_rl::sac::{SoftNetworks, SoftPolicy};
use plaudit_rl::{
    ActionMode, ActorCritic, AsyncPlan, Cloning, ExplorerNetworks, LearnError, Learner, TrainingPlan,
};

use crate::commands::train::TrainMode;
use crate::config::LoadedConfig;
use crate::config::blocks::actor::{LrSchedule, ModelType, Optim};
use crate::config::blocks::algorithm::LossType;
use crate::config::blocks::env::{EnvSettings, EnvType, KeyboardLabels};
use crate::hints;

/// How much one step of learning is.
fn training_plan(loaded: &LoadedConfig) -> Result<TrainingPlan, ComposeError> {
    let env = &loaded.config.env.train;
    let (steps, chunk) = (env.max_steps_per_rollout_epoch, loaded.config.actor.model.num_action_chunks);
    if !steps.is_multiple_of(chunk.max(1)) {
        let message = format!("{steps} steps are no whole number of chunks of {chunk} actions");
        let hint = "make it a multiple of actor.model.num_action_chunks";
        return Err(loaded.problem("env.train.max_steps_per_rollout_epoch", message, hint));
    }
    Ok(TrainingPlan { steps: steps as usize, rollouts: env.rollout_epoch as usize })
}

/// Whether acting and learning alternate or run in parallel.
pub fn train_mode(loaded: &LoadedConfig) -> Result<TrainMode, ComposeError> {
    let (plan, config) = (training_plan(loaded)?, &loaded.config);
    refuse_unsafe_for_robots(loaded)?;
    if !config.runner.asynchronous {
        return Ok(TrainMode::Sync(plan));
    }
    if config.algorithm.loss_type != LossType::Sac {
        let message = "only SAC learns asynchronously: PPO needs experience of its newest policy";
        return Err(loaded.problem("runner.asynchronous", message, "set it to false"));
    }
    Ok(TrainMode::Async(AsyncPlan {
        rollouts: plan,
        weight_sync_interval: config.runner.weight_sync_interval,
        staleness_threshold: config.algorithm.staleness_threshold,
    }))
}

/// What is fine in a simulator, and not with an arm.
fn refuse_unsafe_for_robots(loaded: &LoadedConfig) -> Result<(), ComposeError> {
    let (config, env) = (&loaded.config, &loaded.config.env);
    if env.train.env_type == EnvType::Realworld && config.algorithm.loss_type == LossType::Ppo {
        let message = "PPO cannot learn on a robot: it takes what people do, and what limits leave of an action, for its own";
        return Err(loaded.problem("algorithm.loss_type", message, "set it to embodied_sac (SAC, RLPD)"));
    }
    if env.train.env_type == EnvType::Realworld && env.train.max_episode_steps.is_none() {
        let message = "a robot's episodes are learned from when they are over, and these never are";
        return Err(loaded.problem("env.train.max_episode_steps", message, "100 is usual"));
    }
    if env.train.keyboard_reward_wrapper == Some(KeyboardLabels::StartEnd) {
        let message = "start_end marks what is recorded, and learning takes every step";
        let hint = "set it to single_stage or multi_stage; `plaudit collect` takes start_end";
        return Err(loaded.problem("env.train.keyboard_reward_wrapper", message, hint));
    }
    if env.train.env_type == EnvType::Realworld && env.train.override_cfg.manual_episode_control_only {
        let message = "a robot's episodes are learned from when they are over, which the clock makes sure of";
        return Err(loaded.problem(
            "env.train.override_cfg.manual_episode_control_only",
            message,
            "leave it out",
        ));
    }
    let is_real =
        |env: &EnvSettings| env.env_type == EnvType::Realworld && env.override_cfg.server_url.is_some();
    if config.runner.val_check_interval > 0 && is_real(&env.train) && is_real(&env.eval) {
        let message = "an arm that learns cannot be evaluated at the same time";
        let hint = "set it to -1, and evaluate afterwards: plaudit eval with runner.ckpt_path";
        return Err(loaded.problem("runner.val_check_interval", message, hint));
    }
    Ok(())
}

/// What learns in environments like these, for `steps` steps if the run has an end. Weights the config names are
/// loaded, and demonstrations are labelled by `reward`.
pub fn learner(
    loaded: &LoadedConfig,
    spec: &EnvSpec,
    reward: &dyn Reward,
    steps: Option<u64>,
) -> Result<Box<dyn Learner>, ComposeError> {
    supported::refuse_unsupported(loaded)?;
    let algorithm = &loaded.config.algorithm;
    let named = named_weights(loaded);
    let weights = named.as_ref().map(|(key, path)| read_weights(loaded, key, path)).transpose()?;
    let builder = Builder { loaded, spec, steps, weights: weights.as_ref() };
    let mut learner = match algorithm.loss_type {
        LossType::Ppo => builder.ppo()?,
        LossType::Sac => builder.sac(reward)?,
        LossType::Foreign => return Err(foreign(loaded)),
    };
    if let (Some((key, path)), Some(weights)) = (named, &weights) {
        learner.load(weights).map_err(|misfit| unfit(loaded, key, &path, misfit))?;
    }
    Ok(learner)
}

/// Behaviour cloning of a new policy, if the config asks for it.
pub fn cloning(loaded: &LoadedConfig, spec: &EnvSpec) -> Result<Option<Cloning>, ComposeError> {
    Builder { loaded, spec, steps: None, weights: None }.cloning()
}

/// The policy of a config's weights in environments like these: deterministic, the likeliest action.
pub fn trained_policy(loaded: &LoadedConfig, spec: &EnvSpec) -> Result<Box<dyn Policy>, ComposeError> {
    let Some((key, path)) = named_weights(loaded).or_else(|| resumed_weights(loaded)) else {
        let message = "which weights? A policy that never learned acts at random";
        let hint = "set runner.ckpt_path to a checkpoint, such as logs/…/checkpoints/global_step_100, or this to random";
        return Err(loaded.problem("actor.model.model_type", message, hint));
    };
    let weights = read_weights(loaded, key, &path)?;
    let builder = Builder { loaded, spec, steps: None, weights: Some(&weights) };
    match loaded.config.algorithm.loss_type {
        LossType::Ppo => {
            let networks = Arc::new(ActorCritic::new(&builder.networks()?));
            let mut params = networks.init(Seed::new(0));
            networks
                .import_actor(&mut params, &weights)
                .map_err(|misfit| unfit(loaded, key, &path, misfit))?;
            Ok(Box::new(networks.policy(&params, ActionMode::Greedy)))
        }
        LossType::Sac => {
            let settings = builder.soft_networks()?;
            let networks = SoftNetworks::new(&settings).ok_or_else(|| builder.needs_continuous_actions())?;
            let mut params = networks.init_policy(Seed::new(0));
            let mut encoder_params = vec![0.0; networks.encoder_len()];
            networks
                .import_policy(&mut params, &weights)
                .and_then(|()| networks.import_encoder(&mut encoder_params, &weights))
                .map_err(|misfit| unfit(loaded, key, &path, misfit))?;
            Ok(Box::new(SoftPolicy::new(
                Arc::new(networks),
                Arc::new(params),
                &encoder_params,
                ActionMode::Greedy,
            )))
        }
        LossType::Foreign => Err(foreign(loaded)),
    }
}

/// The networks of a config's policy in environments like these, without their parameters: for environments that are
/// not where the learner is.
pub fn explorer_networks(loaded: &LoadedConfig, spec: &EnvSpec) -> Result<ExplorerNetworks, ComposeError> {
    supported::refuse_unsupported(loaded)?;
    let named = named_weights(loaded);
    // Weights may bring a frozen trunk along.
    let weights = named.as_ref().map(|(key, path)| read_weights(loaded, key, path)).transpose()?;
    let builder = Builder { loaded, spec, steps: None, weights: weights.as_ref() };
    match loaded.config.algorithm.loss_type {
        LossType::Ppo => Ok(ExplorerNetworks::ActorCritic(Arc::new(ActorCritic::new(&builder.networks()?)))),
        LossType::Sac => {
            let networks = SoftNetworks::new(&builder.soft_networks()?);
            let networks = networks.ok_or_else(|| builder.needs_continuous_actions())?;
            Ok(ExplorerNetworks::Soft(Arc::new(networks)))
        }
        LossType::Foreign => Err(foreign(loaded)),
    }
}

fn foreign(loaded: &LoadedConfig) -> ComposeError {
    let supported::Unsupported { key, message, hint } = supported::foreign_learner(&loaded.config.algorithm);
    loaded.problem(key, message, hint)
}

/// The key that names weights, and where they are.
fn named_weights(loaded: &LoadedConfig) -> Option<(&'static str, PathBuf)> {
    let (runner, model) = (&loaded.config.runner, &loaded.config.actor.model);
    // For a policy on images, `model_path` is where its frozen trunk is.
    let is_trunk = model.model_type == ModelType::Cnn;
    let keys = [
        ("runner.ckpt_path", &runner.ckpt_path),
        ("actor.model.ckpt_path", &model.ckpt_path),
        ("actor.model.model_path", if is_trunk { &None } else { &model.model_path }),
    ];
    keys.into_iter().find_map(|(key, path)| Some((key, PathBuf::from(path.as_ref()?))))
}

/// Weights of the checkpoint that a run goes on from.
fn resumed_weights(loaded: &LoadedConfig) -> Option<(&'static str, PathBuf)> {
    let path = loaded.config.runner.resume_dir.as_ref()?;
    Some(("runner.resume_dir", PathBuf::from(path)))
}

fn read_weights(loaded: &LoadedConfig, key: &str, path: &Path) -> Result<Weights, ComposeError> {
    let hint = "name a file of weights (.pt or .safetensors), or a checkpoint's folder";
    Weights::read(path).map_err(|error| loaded.problem(key, error.to_string(), hint))
}

fn unfit(loaded: &LoadedConfig, key: &str, path: &Path, misfit: impl std::fmt::Display) -> ComposeError {
    let message = format!("the weights in {} are of another network: {misfit}", path.display());
    let hint = "set actor.model and algorithm as they were when the weights were trained";
    loaded.problem(key, message, hint)
}

struct Builder<'a> {
    loaded: &'a LoadedConfig,
    spec: &'a EnvSpec,
    /// How long the run is.
    steps: Option<u64>,
    /// Weights to start from: they may bring a frozen trunk along.
    weights: Option<&'a Weights>,
}

impl Builder<'_> {
    /// A learner that cannot be, at the key of the setting that makes it so.
    fn impossible(&self, error: &LearnError) -> ComposeError {
        let (key, hint) = match error {
            LearnError::Setting(setting) => {
                let hints::SettingHint { key, hint } = hints::about_setting(setting);
                (key, hint)
            }
            _ => ("algorithm", "change what the message names"),
        };
        self.loaded.problem(key, error.to_string(), hint)
    }

    /// A width that was written must be the environment's.
    fn same(&self, key: &str, written: Option<u64>, is: usize) -> Result<(), ComposeError> {
        match written {
            Some(width) if width != is as u64 => {
                let message = format!("{} has {is} where this says {width}", self.spec.id);
                Err(self.loaded.problem(key, message, "leave it out: the environment says it"))
            }
            _ => Ok(()),
        }
    }

    /// A learning rate over the steps of learning; `key` is where `optim` was written.
    fn schedule(&self, key: &str, optim: &Optim, lr: f64) -> Result<Schedule, ComposeError> {
        let written = optim.total_training_steps.and_then(|steps| u64::try_from(steps).ok());
        let total = written.or(self.steps);
        let warmup = match u64::try_from(optim.lr_warmup_steps) {
            Ok(steps) => steps,
            Err(_) => (optim.lr_warmup_steps_ratio * total.unwrap_or(0) as f64) as u64,
        };
        let end = || {
            let message = "it decays until the end of the run, and the length of the run is not set";
            let hint = format!("set {key}.total_training_steps, runner.max_epochs or runner.max_steps");
            total.ok_or_else(|| self.loaded.problem(&format!("{key}.lr_scheduler"), message, hint))
        };
        let min_lr = optim.min_lr;
        let decay = match optim.lr_scheduler {
            LrSchedule::Constant => LrDecay::Constant,
            LrSchedule::Cosine => LrDecay::Cosine { total: end()?, min_lr },
            LrSchedule::Linear => LrDecay::Linear { total: end()?, min_lr },
        };
        Ok(Schedule { lr, warmup, decay })
    }
}

fn adam(optim: &Optim) -> AdamSettings {
    AdamSettings {
        betas: [optim.adam_beta1 as f32, optim.adam_beta2 as f32],
        eps: optim.adam_eps as f32,
        weight_decay: optim.weight_decay as f32,
    }
}
