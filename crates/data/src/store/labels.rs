//! Labels that are added after the episode: small files beside the large ones.

use std::path::Path;

use super::VERSION;
use super::columns::{ColumnFile, Kind};
use super::encode::{Encoded, floats, misfit};
use super::error::{Damage, StoreError};
use super::id::EpisodeId;

/// What the metadata of a file of labels calls it.
pub(super) const FORMAT: &str = "plaudit labels";

/// One number for every entry of an episode, added after the fact.
#[derive(Clone, Debug, PartialEq)]
pub struct Labels {
    /// What they are called: `success`, `progress`, `reward_model_3`.
    pub name: String,
    /// One per entry, `[N + 1]`; not a number where nothing was said.
    pub values: Vec<f32>,
    /// Who says so: a person, a model with its hash, a rule.
    pub by: String,
}

/// Labels in a store.
#[derive(Clone, Debug)]
pub(super) struct StoredLabels {
    name: String,
    file: ColumnFile,
    range: std::ops::Range<usize>,
}

impl StoredLabels {
    /// Opens a file of labels for an episode of so many entries.
    pub(super) fn open(
        path: &Path,
        name: &str,
        episode: EpisodeId,
        entries: usize,
    ) -> Result<Self, StoreError> {
        let file = ColumnFile::open(path, FORMAT)?;
        let range = range(&file, name, episode, entries).map_err(|damage| damage.in_file(path))?;
        Ok(Self { name: name.into(), file, range })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn values(&self) -> &[f32] {
        self.file.floats(&self.range)
    }

    pub(super) fn file(&self) -> &ColumnFile {
        &self.file
    }
}

fn range(
    file: &ColumnFile,
    name: &str,
    episode: EpisodeId,
    entries: usize,
) -> Result<std::ops::Range<usize>, Damage> {
    for (field, expected) in [("name", name.to_string()), ("episode", episode.to_string())] {
        let found = file.metadata.get(field).cloned().unwrap_or_default();
        if found != expected {
            return Err(Damage::Manifest { field, found, expected });
        }
    }
    let column = file.need("label", Kind::F32, 1)?;
    if column.shape != [entries] {
        return Err(Damage::column(
            "label",
            format!("has {} numbers for {entries} entries", column.shape[0]),
        ));
    }
    Ok(column.range.clone())
}

/// The file of labels for an episode.
pub(super) fn encode<'a>(
    labels: &Labels,
    episode: EpisodeId,
    entries: usize,
) -> Result<Encoded<'a>, StoreError> {
    if labels.values.len() != entries {
        let what = format!("the labels `{}`", labels.name);
        return Err(misfit(&what, format!("{} numbers", labels.values.len()), &entries.to_string()));
    }
    let metadata = [
        ("format", FORMAT.to_string()),
        ("version", VERSION.to_string()),
        ("episode", episode.to_string()),
        ("name", labels.name.clone()),
    ];
    Ok(Encoded::new(&metadata, vec![floats("label", vec![entries], labels.values.clone())]))
}
