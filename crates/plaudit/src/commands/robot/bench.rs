//! Which robot is meant: a server and cameras by flags, a task by its config, or both.

use std::f64::consts::FRAC_PI_6;

use clap::Args;
use glam::DVec3;
use indexmap::IndexMap;
use plaudit_robot::doctor::{Finding, WorkspaceCheck, check_workspace};
use plaudit_robot::{AxisBox, ToolPose, Workspace};

use crate::cli::{ConfigArgs, Verbosity};
use crate::config::block::Fill;
use crate::config::blocks::env::{EnvSettings, EnvType};
use crate::config::blocks::robot::{Pose, RobotSettings};
use crate::config::{self, LoadedConfig};
use crate::console;
use crate::failure::Failure;
use crate::load::RequestedConfig;

/// Actions per second where no config says so.
const CONTROL_HZ: f64 = 10.0;
/// Episodes start so far above the target where no start is set.
const ABOVE_M: f64 = 0.1;
/// How far the tool may roll and pitch, and how far it may yaw where nothing is set.
const TILT_RAD: f64 = 0.1;
const YAW_RAD: f64 = FRAC_PI_6;
/// A full action where nothing is set: metres, radians, gripper.
const ACTION: [f64; 3] = [0.02, 0.1, 1.0];
/// The task whose box is known: half widths in x and y, then how far below and above the target, metres.
const PEG: (&str, [f64; 4]) = ("PegInsertionEnv-v1", [0.05, 0.05, 0.0, 0.1]);
/// A box has an inside even where its range is zero.
const ROOM_M: f64 = 1e-3;

/// Which robot.
#[derive(Debug, Clone, Args)]
pub(super) struct BenchArgs {
    #[command(flatten)]
    config: ConfigArgs,
    /// The robot server, such as http://127.0.0.1:5000
    #[arg(long, value_name = "URL")]
    server: Option<String>,
    /// A camera: the name of one that the robot server shows, or the address of an MJPEG stream. Several: once for each
    #[arg(long = "camera", value_name = "NAME|URL")]
    cameras: Vec<String>,
}

/// A robot and its task, as far as they are known.
pub(super) struct Bench {
    pub(super) server: String,
    /// Names and addresses, the main view first.
    pub(super) cameras: Vec<(String, String)>,
    pub(super) control_hz: f64,
    pub(super) compliance: IndexMap<String, f64>,
    /// The config, where one was named.
    pub(super) config: Option<LoadedConfig>,
    task: Option<BenchTask>,
    findings: Vec<Finding>,
}

/// What a config says about where the tool may and must be.
struct BenchTask {
    workspace: Workspace,
    target: ToolPose,
    reset: ToolPose,
    /// Metres and radians of a full action.
    action: (f64, f64),
}

impl BenchArgs {
    /// Reads the config, if one is named, and says its notices. There must be a robot.
    pub(super) fn resolve(&self, verbosity: Verbosity) -> Result<Bench, Failure> {
        let bench = self.resolve_cameras(verbosity)?;
        if bench.server.is_empty() {
            let help = "give the robot server: --server http://127.0.0.1:5000, or override_cfg.server_url of a config";
            return Err(Failure::usage("which robot?", help.to_string()));
        }
        Ok(bench)
    }

    /// The same for whoever only looks: cameras with addresses of their own need no robot.
    pub(super) fn resolve_cameras(&self, verbosity: Verbosity) -> Result<Bench, Failure> {
        let is_named = self.config.config_name.is_some() || !self.config.words.is_empty();
        let config = if is_named { Some(self.load(verbosity)?) } else { None };
        let written = config.as_ref().and_then(|config| robot_env(config).override_cfg.server_url.clone());
        let server = self.server.clone().or(written).unwrap_or_default();
        if let Some(camera) = self.cameras.iter().find(|camera| server.is_empty() && !camera.contains("://"))
        {
            let help =
                "give the server that shows it, --server http://127.0.0.1:5000, or its address".to_string();
            return Err(Failure::usage(format!("where is camera `{camera}`?"), help));
        }
        let named = self.cameras.iter().enumerate().map(|camera| camera_address(&server, camera));
        let mut bench = Bench {
            cameras: named.collect(),
            server,
            control_hz: CONTROL_HZ,
            compliance: IndexMap::new(),
            config: None,
            task: None,
            findings: Vec::new(),
        };
        if let Some(config) = config {
            if bench.cameras.is_empty() {
                bench.cameras = written_cameras(robot_env(&config));
            }
            bench.read_task(robot_env(&config));
            bench.config = Some(config);
        }
        Ok(bench)
    }

    fn load(&self, verbosity: Verbosity) -> Result<LoadedConfig, Failure> {
        let asked = RequestedConfig::from_args(&self.config)?;
        let loaded = config::load(&asked.disk, &asked.request)?;
        console::notices(&loaded.notices, verbosity);
        let env = robot_env(&loaded);
        if env.env_type != EnvType::Realworld {
            let message =
                format!("{} describes no robot: its environments are `{}`", loaded.name, env.env_type.word());
            return Err(Failure::usage(message, "name a config with `env_type: realworld`".to_string()));
        }
        Ok(loaded)
    }
}

/// The block of a config that has the robot.
fn robot_env(loaded: &LoadedConfig) -> &EnvSettings {
    let envs = &loaded.config.env;
    if envs.eval.env_type == EnvType::Realworld { &envs.eval } else { &envs.train }
}

/// The streams of a config, the main view first.
fn written_cameras(env: &EnvSettings) -> Vec<(String, String)> {
    let urls = &env.override_cfg.camera_urls;
    let mut cameras: Vec<(String, String)> =
        urls.iter().map(|(name, url)| (name.clone(), url.clone())).collect();
    cameras.sort_by_key(|(name, _)| Some(name) != env.main_image_key.as_ref());
    cameras
}

/// A camera by its name or address. One that only has an address is called as RLinf calls it.
fn camera_address(server: &str, (number, camera): (usize, &String)) -> (String, String) {
    if camera.contains("://") {
        return (format!("wrist_{}", number + 1), camera.clone());
    }
    let server = server.trim_end_matches('/');
    let server = if server.contains("://") { server.to_string() } else { format!("http://{server}") };
    (camera.clone(), format!("{server}/camera/{camera}"))
}

impl Bench {
    /// What is wrong with the config itself.
    pub(super) fn findings(&self) -> Vec<Finding> {
        self.findings.clone()
    }

    /// The workspace as it looks from where the tool is.
    pub(super) fn check_workspace(&self, tool: ToolPose) -> Option<WorkspaceCheck> {
        let BenchTask { workspace, target, reset, action } = self.task.as_ref()?;
        Some(check_workspace(workspace, tool, (*target, *reset), *action))
    }

    fn read_task(&mut self, env: &EnvSettings) {
        let robot = &env.override_cfg;
        self.control_hz = robot.step_frequency;
        self.compliance = robot.compliance_param.clone();
        match task(env) {
            Ok(task) => self.task = Some(task),
            Err((text, advice)) => self.findings.push(Finding::wrong("workspace", text, advice)),
        }
    }
}

/// The pose that was filled in.
fn filled(key: &str, pose: &Fill<Pose>) -> Result<ToolPose, (String, String)> {
    let advice = || "read it at the robot: `plaudit robot pose URL`".to_string();
    match pose {
        Fill::Given(numbers) => ToolPose::from_xyz_euler(*numbers)
            .ok_or_else(|| (format!("`override_cfg.{key}` has something that is no number"), advice())),
        Fill::Blank(blank) => Err((format!("`override_cfg.{key}` is still {blank}"), advice())),
    }
}

/// The workspace around the target, or between the limits that are set.
fn task(env: &EnvSettings) -> Result<BenchTask, (String, String)> {
    let robot = &env.override_cfg;
    let target = filled("target_ee_pose", &robot.target_ee_pose)?;
    let above = ToolPose { position_m: target.position_m + DVec3::Z * ABOVE_M, ..target };
    let reset = robot.reset_ee_pose.as_ref().map_or(Ok(above), |reset| filled("reset_ee_pose", reset))?;
    let (bounds, turn_rad) = bounds(env.init_params.id.as_deref(), robot, target)?;
    let workspace = Workspace::new(bounds, target.rotation, turn_rad)
        .map_err(|error| (error.to_string(), "change the box of `override_cfg`".to_string()))?;
    let [action_m, action_rad, _] = robot.action_scale.unwrap_or(ACTION);
    Ok(BenchTask { workspace, target, reset, action: (action_m, action_rad) })
}

fn bounds(
    id: Option<&str>,
    robot: &RobotSettings,
    target: ToolPose,
) -> Result<(AxisBox, [f64; 3]), (String, String)> {
    if let (Some(min), Some(max)) = (robot.ee_pose_limit_min, robot.ee_pose_limit_max) {
        let corner = |pose: Pose| DVec3::new(pose[0], pose[1], pose[2]);
        let bounds = AxisBox { min_m: corner(min), max_m: corner(max) };
        return Ok((bounds, std::array::from_fn(|axis| (max[axis + 3] - min[axis + 3]).abs() / 2.0)));
    }
    let usual = |side: usize| (id == Some(PEG.0)).then_some(PEG.1[side]);
    let x = robot.clip_x_range.or(robot.clip_xy_range).or(usual(0));
    let y = robot.clip_y_range.or(robot.clip_xy_range).or(usual(1));
    let (low, high) = (robot.clip_z_range_low.or(usual(2)), robot.clip_z_range_high.or(usual(3)));
    let (Some(x), Some(y), Some(low), Some(high)) = (x, y, low, high) else {
        let advice = "set `clip_xy_range`, `clip_z_range_low` and `clip_z_range_high`, or `ee_pose_limit_min` and \
                      `ee_pose_limit_max`";
        return Err(("the config sets no box for the tool".into(), advice.into()));
    };
    let bounds = AxisBox {
        min_m: target.position_m - DVec3::new(x, y, low + ROOM_M),
        max_m: target.position_m + DVec3::new(x, y, high + ROOM_M),
    };
    Ok((bounds, [TILT_RAD, TILT_RAD, robot.clip_rz_range.unwrap_or(YAW_RAD)]))
}
