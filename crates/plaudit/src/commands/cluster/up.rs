//! `plaudit cluster up`: the coordinator, and a daemon on every machine.

use clap::Args;

use super::{clear_text, new_run};
use crate::cli::{ConfigArgs, Verbosity};
use crate::failure::Failure;
use crate::{console, load};

/// Start the coordinator, and a daemon on every machine
///
/// Machines are reached by your own ssh. Every machine needs plaudit of the same version, built with the feature `cluster`,
/// and dora 1.1.0. Programs listen on the addresses of the plan alone, and the coordinator asks for a token. `run` does this
/// by itself; `up` is for looking at machines first, or for starting several runs after each other.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plaudit cluster up two_machines.yaml runner.logger.log_path=logs/two
  plaudit cluster run logs/two
  plaudit cluster down logs/two")]
pub struct Up {
    #[command(flatten)]
    config: ConfigArgs,
}

impl Up {
    pub(super) fn run(self, verbosity: Verbosity) -> Result<(), Failure> {
        let driver = new_run(load::for_cluster(&self.config, verbosity)?, None)?;
        driver.probe()?;
        if let Err(failure) = driver.up().and_then(|()| driver.refuse_unsafe_daemons()) {
            driver.down();
            return Err(failure);
        }
        std::fs::write(driver.folder().join(STAYS_UP), "").map_err(|error| Failure::runtime(error, None))?;
        let plan = &driver.plan;
        let run_dir = plan.run_dir.display();
        let mut text = format!(
            "up: the coordinator on {}:{}, daemons on {}\n",
            plan.head().address,
            plan.coordinator_port,
            plan.machines.iter().map(|machine| machine.id.as_str()).collect::<Vec<_>>().join(", ")
        );
        text.extend(clear_text(plan).map(|text| text + "\n"));
        text +=
            &format!("to train: plaudit cluster run {run_dir}\nto end it: plaudit cluster down {run_dir}\n");
        console::print(&text)
    }
}

/// A file that says: somebody brought these machines up, and takes them down.
pub(super) const STAYS_UP: &str = ".stays-up";
