//! The only callers of [`Arm::target`]: whatever moves an arm goes through here.
//!
//! Two rules stand above the others. *A robot never moves because something failed*: whatever is missing, late or
//! broken ends in a hold at the measured pose, or in silence where that pose is not known. *Nothing moves before a
//! person has armed it*, and an arm that stopped itself too often waits for one again.
//!
//! ```text
//! Disarmed ──person──► Armed ──reflex──► Reflex ──recover──► Armed
//!                        │                  └──third in a minute──► NeedsPerson ──person──► Armed
//!                        └──stop──► Stopped, for good
//! ```
//!
//! Beside all that a person may hold the arm ([`Watched::hold_until_released`]): no mode undoes it.

mod gate;
mod limits;
mod unguarded;
mod watchdog;
mod workspace;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use glam::DVec3;

pub(crate) use gate::Gate;
pub use gate::Watched;
pub use limits::{HoldCause, LimitError, Limits};
pub use unguarded::hold_unguarded;
pub use watchdog::{SharedGuard, Watchdog};
pub use workspace::{AxisBox, Face, Workspace, WorkspaceError};

use crate::{Arm, ArmError, ArmState, Clock, Compliance, GripperCommand, Time, ToolPose};
use workspace::Coordinates;

/// Reflexes are counted over this time.
const REFLEX_WINDOW: Duration = Duration::from_secs(60);
/// A tool this near to its workspace is inside: arms overshoot.
const INSIDE_M: f64 = 0.005;
const INSIDE_RAD: f64 = 0.05;
/// A stalled arm is at least so far from its target, moves less than so much, and feels less than so much.
const STALL_GAP_M: f64 = 0.006;
const STALL_STILL_M: f64 = 0.0005;
const STALL_FORCE_N: f64 = 2.0;

/// A person's word that the arm may move. Whoever makes one vouches that a person was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Person {
    /// How the person said so: `pressed Enter in the terminal`.
    pub how: String,
}

impl Person {
    /// A person agreed, in this way.
    pub fn agreed(how: impl Into<String>) -> Self {
        Self { how: how.into() }
    }
}

/// What a policy or a person wants the tool to do: a motion from where it is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Motion {
    /// Along the base's axes.
    pub translation_m: DVec3,
    /// About the base's axes, as a rotation vector.
    pub rotation_rad: DVec3,
    /// When the observation was made that it was chosen from.
    pub seen: Time,
    /// Whether a person holds the dead-man's switch, or is the one who moves.
    pub by_person: bool,
}

/// What was sent to the arm.
#[derive(Debug, Clone, PartialEq)]
pub struct Sent {
    /// The target.
    pub target: ToolPose,
    /// What it asks for from where the arm was.
    pub translation_m: DVec3,
    /// The same for the rotation vector.
    pub rotation_rad: DVec3,
    /// Whether it is less than what was wanted.
    pub is_clipped: bool,
    /// The faces of the workspace it was cut at.
    pub faces: Vec<Face>,
}

/// What the guard lets happen.
#[derive(Debug, Clone, PartialEq)]
pub enum Mode {
    /// No person has armed it yet.
    Disarmed,
    /// Motions are passed on.
    Armed,
    /// The arm has stopped itself; somebody must call [`Guard::recover`].
    Reflex,
    /// A person has to look first.
    NeedsPerson(HoldCause),
    /// Stopped for good.
    Stopped,
}

/// Stands between everybody and the arm.
pub struct Guard {
    arm: Box<dyn Arm>,
    gate: Gate<Coordinates>,
    limits: Limits,
    state: Option<ArmState>,
    /// A person agreed to a move back into the workspace.
    is_guided: bool,
    reflexes: VecDeque<Time>,
    gripper_told: Option<Time>,
    /// Where the arm last moved, and when.
    last_moved: Option<(DVec3, Time)>,
    /// Where the arm stays while no motion is asked for: targets that followed the measured pose would let it drift.
    rests_at: Option<ToolPose>,
}

impl Guard {
    /// Guards an arm, which stays disarmed.
    pub fn new(arm: Box<dyn Arm>, limits: Limits, clock: Arc<dyn Clock>) -> Result<Self, LimitError> {
        limits.check()?;
        Ok(Self {
            arm,
            gate: Gate::new(clock),
            limits,
            state: None,
            is_guided: false,
            reflexes: VecDeque::new(),
            gripper_told: None,
            last_moved: None,
            rests_at: None,
        })
    }

    /// The limits.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The newest state there is, whatever its age.
    pub fn state(&self) -> Option<&ArmState> {
        self.state.as_ref()
    }

    /// A person lets the arm move, for the first time or after something a person had to look at. A stopped guard
    /// stays stopped.
    pub fn arm(&mut self, _person: &Person) {
        if self.gate.mode != Mode::Stopped {
            self.gate.mode = Mode::Armed;
            self.reflexes.clear();
            self.anchor();
        }
    }

    /// A person agrees that a tool outside of its workspace moves to the nearest place inside, if that is near.
    pub fn arm_for_guided_move(&mut self, person: &Person) {
        self.arm(person);
        self.is_guided = true;
    }

    /// The next target will be the measured pose: somebody else moved the arm.
    pub fn anchor(&mut self) {
        self.gate.anchor();
        self.is_guided = false;
        (self.last_moved, self.rests_at) = (None, None);
    }

    /// Reads the arm's state.
    pub fn observe(&mut self) -> Result<&ArmState, HoldCause> {
        let state = match self.arm.state() {
            Ok(state) => state,
            Err(error) => return Err(self.failed(error)),
        };
        if !(state.pose.position_m.is_finite() && state.pose.rotation.is_finite()) {
            return Err(HoldCause::NoPose);
        }
        self.look_for_stall(&state);
        Ok(self.state.insert(state))
    }

    /// Whether a tool at `pose` may begin to move: inside of the workspace, and not in a keep-out box.
    pub fn check_start(&self, pose: ToolPose) -> Result<(), HoldCause> {
        let space = &self.limits.workspace;
        let (nearest, faces) = space.nearest(pose);
        let is_near = nearest.distance_m(pose) <= self.limits.max_lead_m;
        if !(space.contains(pose, INSIDE_M, INSIDE_RAD) || self.is_guided && is_near) {
            let [x, y, z] = pose.position_m.to_array();
            let faces = faces.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            return Err(HoldCause::OutsideBox { at: format!("[{x:.3}, {y:.3}, {z:.3}]"), faces });
        }
        if space.crosses_keep_out(nearest, nearest) { Err(HoldCause::KeepOut) } else { Ok(()) }
    }

    /// Moves the tool, as far as the limits allow.
    pub fn act(&mut self, motion: &Motion) -> Result<Sent, HoldCause> {
        let now = self.gate.clock.now();
        let age = now.since(motion.seen);
        let most = self.limits.max_action_age;
        let refused = if let Err(cause) = self.gate.check_mode() {
            Some(cause)
        } else if !(motion.translation_m.is_finite() && motion.rotation_rad.is_finite()) {
            Some(HoldCause::NotFinite)
        } else if age > most {
            Some(HoldCause::ActionOld { age, most })
        } else if self.limits.dead_man && !motion.by_person {
            Some(HoldCause::DeadMan)
        } else {
            None
        };
        if let Some(cause) = refused {
            return Err(self.hold(cause));
        }
        let measured = self.measured()?;
        let wanted = if motion.translation_m == DVec3::ZERO && motion.rotation_rad == DVec3::ZERO {
            *self.rests_at.get_or_insert(measured)
        } else {
            self.rests_at = None;
            // Larger motions than this are cut anyway; without a limit their sum could overflow.
            measured.moved(motion.translation_m.clamp_length_max(10.0), motion.rotation_rad)
        };
        self.gate.acts();
        self.send_towards(measured, wanted)
    }

    /// Moves towards a pose by one step: for resets, which keep the same limits.
    pub fn approach(&mut self, goal: ToolPose) -> Result<Sent, HoldCause> {
        if let Err(cause) = self.gate.check_mode() {
            return Err(self.hold(cause));
        }
        let measured = self.measured()?;
        self.rests_at = None;
        self.gate.acts();
        self.send_towards(measured, goal)
    }

    /// Moves the gripper, if it was not told something a moment ago.
    pub fn gripper(&mut self, command: GripperCommand) -> Result<(), HoldCause> {
        self.gate.check_mode()?;
        let now = self.gate.clock.now();
        if let Some(since) = self.gripper_told.map(|told| now.since(told))
            && since < self.limits.gripper_interval
        {
            return Err(HoldCause::GripperTooSoon(since, self.limits.gripper_interval));
        }
        // Counted whether it arrives or not: a command whose answer is lost may have been obeyed.
        self.gripper_told = Some(now);
        self.arm.gripper(command).map_err(|error| self.failed(error))
    }

    /// Sets how the arm gives way; nothing moves.
    pub fn compliance(&mut self, compliance: &Compliance) -> Result<(), HoldCause> {
        self.arm.compliance(compliance).map_err(|error| self.failed(error))
    }

    /// Clears a reflex. The arm stays where it is, and its next target is that place.
    pub fn recover(&mut self) -> Result<(), HoldCause> {
        match &self.gate.mode {
            Mode::Reflex => {}
            Mode::Armed => return Ok(()),
            _ => return self.gate.check_mode(),
        }
        self.arm.recover().map_err(HoldCause::from)?;
        self.gate.mode = Mode::Armed;
        self.anchor();
        Ok(())
    }

    /// Moves all joints home, at the controller's own speed: only while armed.
    pub fn joint_reset(&mut self) -> Result<(), HoldCause> {
        self.gate.check_mode()?;
        let result = self.arm.joint_reset().map_err(|error| self.failed(error));
        self.anchor();
        result
    }

    /// Where the arm is, if that is known and nothing presses on it.
    fn measured(&mut self) -> Result<ToolPose, HoldCause> {
        let Some(state) = &self.state else { return Err(HoldCause::StateOld(Duration::MAX)) };
        let age = self.gate.clock.now().since(state.time);
        let (force, torque) = (state.wrench.force_n.length(), state.wrench.torque_nm.length());
        let (pose, limits) = (state.pose, &self.limits);
        let cause = if age > limits.max_state_age {
            HoldCause::StateOld(age)
        } else if force.is_nan() || force > limits.max_force_n {
            HoldCause::Force { newtons: force, most: limits.max_force_n }
        } else if torque.is_nan() || torque > limits.max_torque_nm {
            HoldCause::Torque { newton_metres: torque, most: limits.max_torque_nm }
        } else {
            return Ok(pose);
        };
        Err(self.hold(cause))
    }

    /// Sends the pose that is as near to `wanted` as one step may lead.
    fn send_towards(&mut self, measured: ToolPose, wanted: ToolPose) -> Result<Sent, HoldCause> {
        let Some((last, sent_at)) = self.gate.last else { return self.send_first() };
        let space = &self.limits.workspace;
        let lead = measured.position_m.distance(space.pose(last).position_m);
        if lead > self.limits.max_lead_m {
            let cause = self.hold(HoldCause::Lost { metres: lead, most: self.limits.max_lead_m });
            self.anchor();
            return Err(cause);
        }
        let (inside, faces) = space.clamp(space.coordinates(wanted));
        let elapsed = self.gate.clock.now().since(sent_at).min(self.limits.period).as_secs_f64();
        let step = self.limits.one_step(last, inside, elapsed);
        let target = self.limits.workspace.pose(step);
        self.send(step)?;
        let (translation_m, rotation_rad) = target.motion_from(measured);
        let is_clipped = target.distance_m(wanted) > 1e-6 || target.angle_rad(wanted) > 1e-6;
        Ok(Sent { target, translation_m, rotation_rad, is_clipped, faces })
    }

    /// The first target is where the arm is, which must be inside of the workspace.
    fn send_first(&mut self) -> Result<Sent, HoldCause> {
        let measured = self.observe()?.pose;
        self.check_start(measured)?;
        let space = &self.limits.workspace;
        let (inside, faces) = space.clamp(space.coordinates(measured));
        let target = space.pose(inside);
        self.is_guided = false;
        self.send(inside)?;
        let (translation_m, rotation_rad) = target.motion_from(measured);
        Ok(Sent { target, translation_m, rotation_rad, is_clipped: true, faces })
    }

    /// The one place that moves the arm.
    fn send(&mut self, target: Coordinates) -> Result<(), HoldCause> {
        let pose = self.limits.workspace.pose(target);
        self.arm.target(&pose).map_err(|error| self.failed(error))?;
        self.gate.sent(target);
        Ok(())
    }

    /// Notes what an error means for the arm.
    fn failed(&mut self, error: ArmError) -> HoldCause {
        if matches!(error, ArmError::Reflex { .. }) {
            self.note_reflex();
        }
        error.into()
    }

    fn note_reflex(&mut self) {
        if self.gate.mode != Mode::Armed {
            return;
        }
        let now = self.gate.clock.now();
        self.reflexes.push_back(now);
        self.reflexes.retain(|reflex| now.since(*reflex) < REFLEX_WINDOW);
        self.anchor();
        let count = self.reflexes.len();
        let is_often = count >= self.limits.reflexes_per_minute;
        self.gate.mode = if is_often { Mode::NeedsPerson(HoldCause::Reflexes(count)) } else { Mode::Reflex };
    }

    /// An arm that is far from its target, does not move and feels nothing has stopped itself.
    fn look_for_stall(&mut self, state: &ArmState) {
        let (Some(stall_after), Some((last, _))) = (self.limits.stall_after, self.gate.last) else { return };
        let at = state.pose.position_m;
        let gap = at.distance(self.limits.workspace.pose(last).position_m);
        let has_moved = self.last_moved.is_none_or(|(before, _)| before.distance(at) > STALL_STILL_M);
        let feels = state.wrench.force_n.length() > STALL_FORCE_N;
        if has_moved || feels || gap < STALL_GAP_M {
            self.last_moved = Some((at, state.time));
        }
        if self.last_moved.is_some_and(|(_, since)| state.time.since(since) > stall_after) {
            self.note_reflex();
        }
    }
}

impl Watched for Guard {
    type Target = Coordinates;

    fn gate(&self) -> &Gate<Coordinates> {
        &self.gate
    }

    fn gate_mut(&mut self) -> &mut Gate<Coordinates> {
        &mut self.gate
    }

    fn max_action_age(&self) -> Duration {
        self.limits.max_action_age
    }

    /// The measured pose as a target. Nothing is sent where it is not known, or lies behind a keep-out box.
    fn send_hold(&mut self) -> bool {
        self.rests_at = None;
        // Read anew: a hold where the arm was a moment ago would move it back.
        let Ok(state) = self.arm.state() else { return false };
        if !(state.pose.position_m.is_finite() && state.pose.rotation.is_finite()) {
            return false;
        }
        let Some((last, _)) = self.gate.last else { return false };
        let space = &self.limits.workspace;
        let (inside, _) = space.clamp(space.coordinates(state.pose));
        let is_blocked = space.crosses_keep_out(space.pose(last), space.pose(inside));
        self.state = Some(state);
        !is_blocked && self.send(inside).is_ok()
    }
}

impl Limits {
    /// From `last` towards `wanted`, both inside of the workspace, as far as speeds and keep-out boxes allow. The
    /// workspace is convex in these coordinates, so what lies between is inside, too.
    fn one_step(&self, last: Coordinates, wanted: Coordinates, elapsed_secs: f64) -> Coordinates {
        let way: Coordinates = std::array::from_fn(|axis| wanted[axis] - last[axis]);
        let metres = DVec3::new(way[0], way[1], way[2]).length();
        // At least the angle between the two: turning about one axis after the other is a way there.
        let radians: f64 = way[3..].iter().map(|turn| turn.abs()).sum();
        let most = |limit: f64, way: f64| if way > limit { limit / way } else { 1.0 };
        let part_m = most(self.max_speed_m_s * elapsed_secs, metres);
        let part_rad = most(self.max_turn_rad_s * elapsed_secs, radians);
        let part = |axis: usize| if axis < 3 { part_m } else { part_rad };
        let step: Coordinates = std::array::from_fn(|axis| last[axis] + part(axis) * way[axis]);
        let place = |at: Coordinates| DVec3::new(at[0], at[1], at[2]);
        let free = self.workspace.free_part(place(last), place(step));
        let cut = |axis: usize| if axis < 3 { free } else { 1.0 };
        std::array::from_fn(|axis| last[axis] + cut(axis) * (step[axis] - last[axis]))
    }
}

impl Drop for Guard {
    /// Also runs while a panic unwinds: the arm must not go on to a target that nobody watches.
    fn drop(&mut self) {
        self.hold(HoldCause::Stopped);
    }
}
