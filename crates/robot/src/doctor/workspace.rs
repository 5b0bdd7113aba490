//! Whether a workspace fits its task and the arm as it stands, and which of its faces cut what a policy wants.

use glam::DVec3;
use serde::Serialize;

use super::Finding;
use crate::{Face, ToolPose, Workspace};

const ABOUT: &str = "workspace";
/// As the guard has it: arms overshoot.
const INSIDE_M: f64 = 0.005;
const INSIDE_RAD: f64 = 0.05;

/// What is known about a workspace.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WorkspaceCheck {
    /// Its lowest corner, metres.
    pub min_m: [f64; 3],
    /// Its highest corner, metres.
    pub max_m: [f64; 3],
    /// Faces that the tool is beyond.
    pub tool_beyond: Vec<String>,
    /// Faces that the target is beyond.
    pub target_beyond: Vec<String>,
    /// Faces that the start of episodes is beyond.
    pub reset_beyond: Vec<String>,
    /// Full actions from where the tool is that are cut: the direction, and the faces that cut it.
    pub cut: Vec<(String, Vec<String>)>,
}

/// Looks at a workspace from where the tool is. A full action moves by `action_m` and turns by `action_rad`.
pub fn check_workspace(
    workspace: &Workspace,
    tool: ToolPose,
    (target, reset): (ToolPose, ToolPose),
    (action_m, action_rad): (f64, f64),
) -> WorkspaceCheck {
    let beyond = |pose: ToolPose| match workspace.contains(pose, INSIDE_M, INSIDE_RAD) {
        true => Vec::new(),
        false => names(&workspace.nearest(pose).1),
    };
    let axes = [DVec3::X, DVec3::Y, DVec3::Z];
    let directions = (0..6).flat_map(|axis| [Face { axis, is_upper: false }, Face { axis, is_upper: true }]);
    let cut = directions.filter_map(|direction| {
        let sign = if direction.is_upper { 1.0 } else { -1.0 };
        let way = sign * axes[direction.axis % 3];
        let wanted = match direction.axis < 3 {
            true => tool.moved(way * action_m, DVec3::ZERO),
            false => tool.moved(DVec3::ZERO, way * action_rad),
        };
        let faces = names(&workspace.nearest(wanted).1);
        (!faces.is_empty()).then(|| (direction.to_string(), faces))
    });
    WorkspaceCheck {
        min_m: workspace.bounds().min_m.to_array(),
        max_m: workspace.bounds().max_m.to_array(),
        tool_beyond: beyond(tool),
        target_beyond: beyond(target),
        reset_beyond: beyond(reset),
        cut: cut.collect(),
    }
}

fn names(faces: &[Face]) -> Vec<String> {
    faces.iter().map(ToString::to_string).collect()
}

impl WorkspaceCheck {
    /// What that means.
    pub fn findings(&self) -> Vec<Finding> {
        let (low, high) = (self.min_m, self.max_m);
        let text = format!(
            "x {:.3} to {:.3}, y {:.3} to {:.3}, z {:.3} to {:.3} m",
            low[0], high[0], low[1], high[1], low[2], high[2]
        );
        let mut findings = vec![Finding::fine(ABOUT, text)];
        let outside = |who: &str, faces: &[String], advice: &str| {
            let text = format!("{who} is outside, beyond {}", faces.join(", "));
            (!faces.is_empty()).then(|| Finding::wrong(ABOUT, text, advice))
        };
        let advice = "widen the box (`clip_*_range`, `ee_pose_limit_*`) or read the poses at the robot again";
        findings.extend(outside("the target", &self.target_beyond, advice));
        findings.extend(outside("the start of episodes", &self.reset_beyond, advice));
        let advice = "move the arm into the box by hand, or widen it: nothing moves from outside";
        findings.extend(outside("the tool", &self.tool_beyond, advice));
        if !self.cut.is_empty() && self.tool_beyond.is_empty() {
            let cut = self.cut.iter().map(|(way, faces)| format!("{way} (by {})", faces.join(", ")));
            let text =
                format!("full actions from here are cut towards {}", cut.collect::<Vec<_>>().join(", "));
            let advice =
                "as it should be near a face; in the middle of the task it means that the box is too small";
            findings.push(Finding::warning(ABOUT, text, advice));
        }
        findings
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::AxisBox;
    use crate::doctor::{Level, verdict};
    use glam::DQuat;

    fn pose(x: f64, y: f64, z: f64) -> ToolPose {
        ToolPose::new(DVec3::new(x, y, z), DQuat::IDENTITY)
    }

    #[test]
    fn the_face_that_cuts_is_named() {
        let bounds = AxisBox { min_m: DVec3::new(0.4, -0.1, 0.1), max_m: DVec3::new(0.6, 0.1, 0.3) };
        let space = Workspace::new(bounds, DQuat::IDENTITY, [0.3, 0.3, 0.05]).unwrap();
        let check =
            |tool| check_workspace(&space, tool, (pose(0.5, 0.0, 0.1), pose(0.5, 0.0, 0.2)), (0.02, 0.1));

        let middle = check(pose(0.5, 0.0, 0.2));
        let turns = [("-yaw", "-yaw"), ("+yaw", "+yaw")].map(|(way, face)| (way.into(), vec![face.into()]));
        assert_eq!(middle.cut, turns, "a full turn is wider than the window");
        assert!(middle.tool_beyond.is_empty() && middle.target_beyond.is_empty());

        let near_the_bottom = check(pose(0.59, 0.0, 0.11));
        assert!(near_the_bottom.cut.contains(&("-z".into(), vec!["-z".into()])));
        assert!(near_the_bottom.cut.contains(&("+x".into(), vec!["+x".into()])));
        assert_eq!(verdict(&near_the_bottom.findings()), Level::Warning);

        let outside = check(pose(0.7, 0.0, 0.05));
        assert_eq!(outside.tool_beyond, ["+x", "-z"]);
        assert_eq!(verdict(&outside.findings()), Level::Wrong);
        let far = check_workspace(
            &space,
            pose(0.5, 0.0, 0.2),
            (pose(0.5, 0.0, 0.0), pose(0.5, 0.3, 0.2)),
            (0.02, 0.0),
        );
        assert_eq!((far.target_beyond, far.reset_beyond), (vec!["-z".into()], vec!["+y".to_string()]));
    }
}
