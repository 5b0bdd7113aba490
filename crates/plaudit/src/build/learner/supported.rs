//! Which learners are supported, and what a config names that is not.

use crate::config::blocks::actor::ModelType;
use crate::config::blocks::algorithm::{AdvType, Algorithm, LossType};
use crate::config::{Config, LoadedConfig};
use plaudit_compose::ComposeError;

/// Something that a config asks for and plaudit does not have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unsupported {
    /// The key that asks for it.
    pub key: &'static str,
    /// What it asks for.
    pub message: String,
    /// What there is instead.
    pub hint: &'static str,
}

const LEARNERS: &str = "plaudit has actor_critic (PPO; also ppo, embodied_ppo) and embodied_sac (SAC; also sac, rlpd; \
                        CrossQ by algorithm.q_head_type: crossq)";
const ADVANTAGES: &str =
    "plaudit has gae, for PPO, and embodied_sac for SAC, which needs none; it has no GRPO and no Reinforce++";
const POLICIES: &str = "plaudit trains mlp_policy and cnn_policy";

/// The first learner, advantage or policy of a config that plaudit does not have, or that do not go together.
pub(crate) fn unsupported(config: &Config) -> Option<Unsupported> {
    let (algorithm, model) = (&config.algorithm, &config.actor.model);
    let found = |key, message, hint| Some(Unsupported { key, message, hint });
    if algorithm.loss_type == LossType::Foreign {
        return Some(foreign_learner(algorithm));
    }
    match (algorithm.loss_type, algorithm.adv_type) {
        (_, Some(AdvType::Foreign)) => {
            let message = format!("there are no advantages `{}`", named(&algorithm.foreign_adv_type));
            return found("algorithm.adv_type", message, ADVANTAGES);
        }
        (LossType::Ppo, Some(AdvType::Transitions)) => {
            let message = "PPO learns from advantages, not from single transitions".into();
            return found("algorithm.adv_type", message, "set it to gae, or leave it out");
        }
        (LossType::Sac, Some(AdvType::Gae)) => {
            let message = "SAC learns from transitions, not from advantages".into();
            return found("algorithm.adv_type", message, "set it to embodied_sac, or leave it out");
        }
        _ => {}
    }
    if model.model_type == ModelType::Foreign {
        let message = format!("there is no policy `{}`", named(&model.foreign));
        return found("actor.model.model_type", message, POLICIES);
    }
    None
}

/// A learner that is kept by name only.
pub(super) fn foreign_learner(algorithm: &Algorithm) -> Unsupported {
    let message = format!("there is no learner `{}`", named(&algorithm.foreign));
    Unsupported { key: "algorithm.loss_type", message, hint: LEARNERS }
}

fn named(name: &Option<String>) -> &str {
    name.as_deref().unwrap_or("foreign")
}

/// Refuses a config whose learner plaudit does not have.
pub(super) fn refuse_unsupported(loaded: &LoadedConfig) -> Result<(), ComposeError> {
    match unsupported(&loaded.config) {
        Some(Unsupported { key, message, hint }) => Err(loaded.problem(key, message, hint)),
        None => Ok(()),
    }
}
