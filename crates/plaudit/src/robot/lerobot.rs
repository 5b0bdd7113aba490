//! A LeRobot arm in Python as an arm of joints.

use std::sync::Arc;
use std::time::{Duration, Instant};

use plaudit_env::{BridgeError, PythonRobot, PythonRobotReading};
use plaudit_robot::{Clock, JointArm, JointArmError, JointArmSpec, JointState, LeaderEvents, Time};

/// A robot of lerobot's in a Python process.
#[derive(Debug)]
pub struct LerobotArm {
    robot: PythonRobot,
    spec: JointArmSpec,
    /// Where each joint stands among the numbers of the state.
    joints: Vec<usize>,
    /// Where each camera stands in the robot's own order.
    cameras: Vec<usize>,
    clock: SharedClock,
    /// How long one call may take.
    wait: Duration,
}

/// A clock that can be shown.
struct SharedClock(Arc<dyn Clock>);

impl std::fmt::Debug for SharedClock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Clock")
    }
}

impl LerobotArm {
    /// An arm whose calls end within `wait`. The camera `main`, if it has one of that name, comes first.
    pub fn new(robot: PythonRobot, main: Option<&str>, clock: Arc<dyn Clock>, wait: Duration) -> Self {
        let known = robot.spec();
        let place = |joint: &Arc<str>| known.state.iter().position(|name| name == joint);
        let joints = known.joints.iter().filter_map(place).collect();
        let mut cameras: Vec<usize> = (0..known.cameras.len()).collect();
        cameras.sort_by_key(|at| main.is_none_or(|main| *known.cameras[*at].0 != *main));
        let spec = JointArmSpec {
            state: known.state.clone(),
            joints: known.joints.clone(),
            cameras: cameras.iter().map(|at| known.cameras[*at].clone()).collect(),
            has_leader: known.has_teleop,
            has_events: known.has_events,
        };
        Self { robot, spec, joints, cameras, clock: SharedClock(clock), wait }
    }

    fn state(&self, reading: PythonRobotReading) -> JointState {
        let wide = |numbers: &[f32]| numbers.iter().map(|number| f64::from(*number)).collect::<Vec<_>>();
        let numbers = wide(&reading.state);
        let mut frames: Vec<_> = reading.frames.into_iter().map(Arc::new).collect();
        frames = self.cameras.iter().map(|at| frames[*at].clone()).collect();
        let events = reading.events;
        JointState {
            positions: self.joints.iter().map(|at| numbers[*at]).collect(),
            numbers,
            frames,
            leader: reading.leader.as_deref().map(wide),
            events: LeaderEvents {
                is_intervention: events.is_intervention,
                success: events.success,
                is_over: events.failure || events.terminate_episode,
                is_invalid: events.rerecord_episode,
            },
            time: self.time_of(reading.asked),
        }
    }

    fn time_of(&self, asked: Instant) -> Time {
        Time::after_start(self.clock.0.now().elapsed().saturating_sub(asked.elapsed()))
    }
}

impl JointArm for LerobotArm {
    fn spec(&self) -> &JointArmSpec {
        &self.spec
    }

    fn observe(&mut self) -> Result<JointState, JointArmError> {
        let reading = self.robot.observe(self.wait).map_err(|error| failure(&error))?;
        Ok(self.state(reading))
    }

    fn target(&mut self, positions: &[f64]) -> Result<Vec<f64>, JointArmError> {
        let targets: Vec<f32> = positions.iter().map(|position| *position as f32).collect();
        let sent = self.robot.act(&targets, self.wait).map_err(|error| failure(&error))?;
        Ok(sent.into_iter().map(f64::from).collect())
    }

    fn reconnect(&mut self) -> Result<(), JointArmError> {
        self.robot.restart().map_err(|error| JointArmError::Gone(error.to_string()))
    }
}

/// What an error means for the arm. A traceback is more than a person at an arm wants to read.
fn failure(error: &BridgeError) -> JointArmError {
    match error {
        BridgeError::Late { .. } => JointArmError::Late(error.to_string()),
        BridgeError::Raised { id, during, error, .. } => {
            JointArmError::Failed(format!("`{id}` {during}: {error}"))
        }
        BridgeError::Refused { .. } | BridgeError::Setting(_) => JointArmError::Failed(error.to_string()),
        _ => JointArmError::Gone(error.to_string()),
    }
}
