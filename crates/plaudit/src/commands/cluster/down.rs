//! `plaudit cluster down`: the end of everything of a run.

use std::path::PathBuf;

use clap::Args;

use super::up::STAYS_UP;
use super::{absolute, driver_of};
use crate::cli::Verbosity;
use crate::console;
use crate::failure::Failure;

/// End everything of a run, on every machine
///
/// Processes, daemons and the coordinator are asked to end, then made to; shared memory that a killed process left behind
/// is removed. The run directory stays.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plaudit cluster down logs/two")]
pub struct Down {
    /// The run directory
    #[arg(value_name = "RUN_DIR")]
    run_dir: PathBuf,
}

impl Down {
    pub(super) fn run(self, verbosity: Verbosity) -> Result<(), Failure> {
        let driver = driver_of(&absolute(&self.run_dir)?)?;
        driver.mark_taken_down(true);
        let (ended, failed) = driver.down();
        let _ = std::fs::remove_file(driver.folder().join(STAYS_UP));
        if !verbosity.quiet {
            let text = format!(
                "down: {} processes ended, {} segments of shared memory removed",
                ended.processes, ended.segments
            );
            console::eprintln(&text);
        }
        match failed.first() {
            None => Ok(()),
            Some(error) => {
                let help =
                    "what runs there goes on until it is taken down: repeat this when the machine is back";
                Err(Failure::runtime(error, help.to_string()))
            }
        }
    }
}
