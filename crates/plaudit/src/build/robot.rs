//! A robot arm as a config describes it, or the simulated one in its place.

use std::f64::consts::{FRAC_PI_3, FRAC_PI_6};
use std::sync::Arc;

use glam::DVec3;
use plaudit_compose::ComposeError;
use plaudit_core::{Decision, Env, FrameShape, Obs, Policy, PolicyError, Seed};
use plaudit_env::{CameraName, CameraSettings, ControlMode, EnvId, EnvSettings as EmbeddedSettings};
use plaudit_env::{PegInsertionSettings, PickCubeSettings};
use plaudit_robot::{
    AxisBox, Camera, Clock, Compliance, Guard, Limits, MjpegCamera, NoPilot, NoTableReset, Pilot, RealClock,
    RobotEnv, RobotParts, RobotTask, SceneClient, SerlArm, SimulateSettings, SimulatedRobot, StopToken,
    TableReset, ToolPose, Workspace,
};

use super::Builder;
use crate::config::block::Fill;
use crate::config::blocks::robot::{PilotKind, RobotSettings};
use crate::robot::{SceneReset, ScriptPilot, SimulatedPerson, SimulatedScene, SimulatedTask, TerminalPerson};
use crate::run::{interrupted, notify_soon};

/// Pixels of a side of the images that policies see.
pub(super) const IMAGE_SIDE: usize = 128;
/// How far the tool may roll and pitch, radians.
const TILT: f64 = 0.1;
/// Room around the way of the script, metres.
const ROOM_M: f64 = 0.06;
/// Speed limits are so much above the largest action.
const HEADROOM: f64 = 1.25;

/// A robot server, and what is known about its table.
struct Server {
    url: String,
    clock: Arc<dyn Clock>,
    simulated: Option<(SimulatedRobot, SimulatedScene, SimulatedTask)>,
}

impl Builder<'_> {
    /// A robot arm.
    pub(super) fn robot(&self) -> Result<Box<dyn Env>, ComposeError> {
        if let Some(lerobot) = &self.settings.override_cfg.lerobot {
            return self.lerobot(lerobot);
        }
        self.refuse_unsupported_by_robots()?;
        let server = self.robot_server()?;
        let task = self.robot_task(&server)?;
        let limits = self.robot_limits(&server, &task)?;
        let wrong = |error: &dyn std::fmt::Display| {
            self.problem("override_cfg", error, "change what the message names")
        };
        let arm = SerlArm::new(&server.url, server.clock.clone());
        let arm =
            arm.map_err(|error| self.problem("override_cfg.server_url", error, "as http://127.0.0.1:5000"))?;
        let guard = Guard::new(Box::new(arm), limits, server.clock.clone()).map_err(|error| wrong(&error))?;
        let cameras = self.robot_cameras(&server)?;
        let pilot = self.robot_pilot(&server, &task)?;
        let Server { url, clock, simulated } = server;
        let table: Box<dyn TableReset> = match &simulated {
            Some(_) => Box::new(SceneReset(SceneClient::new(&url).map_err(|error| wrong(&error))?)),
            None => Box::new(NoTableReset),
        };
        let parts = RobotParts {
            guard,
            cameras,
            pilot,
            table,
            person: match &simulated {
                Some(_) => Box::new(SimulatedPerson),
                None => Box::new(TerminalPerson { address: url }),
            },
            clock,
            stop: StopToken::or_when(interrupted),
            notify: Box::new(notify_soon),
            watchdog: true,
            server: simulated.map(|(robot, ..)| robot),
        };
        Ok(Box::new(RobotEnv::new(task, parts).map_err(|error| wrong(&error))?))
    }

    /// What robots cannot do yet, by name.
    fn refuse_unsupported_by_robots(&self) -> Result<(), ComposeError> {
        let (env, robot) = (self.settings, &self.settings.override_cfg);
        let refused = [
            ("total_num_envs", env.total_num_envs.unwrap_or(1) > 1, "a robot is one environment"),
            (
                "keyboard_reward_wrapper",
                env.keyboard_reward_wrapper.is_some(),
                "labels by key are not there yet",
            ),
            ("use_gello", env.use_gello, "GELLO arms cannot be read yet"),
            (
                "override_cfg.camera_serials",
                robot.camera_serials.is_some(),
                "cameras are not found by serial number yet; name their streams in camera_urls",
            ),
            (
                "override_cfg.camera_crop_regions",
                !robot.camera_crop_regions.is_empty(),
                "images are cut to the square in their middle",
            ),
            (
                "override_cfg.end_effector_type",
                robot.end_effector_type != "franka_gripper" && robot.end_effector_type != "robotiq_gripper",
                "hands with fingers cannot be driven yet",
            ),
            (
                "override_cfg.manual_episode_control_only",
                robot.manual_episode_control_only,
                "episodes cannot be ended by key yet",
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
            Some(_) if is_simulated => {
                let message = "a server is named, and a simulated one asked for";
                Err(self.problem("override_cfg.server_url", message, "leave out the one or the other"))
            }
            Some(url) => Ok(Server { url: url.clone(), clock: Arc::new(RealClock::new()), simulated: None }),
            None if is_simulated => self.simulated_server(),
            None => {
                let message = "no robot server is named";
                let hint = "override_cfg.server_url: http://ROBOT:5000 for a server that speaks SERL's dialect, or override_cfg.robot_ip: sim for a simulated robot (docs/robot.md)";
                Err(self.problem("override_cfg.server_url", message, hint))
            }
        }
    }

    fn simulated_server(&self) -> Result<Server, ComposeError> {
        let hint = "robot_ip: sim runs PegInsertionEnv-v1 and FrankaEnv-v1";
        let wrong = |error: &dyn std::fmt::Display| self.problem("override_cfg.robot_ip", error, hint);
        let task = match self.settings.init_params.id.as_deref() {
            Some("PegInsertionEnv-v1") => SimulatedTask::PegInsertion,
            _ => SimulatedTask::PickCube,
        };
        let mut env = simulated_arm(task, IMAGE_SIDE).map_err(|error| wrong(&error))?;
        let scene =
            task.find_scene(env.as_mut(), Seed::new(self.settings.seed)).map_err(|error| wrong(&error))?;
        let clock: Arc<dyn Clock> = Arc::new(RealClock::at_speed(self.settings.override_cfg.sim_speed));
        let settings = SimulateSettings {
            seed: scene.seed,
            prepare: task.prepare().map_err(|error| wrong(&error))?,
            starts_closed: task == SimulatedTask::PegInsertion,
            ..SimulateSettings::new(clock.clone())
        };
        let robot = SimulatedRobot::start(env, settings).map_err(|error| wrong(&error))?;
        let url = robot.address().map(|address| format!("http://{address}")).unwrap_or_default();
        Ok(Server { url, clock, simulated: Some((robot, scene, task)) })
    }

    fn robot_task(&self, server: &Server) -> Result<RobotTask, ComposeError> {
        let (env, robot) = (self.settings, &self.settings.override_cfg);
        let is_written =
            |key: &str| self.loaded.is_written(&format!("{}.override_cfg.{key}", self.which.key()));
        let target = match (&robot.target_ee_pose, &server.simulated) {
            (Fill::Blank(_), Some((_, scene, _))) => scene.target,
            (Fill::Given(_), Some((_, scene, _))) if !is_written("target_ee_pose") => scene.target,
            (Fill::Given(pose), _) => self.robot_pose("target_ee_pose", *pose)?,
            (Fill::Blank(blank), None) => {
                let message = format!("it still says {blank}");
                let hint = "x, y, z in metres, then roll, pitch, yaw in radians: where the tool is when the task is solved";
                return Err(self.problem("override_cfg.target_ee_pose", message, hint));
            }
        };
        let reset_pose = match (&robot.reset_ee_pose, &server.simulated) {
            (Some(Fill::Given(pose)), _) => self.robot_pose("reset_ee_pose", *pose)?,
            (_, Some((_, scene, _))) => scene.start,
            _ => target.moved(DVec3::Z * 0.1, DVec3::ZERO),
        };
        let id = env.init_params.id.clone().unwrap_or_else(|| "FrankaEnv-v1".into());
        let [action_m, action_rad, _] = robot.action_scale.unwrap_or([0.02, 0.1, 1.0]);
        let near = robot.reward_threshold.unwrap_or([0.01, 0.01, 0.01, 0.2, 0.2, 0.2]);
        let compliance = robot.compliance_param.iter().map(|(name, value)| (name.as_str(), *value));
        let compliance = Compliance::new(compliance).map_err(|error| {
            self.problem("override_cfg.compliance_param", error, "stay within the controller's range")
        })?;
        let words = match (&*robot.task_description, &server.simulated) {
            ("", Some((_, _, task))) => Some(task.instruction().into()),
            ("", None) => None,
            (words, _) => Some(words.into()),
        };
        let (random_xy_m, random_yaw_rad) = if robot.enable_random_reset {
            (robot.random_xy_range, robot.random_rz_range)
        } else {
            (0.0, 0.0)
        };
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
            max_episode_steps: env.max_episode_steps.map(|steps| steps as usize),
            ignore_terminations: env.ignore_terminations,
            compliance,
            instruction: words,
            ..RobotTask::reach(&id, target, reset_pose)
        })
    }

    fn robot_pose(&self, key: &str, pose: [f64; 6]) -> Result<ToolPose, ComposeError> {
        ToolPose::from_xyz_euler(pose).ok_or_else(|| {
            self.problem(
                &format!("override_cfg.{key}"),
                "it has something that is no number",
                "six finite numbers",
            )
        })
    }

    /// The box that is written, or that of the task around its target.
    fn robot_limits(&self, server: &Server, task: &RobotTask) -> Result<Limits, ComposeError> {
        let robot = &self.settings.override_cfg;
        let (bounds, turn) = match (robot.ee_pose_limit_min, robot.ee_pose_limit_max, &server.simulated) {
            (Some(min), Some(max), _) => limits_as_written(min, max),
            (None, None, Some((_, scene, _)))
                if robot.clip_xy_range.is_none() && robot.clip_x_range.is_none() =>
            {
                let (from, to, room) = (scene.way.min_m, scene.way.max_m, DVec3::splat(ROOM_M));
                (AxisBox { min_m: from - room, max_m: to + room }, [0.4, 0.4, FRAC_PI_3])
            }
            (None, None, _) => self.box_around_target(robot, task)?,
            _ => {
                let message = "the box has one of its two corners alone";
                return Err(self.problem(
                    "override_cfg.ee_pose_limit_min",
                    message,
                    "write ee_pose_limit_max, too",
                ));
            }
        };
        let workspace = Workspace::new(bounds, task.target.rotation, turn).map_err(|error| {
            self.problem("override_cfg.ee_pose_limit_min", error, "give the box an inside")
        })?;
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

    fn box_around_target(
        &self,
        robot: &RobotSettings,
        task: &RobotTask,
    ) -> Result<(AxisBox, [f64; 3]), ComposeError> {
        let is_peg = &*task.id == "PegInsertionEnv-v1";
        let usual = |written: Option<f64>, peg: f64| written.or(is_peg.then_some(peg));
        let x = usual(robot.clip_x_range.or(robot.clip_xy_range), 0.05);
        let y = usual(robot.clip_y_range.or(robot.clip_xy_range), 0.05);
        let (low, high) = (usual(robot.clip_z_range_low, 0.0), usual(robot.clip_z_range_high, 0.1));
        let (Some(x), Some(y), Some(low), Some(high)) = (x, y, low, high) else {
            let message = format!("{} has no box of its own, and none is written", task.id);
            let hint = "write ee_pose_limit_min and ee_pose_limit_max, or clip_xy_range, clip_z_range_low and clip_z_range_high: the tool never leaves it";
            return Err(self.problem("override_cfg.ee_pose_limit_min", message, hint));
        };
        let centre = task.target.position_m;
        let bounds = AxisBox {
            min_m: centre - DVec3::new(x, y, low + 1e-3),
            max_m: centre + DVec3::new(x, y, high + 1e-3),
        };
        Ok((bounds, [TILT, TILT, robot.clip_rz_range.unwrap_or(FRAC_PI_6)]))
    }

    /// The streams that are named, or those of the simulated robot, the main view first.
    fn robot_cameras(&self, server: &Server) -> Result<Vec<Box<dyn Camera>>, ComposeError> {
        let urls = &self.settings.override_cfg.camera_urls;
        let main = self.settings.main_image_key.clone().unwrap_or_else(|| "wrist_1".into());
        let mut streams: Vec<(String, String)> =
            urls.iter().map(|(name, url)| (name.clone(), url.clone())).collect();
        if streams.is_empty() && server.simulated.is_some() {
            let second = if main == "wrist_1" { "wrist_2" } else { "wrist_1" };
            let stream = |camera: &str| format!("{}/camera/{camera}", server.url);
            streams = vec![(main.clone(), stream("hand_camera")), (second.into(), stream("base_camera"))];
        }
        let Some(first) = streams.iter().position(|(name, _)| *name == main) else {
            let message = format!("no stream is named for the main view, `{main}`");
            let hint = format!("camera_urls: {{{main}: \"http://ROBOT:8080/?action=stream\"}}");
            return Err(self.problem("override_cfg.camera_urls", message, hint));
        };
        streams.swap(0, first);
        let shape = FrameShape::rgb(IMAGE_SIDE, IMAGE_SIDE);
        let open = |(name, url): (String, String)| {
            let camera = MjpegCamera::open(&name, &url, shape, server.clock.clone());
            camera.map(|camera| Box::new(camera) as Box<dyn Camera>).map_err(|error| {
                self.problem("override_cfg.camera_urls", error, "an MJPEG stream over plain http")
            })
        };
        streams.into_iter().map(open).collect()
    }

    fn robot_pilot(&self, server: &Server, task: &RobotTask) -> Result<Box<dyn Pilot>, ComposeError> {
        let usual = match (&server.simulated, self.settings.use_spacemouse) {
            (_, false) => PilotKind::None,
            (Some(_), true) => PilotKind::Script,
            (None, true) => PilotKind::Spacemouse,
        };
        let key = "override_cfg.pilot";
        match (self.settings.override_cfg.pilot.unwrap_or(usual), &server.simulated) {
            (PilotKind::None, _) => Ok(Box::new(NoPilot)),
            (PilotKind::Spacemouse, _) => {
                let message = "the SpaceMouse cannot be read yet";
                Err(self.problem(key, message, "set it to none, or to script with robot_ip: sim"))
            }
            (PilotKind::Script, None) => {
                let message = "the script sees the simulator's ground truth, which a robot does not have";
                Err(self.problem(key, message, "set it to none, or override_cfg.robot_ip to sim"))
            }
            (PilotKind::Script, Some((_, _, simulated))) => {
                let wrong = |error: &dyn std::fmt::Display| self.problem(key, error, "set it to none");
                let scene = SceneClient::new(&server.url).map_err(|error| wrong(&error))?;
                let expert = simulated.expert().map_err(|error| wrong(&error))?;
                let action = (task.action_m, task.action_rad);
                let pilot = ScriptPilot::start(scene, expert, server.clock.clone(), action);
                Ok(Box::new(pilot.map_err(|error| wrong(&error))?))
            }
        }
    }
}

/// RLinf writes both corners as poses. Angles count from the target there, too; the wider side counts.
fn limits_as_written(min: [f64; 6], max: [f64; 6]) -> (AxisBox, [f64; 3]) {
    let bounds =
        AxisBox { min_m: DVec3::new(min[0], min[1], min[2]), max_m: DVec3::new(max[0], max[1], max[2]) };
    (bounds, std::array::from_fn(|axis| (max[axis + 3] - min[axis + 3]).abs() / 2.0))
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
pub(super) struct StillPolicy {
    pub(super) width: usize,
}

impl Policy for StillPolicy {
    fn act(&mut self, obs: &Obs, _: Seed) -> Result<Decision, PolicyError> {
        Ok(Decision { actions: vec![0.0; obs.batch() * self.width], ..Decision::default() })
    }
}
