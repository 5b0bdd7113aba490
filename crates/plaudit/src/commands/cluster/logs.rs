//! `plaudit cluster logs`: what the processes of a run print.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use plaudit_cluster::dora::files;
use serde::Deserialize;

use super::{absolute, read_plan};
use crate::console;
use crate::failure::Failure;
use crate::signals::{interrupted, listen_for_interrupts};

/// Show what the processes of a run print
///
/// The logs of all machines are copied into the run directory while a run goes on, and stay there.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plaudit cluster logs logs/two
  plaudit cluster logs logs/two env-0 reward-0 --follow")]
pub struct Logs {
    /// The run directory
    #[arg(value_name = "RUN_DIR")]
    run_dir: PathBuf,
    /// Processes such as env-0; none: all of them
    #[arg(value_name = "PROCESS")]
    processes: Vec<String>,
    /// Go on until Ctrl-C
    #[arg(short, long)]
    follow: bool,
}

/// A line as dora writes it.
#[derive(Deserialize)]
struct Line {
    ts: String,
    node: String,
    msg: String,
}

impl Logs {
    pub(super) fn run(self) -> Result<(), Failure> {
        let plan = read_plan(&absolute(&self.run_dir)?)?;
        for name in &self.processes {
            if !plan.processes.iter().any(|process| process.id == *name) {
                let known: Vec<&str> = plan.processes.iter().map(|process| process.id.as_str()).collect();
                let help = format!("processes of this run: {}", known.join(", "));
                return Err(Failure::usage(format!("no process is called `{name}`"), help));
            }
        }
        listen_for_interrupts();
        let folder = plan.run_dir.join(files::FOLDER).join("out");
        let mut read: BTreeMap<PathBuf, u64> = BTreeMap::new();
        loop {
            let mut lines = Vec::new();
            for path in log_files(&folder) {
                let from = read.entry(path.clone()).or_default();
                lines.extend(new_lines(&path, from));
            }
            // Files of all machines, in the order of their clocks.
            lines.sort_by(|one, other| one.ts.cmp(&other.ts));
            let shown =
                lines.iter().filter(|line| self.processes.is_empty() || self.processes.contains(&line.node));
            let text: String =
                shown.map(|line| format!("{}  {:<9}  {}\n", line.ts, line.node, line.msg)).collect();
            console::print(&text)?;
            if !self.follow || interrupted() {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(300));
        }
    }
}

/// Each start of the processes has a folder of its own.
fn log_files(folder: &Path) -> Vec<PathBuf> {
    let inside = |folder: &Path| -> Vec<PathBuf> {
        std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
    };
    let is_log = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.starts_with("log_") && name.ends_with(".jsonl")
    };
    let mut files: Vec<PathBuf> =
        inside(folder).iter().flat_map(|start| inside(start)).filter(is_log).collect();
    files.sort();
    files
}

/// The whole lines that were added since `from`.
fn new_lines(path: &Path, from: &mut u64) -> Vec<Line> {
    let mut text = Vec::new();
    let read = File::open(path).and_then(|mut file| {
        file.seek(SeekFrom::Start(*from))?;
        file.read_to_end(&mut text)
    });
    if read.is_err() {
        return Vec::new();
    }
    let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    *from += whole as u64;
    let text = String::from_utf8_lossy(&text[..whole]).into_owned();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}
