//! What can be chosen about PegInsertionSide.

use serde::{Deserialize, Serialize};

use crate::SettingsError;
use crate::panda::{CameraName, CameraSettings, ControlMode, ObsMode, RewardMode, cameras};

/// What can be chosen about PegInsertionSide. Names and defaults are ManiSkill's.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PegInsertionSettings {
    /// How actions are understood. The hand cannot turn in `pd_ee_delta_pos`, which leaves the task without
    /// a solution for most starts.
    pub control_mode: ControlMode,
    /// The reward of the environment.
    pub reward_mode: RewardMode,
    /// Reward the difference to the previous step instead of the reward itself.
    pub use_rel_reward: bool,
    /// What the state vector holds, and whether images are rendered by default.
    pub obs_mode: ObsMode,
    /// The cameras, the main one first; `base_camera` and `hand_camera` if absent.
    pub cameras: Option<Vec<CameraSettings>>,
}

impl PegInsertionSettings {
    /// The cameras these settings come to.
    pub fn cameras(&self) -> Vec<CameraSettings> {
        let own = || [CameraName::BaseCamera, CameraName::HandCamera].map(CameraSettings::new).to_vec();
        self.cameras.clone().unwrap_or_else(own)
    }

    /// Checks the settings.
    pub(crate) fn check(&self) -> Result<(), SettingsError> {
        cameras::check(self.cameras.as_deref().unwrap_or_default())
    }
}
