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
    /// What the environment pays.
    pub reward_mode: RewardMode,
    /// Pay the difference to the step before instead of the reward itself.
    pub use_rel_reward: bool,
    /// What the state vector holds, and whether pictures are drawn unless told otherwise.
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

    /// Refuses what cannot be.
    pub(crate) fn check(&self) -> Result<(), SettingsError> {
        cameras::check(self.cameras.as_deref().unwrap_or_default())
    }
}
