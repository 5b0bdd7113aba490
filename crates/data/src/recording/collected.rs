//! One pickle per episode: lists of observations and infos, as RLinf's `CollectEpisode` writes them, and as it did before
//! success had one name.

use std::path::Path;

use plaudit_core::End;
use plaudit_pyfiles::PyValue;

use super::error::OpenError;
use super::formats::Format;
use super::item::{Item, Items};
use super::keys::{self, items};
use super::observation::{Observation, numbers};
use super::probe::{FirstPickle, Probe, pickles};
use super::{FileProblem, Recording, Rules};

pub(super) const FORMAT: Format = Format {
    name: "collected",
    describe: "episodes, one pickle each",
    is_at: |probe| {
        Ok(matches!(probe.pickle()?, FirstPickle::Broken) || generation(probe)? == Some(Generation::Current))
    },
    items: |path| files(path, Generation::Current),
    ..Format::COLLECTED
};

pub(super) const PRE_MERGE: Format = Format {
    name: "pre-merge",
    describe: "episodes of RLinf's earlier collector, one pickle each",
    is_at: |probe| Ok(generation(probe)? == Some(Generation::PreMerge)),
    items: |path| files(path, Generation::PreMerge),
    ..Format::COLLECTED
};

/// Every pickle of a folder, or of the folders in it.
fn files(path: &Path, generation: Generation) -> Result<Items, OpenError> {
    let files = if path.is_file() { vec![path.into()] } else { pickles(path)? };
    let item = |file| Item::file(file, move |value, rules| Ok(vec![read(value, generation, rules)?]));
    Ok(files.into_iter().map(item).collect::<Vec<_>>().into())
}

/// Infos that say `is_obj_placed` and nothing that newer collectors say are of the earlier one.
fn generation(probe: &Probe<'_>) -> Result<Option<Generation>, OpenError> {
    let pickle = probe.pickle()?;
    let FirstPickle::Value(_, episode) = pickle else { return Ok(None) };
    if !pickle.has("observations") || pickle.has("labels") {
        return Ok(None);
    }
    let any = |key: &str| items(episode, "infos").iter().any(|info| info.get(key).is_some());
    let is_pre_merge = any("is_obj_placed") && !any("success") && !any("episode");
    Ok(Some(if is_pre_merge { Generation::PreMerge } else { Generation::Current }))
}

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

fn read(episode: &PyValue, generation: Generation, rules: &Rules) -> Result<Recording, FileProblem> {
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
    let skips_last = generation == Generation::PreMerge && rules.skip_next_reset;
    let number =
        |key: &str| episode.get(key).and_then(PyValue::to_i64).and_then(|number| u64::try_from(number).ok());
    let words = |key: &str| episode.get(key).and_then(PyValue::as_str).filter(|text| !text.is_empty());
    let mut recording = Recording {
        actions: items(episode, "actions").iter().map(numbers).collect(),
        rewards: keys::column(episode.get("rewards")),
        progress: keys::column(episode.get("gae")),
        ends: (0..=last).map(|at| end(episode, at)).collect(),
        labels: infos.iter().enumerate().map(label).collect::<Result<_, _>>()?,
        left_out: (0..=last).map(|at| skips_last && at == last).collect(),
        success: keys::known_label(episode.get("success"), || "`success`".into())?,
        position: ["env_idx", "episode_id", "step"].map(number),
        unlabelled: keys::need_list(episode, "infos").err(),
        uneven: uneven(episode, observations.len()),
        observations: observations.iter().cloned().map(Observation::Dict).collect(),
        own_task: words("task").or_else(|| words("task_description")).map(Into::into),
        ..Recording::default()
    };
    if skips_last && last == 0 {
        recording.unlabelled = Some(FileProblem::Empty { key: "observations" });
    }
    recording.task = recording.observations.iter().find_map(Observation::task).map(Into::into);
    Ok(recording)
}

fn end(episode: &PyValue, at: usize) -> End {
    let flag = |key: &str| items(episode, key).get(at).and_then(PyValue::to_bool) == Some(true);
    keys::end(flag("terminated"), flag("truncated"))
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
