//! What is in a dataset, and what is wrong with it: to find out before training.
//!
//! [`inspect`] inspects every episode of a dataset in any known format (see [`DatasetFormat`]) and gives a [`Report`]:
//! how many, how long, how successful, which cameras, which widths, which labels; what occurs twice; and
//! [findings](Finding), each with the files it is about and what to do. [`contact_sheet`] draws a handful of episodes.
//!
//! Files are read one by one on all threads and dropped: memory holds a few dozen bytes per frame. A broken file is
//! counted and listed, and stops nothing.
//!
//! ```no_run
//! use std::path::Path;
//! use plaudit_data::inspect::{InspectOptions, inspect};
//!
//! let report = inspect(Path::new("logs/run/collected_data"), &InspectOptions::default(), &|_, _| {})?;
//! assert!(report.success.once > 0, "{report}");
//! # Ok::<(), plaudit_data::inspect::InspectError>(())
//! ```

mod duplicates;
mod error;
mod finding;
mod lerobot;
mod recorded;
mod report;
mod sheet;
mod summary;
mod suspicion;
mod table;
mod verify;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::prelude::*;

use crate::recording::{FileProblem, Item, OpenError, Recordings, Rules};
use recorded::Recorded;
use summary::ItemSummary;

pub use crate::recording::DatasetFormat;
pub use error::InspectError;
pub use finding::{Finding, Severity};
pub use report::{
    BrokenFile, Camera, Duplicates, ImageSize, Interventions, LabelCount, Lengths, Report, RewardRange,
    SheetPick, Success, VectorWidth,
};
pub use sheet::{SheetOptions, contact_sheet};
pub use suspicion::Suspicion;
pub use verify::{Verified, verify};

/// Options of [`inspect`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct InspectOptions {
    /// Inspect so many files only, evenly spread over all.
    pub limit: Option<usize>,
    /// How recordings are read.
    pub rules: Rules,
}

/// The progress callback: files done, and files in all. Called from many threads.
pub type OnInspected<'a> = dyn Fn(usize, usize) + Sync + 'a;

/// Inspects a dataset: a folder or a file.
///
/// # Errors
/// When its format is unknown, or when no file of it can be read.
pub fn inspect(
    path: &Path,
    options: &InspectOptions,
    progress: &OnInspected<'_>,
) -> Result<Report, InspectError> {
    if let Some(report) = lerobot::of_videos(path)? {
        return Ok(report);
    }
    let collection = open(path, &options.rules)?;
    let all = collection.items.len();
    let chosen = spread(&collection.items, options.limit);
    let done = AtomicUsize::new(0);
    let summarize = |item: &&Item| {
        let summarized = summarize_item(item);
        progress(done.fetch_add(1, Ordering::Relaxed) + 1, chosen.len());
        summarized
    };
    let summarized: Vec<_> = chosen.par_iter().map(summarize).collect();
    let mut report = report::report(path, &collection, &chosen, all, summarized);
    lerobot::name_decoders(path, &mut report.cameras);
    if report.episodes == 0 {
        if let Some(report) = lerobot::of_damaged_videos(path) {
            return Ok(report);
        }
        return Err(InspectError::NothingRead { path: path.into(), report: Box::new(report) });
    }
    Ok(report)
}

fn summarize_item(item: &Item) -> Result<Vec<ItemSummary>, FileProblem> {
    let summarized = |recording| summary::summarize(&Recorded::of(recording), item);
    Ok(item.read()?.into_iter().map(summarized).collect())
}

/// What lies at a path; where nothing does, what lies below it.
fn open(path: &Path, rules: &Rules) -> Result<Recordings, InspectError> {
    Recordings::open(path, rules).map_err(|error| match error {
        OpenError::NoEpisodes { path } => {
            let nearby = nearby(&path);
            InspectError::Nothing { path, nearby }
        }
        error => error.into(),
    })
}

/// Folders up to two levels down that hold a dataset.
fn nearby(path: &Path) -> Vec<PathBuf> {
    let below = |folder: &Path| -> Vec<PathBuf> {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
        let mut folders: Vec<PathBuf> = entries.filter(|path| path.is_dir()).take(100).collect();
        folders.sort();
        folders
    };
    let first = below(path);
    let second: Vec<PathBuf> = first.iter().flat_map(|folder| below(folder)).collect();
    let holds = |folder: &PathBuf| Recordings::open(folder, &Rules::default()).is_ok();
    first.into_iter().chain(second).filter(holds).collect()
}

/// So many of all, evenly spread, the first and the last among them.
fn spread<T>(all: &[T], limit: Option<usize>) -> Vec<&T> {
    match limit {
        Some(limit) if limit < all.len() => {
            let last = limit.saturating_sub(1).max(1);
            (0..limit).map(|at| &all[at * (all.len() - 1) / last]).collect()
        }
        _ => all.iter().collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_spreads_over_all() {
        let all: Vec<usize> = (0..10).collect();
        let spread = |limit| spread(&all, limit).into_iter().copied().collect::<Vec<_>>();
        assert_eq!(spread(Some(4)), [0, 3, 6, 9]);
        assert_eq!(spread(Some(1)), [0]);
        assert!(spread(Some(0)).is_empty());
        assert_eq!(spread(Some(99)).len(), 10);
        assert_eq!(spread(None).len(), 10);
    }
}
