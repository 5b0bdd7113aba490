//! robomimic's datasets: one HDF5 file with a group `data/demo_N` per demonstration.

use std::path::Path;

use plaudit_core::End;
use serde_json::Value;

use super::formats::Format;
use super::hdf5_columns::{
    Layout, flags, is_at, is_images, is_vector, items, joined, numbers, rows, vectors,
};
use super::observation::Columns;
use super::rules::ROBOT_SUCCESS_REWARD;
use super::{AfterLast, FileProblem, Recording, Rules};
use crate::hdf5::{Hdf5Error, Hdf5File};

const LAYOUT: Layout = Layout { episodes, group: "data/demo_N", read };
const DATA: &str = "data";
/// The camera in front of the robot, in robosuite's words.
const MAIN_CAMERA: &str = "agentview_image";

pub(super) const FORMAT: Format = Format {
    name: "robomimic",
    describe: "demonstrations of robomimic (HDF5)",
    shares_files: true,
    is_at: |probe| is_at(probe, |file| episodes(file).is_ok_and(|found| !found.is_empty())),
    items: |path| items(path, LAYOUT),
    location: |entry, key| format!("obs/{key}[{entry}]"),
    ..Format::EPISODES
};

fn episodes(file: &Hdf5File) -> Result<Vec<String>, FileProblem> {
    let groups = file.groups(DATA)?;
    Ok(groups.iter().filter(|name| name.starts_with("demo_")).map(|name| format!("{DATA}/{name}")).collect())
}

/// One demonstration. What followed an action stands beside the observation before it.
fn read(_: &Path, file: &Hdf5File, demo: &str, _: &Rules) -> Result<Recording, FileProblem> {
    let groups = file.groups(demo)?;
    let has = |name: &str| groups.iter().any(|found| found == name);
    let Some(actions) = file.column(demo, "actions")? else {
        let has = [groups.clone(), file.datasets(demo)?].concat().join(", ");
        return Err(FileProblem::Missing { location: format!("`{demo}`"), key: "actions".into(), has });
    };
    let steps = actions.shape().first().copied().unwrap_or(0);
    if !has("obs") {
        return Err(Hdf5Error::NoObservations { episode: demo.into() }.into());
    }
    let columns = observed(file, &format!("{demo}/obs"), steps)?;
    let last = match has("next_obs") {
        true => observed(file, &format!("{demo}/next_obs"), steps)?.rows(steps).pop(),
        false => None,
    };
    let rewards = numbers(file, demo, "rewards", steps)?.unwrap_or_default();
    let dones = flags(file, demo, "dones", steps)?.unwrap_or_default();
    let labels = success(file, &rewards);
    let no_images = || FileProblem::from(Hdf5Error::NoImages { episode: demo.into() });
    Ok(Recording {
        actions: vectors(&format!("{demo}/actions"), &actions, steps)?,
        ends: dones.iter().map(|done| if *done { End::Terminated } else { End::No }).collect(),
        success: (!labels.is_empty()).then(|| labels.contains(&Some(true))),
        labels: if labels.is_empty() { vec![None; steps] } else { labels },
        rewards,
        unlabelled: columns.cameras.is_empty().then(no_images),
        observations: columns.rows(steps),
        after_last: last.map_or(AfterLast::Repeated, AfterLast::Seen),
        ..Recording::default()
    })
}

/// robomimic has no column of success: its rewards are, 0 and 1, unless they were shaped. Then nobody says.
fn success(file: &Hdf5File, rewards: &[f64]) -> Vec<Option<bool>> {
    let arguments = file.text(DATA, "env_args").and_then(|text| serde_json::from_str::<Value>(&text).ok());
    let shaped = arguments.and_then(|arguments| arguments["env_kwargs"]["reward_shaping"].as_bool());
    let is_sparse = rewards.iter().all(|reward| *reward == 0.0 || *reward == 1.0);
    match shaped == Some(true) || !is_sparse {
        true => Vec::new(),
        false => rewards.iter().map(|reward| Some(*reward > ROBOT_SUCCESS_REWARD)).collect(),
    }
}

/// Images by camera; the state is every other observation that is a vector, by name.
fn observed(file: &Hdf5File, group: &str, steps: usize) -> Result<Columns, FileProblem> {
    let (mut cameras, mut states) = (Vec::new(), Vec::new());
    for name in file.datasets(group)? {
        let key = format!("{group}/{name}");
        let (shape, dtype) = file.peek(&key)?;
        if is_images(&shape, &dtype) {
            cameras.push((name, rows(&key, &file.array(&key)?, steps)?));
        } else if is_vector(&shape, &dtype) {
            states.push(vectors(&key, &file.array(&key)?, steps)?);
        }
    }
    let main = cameras.iter().position(|(name, _)| name == MAIN_CAMERA);
    Ok(Columns { cameras, states: joined(&states, steps), main, ..Columns::default() })
}
