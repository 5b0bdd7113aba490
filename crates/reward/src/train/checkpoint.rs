//! Checkpoints on disk.
//!
//! ```text
//! checkpoints/
//!   global_step_50/model.safetensors                          the model, with its card
//!                  actor/model_state_dict/full_weights.pt     the same for PyTorch, as RLinf writes it
//!   global_step_100/… and actor/trainer.safetensors           the newest also has what going on needs
//!   best_model/model.safetensors, actor/…                     the best by the monitored number
//! ```
//!
//! A folder appears whole, by renaming. Only the newest has the optimiser's state, which is twice as large as the model.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use plaudit_nn::Weights;

use super::error::TrainError;

/// The state of training inside a checkpoint.
const STATE: &str = "actor/trainer.safetensors";
const BEST: &str = "best_model";

/// The checkpoints of one run.
#[derive(Clone, Debug)]
pub struct Checkpoints {
    folder: PathBuf,
}

/// What a training goes on from.
#[derive(Clone, Debug)]
pub struct ResumePoint {
    /// Weights and moments.
    pub state: Weights,
    /// Steps done.
    pub step: u64,
}

impl Checkpoints {
    /// In a folder, which need not be there yet.
    #[must_use]
    pub fn in_folder(folder: &Path) -> Self {
        Self { folder: folder.into() }
    }

    /// Where the checkpoint of a step is.
    #[must_use]
    pub fn step(&self, step: u64) -> PathBuf {
        self.folder.join(format!("global_step_{step}"))
    }

    /// Where the best model is.
    #[must_use]
    pub fn best(&self) -> PathBuf {
        self.folder.join(BEST)
    }

    /// Writes the best model; `fill` does so into a folder.
    pub(super) fn save_best(
        &self,
        fill: impl FnOnce(&Path) -> Result<(), TrainError>,
    ) -> Result<(), TrainError> {
        self.whole(&self.best(), fill)
    }

    /// The state to go on from.
    ///
    /// # Errors
    /// When the checkpoint of that step has none, or it cannot be read.
    pub fn resume(&self, step: u64) -> Result<ResumePoint, TrainError> {
        let place = self.step(step);
        let file = place.join(STATE);
        if !file.is_file() {
            return Err(TrainError::NoState { path: place });
        }
        Ok(ResumePoint { state: Weights::read(file)?, step })
    }

    /// What is safe of a training that broke off after `step`, in words.
    pub(super) fn kept(&self, step: u64, save_interval: Option<u64>) -> String {
        let every = save_interval.unwrap_or(u64::MAX).max(1);
        let last = step / every * every;
        let mut kept = Vec::new();
        if last > 0 && self.step(last).is_dir() {
            kept.push(format!("the last checkpoint is {}", self.step(last).display()));
        }
        if self.best().is_dir() {
            kept.push(format!("the best model is {}", self.best().display()));
        }
        if kept.is_empty() { "nothing was saved yet".into() } else { kept.join(", ") }
    }

    /// Writes a checkpoint of a step; `fill` writes the model and the [state](write_state) that going on needs.
    pub(super) fn save(
        &self,
        step: u64,
        fill: impl FnOnce(&Path) -> Result<(), TrainError>,
    ) -> Result<(), TrainError> {
        self.whole(&self.step(step), fill)
    }

    /// Fills a hidden folder and renames it, so that `place` is complete or absent.
    fn whole(
        &self,
        place: &Path,
        fill: impl FnOnce(&Path) -> Result<(), TrainError>,
    ) -> Result<(), TrainError> {
        let name = place.file_name().unwrap_or_default().to_string_lossy();
        let hidden = |purpose: &str| self.folder.join(format!(".{name}.{purpose}"));
        let (new, old) = (hidden("new"), hidden("old"));
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| TrainError::Folder { path, source }
        };
        for leftover in [&new, &old] {
            remove(leftover).map_err(failed(leftover))?;
        }
        fs::create_dir_all(&new).map_err(failed(&new))?;
        fill(&new)?;
        if place.exists() {
            fs::rename(place, &old).map_err(failed(place))?;
        }
        fs::rename(&new, place).map_err(failed(place))?;
        // What is left behind here is swept up by the next checkpoint.
        let _ = remove(&old);
        Ok(())
    }

    /// Takes the states out of the checkpoints before a step: nobody goes on from them any more.
    pub(super) fn forget_states_before(&self, step: u64) {
        let Ok(entries) = fs::read_dir(&self.folder) else { return };
        for path in entries.flatten().map(|entry| entry.path()) {
            let number = path
                .file_name()
                .and_then(|name| name.to_str()?.strip_prefix("global_step_")?.parse::<u64>().ok());
            if number.is_some_and(|number| number < step) {
                // A state too many costs space, not correctness.
                let _ = fs::remove_file(path.join(STATE));
            }
        }
    }
}

/// Writes what going on needs into the folder of a checkpoint.
pub(super) fn write_state(folder: &Path, state: &Weights) -> Result<(), TrainError> {
    let file = folder.join(STATE);
    let actor = file.parent().unwrap_or(folder);
    fs::create_dir_all(actor).map_err(|source| TrainError::Folder { path: actor.to_owned(), source })?;
    Ok(state.write_safetensors(file, &BTreeMap::new())?)
}

fn remove(folder: &Path) -> std::io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
