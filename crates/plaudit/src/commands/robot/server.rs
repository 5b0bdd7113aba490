//! Reaching a robot server, and what to do when it cannot be reached.

use std::sync::Arc;

use plaudit_robot::{AddressError, ArmError, CameraError, Clock, SerlArm};

use crate::failure::Failure;

/// The arm behind an address. Nothing is sent yet.
pub(super) fn arm(address: &str, clock: Arc<dyn Clock>) -> Result<SerlArm, Failure> {
    SerlArm::new(address, clock).map_err(|error| wrong_address(&error))
}

/// An address at which no robot server can be.
pub(super) fn wrong_address(error: &AddressError) -> Failure {
    Failure::usage(error, "give the robot server as `http://HOST:PORT`; SERL's port is 5000".to_string())
}

/// An address at which no camera can be.
pub(super) fn wrong_camera(error: &CameraError) -> Failure {
    Failure::usage(
        error,
        "give a camera as the address of its MJPEG stream, `http://HOST:PORT/PATH`".to_string(),
    )
}

/// What an arm that does not answer or obey is told as.
pub(super) fn failed(error: &ArmError) -> Failure {
    Failure::runtime(error, advice(error).to_string())
}

/// What to do about it.
pub(super) fn advice(error: &ArmError) -> &'static str {
    match error {
        ArmError::Unreachable { .. } => {
            "start the robot server there, or a simulated one with `plaudit robot simulate`"
        }
        ArmError::NotReady { .. } => {
            "wait until the server has the arm's state; SERL's servers started with --gripper_type=None never have"
        }
        ArmError::Reflex { .. } => "look why the arm stopped, then clear its error at the server (/clearerr)",
        ArmError::Refused { .. } | ArmError::Reply { .. } => {
            "plaudit speaks the dialect of SERL's robot servers; `plaudit robot doctor` says what this one speaks"
        }
    }
}
