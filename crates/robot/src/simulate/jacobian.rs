//! The Panda's geometric Jacobian at its tool, from Franka's published dimensions.

use glam::{DAffine3, DVec3};

use crate::JOINTS;

/// For each joint: length and twist of the link before it, and its offset (Craig's convention).
const LINKS: [(f64, f64, f64); JOINTS] = {
    const QUARTER: f64 = std::f64::consts::FRAC_PI_2;
    [
        (0.0, 0.0, 0.333),
        (0.0, -QUARTER, 0.0),
        (0.0, QUARTER, 0.316),
        (0.0825, QUARTER, 0.0),
        (-0.0825, -QUARTER, 0.384),
        (0.0, QUARTER, 0.0),
        (0.088, QUARTER, 0.0),
    ]
};
/// From the last joint to the flange, and on to between the finger tips.
const TOOL_M: f64 = 0.107 + 0.1034;

/// How each joint moves (rows 0 to 2) and turns (3 to 5) the tool, in the base frame.
pub(super) fn jacobian(angles_rad: &[f64; JOINTS]) -> [[f64; JOINTS]; 6] {
    let mut at = DAffine3::IDENTITY;
    let mut axes = [(DVec3::ZERO, DVec3::ZERO); JOINTS];
    for ((length, twist, offset), (angle, axis)) in LINKS.into_iter().zip(angles_rad.iter().zip(&mut axes)) {
        at = at
            * DAffine3::from_rotation_x(twist)
            * DAffine3::from_translation(DVec3::X * length)
            * DAffine3::from_rotation_z(*angle)
            * DAffine3::from_translation(DVec3::Z * offset);
        *axis = (at.translation, at.transform_vector3(DVec3::Z));
    }
    let tool = at.transform_point3(DVec3::Z * TOOL_M);
    let mut rows = [[0.0; JOINTS]; 6];
    for (joint, (origin, axis)) in axes.into_iter().enumerate() {
        let column = [axis.cross(tool - origin), axis];
        for (row, value) in column.iter().flat_map(|vector| vector.to_array()).enumerate() {
            rows[row][joint] = value;
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use plaudit_core::Seed;
    use plaudit_env::{ControlMode, EnvId, EnvSettings, PickCubeSettings, make};

    /// The embedded simulator has its own kinematics: what its joints did must be what its tool did.
    #[test]
    fn it_predicts_how_the_simulators_tool_moves() {
        let mut settings = EnvSettings::new(EnvId::PickCubeV1, 1);
        let control_mode = ControlMode::PdJointDeltaPos;
        settings.pick_cube = Some(PickCubeSettings { control_mode, ..PickCubeSettings::default() });
        let mut env = make(&settings).unwrap();
        let mut before = env.reset(Seed::new(1)).unwrap().state;
        for joint in 0..JOINTS {
            let mut action = [0.0; 8];
            action[joint] = 0.2;
            let after = env.step(&action).unwrap().obs.state;
            let number = |state: &[f32], at: usize| f64::from(state[at]);
            let turned: [f64; JOINTS] = std::array::from_fn(|k| number(&after, k) - number(&before, k));
            let middle = std::array::from_fn(|k| (number(&after, k) + number(&before, k)) / 2.0);
            let rows = jacobian(&middle);
            for (axis, row) in rows.iter().enumerate().take(3) {
                let predicted: f64 = (0..JOINTS).map(|k| row[k] * turned[k]).sum();
                let moved = number(&after, 19 + axis) - number(&before, 19 + axis);
                assert!((predicted - moved).abs() < 1e-4, "joint {joint} axis {axis}: {predicted} {moved}");
            }
            before = after;
        }
    }
}
