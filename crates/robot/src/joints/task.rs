//! What can be chosen about an arm of joints as an environment.

use std::sync::Arc;
use std::time::Duration;

use super::JointGuard;
use crate::{AskPerson, Clock, FrameFit, StopToken};

/// What the numbers of an action mean; all lie between -1 and 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum JointAction {
    /// How far each joint's target moves: 1 is the largest step it may make in a control period.
    #[default]
    Delta,
    /// Where each joint goes: -1 is its lowest position, 1 its highest.
    Position,
}

/// When the leader acts instead of the policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TakeOver {
    /// Always: the policy never does.
    Always,
    /// While the leader is moved, and for a moment after.
    #[default]
    Moved,
    /// While the person at the leader says so.
    Events,
}

/// The task, and what actions and observations mean.
#[derive(Debug, Clone, PartialEq)]
pub struct JointTask {
    /// The id users write.
    pub id: Arc<str>,
    /// Actions per second.
    pub control_hz: f64,
    /// What actions mean.
    pub action: JointAction,
    /// When the leader acts.
    pub take_over: TakeOver,
    /// How long a leader that stands still keeps the arm.
    pub leader_keeps: Duration,
    /// Where episodes start; not set: where the arm is.
    pub reset_positions: Option<Vec<f64>>,
    /// How often a reset may try to reach its positions.
    pub reset_tries: usize,
    /// How long the arm holds before an episode, so that a person can reset the table.
    pub reset_pause: Duration,
    /// How images become frames.
    pub fit: FrameFit,
    /// Steps after which an episode is truncated.
    pub max_episode_steps: Option<usize>,
    /// Go on after success until the clock runs out.
    pub ignore_terminations: bool,
    /// The task in words.
    pub instruction: Option<Arc<str>>,
}

impl JointTask {
    /// A task at `control_hz` with the defaults for the rest.
    pub fn new(id: &str, control_hz: f64) -> Self {
        Self {
            id: id.into(),
            control_hz,
            action: JointAction::default(),
            take_over: TakeOver::default(),
            leader_keeps: Duration::from_millis(500),
            reset_positions: None,
            reset_tries: 3,
            reset_pause: Duration::ZERO,
            fit: FrameFit::square(128),
            max_episode_steps: None,
            ignore_terminations: false,
            instruction: None,
        }
    }
}

/// Everything an environment is made of.
pub struct JointParts {
    /// The arm behind its guard.
    pub guard: JointGuard,
    /// Who is asked.
    pub person: Box<dyn AskPerson>,
    /// The clock of the arm.
    pub clock: Arc<dyn Clock>,
    /// Holds the arm for good.
    pub stop: StopToken,
    /// Is told in a sentence why the arm holds, and when it goes on.
    pub notify: Box<dyn Fn(&str) + Send>,
    /// Whether a thread of its own holds the arm when nobody acts: always, except on a clock that is turned by hand.
    pub watchdog: bool,
}
