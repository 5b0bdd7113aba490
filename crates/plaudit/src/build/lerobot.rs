//! An arm of LeRobot's as a config describes it.

use std::sync::Arc;
use std::time::Duration;

use indexmap::IndexMap;
use plaudit_compose::ComposeError;
use plaudit_core::Env;
use plaudit_env::{BridgeError, PythonRobot, PythonRobotSettings, PythonRobotSpec};
use plaudit_robot::{
    Clock, FrameFit, JointAction, JointEnv, JointGuard, JointLimits, JointParts, JointRange, JointTask,
    RealClock, StopToken, TakeOver,
};

use super::Builder;
use crate::config::blocks::lerobot::LerobotSettings;
use crate::robot::{LerobotArm, TerminalPerson};
use crate::run::{interrupted, notify_soon};

/// Keys of `override_cfg` that mean nothing for an arm of joints, or are not there for it yet.
const CARTESIAN: [&str; 17] = [
    "robot_ip",
    "server_url",
    "is_dummy",
    "sim_speed",
    "sim_incidents",
    "sim_scenes",
    "pilot",
    "camera_urls",
    "camera_serials",
    "target_ee_pose",
    "reset_ee_pose",
    "ee_pose_limit_min",
    "ee_pose_limit_max",
    "action_scale",
    "compliance_param",
    "use_dense_reward",
    "dead_man",
];

impl Builder<'_> {
    /// An arm of LeRobot's.
    pub(super) fn lerobot(&self, lerobot: &LerobotSettings) -> Result<Box<dyn Env>, ComposeError> {
        self.refuse_cartesian_keys()?;
        let (env, clock) = (self.settings, Arc::new(RealClock::new()) as Arc<dyn Clock>);
        let robot =
            PythonRobot::start(self.python_robot(lerobot)).map_err(|error| self.not_connected(&error))?;
        let known = robot.spec().clone();
        let limits = self.joint_limits(lerobot, &known)?;
        let task = self.joint_task(lerobot, &known)?;
        let main = self.main_camera(&known)?;
        let wait = Duration::from_secs_f64(lerobot.answer_timeout_secs);
        let arm = LerobotArm::new(robot, main.as_deref(), clock.clone(), wait);
        let wrong = |error: plaudit_core::EnvError| {
            self.problem("override_cfg.lerobot", error, "change what the message names")
        };
        let (stop, address) = (StopToken::or_when(interrupted), address(&lerobot.robot, &env.python));
        let parts = JointParts {
            guard: JointGuard::new(Box::new(arm), limits, clock.clone()).map_err(wrong)?,
            person: Box::new(TerminalPerson { address, terminal: None, stop: stop.clone() }),
            clock,
            stop,
            notify: Box::new(notify_soon),
            watchdog: true,
        };
        Ok(Box::new(JointEnv::new(task, parts).map_err(wrong)?))
    }

    fn refuse_cartesian_keys(&self) -> Result<(), ComposeError> {
        let is_written =
            |key: &&&str| self.loaded.is_written(&format!("{}.override_cfg.{key}", self.which.key()));
        match CARTESIAN.iter().find(is_written) {
            Some(key) => {
                let message = "an arm of LeRobot's follows joint positions, and has no such setting";
                Err(self.problem(&format!("override_cfg.{key}"), message, "leave it out"))
            }
            None if self.settings.keyboard_reward_wrapper.is_some() => {
                let message = "of an arm of LeRobot's, the person at the leader says how an episode went";
                Err(self.problem("keyboard_reward_wrapper", message, "leave it out"))
            }
            None if self.settings.total_num_envs.unwrap_or(1) > 1 => {
                Err(self.problem("total_num_envs", "a robot is one environment", "leave it out"))
            }
            None => Ok(()),
        }
    }

    fn python_robot(&self, lerobot: &LerobotSettings) -> PythonRobotSettings {
        let arguments = |written: &IndexMap<String, serde_json::Value>| {
            written.iter().map(|(key, value)| (key.clone(), value.clone())).collect()
        };
        PythonRobotSettings {
            python: self.settings.python.clone().into(),
            import: lerobot.import.clone(),
            teleop: (!lerobot.teleop.is_empty()).then(|| arguments(&lerobot.teleop)),
            start_timeout_secs: lerobot.start_timeout_secs,
            hang_secs: lerobot.hang_timeout_secs,
            ..PythonRobotSettings::new(arguments(&lerobot.robot))
        }
    }

    fn not_connected(&self, error: &BridgeError) -> ComposeError {
        match error {
            BridgeError::Interpreter { .. } | BridgeError::NoModule { .. } => {
                let hint = "a Python with lerobot, such as the bin/python of a virtual environment";
                self.problem("python", error, hint)
            }
            _ => {
                let hint = "docs/robot.md has an example; lerobot's own scripts take the same settings";
                self.problem("override_cfg.lerobot.robot", error, hint)
            }
        }
    }

    /// The numbers that are written for joints, in the robot's order. Names may leave out `.pos`.
    fn by_joint<T: Copy>(
        &self,
        key: &str,
        written: &IndexMap<String, T>,
        known: &PythonRobotSpec,
    ) -> Result<Vec<Option<T>>, ComposeError> {
        let short = |joint: &str| joint.strip_suffix(".pos").unwrap_or(joint).to_owned();
        let is_known = |name: &String| known.joints.iter().any(|joint| short(joint) == short(name));
        if let Some(name) = written.keys().find(|name| !is_known(name)) {
            let joints: Vec<_> = known.joints.iter().map(|joint| short(joint)).collect();
            let message = format!("the robot has no joint `{name}`");
            let key = format!("override_cfg.lerobot.{key}");
            return Err(self.problem(&key, message, format!("its joints are {}", joints.join(", "))));
        }
        let value = |joint: &Arc<str>| written.iter().find(|(name, _)| short(name) == short(joint));
        Ok(known.joints.iter().map(|joint| value(joint).map(|(_, value)| *value)).collect())
    }

    fn joint_limits(
        &self,
        lerobot: &LerobotSettings,
        known: &PythonRobotSpec,
    ) -> Result<JointLimits, ComposeError> {
        let limits = self.by_joint("joint_limits", &lerobot.joint_limits, known)?;
        let steps = self.by_joint("max_relative_targets", &lerobot.max_relative_targets, known)?;
        let mut joints = Vec::with_capacity(known.joints.len());
        for ((name, limits), step) in known.joints.iter().zip(limits).zip(steps) {
            let Some([low, high]) = limits else {
                let names: Vec<_> = known
                    .joints
                    .iter()
                    .map(|joint| format!("{}: [LOW, HIGH]", joint.trim_end_matches(".pos")))
                    .collect();
                let hint =
                    format!("write where each joint may go, in the robot's units: {{{}}}", names.join(", "));
                let message = format!("joint `{name}` has no limits");
                return Err(self.problem("override_cfg.lerobot.joint_limits", message, hint));
            };
            let Some(max_step) = step.or(lerobot.max_relative_target) else {
                let message = format!("nothing says how far `{name}` may go in a step");
                let hint = "in the robot's own units; lerobot's guides begin with 5 degrees";
                return Err(self.problem("override_cfg.lerobot.max_relative_target", message, hint));
            };
            joints.push(JointRange { name: name.clone(), low, high, max_step });
        }
        let limits = JointLimits::new(joints, self.settings.override_cfg.step_frequency);
        Ok(JointLimits { max_lag_steps: lerobot.max_lag_steps, ..limits })
    }

    fn joint_task(
        &self,
        lerobot: &LerobotSettings,
        known: &PythonRobotSpec,
    ) -> Result<JointTask, ComposeError> {
        let (env, robot) = (self.settings, &self.settings.override_cfg);
        let start = self.by_joint("reset_joints", &lerobot.reset_joints, known)?;
        let missing = known.joints.iter().zip(&start).find(|(_, at)| at.is_none());
        let reset_positions = match missing {
            _ if lerobot.reset_joints.is_empty() => None,
            Some((joint, _)) => {
                let message = format!("`{joint}` has no start");
                return Err(self.problem(
                    "override_cfg.lerobot.reset_joints",
                    message,
                    "name every joint, or none",
                ));
            }
            None => Some(start.into_iter().flatten().collect()),
        };
        let usual = if known.has_events { TakeOver::Events } else { TakeOver::Moved };
        let take_over = lerobot.take_over.unwrap_or(usual);
        let leads = known.has_teleop && take_over == TakeOver::Always;
        if lerobot.action == JointAction::Position && !leads && !self.loaded.is_written("actor.model") {
            // What stands still says 0, which as a position is the middle of every joint's range.
            let message = "without a policy or a teleoperator that always acts, nothing says which position";
            let hint = "set take_over to always, or action to delta, or name a policy in actor.model";
            return Err(self.problem("override_cfg.lerobot.action", message, hint));
        }
        let id = env.init_params.id.clone().unwrap_or_else(|| "LeRobot-v1".into());
        let instruction = &*robot.task_description;
        Ok(JointTask {
            action: lerobot.action,
            take_over,
            reset_positions,
            reset_pause: Duration::from_secs_f64(lerobot.reset_time),
            fit: FrameFit::square(self.settings.override_cfg.image_side as usize),
            max_episode_steps: env.max_episode_steps.map(|steps| steps as usize),
            ignore_terminations: env.ignore_terminations,
            instruction: (!instruction.is_empty()).then(|| instruction.into()),
            ..JointTask::new(&id, robot.step_frequency)
        })
    }

    /// The camera that is named as the main view.
    fn main_camera(&self, known: &PythonRobotSpec) -> Result<Option<String>, ComposeError> {
        let Some(main) = self.settings.main_image_key.clone() else { return Ok(None) };
        if known.cameras.iter().any(|(name, _)| **name == *main) {
            return Ok(Some(main));
        }
        let names: Vec<&str> = known.cameras.iter().map(|(name, _)| &**name).collect();
        let there =
            if names.is_empty() { "it has none".into() } else { format!("it has {}", names.join(", ")) };
        let message = format!("the robot has no camera `{main}`");
        Err(self.problem("main_image_key", message, format!("{there}; leave it out to take the first")))
    }
}

/// Which robot a person is asked about.
fn address(robot: &IndexMap<String, serde_json::Value>, python: &str) -> String {
    let text = |key: &str| robot.get(key).and_then(serde_json::Value::as_str);
    let kind = text("type").unwrap_or("lerobot");
    match text("port").or_else(|| text("id")) {
        Some(place) => format!("{place} ({kind})"),
        None => format!("{kind} (in {python})"),
    }
}
