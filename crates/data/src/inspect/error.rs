//! Why a dataset, or one file of it, could not be inspected.

use std::path::PathBuf;

use super::report::Report;
use crate::recording::OpenError;

/// Why a dataset could not be inspected.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InspectError {
    /// Nothing in it looks like a dataset.
    #[error("{} holds nothing that looks like a dataset{}", path.display(), instead(.nearby))]
    Nothing {
        /// The folder or file.
        path: PathBuf,
        /// Folders further down that do.
        nearby: Vec<PathBuf>,
    },
    /// What is there cannot be opened, or could be several things.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// Every file of it is broken.
    #[error("none of the {} files in {} can be read; the first: {}", report.files, path.display(), first(report))]
    NothingRead {
        /// The folder or file.
        path: PathBuf,
        /// What could be read.
        report: Box<Report>,
    },
    /// A contact sheet that could not be made.
    #[error("cannot draw the contact sheet: {why}")]
    Sheet {
        /// Why.
        why: String,
    },
}

fn instead(nearby: &[PathBuf]) -> String {
    let Some(first) = nearby.first() else { return String::new() };
    let more =
        if nearby.len() > 1 { format!(" or {} other folder(s)", nearby.len() - 1) } else { String::new() };
    format!("; did you mean {}{more}?", first.display())
}

fn first(report: &Report) -> String {
    report.broken.first().map_or_else(String::new, |broken| format!("{}: {}", broken.file, broken.problem))
}
