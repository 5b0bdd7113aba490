//! The arm behind the routes: its control session, and what becomes of it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use franka::robot::target_control::TuningUpdate;
use franka::{
    CartesianTargetControl, Frame, FrankaError, JointTargetControlOptions, Model, OtgLimits, RealtimeConfig,
    Robot, RobotState, TargetControlOptions,
};
use glam::{DMat3, DQuat, DVec3};

use super::hand::Hand;
use super::{FrankaServeError, FrankaSettings};
use crate::serl::server::{Backend, Refusal, Reported};
use crate::{Compliance, GripperCommand, ToolPose};

/// A tool this near to its target is there: it need not be told to hold.
const THERE_M: f64 = 0.003;
const THERE_RAD: f64 = 0.02;
/// Acceleration and jerk of targets, for a speed: half a second and a fortieth of one.
const SPEED_UP_SECS: f64 = 0.5;
const JERK_M_S3: f64 = 20.0;
/// Torques of joints above which the arm stops itself.
const MAX_JOINT_NM: [f64; 7] = [40.0, 40.0, 36.0, 36.0, 32.0, 28.0, 24.0];
/// How far joints may be from home, and how long the way may take.
const AT_HOME_RAD: f64 = 0.01;
const HOME_TIMEOUT: Duration = Duration::from_secs(30);
/// Joints may move that far on the way home.
const HOME_REACH_RAD: f64 = 6.0;
/// How far the tool may turn from where its control began.
const MAX_TURN_RAD: f64 = 1.2;

/// A connected arm.
pub(super) struct FrankaArm {
    robot: Arc<Robot>,
    model: Model,
    settings: FrankaSettings,
    session: Mutex<Session>,
    hand: Mutex<Option<Hand>>,
}

/// The loop that follows targets.
#[derive(Default)]
struct Session {
    control: Option<CartesianTargetControl>,
    /// The last target since the loop began, and when it came.
    target: Option<(ToolPose, Instant)>,
    is_holding: bool,
    /// Why there is no loop.
    stopped: Option<String>,
    /// The newest state while the joints move home, which is a loop of its own.
    homing: Option<Box<RobotState>>,
}

impl FrankaArm {
    /// Connects, and begins to hold the arm where it is.
    pub(super) fn connect(
        settings: FrankaSettings,
        realtime: RealtimeConfig,
        notices: &mut Vec<String>,
    ) -> Result<Self, FrankaServeError> {
        let failed = |during| {
            let robot = settings.robot.clone();
            move |error: FrankaError| FrankaServeError::Robot { robot, during, why: error.to_string() }
        };
        let robot = Arc::new(Robot::new(&settings.robot, realtime).map_err(failed("connecting"))?);
        let (n, nm) = (settings.max_force_n, settings.max_torque_nm);
        let forces = [n, n, n, nm, nm, nm];
        robot
            .set_collision_behavior_simple(MAX_JOINT_NM, MAX_JOINT_NM, forces, forces)
            .map_err(failed("setting collision thresholds"))?;
        let model = robot.load_model().map_err(failed("loading its model"))?;
        let hand = match Hand::connect(&settings.robot) {
            Ok(hand) => Some(hand),
            Err(why) => {
                notices.push(format!("there is no Franka Hand ({why}): gripper routes are refused"));
                None
            }
        };
        let arm = Self { robot, model, settings, session: Mutex::default(), hand: Mutex::new(hand) };
        let begun = arm.begin(&mut arm.session());
        begun.map_err(failed_to_begin(&arm.settings.robot))?;
        Ok(arm)
    }

    fn session(&self) -> MutexGuard<'_, Session> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn hand(&self) -> MutexGuard<'_, Option<Hand>> {
        self.hand.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to follow targets; the first one is where the arm is.
    fn begin(&self, session: &mut Session) -> Result<(), FrankaError> {
        let FrankaSettings { max_speed_m_s, max_turn_rad_s, .. } = self.settings;
        let budget = |speed: f64| OtgLimits {
            max_velocity: speed,
            max_acceleration: speed / SPEED_UP_SECS,
            max_jerk: JERK_M_S3,
        };
        let options = TargetControlOptions::default()
            .with_limits(budget(max_speed_m_s))
            .with_rotation_limits(budget(max_turn_rad_s))
            .with_max_deviation(self.settings.max_reach_m)
            .with_max_angular_deviation(MAX_TURN_RAD)
            .with_cpu(self.settings.cpu);
        *session = Session::default();
        match self.robot.start_cartesian_target_control(options) {
            Ok(control) => {
                session.control = Some(control);
                Ok(())
            }
            Err(error) => {
                session.stopped = Some(error.to_string());
                Err(error)
            }
        }
    }

    /// Takes note of a loop that has ended by itself.
    fn look_for_end(session: &mut Session) {
        if session.control.as_ref().is_some_and(|control| !control.is_running())
            && let Some(control) = session.control.take()
        {
            let why = control.stop().err().map_or_else(|| "it ended".into(), |error| error.to_string());
            session.stopped = Some(why);
            session.target = None;
        }
    }

    /// Ends the loop at rest. The robot's own controller holds the arm then.
    fn end(session: &mut Session, why: &str) {
        if let Some(control) = session.control.take() {
            // The arm is at rest or has stopped itself: there is nothing to do about an error.
            let _ = control.stop();
        }
        (session.target, session.stopped) = (None, Some(why.into()));
    }

    /// An arm that is on its way and gets no targets any more stays where it is.
    pub(super) fn hold_without_targets(&self) {
        let mut session = self.session();
        Self::look_for_end(&mut session);
        let Some((target, since)) = session.target else { return };
        if session.is_holding || since.elapsed() < self.settings.hold_after {
            return;
        }
        let Some(control) = &session.control else { return };
        let Some(pose) = pose_of(&control.state()) else { return };
        let is_there = pose.distance_m(target) < THERE_M && pose.angle_rad(target) < THERE_RAD;
        session.is_holding = is_there || send(control, pose).is_ok();
    }

    /// Why the arm does not follow targets.
    pub(super) fn trouble(&self) -> Option<String> {
        let mut session = self.session();
        Self::look_for_end(&mut session);
        session.stopped.clone()
    }

    pub(super) fn command_success_rate(&self) -> Option<f64> {
        Some(self.session().control.as_ref()?.state().control_command_success_rate)
    }

    pub(super) fn come_to_rest(&self) {
        let mut session = self.session();
        if let Some(control) = &session.control
            && let Some(pose) = pose_of(&control.state())
        {
            // Where it is now, not where somebody wanted it to go.
            let _ = send(control, pose);
        }
        Self::end(&mut session, "the server ends");
        if let Some(hand) = self.hand().take() {
            hand.end();
        }
    }

    fn state(&self) -> Result<RobotState, Refusal> {
        let session = self.session();
        match (&session.control, &session.homing) {
            (Some(control), _) => return Ok(control.state()),
            (None, Some(state)) => return Ok(**state),
            (None, None) => {}
        }
        self.robot.read_once().map_err(|error| (500, error.to_string()))
    }

    /// Moves the joints home at a fifth of their limits.
    fn go_home(&self) -> Result<(), String> {
        let text = |error: FrankaError| error.to_string();
        let options = JointTargetControlOptions::default()
            .with_max_deviation(HOME_REACH_RAD)
            .with_cpu(self.settings.cpu);
        let control = self.robot.start_joint_target_control(options).map_err(text)?;
        control.set_joints(self.settings.home_rad).map_err(text)?;
        let begun = Instant::now();
        let is_home = |state: &RobotState| {
            state.q.iter().zip(self.settings.home_rad).all(|(at, home)| (at - home).abs() < AT_HOME_RAD)
        };
        while control.is_running() && begun.elapsed() < HOME_TIMEOUT && !is_home(&control.state()) {
            self.session().homing = Some(Box::new(control.state()));
            std::thread::sleep(Duration::from_millis(20));
        }
        let is_there = is_home(&control.state());
        control.stop().map_err(text)?;
        if is_there { Ok(()) } else { Err("the joints did not reach home".into()) }
    }
}

fn failed_to_begin(robot: &str) -> impl FnOnce(FrankaError) -> FrankaServeError {
    let robot = robot.to_owned();
    let during = "beginning to control it";
    move |error| FrankaServeError::Robot { robot, during, why: error.to_string() }
}

fn send(control: &CartesianTargetControl, pose: ToolPose) -> Result<(), FrankaError> {
    control.set_target(pose.position_m.to_array(), pose.rotation.normalize().to_array())
}

/// The pose of a column-major transformation.
fn pose_of(state: &RobotState) -> Option<ToolPose> {
    let [m00, m10, m20, _, m01, m11, m21, _, m02, m12, m22, _, x, y, z, _] = state.O_T_EE;
    let turn = DMat3::from_cols_array(&[m00, m10, m20, m01, m11, m21, m02, m12, m22]);
    let is_turn = (turn.determinant() - 1.0).abs() < 0.01; // false for NaN
    let position_m = DVec3::new(x, y, z);
    let rotation = DQuat::from_mat3(&turn).normalize();
    (is_turn && position_m.is_finite()).then(|| ToolPose::new(position_m, rotation))
}

impl Backend for FrankaArm {
    fn reported(&self) -> Result<Reported, Refusal> {
        let state = self.state()?;
        let pose = pose_of(&state).ok_or_else(|| (500, "the robot reports no pose".to_string()))?;
        // Column-major, 6 x 7.
        let columns = self.model.zero_jacobian(Frame::EndEffector, &state);
        let jacobian: [[f64; 7]; 6] =
            std::array::from_fn(|row| std::array::from_fn(|joint| columns[6 * joint + row]));
        let speed = |row: &[f64; 7]| row.iter().zip(state.dq).map(|(part, dq)| part * dq).sum();
        let [fx, fy, fz, tx, ty, tz] = state.K_F_ext_hat_K;
        Ok(Reported {
            pose,
            vel: jacobian.each_ref().map(speed),
            force: [fx, fy, fz],
            torque: [tx, ty, tz],
            q: state.q,
            dq: state.dq,
            jacobian,
            gripper_pos: self.hand().as_ref().map_or(0.0, Hand::open),
        })
    }

    fn target(&self, pose: ToolPose) -> Result<(), Refusal> {
        let mut session = self.session();
        Self::look_for_end(&mut session);
        let Some(control) = &session.control else {
            let why = session.stopped.clone().unwrap_or_default();
            return Err((409, serde_json::json!({ "error": why }).to_string()));
        };
        let at = pose_of(&control.state()).ok_or_else(|| (500, "the robot reports no pose".to_string()))?;
        let (metres, radians) = (pose.distance_m(at), pose.angle_rad(at));
        let FrankaSettings { max_lead_m, max_lead_rad, .. } = self.settings;
        if metres > max_lead_m || radians > max_lead_rad {
            let words = format!(
                "the target is {metres:.3} m and {radians:.2} rad from the arm; {max_lead_m} m and {max_lead_rad} rad are allowed"
            );
            return Err((400, words));
        }
        send(control, pose).map_err(|error| (500, error.to_string()))?;
        (session.target, session.is_holding) = (Some((pose, Instant::now())), false);
        Ok(())
    }

    fn gripper(&self, command: GripperCommand) -> Result<(), Refusal> {
        match &*self.hand() {
            Some(hand) => hand.order(command).map_err(|why| (500, why)),
            None => Err((404, "there is no gripper".into())),
        }
    }

    /// An arm that follows targets has no error: SERL's clients ask before every target.
    fn clear_error(&self) -> Result<(), Refusal> {
        let mut session = self.session();
        Self::look_for_end(&mut session);
        if session.control.is_some() || session.homing.is_some() {
            return Ok(());
        }
        let failed = |error: FrankaError| (500, error.to_string());
        self.robot.automatic_error_recovery().map_err(failed)?;
        self.begin(&mut session).map_err(failed)
    }

    fn joint_reset(&self) -> Result<(), Refusal> {
        let state = self.state()?;
        {
            let mut session = self.session();
            if session.homing.is_some() {
                return Err((409, "the joints move home already".into()));
            }
            Self::end(&mut session, "the joints move home");
            session.homing = Some(Box::new(state));
        }
        let went = self.go_home();
        let begun = self.begin(&mut self.session()).map_err(|error| (500, error.to_string()));
        went.map_err(|why| (500, why)).and(begun)
    }

    fn impedance(&self, is_on: bool) -> Result<(), Refusal> {
        let mut session = self.session();
        Self::look_for_end(&mut session);
        match (is_on, session.control.is_some() || session.homing.is_some()) {
            (true, false) => self.begin(&mut session).map_err(|error| (500, error.to_string())),
            (false, true) if session.homing.is_none() => {
                Self::end(&mut session, "impedance is off");
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// The translational stiffness; damping and rotations follow from it, and the rest has no place in this controller.
    fn compliance(&self, compliance: &Compliance) -> Result<(), Refusal> {
        let named = compliance.values().iter().find(|(name, _)| *name == "translational_stiffness");
        let (Some((_, stiffness)), Some(control)) = (named, &self.session().control) else { return Ok(()) };
        let mut update = TuningUpdate::default();
        update.cartesian_stiffness = Some(*stiffness);
        control.tune(&update).map(drop).map_err(|error| (400, error.to_string()))
    }
}
