//! What an arm may do, and what is wrong when it may not.

use std::time::Duration;

use thiserror::Error;

use crate::{ArmError, JointArmError, Workspace};

/// What an arm may do.
#[derive(Debug, Clone, PartialEq)]
pub struct Limits {
    /// Where the tool may be sent.
    pub workspace: Workspace,
    /// How fast targets may move.
    pub max_speed_m_s: f64,
    /// How fast targets may turn.
    pub max_turn_rad_s: f64,
    /// The time between two targets that speeds are reckoned with: after a pause no larger step is allowed.
    pub period: Duration,
    /// An action that was chosen from an older observation moves nothing, and so long without one the arm holds.
    pub max_action_age: Duration,
    /// A state or a frame that is older is none.
    pub max_state_age: Duration,
    /// The arm holds when more than this presses on the tool.
    pub max_force_n: f64,
    /// The same for torques.
    pub max_torque_nm: f64,
    /// How far the arm may be from its last target. Further, and somebody else moved it.
    pub max_lead_m: f64,
    /// The shortest time between two commands to the gripper.
    pub gripper_interval: Duration,
    /// So many reflexes within a minute, and a person has to look.
    pub reflexes_per_minute: usize,
    /// How long an arm that is far from its target, does not move and feels nothing is believed to be slow. Later it
    /// counts as an arm that stopped itself: SERL's servers do not say so. `None`: for ever.
    pub stall_after: Option<Duration>,
    /// Dead-man's switch: the policy moves the arm only while a person holds a key or a button.
    pub dead_man: bool,
}

impl Limits {
    /// Cautious limits within a workspace, for targets at `control_hz`.
    pub fn new(workspace: Workspace, control_hz: f64) -> Self {
        let control_hz = if control_hz.is_finite() && control_hz > 0.0 { control_hz } else { 10.0 };
        Self {
            workspace,
            max_speed_m_s: 0.25,
            max_turn_rad_s: 1.0,
            period: Duration::from_secs_f64(1.0 / control_hz),
            max_action_age: Duration::from_millis(200),
            max_state_age: Duration::from_millis(300),
            max_force_n: 40.0,
            max_torque_nm: 10.0,
            max_lead_m: 0.10,
            gripper_interval: Duration::from_millis(600),
            reflexes_per_minute: 3,
            stall_after: None,
            dead_man: false,
        }
    }

    /// Refuses limits that do not limit.
    pub(super) fn check(&self) -> Result<(), LimitError> {
        let positive = [
            ("max_speed_m_s", self.max_speed_m_s),
            ("max_turn_rad_s", self.max_turn_rad_s),
            ("period", self.period.as_secs_f64()),
            ("max_force_n", self.max_force_n),
            ("max_torque_nm", self.max_torque_nm),
            ("max_lead_m", self.max_lead_m),
        ];
        match positive.into_iter().find(|(_, value)| !(value.is_finite() && *value > 0.0)) {
            Some((name, value)) => Err(LimitError { name, value }),
            None => Ok(()),
        }
    }
}

/// A limit that does not limit.
#[derive(Debug, Clone, PartialEq, Error)]
#[error("{name} is {value}, which limits nothing; it must be a positive number")]
pub struct LimitError {
    name: &'static str,
    value: f64,
}

/// Why an arm does not move.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum HoldCause {
    /// No person has armed it.
    #[error("no person has armed the robot")]
    NotArmed,
    /// It was told to stop.
    #[error("it was stopped")]
    Stopped,
    /// An action that is no number.
    #[error("the action is not finite")]
    NotFinite,
    /// An action from too old an observation.
    #[error("the action comes {} ms after what it was chosen from; at most {} ms are allowed", age.as_millis(), most.as_millis())]
    ActionOld {
        /// How old.
        age: Duration,
        /// What is allowed.
        most: Duration,
    },
    /// Nobody chose an action for a while.
    #[error("no action came for {} ms", .0.as_millis())]
    NoAction(Duration),
    /// The arm's state is too old.
    #[error("the arm's state is {} ms old", .0.as_millis())]
    StateOld(Duration),
    /// A camera's frame is too old.
    #[error("the newest frame of camera `{camera}` is {} ms old", age.as_millis())]
    FrameOld {
        /// Which camera.
        camera: String,
        /// How old.
        age: Duration,
    },
    /// A state that is none.
    #[error("the arm reports a pose that is none")]
    NoPose,
    /// The arm does not answer or obey.
    #[error(transparent)]
    Arm(#[from] ArmError),
    /// Something presses too hard.
    #[error("{newtons:.1} N press on the tool; at most {most} are allowed")]
    Force {
        /// How hard.
        newtons: f64,
        /// What is allowed.
        most: f64,
    },
    /// Something twists too hard.
    #[error("{newton_metres:.1} Nm twist the tool; at most {most} are allowed")]
    Torque {
        /// How hard.
        newton_metres: f64,
        /// What is allowed.
        most: f64,
    },
    /// The dead-man's switch is not held.
    #[error("nobody holds the dead-man's switch")]
    DeadMan,
    /// The arm has stopped itself.
    #[error("the arm has stopped itself")]
    Reflex,
    /// It does so too often.
    #[error("the arm has stopped itself {0} times within a minute; a person has to look why")]
    Reflexes(usize),
    /// The tool is outside of the workspace.
    #[error(
        "the tool is outside of its box, at {at}: move it inside by hand, or confirm a guided move ({faces})"
    )]
    OutsideBox {
        /// Where it is: x, y, z in metres.
        at: String,
        /// The faces that it is beyond.
        faces: String,
    },
    /// The tool is in a keep-out box.
    #[error("the way begins in a keep-out box")]
    KeepOut,
    /// The arm is not where it was sent.
    #[error("the arm is {metres:.3} m from where it was sent; at most {most} are allowed")]
    Lost {
        /// How far.
        metres: f64,
        /// What is allowed.
        most: f64,
    },
    /// The gripper was told something a moment ago.
    #[error("the gripper was told something {} ms ago; at least {} ms must pass", .0.as_millis(), .1.as_millis())]
    GripperTooSoon(Duration, Duration),
    /// A reset that did not arrive.
    #[error("the reset missed its pose by {metres:.3} m and {radians:.2} rad after {tries} tries")]
    ResetMissed {
        /// How far off.
        metres: f64,
        /// How far turned.
        radians: f64,
        /// How often it tried.
        tries: usize,
    },
    /// An arm that follows joint positions does not answer or obey.
    #[error(transparent)]
    JointArm(JointArmError),
    /// A joint is beyond its limits.
    #[error("joint `{joint}` is at {at:.2}, outside of {low} to {high}: move it inside by hand")]
    JointOutside {
        /// Which joint.
        joint: String,
        /// Where it is.
        at: f64,
        /// The lowest it may be.
        low: f64,
        /// The highest it may be.
        high: f64,
    },
    /// A joint is not where it was sent.
    #[error("joint `{joint}` is {off:.2} from where it was sent; at most {most} are allowed")]
    JointLost {
        /// Which joint.
        joint: String,
        /// How far.
        off: f64,
        /// What is allowed.
        most: f64,
    },
    /// A reset of the joints that did not arrive.
    #[error("the reset missed its position by {off:.2} at joint `{joint}` after {tries} tries")]
    JointResetMissed {
        /// The joint that is furthest off.
        joint: String,
        /// How far off.
        off: f64,
        /// How often it tried.
        tries: usize,
    },
    /// Somebody outside of the arm's loop needs it to hold: a reward server that is gone.
    #[error("{0}")]
    Other(String),
}
