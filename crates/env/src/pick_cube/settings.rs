//! What can be chosen about PickCube.

use serde::{Deserialize, Serialize};

use crate::panda::ControlMode;
use crate::{EnvId, SettingsError};

/// What can be chosen about PickCube. Names and defaults are ManiSkill's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PickCubeSettings {
    /// How actions are understood.
    pub control_mode: ControlMode,
    /// What the environment pays.
    pub reward_mode: RewardMode,
    /// Pay the difference to the step before instead of the reward itself.
    pub use_rel_reward: bool,
    /// What the state vector holds, and whether pictures are drawn unless told otherwise.
    pub obs_mode: ObsMode,
    /// Whether cameras show the goal as a green ball. `render_camera` always does.
    pub show_goal: bool,
    /// The cameras, the main one first; those of the environment's id if absent.
    pub cameras: Option<Vec<CameraSettings>>,
}

impl Default for PickCubeSettings {
    fn default() -> Self {
        Self {
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

    /// Refuses cameras that cannot be.
    pub(crate) fn check(&self) -> Result<(), SettingsError> {
        let cameras = self.cameras.as_deref().unwrap_or_default();
        for (at, camera) in cameras.iter().enumerate() {
            let CameraSettings { name, width, height } = *camera;
            if !(1..=LARGEST_SIDE).contains(&width) || !(1..=LARGEST_SIDE).contains(&height) {
                return Err(SettingsError::CameraSize { name: name.as_str(), width, height });
            }
            if cameras[..at].iter().any(|other| other.name == name) {
                return Err(SettingsError::CameraTwice { name: name.as_str() });
            }
        }
        Ok(())
    }
}

/// Pixels beyond which a picture is a mistake.
const LARGEST_SIDE: usize = 4096;

/// What the environment pays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RewardMode {
    /// What ManiSkill pays unless told otherwise: the dense reward over 5.
    #[default]
    Raw,
    /// 1 for success, else 0.
    OnlySuccess,
    /// ManiSkill's sparse reward: the same, since PickCube knows no failure.
    Sparse,
    /// Reaching, grasping, placing and standing still, at most 5.
    Dense,
    /// The dense reward over 5.
    NormalizedDense,
}

/// What is observed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ObsMode {
    /// The full state, 42 numbers. No pictures unless somebody watches.
    #[default]
    State,
    /// What a robot could know without seeing, 29 numbers, and pictures of every step.
    Rgb,
}

/// A camera and the size of its pictures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CameraSettings {
    /// Which camera.
    pub name: CameraName,
    /// Pixels in a row.
    pub width: usize,
    /// Rows.
    pub height: usize,
}

impl CameraSettings {
    /// A camera at the size it usually has.
    pub fn new(name: CameraName) -> Self {
        let side = if name == CameraName::RenderCamera { 512 } else { 128 };
        Self { name, width: side, height: side }
    }
}

/// The cameras there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum CameraName {
    /// In front of the robot, looking back at it.
    #[serde(rename = "base_camera")]
    BaseCamera,
    /// On the hand, looking along the fingers.
    #[serde(rename = "hand_camera")]
    HandCamera,
    /// From the side, at the place and the angle of `render_camera`.
    #[serde(rename = "3rd_view_camera")]
    ThirdViewCamera,
    /// From the side, for people: it always shows the goal.
    #[serde(rename = "render_camera")]
    RenderCamera,
}

impl CameraName {
    /// The name users write.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::BaseCamera => "base_camera",
            Self::HandCamera => "hand_camera",
            Self::ThirdViewCamera => "3rd_view_camera",
            Self::RenderCamera => "render_camera",
        }
    }
}
