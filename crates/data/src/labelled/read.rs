//! Frames of recordings, whatever their format.

use std::path::PathBuf;

use plaudit_core::FrameShape;

use super::error::LabelledError;
use super::{LabelledData, LabelledEpisode, LabelledFrame, ReadOptions};
use crate::convert::{OnProgress, scan};
use crate::recording::{
    BadFile, BadFiles, CameraKey, FileProblem, Frame, FrameImage, Item, LabelledEntry, Observation,
    Recordings,
};

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
            let scanned = scan(&path, &items, options.rules.bad_files, progress, extract)?;
            (scanned.found, scanned.bad)
        }
    };
    let (shapes, found, others) = one_size(found, options.rules.bad_files)?;
    let skipped = skipped.into_iter().chain(others).collect();
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
    let keep = |observation: &Observation, LabelledEntry { entry: at, success, .. }, images: Vec<Frame>| {
        let image = |(frame, camera): (Frame, &CameraKey)| {
            FrameImage::of(frame, || item.location(at, &camera.written))
        };
        let images = images.into_iter().zip(cameras).map(image).collect::<Result<_, _>>()?;
        Ok(LabelledFrame { images, success, at, state: observation.state() })
    };
    let found = item.labelled_frames(cameras, keep)?;
    let episode = |(name, frames)| LabelledEpisode { name, folder: item.folder(), frames };
    let episodes = found.episodes.into_iter().map(episode).collect();
    Ok(FileEpisodes { path: item.path.clone(), episodes, is_loose: found.is_loose })
}

/// The size of each camera's images, which is the same everywhere: what has images of another size is bad.
fn one_size(items: Vec<FileEpisodes>, bad_files: BadFiles) -> Result<OfOneSize, LabelledError> {
    let mut first: Option<(Vec<FrameShape>, PathBuf)> = None;
    let (mut kept, mut bad) = (Vec::new(), Vec::new());
    for item in items {
        match other_size(&item, &mut first) {
            None => kept.push(item),
            Some(problem) => {
                let problem = problem.in_file(&item.path);
                if bad_files == BadFiles::Stop {
                    return Err(LabelledError::Frames(problem));
                }
                bad.push(problem);
            }
        }
    }
    Ok((first.map(|(shapes, _)| shapes).unwrap_or_default(), kept, bad))
}

/// The sizes of images, items that have those, and items that do not.
type OfOneSize = (Vec<FrameShape>, Vec<FileEpisodes>, Vec<BadFile>);

/// An image of another size than the first.
fn other_size(item: &FileEpisodes, first: &mut Option<(Vec<FrameShape>, PathBuf)>) -> Option<FileProblem> {
    for frame in item.episodes.iter().flat_map(|episode| &episode.frames) {
        let these = frame.images.iter().map(FrameImage::shape);
        let (expected, other) = first.get_or_insert_with(|| (these.clone().collect(), item.path.clone()));
        let differs = expected.iter().zip(these).find(|(expected, found)| **expected != *found);
        if let Some((expected, found)) = differs {
            let sides = |shape: FrameShape| [shape.height, shape.width, shape.channels];
            return Some(FileProblem::Size {
                location: format!("frame {}", frame.at),
                found: sides(found),
                expected: sides(*expected),
                other: other.clone(),
            });
        }
    }
    None
}
