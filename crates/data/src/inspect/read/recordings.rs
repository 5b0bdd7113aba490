//! Every generation of collector's pickles and `.npy` files.

use super::observation::{numbers, observe};
use super::{items, need, need_list};
use crate::convert::Source;
use crate::inspect::collection::Part;
use crate::inspect::error::Unusable;
use crate::inspect::picture::Picture;
use crate::inspect::recorded::Recorded;
use crate::python::{Array, PyValue};

/// The episodes of one file.
pub(in crate::inspect) fn recordings(
    value: &PyValue,
    source: Source,
    part: &Part,
) -> Result<Vec<Recorded>, Unusable> {
    let mut recorded = match source {
        Source::Collected => vec![collected(value, success_of_info)?],
        Source::PreMerge => vec![collected(value, |info| info.get("is_obj_placed")?.to_bool())?],
        Source::Frames => vec![frames(value)?],
        Source::Trajectories => vec![trajectory(value)?],
        Source::Transitions => transitions(value)?,
        Source::Keyboard => vec![keyboard(value)?],
    };
    for one in &mut recorded {
        one.disagrees = disagreement(one, part);
    }
    Ok(recorded)
}

pub(in crate::inspect) fn outcome_name(success: bool) -> &'static str {
    if success { "success" } else { "failure" }
}

fn collected(episode: &PyValue, success: impl Fn(&PyValue) -> Option<bool>) -> Result<Recorded, Unusable> {
    let observations = need_list(episode, "observations")?;
    let infos = items(episode, "infos");
    let mut recorded = Recorded {
        actions: items(episode, "actions").iter().map(numbers).collect(),
        rewards: items(episode, "rewards").iter().filter_map(one_number).collect(),
        labels: infos.iter().map(success).collect(),
        success: episode.get("success").and_then(PyValue::to_bool),
        ..Recorded::default()
    };
    observations.iter().for_each(|observation| observe(&mut recorded, observation));
    let (seen, done) = (observations.len(), recorded.actions.len());
    if done > 0 && seen != done + 1 && seen != done {
        recorded.uneven = Some(format!("{seen} observations for {done} actions"));
    }
    for (name, length) in [("rewards", items(episode, "rewards").len()), ("infos", infos.len())] {
        if length != seen && length != done {
            recorded.uneven = Some(format!("{length} {name} for {seen} observations"));
        }
    }
    Ok(recorded)
}

/// `success`, or whether it was solved so far.
fn success_of_info(info: &PyValue) -> Option<bool> {
    let once = || info.get("episode").and_then(|episode| episode.get("success_once"));
    info.get("success").or_else(once)?.to_bool()
}

fn frames(episode: &PyValue) -> Result<Recorded, Unusable> {
    let entries = need_list(episode, "frames")?;
    let of_episode = ["success", "label"].iter().find_map(|key| episode.get(key)).and_then(PyValue::to_bool);
    let mut recorded = Recorded { success: of_episode, ..Recorded::default() };
    for entry in entries {
        observe(&mut recorded, need(entry, "obs")?);
        recorded.labels.push(entry.get("success").and_then(PyValue::to_bool));
        recorded.actions.extend(entry.get("action").map(numbers));
        recorded.rewards.extend(entry.get("reward").and_then(one_number));
    }
    Ok(recorded)
}

fn trajectory(value: &PyValue) -> Result<Recorded, Unusable> {
    let trajectory = value.item().unwrap_or(value);
    let cameras = need(trajectory, "images")?;
    let labels = numbers(need(trajectory, "labels")?);
    let mut recorded = Recorded {
        labels: labels.iter().map(|label| Some(*label >= 0.5)).collect(),
        success: Some(labels.iter().any(|label| *label >= 0.5)),
        ..Recorded::default()
    };
    match cameras.as_dict() {
        Some(cameras) => cameras.iter().for_each(|(name, images)| {
            see_all(&mut recorded, name.as_str().unwrap_or("?"), images);
        }),
        None => see_all(&mut recorded, "images", cameras),
    }
    if recorded.frames() != labels.len() {
        recorded.uneven = Some(format!("{} images for {} labels", recorded.frames(), labels.len()));
    }
    if recorded.frames() == 0 { Err(Unusable::Empty) } else { Ok(recorded) }
}

/// All images of a camera: an array of them, or a list of arrays.
fn see_all(recorded: &mut Recorded, camera: &str, images: &PyValue) {
    let listed = images.as_items().unwrap_or_default().iter().filter_map(PyValue::as_array).cloned();
    for image in images.as_array().into_iter().flat_map(rows).chain(listed) {
        recorded.see(camera, Picture::channels_first(image));
    }
}

fn rows(array: &Array) -> impl Iterator<Item = Array> {
    (0..array.shape().first().copied().unwrap_or(0)).map_while(|at| array.row(at))
}

/// Cut where the robot's episodes end.
fn transitions(value: &PyValue) -> Result<Vec<Recorded>, Unusable> {
    let entries = value.as_items().filter(|entries| !entries.is_empty()).ok_or(Unusable::Empty)?;
    let mut episodes = Vec::new();
    let mut current = Recorded::default();
    for (at, entry) in entries.iter().enumerate() {
        observe(&mut current, need(need(entry, "transitions")?, "obs")?);
        let reward = entry.get("rewards").and_then(one_number);
        current.labels.push(reward.map(|reward| reward > 0.5));
        current.rewards.extend(reward);
        current.actions.extend(entry.get("action").map(numbers));
        let flag = |key: &str| entry.get(key).and_then(PyValue::to_bool) == Some(true);
        if flag("terminations") || flag("truncations") || at + 1 == entries.len() {
            let first = at + 1 - current.labels.len();
            current.name = format!("[{first}..{}]", at + 1);
            current.success = Some(current.labels.contains(&Some(true)));
            episodes.push(std::mem::take(&mut current));
        }
    }
    Ok(episodes)
}

fn keyboard(recording: &PyValue) -> Result<Recorded, Unusable> {
    let observations = need_list(recording, "observations")?;
    let labels = need_list(recording, "labels")?;
    let mut recorded = Recorded {
        labels: labels.iter().map(PyValue::to_bool).collect(),
        actions: items(recording, "actions").iter().map(numbers).collect(),
        ..Recorded::default()
    };
    recorded.success = recorded.labels.iter().flatten().copied().reduce(|a, b| a | b);
    observations.iter().for_each(|observation| observe(&mut recorded, observation));
    if labels.len() != observations.len() {
        recorded.uneven = Some(format!("{} labels for {} observations", labels.len(), observations.len()));
    }
    Ok(recorded)
}

fn one_number(value: &PyValue) -> Option<f32> {
    value.to_f64().map(|number| number as f32)
}

/// What the name or the folder of a file says, where the file says otherwise.
fn disagreement(recorded: &Recorded, part: &Part) -> Option<String> {
    let success = recorded.success?;
    let stem = part.path.file_stem()?.to_string_lossy();
    let by_name = [("_success", true), ("_fail", false), ("_failure", false)];
    let named = by_name.into_iter().find(|(end, _)| stem.ends_with(end)).map(|(_, outcome)| outcome);
    let folder = part.path.parent().and_then(|folder| folder.file_name()).unwrap_or_default();
    let in_folder = match folder.to_str() {
        Some("success" | "positive") => Some(true),
        Some("failure" | "negative") => Some(false),
        _ => None,
    };
    for (who, said) in [("its name", named), ("its folder", in_folder)] {
        if said.is_some_and(|said| said != success) {
            let [said, found] = [!success, success].map(outcome_name);
            return Some(format!("{who} says {said}, the file {found}"));
        }
    }
    None
}
