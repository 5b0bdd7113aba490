//! The log of a rank that is not the first: what it did and how long its steps took, in the run directory.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use jiff::Timestamp;
use plaudit_core::{Emit, Event};

use crate::failure::Failure;

/// The folder of a run directory that has the logs of ranks.
pub(crate) const FOLDER: &str = "ranks";

/// The log of one rank. What it cannot write, on a full disk say, is lost; the training goes on.
pub(crate) struct RankLog {
    file: File,
}

impl RankLog {
    /// `ranks/rank_1.log` in a run directory; a run that goes on goes on there too.
    pub(crate) fn open(run: &Path, rank: usize, world: usize) -> Result<Self, Failure> {
        let folder = run.join(FOLDER);
        let path = folder.join(format!("rank_{rank}.log"));
        let file = fs::create_dir_all(&folder)
            .and_then(|()| File::options().create(true).append(true).open(&path))
            .map_err(|error| Failure::runtime(format!("cannot write {}: {error}", path.display()), None))?;
        let mut log = Self { file };
        log.line(&format!("rank {rank} of {world}, process {}", std::process::id()));
        Ok(log)
    }

    /// One line, with the time.
    pub(crate) fn line(&mut self, text: &str) {
        let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ");
        let _ = writeln!(self.file, "{now} {text}");
    }
}

impl Emit for RankLog {
    fn emit(&mut self, event: Event) {
        match event {
            Event::Notice { text, .. } => self.line(&text),
            Event::Metrics { step, values } => {
                let seconds = values.iter().filter(|(name, _)| name.starts_with("time/"));
                let seconds: Vec<String> =
                    seconds.map(|(name, seconds)| format!("{name} {seconds:.4}")).collect();
                if !seconds.is_empty() {
                    self.line(&format!("step {step}: {}", seconds.join(", ")));
                }
            }
            _ => {}
        }
    }
}
