//! What is in a dataset, and what is wrong with it: before a night is spent on training.
//!
//! [`inspect`] looks at every episode of anything people have lying around (see [`Format`]) and gives a [`Report`]:
//! how many, how long, how successful, which cameras, which widths, which labels; what occurs twice; and
//! [findings](Finding), each with the files it is about and what to do. [`contact_sheet`] draws a handful of episodes.
//!
//! Files are looked at one by one on all threads and let go: memory holds a few dozen bytes per frame. A broken file is
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

mod collection;
mod duplicates;
mod error;
mod finding;
mod lerobot;
mod look;
mod picture;
mod read;
mod recorded;
mod report;
mod sheet;
mod suspicion;
mod table;

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::prelude::*;

use collection::{Collection, Part};
use look::Look;

pub use collection::Format;
pub use error::{InspectError, Unusable};
pub use finding::{Finding, Severity};
pub use report::{
    Broken, Camera, Duplicates, Label, Lengths, Pick, Report, RewardRange, Size, Success, Width,
};
pub use sheet::{SheetOptions, contact_sheet};
pub use suspicion::Suspicion;

/// How to look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InspectOptions {
    /// Look at so many files only, evenly spread over all.
    pub limit: Option<usize>,
}

/// So many files of so many are done. Called from many threads.
pub type OnInspected<'a> = dyn Fn(usize, usize) + Sync + 'a;

/// Looks at a dataset: a folder or a file.
///
/// # Errors
/// When it cannot be told what it is, or when no file of it can be read.
pub fn inspect(
    path: &Path,
    options: &InspectOptions,
    progress: &OnInspected<'_>,
) -> Result<Report, InspectError> {
    if let Some(report) = lerobot::of_videos(path)? {
        return Ok(report);
    }
    let collection = Collection::find(path)?;
    let all = collection.parts.len();
    let chosen = spread(&collection.parts, options.limit);
    let done = AtomicUsize::new(0);
    let look = |part: &&Part| {
        let looked = look_at(part);
        progress(done.fetch_add(1, Ordering::Relaxed) + 1, chosen.len());
        looked
    };
    let looked: Vec<_> = chosen.par_iter().map(look).collect();
    let report = report::report(path, &collection, &chosen, all, looked);
    if report.episodes == 0 {
        return Err(InspectError::NothingRead { path: path.into(), report: Box::new(report) });
    }
    Ok(report)
}

fn look_at(part: &Part) -> Result<Vec<Look>, Unusable> {
    Ok(part.read()?.iter().map(|recorded| look::look(recorded, part)).collect())
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
