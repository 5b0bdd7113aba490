//! The first pass: every file is read once, on all threads, and checked.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::prelude::*;

use super::error::{BadFile, ConvertError, FileProblem};
use super::progress::{BadFiles, OnProgress, Progress, Stage};
use super::source::InputFile;
use super::stored::KnownFile;
use crate::python::{Buffer, PyValue};

/// What became of a folder of files.
pub(crate) struct Scan<T> {
    /// The files that can be used, in order.
    pub(crate) files: Vec<KnownFile>,
    /// What was found in each.
    pub(crate) found: Vec<T>,
    /// Those that cannot.
    pub(crate) bad: Vec<BadFile>,
}

/// Reads all files and keeps what `look` finds in each. `look` gets the number of the file.
pub(crate) fn scan<T: Send>(
    folder: &Path,
    input: &[InputFile],
    bad_files: BadFiles,
    progress: &OnProgress<'_>,
    look: impl Fn(&PyValue, &Buffer, &InputFile, usize) -> Result<T, FileProblem> + Sync,
) -> Result<Scan<T>, ConvertError> {
    let done = AtomicUsize::new(0);
    let read_one = |(number, file): (usize, &InputFile)| {
        let read = || {
            let (known, bytes, value) = KnownFile::read(&file.path)?;
            Ok((known, look(&value, &bytes, file, number)?))
        };
        let read = read().map_err(|problem: FileProblem| problem.in_file(&file.path));
        let done = done.fetch_add(1, Ordering::Relaxed) + 1;
        progress(Progress { stage: Stage::Reading, done, total: input.len() });
        read
    };
    let read: Vec<_> = match bad_files {
        BadFiles::Skip => input.par_iter().enumerate().map(read_one).collect(),
        BadFiles::Stop => {
            let all: Result<Vec<_>, BadFile> = input.par_iter().enumerate().map(read_one).collect();
            all.map_err(ConvertError::BadFile)?.into_iter().map(Ok).collect()
        }
    };
    sort_out(folder, read)
}

fn sort_out<T>(folder: &Path, read: Vec<Result<(KnownFile, T), BadFile>>) -> Result<Scan<T>, ConvertError> {
    let count = read.len();
    let mut scan = Scan { files: Vec::new(), found: Vec::new(), bad: Vec::new() };
    for one in read {
        match one {
            Ok((known, found)) => {
                scan.files.push(known);
                scan.found.push(found);
            }
            Err(bad) => scan.bad.push(bad),
        }
    }
    if scan.found.is_empty() && !scan.bad.is_empty() {
        let first = scan.bad.swap_remove(0);
        return Err(ConvertError::AllBad { path: folder.into(), count, first });
    }
    Ok(scan)
}
