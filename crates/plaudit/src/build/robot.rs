//! A robot arm as a config describes it, or the simulated one in its place.

mod cameras;
mod pilots;
mod task;

use std::f64::consts::FRAC_PI_3;
use std::sync::Arc;
use std::time::Duration;

use glam::DVec3;
use plaudit_compose::ComposeError;
use plaudit_core::{Decision, Env, Obs, Policy, PolicyError, Seed};
use plaudit_env::{CameraName, CameraSettings, ControlMode, EnvId, EnvSettings as EmbeddedSettings};
use plaudit_env::{PegInsertionSettings, PickCubeSettings};
use plaudit_robot::{
    AxisBox, Camera, Clock, Compliance, EpisodeKeys, Guard, Limits, NoTableReset, RealClock, RobotEnv,
    RobotParts, RobotTask, SceneClient, SerlArm, SimulateSettings, SimulatedRobot, SimulatedServer,
    StopToken, TableReset,
};

use super::{Builder, EnvBlock};
use crate::config::LoadedConfig;
use crate::config::block::Fill;
use crate::config::blocks::env::KeyboardLabels;
use crate::robot::{
    KeyTap, RemoteArm, RemoteControl, RemotePerson, SceneReset, SharedCamera, SimulatedPerson,
    SimulatedScene, SimulatedTask, StartGate, TappedPilot, TerminalPerson,
};
use crate::run::{interrupted, notify_soon};

pub use cameras::{NamedCamera, usual_name, written_cameras};
pub use task::{RobotProblem, full_action, reset_pose, target, workspace};

/// Room around the way of the script, metres.
const ROOM_M: f64 = 0.06;
/// Robot and things of the same scene are at most this far apart in any number, in metres and radians.
const SAME_SCENE: f32 = 0.02;
/// Speed limits are so much above the largest action.
const HEADROOM: f64 = 1.25;

/// A robot server, and what is known about its table.
struct Server {
    url: String,
    clock: Arc<dyn Clock>,
    simulated: Option<Simulated>,
}

/// What is known of a simulated robot and its table.
struct Simulated {
    server: SimulatedServer,
    scene: SimulatedScene,
    task: SimulatedTask,
}

/// What a command does with a robot beside stepping it.
pub struct RobotHooks {
    /// Is told why the arm holds, and when it goes on.
    pub notify: Box<dyn Fn(&str) + Send>,
    /// Gets the keys that a person presses, for a command that knows what they mean.
    pub keys: Option<KeyTap>,
    /// Whether the pose of the tool ends episodes.
    pub ends_by_pose: bool,
    /// A person elsewhere lets the arm move, begins episodes and ends them: nothing else does.
    pub remote: Option<RemoteControl>,
}

/// A robot as an environment, and what stops it.
pub struct BuiltRobot {
    /// The environment.
    pub env: RobotEnv,
    /// Holds the arm for good: Ctrl-C, SIGTERM, Esc.
    pub stop: StopToken,
}

/// The robot of a block, which has `env_type: realworld`.
pub fn robot(loaded: &LoadedConfig, which: EnvBlock, hooks: RobotHooks) -> Result<BuiltRobot, ComposeError> {
    Builder { loaded, which, settings: which.settings(loaded), first_row: 0 }.built_robot(hooks)
}

impl Builder<'_> {
    /// A robot arm.
    pub(super) fn robot(&self) -> Result<Box<dyn Env>, ComposeError> {
        if let Some(lerobot) = &self.settings.override_cfg.lerobot {
            return self.lerobot(lerobot);
        }
        let hooks =
            RobotHooks { notify: Box::new(notify_soon), keys: None, ends_by_pose: true, remote: None };
        Ok(Box::new(self.built_robot(hooks)?.env))
    }

    fn built_robot(&self, hooks: RobotHooks) -> Result<BuiltRobot, ComposeError> {
        self.refuse_unsupported_by_robots(hooks.keys.is_some())?;
        let written = written_cameras(self.settings).map_err(|problem| self.robot_problem(problem))?;
        let server = self.robot_server()?;
        let mut task = self.robot_task(&server)?;
        task.ignore_terminations |= !hooks.ends_by_pose;
        if hooks.keys.is_some() {
            task.keys = None; // they are the command's
        } else if task.keys.is_some() && task.ignore_terminations {
            (hooks.notify)(
                "ignore_terminations is set: keys label the steps, and episodes end by the clock alone",
            );
        }
        let limits = self.robot_limits(&server, &task)?;
        let wrong = |error: &dyn std::fmt::Display| {
            self.problem("override_cfg", error, "change what the message names")
        };
        let arm = SerlArm::new(&server.url, server.clock.clone());
        let arm =
            arm.map_err(|error| self.problem("override_cfg.server_url", error, "as http://127.0.0.1:5000"))?;
        let guard = Guard::new(Box::new(arm), limits, server.clock.clone()).map_err(|error| wrong(&error))?;
        let mut cameras = self.robot_cameras(&server, written)?;
        let mut shown = Vec::new();
        if hooks.remote.is_some() {
            task.max_episode_steps = None;
            shown = cameras.drain(..).map(SharedCamera::new).collect();
            cameras.extend(shown.iter().map(|camera| -> Box<dyn Camera> { Box::new(camera.clone()) }));
        }
        let stop = StopToken::or_when(interrupted);
        let pilots::BuiltPilot { mut pilot, terminal } = self.robot_pilot(&server, &task, &stop)?;
        if let Some(tap) = hooks.keys {
            pilot = Box::new(TappedPilot::new(pilot, tap));
        }
        let Server { url, clock, simulated } = server;
        let table: Box<dyn TableReset> = match &simulated {
            Some(_) => Box::new(SceneReset {
                client: SceneClient::new(&url).map_err(|error| wrong(&error))?,
                scenes: self.settings.override_cfg.sim_scenes,
            }),
            None => Box::new(NoTableReset),
        };
        let table: Box<dyn TableReset> = match &hooks.remote {
            Some(control) => Box::new(StartGate { control: control.clone(), table, begun: 0 }),
            None => table,
        };
        let (address, is_simulated, control_hz) = (url.clone(), simulated.is_some(), task.control_hz);
        let parts = RobotParts {
            guard,
            cameras,
            pilot,
            table,
            person: match (&simulated, &hooks.remote) {
                (Some(_), _) => Box::new(SimulatedPerson),
                (None, Some(control)) => Box::new(RemotePerson(control.clone())),
                (None, None) => Box::new(TerminalPerson { address: url, terminal, stop: stop.clone() }),
            },
            clock,
            stop: stop.clone(),
            notify: hooks.notify,
            watchdog: true,
            simulated: simulated.map(|simulated| simulated.server),
        };
        let env = RobotEnv::new(task, parts).map_err(|error| wrong(&error))?;
        if let Some(control) = hooks.remote {
            let (guard, stop, server) = (env.guard(), stop.clone(), address);
            control.attach(RemoteArm { guard, stop, cameras: shown, server, is_simulated, control_hz });
        }
        Ok(BuiltRobot { env, stop })
    }

    fn robot_problem(&self, problem: RobotProblem) -> ComposeError {
        self.problem(&format!("override_cfg.{}", problem.key), problem.message, problem.hint)
    }

    /// What robots cannot do yet, by name.
    fn refuse_unsupported_by_robots(&self, has_keys: bool) -> Result<(), ComposeError> {
        let (env, robot) = (self.settings, &self.settings.override_cfg);
        let labels = env.keyboard_reward_wrapper;
        let has_meaning = labels.is_none_or(|labels| episode_keys(labels).is_some());
        let is_ours = labels.is_none_or(|labels| labels == KeyboardLabels::SingleStage);
        let refused = [
            (
                "override_cfg.lerobot",
                robot.lerobot.is_some(),
                "this command moves arms by the pose of their tool",
            ),
            ("total_num_envs", env.total_num_envs.unwrap_or(1) > 1, "a robot is one environment"),
            (
                "keyboard_reward_wrapper",
                !has_meaning,
                "single_stage, multi_stage and start_end are there, and this one is not",
            ),
            ("keyboard_reward_wrapper", has_keys && !is_ours, "this command has keys of its own: c, a and q"),
            ("use_gello", env.use_gello, "GELLO arms cannot be read yet"),
            (
                "override_cfg.camera_type",
                robot.camera_type.as_deref() == Some("zed"),
                "ZED cameras show both eyes in one image",
            ),
            (
                "override_cfg.end_effector_type",
                robot.end_effector_type != "franka_gripper" && robot.end_effector_type != "robotiq_gripper",
                "hands with fingers cannot be driven yet",
            ),
            (
                "override_cfg.manual_episode_control_only",
                robot.manual_episode_control_only && (labels.is_none() || env.ignore_terminations),
                "no key would end an episode: keyboard_reward_wrapper lets them, unless ignore_terminations is set",
            ),
        ];
        match refused.into_iter().find(|(_, is_asked, _)| *is_asked) {
            Some((key, _, why)) => Err(self.problem(key, why, "leave it out")),
            None => Ok(()),
        }
    }

    /// The server that is named, or a simulated one that is started.
    fn robot_server(&self) -> Result<Server, ComposeError> {
        let robot = &self.settings.override_cfg;
        let is_simulated = robot.is_dummy || robot.robot_ip.as_deref() == Some("sim");
        match &robot.server_url {
            Some(url) if is_simulated => self.simulated_elsewhere(url),
            Some(url) => Ok(Server { url: url.clone(), clock: Arc::new(RealClock::new()), simulated: None }),
            None if is_simulated => self.simulated_server(),
            None => {
                let message = "no robot server is named";
                let hint = "override_cfg.server_url: http://ROBOT:5000 for a server that speaks SERL's dialect, or override_cfg.robot_ip: sim for a simulated robot (docs/robot.md)";
                Err(self.problem("override_cfg.server_url", message, hint))
            }
        }
    }

    /// A simulated robot that lives as long as the environment.
    fn simulated_server(&self) -> Result<Server, ComposeError> {
        let wrong = |error: &dyn std::fmt::Display| self.not_simulated(error);
        let (task, scene, env) = self.simulated_scene()?;
        let clock: Arc<dyn Clock> = Arc::new(RealClock::at_speed(self.settings.override_cfg.sim_speed));
        let settings = SimulateSettings {
            seed: scene.seed,
            prepare: task.prepare().map_err(|error| wrong(&error))?,
            starts_closed: task == SimulatedTask::PegInsertion,
            incidents_per_minute: self.settings.override_cfg.sim_incidents,
            ..SimulateSettings::new(clock.clone())
        };
        let robot = SimulatedRobot::start(env, settings).map_err(|error| wrong(&error))?;
        let url = robot.address().map(|address| format!("http://{address}")).unwrap_or_default();
        Ok(Server {
            url,
            clock,
            simulated: Some(Simulated { server: SimulatedServer::Here(robot), scene, task }),
        })
    }

    /// A simulated robot of another process: it has ground truth for a script, and a table that resets itself.
    fn simulated_elsewhere(&self, url: &str) -> Result<Server, ComposeError> {
        let wrong = |error: &dyn std::fmt::Display| {
            let hint = "start it with `plaudit robot simulate`, or leave out robot_ip for a real one";
            self.problem("override_cfg.server_url", error, hint)
        };
        let (task, scene, mut env) = self.simulated_scene()?;
        let client = SceneClient::new(url).map_err(|error| wrong(&error))?;
        client.reset_scene(Some(0)).map_err(|error| wrong(&error))?;
        let there = client.truth().map_err(|error| wrong(&error))?.state;
        let here = task.first_state(env.as_mut(), &scene).map_err(|error| wrong(&error))?;
        // The arm comes to rest between its preparation and the answer: its speed does not tell scenes apart.
        let velocities = env.spec().state_parts.iter().find(|part| &*part.name == "qvel");
        let is_velocity = |at: usize| velocities.is_some_and(|part| part.range.contains(&at));
        let is_far = |at: usize| !is_velocity(at) && (there[at] - here[at]).abs() > SAME_SCENE;
        if there.len() != here.len() || (0..here.len()).any(is_far) {
            let message = "the simulated robot there has another task, or another seed";
            let hint = format!(
                "start it with `plaudit robot simulate {} --seed {}`",
                task.possible_word(),
                self.settings.seed
            );
            return Err(self.problem("override_cfg.server_url", message, hint));
        }
        let clock: Arc<dyn Clock> = Arc::new(RealClock::new());
        let server = SimulatedServer::Elsewhere(client);
        Ok(Server { url: url.into(), clock, simulated: Some(Simulated { server, scene, task }) })
    }

    /// The task that a simulated robot has, and its scene, found in the environment that comes with it.
    fn simulated_scene(&self) -> Result<(SimulatedTask, SimulatedScene, Box<dyn Env>), ComposeError> {
        let wrong = |error: &dyn std::fmt::Display| self.not_simulated(error);
        let task = match self.settings.init_params.id.as_deref() {
            Some("PegInsertionEnv-v1") => SimulatedTask::PegInsertion,
            _ => SimulatedTask::PickCube,
        };
        let robot = &self.settings.override_cfg;
        let mut env = simulated_arm(task, robot.image_side as usize).map_err(|error| wrong(&error))?;
        let found = task.find_scene(env.as_mut(), Seed::new(self.settings.seed), robot.sim_scenes);
        Ok((task, found.map_err(|error| wrong(&error))?, env))
    }

    fn not_simulated(&self, error: &dyn std::fmt::Display) -> ComposeError {
        let hint = "robot_ip: sim runs PegInsertionEnv-v1 and FrankaEnv-v1";
        self.problem("override_cfg.robot_ip", error, hint)
    }

    fn robot_task(&self, server: &Server) -> Result<RobotTask, ComposeError> {
        let (env, robot) = (self.settings, &self.settings.override_cfg);
        let is_written =
            |key: &str| self.loaded.is_written(&format!("{}.override_cfg.{key}", self.which.key()));
        let problem = |problem| self.robot_problem(problem);
        let scene = server.simulated.as_ref().map(|simulated| &simulated.scene);
        let is_target_written =
            matches!(robot.target_ee_pose, Fill::Given(_)) && is_written("target_ee_pose");
        let target = match scene {
            Some(scene) if !is_target_written => scene.target,
            _ => target(robot).map_err(problem)?,
        };
        let reset_pose = match (&robot.reset_ee_pose, scene) {
            (Some(Fill::Blank(_)) | None, Some(scene)) => scene.start,
            _ => reset_pose(robot, target).map_err(problem)?,
        };
        let id = env.init_params.id.clone().unwrap_or_else(|| "FrankaEnv-v1".into());
        let (action_m, action_rad) = full_action(robot);
        let near = robot.reward_threshold.unwrap_or([0.01, 0.01, 0.01, 0.2, 0.2, 0.2]);
        let compliance = robot.compliance_param.iter().map(|(name, value)| (name.as_str(), *value));
        let compliance = Compliance::new(compliance).map_err(|error| {
            self.problem("override_cfg.compliance_param", error, "stay within the controller's range")
        })?;
        let words = match (&*robot.task_description, &server.simulated) {
            ("", Some(simulated)) => Some(simulated.task.instruction().into()),
            ("", None) => None,
            (words, _) => Some(words.into()),
        };
        let (random_xy_m, random_yaw_rad) = if robot.enable_random_reset {
            (robot.random_xy_range, robot.random_rz_range)
        } else {
            (0.0, 0.0)
        };
        let most_steps = env.max_episode_steps.filter(|_| !robot.manual_episode_control_only);
        Ok(RobotTask {
            control_hz: robot.step_frequency,
            action_m,
            action_rad,
            has_gripper: !env.no_gripper,
            gripper_threshold: robot.binary_gripper_threshold,
            gripper_penalty: if robot.enable_gripper_penalty { robot.gripper_penalty } else { 0.0 },
            relative_frame: env.use_relative_frame,
            near_m: DVec3::new(near[0], near[1], near[2]),
            near_rad: robot.check_orientation_success.then(|| near[3].max(near[4]).max(near[5])),
            success_hold_steps: robot.success_hold_steps as usize,
            dense_reward: robot.use_dense_reward,
            reward_scale: robot.reward_scale,
            random_xy_m,
            random_yaw_rad,
            max_episode_steps: most_steps.map(|steps| steps as usize),
            ignore_terminations: env.ignore_terminations,
            keys: env.keyboard_reward_wrapper.and_then(episode_keys),
            compliance,
            instruction: words,
            pilot_waits: Duration::from_secs_f64(robot.pilot_waits.min(86_400.0)),
            pilot_share: robot.pilot_share,
            ..RobotTask::reach(&id, target, reset_pose)
        })
    }

    /// The box that is written, or that of the task around its target, or on a simulated robot the way of the script.
    fn robot_limits(&self, server: &Server, task: &RobotTask) -> Result<Limits, ComposeError> {
        let robot = &self.settings.override_cfg;
        let is_written = robot.ee_pose_limit_min.is_some()
            || robot.ee_pose_limit_max.is_some()
            || robot.clip_xy_range.is_some()
            || robot.clip_x_range.is_some();
        let workspace = match &server.simulated {
            Some(Simulated { scene, .. }) if !is_written => {
                let (from, to, room) = (scene.way.min_m, scene.way.max_m, DVec3::splat(ROOM_M));
                let bounds = AxisBox { min_m: from - room, max_m: to + room };
                task::workspace_of(bounds, task.target, [0.4, 0.4, FRAC_PI_3])
            }
            _ => workspace(self.settings, task.target),
        };
        let workspace = workspace.map_err(|problem| self.robot_problem(problem))?;
        let limits = Limits::new(workspace, task.control_hz);
        Ok(Limits {
            max_speed_m_s: HEADROOM * task.action_m * task.control_hz,
            max_turn_rad_s: HEADROOM * task.action_rad * task.control_hz,
            max_force_n: robot.max_force,
            max_torque_nm: robot.max_torque,
            dead_man: robot.dead_man,
            ..limits
        })
    }

    /// The cameras that are written, or those of the simulated robot, the main view first.
    fn robot_cameras(
        &self,
        server: &Server,
        written: Vec<NamedCamera>,
    ) -> Result<Vec<Box<dyn Camera>>, ComposeError> {
        let named = match (written.is_empty(), server.simulated.is_some()) {
            (false, _) => written,
            (true, true) => cameras::simulated_cameras(self.settings, &server.url)
                .map_err(|problem| self.robot_problem(problem))?,
            (true, false) => {
                let main = cameras::main_view(self.settings);
                let message = format!("no camera is named for the main view, `{main}`");
                let hint = format!(
                    "camera_urls: {{{main}: \"http://ROBOT:8080/?action=stream\"}} or {{{main}: /dev/video0}}, or \
                     camera_serials (`plaudit robot doctor --camera ADDRESS` tries one)"
                );
                return Err(self.problem("override_cfg.camera_urls", message, hint));
            }
        };
        let side = self.settings.override_cfg.image_side as usize;
        let open = |camera: NamedCamera| {
            let opened = camera.address.open(&camera.name, camera.fit(side), server.clock.clone());
            opened.map_err(|error| {
                let hint = "`plaudit robot doctor --camera ADDRESS` says more about a camera";
                self.problem("override_cfg.camera_urls", error, hint)
            })
        };
        named.into_iter().map(open).collect()
    }
}

/// What keys mean while episodes are collected or learned from; nothing where that is not there.
fn episode_keys(labels: KeyboardLabels) -> Option<EpisodeKeys> {
    match labels {
        KeyboardLabels::SingleStage => Some(EpisodeKeys::SingleStage),
        KeyboardLabels::MultiStage => Some(EpisodeKeys::MultiStage),
        KeyboardLabels::StartEnd => Some(EpisodeKeys::StartEnd),
        KeyboardLabels::EvalControl | KeyboardLabels::PolicySwitch => None,
    }
}

/// One simulated arm that moves its tool and never ends its episodes.
pub fn simulated_arm(task: SimulatedTask, side: usize) -> Result<Box<dyn Env>, plaudit_core::EnvError> {
    let cameras = [CameraName::BaseCamera, CameraName::HandCamera].map(|name| CameraSettings {
        name,
        width: side,
        height: side,
    });
    let (control_mode, cameras) = (ControlMode::PdEeDeltaPose, Some(cameras.to_vec()));
    let id = match task {
        SimulatedTask::PegInsertion => EnvId::PegInsertionSideV1,
        SimulatedTask::PickCube => EnvId::PickCubeV1,
    };
    let mut settings = EmbeddedSettings::new(id, 1);
    (settings.ignore_terminations, settings.max_episode_steps) = (true, Some(usize::MAX >> 1));
    match task {
        SimulatedTask::PegInsertion => {
            settings.peg_insertion =
                Some(PegInsertionSettings { control_mode, cameras, ..PegInsertionSettings::default() });
        }
        SimulatedTask::PickCube => {
            settings.pick_cube =
                Some(PickCubeSettings { control_mode, cameras, ..PickCubeSettings::default() });
        }
    }
    super::embedded_env(&settings)
}

/// Stands still: whatever moves the arm is a person.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StillPolicy {
    pub(crate) width: usize,
}

impl Policy for StillPolicy {
    fn act(&mut self, obs: &Obs, _: Seed) -> Result<Decision, PolicyError> {
        Ok(Decision { actions: vec![0.0; obs.batch() * self.width], ..Decision::default() })
    }
}
