//! A list of transitions of a real robot, cut where its episodes end.

use plaudit_core::End;
use plaudit_pyfiles::{Array, PyValue};

use super::observation::{Observation, numbers};
use super::rules::{IDLE_ACTION, ROBOT_SUCCESS_REWARD};
use super::{FileProblem, Recording, keys};

pub(super) fn read(value: &PyValue) -> Result<Vec<Recording>, FileProblem> {
    let not_a_list =
        || FileProblem::Kind { location: "the file".into(), expected: "list", found: value.kind() };
    let entries = value.as_items().ok_or_else(not_a_list)?;
    if entries.is_empty() {
        return Err(FileProblem::Empty { key: "transitions" });
    }
    let mut episodes = Vec::new();
    let mut current = Recording::default();
    for (at, entry) in entries.iter().enumerate() {
        let end = add(&mut current, entry, at)?;
        if end.is_end() || at + 1 == entries.len() {
            let first = at + 1 - current.labels.len();
            current.name = format!("[{first}..{}]", at + 1);
            current.success = Some(current.labels.contains(&Some(true)));
            current.entries = Some((first..=at).collect());
            current.position.1 = episodes.len() as u64;
            let next = entry.get("transitions").and_then(|sides| sides.get("next_obs"));
            current.after_last = next.cloned().map(Observation::Dict);
            episodes.push(std::mem::take(&mut current));
        }
    }
    Ok(episodes)
}

fn add(recording: &mut Recording, entry: &PyValue, at: usize) -> Result<End, FileProblem> {
    let location = format!("[{at}]");
    let need = |key: &str| keys::need(entry, key, &location);
    let flag = |key: &str| keys::to_bool(need(key)?, || format!("{location}[\"{key}\"]"));
    let end = match (flag("terminations")?, flag("truncations")?) {
        (true, _) => End::Terminated,
        (false, true) => End::Truncated,
        (false, false) => End::No,
    };
    let seen = keys::need(need("transitions")?, "obs", &location)?;
    let reward = keys::number(need("rewards")?, || format!("{location}[\"rewards\"]"))?;
    let action = need("action")?;
    recording.left_out.push(is_idle(action, &location)? && end != End::Terminated);
    recording.observations.push(Observation::Dict(seen.clone()));
    recording.actions.push(numbers(action));
    recording.rewards.push(reward as f32);
    recording.ends.push(end);
    recording.labels.push(Some(reward > ROBOT_SUCCESS_REWARD));
    Ok(end)
}

fn is_idle(action: &PyValue, location: &str) -> Result<bool, FileProblem> {
    let numbers = action.as_array().and_then(Array::to_f64);
    let kind = || FileProblem::Kind {
        location: format!("{location}[\"action\"]"),
        expected: "torch tensor",
        found: action.kind(),
    };
    Ok(numbers.ok_or_else(kind)?.iter().map(|x| x.abs()).sum::<f64>() < IDLE_ACTION)
}
