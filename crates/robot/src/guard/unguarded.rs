//! A hold for an arm whose guard does not answer any more.

use super::HoldCause;
use crate::{Arm, ToolPose};

/// Sends an arm to where it is, once: for a person who wants it to stay while the process that guards it is gone or stands still. Where
/// the pose is not known nothing is sent. A guard that still moves the arm sends its next target after this.
pub fn hold_unguarded(arm: &mut dyn Arm) -> Result<ToolPose, HoldCause> {
    let pose = arm.state()?.pose;
    if !(pose.position_m.is_finite() && pose.rotation.is_finite()) {
        return Err(HoldCause::NoPose);
    }
    arm.target(&pose)?;
    Ok(pose)
}
