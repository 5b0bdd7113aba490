//! What to do about an arm that does not answer, obey or move.

use plaudit_robot::{ArmError, HoldCause};

/// What to do about a robot server.
pub(crate) fn about_arm(error: &ArmError) -> &'static str {
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

/// What to do about an arm that holds before it ever moved.
pub(super) fn about_hold(cause: &HoldCause) -> Option<&'static str> {
    Some(match cause {
        HoldCause::Arm(error) => about_arm(error),
        HoldCause::FrameOld { .. } | HoldCause::Other(_) => {
            "`plaudit robot doctor` says more about server and cameras; nothing has moved"
        }
        HoldCause::OutsideBox { .. } | HoldCause::KeepOut => {
            "guide the tool inside by hand, or widen the box (clip_*_range, ee_pose_limit_*); `plaudit robot doctor CONFIG` \
             shows both"
        }
        HoldCause::Force { .. } | HoldCause::Torque { .. } => {
            "take away what presses on the tool; max_force and max_torque are the limits"
        }
        _ => return None,
    })
}
