//! Soft actor-critic and RLPD, as a config describes them.

use plaudit_compose::ComposeError;
use plaudit_core::{LrDecay, Reward, Schedule, Seed};
use plaudit_nn::dense::Activation;
use plaudit_rl::replay::{Amount, RelabelSettings, ReplayFill};
use plaudit_rl::sac::{
    BcRegularizer, DemoSettings, Optim, Sac, SacSettings, SoftNetworkSettings, TemperatureSettings,
};
use plaudit_rl::{Inputs, Learner};

use super::{Builder, adam, training_plan};
use crate::build::vision_encoder::{policy_uses_images, vision_encoder};
use crate::config::blocks::actor::{self, LrSchedule, ModelType};
use crate::config::blocks::algorithm::{Algorithm, ReplaySettings, ReplayUnit};
use crate::config::blocks::reward::{AlarmAction, RewardSettings};

impl Builder<'_> {
    /// Soft actor-critic; RLPD where the config names demonstrations, which `reward` labels.
    pub(super) fn sac(&self, reward: &dyn Reward) -> Result<Box<dyn Learner>, ComposeError> {
        self.refuse_unsupported_by_sac()?;
        let settings = self.sac_settings(reward)?;
        self.fits_memory(&settings)?;
        let demos = match &self.loaded.config.algorithm.demo_buffer {
            Some(buffer) => self.demonstrations(buffer, reward)?,
            None => Vec::new(),
        };
        let seed = Seed::new(self.loaded.config.actor.seed).purpose("soft actor-critic");
        let sac = Sac::new(settings, demos, seed);
        let mut sac = sac.map_err(|error| self.impossible(&error))?;
        self.choose_device(|kernels| sac.use_gpu(kernels))?;
        Ok(Box::new(sac))
    }

    fn refuse_unsupported_by_sac(&self) -> Result<(), ComposeError> {
        let algorithm = &self.loaded.config.algorithm;
        let refuse = |key: &str, message: &str, hint: &str| {
            Err(self.loaded.problem(&format!("algorithm.{key}"), message, hint))
        };
        if algorithm.enable_drq && !policy_uses_images(self.loaded) {
            let message = "it shifts images, and this policy sees none";
            return refuse("enable_drq", message, "leave it out");
        }
        if algorithm.entropy_tuning.optim.lr_scheduler != LrSchedule::Constant {
            let message = "the temperature learns at a constant rate";
            return refuse("entropy_tuning.optim.lr_scheduler", message, "set it to constant");
        }
        if algorithm.replay_buffer.load_path.is_some() {
            let message = "a replay starts empty; what was recorded before is for demo_buffer";
            return refuse("replay_buffer.load_path", message, "set algorithm.demo_buffer.load_path");
        }
        let buffers = [
            ("replay_buffer", Some(&algorithm.replay_buffer)),
            ("demo_buffer", algorithm.demo_buffer.as_ref()),
        ];
        for (name, buffer) in buffers.into_iter().filter_map(|(name, buffer)| Some((name, buffer?))) {
            if buffer.auto_save || buffer.auto_save_path.is_some() {
                let message = "experience is kept in memory, and in every checkpoint";
                let hint = "set it to false; env.train.data_collection keeps episodes on disk";
                return refuse(&format!("{name}.auto_save"), message, hint);
            }
        }
        Ok(())
    }

    fn sac_settings(&self, reward: &dyn Reward) -> Result<SacSettings, ComposeError> {
        let (algorithm, actor) = (&self.loaded.config.algorithm, &self.loaded.config.actor);
        let agg_q = algorithm.agg_q;
        let critics_as_policy =
            || actor::Optim { lr: actor.optim.value_lr.unwrap_or(actor.optim.lr), ..actor.optim.clone() };
        let critic_optim = actor.critic_optim.clone().unwrap_or_else(critics_as_policy);
        let networks = self.soft_networks()?;
        let demos = algorithm.demo_buffer.as_ref().map(|buffer| DemoSettings {
            replay: self.replay(buffer, reward, &networks),
            min: amount(buffer.unit, buffer.min_buffer_size),
            self_imitation_min_reward: buffer.self_imitation_min_reward.map(|reward| reward as f32),
        });
        Ok(SacSettings {
            gamma: algorithm.gamma as f32,
            bootstrap: algorithm.bootstrap_type,
            agg_q,
            actor_agg_q: algorithm.actor_agg_q.unwrap_or(agg_q),
            critic_subsample: algorithm
                .critic_subsample_size
                .filter(|count| *count > 0)
                .map(|count| count as usize),
            backup_entropy: algorithm.backup_entropy,
            target_range: algorithm.target_range.map(|bounds| bounds.map(|bound| bound as f32)),
            scale_states: algorithm.scale_states,
            average_policy: algorithm.average_policy,
            encoder_loss: algorithm.encoder_loss,
            bc_regularizer: (algorithm.demo_weight > 0.0).then(|| BcRegularizer {
                weight: algorithm.demo_weight as f32,
                std: algorithm.cloning.as_ref().map(|cloning| self.deviations(cloning)),
            }),
            tau: algorithm.tau as f32,
            target_update_freq: algorithm.target_update_freq,
            critic_actor_ratio: algorithm.critic_actor_ratio,
            train_actor_steps: algorithm.train_actor_steps,
            shift: algorithm.enable_drq.then_some(algorithm.drq_shift as usize),
            temperature: self.temperature(algorithm),
            policy_optim: self.optim("actor.optim", &actor.optim)?,
            critic_optim: self.optim("actor.critic_optim", &critic_optim)?,
            batch_size: actor.global_batch_size as usize,
            updates: algorithm.update_epoch,
            replay: self.replay(&algorithm.replay_buffer, reward, &networks),
            networks,
            min_replay: amount(algorithm.replay_buffer.unit, algorithm.replay_buffer.min_buffer_size),
            demos,
        })
    }

    /// The networks of soft actor-critic, if they fit the environments.
    pub(super) fn soft_networks(&self) -> Result<SoftNetworkSettings, ComposeError> {
        let model = &self.loaded.config.actor.model;
        let spec = self.spec;
        self.same("actor.model.action_dim", model.action_dim, spec.actions.width())?;
        let chunk = model.num_action_chunks.max(1) as usize;
        let (actions, critics) = (spec.actions.clone(), model.num_q_heads as usize);
        let critic_kind = self.loaded.config.algorithm.q_head_type;
        let noise_correlation = self.loaded.config.algorithm.noise_correlation as f32;
        match model.model_type {
            ModelType::Mlp => {
                self.same("actor.model.obs_dim", model.obs_dim, spec.state_width)?;
                let hidden: Vec<usize> = model.hidden_sizes.iter().map(|&width| width as usize).collect();
                Ok(SoftNetworkSettings {
                    policy_hidden: hidden.clone(),
                    critic_hidden: hidden,
                    activation: match model.activation {
                        actor::Activation::Tanh => Activation::Tanh,
                        actor::Activation::Relu => Activation::Relu,
                    },
                    critic_kind,
                    noise_correlation,
                    ..SoftNetworkSettings::mlp(spec.state_width, actions, chunk, critics)
                })
            }
            ModelType::Cnn => {
                let vision_encoder = vision_encoder(self.loaded, spec, self.weights)?;
                self.same("actor.model.state_dim", model.state_dim, spec.state_width)?;
                let networks = SoftNetworkSettings::cnn(vision_encoder, actions, chunk, critics);
                Ok(SoftNetworkSettings { critic_kind, noise_correlation, ..networks })
            }
            _ => {
                let name = model.foreign.as_deref().unwrap_or(model.model_type.word());
                let message = format!("this version cannot train `{name}` by SAC");
                let hint = "set it to mlp_policy or cnn_policy";
                Err(self.loaded.problem("actor.model.model_type", message, hint))
            }
        }
    }

    /// Why these environments are none for soft actor-critic.
    pub(super) fn needs_continuous_actions(&self) -> ComposeError {
        let message = format!("SAC needs continuous actions, and those of {} are choices", self.spec.id);
        self.loaded.problem("algorithm.loss_type", message, "set it to actor_critic (PPO)")
    }

    fn temperature(&self, algorithm: &Algorithm) -> TemperatureSettings {
        let tuning = &algorithm.entropy_tuning;
        let action_width =
            self.spec.actions.width() as u64 * self.loaded.config.actor.model.num_action_chunks;
        TemperatureSettings {
            kind: tuning.alpha_type,
            initial: tuning.initial_alpha,
            target_entropy: tuning.target_entropy.unwrap_or(-(action_width as f64)),
            lr: tuning.optim.lr,
            clip_grad: tuning.optim.clip_grad,
        }
    }

    /// Configs count steps of learning; soft actor-critic counts its updates, of which a step has several.
    fn optim(&self, key: &str, optim: &actor::Optim) -> Result<Optim, ComposeError> {
        let updates = self.loaded.config.algorithm.update_epoch.max(1);
        let Schedule { lr, warmup, decay } = self.schedule(key, optim, optim.lr)?;
        let decay = match decay {
            LrDecay::Constant => LrDecay::Constant,
            LrDecay::Cosine { total, min_lr } => LrDecay::Cosine { total: total * updates, min_lr },
            LrDecay::Linear { total, min_lr } => LrDecay::Linear { total: total * updates, min_lr },
        };
        let schedule = Schedule { lr, warmup: warmup * updates, decay };
        Ok(Optim { schedule, adam: adam(optim), clip_grad: optim.clip_grad as f32 })
    }

    fn replay(
        &self,
        buffer: &ReplaySettings,
        reward: &dyn Reward,
        networks: &SoftNetworkSettings,
    ) -> plaudit_rl::replay::ReplaySettings {
        plaudit_rl::replay::ReplaySettings {
            keep: amount(buffer.unit, buffer.cache_size),
            window: amount(buffer.unit, buffer.sample_window_size),
            chunk: self.loaded.config.actor.model.num_action_chunks.max(1) as usize,
            cameras: match &networks.inputs {
                Inputs::Images(vision_encoder) => vision_encoder.image_cameras().to_vec(),
                Inputs::States(_) => Vec::new(),
            },
            relabel: RelabelSettings {
                frames_needed: reward.frames_needed(),
                context: reward.context(),
                frame_bytes: if may_be_relabelled(&self.loaded.config.reward) {
                    buffer.reward_frames_mib << 20
                } else {
                    0
                },
            },
        }
    }

    fn fits_memory(&self, settings: &SacSettings) -> Result<(), ComposeError> {
        let plan = training_plan(self.loaded)?;
        // Beside an asynchronous learner, environments run as often as they like.
        let is_counted = !self.loaded.config.runner.asynchronous;
        let rollouts =
            self.steps.filter(|_| is_counted).map(|steps| steps.saturating_mul(plan.rollouts as u64));
        let feature_width = match &settings.networks.inputs {
            Inputs::Images(vision_encoder) => vision_encoder.feature_width(),
            Inputs::States(_) => 0,
        };
        let filling = ReplayFill { steps_per_rollout: plan.steps, rollouts, feature_width };
        let key = "algorithm.replay_buffer.cache_size";
        let hint = "lower it, the number of environments, the size of the images, or runner.max_epochs";
        settings
            .replay
            .check_memory(self.spec, filling)
            .map_err(|error| self.loaded.problem(key, error.to_string(), hint))
    }
}

/// Whether the reward may become another while the replay is full: a newer model, or one that was made stricter.
fn may_be_relabelled(reward: &RewardSettings) -> bool {
    let changes_when_hacked =
        reward.hacking_monitor.is_on() && reward.hacking_monitor.action != AlarmAction::Warn;
    reward.use_reward_model && (reward.reload_model || changes_when_hacked)
}

fn amount(unit: ReplayUnit, number: u64) -> Amount {
    match unit {
        ReplayUnit::Rollouts => Amount::Rollouts(number as usize),
        ReplayUnit::Transitions => Amount::Transitions(number as usize),
    }
}
