//! The learner a config describes, and the policy that its weights make.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use plaudit_compose::ComposeError;
use plaudit_core::{ActionSpace, EnvSpec, Policy, Seed};
use plaudit_nn::Weights;
use plaudit_nn::dense::AdamSettings;
use plaudit_rl::ppo::{KlEstimate, LossSettings, Ppo, PpoSettings};
use plaudit_rl::{
    ActorCritic, ActorCriticSettings, Deviation, GaeSettings, Learner, Manner, Schedule, Shape, TrainingPlan,
};

use crate::config::Loaded;
use crate::config::blocks::actor::{LrSchedule, ModelType, Optim};
use crate::config::blocks::algorithm::{Algorithm, Bootstrap, Level, LossType};

/// How much one step of learning is.
pub fn training_plan(loaded: &Loaded) -> Result<TrainingPlan, ComposeError> {
    let env = &loaded.config.env.train;
    let (steps, chunk) = (env.max_steps_per_rollout_epoch, loaded.config.actor.model.num_action_chunks);
    if !steps.is_multiple_of(chunk.max(1)) {
        let message = format!("{steps} steps are no whole number of chunks of {chunk} actions");
        let hint = "make it a multiple of actor.model.num_action_chunks";
        return Err(loaded.problem("env.train.max_steps_per_rollout_epoch", message, hint));
    }
    Ok(TrainingPlan { steps: steps as usize, rollouts: env.rollout_epoch as usize })
}

/// What learns in environments like these, for `steps` steps if the run has an end. Weights the config names are
/// loaded.
pub fn learner(
    loaded: &Loaded,
    spec: &EnvSpec,
    steps: Option<u64>,
) -> Result<Box<dyn Learner>, ComposeError> {
    let algorithm = &loaded.config.algorithm;
    let builder = Builder { loaded, spec, steps };
    let mut learner = match algorithm.loss_type {
        LossType::Ppo => builder.ppo()?,
        LossType::Sac | LossType::Foreign => {
            let name = algorithm.foreign.as_deref().unwrap_or(algorithm.loss_type.word());
            let message = format!("this version cannot learn by `{name}`");
            return Err(loaded.problem("algorithm.loss_type", message, "set it to actor_critic"));
        }
    };
    if let Some((key, path)) = named_weights(loaded) {
        let weights = read_weights(loaded, key, &path)?;
        learner.load(&weights).map_err(|misfit| unfit(loaded, key, &path, misfit))?;
    }
    Ok(learner)
}

/// What a config's weights do in environments like these: the likeliest action, never chance.
pub fn trained_policy(loaded: &Loaded, spec: &EnvSpec) -> Result<Box<dyn Policy>, ComposeError> {
    let Some((key, path)) = named_weights(loaded).or_else(|| resumed_weights(loaded)) else {
        let message = "which weights? A policy that never learned acts by chance";
        let hint = "set runner.ckpt_path to a checkpoint, such as logs/…/checkpoints/global_step_100, or this to random";
        return Err(loaded.problem("actor.model.model_type", message, hint));
    };
    let weights = read_weights(loaded, key, &path)?;
    let builder = Builder { loaded, spec, steps: None };
    match loaded.config.algorithm.loss_type {
        LossType::Ppo => {
            let networks = Arc::new(ActorCritic::new(&builder.networks()?));
            let mut params = networks.init(Seed::new(0));
            networks
                .import_actor(&mut params, &weights)
                .map_err(|misfit| unfit(loaded, key, &path, misfit))?;
            Ok(Box::new(networks.policy(&params, Manner::Greedy)))
        }
        other @ (LossType::Sac | LossType::Foreign) => {
            let message = format!("this version has no policies learned by `{}`", other.word());
            Err(loaded.problem("algorithm.loss_type", message, "set it to actor_critic"))
        }
    }
}

/// The key that names weights, and where they are.
fn named_weights(loaded: &Loaded) -> Option<(&'static str, PathBuf)> {
    let (runner, model) = (&loaded.config.runner, &loaded.config.actor.model);
    let keys = [
        ("runner.ckpt_path", &runner.ckpt_path),
        ("actor.model.ckpt_path", &model.ckpt_path),
        ("actor.model.model_path", &model.model_path),
    ];
    keys.into_iter().find_map(|(key, path)| Some((key, PathBuf::from(path.as_ref()?))))
}

/// Weights of the checkpoint that a run goes on from.
fn resumed_weights(loaded: &Loaded) -> Option<(&'static str, PathBuf)> {
    let path = loaded.config.runner.resume_dir.as_ref()?;
    Some(("runner.resume_dir", PathBuf::from(path)))
}

fn read_weights(loaded: &Loaded, key: &str, path: &Path) -> Result<Weights, ComposeError> {
    let hint = "name a file of weights (.pt or .safetensors), or a checkpoint's folder";
    Weights::read(path).map_err(|error| loaded.problem(key, error.to_string(), hint))
}

fn unfit(loaded: &Loaded, key: &str, path: &Path, misfit: impl std::fmt::Display) -> ComposeError {
    let message = format!("the weights in {} are of another network: {misfit}", path.display());
    let hint = "set actor.model and algorithm as they were when the weights were trained";
    loaded.problem(key, message, hint)
}

struct Builder<'a> {
    loaded: &'a Loaded,
    spec: &'a EnvSpec,
    /// How long the run is.
    steps: Option<u64>,
}

impl Builder<'_> {
    fn ppo(&self) -> Result<Box<dyn Learner>, ComposeError> {
        let networks = self.networks()?;
        let seed = Seed::new(self.loaded.config.actor.seed).purpose("ppo");
        let ppo = Ppo::new(&networks, self.ppo_settings()?, seed);
        let hint = "change what the message names";
        let ppo = ppo.map_err(|error| self.loaded.problem("algorithm", error.to_string(), hint))?;
        Ok(Box::new(ppo))
    }

    fn ppo_settings(&self) -> Result<PpoSettings, ComposeError> {
        let (algorithm, actor) = (&self.loaded.config.algorithm, &self.loaded.config.actor);
        let optim = &actor.optim;
        Ok(PpoSettings {
            gae: GaeSettings {
                gamma: algorithm.gamma as f32,
                lambda: algorithm.gae_lambda as f32,
                bootstrap: match algorithm.bootstrap_type {
                    Bootstrap::Standard => plaudit_rl::Bootstrap::Standard,
                    Bootstrap::Always => plaudit_rl::Bootstrap::Always,
                },
            },
            normalize_advantages: algorithm.normalize_advantages,
            reward_level: level(algorithm.reward_type),
            log_prob_level: level(algorithm.logprob_type),
            entropy_level: level(algorithm.entropy_type),
            loss: self.loss(algorithm)?,
            entropy_bonus: algorithm.entropy_bonus as f32,
            target_kl: algorithm.target_kl,
            update_epochs: algorithm.update_epoch as usize,
            batch: actor.global_batch_size as usize,
            micro_batch: actor.micro_batch_size as usize,
            adam: adam(optim),
            lr: self.schedule(optim, optim.lr)?,
            value_lr: self.schedule(optim, optim.value_lr.unwrap_or(optim.lr))?,
            clip_grad: optim.clip_grad as f32,
        })
    }

    fn loss(&self, algorithm: &Algorithm) -> Result<LossSettings, ComposeError> {
        let kl = match algorithm.kl_penalty.as_str() {
            "kl" => KlEstimate::Plain,
            "abs" => KlEstimate::Absolute,
            "mse" => KlEstimate::Square,
            "low_var_kl" => KlEstimate::LowVariance,
            other => {
                let message = format!("`{other}` is no way to estimate a distance");
                return Err(self.loaded.problem(
                    "algorithm.kl_penalty",
                    message,
                    "choose kl, abs, mse or low_var_kl",
                ));
            }
        };
        Ok(LossSettings {
            clip: [algorithm.clip_ratio_low as f32, algorithm.clip_ratio_high as f32],
            dual_clip: algorithm.clip_ratio_c.map(|bound| bound as f32),
            value_clip: algorithm.value_clip.map(|reach| reach as f32),
            huber_delta: algorithm.huber_delta as f32,
            kl_beta: algorithm.kl_beta as f32,
            kl,
        })
    }

    /// The networks of PPO, if they fit the environments.
    fn networks(&self) -> Result<ActorCriticSettings, ComposeError> {
        let model = &self.loaded.config.actor.model;
        if model.model_type != ModelType::Mlp {
            let name = model.foreign.as_deref().unwrap_or(model.model_type.word());
            let message = format!("this version cannot train `{name}` by PPO");
            return Err(self.loaded.problem("actor.model.model_type", message, "set it to mlp_policy"));
        }
        self.same("actor.model.obs_dim", model.obs_dim, self.spec.state_width)?;
        if let ActionSpace::Continuous { low, .. } = &self.spec.actions {
            self.same("actor.model.action_dim", model.action_dim, low.len())?;
        }
        let chunk = model.num_action_chunks.max(1) as usize;
        let by_action = level(self.loaded.config.algorithm.reward_type) == plaudit_rl::ppo::Level::Action;
        Ok(ActorCriticSettings {
            states: self.spec.state_width,
            actions: self.spec.actions.clone(),
            chunk,
            hidden: model.hidden_sizes.iter().map(|&width| width as usize).collect(),
            deviation: if model.state_dependent_std { Deviation::ByState } else { Deviation::Independent },
            values: if by_action { chunk } else { 1 },
        })
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

    fn schedule(&self, optim: &Optim, lr: f64) -> Result<Schedule, ComposeError> {
        let written = optim.total_training_steps.and_then(|steps| u64::try_from(steps).ok());
        let total = written.or(self.steps);
        let warmup = match u64::try_from(optim.lr_warmup_steps) {
            Ok(steps) => steps,
            Err(_) => (optim.lr_warmup_steps_ratio * total.unwrap_or(0) as f64) as u64,
        };
        let end = || {
            let message = "it falls until the end of the run, and nobody says when that is";
            let hint = "set actor.optim.total_training_steps, runner.max_epochs or runner.max_steps";
            total.ok_or_else(|| self.loaded.problem("actor.optim.lr_scheduler", message, hint))
        };
        let min_lr = optim.min_lr;
        let shape = match optim.lr_scheduler {
            LrSchedule::Constant => Shape::Constant,
            LrSchedule::Cosine => Shape::Cosine { total: end()?, min_lr },
            LrSchedule::Linear => Shape::Linear { total: end()?, min_lr },
        };
        Ok(Schedule { lr, warmup, shape })
    }
}

fn level(level: Level) -> plaudit_rl::ppo::Level {
    match level {
        Level::Action | Level::Token => plaudit_rl::ppo::Level::Action,
        Level::Chunk => plaudit_rl::ppo::Level::Chunk,
    }
}

fn adam(optim: &Optim) -> AdamSettings {
    AdamSettings {
        betas: [optim.adam_beta1 as f32, optim.adam_beta2 as f32],
        eps: optim.adam_eps as f32,
        weight_decay: optim.weight_decay as f32,
    }
}
