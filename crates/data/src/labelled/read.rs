//! Frames of recordings, whatever their format.

use std::path::{Path, PathBuf};

use plaudit_core::FrameShape;

use super::error::LabelledError;
use super::{LabelledData, LabelledEpisode, LabelledFrame, ReadOptions};
use crate::convert::{OnProgress, scan};
use crate::recording::{
    CameraKey, FileProblem, Frame, FrameImage, Item, LabelledEntry, Observation, Recordings,
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
