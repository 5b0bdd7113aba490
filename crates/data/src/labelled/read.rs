//! Frames of recordings, whatever their format.

use std::path::{Path, PathBuf};

use plaudit_core::FrameShape;

use super::error::LabelledError;
use super::{LabelledData, LabelledEpisode, LabelledFrame, ReadOptions};
use crate::convert::{OnProgress, scan};
use crate::recording::{CameraKey, FileProblem, FrameImage, Item, LabelledEntry, Recording, Recordings};

/// Every labelled frame of some recordings.
pub(super) fn read(
    recordings: Recordings,
    options: &ReadOptions,
    progress: &OnProgress<'_>,
) -> Result<LabelledData, LabelledError> {
    let cameras: Vec<CameraKey> = options.cameras.iter().map(|key| CameraKey::parse(key)).collect();
    if cameras.is_empty() {
        return Err(LabelledError::NoCamera);
    }
    let Recordings { path, format, items, mut broken } = recordings;
    if let Some((file, problem)) = broken.pop() {
        return Err(LabelledError::Frames(problem.in_file(file)));
    }
    if items.is_empty() {
        return Err(LabelledError::Empty { path });
    }
    let extract = |item: &Item, _| in_item(item, &cameras);
    let (found, skipped) = match &items[..] {
        // What is wrong with the only file is what is wrong.
        [only] => {
            let found =
                extract(only, 0).map_err(|problem| LabelledError::Frames(problem.in_file(&only.path)))?;
            (vec![found], Vec::new())
        }
        _ => {
            let scanned = scan(&path, &items, options.bad_files, progress, extract)?;
            (scanned.found, scanned.bad)
        }
    };
    let shapes = one_size(&found)?;
    let in_episodes = !found.iter().any(|found| found.is_loose);
    let episodes: Vec<LabelledEpisode> = found.into_iter().flat_map(|found| found.episodes).collect();
    let has_history = in_episodes && (format.is_collectors() || LabelledData::is_gapless(&episodes));
    Ok(LabelledData {
        path,
        format,
        cameras: cameras.into_iter().map(|camera| camera.written).zip(shapes).collect(),
        episodes,
        in_episodes,
        has_history,
        skipped,
    })
}

/// What one item holds.
struct FileEpisodes {
    path: PathBuf,
    episodes: Vec<LabelledEpisode>,
    /// Whether nobody knows which episodes its images are from.
    is_loose: bool,
}

fn in_item(item: &Item, cameras: &[CameraKey]) -> Result<FileEpisodes, FileProblem> {
    let mut episodes = Vec::new();
    let (mut missed, mut is_loose) = (None, false);
    for mut recording in item.read()? {
        is_loose |= recording.is_loose;
        for unit in recording.units()? {
            for (name, entries) in by_episode(&recording, unit) {
                let mut frames = Vec::with_capacity(entries.len());
                for entry in entries {
                    match frame(item, &recording, entry, cameras)? {
                        Ok(frame) => frames.push(frame),
                        Err(camera) => {
                            missed = missed.or(Some((camera, recording.observations[entry.at].names())))
                        }
                    }
                }
                episodes.push(LabelledEpisode { name, folder: item.folder(), frames });
            }
        }
    }
    episodes.retain(|episode| !episode.frames.is_empty());
    if episodes.is_empty() {
        let (key, has) = missed.unwrap_or_else(|| (cameras[0].written.clone(), "nothing".into()));
        return Err(FileProblem::NoImages { key, has });
    }
    let alone = episodes.len() == 1;
    for (number, episode) in episodes.iter_mut().enumerate().filter(|(_, episode)| episode.name.is_empty()) {
        episode.name = if alone { item.stem() } else { format!("{}_{number}", item.stem()) };
    }
    Ok(FileEpisodes { path: item.path.clone(), episodes, is_loose })
}

/// Images back in their episodes, in their order there, where a set of them says which those are.
fn by_episode(recording: &Recording, entries: Vec<LabelledEntry>) -> Vec<(String, Vec<LabelledEntry>)> {
    let Some((names, of)) = &recording.episodes else { return vec![(String::new(), entries)] };
    let mut episodes: Vec<(String, Vec<LabelledEntry>)> =
        names.iter().map(|name| (name.clone(), Vec::new())).collect();
    entries.into_iter().for_each(|entry| episodes[of[entry.at]].1.push(entry));
    episodes.iter_mut().for_each(|(_, entries)| entries.sort_by_key(|entry| entry.entry));
    episodes
}

/// A frame with an image of every camera, which the model needs, or the name of a camera that missed it.
fn frame(
    item: &Item,
    recording: &Recording,
    entry: LabelledEntry,
    cameras: &[CameraKey],
) -> Result<Result<LabelledFrame, String>, FileProblem> {
    let observation = &recording.observations[entry.at];
    let mut images = Vec::with_capacity(cameras.len());
    for camera in cameras {
        let location = || item.location(entry.entry, &camera.key);
        match observation.image(camera, location)? {
            Some(image) => images.push(FrameImage::of(image, location)?),
            None => return Ok(Err(camera.written.clone())),
        }
    }
    let state = observation.state();
    Ok(Ok(LabelledFrame { images, success: entry.success, at: entry.entry, state }))
}

/// The size of each camera's images, which is the same everywhere.
fn one_size(items: &[FileEpisodes]) -> Result<Vec<FrameShape>, LabelledError> {
    let mut first: Option<(Vec<FrameShape>, &Path)> = None;
    for (item, episode) in items.iter().flat_map(|item| item.episodes.iter().map(move |one| (item, one))) {
        for frame in &episode.frames {
            let these = frame.images.iter().map(FrameImage::shape);
            let (expected, other) = first.get_or_insert_with(|| (these.clone().collect(), &item.path));
            let differs = expected.iter().zip(these).find(|(expected, found)| **expected != *found);
            if let Some((expected, found)) = differs {
                let sides = |shape: FrameShape| [shape.height, shape.width, shape.channels];
                let problem = FileProblem::Size {
                    location: format!("frame {}", frame.at),
                    found: sides(found),
                    expected: sides(*expected),
                    other: other.to_owned(),
                };
                return Err(LabelledError::Frames(problem.in_file(&item.path)));
            }
        }
    }
    Ok(first.map(|(shapes, _)| shapes).unwrap_or_default())
}
