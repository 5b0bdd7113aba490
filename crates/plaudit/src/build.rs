//! The one `match` per choice: from settings to the objects they name.

use plaudit_core::{Env, EnvSpec, Policy, Watch};
use plaudit_env::{
    CameraName, CameraSettings, ControlMode, EnvId, PickCubeExpert, PickCubeSettings, RandomPolicy,
    RewardMode,
};
use serde::de::DeserializeOwned;

use crate::config::blocks::actor::{ModelSettings, ModelType};
use crate::config::blocks::env::{EnvRewardMode, EnvSettings, EnvType, ObsMode, RewardRender};
use crate::failure::Failure;

/// The environments a block describes. `key` is where the block stands, for messages.
pub fn env(key: &str, settings: &EnvSettings) -> Result<Box<dyn Env>, Failure> {
    let mut env = match settings.env_type {
        EnvType::Embedded | EnvType::Maniskill => embedded(key, settings)?,
        EnvType::Gymnasium | EnvType::Realworld | EnvType::Foreign => {
            let name = settings.foreign.as_deref().unwrap_or(settings.env_type.word());
            let message = format!("{key}.env_type: this version cannot run `{name}` environments");
            return Err(Failure::use_of(message, format!("set {key}.env_type to embedded; {}", known_ids())));
        }
    };
    env.watch(watch(settings));
    Ok(env)
}

/// Which frames somebody will look at.
fn watch(settings: &EnvSettings) -> Watch {
    let video = settings.video_cfg.save_video;
    match settings.reward_render_mode {
        _ if video || settings.init_params.obs_mode == ObsMode::Rgb => Watch::Everything,
        Some(RewardRender::Always) => Watch::Everything,
        Some(RewardRender::Terminal) => Watch::Ends,
        Some(RewardRender::Never) | None => Watch::Nothing,
    }
}

fn embedded(key: &str, settings: &EnvSettings) -> Result<Box<dyn Env>, Failure> {
    let Some(id) = &settings.init_params.id else {
        return Err(Failure::use_of(format!("{key}.init_params.id is not set"), known_ids()));
    };
    let id: EnvId =
        id.parse().map_err(|error| Failure::use_of(format!("{key}.init_params.id: {error}"), known_ids()))?;
    let pick_cube = match id {
        EnvId::PickCubeV1 | EnvId::PickCube3ViewV1 => Some(pick_cube(key, id, settings)?),
        _ => None,
    };
    let built = plaudit_env::EnvSettings {
        max_episode_steps: settings.max_episode_steps.map(|steps| steps as usize),
        ignore_terminations: settings.ignore_terminations,
        pick_cube,
        ..plaudit_env::EnvSettings::new(id, settings.total_num_envs.unwrap_or(1))
    };
    plaudit_env::make(&built).map_err(|error| Failure::use_of(format!("{key}: {error}"), None))
}

fn pick_cube(key: &str, id: EnvId, settings: &EnvSettings) -> Result<PickCubeSettings, Failure> {
    let init = &settings.init_params;
    let full_state = init.obs_mode == ObsMode::State || settings.use_full_state;
    Ok(PickCubeSettings {
        control_mode: control_mode(key, settings)?,
        reward_mode: match settings.reward_mode {
            EnvRewardMode::Raw => RewardMode::Raw,
            EnvRewardMode::OnlySuccess => RewardMode::OnlySuccess,
            EnvRewardMode::Sparse => RewardMode::Sparse,
            EnvRewardMode::NormalizedDense => RewardMode::NormalizedDense,
        },
        use_rel_reward: settings.use_rel_reward,
        obs_mode: if full_state { plaudit_env::ObsMode::State } else { plaudit_env::ObsMode::Rgb },
        show_goal: settings.show_goal,
        cameras: Some(cameras(key, id, settings)?),
    })
}

fn control_mode(key: &str, settings: &EnvSettings) -> Result<ControlMode, Failure> {
    match &settings.init_params.control_mode {
        None => Ok(ControlMode::default()),
        Some(name) => by_name(name)
            .map_err(|error| Failure::use_of(format!("{key}.init_params.control_mode: {error}"), None)),
    }
}

/// The cameras of the environment's id, at the sizes that `sensor_configs` gives, and any others it names.
fn cameras(key: &str, id: EnvId, settings: &EnvSettings) -> Result<Vec<CameraSettings>, Failure> {
    let sizes = &settings.init_params.sensor_configs;
    let mut cameras = PickCubeSettings::default().cameras_of(id);
    for (name, _) in &sizes.cameras {
        let name: CameraName = by_name(name)
            .map_err(|error| Failure::use_of(format!("{key}.init_params.sensor_configs: {error}"), None))?;
        if cameras.iter().all(|camera| camera.name != name) {
            cameras.push(CameraSettings::new(name));
        }
    }
    for camera in &mut cameras {
        let own = sizes.cameras.get(camera.name.as_str());
        camera.width = own.and_then(|size| size.width).or(sizes.width).unwrap_or(camera.width);
        camera.height = own.and_then(|size| size.height).or(sizes.height).unwrap_or(camera.height);
    }
    Ok(cameras)
}

/// A choice of a lower crate by the name users write.
fn by_name<T: DeserializeOwned>(name: &str) -> Result<T, serde_json::Error> {
    serde_json::from_value(name.into())
}

fn known_ids() -> String {
    let ids: Vec<_> = EnvId::ALL.iter().map(|id| id.as_str()).collect();
    format!("the environments inside plaudit are {}", ids.join(", "))
}

/// The policy a block describes, for environments like these.
pub fn policy(model: &ModelSettings, env: &EnvSettings, spec: &EnvSpec) -> Result<Box<dyn Policy>, Failure> {
    match model.model_type {
        ModelType::Random => Ok(Box::new(RandomPolicy::new(spec.actions.clone()))),
        ModelType::Scripted if spec.id.starts_with("PickCube") => {
            let mode = control_mode("env.eval", env)?;
            Ok(Box::new(PickCubeExpert::new(mode).with_noise(model.noise)))
        }
        ModelType::Scripted => {
            let message = format!("actor.model.model_type: there is no script for {}", spec.id);
            Err(Failure::use_of(message, "scripts solve PickCube-v1 and PickCube3View-v1".to_string()))
        }
        other => {
            let name = model.foreign.as_deref().unwrap_or(other.word());
            let message = format!("actor.model.model_type: this version cannot act with `{name}`");
            Err(Failure::use_of(message, "set actor.model.model_type to random or scripted".to_string()))
        }
    }
}
