//! Whether the targets that arrive keep the limits that a guard promised, seen from the robot's side.

use crate::{Limits, ToolPose};

/// A target this near to the tool is no jump, whatever the last one was: seconds at the fastest.
const HOLD_SECS: f64 = 0.3;
const TOLERANCE_M: f64 = 1e-4;
const TOLERANCE_RAD: f64 = 1e-3;

/// Counts the targets that break a rule.
#[derive(Debug)]
pub(super) struct Watch {
    limits: Limits,
    last: Option<ToolPose>,
    broken: u64,
}

impl Watch {
    pub(super) fn new(limits: Limits) -> Self {
        Self { limits, last: None, broken: 0 }
    }

    pub(super) fn broken(&self) -> u64 {
        self.broken
    }

    /// A target arrived while the tool was at `tool`.
    pub(super) fn target(&mut self, target: ToolPose, tool: Option<ToolPose>) {
        let limits = &self.limits;
        let is_outside = !limits.workspace.contains(target, TOLERANCE_M, TOLERANCE_RAD);
        let step = limits.max_speed_m_s * limits.period.as_secs_f64() + TOLERANCE_M;
        let jumps = self.last.replace(target).is_some_and(|last| last.distance_m(target) > step);
        let is_hold = tool.is_none_or(|tool| tool.distance_m(target) <= limits.max_speed_m_s * HOLD_SECS);
        self.broken += u64::from(is_outside || jumps && !is_hold);
    }
}

#[cfg(test)]
mod tests {
    use glam::{DQuat, DVec3};

    use super::*;
    use crate::{AxisBox, Workspace};

    #[test]
    fn targets_outside_and_jumps_are_counted_and_holds_are_not() {
        let bounds = AxisBox { min_m: DVec3::ZERO, max_m: DVec3::ONE };
        let space = Workspace::new(bounds, DQuat::IDENTITY, [0.1; 3]).unwrap();
        let limits = Limits { max_speed_m_s: 0.2, ..Limits::new(space, 10.0) };
        let mut watch = Watch::new(limits);
        let pose = |x: f64| ToolPose::new(DVec3::new(x, 0.5, 0.5), DQuat::IDENTITY);
        let tool = Some(pose(0.5));
        for (x, broken) in [(0.5, 0), (0.52, 0), (0.9, 1), (0.5, 1), (0.55, 1), (1.2, 2)] {
            watch.target(pose(x), tool);
            assert_eq!(watch.broken(), broken, "{x}");
        }
    }
}
