//! Checkpoints of training: folders that are complete or absent.
//!
//! ```text
//! checkpoints/global_step_100/
//!   config.yaml                  what was run
//!   actor/model.safetensors      the policy, under RLinf's names
//!   actor/learner.safetensors    networks, optimisers and counts
//!   actor/rollout.safetensors    where the environments were
//! ```

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use plaudit_nn::Weights;
use plaudit_rl::{Learner, Whereabouts};

use crate::failure::Failure;

const PREFIX: &str = "global_step_";
/// Where the policy's weights are within a checkpoint.
const MODEL: &str = "model.safetensors";
/// What says that a checkpoint holds a learner, not weights alone.
const LEARNER: &str = "learner.safetensors";

/// What goes into a checkpoint.
pub struct Moment<'a> {
    /// Steps of learning done.
    pub step: u64,
    /// Who learns.
    pub learner: &'a dyn Learner,
    /// Where the environments are, if that is known.
    pub whereabouts: Option<Whereabouts>,
    /// The resolved config, as YAML.
    pub config: &'a str,
}

/// The step that a checkpoint's folder is named after.
pub fn step_of(folder: &Path) -> Option<u64> {
    folder.file_name()?.to_str()?.strip_prefix(PREFIX)?.parse().ok()
}

/// Writes a checkpoint beside its place and then moves it there. Returns its place.
pub fn write(checkpoints: &Path, moment: &Moment<'_>) -> Result<PathBuf, Failure> {
    let place = checkpoints.join(format!("{PREFIX}{}", moment.step));
    let unfinished = checkpoints.join(format!(".{PREFIX}{}.unfinished", moment.step));
    fill(&unfinished, moment)?;
    let moved = remove(&place).and_then(|()| fs::rename(&unfinished, &place));
    moved.and_then(|()| File::open(checkpoints)?.sync_all()).map_err(|error| unwritable(&place, &error))?;
    Ok(place)
}

fn fill(folder: &Path, moment: &Moment<'_>) -> Result<(), Failure> {
    let actor = folder.join("actor");
    let made = remove(folder).and_then(|()| fs::create_dir_all(&actor));
    made.and_then(|()| fs::write(folder.join("config.yaml"), moment.config))
        .map_err(|error| unwritable(folder, &error))?;
    let help = || "free some space, or choose a log path on another disk".to_string();
    let written = moment
        .learner
        .weights()
        .write_safetensors(actor.join(MODEL), &[("format".to_string(), "pt".to_string())].into());
    written.map_err(|error| Failure::work(error, help()))?;
    moment.learner.save(&actor).map_err(|error| Failure::work(error, help()))?;
    let whereabouts = moment.whereabouts.as_ref().map_or(Ok(()), |left| left.write(&actor));
    whereabouts.map_err(|error| Failure::work(error, help()))
}

/// What was found in a checkpoint.
pub enum Found {
    /// A learner as it was, and where its environments were.
    Learner(Option<Whereabouts>),
    /// Weights alone: the optimiser begins anew.
    Weights,
}

/// Puts a learner where a checkpoint says. RLinf's checkpoints give their weights.
pub fn restore(folder: &Path, learner: &mut dyn Learner) -> Result<Found, Failure> {
    let actor = folder.join("actor");
    let help = || "resume with the network and the algorithm of the run that saved it".to_string();
    if actor.join(LEARNER).is_file() {
        learner.restore(&actor).map_err(|error| Failure::use_of(error, help()))?;
        let whereabouts = Whereabouts::read(&actor).map_err(|error| Failure::work(error, None))?;
        return Ok(Found::Learner(whereabouts));
    }
    let weights = Weights::read(folder).map_err(|error| Failure::use_of(error, help()))?;
    let loaded = learner.load(&weights);
    loaded.map_err(|misfit| Failure::use_of(format!("{}: {misfit}", folder.display()), help()))?;
    Ok(Found::Weights)
}

fn remove(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn unwritable(path: &Path, error: &io::Error) -> Failure {
    Failure::work(format!("cannot write {}: {error}", path.display()), None)
}
