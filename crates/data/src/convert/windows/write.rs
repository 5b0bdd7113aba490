//! Pickles of windows, written to a staging folder and moved into place when all are there.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::prelude::*;
use serde_json::Value;

use plaudit_pyfiles::atomic_file::AtomicFile;
use plaudit_pyfiles::{Array, DType, PickleStyle, Protocol, PyValue, TensorStyle, pickle_bytes};

use super::cut::Episode;
use super::gather::Sample;
use super::rows::Row;
use super::{ChosenWindows, WindowOptions};
use crate::convert::error::ConvertError;
use crate::convert::fingerprint::Fingerprint;
use crate::convert::progress::{OnProgress, Progress, Stage};
use crate::convert::python_json;
use crate::convert::stored::{Fetch, Files, StoredImage};

/// Pickles of one split in a staging folder, and the fingerprints of the frames in them.
pub(super) struct WrittenSplit {
    staging: StagingFolder,
    /// By episode and frame; of the main view.
    pub(super) fingerprints: HashMap<(usize, usize), Fingerprint>,
}

/// Both splits.
pub(super) struct WrittenSplits {
    pub(super) train: WrittenSplit,
    pub(super) eval: WrittenSplit,
}

/// Writes all pickles to staging folders.
pub(super) fn both_splits(
    files: &Files<'_>,
    episodes: &[Episode],
    chosen: &ChosenWindows,
    out: &Path,
    options: &WindowOptions,
    progress: &OnProgress<'_>,
) -> Result<WrittenSplits, ConvertError> {
    let split = |name: &str, samples: &[Sample], stage| {
        let staging = StagingFolder::create(&out.join(name))?;
        let done = AtomicUsize::new(0);
        let fingerprints = samples.par_iter().map(|sample| {
            let fingerprints =
                write_sample(files, sample, &episodes[sample.episode], &staging.folder, options)?;
            let done = done.fetch_add(1, Ordering::Relaxed) + 1;
            progress(Progress { stage, done, total: samples.len() });
            Ok(fingerprints)
        });
        let fingerprints: Result<Vec<_>, ConvertError> = fingerprints.collect();
        Ok::<WrittenSplit, ConvertError>(WrittenSplit {
            staging,
            fingerprints: fingerprints?.into_iter().flatten().collect(),
        })
    };
    Ok(WrittenSplits {
        train: split("train", &chosen.train, Stage::WritingTrain)?,
        eval: split("eval", &chosen.eval, Stage::WritingVal)?,
    })
}

/// Moves the pickles into place, then writes the manifests, then `dataset_info.json`.
pub(super) fn finish(
    written: WrittenSplits,
    episodes: &[Episode],
    chosen: &ChosenWindows,
    out: &Path,
    options: &WindowOptions,
    info: &Value,
) -> Result<(), ConvertError> {
    for (name, split, samples) in
        [("train", written.train, &chosen.train), ("eval", written.eval, &chosen.eval)]
    {
        let folder = out.join(name);
        let pickles = absolute(&folder.join("pkl"));
        let mut manifest = String::new();
        for sample in samples {
            let episode = &episodes[sample.episode];
            let file = format!("{}.pkl", sample.name(episode));
            split.staging.put(&file, &pickles)?;
            let line = python_json::line(&Row::of(sample, episode, &pickles.join(file), options));
            manifest.push_str(&line.unwrap_or_default());
            manifest.push('\n');
        }
        write_whole(&folder.join("segments.jsonl"), manifest.as_bytes())?;
    }
    let text = python_json::page(info).unwrap_or_default();
    write_whole(&out.join("dataset_info.json"), text.as_bytes())
}

/// A frame of an episode, and its fingerprint.
type FrameFingerprint = ((usize, usize), Fingerprint);

/// Writes one pickle; returns the fingerprints of the main view's frames.
fn write_sample(
    files: &Files<'_>,
    sample: &Sample,
    episode: &Episode,
    folder: &Path,
    options: &WindowOptions,
) -> Result<Vec<FrameFingerprint>, ConvertError> {
    let frames = sample.frames();
    let mut entries = Vec::new();
    let mut fingerprints = Vec::new();
    for (view, stored_images) in episode.views.iter().enumerate() {
        let stored: Vec<StoredImage> = frames.iter().filter_map(|frame| stored_images[*frame]).collect();
        let (images, names) = fetch(files, &stored)?;
        if view == 0 {
            fingerprints = frames.iter().map(|frame| (sample.episode, *frame)).zip(names).collect();
        }
        entries.push((view_key(view, options), images));
    }
    entries.extend([
        ("label".into(), sample.label.name().into()),
        ("score".into(), sample.score().into()),
        ("source_episode_path".into(), PyValue::from(&*episode.path.display().to_string())),
        ("start_idx".into(), PyValue::Int(sample.window.start as i64)),
        ("end_idx".into(), PyValue::Int(sample.window.end as i64)),
        ("augmentation".into(), sample.augmentation().map_or(PyValue::None, PyValue::from)),
    ]);
    let style = PickleStyle { protocol: Protocol::Five, tensors: TensorStyle::Numpy };
    let path = folder.join(format!("{}.pkl", sample.name(episode)));
    let bytes = pickle_bytes(&PyValue::dict(entries), style)?;
    fs::write(&path, bytes).map_err(|source| ConvertError::Write { path, source })?;
    Ok(fingerprints)
}

/// RLinf's two keys, and numbered ones for further cameras.
fn view_key(view: usize, options: &WindowOptions) -> String {
    match view {
        0 => "main_frames".into(),
        1 => "extra_view_frames".into(),
        further => format!("extra_view_{}_frames", options.extra_views[further - 1]),
    }
}

/// Images as a list of numpy arrays.
fn fetch(files: &Files<'_>, stored: &[StoredImage]) -> Result<(PyValue, Vec<Fingerprint>), ConvertError> {
    let mut images: Vec<Vec<u8>> =
        stored.iter().map(|stored| vec![0; stored.pixel_format.shape().iter().product()]).collect();
    let both = stored.iter().zip(&mut images);
    let mut fetches: Vec<Fetch<'_>> =
        both.map(|(from, to)| Fetch { from: *from, to, fingerprint: Fingerprint::default() }).collect();
    files.fetch_all(&mut fetches)?;
    let fingerprints = fetches.iter().map(|fetch| fetch.fingerprint).collect();
    let arrays = stored.iter().zip(images).filter_map(|(stored, pixels)| {
        Array::new(DType::U8, &stored.pixel_format.shape(), pixels).ok().map(PyValue::from)
    });
    Ok((PyValue::list(arrays), fingerprints))
}

/// A temporary folder beside the final one. What is still in it when it is dropped is removed.
struct StagingFolder {
    folder: PathBuf,
    /// The lock shows other processes that this folder is in use.
    _lock: Option<fs::File>,
}

impl StagingFolder {
    fn create(split: &Path) -> Result<Self, ConvertError> {
        let folder = split.join(format!(".pkl.{}.partial", std::process::id()));
        for folder in [&split.join("pkl"), &folder] {
            fs::create_dir_all(folder)
                .map_err(|source| ConvertError::Write { path: folder.clone(), source })?;
        }
        let lock = fs::File::open(&folder).ok().filter(|folder| folder.try_lock().is_ok());
        Ok(Self { folder, _lock: lock })
    }

    fn put(&self, file: &str, into: &Path) -> Result<(), ConvertError> {
        let path = into.join(file);
        fs::rename(self.folder.join(file), &path).map_err(|source| ConvertError::Write { path, source })
    }
}

impl Drop for StagingFolder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.folder).ok();
    }
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.into())
}

/// A file that appears whole or not at all.
fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), ConvertError> {
    AtomicFile::write(path, [bytes]).map_err(|source| ConvertError::Write { path: path.into(), source })
}
