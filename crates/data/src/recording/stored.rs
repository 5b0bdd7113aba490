//! Episodes of plaudit's own store.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::error::OpenError;
use super::formats::Format;
use super::item::{Item, Items};
use super::{FileProblem, Observation, Recording, Rules, Unit};
use crate::store::{EpisodeId, Store, StoredEpisode};

/// In a store of chosen images, the fact that says which entry of its recording a frame is.
const FRAME: &str = "frame";
const MANIFEST: &str = "manifest.jsonl";

pub(super) const FORMAT: Format = Format {
    name: "store",
    describe: "a plaudit store",
    is_at: |probe| Ok(probe.is_named(MANIFEST) || Store::is_at(probe.path)),
    items: |path| {
        let is_manifest = path.file_name().is_some_and(|name| name == MANIFEST);
        let folder = if is_manifest { path.parent().unwrap_or(Path::new(".")) } else { path };
        episodes(&[(folder.into(), None)])
    },
    ..Format::EPISODES
};

/// The stores in a folder, each with its name: `train` and `val` of a dataset.
pub(crate) fn stores_below(path: &Path) -> Vec<(PathBuf, Option<String>)> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let named = entries.map(|entry| (entry.path(), entry.file_name().to_str().map(String::from)));
    let visible = |(path, name): &(PathBuf, Option<String>)| {
        Store::is_at(path) && name.as_ref().is_some_and(|name| !name.starts_with('.'))
    };
    let mut stores: Vec<_> = named.filter(visible).collect();
    stores.sort();
    stores
}

/// All episodes of the stores in a folder.
pub(super) fn below(path: &Path) -> Result<Items, OpenError> {
    episodes(&stores_below(path))
}

/// All episodes of these stores, each with the name of its split.
fn episodes(stores: &[(PathBuf, Option<String>)]) -> Result<Items, OpenError> {
    let mut items = Vec::new();
    for (path, split) in stores {
        let store = Arc::new(Store::open(path)?);
        items.extend(store.episodes().iter().map(|entry| {
            let (store, id) = (store.clone(), entry.id);
            let file = path.join(format!("episodes/{id}.safetensors"));
            let read = move |rules: &Rules| Ok(vec![read(&store, id, rules)?]);
            Item { split: split.clone(), home: Some(path.clone()), ..Item::new(file, read) }
        }));
    }
    Ok(items.into())
}

fn read(store: &Store, id: EpisodeId, rules: &Rules) -> Result<Recording, FileProblem> {
    let episode = Arc::new(store.episode(id)?);
    check_labels(&episode, &rules.added_labels)?;
    // Labelled images have no actions, and so no states or rewards that mean something.
    let has_actions = !episode.actions().is_empty();
    let added = episode.labels(&rules.added_labels);
    let label = |at: usize| match added.map(|labels| labels[at]) {
        Some(label) => (!label.is_nan()).then_some(label != 0.0),
        None => episode.success_at(at),
    };
    let recorded = episode.fact(FRAME).filter(|indices| indices.iter().all(|index| *index >= 0.0));
    let (row, number, batch_step) = episode.position();
    let all = || 0..episode.entries();
    let steps = || (0..episode.entries()).filter(|_| has_actions);
    Ok(Recording {
        unit: if has_actions { Unit::Episode } else { Unit::Images },
        observations: all().map(|at| Observation::Stored(episode.clone(), at)).collect(),
        actions: (0..episode.len()).filter(|_| has_actions).map(|at| episode.action(at).to_vec()).collect(),
        rewards: steps().map(|at| f64::from(episode.rewards()[at])).collect(),
        ends: all().map(|at| episode.end(at)).collect(),
        facts: all().map(|at| episode.timestep(at).facts).collect(),
        labels: all().map(label).collect(),
        left_out: all().map(|at| added.is_some_and(|labels| labels[at].is_nan())).collect(),
        success: Some(episode.success()),
        task: episode.task().map(Arc::from),
        position: [row as u64, number, batch_step].map(Some),
        entries: recorded.map(|entries| entries.iter().map(|entry| *entry as usize).collect()),
        ..Recording::default()
    })
}

/// Labels that were added are 0, 1, or NaN where there is none.
fn check_labels(episode: &StoredEpisode, name: &str) -> Result<(), FileProblem> {
    let is_label = |label: &f32| label.is_nan() || *label == 0.0 || *label == 1.0;
    let labels = episode.labels(name).unwrap_or_default();
    let Some(at) = labels.iter().position(|label| !is_label(label)) else { return Ok(()) };
    let location = format!("label {at} of `{name}` of episode {}", episode.id());
    Err(FileProblem::Label { location, found: labels[at].to_string() })
}
