//! Cameras: the newest frame wins, and every frame has its own time.

mod address;
mod fit;
mod jpeg;
mod live;
mod mjpeg;
mod replay;
// Built and tested everywhere; without the devices they are for, nobody else calls them.
#[cfg_attr(not(all(feature = "devices", target_os = "linux")), allow(dead_code))]
mod v4l2;
#[cfg_attr(not(all(feature = "devices", target_os = "linux")), allow(dead_code))]
mod yuyv;

use std::sync::Arc;

use plaudit_core::{FrameShape, Frames};
use thiserror::Error;

use crate::Time;

pub use address::{CameraAddress, CameraAddressError};
pub use fit::{Crop, CropRegion, CropRegionError, FrameFit};
pub use live::{CameraCounts, LiveCamera, first_frame};
pub use mjpeg::MjpegCamera;
pub use replay::{AtEnd, ReplayCamera};
pub use v4l2::{V4l2Camera, V4l2Settings};

/// A camera that takes frames by itself, whether anybody asks or not.
pub trait Camera: Send {
    /// What it is called, such as `wrist_1`.
    fn name(&self) -> &str;

    /// The size of its frames.
    fn shape(&self) -> FrameShape;

    /// The newest whole frame and when it arrived, without waiting for another; `None` before the first. A camera that
    /// broke keeps its last frame, which grows old.
    fn newest(&mut self) -> Option<CameraFrame>;

    /// Why no frames arrive, if the camera knows.
    fn trouble(&self) -> Option<CameraError> {
        None
    }
}

/// A frame and its time. Cloning it copies no pixels.
#[derive(Debug, Clone, PartialEq)]
pub struct CameraFrame {
    /// One image.
    pub image: Arc<Frames>,
    /// When it arrived.
    pub time: Time,
    /// Counts the frames of this camera.
    pub number: u64,
}

/// Why a camera gives no frames.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CameraError {
    /// It cannot be reached.
    #[error("camera `{name}` at {address}: {why}")]
    Unreachable {
        /// Its name.
        name: String,
        /// Where.
        address: String,
        /// What the system says.
        why: String,
    },
    /// What it sends is no image.
    #[error("camera `{name}` sent a broken image: {why}")]
    Broken {
        /// Its name.
        name: String,
        /// What is wrong with it.
        why: String,
    },
}
