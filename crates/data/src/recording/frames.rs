//! Pickles with a list of `frames`, in folders `success` and `failure`.

use plaudit_pyfiles::PyValue;

use super::formats::Format;
use super::item::Item;
use super::keys;
use super::observation::{Observation, numbers};
use super::probe::by_outcome;
use super::{FileProblem, Recording, Rules};

const FOLDERS: [&str; 2] = ["success", "failure"];

pub(super) const FORMAT: Format = Format {
    name: "frames",
    describe: "episodes as frames, in folders success and failure",
    is_at: |probe| {
        Ok(probe.has_folder(FOLDERS) || probe.pickle()?.has("frames") && !probe.pickle()?.has("observations"))
    },
    items: |path| {
        let item = |(file, outcome)| {
            Item::file(file, move |value, rules| Ok(vec![read(value, outcome, rules)?])).with_outcome(outcome)
        };
        Ok(by_outcome(path, FOLDERS, "pkl")?.into_iter().map(item).collect::<Vec<_>>().into())
    },
    location: |entry, key| format!("frames[{entry}][\"obs\"][\"{key}\"]"),
    ..Format::COLLECTED
};

/// `outcome` is what the folder says.
fn read(episode: &PyValue, outcome: Option<bool>, rules: &Rules) -> Result<Recording, FileProblem> {
    let entries = keys::need_list(episode, "frames")?;
    let said = rules.episode_label_keys.iter().find_map(|key| episode.get(key));
    let mut recording =
        Recording { success: keys::known_label(said, || "`label`".into())?, ..Recording::default() };
    let of_episode = recording.success.or(outcome);
    for (at, entry) in entries.iter().enumerate() {
        let own = keys::known_label(entry.get("success"), || format!("frames[{at}][\"success\"]"))?;
        recording.labels.push(own.or(of_episode));
        let observation = keys::need(entry, "obs", &format!("frames[{at}]"))?;
        recording.observations.push(Observation::Dict(observation.clone()));
        recording.actions.extend(entry.get("action").map(numbers));
        recording.rewards.extend(entry.get("reward").map(keys::number_or_nan));
        let flag = |key: &str| entry.get(key).and_then(PyValue::to_bool) == Some(true);
        recording.ends.push(keys::end(flag("terminated"), flag("truncated")));
    }
    Ok(recording)
}
