//! `env.*.override_cfg.lerobot`: an arm of LeRobot's, in Python.

use indexmap::IndexMap;
use serde_json::Value;

use crate::config::block::{block, choice};
use crate::config::range::{AT_LEAST_ONE, POSITIVE, Range};

choice! {
    /// What the numbers of an action mean; all lie between -1 and 1.
    JointAction = plaudit_robot::JointAction {
        /// How far each joint's target moves: 1 is `max_relative_target`.
        Delta = "delta",
        /// Where each joint goes: -1 and 1 are its limits.
        Position = "position",
    }
}

choice! {
    /// When the teleoperator acts instead of the policy.
    TakeOver = plaudit_robot::TakeOver {
        /// Always.
        Always = "always",
        /// While it is moved, and for half a second after.
        Moved = "moved",
        /// While its person says so, by lerobot's `is_intervention` event.
        Events = "events",
    }
}

block! {
    /// An arm of LeRobot's, in Python (`python` names the interpreter).
    LerobotSettings as LerobotSettingsWritten {
        /// lerobot's own config of the robot: `type`, such as `so101_follower`, then `port`, `id`, `cameras`, …
        robot: IndexMap<String, Value> = IndexMap::new(),
        /// lerobot's own config of a teleoperator: `type`, such as `so101_leader`, then `port`, `id`, … Not set: nobody takes over.
        teleop: IndexMap<String, Value> = IndexMap::new(),
        /// Modules to import first, so that they register robots: names, or paths that end in `.py`. Packages named `lerobot_robot_*` are found without.
        import: Vec<String> = Vec::new(),
        /// The lowest and the highest position of each joint, in the robot's own units: `{gripper: [0, 100]}`. Every joint needs them.
        joint_limits: IndexMap<String, [f64; 2]> = IndexMap::new(),
        /// How far a joint's target may move in one step, in the robot's own units. Needed.
        #[range(POSITIVE)]
        max_relative_target: Option<f64> = None,
        /// The same for single joints: `{gripper: 20}`.
        #[range(POSITIVE)]
        max_relative_targets: IndexMap<String, f64> = IndexMap::new(),
        /// How many such steps a joint may be away from its target; further, and the arm holds.
        #[range(AT_LEAST_ONE)]
        max_lag_steps: f64 = 5.0,
        /// What the numbers of an action mean.
        action: JointAction = JointAction::Delta,
        /// When the teleoperator acts instead of the policy. Not set: `events` if it tells events, otherwise `moved`.
        take_over: Option<TakeOver> = None,
        /// Where the joints start an episode. Not set: where they are.
        reset_joints: IndexMap<String, f64> = IndexMap::new(),
        /// Seconds that the arm holds before an episode, so that a person can reset the table.
        #[range(Range::Within(0.0, 86_400.0))]
        reset_time: f64 = 0.0,
        /// Seconds that connecting may take.
        #[range(POSITIVE)]
        start_timeout_secs: f64 = 120.0,
        /// Seconds that the robot may take to answer; the step is late then.
        #[range(Range::Within(0.001, 10.0))]
        answer_timeout_secs: f64 = 0.1,
        /// Seconds without an answer after which the Python process counts as hung: it is ended, and a person has to look.
        #[range(POSITIVE)]
        hang_timeout_secs: f64 = 10.0,
    }
}
