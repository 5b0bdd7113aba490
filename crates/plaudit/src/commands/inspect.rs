//! `plaudit dataset inspect`: what is in a dataset, and what is wrong with it.

use std::path::{Path, PathBuf};

use clap::Args;
use plaudit_data::inspect::{
    InspectError, InspectOptions, Report, SheetOptions, SheetPick, Suspicion, contact_sheet, inspect,
};

use super::rule_args::RuleArgs;
use crate::cli::Verbosity;
use crate::console;
use crate::failure::Failure;
use crate::hints::{self, AskedBy};
use crate::output;
use crate::progress::{ProgressBar, ProgressUpdate};

/// Say what is in a dataset and what is suspicious about it
///
/// Reads what RLinf's collectors of every generation wrote, train.pt and val.pt, windows with a segments.jsonl,
/// plaudit's own store, LeRobot datasets, HDF5 files of ManiSkill and robomimic, RLDS datasets, replay buffers in zarr, MCAP
/// files, and plain folders of videos or images. Nothing in a file is run. Broken files are listed. In JSON a number that is
/// not finite is the text "NaN", "Infinity" or "-Infinity".
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plaudit dataset inspect logs/run/collected_data
  plaudit dataset inspect logs/run/collected_data --sheet sheet.png
  plaudit dataset inspect logs/processed_reward_data --json | \\
      jq '.findings[].what'
  plaudit dataset inspect huge_dataset --limit 500

Exit codes: 0 when something could be read, whatever was found; 1 when nothing
could.")]
pub struct Inspect {
    /// Folder or file
    #[arg(value_name = "PATH")]
    path: PathBuf,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
    /// Draw a handful of episodes, first frame to last, with green borders where the label is success
    #[arg(long, value_name = "FILE.png")]
    sheet: Option<PathBuf>,
    /// Look at so many files only, evenly spread over all
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
    #[command(flatten)]
    rules: RuleArgs,
}

impl Inspect {
    /// Does it.
    pub fn run(self, verbosity: Verbosity) -> Result<(), Failure> {
        let options =
            InspectOptions { limit: self.limit.map(|limit| limit as usize), rules: self.rules.rules() };
        let bar = ProgressBar::new("dataset inspect", verbosity);
        let tick = |done, total| bar.show(ProgressUpdate { what: "looking", unit: "files", done, total });
        let looked = inspect(&self.path, &options, &tick);
        drop(bar);
        match looked {
            Ok(mut report) => {
                for finding in report.findings.iter_mut().filter(|one| one.kind == Suspicion::Unbalanced) {
                    finding.advice += " (--fail-success-ratio)";
                }
                console::print(&self.text(&report)?)?;
                self.sheet.as_deref().map_or(Ok(()), |file| self.draw(file, &report, verbosity))
            }
            Err(InspectError::NothingRead { report, path }) => {
                console::print(&self.text(&report)?)?;
                Err(failure(&InspectError::NothingRead { report, path }))
            }
            Err(error) => Err(failure(&error)),
        }
    }

    fn text(&self, report: &Report) -> Result<String, Failure> {
        if !self.json {
            return Ok(report.to_string());
        }
        let json = serde_json::to_string_pretty(report).map_err(|error| Failure::runtime(error, None))?;
        Ok(json + "\n")
    }

    fn draw(&self, file: &Path, report: &Report, verbosity: Verbosity) -> Result<(), Failure> {
        let options = SheetOptions { rules: self.rules.rules(), ..SheetOptions::default() };
        let sheet = contact_sheet(&self.path, report, &options).map_err(|error| failure(&error))?;
        output::write("--sheet", file, &sheet)?;
        if !verbosity.quiet {
            console::eprintln(&format!("\n{}, from top to bottom:\n{}", file.display(), rows(&report.picks)));
        }
        Ok(())
    }
}

/// Which episode is in which row.
fn rows(picks: &[SheetPick]) -> String {
    let row = |pick: &SheetPick| format!("  {:<8} {}", pick.label, pick.file);
    picks.iter().map(row).collect::<Vec<_>>().join("\n")
}

/// What to do about a dataset that cannot be looked at.
pub(super) fn failure(error: &InspectError) -> Failure {
    let help = match error {
        InspectError::Nothing { .. } => {
            "give a folder of *.pkl episodes, of success and failure, of positive and negative, of train.pt and \
             val.pt, one with a segments.jsonl, a store, a LeRobot dataset, HDF5 files of ManiSkill or robomimic, an RLDS \
             dataset, a .zarr, *.mcap files, videos, folders of images, or one such file"
        }
        InspectError::NothingRead { .. } => {
            "is it another program's data? the message names what was expected"
        }
        InspectError::Open(error) => {
            return Failure::runtime(error, hints::about_open(error, AskedBy::DatasetFlags));
        }
        _ => return Failure::runtime(error, None),
    };
    Failure::runtime(error, help.to_string())
}
