//! What is in the folder: datasets, episodes and models, found while pages are already open.
//!
//! One thread looks for datasets and then reads every item once, for what the list of episodes says of it. Of an item that was read
//! a line is kept; recordings that pages ask for are kept open, a few at a time.

mod episode;
mod scan;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use plaudit_data::recording::{Recording, Recordings};
use serde_json::json;

pub(crate) use episode::{EpisodeRow, ItemRow};

use crate::error::StudioError;
use crate::events::Events;
use crate::folder::Folder;
use crate::http::{Params, Refusal, encode};
use crate::labels::LABELS_FOLDER;
use crate::lru::Lru;

/// Recordings that are kept open.
const OPEN_ITEMS: usize = 6;
/// How often pages hear how far reading is.
const TELL_EVERY: Duration = Duration::from_millis(400);

/// A dataset of the folder.
pub(crate) struct Dataset {
    /// Its path below the folder, which is what pages call it.
    pub(crate) name: Arc<str>,
    pub(crate) path: PathBuf,
    /// Its format in one word.
    pub(crate) format: &'static str,
    /// What a table of labels calls each item.
    pub(crate) label_names: Vec<String>,
    recordings: Recordings,
    rows: RwLock<Vec<Option<Arc<ItemRow>>>>,
    known: AtomicUsize,
}

impl Dataset {
    fn new(name: String, recordings: Recordings) -> Self {
        let label_names = recordings.label_names();
        let rows = RwLock::new(vec![None; recordings.len()]);
        let (path, format) = (recordings.path.clone(), recordings.format.name());
        Self { name: name.into(), path, format, label_names, recordings, rows, known: AtomicUsize::new(0) }
    }

    /// How many items it has.
    pub(crate) fn len(&self) -> usize {
        self.recordings.len()
    }

    /// How many of them were read.
    pub(crate) fn known(&self) -> usize {
        self.known.load(Ordering::Relaxed)
    }

    /// What is known of an item; nothing before it was read.
    pub(crate) fn row(&self, item: usize) -> Option<Arc<ItemRow>> {
        self.rows.read().unwrap_or_else(PoisonError::into_inner).get(item).cloned().flatten()
    }

    /// What is known of every item.
    pub(crate) fn rows(&self) -> Vec<Option<Arc<ItemRow>>> {
        self.rows.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn first_unknown(&self) -> Option<usize> {
        self.rows.read().unwrap_or_else(PoisonError::into_inner).iter().position(Option::is_none)
    }

    fn keep(&self, item: usize, row: ItemRow) {
        let mut rows = self.rows.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = rows.get_mut(item)
            && place.replace(Arc::new(row)).is_none()
        {
            self.known.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// One episode: its dataset, its item there, and which of several it is.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct EpisodeKey {
    pub(crate) dataset: Arc<str>,
    pub(crate) item: usize,
    pub(crate) part: usize,
}

#[derive(Default)]
struct Found {
    datasets: Vec<Arc<Dataset>>,
    models: Vec<PathBuf>,
    /// What is in the folder and not shown, and why.
    left_out: Vec<String>,
    is_scanned: bool,
    /// The dataset that somebody looks at.
    preferred: Option<Arc<str>>,
}

/// Recordings by their dataset and item.
type OpenItems = Lru<(Arc<str>, usize), Arc<Vec<Recording>>>;

/// What is in the folder.
pub(crate) struct Library {
    folder: Folder,
    found: Mutex<Found>,
    changed: Condvar,
    opened: Mutex<OpenItems>,
    is_stopped: AtomicBool,
}

impl Library {
    pub(crate) fn new(folder: Folder) -> Self {
        let (found, changed, opened) = (Mutex::default(), Condvar::new(), Mutex::new(Lru::new(OPEN_ITEMS)));
        Self { folder, found, changed, opened, is_stopped: AtomicBool::new(false) }
    }

    /// Begins to look, on a thread of its own.
    pub(crate) fn start(self: &Arc<Self>, events: &Arc<Events>) -> Result<(), StudioError> {
        let (library, events) = (self.clone(), events.clone());
        let look = move || {
            scan::scan(&library, &events);
            library.read_all(&events);
        };
        std::thread::Builder::new().name("library".into()).spawn(look)?;
        Ok(())
    }

    /// Lets the thread end.
    pub(crate) fn stop(&self) {
        self.is_stopped.store(true, Ordering::Relaxed);
        self.changed.notify_all();
    }

    fn found(&self) -> MutexGuard<'_, Found> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Relaxed)
    }

    /// Every dataset that was found so far, after waiting a little for the first look to end.
    pub(crate) fn datasets(&self, patience: Duration) -> Vec<Arc<Dataset>> {
        let until = Instant::now() + patience;
        let mut found = self.found();
        while !found.is_scanned && Instant::now() < until {
            let left = until.saturating_duration_since(Instant::now());
            let waited = self.changed.wait_timeout(found, left);
            found = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        found.datasets.clone()
    }

    /// Whether all of the folder was looked at.
    pub(crate) fn is_scanned(&self) -> bool {
        self.found().is_scanned
    }

    /// What is not shown, and why.
    pub(crate) fn left_out(&self) -> Vec<String> {
        self.found().left_out.clone()
    }

    /// Reward models that lie in the folder.
    pub(crate) fn models(&self) -> Vec<PathBuf> {
        self.found().models.clone()
    }

    /// A reward model that was made here meanwhile.
    pub(crate) fn add_model(&self, path: PathBuf) {
        let mut found = self.found();
        if !found.models.contains(&path) {
            found.models.push(path);
        }
    }

    /// A dataset by its name.
    pub(crate) fn dataset(&self, name: &str) -> Result<Arc<Dataset>, Refusal> {
        // Somebody who opens an address of yesterday comes before the first look has ended.
        let find =
            |datasets: &[Arc<Dataset>]| datasets.iter().find(|dataset| *dataset.name == *name).cloned();
        if let Some(dataset) = find(&self.found().datasets) {
            return Ok(dataset);
        }
        let datasets = self.datasets(Duration::from_secs(5));
        find(&datasets)
            .ok_or_else(|| Refusal::not_found(format!("there is no dataset `{name}` in this folder")))
    }

    /// Reads this dataset before the others.
    pub(crate) fn prefer(&self, name: &Arc<str>) {
        self.found().preferred = Some(name.clone());
        self.changed.notify_all();
    }

    /// The recordings of an item, kept open for a while.
    pub(crate) fn open(&self, dataset: &Dataset, item: usize) -> Result<Arc<Vec<Recording>>, Refusal> {
        let key = (dataset.name.clone(), item);
        if let Some(kept) = self.opened.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return Ok(kept);
        }
        if item >= dataset.len() {
            return Err(Refusal::not_found(format!("`{}` has {} items", dataset.name, dataset.len())));
        }
        self.refuse_outside(dataset, item)?;
        let read = dataset.recordings.read(item).map_err(|bad| Refusal::failed(bad.to_string()))?;
        dataset.keep(item, ItemRow::of(&read));
        let read = Arc::new(read);
        self.opened.lock().unwrap_or_else(PoisonError::into_inner).put(key, read.clone(), 1);
        Ok(read)
    }

    /// One episode: the recordings of its item, in which it has its place.
    pub(crate) fn episode(&self, key: &EpisodeKey) -> Result<OpenEpisode, Refusal> {
        let dataset = self.dataset(&key.dataset)?;
        let recordings = self.open(&dataset, key.item)?;
        match key.part < recordings.len() {
            true => Ok(OpenEpisode { dataset, recordings, key: key.clone() }),
            false => Err(Refusal::not_found("there is no such episode")),
        }
    }

    /// Refuses a file that lies outside by now: links may have changed.
    fn refuse_outside(&self, dataset: &Dataset, item: usize) -> Result<(), Refusal> {
        let file = dataset.recordings.file(item).filter(|file| file.exists());
        match file.is_some_and(|file| self.folder.inside(file).is_none()) {
            true => Err(Refusal::forbidden("it lies outside of the folder")),
            false => Ok(()),
        }
    }

    /// Reads every item once.
    fn read_all(&self, events: &Events) {
        let mut told = Instant::now();
        while !self.is_stopped() {
            let Some((dataset, item)) = self.next_unknown() else {
                let found = self.found();
                // Only somebody's look at a dataset can make more to read.
                drop(self.changed.wait_timeout(found, Duration::from_secs(60)));
                continue;
            };
            let row = match self.refuse_outside(&dataset, item) {
                Err(refusal) => ItemRow::Broken(refusal.why),
                Ok(()) => match dataset.recordings.read(item) {
                    Ok(read) => ItemRow::of(&read),
                    Err(bad) => ItemRow::Broken(bad.to_string()),
                },
            };
            dataset.keep(item, row);
            if told.elapsed() > TELL_EVERY || dataset.known() == dataset.len() {
                told = Instant::now();
                let (known, all) = (dataset.known(), dataset.len());
                events.tell("read", &json!({"dataset": &*dataset.name, "known": known, "all": all}));
            }
        }
    }

    fn next_unknown(&self) -> Option<(Arc<Dataset>, usize)> {
        let found = self.found();
        let is_preferred = |dataset: &&Arc<Dataset>| Some(&dataset.name) == found.preferred.as_ref();
        let first = found.datasets.iter().find(is_preferred).into_iter();
        let mut in_order = first.chain(&found.datasets).filter(|dataset| dataset.known() < dataset.len());
        in_order.find_map(|dataset| Some((dataset.clone(), dataset.first_unknown()?)))
    }
}

/// An episode that is open.
#[derive(Clone)]
pub(crate) struct OpenEpisode {
    pub(crate) dataset: Arc<Dataset>,
    recordings: Arc<Vec<Recording>>,
    pub(crate) key: EpisodeKey,
}

impl OpenEpisode {
    pub(crate) fn recording(&self) -> &Recording {
        &self.recordings[self.key.part]
    }

    /// Whether its item has no other episode, so that a table of labels can name it.
    pub(crate) fn is_alone(&self) -> bool {
        self.recordings.len() == 1
    }

    /// What a table of labels calls it.
    pub(crate) fn label_name(&self) -> &str {
        self.dataset.label_names.get(self.key.item).map_or("", String::as_str)
    }
}

/// Whether a name is one that nobody means: hidden, or a build's.
fn is_skipped(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.starts_with('.')
        || matches!(&*name, "target" | "node_modules" | "__pycache__" | "tensorboard" | LABELS_FOLDER)
}

impl EpisodeKey {
    /// Where it is shown.
    pub(crate) fn address(&self, path: &str) -> String {
        format!("{path}?d={}&i={}&s={}", encode(&self.dataset), self.item, self.part)
    }

    /// The episode that a request is about.
    pub(crate) fn of(params: &Params) -> Result<Self, Refusal> {
        let (item, part) = (params.need_parsed("i")?, params.parsed("s")?.unwrap_or(0));
        Ok(Self { dataset: params.need("d")?.into(), item, part })
    }
}
