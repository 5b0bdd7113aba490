//! A LeRobot arm in a Python process: what is asked of it, and what it says of itself.
//!
//! A [`PythonRobot`] starts the user's own interpreter, has it connect to a robot and perhaps to a teleoperator, and then
//! does two things on demand: it observes, and it sends targets. Nobody here decides where an arm may go.
//!
//! Every call ends within the time it is given. A call that comes too early for an answer says so
//! ([`BridgeError::Late`]), and the next one takes the answer that is still under way; a process that answers nothing for
//! [`hang_secs`](PythonRobotSettings::hang_secs) is killed, without a goodbye to the motors.

#[cfg_attr(not(target_os = "linux"), path = "unsupported.rs")]
mod device;

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use plaudit_core::{FrameShape, Frames};
use serde::Deserialize;
use serde_json::{Value, json};

use super::description::{CameraDescription, camera_shapes};
use super::error::BridgeError;
use super::settings::Arguments;

pub use device::PythonRobot;

/// Numbers that a robot may observe; a humanoid has some hundreds.
const MOST_NUMBERS: usize = 4096;

/// What to connect to in Python.
#[derive(Debug, Clone, PartialEq)]
pub struct PythonRobotSettings {
    /// The Python to run.
    pub python: PathBuf,
    /// Modules to import first, so that they can register robots: names, or paths that end in `.py`.
    pub import: Vec<String>,
    /// lerobot's config of the robot: `type`, `port`, `cameras`, …
    pub robot: Arguments,
    /// The same for a teleoperator.
    pub teleop: Option<Arguments>,
    /// Seconds that importing and connecting may take.
    pub start_timeout_secs: f64,
    /// Seconds without an answer after which the process counts as hung.
    pub hang_secs: f64,
}

impl PythonRobotSettings {
    /// A robot with lerobot's config, and the defaults for the rest.
    pub fn new(robot: Arguments) -> Self {
        Self {
            python: "python3".into(),
            import: Vec::new(),
            robot,
            teleop: None,
            start_timeout_secs: 120.0,
            hang_secs: 10.0,
        }
    }

    /// The type of the robot; empty if there is none.
    pub fn id(&self) -> &str {
        self.robot.get("type").and_then(Value::as_str).unwrap_or_default()
    }

    /// Checks the settings before anything is started.
    pub fn check(&self) -> Result<(), BridgeError> {
        let refuse = |words: &str| Err(BridgeError::Setting(words.into()));
        if self.id().is_empty() {
            return refuse("the robot has no type; name one such as so101_follower");
        }
        let teleop_type = |teleop: &Arguments| teleop.get("type").is_some_and(Value::is_string);
        if !self.teleop.as_ref().is_none_or(teleop_type) {
            return refuse("the teleoperator has no type; name one such as so101_leader");
        }
        for secs in [self.start_timeout_secs, self.hang_secs] {
            if secs.is_nan() || secs <= 0.0 || Duration::try_from_secs_f64(secs).is_err() {
                return refuse(
                    "a timeout must be a positive number of seconds; use a large one to wait long",
                );
            }
        }
        Ok(())
    }

    #[cfg_attr(not(target_os = "linux"), allow(dead_code))]
    fn message(&self) -> Value {
        json!({ "import": self.import, "robot": self.robot, "teleop": self.teleop })
    }
}

/// What a robot in Python is like.
#[derive(Debug, Clone, PartialEq)]
pub struct PythonRobotSpec {
    /// The numbers that it observes, in its own order.
    pub state: Vec<Arc<str>>,
    /// The joints that it takes targets for, in the order of its actions. Each is among [`state`](Self::state).
    pub joints: Vec<Arc<str>>,
    /// Its cameras.
    pub cameras: Vec<(Arc<str>, FrameShape)>,
    /// Whether a teleoperator leads it.
    pub has_teleop: bool,
    /// Whether the teleoperator tells events.
    pub has_events: bool,
}

/// What was observed.
#[derive(Debug, Clone, PartialEq)]
pub struct PythonRobotReading {
    /// The robot's numbers, in the order of [`PythonRobotSpec::state`].
    pub state: Vec<f32>,
    /// One image for each camera.
    pub frames: Vec<Frames>,
    /// Where the teleoperator leads each joint.
    pub leader: Option<Vec<f32>>,
    /// What the person at the teleoperator wants.
    pub events: PythonTeleopEvents,
    /// When it was asked for: all of it is at least as new, but for what the robot's own code keeps.
    pub asked: Instant,
}

/// What the person at a teleoperator wants: lerobot's `TeleopEvents`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PythonTeleopEvents {
    /// The person acts.
    pub is_intervention: bool,
    /// The episode succeeded.
    pub success: bool,
    /// The episode failed.
    pub failure: bool,
    /// The episode is over.
    pub terminate_episode: bool,
    /// The episode is worth nothing.
    pub rerecord_episode: bool,
}

impl PythonTeleopEvents {
    #[cfg_attr(not(target_os = "linux"), allow(dead_code))]
    const COUNT: usize = 5;

    #[cfg_attr(not(target_os = "linux"), allow(dead_code))]
    fn from_bytes(bytes: &[u8]) -> Self {
        let is = |at: usize| bytes.get(at).is_some_and(|byte| *byte != 0);
        Self {
            is_intervention: is(0),
            success: is(1),
            failure: is(2),
            terminate_episode: is(3),
            rerecord_episode: is(4),
        }
    }
}

/// What the process says of its robot.
#[derive(Debug, Clone, PartialEq, Deserialize)]
struct RobotDescription {
    state: Vec<String>,
    joints: Vec<String>,
    cameras: Vec<CameraDescription>,
    has_teleop: bool,
    has_events: bool,
}

impl RobotDescription {
    /// The robot this describes, or what about it cannot be.
    #[cfg_attr(not(target_os = "linux"), allow(dead_code))]
    fn spec(&self) -> Result<PythonRobotSpec, String> {
        for (what, names) in [("numbers", &self.state), ("joints", &self.joints)] {
            if names.is_empty() || names.len() > MOST_NUMBERS {
                return Err(format!("a robot with {} {what}", names.len()));
            }
            let mut seen = HashSet::new();
            if let Some(twice) = names.iter().find(|name| !seen.insert(name.as_str())) {
                return Err(format!("two {what} named `{twice}`"));
            }
        }
        if let Some(blind) = self.joints.iter().find(|joint| !self.state.contains(joint)) {
            return Err(format!("a joint `{blind}` that is not observed"));
        }
        let names = |names: &[String]| names.iter().map(|name| name.as_str().into()).collect();
        Ok(PythonRobotSpec {
            state: names(&self.state),
            joints: names(&self.joints),
            cameras: camera_shapes(&self.cameras)?,
            has_teleop: self.has_teleop,
            has_events: self.has_events,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(state: &[&str], joints: &[&str]) -> Result<PythonRobotSpec, String> {
        let description = json!({ "state": state, "joints": joints, "cameras": [], "has_teleop": false, "has_events": false });
        serde_json::from_value::<RobotDescription>(description).unwrap().spec()
    }

    #[test]
    fn robots_that_cannot_be_are_refused() {
        assert!(described(&["a.pos", "load"], &["a.pos"]).is_ok());
        assert_eq!(described(&["a.pos"], &[]).unwrap_err(), "a robot with 0 joints");
        assert_eq!(described(&["a.pos"], &["b.pos"]).unwrap_err(), "a joint `b.pos` that is not observed");
        assert_eq!(described(&["a.pos", "a.pos"], &["a.pos"]).unwrap_err(), "two numbers named `a.pos`");
        let many: Vec<String> = (0..5000).map(|at| format!("{at}.pos")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(described(&many, &["0.pos"]).unwrap_err(), "a robot with 5000 numbers");
    }

    #[test]
    fn a_robot_without_a_type_is_refused_before_anything_starts() {
        let settings = PythonRobotSettings::new(Arguments::new());
        assert!(settings.check().unwrap_err().to_string().starts_with("the robot has no type"));
        let robot = json!({ "type": "so101_follower" }).as_object().cloned().unwrap();
        let settings = PythonRobotSettings::new(robot);
        assert!(settings.check().is_ok());
        let teleop = Some(Arguments::new());
        let words = PythonRobotSettings { teleop, ..settings.clone() }.check().unwrap_err().to_string();
        assert!(words.starts_with("the teleoperator has no type"), "{words}");
        assert!(PythonRobotSettings { hang_secs: f64::NAN, ..settings }.check().is_err());
    }
}
