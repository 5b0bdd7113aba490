//! `plaudit cluster`: training in several processes, on one machine or many.

mod arm;
mod down;
mod join;
mod logs;
mod node;
mod plan;
mod run;
mod status;
mod up;

pub(crate) use node::MirrorRequest;

use std::path::{Path, PathBuf};

use clap::Subcommand;
use plaudit_cluster::Plan;

use crate::cli::{ConfigArgs, Verbosity};
use crate::cluster::VERSION;
use crate::cluster::drive::Driver;
use crate::cluster::request::{CONFIG, plan_of};
use crate::config::LoadedConfig;
use crate::failure::Failure;
use crate::workers::WorkerCommand;
use crate::{load, run as runs};

/// Training in several processes, on one machine or many
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show who would run where, and why
    Plan(plan::PlanCommand),
    /// Start the coordinator, and a daemon on every machine
    Up(up::Up),
    /// Train on the machines of a config, and watch over it
    Run(run::Run),
    /// Show how the processes of a run are doing
    Status(status::Status),
    /// Show what the processes of a run print
    Logs(logs::Logs),
    /// Let a robot of a run move, beside it
    Arm(arm::Arm),
    /// End everything of a run, on every machine
    Down(down::Down),
    /// Be a machine of a run: for SLURM, Kubernetes and Ray
    Join(join::Join),
    /// What the other commands have done on a machine
    #[command(subcommand, hide = true)]
    Node(node::Node),
    /// Be one process of a plan; dora starts it
    #[command(hide = true)]
    Worker(WorkerCommand),
}

impl Command {
    /// Does it.
    pub fn run(self, verbosity: Verbosity) -> Result<(), Failure> {
        match self {
            Self::Plan(command) => command.run(verbosity),
            Self::Up(command) => command.run(verbosity),
            Self::Run(command) => command.run(verbosity),
            Self::Status(command) => command.run(),
            Self::Logs(command) => command.run(),
            Self::Arm(command) => command.run(),
            Self::Down(command) => command.run(verbosity),
            Self::Join(command) => command.run(verbosity),
            Self::Node(command) => command.run(),
            Self::Worker(command) => command.run(verbosity),
        }
    }
}

/// The plan in a run directory.
fn read_plan(run_dir: &Path) -> Result<Plan, Failure> {
    let help = "name the run directory that `plaudit cluster run` or `up` printed".to_string();
    Plan::read(&run_dir.join(Plan::FILE), VERSION).map_err(|error| Failure::runtime(error, help))
}

/// A plan that was made before, with the config it was made from.
fn driver_of(run_dir: &Path) -> Result<Driver, Failure> {
    let plan = read_plan(run_dir)?;
    let config = plan.run_dir.join(CONFIG).display().to_string();
    let args = ConfigArgs { words: vec![config], ..ConfigArgs::default() };
    let quiet = Verbosity { quiet: true, verbose: false };
    Ok(Driver::new(plan, load::for_cluster(&args, quiet)?))
}

/// A new run of a config: its directory and its plan.
fn new_run(loaded: LoadedConfig, hosts: Option<&[String]>) -> Result<Driver, Failure> {
    // What cannot be placed gets no directory.
    plan_of(&loaded, hosts, Path::new("."))?;
    let directory = absolute(runs::directory(&loaded, "train")?.path())?;
    let plan = plan_of(&loaded, hosts, &directory)?;
    let driver = Driver::new(plan, loaded);
    driver.write_plan()?;
    Ok(driver)
}

fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    std::path::absolute(path).map_err(|error| Failure::runtime(format!("{}: {error}", path.display()), None))
}

/// What goes over the network as it is, in words for people.
fn clear_text(plan: &Plan) -> Option<String> {
    let head = plan.head();
    if plan.machines.iter().all(|machine| machine.address.is_loopback()) {
        return None;
    }
    Some(format!(
        "Not encrypted: messages between machines (frames, weights, segments: TCP port {}), and commands and the token to the \
         coordinator ({}:{}). Whoever can read or reach these ports can read the run, or start programs. Keep them inside a \
         private network or a VPN such as WireGuard; see docs/cluster.md.",
        head.data_port, head.address, plan.coordinator_port
    ))
}
