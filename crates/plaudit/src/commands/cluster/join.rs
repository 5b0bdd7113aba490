//! `plaudit cluster join`: this process is a machine of a run, as somebody else starts it.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use plaudit_cluster::dora::files;
use plaudit_cluster::{Machine, Plan, machine};

use super::{absolute, read_plan};
use crate::cli::Verbosity;
use crate::console;
use crate::failure::Failure;
use crate::signals::{interrupted, listen_for_interrupts};

/// Be a machine of a run: for SLURM, Kubernetes and Ray
///
/// Runs the daemon of one machine, and on machine 0 the coordinator, starts them again when they die, and ends them with
/// itself. The run directory must be on a file system that every machine shares; the plan in it is waited for.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plaudit cluster plan two.yaml --hosts gpu1,gpu2 --write /shared/run
  plaudit cluster join /shared/run --rank 0     on gpu1
  plaudit cluster join /shared/run --rank 1     on gpu2
  plaudit cluster run /shared/run --joined")]
pub struct Join {
    /// The run directory, shared by every machine
    #[arg(value_name = "RUN_DIR")]
    run_dir: PathBuf,
    /// Which machine of the plan this is
    #[arg(long)]
    rank: usize,
    /// Seconds to wait for the plan, and for the coordinator
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    wait: u64,
}

impl Join {
    pub(super) fn run(self, verbosity: Verbosity) -> Result<(), Failure> {
        listen_for_interrupts();
        let run_dir = absolute(&self.run_dir)?;
        self.wait_for(&run_dir.join(Plan::FILE))?;
        let plan = read_plan(&run_dir)?;
        let Some(own) = plan.machines.get(self.rank) else {
            let help = format!("ranks of this plan: 0 to {}", plan.machines.len() - 1);
            return Err(Failure::usage(format!("the plan has no machine {}", self.rank), help));
        };
        if self.rank != plan.head().rank {
            self.wait_for(&run_dir.join(files::FOLDER).join(files::TOKEN))?;
        }
        if !verbosity.quiet {
            console::eprintln(&format!("{} of {} (Ctrl-C leaves)", own.id, plan.name));
        }
        let joined = stay(&plan, own);
        machine::end(&plan, own, Duration::from_secs(10));
        joined
    }

    fn wait_for(&self, path: &Path) -> Result<(), Failure> {
        let deadline = Instant::now() + Duration::from_secs(self.wait);
        while !path.exists() {
            if interrupted() {
                return Err(Failure::Stopped);
            }
            if Instant::now() > deadline {
                let message = format!("{} did not appear within {} s", path.display(), self.wait);
                let help = "is the run directory on a file system that every machine shares?".to_string();
                return Err(Failure::runtime(message, help));
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok(())
    }
}

/// Keeps the programs of a machine running until it is asked to leave.
fn stay(plan: &Plan, own: &Machine) -> Result<(), Failure> {
    let failed = |error: machine::MachineError| Failure::runtime(error, None);
    let token = plan.run_dir.join(files::FOLDER).join(files::TOKEN);
    let mut shown = None;
    while !interrupted() {
        if own.rank == plan.head().rank {
            machine::start_coordinator(plan).map_err(failed)?;
        }
        // A daemon shows the token that it was started with; a coordinator that was started again wants a new one.
        let asked = std::fs::read(&token).ok();
        if asked.is_some() && shown.as_ref().is_some_and(|shown| Some(shown) != asked.as_ref()) {
            machine::end_daemon(plan, own, Duration::from_secs(5));
        }
        shown = asked.or(shown);
        machine::start_daemon(plan, own).map_err(failed)?;
        std::thread::sleep(Duration::from_secs(1));
    }
    Ok(())
}
