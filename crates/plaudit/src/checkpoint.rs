//! Checkpoints of training: folders that are complete or absent.
//!
//! ```text
//! checkpoints/global_step_100/
//!   config.yaml                  what was run
//!   actor/model.safetensors      the policy, under RLinf's names
//!   actor/learner.safetensors    networks, optimisers and counts
//!   actor/rollout.safetensors    the state of the rollout (and rollout_1, … of several processes)
//!   reward_model/                the reward model, where it learns while the policy does
//! ```

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use plaudit_nn::Weights;
use plaudit_rl::{LearnError, Learner, RolloutState};

use crate::failure::Failure;

const PREFIX: &str = "global_step_";
/// Where the policy's weights are within a checkpoint.
const MODEL: &str = "model.safetensors";
/// What says that a checkpoint holds a learner, not weights alone.
const LEARNER: &str = "learner.safetensors";

/// What goes into a checkpoint.
pub struct CheckpointContents<'a> {
    /// Steps of learning done.
    pub step: u64,
    /// The learner.
    pub learner: &'a dyn Learner,
    /// The state of the rollout, if that is known; of each process, where environments are in several that play at their
    /// own pace.
    pub rollout_states: Vec<RolloutState>,
    /// The resolved config, as YAML.
    pub config: &'a str,
}

/// The step that a checkpoint's folder is named after.
pub fn step_of(folder: &Path) -> Option<u64> {
    folder.file_name()?.to_str()?.strip_prefix(PREFIX)?.parse().ok()
}

/// The newest of a run's checkpoints. Folders appear whole.
pub fn newest(checkpoints: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(checkpoints).into_iter().flatten().flatten();
    let steps = entries.filter_map(|entry| Some((step_of(&entry.path())?, entry.path())));
    steps.max().map(|(_, path)| path)
}

/// Writes a checkpoint to a temporary folder and then moves it into place. Returns its path.
///
/// `more` writes what else belongs to it.
pub fn write(
    checkpoints: &Path,
    contents: &CheckpointContents<'_>,
    more: impl FnOnce(&Path) -> Result<(), Failure>,
) -> Result<PathBuf, Failure> {
    let place = checkpoints.join(format!("{PREFIX}{}", contents.step));
    let unfinished = checkpoints.join(format!(".{PREFIX}{}.unfinished", contents.step));
    fill(&unfinished, contents)?;
    more(&unfinished)?;
    let moved = remove(&place).and_then(|()| fs::rename(&unfinished, &place));
    moved.and_then(|()| File::open(checkpoints)?.sync_all()).map_err(|error| cannot_write(&place, &error))?;
    Ok(place)
}

fn fill(folder: &Path, contents: &CheckpointContents<'_>) -> Result<(), Failure> {
    let actor = folder.join("actor");
    let made = remove(folder).and_then(|()| fs::create_dir_all(&actor));
    made.and_then(|()| fs::write(folder.join("config.yaml"), contents.config))
        .map_err(|error| cannot_write(folder, &error))?;
    let help = || "free some space, or choose a log path on another disk".to_string();
    let written = contents
        .learner
        .weights()
        .write_safetensors(actor.join(MODEL), &[("format".to_string(), "pt".to_string())].into());
    written.map_err(|error| Failure::runtime(error, help()))?;
    contents.learner.save(&actor).map_err(|error| Failure::runtime(error, help()))?;
    let written = RolloutState::write_all(&contents.rollout_states, &actor);
    written.map_err(|error| Failure::runtime(error, help()))
}

/// What was restored from a checkpoint.
pub enum Restored {
    /// A learner as it was, and the states of its rollouts.
    Learner(Vec<RolloutState>),
    /// Weights only: the optimiser starts fresh.
    Weights,
}

/// Restores a learner from a checkpoint. RLinf's checkpoints give their weights.
pub fn restore(folder: &Path, learner: &mut dyn Learner) -> Result<Restored, Failure> {
    let actor = folder.join("actor");
    if actor.join(LEARNER).is_file() {
        learner.restore(&actor).map_err(|error| unrestored(&error))?;
        let rollout_states = RolloutState::read_all(&actor).map_err(|error| unrestored(&error))?;
        return Ok(Restored::Learner(rollout_states));
    }
    let weights = Weights::read(folder).map_err(|error| unrestored(&error.into()))?;
    let loaded = learner.load(&weights);
    loaded.map_err(|misfit| {
        Failure::usage(format!("{}: {misfit}", folder.display()), OTHER_LEARNER.to_string())
    })?;
    Ok(Restored::Weights)
}

const OTHER_LEARNER: &str = "resume with the network and the algorithm of the run that saved it";

/// A checkpoint that was not restored: its files are damaged, or they are of another learner.
fn unrestored(error: &LearnError) -> Failure {
    let help = match error {
        LearnError::Unreadable(_) | LearnError::UnreadableReplay { .. } => {
            "resume from an earlier checkpoint: set runner.resume_dir to another global_step_ folder"
        }
        _ => OTHER_LEARNER,
    };
    Failure::usage(error, help.to_string())
}

fn remove(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn cannot_write(path: &Path, error: &io::Error) -> Failure {
    Failure::runtime(format!("cannot write {}: {error}", path.display()), None)
}
