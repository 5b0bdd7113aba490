//! What is seen of an arm at one time, as policies see it.

use std::sync::Arc;
use std::time::Duration;

use plaudit_core::{EnvError, Frames, Obs, StatePart};

use super::settings::RobotTask;
use crate::{ArmState, CameraFrame, Time, ToolPose};

/// Metres between the fingers of an open hand: states have the gripper in metres.
const OPEN_M: f64 = 0.08;

/// Parts of the state row: names in alphabetical order, with how many numbers each takes.
const PARTS: [(&str, usize); 5] =
    [("gripper_position", 1), ("tcp_force", 3), ("tcp_pose", 6), ("tcp_torque", 3), ("tcp_vel", 6)];

/// Numbers in a state row.
pub(super) const STATE_WIDTH: usize = 19;

pub(super) fn state_parts() -> Vec<StatePart> {
    let mut from = 0;
    let part = |(name, width): (&str, usize)| {
        let range = from..from + width;
        from = range.end;
        StatePart { name: name.into(), range }
    };
    PARTS.into_iter().map(part).collect()
}

/// An arm and its cameras at one time.
#[derive(Debug, Clone)]
pub(crate) struct View {
    pub(super) state: ArmState,
    pub(super) frames: Vec<(Arc<str>, CameraFrame)>,
}

impl View {
    /// When the oldest part of it was seen.
    pub(super) fn seen(&self) -> Time {
        self.state.time
    }

    /// How old the oldest frame is.
    pub(super) fn frame_age(&self, now: Time) -> Duration {
        self.frames.iter().map(|(_, frame)| now.since(frame.time)).max().unwrap_or_default()
    }

    /// The observation of a policy whose episode started at `start`.
    pub(super) fn obs(&self, task: &RobotTask, start: ToolPose) -> Result<Obs, EnvError> {
        let misfit = |error: plaudit_core::ObsError| EnvError::Backend(Box::new(error));
        let mut obs = Obs::from_state(1, self.row(task, start)).map_err(misfit)?;
        for (name, frame) in &self.frames {
            let image: Frames = (*frame.image).clone();
            obs = obs.with_camera(name.clone(), image).map_err(misfit)?;
        }
        match &task.instruction {
            Some(instruction) => obs.with_tasks(vec![instruction.clone()]).map_err(misfit),
            None => Ok(obs),
        }
    }

    fn row(&self, task: &RobotTask, start: ToolPose) -> Vec<f32> {
        let ArmState { pose, velocity, wrench, .. } = &self.state;
        let (mut shown, mut velocity) = (*pose, *velocity);
        if task.relative_frame {
            let back = start.rotation.conjugate();
            shown = ToolPose::new(back * (pose.position_m - start.position_m), back * pose.rotation);
            let into_tool = pose.rotation.conjugate();
            velocity.linear_m_s = into_tool * velocity.linear_m_s;
            velocity.angular_rad_s = into_tool * velocity.angular_rad_s;
        }
        let gripper = OPEN_M * self.state.gripper_open.unwrap_or(0.0);
        let numbers = [gripper]
            .into_iter()
            .chain(wrench.force_n.to_array())
            .chain(shown.to_xyz_euler())
            .chain(wrench.torque_nm.to_array())
            .chain(velocity.linear_m_s.to_array())
            .chain(velocity.angular_rad_s.to_array());
        numbers.map(|number| number as f32).collect()
    }
}
