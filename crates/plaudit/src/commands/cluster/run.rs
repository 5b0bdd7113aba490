//! `plaudit cluster run`: a run on the machines of its config, watched over to its end.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
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
use crate::robot::Question;
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
        let mut view =
            View { quiet: verbosity.quiet, shown: None, asked: None, lines: NewLines::of(&driver.plan) };
        let ended = Supervisor::new(driver, self.joined).run(&mut view);
        if let Some(mirrors) = mirrors {
            mirrors.finish();
        }
        view.lines.iter_mut().for_each(NewLines::print);
        ended
    }
}

fn report(plan: &Plan, end: RunEnd, verbosity: Verbosity) -> Result<(), Failure> {
    let run_dir = plan.run_dir.display();
    let go_on = format!("to go on: plaudit cluster run {run_dir}");
    if let Some(segments) = status::segments(plan).filter(|_| !verbosity.quiet) {
        console::eprintln(segments.text().trim_end());
    }
    match end {
        RunEnd::Done => {
            if !verbosity.quiet {
                console::eprintln(&format!("run directory: {run_dir}"));
            }
            Ok(())
        }
        RunEnd::Stopped(reason) if !plan.learns() => {
            Err(Failure::runtime(format!("stopped: {reason}"), format!("what was seen is in {run_dir}")))
        }
        RunEnd::Interrupted if !plan.learns() => {
            console::eprintln(&format!("the arm holds; what was seen is in {run_dir}"));
            Err(Failure::Stopped)
        }
        RunEnd::Stopped(reason) => Err(Failure::runtime(format!("stopped: {reason}"), go_on)),
        RunEnd::Interrupted => {
            console::eprintln(&format!("saved in {run_dir}\n{go_on}"));
            Err(Failure::Stopped)
        }
    }
}

/// What people see while it runs: notices, and a table now and then; or what a robot that a person moves has to say.
struct View {
    quiet: bool,
    shown: Option<Instant>,
    /// The last question of a robot that was told.
    asked: Option<u64>,
    lines: Option<NewLines>,
}

/// Lines of a file that were not printed yet.
struct NewLines {
    path: PathBuf,
    printed: u64,
}

impl NewLines {
    /// What a person who moves a robot reads; nothing where somebody learns. Lines of an earlier run are not new.
    fn of(plan: &Plan) -> Option<Self> {
        let path = plan.leader().filter(|_| !plan.learns()).map(|leader| plan.teleop_log(leader))?;
        let printed = std::fs::metadata(&path).map_or(0, |meta| meta.len());
        Some(Self { path, printed })
    }

    fn print(&mut self) {
        let Ok(mut file) = File::open(&self.path) else { return };
        let mut text = Vec::new();
        if file.seek(SeekFrom::Start(self.printed)).is_err() || file.read_to_end(&mut text).is_err() {
            return;
        }
        let Some(end) = text.iter().rposition(|byte| *byte == b'\n') else { return };
        self.printed += end as u64 + 1;
        // A reader that went away must not stop the run.
        let _ = console::print(&String::from_utf8_lossy(&text[..=end]));
    }
}

/// How long a scheduler may take until every machine has joined.
const JOINING: Duration = Duration::from_secs(300);

/// How often the table is printed where it cannot be drawn over.
const TABLE_EVERY: Duration = Duration::from_secs(30);

impl View {
    /// Says that a robot waits for a person.
    fn tell_questions(&mut self, plan: &Plan) {
        for process in plan.processes.iter().filter(|process| !process.robots.is_empty()) {
            let Some(question) = Question::read(&plan.folder_of(process)) else { continue };
            if self.asked.replace(question.number) != Some(question.number) {
                let (who, address, run_dir) = (&process.id, &question.address, plan.run_dir.display());
                self.notice(&format!(
                    "{who} asks whether the robot at {address} may move; on its machine: plaudit cluster arm {run_dir}"
                ));
            }
        }
    }
}

impl RunView for View {
    fn notice(&mut self, text: &str) {
        console::eprintln(&format!("note: {text}"));
    }

    fn look(&mut self, plan: &Plan, nodes: &[NodeState]) {
        self.tell_questions(plan);
        if let Some(lines) = &mut self.lines {
            return lines.print();
        }
        if self.quiet || self.shown.is_some_and(|shown| shown.elapsed() < TABLE_EVERY) {
            return;
        }
        self.shown = Some(Instant::now());
        console::eprintln(&status::table(&status::workers(plan, nodes)));
    }
}
