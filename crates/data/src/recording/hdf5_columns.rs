//! What trajectories in HDF5 files have in common: columns with a row per step, and files with several episodes.

use std::path::{Path, PathBuf};

use hdf5_pure::DType as Stored;
use plaudit_pyfiles::Array;

use super::error::OpenError;
use super::item::{Item, Items};
use super::probe::{Probe, is_inside, list};
use super::{FileProblem, Recording, Rules, keys};
use crate::hdf5::{Hdf5Error, Hdf5File};

/// The names that HDF5 files end in.
const ENDINGS: [&str; 2] = ["h5", "hdf5"];

/// The HDF5 files at a path: one, or those of a folder, also links that lead out of it.
pub(super) fn files(path: &Path) -> Result<Vec<PathBuf>, OpenError> {
    if path.is_file() {
        return Ok(vec![path.into()]);
    }
    let found: Vec<Vec<PathBuf>> =
        ENDINGS.iter().map(|ending| list(path, ending)).collect::<Result<_, _>>()?;
    Ok(found.concat())
}

/// Whether the first HDF5 file at a path that can be read is of a kind. A file that cannot is of every kind, so that it is
/// named when it is read.
pub(super) fn is_at(probe: &Probe<'_>, is_kind: fn(&Hdf5File) -> bool) -> Result<bool, OpenError> {
    if probe.path.is_file() && !probe.is_file(&ENDINGS) {
        return Ok(false);
    }
    let files = files(probe.path)?;
    let mut readable = files.iter().filter_map(|file| open_own(probe.path, file).ok());
    Ok(!files.is_empty() && readable.next().is_none_or(|file| is_kind(&file)))
}

/// How the episodes of a file are found and read.
#[derive(Clone, Copy)]
pub(super) struct Layout {
    /// The groups of the episodes.
    pub(super) episodes: fn(&Hdf5File) -> Result<Vec<String>, FileProblem>,
    /// What those are called.
    pub(super) group: &'static str,
    /// One of them. The path is the file's.
    pub(super) read: fn(&Path, &Hdf5File, &str, &Rules) -> Result<Recording, FileProblem>,
}

/// The episodes of all files at a path. A file that cannot be used is an item as well, which says why when it is read: so it is
/// counted wherever items are.
pub(super) fn items(path: &Path, layout: Layout) -> Result<Items, OpenError> {
    let mut found = Vec::new();
    for file in files(path)? {
        let root = path.to_owned();
        let list = move |file: &Path| listed(&open_own(&root, file)?, layout);
        let Ok(episodes) = list(&file) else {
            let path = file.clone();
            found.push(Item::new(file, move |_| list(&path).map(|_| Vec::new())));
            continue;
        };
        found.extend(episodes.into_iter().map(|episode| {
            let path = file.clone();
            let name = file.join(episode.rsplit('/').next().unwrap_or(&episode));
            Item::new(name, move |rules| {
                let open = Hdf5File::open(&path)?;
                Ok(vec![(layout.read)(&path, &open, &episode, rules)?])
            })
        }));
    }
    Ok(found.into())
}

/// An HDF5 file of a dataset: the one that the dataset is, or one in its folder, wherever links lead.
pub(super) fn open_own(dataset: &Path, file: &Path) -> Result<Hdf5File, FileProblem> {
    if dataset != file && !is_inside(dataset, file) {
        return Err(FileProblem::Outside);
    }
    Hdf5File::open(file)
}

/// The groups of a file's episodes: at least one.
pub(super) fn listed(open: &Hdf5File, layout: Layout) -> Result<Vec<String>, FileProblem> {
    let episodes = (layout.episodes)(open)?;
    if episodes.is_empty() {
        let has = open.groups("")?.join(", ");
        return Err(FileProblem::Missing { location: "the file".into(), key: layout.group.into(), has });
    }
    Ok(episodes)
}

/// The rows of an array, one for each of so many steps.
pub(super) fn rows(key: &str, array: &Array, steps: usize) -> Result<Vec<Array>, FileProblem> {
    if array.shape().first() != Some(&steps) {
        let (found, expected) = (array.shape().to_vec(), format!("[{steps}, …]"));
        return Err(Hdf5Error::Shape { key: key.into(), found, expected }.into());
    }
    Ok((0..steps).map_while(|at| array.row(at)).collect())
}

/// Rows of numbers.
pub(super) fn vectors(key: &str, array: &Array, steps: usize) -> Result<Vec<Vec<f32>>, FileProblem> {
    Ok(rows(key, array, steps)?.iter().map(|row| row.to_f32().unwrap_or_default()).collect())
}

/// A number for each step.
pub(super) fn numbers(
    file: &Hdf5File,
    group: &str,
    name: &str,
    steps: usize,
) -> Result<Option<Vec<f64>>, FileProblem> {
    let Some(array) = file.column(group, name)? else { return Ok(None) };
    let numbers = array.to_f64().filter(|numbers| numbers.len() == steps);
    let wrong = || Hdf5Error::Shape {
        key: format!("{group}/{name}"),
        found: array.shape().to_vec(),
        expected: format!("[{steps}]"),
    };
    Ok(Some(numbers.ok_or_else(wrong)?))
}

/// 0 or 1 for each step.
pub(super) fn flags(
    file: &Hdf5File,
    group: &str,
    name: &str,
    steps: usize,
) -> Result<Option<Vec<bool>>, FileProblem> {
    let Some(numbers) = numbers(file, group, name, steps)? else { return Ok(None) };
    let location = |at: usize| format!("`{group}/{name}`[{at}]");
    let flag =
        |(at, number)| keys::zero_or_one(number).ok_or_else(|| keys::not_a_label(number, location(at)));
    numbers.into_iter().enumerate().map(flag).collect::<Result<_, _>>().map(Some)
}

/// Whether a dataset is images: bytes, with 1, 3 or 4 channels last.
pub(super) fn is_images(shape: &[usize], dtype: &Stored) -> bool {
    matches!((shape, dtype), ([_, _, _, 1 | 3 | 4], Stored::U8))
}

/// Whether a dataset is a row of numbers for each step, or one number.
pub(super) fn is_vector(shape: &[usize], dtype: &Stored) -> bool {
    let is_number = !matches!(dtype, Stored::String | Stored::VariableLengthString | Stored::Compound(_));
    matches!(shape, [_] | [_, _]) && is_number
}

/// What several columns of vectors say at each step, one after the other.
pub(super) fn joined(columns: &[Vec<Vec<f32>>], steps: usize) -> Vec<Vec<f32>> {
    if columns.is_empty() {
        return Vec::new();
    }
    let at = |step: usize| columns.iter().flat_map(|column| column[step].iter().copied()).collect();
    (0..steps).map(at).collect()
}
