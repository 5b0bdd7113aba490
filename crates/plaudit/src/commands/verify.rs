//! `plaudit dataset verify`: is every file of a dataset there, and whole?

use std::fmt::Write;
use std::path::PathBuf;

use clap::Args;
use plaudit_data::inspect::{Verified, verify};

use super::inspect::failure;
use crate::cli::Verbosity;
use crate::console;
use crate::failure::Failure;
use crate::progress::{ProgressBar, ProgressUpdate};

/// Broken files that are shown, unless all are asked for.
const SHOWN: usize = 20;

/// Read every file of a dataset and say which are missing or damaged
///
/// Of plaudit's own store, every file is compared with the SHA-256 that is its name, and the manifest with the files. Of
/// everything else `dataset inspect` reads, each file is read as what it is, with every image in it, and the files that a
/// manifest, an index or LeRobot's metadata names are looked for. Videos are decoded frame by frame.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plaudit dataset verify logs/run/data
  plaudit dataset verify store && plaudit reward train ...

Exit codes: 0 when everything is whole; 1 when a file is missing or damaged,
which is named.")]
pub struct Verify {
    /// Folder or file
    #[arg(value_name = "PATH")]
    path: PathBuf,
}

impl Verify {
    /// Does it.
    pub fn run(self, verbosity: Verbosity) -> Result<(), Failure> {
        let bar = ProgressBar::new("dataset verify", verbosity);
        let tick = |done, total| bar.show(ProgressUpdate { what: "reading", unit: "files", done, total });
        let verified = verify(&self.path, &tick);
        drop(bar);
        let verified = verified.map_err(|error| failure(&error))?;
        console::print(&self.text(&verified, verbosity))?;
        if verified.is_whole() { Ok(()) } else { Err(Failure::FoundProblems) }
    }

    fn text(&self, verified: &Verified, verbosity: Verbosity) -> String {
        let [one, many] = verified.format.noun();
        let noun = if verified.whole == 1 { one } else { many };
        let mut text = format!("{}: {}\n", self.path.display(), verified.format.describe());
        let _ = writeln!(text, "  {} {noun} are whole", verified.whole);
        for what in &verified.unchecked {
            let _ = writeln!(text, "  not checked: {what}");
        }
        if !verified.broken.is_empty() {
            let _ = writeln!(text, "  {} missing or damaged:", verified.broken.len());
            let shown = if verbosity.verbose { verified.broken.len() } else { SHOWN };
            for broken in verified.broken.iter().take(shown) {
                let _ = writeln!(text, "    {}: {}", broken.file, broken.problem);
            }
            if verified.broken.len() > shown {
                let _ = writeln!(text, "    … and {} more (-v shows all)", verified.broken.len() - shown);
            }
        }
        text
    }
}
