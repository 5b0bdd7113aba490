//! `plaudit robot`: robot arms, real and simulated.

mod bench;
mod doctor;
mod label;
mod pose;
mod reaction;
mod serve;
mod server;
pub mod teleop;

pub(super) use bench::{refuse_no_robot, robot_block};

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Subcommand};
use plaudit_core::Seed;
use plaudit_robot::{Faults, RealClock, SERL_PORT, SceneClient, SimulateSettings, SimulatedRobot, ToolPose};

use crate::build;
use crate::cli::Verbosity;
use crate::console;
use crate::failure::Failure;
use crate::robot::SimulatedTask;
use crate::run::{interrupted, listen_for_interrupts};

/// How often the command looks whether it should end.
const LOOKS_EVERY: Duration = Duration::from_millis(50);

/// Robot arms, real and simulated
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve a simulated arm that speaks SERL's HTTP dialect
    Simulate(Simulate),
    /// Serve a Franka arm: its 1 kHz loop, behind SERL's HTTP dialect
    Serve(serve::Serve),
    /// Read the pose of the tool, to write it into a config
    Pose(pose::Pose),
    /// Check a bench: server, cameras, devices, box, compliance, e-stop
    Doctor(doctor::Doctor),
    /// Label frames by key while the robot moves: train.pt and val.pt
    Label(Box<label::Label>),
    /// Move an arm by hand while the reward model scores what it sees
    Teleop(Box<teleop::Teleop>),
}

impl Command {
    /// Does it.
    pub fn run(self, verbosity: Verbosity) -> Result<(), Failure> {
        match self {
            Self::Simulate(simulate) => simulate.run(verbosity),
            Self::Serve(command) => command.run(verbosity),
            Self::Pose(command) => command.run(verbosity),
            Self::Doctor(command) => command.run(verbosity),
            Self::Label(command) => command.run(verbosity),
            Self::Teleop(command) => command.run(verbosity),
        }
    }
}

/// Serve a simulated arm that speaks SERL's HTTP dialect
///
/// Every route of SERL's and HIL-SERL's robot servers, in real time; cameras as MJPEG streams at /camera/NAME. What a
/// robot does not have: /plaudit/truth (success and the full state), /plaudit/scene (a person resets the table) and
/// /plaudit/faults (what goes wrong: latency, errors, frozen frames, reflexes and more). The arm holds when no target
/// comes for two seconds. Ctrl-C ends it. See docs/robot.md.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plaudit robot simulate
  plaudit robot simulate pick-cube --port 5001 --speed 4
  curl -s -X POST localhost:5000/getstate
  curl -s localhost:5000/plaudit/faults -H 'Content-Type: application/json' \\
      -d '{\"latency_ms\": 50, \"tear_frames\": 0.1}'
  plaudit collect realworld_collect_data env.eval.override_cfg.robot_ip=sim")]
pub struct Simulate {
    /// The task on its table
    #[arg(value_enum, default_value_t = SimulatedTask::PegInsertion)]
    task: SimulatedTask,
    /// The address to listen on. Nobody is asked for a password
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    host: IpAddr,
    /// The port to listen on; 0 takes any free one
    #[arg(long, default_value_t = SERL_PORT)]
    port: u16,
    /// How many times as fast as a real one the robot lives
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = speed)]
    speed: f64,
    /// Decides the scene
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// A JSON file of faults to begin with, as /plaudit/faults takes them
    #[arg(long, value_name = "FILE")]
    faults: Option<PathBuf>,
    /// Pixels of a side of the cameras' images
    #[arg(long, value_name = "PIXELS", default_value_t = 128, value_parser = clap::value_parser!(u16).range(16..1025))]
    image_size: u16,
    /// End after so many seconds instead of at Ctrl-C
    #[arg(long, value_name = "SECONDS")]
    seconds: Option<f64>,
}

/// A factor that a machine can keep up with.
fn speed(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(speed) if (0.01..=100.0).contains(&speed) => Ok(speed),
        _ => Err("a number from 0.01 to 100".into()),
    }
}

impl Simulate {
    fn run(self, verbosity: Verbosity) -> Result<(), Failure> {
        let faults = self.faults.as_ref().map(read_faults).transpose()?;
        let runtime = |error: &dyn std::fmt::Display| Failure::runtime(error.to_string(), None);
        let size = usize::from(self.image_size);
        let mut scratch = build::simulated_arm(self.task, size).map_err(|error| runtime(&error))?;
        let scene = self
            .task
            .find_scene(scratch.as_mut(), Seed::new(self.seed), 1)
            .map_err(|error| runtime(&error))?;
        let settings = SimulateSettings {
            address: SocketAddr::new(self.host, self.port),
            seed: scene.seed,
            prepare: self.task.prepare().map_err(|error| runtime(&error))?,
            starts_closed: self.task == SimulatedTask::PegInsertion,
            ..SimulateSettings::new(Arc::new(RealClock::at_speed(self.speed)))
        };
        let robot = SimulatedRobot::start(scratch, settings).map_err(|error| {
            Failure::runtime(error.to_string(), "choose another port with --port".to_string())
        })?;
        let url = robot.address().map(|address| format!("http://{address}")).unwrap_or_default();
        if let Some(faults) = &faults {
            let set = SceneClient::new(&url).map_err(|error| runtime(&error))?;
            set.set_faults(faults).map_err(|error| runtime(&error))?;
        }
        if !verbosity.quiet {
            console::print(&greeting(&url, &robot, scene.target))?;
        }
        listen_for_interrupts();
        let ends = self
            .seconds
            .map(|seconds| std::time::Instant::now() + Duration::from_secs_f64(seconds.clamp(0.0, 1e9)));
        while !interrupted() && ends.is_none_or(|ends| std::time::Instant::now() < ends) {
            if let Some(why) = robot.has_ended() {
                return Err(Failure::runtime(format!("the simulated robot ended: {why}"), None));
            }
            std::thread::sleep(LOOKS_EVERY);
        }
        Ok(())
    }
}

fn read_faults(path: &PathBuf) -> Result<Faults, Failure> {
    let wrong = |why: String| Failure::usage(format!("{}: {why}", path.display()), None);
    let text = std::fs::read(path).map_err(|error| wrong(error.to_string()))?;
    Faults::from_json(&text).map_err(wrong)
}

fn greeting(url: &str, robot: &SimulatedRobot, target: ToolPose) -> String {
    let cameras: Vec<String> = robot.cameras().iter().map(|name| format!("{url}/camera/{name}")).collect();
    let target = target.to_xyz_euler().map(|number| format!("{number:.3}")).join(", ");
    format!(
        "a simulated robot listens at {url}\n  cameras         {}\n  target_ee_pose  [{target}]\n",
        cameras.join("\n                  ")
    )
}
