//! Reaching a robot server, and what to do when it cannot be reached.

use std::sync::Arc;

use plaudit_robot::{AddressError, ArmError, CameraError, Clock, SerlArm};

use crate::failure::Failure;
use crate::hints::about_arm;

/// The arm behind an address. Nothing is sent yet.
pub(super) fn arm(address: &str, clock: Arc<dyn Clock>) -> Result<SerlArm, Failure> {
    SerlArm::new(address, clock).map_err(|error| wrong_address(&error))
}

/// An address at which no robot server can be.
pub(super) fn wrong_address(error: &AddressError) -> Failure {
    Failure::usage(error, "give the robot server as `http://HOST:PORT`; SERL's port is 5000".to_string())
}

/// A camera that cannot be read.
pub(super) fn wrong_camera(error: &CameraError) -> Failure {
    let help = "`plaudit robot doctor --camera ADDRESS` says more about a camera: http://… of an MJPEG stream, /dev/video0, a \
                serial number, replay:FOLDER";
    Failure::runtime(error, help.to_string())
}

/// What an arm that does not answer or obey is told as.
pub(super) fn failed(error: &ArmError) -> Failure {
    Failure::runtime(error, about_arm(error).to_string())
}
