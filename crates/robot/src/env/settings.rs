//! What can be chosen about an arm as an environment.

use std::sync::Arc;
use std::time::Duration;

use glam::DVec3;
use plaudit_core::FrameShape;

use super::keys::EpisodeKeys;
use crate::{
    Camera, Clock, Compliance, Guard, Person, Pilot, SceneClient, SimulatedRobot, StopToken, ToolPose,
};

/// The task, and what actions and observations mean.
#[derive(Debug, Clone, PartialEq)]
pub struct RobotTask {
    /// The id users write, such as `PegInsertionEnv-v1`.
    pub id: Arc<str>,
    /// Actions per second.
    pub control_hz: f64,
    /// Metres that an action of 1 asks for.
    pub action_m: f64,
    /// Radians that an action of 1 asks for.
    pub action_rad: f64,
    /// Whether actions have a seventh number, for the gripper: -1 closes, 1 opens.
    pub has_gripper: bool,
    /// How far a gripper action must go to count.
    pub gripper_threshold: f64,
    /// Taken from the reward whenever the gripper moves.
    pub gripper_penalty: f64,
    /// Poses relative to where the episode started, velocities and actions in the tool's frame. Otherwise all is in the
    /// base frame.
    pub relative_frame: bool,
    /// Where the tool must go.
    pub target: ToolPose,
    /// How near counts as there, along each axis, metres.
    pub near_m: DVec3,
    /// How near the angle must be, radians; not set: any.
    pub near_rad: Option<f64>,
    /// Steps that the tool must stay there before the episode ends.
    pub success_hold_steps: usize,
    /// Also reward by distance to the target.
    pub dense_reward: bool,
    /// Factor on the reward.
    pub reward_scale: f64,
    /// Where episodes start.
    pub reset_pose: ToolPose,
    /// Half width of a random start in x and y, metres.
    pub random_xy_m: f64,
    /// Half width of a random start in yaw, radians.
    pub random_yaw_rad: f64,
    /// How often a reset may try to reach its pose.
    pub reset_tries: usize,
    /// Steps after which an episode is truncated.
    pub max_episode_steps: Option<usize>,
    /// Go on after success until the clock runs out.
    pub ignore_terminations: bool,
    /// What keys say about episodes; not set: nothing.
    pub keys: Option<EpisodeKeys>,
    /// How the arm gives way.
    pub compliance: Compliance,
    /// The task in words.
    pub instruction: Option<Arc<str>>,
    /// How long a pilot who let go keeps the arm.
    pub pilot_keeps: Duration,
    /// How long the pilot watches the policy before taking over, if the task is not solved by then. Zero: at any time.
    pub pilot_waits: Duration,
    /// The share of episodes in which the pilot is there.
    pub pilot_share: f64,
}

impl RobotTask {
    /// A task to reach `target` from `reset_pose`, as RLinf's peg insertion sets it up.
    pub fn reach(id: &str, target: ToolPose, reset_pose: ToolPose) -> Self {
        Self {
            id: id.into(),
            control_hz: 10.0,
            action_m: 0.02,
            action_rad: 0.1,
            has_gripper: false,
            gripper_threshold: 0.5,
            gripper_penalty: 0.0,
            relative_frame: true,
            target,
            near_m: DVec3::splat(0.01),
            near_rad: None,
            success_hold_steps: 1,
            dense_reward: false,
            reward_scale: 1.0,
            reset_pose,
            random_xy_m: 0.0,
            random_yaw_rad: 0.0,
            reset_tries: 3,
            max_episode_steps: Some(100),
            ignore_terminations: false,
            keys: None,
            compliance: Compliance::default(),
            instruction: None,
            pilot_keeps: Duration::from_millis(500),
            pilot_waits: Duration::ZERO,
            pilot_share: 1.0,
        }
    }
}

/// Resets the table between episodes: a person, a simulated server, or nobody.
pub trait TableReset: Send {
    /// Returns when the table is ready. `episode` counts from 0.
    fn reset(&mut self, episode: u64) -> Result<(), String>;
}

/// Nobody resets the table.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoTableReset;

impl TableReset for NoTableReset {
    fn reset(&mut self, _episode: u64) -> Result<(), String> {
        Ok(())
    }
}

/// Somebody who is asked before the arm moves for the first time, and when a person has to look.
pub trait AskPerson: Send {
    /// Asks whether the arm may move; `None` while, or because, the person does not agree.
    fn may_move(&mut self, why: &str) -> Option<Person>;
}

/// Everything an environment is made of.
pub struct RobotParts {
    /// The arm behind its guard.
    pub guard: Guard,
    /// The cameras, the main view first.
    pub cameras: Vec<Box<dyn Camera>>,
    /// Who may take over.
    pub pilot: Box<dyn Pilot>,
    /// Who resets the table.
    pub table: Box<dyn TableReset>,
    /// Who is asked.
    pub person: Box<dyn AskPerson>,
    /// The clock of arm and cameras.
    pub clock: Arc<dyn Clock>,
    /// Holds the arm for good.
    pub stop: StopToken,
    /// Is told in a sentence why the arm holds, and when it goes on.
    pub notify: Box<dyn Fn(&str) + Send>,
    /// Whether a thread of its own holds the arm when nobody acts: always, except on a clock that is turned by hand.
    pub watchdog: bool,
    /// The robot server, if it is a simulated one: it knows ground truth.
    pub simulated: Option<SimulatedServer>,
}

/// A simulated robot server.
pub enum SimulatedServer {
    /// One that lives as long as the environment.
    Here(SimulatedRobot),
    /// One of another process.
    Elsewhere(SceneClient),
}

impl SimulatedServer {
    /// Whether the task is solved; nothing while that is unknown.
    pub(super) fn is_solved(&self) -> Option<bool> {
        match self {
            Self::Here(robot) => robot.is_solved(),
            Self::Elsewhere(client) => client.truth().ok().map(|truth| truth.success),
        }
    }

    /// Targets that broke a limit, as far as it counts them.
    pub(super) fn broken_limits(&self) -> u64 {
        match self {
            Self::Here(robot) => robot.broken_limits(),
            Self::Elsewhere(_) => 0,
        }
    }
}

impl RobotParts {
    /// Names and shapes of the cameras.
    pub(super) fn camera_shapes(&self) -> Vec<(Arc<str>, FrameShape)> {
        self.cameras.iter().map(|camera| (camera.name().into(), camera.shape())).collect()
    }
}
