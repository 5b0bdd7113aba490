//! Which robot is meant: a server and cameras by flags, a task by its config, or both.

use clap::Args;
use indexmap::IndexMap;
use plaudit_robot::doctor::{Finding, WorkspaceCheck, check_workspace};
use plaudit_robot::{CameraAddress, Crop, ToolPose, Workspace};

use crate::build::{self, EnvBlock, NamedCamera, RobotProblem};
use crate::cli::{ConfigArgs, Verbosity};
use crate::config::blocks::env::{EnvSettings, EnvType};
use crate::config::{self, LoadedConfig};
use crate::console;
use crate::failure::Failure;
use crate::load::RequestedConfig;

/// Actions per second where no config says so.
const CONTROL_HZ: f64 = 10.0;

/// Which robot.
#[derive(Debug, Clone, Args)]
pub(super) struct BenchArgs {
    #[command(flatten)]
    config: ConfigArgs,
    /// The robot server, such as http://127.0.0.1:5000
    #[arg(long, value_name = "URL")]
    server: Option<String>,
    /// A camera: the name of one that the robot server shows, the address of an MJPEG stream, a device such as /dev/video0, a
    /// serial number, or replay:FOLDER. Several: once for each
    #[arg(long = "camera", value_name = "NAME|ADDRESS")]
    cameras: Vec<String>,
}

/// A robot and its task, as far as they are known.
pub(super) struct Bench {
    pub(super) server: String,
    /// The main view first.
    pub(super) cameras: Vec<NamedCamera>,
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
        let named = self.cameras.iter().enumerate().map(|camera| named_camera(&server, camera));
        let mut bench = Bench {
            cameras: named.collect::<Result<_, _>>()?,
            server,
            control_hz: CONTROL_HZ,
            compliance: IndexMap::new(),
            config: None,
            task: None,
            findings: Vec::new(),
        };
        if let Some(config) = config {
            bench.read(robot_env(&config));
            bench.config = Some(config);
        }
        Ok(bench)
    }

    fn load(&self, verbosity: Verbosity) -> Result<LoadedConfig, Failure> {
        let asked = RequestedConfig::from_args(&self.config)?;
        let loaded = config::load(&asked.disk, &asked.request)?;
        console::notices(&loaded.notices, verbosity);
        refuse_no_robot(&loaded)?;
        Ok(loaded)
    }
}

/// A config of something else is refused.
pub(in crate::commands) fn refuse_no_robot(loaded: &LoadedConfig) -> Result<(), Failure> {
    let env = robot_env(loaded);
    if env.env_type == EnvType::Realworld {
        return Ok(());
    }
    let message =
        format!("{} describes no robot: its environments are `{}`", loaded.name, env.env_type.word());
    Err(Failure::usage(message, "name a config with `env_type: realworld`".to_string()))
}

/// The block of a config that has the robot.
pub(in crate::commands) fn robot_block(loaded: &LoadedConfig) -> EnvBlock {
    let is_robot = loaded.config.env.eval.env_type == EnvType::Realworld;
    if is_robot { EnvBlock::Eval } else { EnvBlock::Train }
}

fn robot_env(loaded: &LoadedConfig) -> &EnvSettings {
    robot_block(loaded).settings(loaded)
}

/// A camera by its name or address. One that only has an address is called as RLinf calls it.
fn named_camera(server: &str, (number, camera): (usize, &String)) -> Result<NamedCamera, Failure> {
    // What people call a camera has a letter in it; serial numbers of RealSense cameras do not.
    let is_word = camera.chars().all(|letter| letter.is_alphanumeric() || "_-.".contains(letter));
    let is_name = is_word && camera.contains(char::is_alphabetic);
    let (name, address) = match (is_name, server.trim_end_matches('/')) {
        (false, _) => (build::usual_name(number), camera.clone()),
        (true, "") => {
            let help =
                "give the server that shows it, --server http://127.0.0.1:5000, or its address".to_string();
            return Err(Failure::usage(format!("where is camera `{camera}`?"), help));
        }
        (true, server) if server.contains("://") => (camera.clone(), format!("{server}/camera/{camera}")),
        (true, server) => (camera.clone(), format!("http://{server}/camera/{camera}")),
    };
    let address: CameraAddress = address.parse().map_err(|error| Failure::usage(error, None))?;
    Ok(NamedCamera { name, address, crop: Crop::Centre })
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

    fn read(&mut self, env: &EnvSettings) {
        let robot = &env.override_cfg;
        self.control_hz = robot.step_frequency;
        self.compliance = robot.compliance_param.clone();
        if self.cameras.is_empty() {
            match build::written_cameras(env) {
                Ok(cameras) => self.cameras = cameras,
                Err(problem) => self.findings.push(finding("camera", problem)),
            }
        }
        match task(env) {
            Ok(task) => self.task = Some(task),
            Err(problem) => self.findings.push(finding("workspace", problem)),
        }
    }
}

fn finding(about: &'static str, RobotProblem { key, message, hint }: RobotProblem) -> Finding {
    Finding::wrong(about, format!("`override_cfg.{key}`: {message}"), hint)
}

fn task(env: &EnvSettings) -> Result<BenchTask, RobotProblem> {
    let robot = &env.override_cfg;
    let target = build::target(robot)?;
    let reset = build::reset_pose(robot, target)?;
    let workspace = build::workspace(env, target)?;
    Ok(BenchTask { workspace, target, reset, action: build::full_action(robot) })
}
