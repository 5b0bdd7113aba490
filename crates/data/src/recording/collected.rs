//! One pickle per episode: lists of observations and infos, as RLinf's `CollectEpisode` writes them, and as it did before
//! success had one name.

use plaudit_core::End;
use plaudit_pyfiles::PyValue;

use super::keys::{self, items, one_number};
use super::observation::{Observation, numbers};
use super::{FileProblem, Recording};

/// Which infos say what succeeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Generation {
    /// `success`, else `episode.success_once`.
    Current,
    /// `is_obj_placed`; the last observation belongs to the next episode.
    PreMerge,
}

impl Generation {
    fn success(self, info: &PyValue) -> Option<&PyValue> {
        let once = || info.get("episode").and_then(|episode| episode.get("success_once"));
        match self {
            Self::Current => info.get("success").or_else(once),
            Self::PreMerge => info.get("is_obj_placed"),
        }
    }

    fn key(self) -> &'static str {
        if self == Self::Current { "success" } else { "is_obj_placed" }
    }
}

pub(super) fn read(episode: &PyValue, generation: Generation) -> Result<Recording, FileProblem> {
    let observations = keys::need_list(episode, "observations")?;
    let infos = items(episode, "infos");
    let label = |(at, info): (usize, &PyValue)| {
        if info.as_dict().is_none() {
            let (location, found) = (format!("infos[{at}]"), info.kind());
            return Err(FileProblem::Kind { location, expected: "dict", found });
        }
        keys::known_label(generation.success(info), || format!("infos[{at}][\"{}\"]", generation.key()))
    };
    let last = observations.len() - 1;
    let number = |key: &str| {
        let number = episode.get(key).and_then(PyValue::to_i64);
        number.and_then(|number| u64::try_from(number).ok()).unwrap_or(0)
    };
    let mut recording = Recording {
        actions: items(episode, "actions").iter().map(numbers).collect(),
        rewards: items(episode, "rewards").iter().filter_map(one_number).collect(),
        ends: (0..=last).map(|at| end(episode, at)).collect(),
        labels: infos.iter().enumerate().map(label).collect::<Result<_, _>>()?,
        left_out: (0..=last).map(|at| generation == Generation::PreMerge && at == last).collect(),
        success: keys::known_label(episode.get("success"), || "`success`".into())?,
        position: (number("env_idx") as usize, number("episode_id"), number("step")),
        unlabelled: keys::need_list(episode, "infos").err(),
        uneven: uneven(episode, observations.len()),
        observations: observations.iter().cloned().map(Observation::Dict).collect(),
        ..Recording::default()
    };
    if generation == Generation::PreMerge && last == 0 {
        recording.unlabelled = Some(FileProblem::Empty { key: "observations" });
    }
    recording.task = recording.observations.iter().find_map(Observation::task).map(Into::into);
    Ok(recording)
}

fn end(episode: &PyValue, at: usize) -> End {
    let flag = |key: &str| items(episode, key).get(at).and_then(PyValue::to_bool) == Some(true);
    match (flag("terminated"), flag("truncated")) {
        (true, _) => End::Terminated,
        (false, true) => End::Truncated,
        (false, false) => End::No,
    }
}

fn uneven(episode: &PyValue, seen: usize) -> Option<String> {
    let done = items(episode, "actions").len();
    let mut uneven = None;
    if done > 0 && seen != done + 1 && seen != done {
        uneven = Some(format!("{seen} observations for {done} actions"));
    }
    for name in ["rewards", "infos"] {
        let length = items(episode, name).len();
        if length != seen && length != done {
            uneven = Some(format!("{length} {name} for {seen} observations"));
        }
    }
    uneven
}
