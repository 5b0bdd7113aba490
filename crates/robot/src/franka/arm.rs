//! The arm behind the routes: its control session, and what becomes of it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use franka::robot::target_control::TuningUpdate;
use franka::{
    Backend as LoopBackend, CartesianTargetControl, FrankaError, ImpedanceGains, ImpedanceOptions,
    JointTargetControl, JointTargetControlOptions, Model, OtgLimits, Robot, RobotState, TargetControlOptions,
};

use super::hand::Hand;
use super::realtime::{LoopSettings, in_thread};
use super::rules::{Budget, FollowedTarget, Freshness, Recoveries, resting_pose};
use super::{FrankaServeError, FrankaSettings, Notices, convert};
use crate::serl::server::{Backend, Load, Refusal, Reported};
use crate::{Clock, Compliance, GripperCommand, ToolPose};

/// Torques of joints above which the arm stops itself.
const MAX_JOINT_NM: [f64; 7] = [40.0, 40.0, 36.0, 36.0, 32.0, 28.0, 24.0];
/// Joints this near to home that move no faster are there. Friction keeps a wrist from coming nearer.
const AT_HOME_RAD: f64 = 0.03;
const AT_REST_RAD_S: f64 = 0.05;
/// How long the way home may take, and how often it is looked at.
const HOME_TIMEOUT: Duration = Duration::from_secs(30);
const LOOKS_EVERY: Duration = Duration::from_millis(20);
/// Joints may move that far on the way home.
const HOME_REACH_RAD: f64 = 6.0;
/// What the arm can carry.
const MAX_LOAD_KG: f64 = 3.0;
/// A model that is further off than this is worth a word.
const MODEL_FITS_M: f64 = 0.005;
/// Words of an error that are repeated.
const REPEATED: usize = 300;

/// A connected arm.
pub(super) struct FrankaArm {
    robot: Arc<Robot>,
    model: Model,
    settings: FrankaSettings,
    how: LoopSettings,
    clock: Arc<dyn Clock>,
    notices: Arc<Notices>,
    session: Mutex<Session>,
    hand: Mutex<Option<Hand>>,
}

/// The loop that follows targets, and what outlives it.
#[derive(Default)]
struct Session {
    control: Option<CartesianTargetControl>,
    followed: FollowedTarget,
    freshness: Freshness,
    /// Why there is no loop.
    stopped: Option<Stopped>,
    /// The newest state while the joints move home, which is a loop of its own.
    homing: Option<Box<RobotState>>,
    recoveries: Recoveries,
    /// What `update_param` asked for.
    stiffness_n_m: Option<f64>,
    told_unused: bool,
    load: Option<Load>,
}

/// Why no targets are followed.
#[derive(Debug, Clone, PartialEq)]
enum Stopped {
    /// Somebody switched impedance off. Only `startimp` switches it on again.
    Off,
    /// The robot or the loop ended it.
    Itself(String),
    /// The joints are on their way home.
    Homing,
    /// The server ends.
    Closed,
}

impl Stopped {
    fn words(&self) -> &str {
        match self {
            Self::Off => "impedance is off",
            Self::Itself(why) => why,
            Self::Homing => "the joints move home",
            Self::Closed => "the server ends",
        }
    }

    /// 409 makes clients clear an error; the others pass, or a person ends them.
    fn refusal(&self) -> Refusal {
        match self {
            Self::Itself(why) => (409, serde_json::json!({ "error": why }).to_string()),
            _ => (503, self.words().to_string()),
        }
    }
}

/// An error in one line.
fn text(error: &FrankaError) -> String {
    let words = error.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
    words.chars().take(REPEATED).collect()
}

fn failed(error: &FrankaError) -> Refusal {
    (500, text(error))
}

impl FrankaArm {
    /// Connects, and begins to hold the arm where it is.
    pub(super) fn connect(
        settings: FrankaSettings,
        how: LoopSettings,
        clock: Arc<dyn Clock>,
        notices: Arc<Notices>,
    ) -> Result<Self, FrankaServeError> {
        let (address, realtime) = (settings.robot.clone(), how.realtime);
        let wrong = |during: &'static str| {
            let robot = address.clone();
            move |why: String| FrankaServeError::Robot { robot, during, why }
        };
        // franka-rs gives the thread that connects real-time priority, and the threads that it starts would have it, too.
        let host = address.clone();
        let connected = in_thread(move || Robot::new(&host, realtime).map_err(|error| text(&error)));
        let robot = Arc::new(connected.and_then(|robot| robot).map_err(wrong("connecting"))?);
        let (n, nm) = (settings.max_force_n, settings.max_torque_nm);
        let forces = [n, n, n, nm, nm, nm];
        robot
            .set_collision_behavior_simple(MAX_JOINT_NM, MAX_JOINT_NM, forces, forces)
            .map_err(|error| wrong("setting collision thresholds")(text(&error)))?;
        let model = robot.load_model().map_err(|error| wrong("loading its model")(text(&error)))?;
        let hand = Hand::connect(&settings.robot, notices.clone());
        if let Err(why) = &hand {
            notices.push(format!("there is no Franka Hand ({why}): gripper routes are refused"));
        }
        let (session, hand) = (Mutex::default(), Mutex::new(hand.ok()));
        let arm = Self { robot, model, settings, how, clock, notices, session, hand };
        let begun = arm.begin(&mut arm.session());
        begun.map_err(|error| wrong("beginning to control it")(text(&error)))?;
        arm.compare_with_model();
        Ok(arm)
    }

    fn compare_with_model(&self) {
        let state = self.session().control.as_ref().map(CartesianTargetControl::state);
        let off = state.and_then(|state| convert::model_error_m(&self.model, &state));
        if let Some(metres) = off.filter(|metres| *metres > MODEL_FITS_M) {
            self.notices.push(format!(
                "the robot's own pose is {metres:.3} m from its model's: poses are the model's"
            ));
        }
    }

    fn session(&self) -> MutexGuard<'_, Session> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn hand(&self) -> MutexGuard<'_, Option<Hand>> {
        self.hand.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How the loop follows targets.
    fn options(&self, stiffness_n_m: Option<f64>) -> TargetControlOptions {
        let limits = |budget: Budget| OtgLimits {
            max_velocity: budget.speed,
            max_acceleration: budget.acceleration,
            max_jerk: budget.jerk,
        };
        let (translation, rotation) = self.settings.budgets();
        let gains = stiffness_n_m.map_or(ImpedanceGains::CARTESIAN, ImpedanceGains::scaled_cartesian);
        TargetControlOptions::default()
            .with_backend(LoopBackend::Impedance(ImpedanceOptions::cartesian().with_gains(gains)))
            .with_limits(limits(translation))
            .with_rotation_limits(limits(rotation))
            .with_max_deviation(self.settings.max_reach_m)
            .with_max_angular_deviation(self.settings.max_reach_rad)
            .with_cpu(self.how.cpu)
    }

    /// Begins to follow targets; the first one is where the arm is. Does nothing for a server that ends.
    fn begin(&self, session: &mut Session) -> Result<(), FrankaError> {
        if session.stopped == Some(Stopped::Closed) {
            return Ok(());
        }
        (session.followed, session.freshness) = (FollowedTarget::default(), Freshness::default());
        match self.robot.start_cartesian_target_control(self.options(session.stiffness_n_m)) {
            Ok(control) => {
                (session.control, session.stopped) = (Some(control), None);
                Ok(())
            }
            Err(error) => {
                session.stopped = Some(Stopped::Itself(text(&error)));
                Err(error)
            }
        }
    }

    /// Takes note of a loop that has ended by itself.
    fn look_for_end(session: &mut Session) {
        if session.control.as_ref().is_some_and(|control| !control.is_running())
            && let Some(control) = session.control.take()
        {
            let why = control.stop().err().map_or_else(|| "the loop ended".into(), |error| text(&error));
            session.stopped = Some(Stopped::Itself(why));
        }
    }

    /// Ends the loop at rest, where the arm is and not where somebody wanted it to go. The robot's own controller holds it then.
    fn end(&self, session: &mut Session, why: Stopped) {
        if let Some(control) = session.control.take() {
            let state = control.state();
            if let Some(at) = convert::tool_pose(&self.model, &state) {
                let velocity = convert::twist(&self.model, &state);
                // A loop that takes no target any more has ended.
                let _ = send(&control, resting_pose(&self.settings, at, velocity, session.followed.pose()));
            }
            // The arm is at rest or has stopped itself: there is nothing to do about an error.
            let _ = control.stop();
        }
        session.stopped = Some(why);
    }

    /// The watchdog: an arm that is on its way and gets no targets any more stays where it is.
    pub(super) fn hold_without_targets(&self) {
        let mut session = self.session();
        Self::look_for_end(&mut session);
        let Some(control) = &session.control else { return };
        let (state, now) = (control.state(), self.clock.now());
        let Some(at) = convert::tool_pose(&self.model, &state) else { return };
        let velocity = convert::twist(&self.model, &state);
        let hold = session.followed.hold(&self.settings, at, velocity, now);
        let is_sent = hold.is_some_and(|pose| send(control, pose).is_ok());
        if is_sent {
            session.followed.held();
        }
        // Looked at here as well, so that its age is known when somebody asks.
        let _ = session.freshness.check(state.time.as_millis(), now);
    }

    /// Why the arm does not follow targets.
    pub(super) fn trouble(&self) -> Option<String> {
        let mut session = self.session();
        Self::look_for_end(&mut session);
        session.stopped.as_ref().map(|stopped| stopped.words().to_string())
    }

    pub(super) fn command_success_rate(&self) -> Option<f64> {
        Some(self.session().control.as_ref()?.state().control_command_success_rate)
    }

    /// Brings the arm to rest for good.
    pub(super) fn close(&self) {
        self.end(&mut self.session(), Stopped::Closed);
        // Joints on their way home see that, and stop.
        while self.session().homing.is_some() {
            std::thread::sleep(LOOKS_EVERY);
        }
        let hand = self.hand().take();
        if let Some(hand) = hand {
            hand.end();
        }
    }

    fn state(&self) -> Result<RobotState, Refusal> {
        let mut session = self.session();
        Self::look_for_end(&mut session);
        let state = match (&session.control, &session.homing) {
            (Some(control), _) => control.state(),
            (None, Some(state)) => **state,
            // Nobody else may read meanwhile, hence with the session in hand.
            (None, None) => return self.robot.read_once().map_err(|error| (503, text(&error))),
        };
        session.freshness.check(state.time.as_millis(), self.clock.now())?;
        Ok(state)
    }

    /// Moves the joints home at a fifth of their limits, as long as somebody wants it.
    fn go_home(&self, is_wanted: &dyn Fn() -> bool) -> Result<(), Refusal> {
        let options =
            JointTargetControlOptions::default().with_max_deviation(HOME_REACH_RAD).with_cpu(self.how.cpu);
        let control = self.robot.start_joint_target_control(options).map_err(|error| failed(&error))?;
        if let Err(error) = control.set_joints(self.settings.home_rad) {
            self.stop_joints(control);
            return Err((400, text(&error)));
        }
        let deadline = self.clock.now() + HOME_TIMEOUT;
        let given_up = loop {
            let state = control.state();
            if self.is_home(&state) {
                break None;
            }
            if !control.is_running() {
                break Some("the joints stopped on their way home");
            }
            if self.clock.now() >= deadline {
                break Some("the joints did not reach home in time");
            }
            let mut session = self.session();
            if session.stopped != Some(Stopped::Homing) || !is_wanted() {
                break Some("the joints were stopped on their way home");
            }
            session.homing = Some(Box::new(state));
            drop(session);
            std::thread::sleep(LOOKS_EVERY);
        };
        let Some(why) = given_up else { return control.stop().map_err(|error| failed(&error)) };
        self.stop_joints(control);
        Err((503, why.into()))
    }

    fn is_home(&self, state: &RobotState) -> bool {
        let is_near = |(at, home): (&f64, f64)| (at - home).abs() < AT_HOME_RAD;
        state.q.iter().zip(self.settings.home_rad).all(is_near)
            && state.dq.iter().all(|speed| speed.abs() < AT_REST_RAD_S)
    }

    /// Where they are. Joints that cannot be told so are stopped by the robot itself.
    fn stop_joints(&self, control: JointTargetControl) {
        if control.is_running() && control.set_joints(control.state().q).is_err() {
            // Nothing more can be done: the robot stops when the loop is gone.
            let _ = self.robot.stop();
        }
        let _ = control.stop();
    }
}

fn send(control: &CartesianTargetControl, pose: ToolPose) -> Result<(), FrankaError> {
    control.set_target(pose.position_m.to_array(), pose.rotation.normalize().to_array())
}

impl Backend for FrankaArm {
    fn reported(&self) -> Result<Reported, Refusal> {
        let state = self.state()?;
        let gripper_pos = match &*self.hand() {
            None => 0.0,
            Some(hand) => {
                hand.open().ok_or_else(|| (503, "the hand has been silent for a second".to_string()))?
            }
        };
        convert::reported(&self.model, &state, gripper_pos)
    }

    fn target(&self, pose: ToolPose) -> Result<(), Refusal> {
        let mut session = self.session();
        Self::look_for_end(&mut session);
        let session = &mut *session;
        let Some(control) = &session.control else {
            return Err(session.stopped.as_ref().map_or((503, String::new()), Stopped::refusal));
        };
        let (state, now) = (control.state(), self.clock.now());
        session.freshness.check(state.time.as_millis(), now)?;
        let at = convert::tool_pose(&self.model, &state)
            .ok_or_else(|| (503, "the robot reports no pose".to_string()))?;
        FollowedTarget::check(&self.settings, at, pose)?;
        send(control, pose).map_err(|error| failed(&error))?;
        session.followed.sent(pose, now);
        Ok(())
    }

    fn gripper(&self, command: GripperCommand) -> Result<(), Refusal> {
        match &*self.hand() {
            Some(hand) => hand.order(command).map_err(|why| (500, why)),
            None => Err((404, "there is no gripper".into())),
        }
    }

    /// An arm that follows targets has no error: SERL's clients ask before every target. One that is off stays off.
    fn clear_error(&self) -> Result<(), Refusal> {
        let mut session = self.session();
        Self::look_for_end(&mut session);
        let Some(Stopped::Itself(why)) = session.stopped.clone() else { return Ok(()) };
        let too_often =
            |again: String| (409, serde_json::json!({ "error": format!("{again}; {why}") }).to_string());
        session.recoveries.begin(self.clock.now()).map_err(too_often)?;
        self.robot.automatic_error_recovery().map_err(|error| failed(&error))?;
        self.begin(&mut session).map_err(|error| failed(&error))
    }

    fn joint_reset(&self, is_wanted: &dyn Fn() -> bool) -> Result<(), Refusal> {
        let state = self.state()?;
        {
            let mut session = self.session();
            if let Some(busy @ (Stopped::Homing | Stopped::Closed)) = &session.stopped {
                return Err(busy.refusal());
            }
            self.end(&mut session, Stopped::Homing);
            // Ending took a while, and the loop that moves the joints has no state yet.
            let rest = self.robot.read_once().unwrap_or(state);
            (session.homing, session.freshness) = (Some(Box::new(rest)), Freshness::default());
        }
        let went = self.go_home(is_wanted);
        let mut session = self.session();
        session.homing = None;
        let begun = if session.stopped == Some(Stopped::Homing) { self.begin(&mut session) } else { Ok(()) };
        went.and(begun.map_err(|error| failed(&error)))
    }

    fn impedance(&self, is_on: bool) -> Result<(), Refusal> {
        let mut session = self.session();
        Self::look_for_end(&mut session);
        match &session.stopped {
            Some(closed @ Stopped::Closed) => Err(closed.refusal()),
            Some(homing @ Stopped::Homing) if is_on => Err(homing.refusal()),
            Some(Stopped::Off | Stopped::Itself(_)) if is_on => {
                self.begin(&mut session).map_err(|error| failed(&error))
            }
            None if is_on => Ok(()),
            // Joints on their way home see it, and stop.
            _ => {
                self.end(&mut session, Stopped::Off);
                Ok(())
            }
        }
    }

    /// The translational stiffness; damping and rotations follow from it, and the rest has no place in this controller.
    fn compliance(&self, compliance: &Compliance) -> Result<(), Refusal> {
        let (asked, unused) = convert::stiffness(compliance)?;
        let mut session = self.session();
        if !unused.is_empty() && !session.told_unused {
            session.told_unused = true;
            let names = unused.join(", ");
            self.notices
                .push(format!("this controller has no {names}: what is asked of that changes nothing"));
        }
        let Some(stiffness) = asked else { return Ok(()) };
        session.stiffness_n_m = Some(stiffness); // counts for loops that begin later, too
        let Some(control) = &session.control else { return Ok(()) };
        let mut update = TuningUpdate::default();
        update.cartesian_stiffness = Some(stiffness);
        control.tune(&update).map(drop).map_err(|error| (400, text(&error)))
    }

    /// The robot takes a load at rest alone, so that its loop ends before and begins again.
    fn load(&self, load: &Load) -> Result<(), Refusal> {
        if !(0.0..=MAX_LOAD_KG).contains(&load.mass_kg) {
            return Err((
                400,
                format!("`mass` is {}, but the arm carries 0 to {MAX_LOAD_KG} kg", load.mass_kg),
            ));
        }
        let mut session = self.session();
        Self::look_for_end(&mut session);
        if session.load.as_ref() == Some(load) {
            return Ok(());
        }
        if let Some(busy @ (Stopped::Homing | Stopped::Closed)) = &session.stopped {
            return Err(busy.refusal());
        }
        let was_on = session.control.is_some();
        if was_on {
            self.end(&mut session, Stopped::Off);
        }
        let set = self.robot.set_load(load.mass_kg, load.centre_m, load.inertia_kg_m2);
        if set.is_ok() {
            session.load = Some(load.clone());
        }
        let begun = if was_on { self.begin(&mut session) } else { Ok(()) };
        set.and(begun).map_err(|error| failed(&error))
    }
}
