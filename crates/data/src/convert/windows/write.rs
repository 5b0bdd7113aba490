//! Pickles of windows, written to a staging folder and moved into place when all are there.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::prelude::*;
use serde_json::Value;

use plaudit_pyfiles::atomic_file::AtomicFile;
use plaudit_pyfiles::{Array, DType, PickleStyle, Protocol, PyValue, TensorStyle, pickle_bytes};

use super::cut::{self, Episode, View};
use super::gather::Sample;
use super::rows::Row;
use super::{ChosenWindows, WindowOptions, WindowSource};
use crate::convert::error::ConvertError;
use crate::convert::fingerprint::Fingerprint;
use crate::convert::progress::{OnProgress, Progress, Stage};
use crate::convert::python_json;
use crate::recording::{FileProblem, Frame, PixelFormat};

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
    source: &WindowSource<'_>,
    chosen: &ChosenWindows,
    out: &Path,
    progress: &OnProgress<'_>,
) -> Result<WrittenSplits, ConvertError> {
    let split = |name: &str, samples: &[Sample], stage| {
        let staging = StagingFolder::create(&out.join(name))?;
        let done = AtomicUsize::new(0);
        let tick = || {
            let done = done.fetch_add(1, Ordering::Relaxed) + 1;
            progress(Progress { stage, done, total: samples.len() });
        };
        let mut by_item: BTreeMap<usize, Vec<&Sample>> = BTreeMap::new();
        for sample in samples {
            by_item.entry(source.episodes[sample.episode].origin.0).or_default().push(sample);
        }
        let items: Vec<(usize, Vec<&Sample>)> = by_item.into_iter().collect();
        let written = items
            .par_iter()
            .map(|(item, samples)| write_item(source, *item, samples, &staging.folder, &tick))
            .collect::<Result<Vec<_>, ConvertError>>()?;
        let fingerprints = written.into_iter().flatten().collect();
        Ok::<WrittenSplit, ConvertError>(WrittenSplit { staging, fingerprints })
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
            let file = format!("{}.pkl", sample.name(episodes));
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

/// Reads an item again and writes its windows.
fn write_item(
    source: &WindowSource<'_>,
    item: usize,
    samples: &[&Sample],
    folder: &Path,
    tick: &(dyn Fn() + Sync),
) -> Result<Vec<FrameFingerprint>, ConvertError> {
    let (known, item) = (&source.known[item], &source.items[item]);
    known.check_unchanged()?;
    let bad = |problem: FileProblem| ConvertError::BadFile { first: problem.in_file(&item.path), others: 0 };
    let recordings = item.read().map_err(bad)?;
    let views = recordings.iter().map(|recording| cut::views(recording, item, source.options));
    let views: Vec<Vec<View>> = views.collect::<Result<_, FileProblem>>().map_err(bad)?;
    let size = source.options.window_size;
    let written = samples.par_iter().map(|sample| {
        let episode = &source.episodes[sample.episode];
        let views = views.get(episode.origin.1).ok_or_else(|| known.changed())?;
        let mut shown = show(&sample.frames(size), episode, views)
            .map_err(|problem| ConvertError::BadFile { first: problem.in_file(&known.path), others: 0 })?
            .ok_or_else(|| known.changed())?;
        if let Some((other, window)) = sample.other {
            shown.extend(second_clip(source, other, &window.shown(size))?);
        }
        tick();
        write_sample(shown, sample, source, folder)
    });
    Ok(written.collect::<Result<Vec<_>, ConvertError>>()?.into_iter().flatten().collect())
}

/// The frames of the clip that another is compared with, from its own file.
fn second_clip(
    source: &WindowSource<'_>,
    episode: usize,
    frames: &[usize],
) -> Result<ShownViews, ConvertError> {
    let episode = &source.episodes[episode];
    let (known, item) = (&source.known[episode.origin.0], &source.items[episode.origin.0]);
    known.check_unchanged()?;
    let bad = |problem: FileProblem| ConvertError::BadFile { first: problem.in_file(&item.path), others: 0 };
    let recordings = item.read().map_err(bad)?;
    let recording = recordings.get(episode.origin.1).ok_or_else(|| known.changed())?;
    let views = cut::views(recording, item, source.options).map_err(bad)?;
    show(frames, episode, &views).map_err(bad)?.ok_or_else(|| known.changed())
}

/// Frames by view, each with its fingerprint.
type ShownViews = Vec<Vec<(Array, Fingerprint)>>;

/// Frames of an episode by view; nothing where one is not as it was.
fn show(shown: &[usize], episode: &Episode, views: &[View]) -> Result<Option<ShownViews>, FileProblem> {
    let view = |(frames, formats): (&View, &Vec<Option<PixelFormat>>)| {
        let image = |at: &usize| {
            let known =
                frames.get(*at).and_then(Option::as_ref).zip(formats.get(*at).and_then(Option::as_ref));
            known.map_or(Ok(None), |(frame, format)| fingerprinted(frame, format))
        };
        shown.iter().map(image).collect::<Result<Option<Vec<_>>, _>>()
    };
    views.iter().zip(&episode.views).map(view).collect()
}

/// A frame's pixels and their fingerprint; nothing where it is not of the size that it was.
fn fingerprinted(frame: &Frame, format: &PixelFormat) -> Result<Option<(Array, Fingerprint)>, FileProblem> {
    if frame.in_place().is_some_and(|bytes| bytes.len() != format.stored_bytes()) {
        return Ok(None);
    }
    let pixels = frame.pixels_as(format)?;
    let fingerprint = Fingerprint::of(&pixels, format.shape());
    let array = Array::new(DType::U8, &format.shape(), pixels.into_owned()).ok();
    Ok(array.map(|array| (array, fingerprint)))
}

/// Writes one pickle; returns the fingerprints of the main view's frames.
fn write_sample(
    shown: ShownViews,
    sample: &Sample,
    source: &WindowSource<'_>,
    folder: &Path,
) -> Result<Vec<FrameFingerprint>, ConvertError> {
    let (options, episode) = (source.options, &source.episodes[sample.episode]);
    let mut entries = Vec::new();
    let mut fingerprints = Vec::new();
    for (view, images) in shown.into_iter().enumerate() {
        let (images, names): (Vec<Array>, Vec<Fingerprint>) = images.into_iter().unzip();
        // Of the main view, and of a second clip's.
        let clip = match (view, sample.other) {
            (0, _) => Some((sample.episode, sample.frames(options.window_size))),
            (_, Some((other, window))) => Some((other, window.shown(options.window_size))),
            _ => None,
        };
        if let Some((episode, frames)) = clip {
            fingerprints.extend(frames.into_iter().map(|frame| (episode, frame)).zip(names));
        }
        entries.push((view_key(view, options), PyValue::list(images.into_iter().map(PyValue::from))));
    }
    entries.extend([
        ("label".into(), sample.label.into()),
        ("score".into(), sample.score().into()),
        ("source_episode_path".into(), PyValue::from(&*episode.path.display().to_string())),
        ("start_idx".into(), PyValue::Int(sample.window.start as i64)),
        ("end_idx".into(), PyValue::Int(sample.window.end as i64)),
        ("augmentation".into(), sample.augmentation().map_or(PyValue::None, PyValue::from)),
    ]);
    let style = PickleStyle { protocol: Protocol::Five, tensors: TensorStyle::Numpy };
    let path = folder.join(format!("{}.pkl", sample.name(source.episodes)));
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
