//! The cameras that look at the table.

use plaudit_core::FrameShape;
use serde::{Deserialize, Serialize};

use crate::SettingsError;

/// More pixels than this are a mistake.
const LARGEST_SIDE: usize = 4096;

/// A camera and the size of its images.
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

    /// The camera's name and the shape of its images.
    pub(crate) fn named_shape(&self) -> (std::sync::Arc<str>, FrameShape) {
        (self.name.as_str().into(), FrameShape::rgb(self.height, self.width))
    }
}

/// The cameras there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum CameraName {
    /// The task's own: in PickCube in front of the robot, looking back at it; in PegInsertionSide low over the
    /// table, looking at the hole.
    #[serde(rename = "base_camera")]
    BaseCamera,
    /// On the hand, looking along the fingers.
    #[serde(rename = "hand_camera")]
    HandCamera,
    /// From the side. In PickCube at the place and the angle of `render_camera`; in PegInsertionSide nearer,
    /// where the hand does not hide the hole.
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

/// Refuses invalid cameras.
pub(crate) fn check(cameras: &[CameraSettings]) -> Result<(), SettingsError> {
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
