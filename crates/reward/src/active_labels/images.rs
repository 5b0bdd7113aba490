//! Labelled frames as images: `success/000123.png`, or `000123@CAMERA.png` where there are several cameras.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use plaudit_data::labelling::{AnswerJournal, Purpose};

use crate::dataset::Frames;
use crate::images::{ImageWriteError, Png};

const FOLDERS: [(&str, bool); 2] = [("success", true), ("failure", false)];

/// Where the images of one frame go under a label, camera by camera.
fn files(folder: &Path, frames: &Frames, frame: usize, success: bool) -> Vec<(usize, PathBuf)> {
    let place = folder.join(if success { FOLDERS[0].0 } else { FOLDERS[1].0 });
    let views = frames.views();
    let name = |view: usize| match &*views[view].camera {
        "main_images" if views.len() == 1 => format!("{frame:06}.png"),
        camera => format!("{frame:06}@{camera}.png"),
    };
    (0..views.len()).map(|view| (view, place.join(name(view)))).collect()
}

/// Makes the images what the journal says: those of labels that stand are there, those of others are gone. Files of somebody else
/// are left alone.
pub(super) fn sync(
    folder: &Path,
    frames: &Frames,
    journal: &AnswerJournal,
    only: Option<usize>,
) -> Result<(), ImageWriteError> {
    let failed = |path: &Path| {
        let path = path.to_path_buf();
        move |source| ImageWriteError { path, source }
    };
    for (name, _) in FOLDERS {
        let place = folder.join(name);
        std::fs::create_dir_all(&place).map_err(failed(&place))?;
    }
    let answers = journal.taken_back().iter().chain(journal.standing());
    let trained = answers.filter(|answered| answered.purpose == Purpose::Train);
    let mut labels: BTreeMap<usize, Option<bool>> = trained.map(|answered| (answered.frame, None)).collect();
    for answered in journal.standing().iter().filter(|answered| answered.purpose == Purpose::Train) {
        labels.insert(answered.frame, answered.answer.label());
    }
    for (frame, label) in labels.into_iter().filter(|(frame, _)| only.is_none_or(|only| only == *frame)) {
        for (_, success) in FOLDERS {
            for (view, path) in files(folder, frames, frame, success) {
                if label == Some(success) {
                    if !path.is_file() {
                        let image = frames.image(frame, view);
                        let undecodable = |problem: plaudit_data::recording::FileProblem| {
                            std::io::Error::other(problem.to_string())
                        };
                        let pixels = image.pixels().map_err(undecodable).map_err(failed(&path))?;
                        Png::of(image.shape(), &pixels).write(&path)?;
                    }
                } else if path.is_file() {
                    std::fs::remove_file(&path).map_err(failed(&path))?;
                }
            }
        }
    }
    Ok(())
}
