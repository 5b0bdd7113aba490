//! A list of transitions of a real robot, cut where its episodes end.

use plaudit_core::End;
use plaudit_pyfiles::{Array, PyValue};

use super::formats::Format;
use super::item::Item;
use super::observation::{Observation, numbers};
use super::probe::FirstPickle;
use super::rules::ROBOT_SUCCESS_REWARD;
use super::{AfterLast, FileProblem, Recording, Rules, keys};

pub(super) const FORMAT: Format = Format {
    name: "transitions",
    describe: "transitions of a real robot",
    is_at: |probe| {
        let FirstPickle::Value(_, value) = probe.pickle()? else { return Ok(false) };
        Ok(value.as_items().and_then(<[_]>::first).is_some_and(|first| first.get("transitions").is_some()))
    },
    items: |path| {
        let file = if path.is_dir() { path.join("data.pkl") } else { path.into() };
        Ok(vec![Item::file(file, read)].into())
    },
    location: |entry, key| format!("[{entry}][\"transitions\"][\"obs\"][\"{key}\"]"),
    ..Format::COLLECTED
};

fn read(value: &PyValue, rules: &Rules) -> Result<Vec<Recording>, FileProblem> {
    let not_a_list =
        || FileProblem::Kind { location: "the file".into(), expected: "list", found: value.kind() };
    let entries = value.as_items().ok_or_else(not_a_list)?;
    if entries.is_empty() {
        return Err(FileProblem::Empty { key: "transitions" });
    }
    let mut episodes = Vec::new();
    let mut current = Recording::default();
    for (at, entry) in entries.iter().enumerate() {
        let end = add(&mut current, entry, at, rules)?;
        if end.is_end() || at + 1 == entries.len() {
            let first = at + 1 - current.labels.len();
            current.name = format!("[{first}..{}]", at + 1);
            current.success = Some(current.labels.contains(&Some(true)));
            current.entries = Some((first..=at).collect());
            current.position[1] = Some(episodes.len() as u64);
            let next = entry.get("transitions").and_then(|sides| sides.get("next_obs"));
            current.after_last = match next {
                Some(next) => AfterLast::Seen(Observation::Dict(next.clone())),
                None => AfterLast::Unknown,
            };
            episodes.push(std::mem::take(&mut current));
        }
    }
    Ok(episodes)
}

fn add(recording: &mut Recording, entry: &PyValue, at: usize, rules: &Rules) -> Result<End, FileProblem> {
    let location = format!("[{at}]");
    let need = |key: &str| keys::need(entry, key, &location);
    let flag = |key: &str| keys::to_bool(need(key)?, || format!("{location}[\"{key}\"]"));
    let end = keys::end(flag("terminations")?, flag("truncations")?);
    let seen = keys::need(need("transitions")?, "obs", &location)?;
    let reward = keys::number(need("rewards")?, || format!("{location}[\"rewards\"]"))?;
    let action = need("action")?;
    recording.left_out.push(is_idle(action, rules.idle_action, &location)? && end != End::Terminated);
    recording.observations.push(Observation::Dict(seen.clone()));
    recording.actions.push(numbers(action));
    recording.rewards.push(reward);
    recording.ends.push(end);
    recording.labels.push(Some(reward > rules.success_reward.unwrap_or(ROBOT_SUCCESS_REWARD)));
    Ok(end)
}

fn is_idle(action: &PyValue, below: f64, location: &str) -> Result<bool, FileProblem> {
    let numbers = action.as_array().and_then(Array::to_f64);
    let kind = || FileProblem::Kind {
        location: format!("{location}[\"action\"]"),
        expected: "torch tensor",
        found: action.kind(),
    };
    Ok(numbers.ok_or_else(kind)?.iter().map(|x| x.abs()).sum::<f64>() < below)
}
