//! ManiSkill's trajectories: `*.h5` with a group `traj_N` per episode, and a `.json` of the same name that describes them.

use std::path::Path;

use serde::Deserialize;

use super::formats::Format;
use super::hdf5_columns::{
    Layout, flags, is_at, is_images, is_vector, items, joined, numbers, rows, vectors,
};
use super::observation::Columns;
use super::{FileProblem, Recording, Rules, keys};
use crate::hdf5::{Hdf5Error, Hdf5File};

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
    let Some(actions) = file.column(episode, "actions")? else {
        let has = [file.groups(episode)?, file.datasets(episode)?].concat().join(", ");
        return Err(FileProblem::Missing { location: format!("`{episode}`"), key: "actions".into(), has });
    };
    let steps = actions.shape().first().copied().unwrap_or(0);
    let described = description(path, episode);
    let columns = observed(file, episode, steps + 1, rules)?;
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
        actions: vectors(&format!("{episode}/actions"), &actions, steps)?,
        rewards: rewards.map(reset_first).unwrap_or_default(),
        ends: (0..=steps).map(end).collect(),
        success: success.as_ref().map(|labels| labels.contains(&true)).or(described.success),
        labels: std::iter::once(None).chain(success.into_iter().flatten().map(Some)).collect(),
        position: [None, described.episode_id, Some(steps as u64)],
        unlabelled: columns.cameras.is_empty().then(no_images),
        observations: columns.rows(steps + 1),
        ..Recording::default()
    })
}

/// Images by camera. The state is what was observed as one (`-o state`), or what the agent and then the task say of
/// themselves, by name.
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
}

/// Trajectories say the same themselves, mostly: a file that is missing or damaged is done without.
fn description(path: &Path, episode: &str) -> Described {
    #[derive(Deserialize)]
    struct Description {
        episodes: Vec<Described>,
    }
    let number: Option<u64> = episode.strip_prefix("traj_").and_then(|number| number.parse().ok());
    let text = plaudit_pyfiles::Buffer::open(&path.with_extension("json"), plaudit_pyfiles::Access::Map).ok();
    let described = text.and_then(|text| serde_json::from_slice::<Description>(&text).ok());
    let mut of_all = described.map(|described| described.episodes).unwrap_or_default().into_iter();
    of_all.find(|one| one.episode_id.is_some() && one.episode_id == number).unwrap_or_default()
}
