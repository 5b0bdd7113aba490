//! The one `match` per choice: from settings to the objects they name.

use plaudit_core::{Env, EnvSpec, Policy};
use plaudit_env::{EnvId, RandomPolicy};

use crate::config::blocks::actor::{ModelSettings, ModelType};
use crate::config::blocks::env::{EnvSettings, EnvType};
use crate::failure::Failure;

/// The environments a block describes. `key` is where the block stands, for messages.
pub fn env(key: &str, settings: &EnvSettings) -> Result<Box<dyn Env>, Failure> {
    match settings.env_type {
        EnvType::Embedded | EnvType::Maniskill => embedded(key, settings),
        EnvType::Gymnasium | EnvType::Realworld | EnvType::Foreign => {
            let name = settings.foreign.as_deref().unwrap_or(settings.env_type.word());
            let message = format!("{key}.env_type: this version cannot run `{name}` environments");
            Err(Failure::use_of(message, format!("set {key}.env_type to embedded; {}", known_ids())))
        }
    }
}

fn embedded(key: &str, settings: &EnvSettings) -> Result<Box<dyn Env>, Failure> {
    let Some(id) = &settings.init_params.id else {
        return Err(Failure::use_of(format!("{key}.init_params.id is not set"), known_ids()));
    };
    let id: EnvId =
        id.parse().map_err(|error| Failure::use_of(format!("{key}.init_params.id: {error}"), known_ids()))?;
    let built = plaudit_env::EnvSettings {
        max_episode_steps: settings.max_episode_steps.map(|steps| steps as usize),
        ignore_terminations: settings.ignore_terminations,
        ..plaudit_env::EnvSettings::new(id, settings.total_num_envs.unwrap_or(1))
    };
    plaudit_env::make(&built).map_err(|error| Failure::use_of(format!("{key}: {error}"), None))
}

fn known_ids() -> String {
    let ids: Vec<_> = EnvId::ALL.iter().map(|id| id.as_str()).collect();
    format!("the environments inside plaudit are {}", ids.join(", "))
}

/// The policy a block describes, for environments like these.
pub fn policy(settings: &ModelSettings, spec: &EnvSpec) -> Result<Box<dyn Policy>, Failure> {
    match settings.model_type {
        ModelType::Random => Ok(Box::new(RandomPolicy::new(spec.actions.clone()))),
        other => {
            let name = settings.foreign.as_deref().unwrap_or(other.word());
            let message = format!("actor.model.model_type: this version cannot act with `{name}`");
            Err(Failure::use_of(message, "set actor.model.model_type to random".to_string()))
        }
    }
}
