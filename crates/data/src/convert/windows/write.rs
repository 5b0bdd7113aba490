//! Pickles of windows, written aside and moved into place when all are there.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::prelude::*;
use serde_json::Value;

use super::cut::Episode;
use super::gather::Sample;
use super::rows::Row;
use super::{Chosen, WindowOptions};
use crate::atomic_file::AtomicFile;
use crate::convert::error::ConvertError;
use crate::convert::fingerprint::Fingerprint;
use crate::convert::progress::{OnProgress, Progress, Stage};
use crate::convert::python_json;
use crate::convert::stored::{Fetch, Files, Stored};
use crate::python::{Array, DType, PickleStyle, Protocol, PyValue, TensorStyle, pickle_bytes};

/// Pickles of one part that lie aside, and the names of the frames in them.
pub(super) struct Part {
    aside: Aside,
    /// By episode and frame; of the main view.
    pub(super) prints: HashMap<(usize, usize), Fingerprint>,
}

/// Both parts.
pub(super) struct Written {
    pub(super) train: Part,
    pub(super) eval: Part,
}

/// Writes all pickles, aside.
pub(super) fn both_parts(
    files: &Files<'_>,
    episodes: &[Episode],
    chosen: &Chosen,
    out: &Path,
    options: &WindowOptions,
    progress: &OnProgress<'_>,
) -> Result<Written, ConvertError> {
    let part = |name: &str, samples: &[Sample], stage| {
        let aside = Aside::create(&out.join(name))?;
        let done = AtomicUsize::new(0);
        let prints = samples.par_iter().map(|sample| {
            let prints = write_sample(files, sample, &episodes[sample.episode], &aside.folder, options)?;
            let done = done.fetch_add(1, Ordering::Relaxed) + 1;
            progress(Progress { stage, done, total: samples.len() });
            Ok(prints)
        });
        let prints: Result<Vec<_>, ConvertError> = prints.collect();
        Ok::<Part, ConvertError>(Part { aside, prints: prints?.into_iter().flatten().collect() })
    };
    Ok(Written {
        train: part("train", &chosen.train, Stage::WritingTrain)?,
        eval: part("eval", &chosen.eval, Stage::WritingVal)?,
    })
}

/// Moves the pickles into place, then writes the manifests, then `dataset_info.json`.
pub(super) fn finish(
    written: Written,
    episodes: &[Episode],
    chosen: &Chosen,
    out: &Path,
    options: &WindowOptions,
    info: &Value,
) -> Result<(), ConvertError> {
    for (name, part, samples) in
        [("train", written.train, &chosen.train), ("eval", written.eval, &chosen.eval)]
    {
        let folder = out.join(name);
        let pickles = absolute(&folder.join("pkl"));
        let mut manifest = String::new();
        for sample in samples {
            let episode = &episodes[sample.episode];
            let file = format!("{}.pkl", sample.name(episode));
            part.aside.put(&file, &pickles)?;
            let line = python_json::line(&Row::of(sample, episode, &pickles.join(file), options));
            manifest.push_str(&line.unwrap_or_default());
            manifest.push('\n');
        }
        write_whole(&folder.join("segments.jsonl"), manifest.as_bytes())?;
    }
    let text = python_json::page(info).unwrap_or_default();
    write_whole(&out.join("dataset_info.json"), text.as_bytes())
}

/// A frame of an episode, and its names.
type Named = ((usize, usize), Fingerprint);

/// Writes one pickle; gives the names of the main view's frames.
fn write_sample(
    files: &Files<'_>,
    sample: &Sample,
    episode: &Episode,
    folder: &Path,
    options: &WindowOptions,
) -> Result<Vec<Named>, ConvertError> {
    let frames = sample.frames();
    let mut entries = Vec::new();
    let mut prints = Vec::new();
    for (view, places) in episode.views.iter().enumerate() {
        let stored: Vec<Stored> = frames.iter().filter_map(|frame| places[*frame]).collect();
        let (images, names) = fetch(files, &stored)?;
        if view == 0 {
            prints = frames.iter().map(|frame| (sample.episode, *frame)).zip(names).collect();
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
    Ok(prints)
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
fn fetch(files: &Files<'_>, stored: &[Stored]) -> Result<(PyValue, Vec<Fingerprint>), ConvertError> {
    let mut images: Vec<Vec<u8>> =
        stored.iter().map(|stored| vec![0; stored.form.shape().iter().product()]).collect();
    let both = stored.iter().zip(&mut images);
    let mut fetches: Vec<Fetch<'_>> =
        both.map(|(from, to)| Fetch { from: *from, to, print: Fingerprint::default() }).collect();
    files.fetch_all(&mut fetches)?;
    let prints = fetches.iter().map(|fetch| fetch.print).collect();
    let arrays = stored.iter().zip(images).filter_map(|(stored, pixels)| {
        Array::new(DType::U8, &stored.form.shape(), pixels).ok().map(PyValue::from)
    });
    Ok((PyValue::list(arrays), prints))
}

/// A folder beside the final one. What is still in it when it is dropped is removed.
struct Aside {
    folder: PathBuf,
    /// Tells others that somebody is at work here.
    _lock: Option<fs::File>,
}

impl Aside {
    fn create(part: &Path) -> Result<Self, ConvertError> {
        let folder = part.join(format!(".pkl.{}.partial", std::process::id()));
        for folder in [&part.join("pkl"), &folder] {
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

impl Drop for Aside {
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
