//! `plaudit cluster node`: what the other commands have done on a machine, by its own plaudit. Answers are JSON.

use std::io::{BufRead, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::{Args, Subcommand};
use plaudit_cluster::dora::files;
use plaudit_cluster::machine::{self, Known, StartRequest, Started};
use plaudit_cluster::{Machine, Plan};
use serde::{Deserialize, Serialize};

use super::read_plan;
use crate::cluster::VERSION;
use crate::console;
use crate::failure::Failure;

/// How long processes have to end by themselves.
const PATIENCE: Duration = Duration::from_secs(8);
/// How often new files are looked for.
const MIRROR_EVERY: Duration = Duration::from_millis(500);
/// The most that is read as a request: a plan and a config.
const LONGEST_REQUEST: u64 = 64 << 20;

/// What the other commands have done on a machine
#[derive(Debug, Subcommand)]
pub enum Node {
    /// Say what this machine is
    Probe {
        /// The dora program
        #[arg(long)]
        dora: PathBuf,
    },
    /// Write the files of a run, and start its daemon
    Start(OnMachine),
    /// Say what runs here
    Check(OnMachine),
    /// End everything of a run here
    End(OnMachine),
    /// Send what processes here write
    Mirror(OnMachine),
}

/// A run, and which of its machines this is.
#[derive(Debug, Args)]
pub struct OnMachine {
    /// The plan
    #[arg(long)]
    plan: PathBuf,
    /// This machine's rank
    #[arg(long)]
    rank: usize,
}

/// What the receiver of a mirror has, and a file that only exists on its side.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct MirrorRequest {
    pub(crate) known: Known,
    pub(crate) marker: String,
}

impl Node {
    pub(super) fn run(self) -> Result<(), Failure> {
        match self {
            Self::Probe { dora } => answer(&machine::probe(VERSION, cfg!(feature = "cluster"), &dora)),
            Self::Start(_) => start(),
            Self::Check(on) => on.with(|plan, own| answer(&machine::check(plan, own))),
            Self::End(on) => on.with(|plan, own| answer(&machine::end(plan, own, PATIENCE))),
            Self::Mirror(on) => on.with(|plan, _| mirror(&plan.run_dir)),
        }
    }
}

impl OnMachine {
    fn with(&self, work: impl FnOnce(&Plan, &Machine) -> Result<(), Failure>) -> Result<(), Failure> {
        let plan = read_plan(self.plan.parent().unwrap_or(Path::new(".")))?;
        let own = plan.machines.get(self.rank);
        let own =
            own.ok_or_else(|| Failure::usage(format!("the plan has no machine {}", self.rank), None))?;
        work(&plan, own)
    }
}

fn answer(value: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string(value).map_err(|error| Failure::runtime(error, None))?;
    console::print(&(text + "\n"))
}

fn start() -> Result<(), Failure> {
    let mut text = String::new();
    let read = std::io::stdin().lock().take(LONGEST_REQUEST).read_to_string(&mut text);
    read.map_err(|error| Failure::runtime(format!("cannot read the request: {error}"), None))?;
    let request: StartRequest = serde_json::from_str(&text)
        .map_err(|error| Failure::runtime(format!("cannot read the request: {error}"), None))?;
    let plan = &request.plan;
    let own = plan.machines.get(request.rank);
    let own = own.ok_or_else(|| Failure::usage(format!("the plan has no machine {}", request.rank), None))?;
    let failed = |error: machine::MachineError| Failure::runtime(error, None);
    machine::write_files(&request).map_err(failed)?;
    if machine::check(plan, own).workers == 0 {
        machine::forget_outcomes(plan, own);
    }
    let token = match own.rank == plan.head().rank {
        true => Some(machine::start_coordinator(plan).map_err(failed)?),
        false => None,
    };
    let daemon = machine::start_daemon(plan, own).map_err(failed)?;
    answer(&Started { daemon, token })
}

/// Sends new files until the receiver closes the connection, and once more then.
fn mirror(run_dir: &Path) -> Result<(), Failure> {
    let failed =
        |error: &dyn std::fmt::Display| Failure::runtime(format!("cannot send files: {error}"), None);
    let mut first = String::new();
    let mut input = std::io::stdin().lock();
    Read::take(&mut input, LONGEST_REQUEST).read_line(&mut first).map_err(|error| failed(&error))?;
    drop(input);
    let request: MirrorRequest = serde_json::from_str(&first).map_err(|error| failed(&error))?;
    let closed = Arc::new(AtomicBool::new(false));
    let is_closed = closed.clone();
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
        is_closed.store(true, Ordering::Relaxed);
    });
    // Where the receiver's files are seen here, they are the same files.
    let is_shared = run_dir.join(files::FOLDER).join(&request.marker).exists();
    let mut known = request.known;
    let mut out = std::io::stdout().lock();
    loop {
        let is_last = closed.load(Ordering::Relaxed);
        if !is_shared {
            machine::send_changes(run_dir, &mut known, &mut out).map_err(|error| failed(&error))?;
        }
        out.flush().map_err(|error| failed(&error))?;
        if is_last {
            return Ok(());
        }
        std::thread::sleep(MIRROR_EVERY);
    }
}
