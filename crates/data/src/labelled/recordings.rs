//! Frames of recorded episodes, whoever wrote them.

use std::collections::HashMap;
use std::path::Path;

use plaudit_core::FrameShape;

use super::cameras::{CameraKey, MAIN};
use super::error::LabelledError;
use super::image::FrameImage;
use super::{Kind, LabelledData, LabelledEpisode, LabelledFrame, ReadOptions};
use crate::convert::{FileProblem, Frame, InputFile, OnProgress, Reading, Recording, Source, list, scan};
use crate::python::{Array, PyValue};

/// A folder or a file of episodes.
pub(super) fn read(
    path: &Path,
    cameras: &[CameraKey],
    options: &ReadOptions,
    progress: &OnProgress<'_>,
) -> Result<LabelledData, LabelledError> {
    let source = options.source.map_or_else(|| Source::detect(path), Ok)?;
    let input = source.files(path)?;
    read_files(path, source, &input, cameras, options, progress)
}

/// Folders of `.npy` trajectories.
pub(super) fn read_trajectories(
    folders: [&Path; 2],
    cameras: &[CameraKey],
    options: &ReadOptions,
    progress: &OnProgress<'_>,
) -> Result<LabelledData, LabelledError> {
    let mut input = Vec::new();
    for (folder, outcome) in folders.into_iter().zip([true, false]) {
        let found = list(folder, "npy")?;
        if found.is_empty() {
            let what =
                "no .npy trajectory in this folder; give the folder that `plaudit collect` wrote".into();
            return Err(LabelledError::Images { path: folder.into(), what });
        }
        input.extend(found.into_iter().map(|path| InputFile { path, outcome: Some(outcome) }));
    }
    read_files(folders[0], Source::Trajectories, &input, cameras, options, progress)
}

/// What one file holds.
struct Found {
    episodes: Vec<LabelledEpisode>,
}

fn read_files(
    path: &Path,
    source: Source,
    input: &[InputFile],
    cameras: &[CameraKey],
    options: &ReadOptions,
    progress: &OnProgress<'_>,
) -> Result<LabelledData, LabelledError> {
    let look = |value: &PyValue, _: &_, file: &InputFile, _| in_file(source, value, file, cameras);
    let mut scanned = scan(path, input, options.bad_files, progress, look)?;
    let mut shapes: Option<(Vec<FrameShape>, &Path)> = None;
    let usable: Vec<&InputFile> =
        input.iter().filter(|file| scanned.bad.iter().all(|bad| bad.path != file.path)).collect();
    for (found, file) in scanned.found.iter().zip(usable) {
        for frame in found.episodes.iter().flat_map(|episode| &episode.frames) {
            let these = frame.images.iter().map(FrameImage::shape);
            let (expected, other) = shapes.get_or_insert_with(|| (these.clone().collect(), &file.path));
            if let Some((expected, found)) =
                expected.iter().zip(these).find(|(expected, found)| **expected != *found)
            {
                let sides = |shape: FrameShape| [shape.height, shape.width, shape.channels];
                let problem = FileProblem::Size {
                    place: format!("frame {}", frame.at),
                    found: sides(found),
                    expected: sides(*expected),
                    other: other.to_owned(),
                };
                return Err(LabelledError::Frames(problem.in_file(&file.path)));
            }
        }
    }
    let shapes = shapes.map(|(shapes, _)| shapes).unwrap_or_default();
    let names = cameras.iter().map(|camera| camera.written.clone());
    Ok(LabelledData {
        path: path.into(),
        kind: Kind::Recordings(source),
        cameras: names.zip(shapes).collect(),
        episodes: scanned.found.drain(..).flat_map(|found| found.episodes).collect(),
        in_episodes: true,
        has_past: true,
        skipped: scanned.bad,
    })
}

fn in_file(
    source: Source,
    value: &PyValue,
    file: &InputFile,
    cameras: &[CameraKey],
) -> Result<Found, FileProblem> {
    let mut views = cameras.iter().map(|camera| {
        // The first camera of a trajectory is whatever is there, as with the key that collectors call it by.
        let own_name = !(source == Source::Trajectories && camera.key == MAIN);
        let reading = Reading {
            source,
            image_key: own_name.then(|| camera.key.clone()),
            layout: crate::convert::Layout::ChannelsLast,
        };
        reading.recordings(value, file).map(|recordings| (reading, camera.view, recordings))
    });
    let first = views.next().transpose()?;
    let others: Vec<_> = views.collect::<Result<_, _>>()?;
    let Some((reading, view, recordings)) = first else { return Ok(Found { episodes: Vec::new() }) };
    let others: Vec<_> =
        others.iter().map(|(reading, view, found)| (reading, *view, by_place(found))).collect();
    let alone = recordings.len() == 1;
    let mut episodes = Vec::with_capacity(recordings.len());
    for (number, recording) in recordings.into_iter().enumerate() {
        let mut frames = Vec::with_capacity(recording.frames.len());
        for frame in recording.frames {
            let mut images = vec![image(&reading, view, &frame)?];
            for (reading, view, found) in &others {
                if let Some(frame) = found.get(&frame.at) {
                    images.push(image(reading, *view, frame)?);
                }
            }
            // A moment that one camera missed is no moment for a model that looks at all.
            if images.len() == cameras.len() {
                let state = frame.state.as_ref().and_then(Array::to_f32);
                frames.push(LabelledFrame { images, success: frame.label, at: frame.at, state });
            }
        }
        let name = if alone { stem(&file.path) } else { format!("{}_{number}", stem(&file.path)) };
        let folder = file.path.parent().and_then(Path::file_name).unwrap_or_default();
        episodes.push(LabelledEpisode { name, folder: folder.to_string_lossy().into_owned(), frames });
    }
    episodes.retain(|episode| !episode.frames.is_empty());
    Ok(Found { episodes })
}

/// Frames by the entry they are from, which no two frames of a file share.
fn by_place(recordings: &[Recording]) -> HashMap<usize, &Frame> {
    recordings.iter().flat_map(|recording| &recording.frames).map(|frame| (frame.at, frame)).collect()
}

/// One of the images under a key: `[height, width, channels]`, or one of several such.
fn image(reading: &Reading, view: usize, frame: &Frame) -> Result<FrameImage, FileProblem> {
    let place = || reading.place(frame.at);
    let array = match frame.image.shape().len() {
        4 => frame.image.row(view),
        _ => (view == 0).then(|| frame.image.clone()),
    };
    let array =
        array.ok_or_else(|| FileProblem::Shape { place: place(), shape: frame.image.shape().to_vec() })?;
    FrameImage::of(&array, place)
}

fn stem(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}
