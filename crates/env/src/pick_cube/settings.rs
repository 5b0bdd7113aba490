//! What can be chosen about PickCube.

use serde::{Deserialize, Serialize};

use crate::panda::{CameraName, CameraSettings, ControlMode, Engine, ObsMode, RewardMode, cameras};
use crate::{EnvId, SettingsError};

/// What can be chosen about PickCube. Names and defaults are ManiSkill's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PickCubeSettings {
    /// What computes the physics.
    pub engine: Engine,
    /// How actions are understood.
    pub control_mode: ControlMode,
    /// The reward of the environment.
    pub reward_mode: RewardMode,
    /// Reward the difference to the previous step instead of the reward itself.
    pub use_rel_reward: bool,
    /// What the state vector holds, and whether images are rendered by default.
    pub obs_mode: ObsMode,
    /// Whether cameras show the goal as a green ball. `render_camera` always does.
    pub show_goal: bool,
    /// The cameras, the main one first; those of the environment's id if absent.
    pub cameras: Option<Vec<CameraSettings>>,
}

impl Default for PickCubeSettings {
    fn default() -> Self {
        Self {
            engine: Engine::default(),
            control_mode: ControlMode::default(),
            reward_mode: RewardMode::default(),
            use_rel_reward: false,
            obs_mode: ObsMode::default(),
            show_goal: true,
            cameras: None,
        }
    }
}

impl PickCubeSettings {
    /// The cameras these settings come to for an environment.
    pub fn cameras_of(&self, id: EnvId) -> Vec<CameraSettings> {
        let own = || match id {
            EnvId::PickCube3ViewV1 => vec![CameraName::BaseCamera, CameraName::ThirdViewCamera],
            _ => vec![CameraName::BaseCamera],
        };
        self.cameras.clone().unwrap_or_else(|| own().into_iter().map(CameraSettings::new).collect())
    }

    /// Checks the settings.
    pub(crate) fn check(&self) -> Result<(), SettingsError> {
        self.engine.check()?;
        cameras::check(self.cameras.as_deref().unwrap_or_default())
    }
}
