//! PPO, as a config describes it.

use plaudit_compose::ComposeError;
use plaudit_core::{ActionSpace, Seed};
use plaudit_rl::ppo::{KlEstimate, LossSettings, Ppo, PpoSettings};
use plaudit_rl::{ActorCriticSettings, GaeSettings, Inputs, Learner, StdKind};

use super::{Builder, adam};
use crate::build::vision_encoder::vision_encoder;
use crate::config::blocks::actor::{Activation, ModelType};
use crate::config::blocks::algorithm::{Algorithm, Level};

impl Builder<'_> {
    pub(super) fn ppo(&self) -> Result<Box<dyn Learner>, ComposeError> {
        let networks = self.networks()?;
        let seed = Seed::new(self.loaded.config.actor.seed).purpose("ppo");
        let ppo = Ppo::new(&networks, self.ppo_settings()?, seed);
        let mut ppo = ppo.map_err(|error| self.impossible(&error))?;
        self.choose_device(|kernels| ppo.use_gpu(kernels))?;
        Ok(Box::new(ppo))
    }

    fn ppo_settings(&self) -> Result<PpoSettings, ComposeError> {
        let (algorithm, actor) = (&self.loaded.config.algorithm, &self.loaded.config.actor);
        let optim = &actor.optim;
        Ok(PpoSettings {
            gae: GaeSettings {
                gamma: algorithm.gamma as f32,
                lambda: algorithm.gae_lambda as f32,
                bootstrap: algorithm.bootstrap_type,
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
            lr: self.schedule("actor.optim", optim, optim.lr)?,
            value_lr: self.schedule("actor.optim", optim, optim.value_lr.unwrap_or(optim.lr))?,
            clip_grad: optim.clip_grad as f32,
            critic_warmup: optim.critic_warmup_steps,
        })
    }

    fn loss(&self, algorithm: &Algorithm) -> Result<LossSettings, ComposeError> {
        let kl = match algorithm.kl_penalty.as_str() {
            "kl" => KlEstimate::Plain,
            "abs" => KlEstimate::Absolute,
            "mse" => KlEstimate::Square,
            "low_var_kl" => KlEstimate::LowVariance,
            other => {
                let message = format!("`{other}` is no estimator of the KL divergence");
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
    pub(super) fn networks(&self) -> Result<ActorCriticSettings, ComposeError> {
        let model = &self.loaded.config.actor.model;
        let inputs = match model.model_type {
            ModelType::Mlp => {
                self.same("actor.model.obs_dim", model.obs_dim, self.spec.state_width)?;
                Inputs::States(self.spec.state_width)
            }
            ModelType::Cnn => {
                let vision_encoder = vision_encoder(self.loaded, self.spec, self.weights)?;
                self.same("actor.model.state_dim", model.state_dim, self.spec.state_width)?;
                Inputs::Images(vision_encoder)
            }
            _ => {
                let name = model.foreign.as_deref().unwrap_or(model.model_type.word());
                let message = format!("this version cannot train `{name}` by PPO");
                let hint = "set it to mlp_policy or cnn_policy";
                return Err(self.loaded.problem("actor.model.model_type", message, hint));
            }
        };
        if model.activation != Activation::Tanh {
            let message = "PPO's policies are made with tanh";
            return Err(self.loaded.problem("actor.model.activation", message, "leave it out"));
        }
        if let ActionSpace::Continuous { low, .. } = &self.spec.actions {
            self.same("actor.model.action_dim", model.action_dim, low.len())?;
        }
        let chunk = model.num_action_chunks.max(1) as usize;
        let by_action = level(self.loaded.config.algorithm.reward_type) == plaudit_rl::ppo::Level::Action;
        Ok(ActorCriticSettings {
            inputs,
            actions: self.spec.actions.clone(),
            chunk,
            hidden: model.hidden_sizes.iter().map(|&width| width as usize).collect(),
            std_kind: if model.state_dependent_std { StdKind::StateDependent } else { StdKind::Independent },
            values: if by_action { chunk } else { 1 },
        })
    }
}

fn level(level: Level) -> plaudit_rl::ppo::Level {
    match level {
        Level::Action | Level::Token => plaudit_rl::ppo::Level::Action,
        Level::Chunk => plaudit_rl::ppo::Level::Chunk,
    }
}
