//! ManiSkill's trajectories: `*.h5` with a group `traj_N` per episode, and a `.json` of the same name that describes them.

use std::collections::BTreeMap;
use std::path::Path;

use plaudit_pyfiles::Array;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::formats::Format;
use super::hdf5_columns::{
    Layout, flags, is_at, is_images, is_vector, items, joined, listed, numbers, rows, vectors,
};
use super::observation::Columns;
use super::simulated::SimulatorStates;
use super::{FileProblem, Recording, Rules, keys};
use crate::hdf5::{Hdf5Error, Hdf5File};
use crate::own_folder::OwnFolder;

const LAYOUT: Layout = Layout { episodes, group: "traj_N", read };

pub(super) const FORMAT: Format = Format {
    name: "maniskill",
    describe: "trajectories of ManiSkill (HDF5)",
    shares_files: true,
    is_at: |probe| is_at(probe, |file| episodes(file).is_ok_and(|found| !found.is_empty())),
    items: |path| items(path, LAYOUT),
    location: |entry, key| format!("obs/sensor_data/{key}/rgb[{entry}]"),
    ..Format::EPISODES
};

fn episodes(file: &Hdf5File) -> Result<Vec<String>, FileProblem> {
    let groups = file.groups("")?;
    Ok(groups.into_iter().filter(|name| name.starts_with("traj_")).collect())
}

/// One episode. There is one observation more than actions; what followed an action stands beside the observation after it.
fn read(path: &Path, file: &Hdf5File, episode: &str, rules: &Rules) -> Result<Recording, FileProblem> {
    let actions = actions(file, episode)?;
    let columns = observed(file, episode, steps_of(&actions) + 1, rules)?;
    recording(path, file, episode, &actions, columns)
}

/// The episodes of a file.
pub(super) fn simulated_episodes(file: &Hdf5File) -> Result<Vec<String>, FileProblem> {
    listed(file, LAYOUT)
}

/// One episode without its images, which may have been recorded without any observation, and what the simulator said of everything.
pub(super) fn read_simulated(
    path: &Path,
    file: &Hdf5File,
    episode: &str,
) -> Result<(Recording, SimulatorStates), FileProblem> {
    let actions = actions(file, episode)?;
    let count = steps_of(&actions) + 1;
    let columns = match observed(file, episode, count, &Rules::default()) {
        Err(FileProblem::Hdf5(Hdf5Error::NoObservations { .. })) => Columns::default(),
        columns => Columns { cameras: Vec::new(), ..columns? },
    };
    let state = |kind: &str| -> Result<BTreeMap<String, Vec<Vec<f32>>>, FileProblem> {
        let group = format!("{episode}/env_states/{kind}");
        let mut found = BTreeMap::new();
        for name in file.datasets(&group)? {
            let key = format!("{group}/{name}");
            found.insert(name, vectors(&key, &file.array(&key)?, count)?);
        }
        Ok(found)
    };
    if !has_group(file, episode, "env_states")? {
        let has = [file.groups(episode)?, file.datasets(episode)?].concat().join(", ");
        return Err(FileProblem::Missing { location: format!("`{episode}`"), key: "env_states".into(), has });
    }
    let states = SimulatorStates {
        env_id: environment(path),
        actors: state("actors")?,
        articulations: state("articulations")?,
    };
    Ok((recording(path, file, episode, &actions, columns)?, states))
}

fn actions(file: &Hdf5File, episode: &str) -> Result<Array, FileProblem> {
    if let Some(actions) = file.column(episode, "actions")? {
        return Ok(actions);
    }
    let has = [file.groups(episode)?, file.datasets(episode)?].concat().join(", ");
    Err(FileProblem::Missing { location: format!("`{episode}`"), key: "actions".into(), has })
}

fn steps_of(actions: &Array) -> usize {
    actions.shape().first().copied().unwrap_or(0)
}

/// An episode with what was observed in it.
fn recording(
    path: &Path,
    file: &Hdf5File,
    episode: &str,
    actions: &Array,
    columns: Columns,
) -> Result<Recording, FileProblem> {
    let (steps, described) = (steps_of(actions), description(path, episode));
    let success = flags(file, episode, "success", steps)?;
    let terminated = flags(file, episode, "terminated", steps)?.unwrap_or_default();
    let truncated = flags(file, episode, "truncated", steps)?.unwrap_or_default();
    let end = |at: usize| {
        let flag = |column: &[bool]| at.checked_sub(1).and_then(|at| column.get(at)) == Some(&true);
        keys::end(flag(&terminated), flag(&truncated))
    };
    let rewards = numbers(file, episode, "rewards", steps)?;
    let reset_first = |rewards: Vec<f64>| std::iter::once(0.0).chain(rewards).collect();
    let no_images = || FileProblem::from(Hdf5Error::NoImages { episode: episode.into() });
    Ok(Recording {
        actions: vectors(&format!("{episode}/actions"), actions, steps)?,
        rewards: rewards.map(reset_first).unwrap_or_default(),
        ends: (0..=steps).map(end).collect(),
        success: success.as_ref().map(|labels| labels.contains(&true)).or(described.success),
        labels: std::iter::once(None).chain(success.into_iter().flatten().map(Some)).collect(),
        task: described.task.map(Into::into),
        position: [None, described.episode_id, Some(steps as u64)],
        unlabelled: columns.cameras.is_empty().then(no_images),
        observations: columns.rows(steps + 1),
        ..Recording::default()
    })
}

/// Images by camera. The state is what was observed as one (`-o state`, `-o rgb+state`), or what the agent and then the task
/// say of themselves, by name.
fn observed(file: &Hdf5File, episode: &str, count: usize, rules: &Rules) -> Result<Columns, FileProblem> {
    let seen = format!("{episode}/obs");
    if let Some(states) = file.column(episode, "obs")? {
        return Ok(Columns { states: vectors(&seen, &states, count)?, ..Columns::default() });
    }
    let groups = if has_group(file, episode, "obs")? { file.groups(&seen)? } else { Vec::new() };
    if groups.is_empty() {
        return Err(Hdf5Error::NoObservations { episode: episode.into() }.into());
    }
    let mut states = Vec::new();
    if let Some(state) = file.column(&seen, "state")? {
        states.push(vectors(&format!("{seen}/state"), &state, count)?);
    }
    for part in ["agent", "extra"].into_iter().filter(|part| groups.iter().any(|name| name == part)) {
        for name in file.datasets(&format!("{seen}/{part}"))? {
            let key = format!("{seen}/{part}/{name}");
            let (shape, dtype) = file.peek(&key)?;
            if is_vector(&shape, &dtype) {
                states.push(vectors(&key, &file.array(&key)?, count)?);
            }
        }
    }
    let mut cameras = Vec::new();
    let cameras_at = format!("{seen}/sensor_data");
    let names = if has_group(file, &seen, "sensor_data")? { file.groups(&cameras_at)? } else { Vec::new() };
    for name in names {
        let key = format!("{cameras_at}/{name}/rgb");
        if !file.datasets(&format!("{cameras_at}/{name}"))?.iter().any(|found| found == "rgb") {
            continue;
        }
        let (shape, dtype) = file.peek(&key)?;
        if !is_images(&shape, &dtype) {
            let expected = format!("bytes of shape [{count}, height, width, 3]");
            return Err(Hdf5Error::Shape { key, found: shape, expected }.into());
        }
        cameras.push((name, rows(&key, &file.array(&key)?, count)?));
    }
    let main = cameras.iter().position(|(name, _)| *name == rules.main_camera);
    Ok(Columns { cameras, states: joined(&states, count), main, ..Columns::default() })
}

fn has_group(file: &Hdf5File, parent: &str, name: &str) -> Result<bool, FileProblem> {
    Ok(file.groups(parent)?.iter().any(|found| found == name))
}

/// What the JSON file beside the trajectories says of one.
#[derive(Debug, Default, Deserialize)]
struct Described {
    episode_id: Option<u64>,
    success: Option<bool>,
    /// As `dataset export` writes it; ManiSkill has none.
    task: Option<String>,
}

/// Trajectories say the same themselves, mostly: a file that is missing or damaged is done without.
fn description(path: &Path, episode: &str) -> Described {
    #[derive(Deserialize)]
    struct Description {
        episodes: Vec<Described>,
    }
    let number: Option<u64> = episode.strip_prefix("traj_").and_then(|number| number.parse().ok());
    let described: Option<Description> = beside(path);
    let mut of_all = described.map(|described| described.episodes).unwrap_or_default().into_iter();
    of_all.find(|one| one.episode_id.is_some() && one.episode_id == number).unwrap_or_default()
}

/// Which environment it was, in ManiSkill's words.
fn environment(path: &Path) -> Option<String> {
    #[derive(Deserialize)]
    struct Description {
        env_info: Environment,
    }
    #[derive(Deserialize)]
    struct Environment {
        env_id: Option<String>,
    }
    beside(path).and_then(|described: Description| described.env_info.env_id)
}

/// The JSON file beside the trajectories.
fn beside<T: DeserializeOwned>(path: &Path) -> Option<T> {
    let file = path.with_extension("json");
    // It lies in the same folder, also where the trajectories are a link.
    if !path.parent().is_some_and(|folder| OwnFolder::of(folder).has(&file)) {
        return None;
    }
    let text = plaudit_pyfiles::Buffer::open(&file, plaudit_pyfiles::Access::Map).ok()?;
    serde_json::from_slice(&text).ok()
}
