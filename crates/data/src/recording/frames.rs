//! Pickles with a list of `frames`, in folders `success` and `failure`.

use plaudit_pyfiles::PyValue;

use super::keys::{self, one_number};
use super::observation::{Observation, numbers};
use super::rules::EPISODE_LABEL;
use super::{FileProblem, Recording};

/// `outcome` is what the folder says.
pub(super) fn read(episode: &PyValue, outcome: Option<bool>) -> Result<Recording, FileProblem> {
    let entries = keys::need_list(episode, "frames")?;
    let said = EPISODE_LABEL.iter().find_map(|key| episode.get(key));
    let mut recording =
        Recording { success: keys::known_label(said, || "`label`".into())?, ..Recording::default() };
    let of_episode = recording.success.or(outcome);
    for (at, entry) in entries.iter().enumerate() {
        let own = keys::known_label(entry.get("success"), || format!("frames[{at}][\"success\"]"))?;
        recording.labels.push(own.or(of_episode));
        let observation = keys::need(entry, "obs", &format!("frames[{at}]"))?;
        recording.observations.push(Observation::Dict(observation.clone()));
        recording.actions.extend(entry.get("action").map(numbers));
        recording.rewards.extend(entry.get("reward").and_then(one_number));
    }
    Ok(recording)
}
