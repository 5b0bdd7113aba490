//! The state of a rollout: enough to resume it as if it had never stopped.

use std::path::Path;
use std::sync::Arc;

use plaudit_core::{ActionHistory, FrameShape, Frames, Obs};
use plaudit_nn::weights::{Array, Element};

use crate::episodes::new_episode;
use crate::learner::LearnError;
use crate::{Checkpoint, Episode};

/// The file in a checkpoint's folder.
const FILE: &str = "rollout.safetensors";

/// The state of a rollout between two segments.
///
/// Environments are not saved: they are deterministic, and replay their unfinished episodes
/// ([`plaudit_core::Env::fast_forward`]).
#[derive(Debug, Clone, PartialEq)]
pub struct RolloutState {
    /// Steps taken.
    pub steps: u64,
    /// What each row had done in its unfinished episode.
    pub past: Vec<ActionHistory>,
    /// The unfinished episode of each row, as far as it was counted.
    pub episodes: Vec<Episode>,
    /// Observations before the present one, oldest first.
    pub context: Vec<Arc<Obs>>,
    /// Rows whose unfinished episode the reward has seen solved.
    pub solved: Vec<bool>,
}

/// The file of the state of one process's rollout, where there are several.
fn file_of(rank: usize) -> String {
    if rank == 0 { FILE.into() } else { format!("rollout_{rank}.safetensors") }
}

impl RolloutState {
    /// Writes it into a checkpoint's folder.
    pub fn write(&self, folder: &Path) -> Result<(), LearnError> {
        self.write_as(&folder.join(FILE))
    }

    /// Writes the states of several processes into a checkpoint's folder.
    pub fn write_all(states: &[Self], folder: &Path) -> Result<(), LearnError> {
        states.iter().enumerate().try_for_each(|(rank, state)| state.write_as(&folder.join(file_of(rank))))
    }

    fn write_as(&self, path: &Path) -> Result<(), LearnError> {
        let mut file = Checkpoint::for_file(path.into());
        file.count("steps", self.steps);
        file.count("context", self.context.len() as u64);
        let lengths: Vec<u64> = self.past.iter().map(|past| past.actions.len() as u64).collect();
        let actions: Vec<f32> = self.past.iter().flat_map(|past| past.actions.iter().copied()).collect();
        column(&mut file, "past/episode", self.past.iter().map(|past| past.episode))?;
        column(&mut file, "past/length", lengths)?;
        column(&mut file, "past/actions", actions)?;
        column(&mut file, "episodes/length", self.episodes.iter().map(|episode| episode.length))?;
        column(&mut file, "episodes/return", self.episodes.iter().map(|episode| episode.env_return))?;
        column(
            &mut file,
            "episodes/success",
            self.episodes.iter().map(|episode| u8::from(episode.success_once)),
        )?;
        column(&mut file, "episodes/solved_by_reward", self.solved.iter().map(|&solved| u8::from(solved)))?;
        for (at, obs) in self.context.iter().enumerate() {
            column(&mut file, &format!("context/{at}/state"), obs.state.iter().copied())?;
            for (camera, frames) in &obs.cameras {
                let FrameShape { height, width, channels } = frames.shape;
                let shape = [frames.count(), height, width, channels];
                tensor(&mut file, &format!("context/{at}/camera/{camera}"), &shape, &frames.pixels)?;
            }
        }
        file.write_as(path)
    }

    /// Reads it from a checkpoint's folder, if it is there.
    pub fn read(folder: &Path) -> Result<Option<Self>, LearnError> {
        Self::read_from(&folder.join(FILE))
    }

    /// Reads all states that are in a checkpoint's folder.
    pub fn read_all(folder: &Path) -> Result<Vec<Self>, LearnError> {
        let states = (0..).map(|rank| Self::read_from(&folder.join(file_of(rank))));
        states.map_while(Result::transpose).collect()
    }

    fn read_from(path: &Path) -> Result<Option<Self>, LearnError> {
        if !path.is_file() {
            return Ok(None);
        }
        let file = Checkpoint::read_from(path)?;
        let damaged = || file.problem("it does not fit together: it is damaged, or of another version");
        Self::from_file(&file)?.map(Some).ok_or_else(damaged)
    }

    fn from_file(file: &Checkpoint) -> Result<Option<Self>, LearnError> {
        let (steps, context) = (file.counted("steps")?, file.counted("context")?);
        let Some(past) = past(file) else { return Ok(None) };
        let Some(episodes) = open_episodes(file, past.len()) else { return Ok(None) };
        let context =
            (0..context).map(|at| context_obs(file, at, past.len()).map(Arc::new)).collect::<Option<_>>();
        let solved =
            read::<u8>(file, "episodes/solved_by_reward").filter(|solved| solved.len() == past.len());
        let solved = solved.map(|solved| solved.iter().map(|&solved| solved != 0).collect());
        Ok(context.zip(solved).map(|(context, solved)| Self { steps, past, episodes, context, solved }))
    }
}

fn past(file: &Checkpoint) -> Option<Vec<ActionHistory>> {
    let (episodes, lengths) = (read::<u64>(file, "past/episode")?, read::<u64>(file, "past/length")?);
    let actions = read::<f32>(file, "past/actions")?;
    let mut rest = &actions[..];
    let mut past = Vec::new();
    for (&episode, &length) in episodes.iter().zip(&lengths) {
        let (own, others) = rest.split_at_checked(length as usize)?;
        past.push(ActionHistory { episode, actions: own.to_vec() });
        rest = others;
    }
    Some(past)
}

fn open_episodes(file: &Checkpoint, rows: usize) -> Option<Vec<Episode>> {
    let (lengths, returns) = (read::<u64>(file, "episodes/length")?, read::<f64>(file, "episodes/return")?);
    let success = read::<u8>(file, "episodes/success")?;
    let open = |row: usize| {
        let (length, env_return, success_once) =
            (*lengths.get(row)?, *returns.get(row)?, *success.get(row)? != 0);
        Some(Episode { length, env_return, success_once, ..new_episode(row) })
    };
    (0..rows).map(open).collect()
}

fn read<T: Element>(file: &Checkpoint, name: &str) -> Option<Vec<T>> {
    file.array(name)?.elements::<T>().map(|elements| elements.into_owned())
}

fn column<T: Element>(
    file: &mut Checkpoint,
    name: &str,
    values: impl IntoIterator<Item = T>,
) -> Result<(), LearnError> {
    let values: Vec<T> = values.into_iter().collect();
    tensor(file, name, &[values.len()], &values)
}

fn tensor<T: Element>(
    file: &mut Checkpoint,
    name: &str,
    shape: &[usize],
    values: &[T],
) -> Result<(), LearnError> {
    let values =
        Array::from_slice(shape, values).map_err(|error| file.problem(format!("`{name}`: {error}")))?;
    file.tensor(name, values);
    Ok(())
}

/// One observation of the context.
fn context_obs(file: &Checkpoint, at: u64, batch: usize) -> Option<Obs> {
    let state = read::<f32>(file, &format!("context/{at}/state"))?;
    let mut obs = Obs::from_state(batch, state).ok()?;
    for (camera, pixels) in file.under(&format!("context/{at}/camera")).iter() {
        let [_, height, width, channels] = *pixels.shape() else { return None };
        let pixels = pixels.elements::<u8>()?.into_owned();
        let frames = Frames::new(FrameShape { height, width, channels }, pixels).ok()?;
        obs = obs.with_camera(camera, frames).ok()?;
    }
    Some(obs)
}
