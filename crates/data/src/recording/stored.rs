//! Episodes of plaudit's own store.

use std::sync::Arc;

use super::rules::ADDED_LABEL;
use super::{FileProblem, Observation, Recording, Unit};
use crate::store::{EpisodeId, Store, StoredEpisode};

/// In a store of chosen images, the fact that says which entry of its recording a frame is.
const FRAME: &str = "frame";

pub(super) fn read(store: &Store, id: EpisodeId) -> Result<Recording, FileProblem> {
    let episode = Arc::new(store.episode(id)?);
    check_labels(&episode)?;
    // Labelled images have no actions, and so no states or rewards that mean something.
    let has_actions = !episode.actions().is_empty();
    let added = episode.labels(ADDED_LABEL);
    let label = |at: usize| match added.map(|labels| labels[at]) {
        Some(label) => (!label.is_nan()).then_some(label != 0.0),
        None => episode.success_at(at),
    };
    let recorded = episode.fact(FRAME).filter(|indices| indices.iter().all(|index| *index >= 0.0));
    let all = || 0..episode.entries();
    let steps = || (0..episode.entries()).filter(|_| has_actions);
    Ok(Recording {
        unit: if has_actions { Unit::Episode } else { Unit::Images },
        observations: all().map(|at| Observation::Stored(episode.clone(), at)).collect(),
        actions: (0..episode.len()).filter(|_| has_actions).map(|at| episode.action(at).to_vec()).collect(),
        rewards: steps().map(|at| episode.rewards()[at]).collect(),
        ends: all().map(|at| episode.end(at)).collect(),
        facts: all().map(|at| episode.timestep(at).facts).collect(),
        labels: all().map(label).collect(),
        left_out: all().map(|at| added.is_some_and(|labels| labels[at].is_nan())).collect(),
        success: Some(episode.success()),
        task: episode.task().map(Arc::from),
        position: episode.position(),
        entries: recorded.map(|entries| entries.iter().map(|entry| *entry as usize).collect()),
        ..Recording::default()
    })
}

/// Labels that were added are 0, 1, or NaN where there is none.
fn check_labels(episode: &StoredEpisode) -> Result<(), FileProblem> {
    let is_label = |label: &f32| label.is_nan() || *label == 0.0 || *label == 1.0;
    let labels = episode.labels(ADDED_LABEL).unwrap_or_default();
    let Some(at) = labels.iter().position(|label| !is_label(label)) else { return Ok(()) };
    let location = format!("label {at} of `{ADDED_LABEL}` of episode {}", episode.id());
    Err(FileProblem::Label { location, found: labels[at].to_string() })
}
