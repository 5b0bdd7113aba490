//! Labels that people give here: a journal for each dataset, in a folder beside the data.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use plaudit_data::labelling::{LabellingError, SPANS_FILE, SpanJournal, SpanLabel};

use crate::folder::Folder;
use crate::http::Refusal;
use crate::library::{Dataset, ItemRow};

/// The folder of all labels, below the folder that is shown.
pub(crate) const LABELS_FOLDER: &str = "plaudit-labels";
/// The table of labels, in the folder of its journal.
pub(crate) const TABLE_FILE: &str = "labels.csv";

/// All journals.
pub(crate) struct Labels {
    folder: Folder,
    read_only: bool,
    open: Mutex<HashMap<String, SpanJournal>>,
}

impl Labels {
    pub(crate) fn new(folder: Folder, read_only: bool) -> Self {
        Self { folder, read_only, open: Mutex::default() }
    }

    /// Where the labels of a dataset lie.
    pub(crate) fn place(&self, dataset: &Dataset) -> Result<PathBuf, Refusal> {
        let labels = self.folder.root().join(LABELS_FOLDER);
        let place = if &*dataset.name == "." { labels } else { labels.join(&*dataset.name) };
        let nearest = place.ancestors().find(|path| path.exists());
        match nearest.is_some_and(|path| self.folder.inside(path).is_some()) {
            true => Ok(place),
            false => Err(Refusal::forbidden(format!("{LABELS_FOLDER} leads out of this folder"))),
        }
    }

    /// The labels of a dataset that stand.
    pub(crate) fn standing(&self, dataset: &Dataset) -> Result<Vec<SpanLabel>, Refusal> {
        let place = self.place(dataset)?;
        let mut open = self.open();
        if let Some(journal) = open.get(&*dataset.name) {
            return Ok(journal.standing().to_vec());
        }
        if self.read_only || !place.join(SPANS_FILE).exists() {
            return SpanJournal::read(&place, &dataset.name).map_err(|error| refusal(&error));
        }
        let journal = SpanJournal::open(&place, &dataset.name).map_err(|error| refusal(&error))?;
        let standing = journal.standing().to_vec();
        open.insert(dataset.name.to_string(), journal);
        Ok(standing)
    }

    /// Keeps a label. It is on the disk when this returns.
    pub(crate) fn label(&self, dataset: &Dataset, label: SpanLabel) -> Result<(), Refusal> {
        self.with_journal(dataset, |journal| journal.label(label))
    }

    /// Takes the last label of a person back, and gives it.
    pub(crate) fn undo(&self, dataset: &Dataset, by: &str) -> Result<Option<SpanLabel>, Refusal> {
        self.with_journal(dataset, |journal| journal.undo(by))
    }

    fn with_journal<T>(
        &self,
        dataset: &Dataset,
        work: impl FnOnce(&mut SpanJournal) -> Result<T, LabellingError>,
    ) -> Result<T, Refusal> {
        if self.read_only {
            return Err(Refusal::forbidden("this studio only reads: nothing is written"));
        }
        let place = self.place(dataset)?;
        let mut open = self.open();
        let journal = match open.entry(dataset.name.to_string()) {
            std::collections::hash_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::hash_map::Entry::Vacant(entry) => {
                entry.insert(SpanJournal::open(&place, &dataset.name).map_err(|error| refusal(&error))?)
            }
        };
        work(journal).map_err(|error| refusal(&error))
    }

    fn open(&self) -> MutexGuard<'_, HashMap<String, SpanJournal>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn refusal(error: &LabellingError) -> Refusal {
    match error {
        LabellingError::Setting { .. } => Refusal::bad(error.to_string()),
        LabellingError::InUse { .. } => Refusal::conflict(error.to_string()),
        _ => Refusal::failed(error.to_string()),
    }
}

/// How many frames each episode of a dataset has, by what a table of labels calls it.
pub(crate) fn lengths(dataset: &Dataset) -> HashMap<String, usize> {
    let length = |(item, name): (usize, &String)| match dataset.row(item).as_deref() {
        Some(ItemRow::Read(episodes)) if episodes.len() == 1 => Some((name.clone(), episodes[0].length)),
        _ => None,
    };
    dataset.label_names.iter().enumerate().filter_map(length).collect()
}
