//! `plaudit cluster run`: a run on the machines of its config, watched over to its end.

use std::path::Path;
use std::time::{Duration, Instant};

use clap::Args;
use plaudit_cluster::Plan;
use plaudit_cluster::dora::NodeState;
use plaudit_cluster::plan::picture;

use super::up::STAYS_UP;
use super::{absolute, clear_text, driver_of, new_run};
use crate::cli::{ConfigArgs, Verbosity};
use crate::cluster::drive::Driver;
use crate::cluster::mirror::Mirrors;
use crate::cluster::status;
use crate::cluster::supervise::{RunEnd, RunView, Supervisor};
use crate::failure::Failure;
use crate::signals::listen_for_interrupts;
use crate::{console, load};

/// Train on the machines of a config, and watch over it
///
/// Brings machines up where they are not, starts the processes of the plan, copies what they write into the run directory
/// here, and takes everything down at the end. A process that fails is started again by dora; when a daemon or the
/// coordinator dies, all processes start again from what they saved. Ctrl-C saves and stops; naming the run directory goes on.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plaudit cluster run two_machines.yaml
  plaudit cluster run two_machines.yaml runner.logger.log_path=logs/two
  plaudit cluster run logs/two            goes on where it was stopped
  plaudit cluster status logs/two         in another terminal")]
pub struct Run {
    #[command(flatten)]
    config: ConfigArgs,
    /// The machines join by themselves (`cluster join`), as under SLURM: bring nothing up or down
    #[arg(long)]
    joined: bool,
}

impl Run {
    pub(super) fn run(self, verbosity: Verbosity) -> Result<(), Failure> {
        let driver = self.driver(verbosity)?;
        listen_for_interrupts();
        if !verbosity.quiet {
            console::eprintln(&picture(&driver.plan));
            clear_text(&driver.plan).into_iter().for_each(|text| console::eprintln(&text));
        }
        let ended = self.drive(&driver, verbosity);
        let stays_up = self.joined || driver.folder().join(STAYS_UP).exists();
        if !stays_up {
            let (_, failed) = driver.down();
            failed.iter().for_each(|error| console::eprintln(&format!("warning: {error}")));
        }
        report(&driver.plan, ended?, verbosity)
    }

    fn driver(&self, verbosity: Verbosity) -> Result<Driver, Failure> {
        if let [path] = &self.config.words[..]
            && Path::new(path).join(Plan::FILE).is_file()
        {
            return driver_of(&absolute(Path::new(path))?);
        }
        new_run(load::for_cluster(&self.config, verbosity)?, None)
    }

    fn drive(&self, driver: &Driver, verbosity: Verbosity) -> Result<RunEnd, Failure> {
        if self.joined {
            driver.wait_until_connected(JOINING)?;
        } else {
            driver.probe()?;
            driver.up()?;
            driver.refuse_unsafe_daemons()?;
        }
        let mirrors = (!self.joined).then(|| Mirrors::start(&driver.plan));
        let mut view = View { quiet: verbosity.quiet, shown: None };
        let ended = Supervisor::new(driver, self.joined).run(&mut view);
        if let Some(mirrors) = mirrors {
            mirrors.finish();
        }
        ended
    }
}

fn report(plan: &Plan, end: RunEnd, verbosity: Verbosity) -> Result<(), Failure> {
    let run_dir = plan.run_dir.display();
    let go_on = format!("to go on: plaudit cluster run {run_dir}");
    match end {
        RunEnd::Done => {
            if !verbosity.quiet {
                console::eprintln(&format!("run directory: {run_dir}"));
            }
            Ok(())
        }
        RunEnd::Stopped(reason) => Err(Failure::runtime(format!("stopped: {reason}"), go_on)),
        RunEnd::Interrupted => {
            console::eprintln(&format!("saved in {run_dir}\n{go_on}"));
            Err(Failure::Stopped)
        }
    }
}

/// What people see while it runs: notices, and a table now and then.
struct View {
    quiet: bool,
    shown: Option<Instant>,
}

/// How long a scheduler may take until every machine has joined.
const JOINING: Duration = Duration::from_secs(300);

/// How often the table is printed where it cannot be drawn over.
const TABLE_EVERY: Duration = Duration::from_secs(30);

impl RunView for View {
    fn notice(&mut self, text: &str) {
        console::eprintln(&format!("note: {text}"));
    }

    fn look(&mut self, plan: &Plan, nodes: &[NodeState]) {
        if self.quiet || self.shown.is_some_and(|shown| shown.elapsed() < TABLE_EVERY) {
            return;
        }
        self.shown = Some(Instant::now());
        console::eprintln(&status::table(&status::workers(plan, nodes)));
    }
}
