//! The one `match` per choice: from settings to the objects they name.

mod classifier;
mod judge_training;
mod learner;
mod lerobot;
pub(crate) mod network;
mod online;
mod reward;
mod robot;
mod scripted_states;
mod stand_in;
mod trend;
mod vision_encoder;

use std::ops::Range;
use std::path::PathBuf;

use plaudit_compose::ComposeError;
use plaudit_core::{Env, EnvSpec, FramesNeeded, Policy};
use plaudit_env::{
    Bridge, BridgeError, CameraName, CameraSettings, ControlMode, EnvId, Make, PegInsertionExpert,
    PegInsertionSettings, PickCubeExpert, PickCubeSettings, RandomPolicy,
};
use plaudit_view::video::{VideoRecorder, VideoSettings};
use serde::de::DeserializeOwned;

use crate::config::LoadedConfig;
use crate::config::blocks::actor::ModelType;
use crate::config::blocks::env::{EnvRewardMode, EnvSettings, EnvType, ObsMode, RewardRender};
use crate::hints;

pub use classifier::{
    augment, classifier, classifier_device, classifier_training, open_device_early, reading_rules, sharding,
};
pub(crate) use classifier::{refuse_shared_data, trained_and_validated_on};
pub use judge_training::{Judge, JudgeData, judge, judge_data, judge_training};
pub(crate) use learner::supported::unsupported as unsupported_learner;
pub use learner::{cloning, explorer_networks, learner, train_mode, trained_policy};
pub use reward::{
    BuiltReward, LiveModel, MonitoredReward, SECOND_MODEL, ServedReward, film_scorer, frames_needed, reward,
    reward_from, served_reward,
};
pub(crate) use reward::{camera_problems, env_weight, live_model, second_model_beside, simulated_reward};
pub(crate) use robot::StillPolicy;
pub use robot::{
    BuiltRobot, NamedCamera, RobotHooks, RobotProblem, full_action, reset_pose, robot, simulated_arm, target,
    usual_name, workspace, written_cameras,
};
pub(crate) use scripted_states::{SCRIPTED_EPISODES, ScriptedState, embedded_spec, scripted_states};
pub(crate) use stand_in::{StandIns, simulated_spec};
pub use trend::judge_device;
pub use vision_encoder::{policy_cameras, policy_uses_images};

/// One of a config's two batches of environments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EnvBlock {
    /// The one to train in.
    Train,
    /// The one to evaluate in.
    Eval,
}

impl EnvBlock {
    /// Where its block stands.
    pub fn key(self) -> &'static str {
        match self {
            Self::Train => "env.train",
            Self::Eval => "env.eval",
        }
    }

    /// Its block.
    pub fn settings(self, loaded: &LoadedConfig) -> &EnvSettings {
        match self {
            Self::Train => &loaded.config.env.train,
            Self::Eval => &loaded.config.env.eval,
        }
    }
}

/// The environments a config describes, rendering the frames that are needed.
pub fn env(loaded: &LoadedConfig, which: EnvBlock) -> Result<Box<dyn Env>, ComposeError> {
    build_env(&Builder { loaded, which, settings: which.settings(loaded), first_row: 0 })
}

/// Some rows of the environments a config describes: each behaves as it would among all of them.
pub fn env_rows(
    loaded: &LoadedConfig,
    which: EnvBlock,
    rows: Range<usize>,
) -> Result<Box<dyn Env>, ComposeError> {
    let settings = which.settings(loaded);
    let some = EnvSettings { total_num_envs: Some(rows.len()), ..settings.clone() };
    build_env(&Builder { loaded, which, settings: &some, first_row: rows.start as u64 })
}

fn build_env(builder: &Builder<'_>) -> Result<Box<dyn Env>, ComposeError> {
    let Builder { loaded, which, settings, .. } = *builder;
    builder.refuse_foreign_entry_point()?;
    let mut env = match settings.env_type {
        EnvType::Embedded => builder.embedded()?,
        EnvType::Maniskill if builder.is_embedded() => builder.embedded()?,
        EnvType::Maniskill | EnvType::Gymnasium => builder.in_python()?,
        EnvType::Realworld => builder.robot()?,
        EnvType::Foreign => {
            let name = settings.foreign.as_deref().unwrap_or(settings.env_type.word());
            let message = format!("this version cannot run `{name}` environments");
            let hint = format!("set it to embedded; {}", supported_ids());
            return Err(loaded.problem(&format!("{}.env_type", which.key()), message, hint));
        }
    };
    env.set_frames_needed(frames_to_render(settings));
    Ok(env)
}

/// Environments of our own.
fn embedded_env(settings: &plaudit_env::EnvSettings) -> Result<Box<dyn Env>, plaudit_core::EnvError> {
    plaudit_env::make(settings)
}

/// A few environments to film evaluations in, where only the film needs frames: rendering all that are evaluated would
/// take far longer than evaluating them. Seed and row decide an episode, so that a deterministic policy
/// plays those of the first rows again.
pub fn film_env(loaded: &LoadedConfig) -> Result<Option<Box<dyn Env>>, ComposeError> {
    let settings = &loaded.config.env.eval;
    let shown = settings.video_cfg.max_envs.max(1);
    let mut unfilmed = settings.clone();
    unfilmed.video_cfg.save_video = false;
    let needs_no_other = frames_to_render(&unfilmed) == FramesNeeded::Nothing && !policy_uses_images(loaded);
    let is_more = settings.total_num_envs.unwrap_or(1) > shown && settings.group_size == 1;
    let few = EnvSettings { total_num_envs: Some(shown), ..settings.clone() };
    let builder = Builder { loaded, which: EnvBlock::Eval, settings: &few, first_row: 0 };
    let is_ours =
        matches!(settings.env_type, EnvType::Embedded | EnvType::Maniskill) && builder.is_embedded();
    if !settings.video_cfg.save_video || !needs_no_other || !is_more || !is_ours {
        return Ok(None);
    }
    let mut env = builder.embedded()?;
    env.set_frames_needed(FramesNeeded::Everything);
    Ok(Some(env))
}

/// Which frames are needed.
fn frames_to_render(settings: &EnvSettings) -> FramesNeeded {
    let kept = settings.video_cfg.save_video || settings.data_collection.enabled;
    match settings.reward_render_mode {
        _ if kept || settings.init_params.obs_mode == ObsMode::Rgb => FramesNeeded::Everything,
        Some(RewardRender::Always) => FramesNeeded::Everything,
        Some(RewardRender::Terminal) => FramesNeeded::Ends,
        Some(RewardRender::Never) | None => FramesNeeded::Nothing,
    }
}

/// An environment inside plaudit whose id is nearly this one.
pub(crate) fn nearest_id(id: &str) -> Option<EnvId> {
    let id = id.to_lowercase();
    let likeness = |known: &EnvId| strsim::normalized_levenshtein(&id, &known.as_str().to_lowercase());
    let nearest = EnvId::ALL.into_iter().max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
    nearest.filter(|known| likeness(known) > 0.8)
}

fn supported_ids() -> String {
    let ids: Vec<_> = EnvId::ALL.iter().map(|id| id.as_str()).collect();
    format!("the environments inside plaudit are {}", ids.join(", "))
}

/// Builds what one block describes; problems point at the key they are about.
struct Builder<'a> {
    loaded: &'a LoadedConfig,
    which: EnvBlock,
    settings: &'a EnvSettings,
    /// The row that the first one is among all.
    first_row: u64,
}

impl Builder<'_> {
    fn problem(&self, key: &str, message: impl ToString, hint: impl Into<String>) -> ComposeError {
        self.loaded.problem(&format!("{}.{key}", self.which.key()), message.to_string(), hint)
    }

    /// Whether plaudit has this environment inside.
    fn is_embedded(&self) -> bool {
        self.settings.init_params.id.as_ref().is_none_or(|id| id.parse::<EnvId>().is_ok())
    }

    fn refuse_foreign_entry_point(&self) -> Result<(), ComposeError> {
        if self.settings.init_params.entry_point.is_none() || self.settings.env_type == EnvType::Gymnasium {
            return Ok(());
        }
        let hint = "set it to gymnasium, or take init_params.entry_point out";
        Err(self.problem("env_type", "only Gymnasium makes an environment of an entry point", hint))
    }

    /// Any other environment: the user's own Python runs it.
    fn in_python(&self) -> Result<Box<dyn Env>, ComposeError> {
        let entry_point = self.settings.init_params.entry_point.clone();
        let Some(id) = entry_point.clone().or_else(|| self.settings.init_params.id.clone()) else {
            let hint = "set it to what Gymnasium knows, or init_params.entry_point to my_env.py:MyEnv";
            return Err(self.problem("init_params.id", "no environment is named", hint));
        };
        let mut arguments = self.loaded.keyword_arguments(&format!("{}.init_params", self.which.key()));
        arguments.shift_remove("num_envs");
        arguments.shift_remove("max_episode_steps");
        let num_envs = self.settings.total_num_envs.unwrap_or(1);
        let settings = match self.settings.env_type {
            EnvType::Gymnasium => {
                let mut settings = plaudit_env::BridgeSettings::gymnasium(&id, num_envs);
                arguments.shift_remove("id");
                arguments.shift_remove("entry_point");
                settings.make = Make::Gymnasium {
                    id: id.clone(),
                    entry_point,
                    kwargs: arguments,
                    vectorization: self.settings.bridge.vectorization,
                };
                settings
            }
            _ => {
                let control = self.settings.init_params.control_mode.clone();
                arguments.insert("control_mode".into(), control.into());
                let mut settings = plaudit_env::BridgeSettings::maniskill(arguments, num_envs);
                if let Make::Maniskill { show_hidden, .. } = &mut settings.make {
                    *show_hidden = self.settings.show_goal;
                }
                settings
            }
        };
        let env = Bridge::start(self.bridge(settings)).map_err(|error| self.not_bridged(&id, &error))?;
        Ok(Box::new(env))
    }

    /// Why there is no such environment in Python; `id` may have been meant for one that is inside plaudit.
    fn not_bridged(&self, id: &str, error: &BridgeError) -> ComposeError {
        let is_about_python = matches!(error, BridgeError::Interpreter { .. } | BridgeError::NoModule { .. });
        if self.settings.init_params.entry_point.is_some() && !is_about_python {
            let hint = format!("it runs in {}, from this folder", self.settings.python);
            return self.problem("init_params.entry_point", error, hint);
        }
        match (nearest_id(id), error) {
            (Some(near), _) if near.as_str() == id => {
                let key = if is_about_python { "python" } else { "init_params.id" };
                let hint =
                    format!("`{id}` is also inside plaudit and needs no Python there: env_type: embedded");
                self.problem(key, error, hint)
            }
            (Some(near), _) => {
                let message = format!("`{id}` is not inside plaudit, and in Python: {error}");
                self.problem(
                    "init_params.id",
                    message,
                    format!("did you mean `{near}`, which needs no Python?"),
                )
            }
            (None, _) if is_about_python => {
                let hint = format!("`{id}` is not inside plaudit and needs Python; {}", supported_ids());
                self.problem("python", error, hint)
            }
            (None, _) => {
                let hint = format!("it runs in {}; {}", self.settings.python, supported_ids());
                self.problem("init_params.id", error, hint)
            }
        }
    }

    fn bridge(&self, settings: plaudit_env::BridgeSettings) -> plaudit_env::BridgeSettings {
        let (env, bridge) = (self.settings, self.settings.bridge.clone());
        plaudit_env::BridgeSettings {
            first_row: self.first_row,
            python: env.python.clone().into(),
            import: bridge.import,
            max_episode_steps: env.max_episode_steps.map(|steps| steps as usize),
            ignore_terminations: env.ignore_terminations,
            seeding: bridge.seeding,
            cameras: bridge.cameras,
            state: bridge.state,
            render: bridge.render,
            success: bridge.success,
            facts: bridge.facts,
            instruction: bridge.instruction,
            start_timeout_secs: bridge.start_timeout_secs,
            step_timeout_secs: bridge.step_timeout_secs,
            ..settings
        }
    }

    fn embedded(&self) -> Result<Box<dyn Env>, ComposeError> {
        let Some(id) = &self.settings.init_params.id else {
            return Err(self.problem("init_params.id", "no environment is named", supported_ids()));
        };
        let id: EnvId = id.parse().map_err(|error| self.problem("init_params.id", error, supported_ids()))?;
        let mut built = plaudit_env::EnvSettings {
            first_row: self.first_row,
            group_size: self.settings.group_size as usize,
            max_episode_steps: self.settings.max_episode_steps.map(|steps| steps as usize),
            ignore_terminations: self.settings.ignore_terminations,
            ..plaudit_env::EnvSettings::new(id, self.settings.total_num_envs.unwrap_or(1))
        };
        match id {
            EnvId::PickCubeV1 | EnvId::PickCube3ViewV1 => built.pick_cube = Some(self.pick_cube(id)?),
            EnvId::PegInsertionSideV1 => built.peg_insertion = Some(self.peg_insertion(id)?),
            _ => self.refuse_unsupported_by_classic_control(id)?,
        }
        embedded_env(&built).map_err(|error| match hints::about(&error) {
            Some(hint) => self.problem("engine", error, hint),
            None => {
                let hint = "lower total_num_envs, or change what the message names";
                self.problem("total_num_envs", error, hint)
            }
        })
    }

    fn pick_cube(&self, id: EnvId) -> Result<PickCubeSettings, ComposeError> {
        self.refuse_unsupported_by_tabletop(id)?;
        Ok(PickCubeSettings {
            control_mode: self.control_mode()?,
            reward_mode: self.settings.reward_mode,
            use_rel_reward: self.settings.use_rel_reward,
            obs_mode: self.obs_mode(),
            show_goal: self.settings.show_goal,
            engine: self.settings.engine,
            cameras: Some(self.cameras(PickCubeSettings::default().cameras_of(id))?),
        })
    }

    fn peg_insertion(&self, id: EnvId) -> Result<PegInsertionSettings, ComposeError> {
        self.refuse_unsupported_by_tabletop(id)?;
        Ok(PegInsertionSettings {
            control_mode: self.control_mode()?,
            reward_mode: self.settings.reward_mode,
            use_rel_reward: self.settings.use_rel_reward,
            obs_mode: self.obs_mode(),
            cameras: Some(self.cameras(PegInsertionSettings::default().cameras())?),
        })
    }

    fn obs_mode(&self) -> ObsMode {
        if self.settings.use_full_state { ObsMode::State } else { self.settings.init_params.obs_mode }
    }

    fn refuse_unsupported_by_tabletop(&self, id: EnvId) -> Result<(), ComposeError> {
        let clock = &self.settings.init_params.sim_config;
        if (clock.sim_freq, clock.control_freq) != (100, 20) {
            let message = "the embedded simulator runs at sim_freq 100 and control_freq 20";
            return Err(self.problem("init_params.sim_config", message, "leave both as they are"));
        }
        self.refuse_unless_default("reward_coef", self.settings.reward_coef == 1.0, id)
    }

    fn refuse_unsupported_by_classic_control(&self, id: EnvId) -> Result<(), ComposeError> {
        let settings = self.settings;
        self.refuse_unless_default("reward_mode", settings.reward_mode == EnvRewardMode::Raw, id)?;
        self.refuse_unless_default("reward_coef", settings.reward_coef == 1.0, id)?;
        self.refuse_unless_default("use_rel_reward", !settings.use_rel_reward, id)?;
        self.refuse_unless_default(
            "init_params.obs_mode",
            settings.init_params.obs_mode == ObsMode::State,
            id,
        )?;
        self.refuse_unless_default("video_cfg.save_video", !settings.video_cfg.save_video, id)
    }

    fn refuse_unless_default(&self, key: &str, is_default: bool, id: EnvId) -> Result<(), ComposeError> {
        if is_default {
            return Ok(());
        }
        Err(self.problem(key, format!("{id} does not know this"), "leave it out"))
    }

    fn control_mode(&self) -> Result<ControlMode, ComposeError> {
        match &self.settings.init_params.control_mode {
            None if self.settings.env_type == EnvType::Maniskill => {
                let message = "nothing says what an action means: policy_setup names another robot";
                let hint = "set actor.model.policy_setup to panda-qpos or panda-ee-dpos";
                Err(self.problem("init_params.control_mode", message, hint))
            }
            None => Ok(ControlMode::default()),
            Some(name) => by_name(name).map_err(|error| self.unknown_control(name, &error)),
        }
    }

    /// A control mode that plaudit does not have, at the key that asked for it.
    fn unknown_control(&self, name: &str, error: &serde_json::Error) -> ComposeError {
        let key = format!("{}.init_params.control_mode", self.which.key());
        match self.loaded.written_text(&key) == Some(name) {
            true => self.loaded.problem(
                &key,
                error.to_string(),
                "choose one of those, or leave it to policy_setup",
            ),
            false => {
                let hint = "set it to panda-qpos, panda-ee-dpos or panda-ee-dpose";
                self.loaded.problem("actor.model.policy_setup", error.to_string(), hint)
            }
        }
    }

    /// An environment's own cameras, at the sizes that `sensor_configs` gives, and any others it names.
    fn cameras(&self, mut cameras: Vec<CameraSettings>) -> Result<Vec<CameraSettings>, ComposeError> {
        let sizes = &self.settings.init_params.sensor_configs;
        for name in sizes.cameras.keys() {
            let name: CameraName = by_name(name).map_err(|error| {
                self.problem("init_params.sensor_configs", error, "name a camera of this environment")
            })?;
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
}

/// What records videos of a batch of environments, if the config asks for it. `directory` is used unless the
/// config names another.
pub fn video(
    loaded: &LoadedConfig,
    which: EnvBlock,
    spec: &EnvSpec,
    directory: PathBuf,
) -> Result<Option<VideoRecorder>, ComposeError> {
    let settings = which.settings(loaded);
    let video = &settings.video_cfg;
    if !video.save_video {
        return Ok(None);
    }
    let directory = video.video_base_dir.as_ref().map_or(directory, PathBuf::from);
    let fps = video.fps.unwrap_or(spec.control_hz);
    let recorder = VideoRecorder::new(VideoSettings {
        envs: video.max_envs,
        info: video.info_on_video,
        extra: video.extra_info_on_video.clone(),
        format: video.format,
        ..VideoSettings::new(directory, settings.seed, fps)
    });
    let key = format!("{}.video_cfg", which.key());
    recorder
        .map(Some)
        .map_err(|error| loaded.problem(&key, error.to_string(), "set save_video to false to go without"))
}

/// Whether an embedded arm can be moved in a mode of this name; else what it can be moved in.
pub(crate) fn check_control_mode(name: &str) -> Result<(), serde_json::Error> {
    by_name::<ControlMode>(name).map(drop)
}

/// A choice of a lower crate by the name users write.
fn by_name<T: DeserializeOwned>(name: &str) -> Result<T, serde_json::Error> {
    serde_json::from_value(name.into())
}

/// The policy a config describes, for environments like these.
pub fn policy(
    loaded: &LoadedConfig,
    which: EnvBlock,
    spec: &EnvSpec,
) -> Result<Box<dyn Policy>, ComposeError> {
    let model = &loaded.config.actor.model;
    let is_robot = which.settings(loaded).env_type == EnvType::Realworld;
    match model.model_type {
        _ if is_robot && !loaded.is_written("actor.model") => {
            Ok(Box::new(robot::StillPolicy { width: spec.actions.width() }))
        }
        ModelType::Random => Ok(Box::new(RandomPolicy::new(spec.actions.clone()))),
        ModelType::Scripted => {
            let builder = Builder { loaded, which, settings: which.settings(loaded), first_row: 0 };
            builder.scripted(spec, model.noise, model.misses)
        }
        ModelType::Mlp | ModelType::Cnn => trained_policy(loaded, spec),
        other => {
            let name = model.foreign.as_deref().unwrap_or(other.word());
            let message = format!("this version cannot act with `{name}`");
            Err(loaded.problem("actor.model.model_type", message, "set it to random or scripted"))
        }
    }
}

impl Builder<'_> {
    /// The script that solves environments like these.
    fn scripted(&self, spec: &EnvSpec, noise: f64, misses: f64) -> Result<Box<dyn Policy>, ComposeError> {
        let mode = self.control_mode()?;
        if self.obs_mode() == plaudit_env::ObsMode::Rgb {
            let message = "the script needs the full state, not only proprioception";
            return Err(self.problem("use_full_state", message, "set use_full_state to true"));
        }
        match spec.id.parse::<EnvId>() {
            Ok(EnvId::PickCubeV1 | EnvId::PickCube3ViewV1) => {
                Ok(Box::new(PickCubeExpert::new(mode).with_noise(noise).with_misses(misses)))
            }
            Ok(EnvId::PegInsertionSideV1) if misses > 0.0 => {
                let message = "the script of PegInsertion does not miss on purpose";
                Err(self.loaded.problem(
                    "actor.model.misses",
                    message,
                    "set it to 0, or set actor.model.noise",
                ))
            }
            Ok(EnvId::PegInsertionSideV1) => {
                let expert = PegInsertionExpert::new(mode).map_err(|error| {
                    self.problem(
                        "init_params.control_mode",
                        error,
                        "set actor.model.policy_setup to panda-qpos",
                    )
                })?;
                Ok(Box::new(expert.with_noise(noise)))
            }
            _ => {
                let message = format!("there is no script for {}", spec.id);
                let hint = "scripts solve PickCube-v1, PickCube3View-v1 and PegInsertionSide-v1";
                Err(self.loaded.problem("actor.model.model_type", message, hint))
            }
        }
    }
}
