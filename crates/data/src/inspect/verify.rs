//! Reading every file of a dataset from its first byte to its last: is everything there, and whole?

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::prelude::*;

use super::OnInspected;
use super::error::InspectError;
use super::open;
use super::recorded::Recorded;
use super::report::{BrokenFile, relative};
use crate::lerobot::{self, DatasetMetadata};
use crate::recording::{DatasetFormat, FileProblem, Item, OpenError, Rules, stores_below};
use crate::store::{Store, StoreError};
use crate::video::VideoError;

/// What a check of every file found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    /// What the dataset is.
    pub format: DatasetFormat,
    /// Episodes, windows or splits that are whole.
    pub whole: usize,
    /// Files that are not, and why.
    pub broken: Vec<BrokenFile>,
    /// What could not be checked, in words.
    pub unchecked: Vec<String>,
}

/// Reads everything in a dataset. Of a store the hash of every file is checked; of everything else, that each file can be
/// read as what it is, with every image in it, and that the files which a manifest or an index names are there.
///
/// # Errors
/// When its format is unknown.
pub fn verify(path: &Path, progress: &OnInspected<'_>) -> Result<Verified, InspectError> {
    let stores = if Store::is_at(path) { vec![(path.to_path_buf(), None)] } else { stores_below(path) };
    if !stores.is_empty() {
        let stores: Vec<PathBuf> = stores.into_iter().map(|(store, _)| store).collect();
        return of_stores(path, &stores, progress);
    }
    let mut found =
        Verified { format: DatasetFormat::Lerobot, whole: 0, broken: Vec::new(), unchecked: Vec::new() };
    let shards = if path.is_dir() { lerobot::shards(path).unwrap_or_default() } else { Vec::new() };
    found.check_files_exist(path, &shards);
    if shards.len() == 1 && !found.unchecked.is_empty() {
        return Ok(found); // its images are videos, and nothing else of it is read
    }
    let collection = open(path, &Rules::default())?;
    found.format = collection.format;
    let is_unchecked =
        |file: &Path| found.unchecked.iter().any(|what| what.starts_with(&relative(file, path)));
    let broken = collection.broken.iter().filter(|(file, _)| !is_unchecked(file));
    let broken: Vec<BrokenFile> =
        broken.map(|(file, problem)| broken_file(path, file, &problem.with_hint())).collect();
    found.broken.extend(broken);
    let (done, total) = (AtomicUsize::new(0), collection.items.len());
    let check = |item: &Item| {
        let checked = read_whole(item);
        progress(done.fetch_add(1, Ordering::Relaxed) + 1, total);
        checked
    };
    let checked: Vec<Result<usize, FileProblem>> = collection.items.par_iter().map(check).collect();
    for (item, checked) in collection.items.iter().zip(checked) {
        match checked {
            Ok(whole) => found.whole += whole,
            Err(problem) => found.broken.push(broken_file(path, &item.path, &problem.with_hint())),
        }
    }
    Ok(found)
}

impl Verified {
    /// Whether everything that could be checked is there and whole.
    pub fn is_whole(&self) -> bool {
        self.broken.is_empty()
    }

    /// Of LeRobot datasets: whether the files that the metadata names are there, and what cannot be read of them.
    fn check_files_exist(&mut self, path: &Path, shards: &[PathBuf]) {
        for shard in shards {
            let Ok(metadata) = DatasetMetadata::read(shard) else { continue };
            let gone = |file: &PathBuf| BrokenFile {
                file: relative(file, path),
                problem: "the metadata names it, and it is not there".into(),
            };
            self.broken.extend(metadata.missing.iter().map(gone));
            let decoders = || lerobot::Dataset::open(shard).and_then(|dataset| dataset.video_decoders());
            let undecodable = |error: lerobot::LeRobotError| {
                matches!(error.problem(), lerobot::Problem::Video(VideoError::NoDecoder { .. }))
            };
            if !metadata.video_files.is_empty() && decoders().is_err_and(undecodable) {
                self.whole += metadata.lengths.len();
                let (name, count) = (relative(shard, path), metadata.video_files.len());
                self.unchecked.push(format!(
                    "{name}: its images are in {count} video files, which nothing here decodes (install ffmpeg); only that they are there was checked"
                ));
            }
            self.broken.extend(miscounted(path, shard));
        }
        for open in left_open(path) {
            self.unchecked.push(format!(
                "{}: a collection was stopped here; resume it, or collect more with data_collection.resume, and its episodes join",
                relative(&open, path)
            ));
        }
    }
}

/// A dataset that counts more or fewer episodes or frames than it lists.
fn miscounted(path: &Path, shard: &Path) -> Option<BrokenFile> {
    let dataset = lerobot::Dataset::open(shard).ok()?;
    let info = dataset.info();
    let counts = [
        ("total_episodes", info.total_episodes, dataset.len() as u64),
        ("total_frames", info.total_frames, dataset.frames()),
    ];
    let differs =
        |&(_, counted, listed): &(_, Option<u64>, u64)| counted.is_some_and(|counted| counted != listed);
    let (key, counted, listed) = counts.into_iter().find(differs)?;
    let problem =
        format!("{key} is {}, and the episodes it lists have {listed}", counted.unwrap_or_default());
    Some(BrokenFile { file: relative(&shard.join("meta/info.json"), path), problem })
}

fn of_stores(path: &Path, stores: &[PathBuf], progress: &OnInspected<'_>) -> Result<Verified, InspectError> {
    let mut found =
        Verified { format: DatasetFormat::Store, whole: 0, broken: Vec::new(), unchecked: Vec::new() };
    for store in stores {
        let checked = Store::open(store).and_then(|store| store.verify(progress)).map_err(OpenError::from)?;
        found.whole += checked.episodes;
        found.broken.extend(checked.problems.iter().map(|problem| match problem {
            StoreError::Damaged { path: file, damage } => broken_file(path, file, damage),
            other => broken_file(path, store, other),
        }));
    }
    Ok(found)
}

fn broken_file(path: &Path, file: &Path, problem: &impl ToString) -> BrokenFile {
    BrokenFile { file: relative(file, path), problem: problem.to_string() }
}

/// Reads an item and every image in it. Returns how many episodes it has.
fn read_whole(item: &Item) -> Result<usize, FileProblem> {
    let recorded: Vec<Recorded> = item.read()?.into_iter().map(Recorded::of).collect();
    for one in &recorded {
        if let Some(what) = &one.uneven {
            return Err(FileProblem::Lists { what: what.clone() });
        }
        for image in one.cameras.iter().flat_map(|views| &views.images) {
            image.image()?;
            image.stored_bytes()?;
        }
    }
    Ok(recorded.len())
}

/// Shards of a LeRobot collection that were never completed.
fn left_open(path: &Path) -> Vec<PathBuf> {
    let entries = |folder: &Path| -> Vec<PathBuf> {
        fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
    };
    let named = |path: &PathBuf, start: &str, end: &str| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        name.starts_with(start) && name.ends_with(end)
    };
    let ranks = entries(path).into_iter().filter(|path| named(path, "rank_", ""));
    let open = ranks.flat_map(|rank| entries(&rank)).filter(|path| named(path, ".id_", ".open"));
    // One beside a dataset of its own is kept to be resumed; its episodes are in that dataset.
    let is_hidden = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        !path.with_file_name(name.trim_start_matches('.').trim_end_matches(".open")).exists()
    };
    let mut open: Vec<PathBuf> = open.filter(is_hidden).collect();
    open.sort();
    open
}
