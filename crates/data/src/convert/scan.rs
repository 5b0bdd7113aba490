//! The first pass: every file is read once, on all threads, and checked.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::prelude::*;

use super::error::ConvertError;
use super::progress::{OnProgress, Progress, Stage};
use super::stored::KnownFile;
use crate::recording::{BadFile, BadFiles, FileProblem, Item};

/// What became of a folder of files.
pub(crate) struct Scan<T> {
    /// All files, in order; those that are bad are never read again.
    pub(crate) files: Vec<KnownFile>,
    /// What was found in each that can be used, in order.
    pub(crate) found: Vec<T>,
    /// Those that cannot.
    pub(crate) bad: Vec<BadFile>,
}

/// Reads all items and keeps what `extract` returns for each. `extract` gets the number of the item.
pub(crate) fn scan<T: Send>(
    folder: &Path,
    input: &[Item],
    bad_files: BadFiles,
    progress: &OnProgress<'_>,
    extract: impl Fn(&Item, usize) -> Result<T, FileProblem> + Sync,
) -> Result<Scan<T>, ConvertError> {
    let done = AtomicUsize::new(0);
    let read_one = |(number, item): (usize, &Item)| {
        let known = KnownFile::of(&item.path);
        let read = extract(item, number).map(|found| (known, found));
        let read = read.map_err(|problem: FileProblem| problem.in_file(&item.path));
        let done = done.fetch_add(1, Ordering::Relaxed) + 1;
        progress(Progress { stage: Stage::Reading, done, total: input.len() });
        read
    };
    let read: Vec<_> = input.par_iter().enumerate().map(read_one).collect();
    sort_out(folder, input, bad_files, read)
}

fn sort_out<T>(
    folder: &Path,
    input: &[Item],
    bad_files: BadFiles,
    read: Vec<Result<(KnownFile, T), BadFile>>,
) -> Result<Scan<T>, ConvertError> {
    let mut scan = Scan { files: Vec::new(), found: Vec::new(), bad: Vec::new() };
    for (one, file) in read.into_iter().zip(input) {
        match one {
            Ok((known, found)) => {
                scan.files.push(known);
                scan.found.push(found);
            }
            Err(bad) => {
                scan.files.push(KnownFile::unused(&file.path));
                scan.bad.push(bad);
            }
        }
    }
    scan.stop_if_bad(folder, bad_files)?;
    Ok(scan)
}

impl<T> Scan<T> {
    /// An error if a file is bad that must not be, or if all are.
    pub(crate) fn stop_if_bad(&mut self, folder: &Path, bad_files: BadFiles) -> Result<(), ConvertError> {
        if self.bad.is_empty() {
            return Ok(());
        }
        let count = self.bad.len();
        if self.found.is_empty() {
            return Err(ConvertError::AllBad { path: folder.into(), count, first: self.bad.swap_remove(0) });
        }
        match bad_files {
            BadFiles::Skip => Ok(()),
            BadFiles::Stop => {
                Err(ConvertError::BadFile { first: self.bad.swap_remove(0), others: count - 1 })
            }
        }
    }
}
