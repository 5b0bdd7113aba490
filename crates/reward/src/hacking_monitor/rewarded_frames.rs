//! Rewarded frames as images, for a person to sort and for a model to learn from.
//!
//! ```text
//! step_40/success/000040_001.png    sorted by the environment's ground truth, or by a person
//!        /failure/000040_002.png
//!        /unsorted/000040_003.png   waits for a person; 000040_003@CAMERA.png where there are several cameras
//! ```

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::{RewardedFrame, SuccessComparison};
use crate::images::{ImageWriteError, Png};

/// The folders of all checks.
pub(super) struct FrameFolders {
    folder: PathBuf,
    /// Those a person had sorted when they were last looked at.
    counted: Mutex<Vec<PathBuf>>,
}

/// Rewarded frames that were written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SavedFrames {
    /// Where.
    pub folder: PathBuf,
    /// How many.
    pub count: usize,
    /// Whether they lie in `success` and `failure`, by the environment's ground truth; else a person sorts them.
    pub is_sorted: bool,
}

impl FrameFolders {
    /// In a folder, which need not be there. Frames that were sorted before, while a run paused, are not counted again.
    pub(super) fn in_folder(folder: PathBuf) -> Self {
        let counted = Mutex::new(sorted(&folder).map(|(folder, _)| folder).collect());
        Self { folder, counted }
    }

    /// The newest frames that a person has sorted since the last call, and what they say.
    pub(super) fn newly_sorted(&self) -> Option<SuccessComparison> {
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        let (folder, compared) =
            sorted(&self.folder).filter(|(folder, _)| !counted.contains(folder)).last()?;
        counted.push(folder);
        Some(compared)
    }

    /// Writes the frames of a check.
    pub(super) fn save(
        &self,
        step: u64,
        frames: &[RewardedFrame],
        cameras: &[Arc<str>],
        is_sorted: bool,
    ) -> Result<Option<SavedFrames>, ImageWriteError> {
        if frames.is_empty() {
            return Ok(None);
        }
        let folder = self.folder.join(format!("step_{step}"));
        for (number, frame) in frames.iter().enumerate() {
            let place = match (is_sorted, frame.true_success) {
                (true, true) => "success",
                (true, false) => "failure",
                (false, _) => "unsorted",
            };
            for camera in cameras {
                let Some((shape, pixels)) = frame.obs.row(0).image(camera) else { continue };
                let of = if cameras.len() > 1 { format!("@{camera}") } else { String::new() };
                let place = folder.join(place);
                make(&place)?;
                Png::of(shape, pixels).write(&place.join(format!("{step:06}_{number:03}{of}.png")))?;
            }
        }
        if !is_sorted {
            // Empty folders to sort them into.
            make(&folder.join("success"))?;
            make(&folder.join("failure"))?;
        }
        Ok(Some(SavedFrames { folder, count: frames.len(), is_sorted }))
    }
}

fn make(folder: &Path) -> Result<(), ImageWriteError> {
    std::fs::create_dir_all(folder).map_err(|source| ImageWriteError { path: folder.into(), source })
}

/// The folders of frames that a person has done with, oldest first, and what they say.
fn sorted(folder: &Path) -> impl Iterator<Item = (PathBuf, SuccessComparison)> {
    let step = |path: &PathBuf| path.file_name()?.to_str()?.strip_prefix("step_")?.parse::<u64>().ok();
    let mut steps: Vec<(u64, PathBuf)> =
        entries(folder).into_iter().filter_map(|path| Some((step(&path)?, path))).collect();
    steps.sort_unstable();
    steps.into_iter().filter_map(|(_, folder)| {
        let [left, right, wrong] =
            ["unsorted", "success", "failure"].map(|place| frames_in(&folder.join(place)));
        (left == 0 && right + wrong > 0)
            .then_some((folder, SuccessComparison { called: right + wrong, right }))
    })
}

/// How many frames lie in a folder; one may be several images.
fn frames_in(folder: &Path) -> usize {
    let name = |path: &PathBuf| Some(path.file_stem()?.to_str()?.split('@').next()?.to_string());
    let images = entries(folder).into_iter().filter(|path| path.extension().is_some_and(|end| end == "png"));
    images.filter_map(|path| name(&path)).collect::<BTreeSet<_>>().len()
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    entries.filter_map(|entry| entry.ok().map(|entry| entry.path())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_count_once_and_only_when_a_person_is_done_with_them() {
        let folder = tempfile::tempdir().unwrap();
        let put = |name: &str| {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        };
        put("step_2/success/000002_000.png");
        let folders = FrameFolders::in_folder(folder.path().into());
        assert_eq!(folders.newly_sorted(), None, "what was sorted before the run went on");
        put("step_10/success/000010_000@left.png");
        put("step_10/success/000010_000@right.png");
        put("step_10/failure/000010_001@left.png");
        put("step_10/unsorted/000010_002@left.png");
        assert_eq!(folders.newly_sorted(), None);
        std::fs::remove_file(folder.path().join("step_10/unsorted/000010_002@left.png")).unwrap();
        assert_eq!(folders.newly_sorted(), Some(SuccessComparison { called: 2, right: 1 }));
        assert_eq!(folders.newly_sorted(), None);
    }
}
