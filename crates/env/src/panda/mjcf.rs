//! The same table, robot and object as a scene in MuJoCo's own format.

use std::fmt::Write;

use glam::DVec3;

use super::kinematics::{BASE, JOINTS, LIMITS, Pose, hand_on_flange, joint_origin};
use super::robot::{ARMATURE, CAPSULES, PALM, RAIL, TIP};
use super::tabletop::{
    DAMPING, FINGER_OPEN, FRICTION, MAX_FORCE, MovableBox, STEP_SECS, STIFFNESS, TABLE, Wall,
};

/// Names of the geoms that a grasp is read from.
pub(super) const OBJECT: &str = "object";
pub(super) const TIPS: [&str; 2] = ["left_tip", "right_tip"];

/// The scene with a box like `object`. Joints come first: seven of the arm, two of the fingers, then the box.
///
/// Drives are springs and dampers of the end of a step, as Rapier's are: what that adds to force and inertia
/// is written into the scene, and the integrator is the explicit one. MuJoCo's implicit integrators add it
/// only after the contacts are solved. A finger of 0.1 kg has a damper here that weighs 1 kg within a step,
/// so contacts would be ten times too soft: the hand squeezed the cube out in half of the expert's episodes.
///
/// Sweeps against slip (`noslip`) keep a held cube from creeping. Two things that touch have the mean of
/// their frictions, as elsewhere; MuJoCo itself would take the larger. `solimp` makes contacts as stiff as
/// Rapier's: fingers sink 0.4 mm into the cube. A state that is no number any more is left so, for the batch
/// to find.
pub(super) fn scene(object: &MovableBox) -> String {
    let damping = DAMPING + STEP_SECS * STIFFNESS;
    let inertia = ARMATURE + STEP_SECS * damping;
    let [rubber, skin] = [TIP, PALM].map(|block| f64::midpoint(FRICTION.into(), block.friction));
    format!(
        r#"<mujoco model="tabletop">
<compiler angle="radian"/>
<size memory="256K"/>
<option timestep="{STEP_SECS}" integrator="Euler" cone="elliptic" impratio="10" noslip_iterations="4">
  <flag autoreset="disable"/>
</option>
<default>
  <geom friction="{FRICTION}" condim="3" solimp="0.99 0.999 0.001"/>
  <joint armature="{inertia}" limited="true"/>
  <position kp="{STIFFNESS}" kv="{damping}" forcerange="-{MAX_FORCE} {MAX_FORCE}"/>
  <default class="robot"><geom contype="2" conaffinity="1" friction="{skin}"/></default>
  <default class="tip"><geom contype="2" conaffinity="1" friction="{rubber}" priority="1"/></default>
</default>
<worldbody>
{table}
{robot}
<body name="{OBJECT}"><freejoint/><geom name="{OBJECT}" type="box" size="{half}" mass="{mass}"/></body>
</worldbody>
<actuator>
{drives}</actuator>
</mujoco>
"#,
        table = wall(&TABLE),
        robot = robot(),
        half = numbers(object.half),
        mass = object.mass,
        drives = drives(),
    )
}

/// The arm as bodies in bodies, without gravity: a real arm compensates its own weight.
fn robot() -> String {
    let mut text = format!("<body name=\"base\" pos=\"{}\" childclass=\"robot\">\n", numbers(BASE));
    for (joint, (from, to, radius, mass)) in CAPSULES.into_iter().enumerate() {
        let (low, high) = LIMITS[joint];
        let ends = [from, to].map(|end| numbers(DVec3::from_array(end.map(f64::from)))).join(" ");
        let _ = writeln!(
            text,
            r#"<body name="link{joint}" {place} gravcomp="1">
<joint name="joint{joint}" range="{low} {high}"/>
<geom type="capsule" fromto="{ends}" size="{radius}" mass="{mass}"/>"#,
            place = place(joint_origin(joint)),
        ); // a String takes anything
    }
    text + &hand() + &"</body>".repeat(JOINTS + 1)
}

fn hand() -> String {
    format!(
        r#"<body name="hand" {place} gravcomp="1">
<geom type="box" size="{half}" pos="{centre}" mass="{mass}"/>
{left}{right}</body>
"#,
        place = place(hand_on_flange()),
        half = numbers(PALM.half),
        centre = numbers(PALM.centre),
        mass = PALM.mass,
        left = finger(0, 1.0),
        right = finger(1, -1.0),
    )
}

/// A finger that opens towards `side` times the hand's y axis.
fn finger(number: usize, side: f64) -> String {
    let (centre, name) = (TIP.centre * DVec3::new(1.0, side, 1.0), TIPS[number]);
    format!(
        r#"<body name="finger{number}" pos="{rail}" gravcomp="1">
<joint name="finger{number}" type="slide" axis="0 {side} 0" range="0 {FINGER_OPEN}"/>
<geom name="{name}" class="tip" type="box" size="{half}" pos="{centre}" mass="{mass}"/></body>
"#,
        rail = numbers(RAIL),
        half = numbers(TIP.half),
        centre = numbers(centre),
        mass = TIP.mass,
    )
}

/// One drive per joint, in the order of the joints.
fn drives() -> String {
    let arm = (0..JOINTS).map(|joint| format!("<position joint=\"joint{joint}\"/>\n"));
    arm.chain((0..TIPS.len()).map(|finger| format!("<position joint=\"finger{finger}\"/>\n"))).collect()
}

fn wall(wall: &Wall) -> String {
    format!(r#"<geom type="box" size="{}" {}/>"#, numbers(wall.half), place(wall.pose))
}

/// MuJoCo writes the real part of a quaternion first.
fn place(pose: Pose) -> String {
    let q = pose.rotation;
    format!(r#"pos="{}" quat="{} {} {} {}""#, numbers(pose.position), q.w, q.x, q.y, q.z)
}

fn numbers(vector: DVec3) -> String {
    format!("{} {} {}", vector.x, vector.y, vector.z)
}
