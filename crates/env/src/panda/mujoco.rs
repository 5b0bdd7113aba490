//! The physics of a Panda at a table with one object to move, in MuJoCo.
//!
//! The scene is that of [`tabletop`](super::tabletop), and so are the drives and what a grasp is.

use std::sync::{Arc, Once};

use glam::{DQuat, DVec3};
use mujoco_rs::prelude::{MjData, MjModel, MjtObjBase, log_config, set_log_config};
use plaudit_core::EnvError;

use super::control::Command;
use super::kinematics::{JOINTS, Pose};
use super::mjcf;
use super::tabletop::{DOFS, FINGER_OPEN, GRASP_NEWTON, MovableBox, STEPS_PER_CONTROL, TableState};

/// A scene that any number of tables share.
#[derive(Debug)]
pub(crate) struct Scene {
    model: Arc<MjModel>,
    /// Numbers of the geoms that a grasp is read from.
    object: i32,
    tips: [i32; 2],
}

impl Scene {
    /// Prepares tables with a box like `object`.
    pub(crate) fn load(object: &MovableBox) -> Result<Arc<Self>, EnvError> {
        silence_logs();
        let failed = |words: String| EnvError::Backend(format!("MuJoCo rejected its scene: {words}").into());
        let model =
            MjModel::from_xml_string(&mjcf::scene(object)).map_err(|error| failed(error.to_string()))?;
        let geom = |name: &str| {
            let number = model.name_to_id(MjtObjBase::mjOBJ_GEOM, name).and_then(|id| i32::try_from(id).ok());
            number.ok_or_else(|| failed(format!("there is no geom `{name}`")))
        };
        let (object, tips) = (geom(mjcf::OBJECT)?, [geom(mjcf::TIPS[0])?, geom(mjcf::TIPS[1])?]);
        Ok(Arc::new(Self { model: Arc::new(model), object, tips }))
    }
}

/// MuJoCo would write its warnings to the console and to a file in the working directory.
fn silence_logs() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let config = log_config().with_logto_console(false).with_logto_file(false);
        // SAFETY: nobody else may use MuJoCo meanwhile, and nobody does: only this module uses it, every use
        // begins with a scene, and `call_once` lets no scene go on before this is done.
        #[allow(unsafe_code)]
        unsafe {
            set_log_config(config);
        }
    });
}

/// Robot, table and one object to move.
pub(crate) struct MujocoTable {
    scene: Arc<Scene>,
    data: MjData<Arc<MjModel>>,
}

impl MujocoTable {
    /// The robot at `angles` with open fingers, the object at `object`.
    pub(crate) fn new(scene: Arc<Scene>, angles: &[f64; JOINTS], object: Pose) -> Self {
        let mut data = MjData::new(scene.model.clone());
        let (p, q) = (object.position, object.rotation);
        let start = angles.iter().copied().chain([FINGER_OPEN; 2]).chain([p.x, p.y, p.z, q.w, q.x, q.y, q.z]);
        data.qpos_mut().iter_mut().zip(start).for_each(|(at, start)| *at = start);
        data.forward();
        Self { scene, data }
    }

    /// One control step towards `command`.
    pub(crate) fn step(&mut self, command: &Command) {
        let targets = command.arm.into_iter().chain([command.finger; 2]);
        self.data.ctrl_mut().iter_mut().zip(targets).for_each(|(drive, target)| *drive = target);
        for _ in 0..STEPS_PER_CONTROL {
            self.data.step();
        }
    }

    /// The state now. A grasp is two fingers that push within `grasp_degrees` of where they open to.
    pub(crate) fn read(&self, grasp_degrees: f64) -> TableState {
        let (qpos, qvel) = (self.data.qpos(), self.data.qvel());
        let at = |k: usize| qpos[DOFS + k];
        TableState {
            qpos: std::array::from_fn(|dof| qpos[dof]),
            qvel: std::array::from_fn(|dof| qvel[dof]),
            object: Pose::new(DVec3::new(at(0), at(1), at(2)), DQuat::from_xyzw(at(4), at(5), at(6), at(3))),
            is_grasped: self.is_grasped(grasp_degrees),
        }
    }

    fn is_grasped(&self, within_degrees: f64) -> bool {
        let least = within_degrees.to_radians().cos();
        [1.0, -1.0].into_iter().zip(self.scene.tips).all(|(side, tip)| {
            let push = self.push_on(tip);
            // The second column of a row-major rotation: the tip's y axis.
            let axes = self.data.geom_xmat()[tip as usize];
            let opening = side * DVec3::new(axes[1], axes[4], axes[7]);
            push.length() >= GRASP_NEWTON.into() && push.dot(opening) >= push.length() * least
        })
    }

    /// With what force the object pushes a finger's tip.
    fn push_on(&self, tip: i32) -> DVec3 {
        let mut push = DVec3::ZERO;
        for (number, contact) in self.data.contact().iter().enumerate() {
            // A contact's force acts on its second geom, in a frame whose rows are its axes.
            let sign = match (contact.geom1, contact.geom2) {
                (first, second) if (first, second) == (self.scene.object, tip) => 1.0,
                (first, second) if (first, second) == (tip, self.scene.object) => -1.0,
                _ => continue,
            };
            let force = self.data.contact_force(number);
            for (axis, force) in contact.frame.chunks_exact(3).zip(force) {
                push += sign * force * DVec3::new(axis[0], axis[1], axis[2]);
            }
        }
        push
    }
}

#[cfg(test)]
mod tests {
    use super::super::Arm;
    use super::super::kinematics::{REST, reach};
    use super::*;

    const HALF: f64 = 0.02;

    fn cube_at(x: f64, y: f64, yaw: f64) -> Pose {
        Pose::new(DVec3::new(x, y, HALF), DQuat::from_rotation_z(yaw))
    }

    fn scene() -> Arc<Scene> {
        let object = MovableBox { half: DVec3::splat(HALF), mass: 0.064, pose: cube_at(0.0, 0.0, 0.0) };
        Scene::load(&object).unwrap()
    }

    #[test]
    fn it_starts_where_it_was_put_and_stays_there() {
        let mut angles = REST;
        angles[2] = 0.1;
        let mut table = MujocoTable::new(scene(), &angles, cube_at(0.05, -0.05, 0.3));
        let before = table.read(85.0);
        assert_eq!(before.qpos[..JOINTS], angles);
        for _ in 0..20 {
            table.step(&Command { arm: angles, finger: FINGER_OPEN });
        }
        let after = table.read(85.0);
        for dof in 0..DOFS {
            assert!((after.qpos[dof] - before.qpos[dof]).abs() < 1e-3, "{dof}: {after:?}");
            assert!(after.qvel[dof].abs() < 1e-3);
        }
        assert!((after.object.position - before.object.position).length() < 1e-3, "{:?}", after.object);
        assert!(!after.is_grasped);
    }

    #[test]
    fn physics_that_blows_up_shows_it_and_the_process_lives() {
        for wrong in [f64::NAN, f64::INFINITY, f64::MAX] {
            let mut table = MujocoTable::new(scene(), &REST, cube_at(0.0, 0.0, 0.0));
            table.data.qvel_mut()[0] = wrong;
            for _ in 0..5 {
                table.step(&Command { arm: REST, finger: FINGER_OPEN });
            }
            assert!(!table.read(85.0).qpos.iter().all(|at| at.is_finite()), "{wrong}");
        }
        assert!(!std::fs::exists("MUJOCO_LOG.TXT").unwrap(), "warnings stay out of the working directory");
    }

    #[test]
    fn links_are_where_kinematics_has_them() {
        let mut angles = REST;
        angles.iter_mut().enumerate().for_each(|(joint, angle)| *angle += 0.1 * joint as f64);
        let table = MujocoTable::new(scene(), &angles, cube_at(0.0, 0.0, 0.0));
        let hand = table.scene.model.name_to_id(MjtObjBase::mjOBJ_BODY, "hand").unwrap();
        let at = DVec3::from_array(table.data.xpos()[hand]);
        assert!((at - Arm::at(&angles).hand.position).length() < 1e-9, "{at}");
    }

    #[test]
    fn a_grasped_cube_is_held_for_ten_seconds() {
        let down = Arm::at(&REST).tool.rotation;
        for (x, y, yaw) in [(0.02, 0.03, 0.2), (-0.1, 0.1, -0.6), (0.1, -0.1, 0.5)] {
            let mut table = MujocoTable::new(scene(), &REST, cube_at(x, y, yaw));
            let (mut angles, mut held_at) = (REST, None);
            for t in 0..270 {
                let (height, finger) = match t {
                    0..15 => (0.15, 0.04),
                    15..30 => (0.02, 0.04),
                    30..40 => (0.02, -0.01),
                    _ => (0.02 + 0.23 * ((t - 40) as f64 / 20.0).min(1.0), -0.01),
                };
                let target = Pose::new(DVec3::new(x, y, height), DQuat::from_rotation_z(yaw) * down);
                angles = reach(&angles, target, 5);
                table.step(&Command { arm: angles, finger });
                let state = table.read(85.0);
                if t == 69 {
                    held_at = Some(state.object);
                }
                assert_eq!(state.is_grasped, t > 36 || state.is_grasped && t > 30, "step {t}");
            }
            let (held_at, end) = (held_at.unwrap(), table.read(85.0));
            let drift = (end.object.position - held_at.position).length();
            let turn = end.object.rotation.angle_between(held_at.rotation).to_degrees();
            let sunk = HALF - (end.qpos[JOINTS] + end.qpos[JOINTS + 1]) / 2.0;
            assert!(drift < 3e-4 && turn < 0.2, "drifted {drift} m and {turn} degrees");
            assert!((0.0..6e-4).contains(&sunk), "fingers are {sunk} m in the cube");
            assert!(end.object.position.z > 0.23);
        }
    }
}
