//! What reward models say of episodes: asked for by pages, computed on one thread, kept for a while.

mod scorer;

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use plaudit_data::recording::Recording;
use plaudit_reward::open::OpenOptions;
use serde_json::json;

use self::scorer::OpenModel;
pub(crate) use self::scorer::{EpisodeScores, ModelFacts};
use crate::error::StudioError;
use crate::events::Events;
use crate::folder::Folder;
use crate::http::Refusal;
use crate::library::{EpisodeKey, Library};
use crate::lru::Lru;

/// Frames whose scores are kept, of all models together.
const KEPT_FRAMES: usize = 8 << 20;
/// Models that are open at once.
const OPEN_MODELS: usize = 2;
/// Episodes that may wait.
const MOST_JOBS: usize = 100_000;
/// How often pages hear how far an episode is.
const TELL_EVERY: Duration = Duration::from_millis(250);

/// A reward model that can be asked.
pub(crate) struct ModelEntry {
    /// What pages call it.
    pub(crate) name: Arc<str>,
    pub(crate) path: PathBuf,
    /// What it says of itself, once it was opened.
    facts: OnceLock<ModelFacts>,
}

impl ModelEntry {
    /// What it says of itself; nothing before it was opened.
    pub(crate) fn facts(&self) -> Option<&ModelFacts> {
        self.facts.get()
    }
}

/// Scores, or why there are none.
pub(crate) type Scored = Result<Arc<EpisodeScores>, Arc<str>>;
type ScoreKey = (Arc<str>, EpisodeKey);

struct Job {
    model: Arc<ModelEntry>,
    /// An item of a dataset, and the episode that a page waits for.
    episode: EpisodeKey,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    /// How many there were since it was empty.
    all: usize,
    done: usize,
}

/// All models, and what they said.
pub(crate) struct Scoring {
    folder: Folder,
    library: Arc<Library>,
    options: OpenOptions,
    given: Vec<Arc<ModelEntry>>,
    found: Mutex<Vec<Arc<ModelEntry>>>,
    scores: Mutex<Lru<ScoreKey, Scored>>,
    queue: Mutex<Queue>,
    changed: Condvar,
    is_stopped: AtomicBool,
}

impl Scoring {
    pub(crate) fn new(
        folder: Folder,
        library: Arc<Library>,
        models: &[PathBuf],
        options: OpenOptions,
    ) -> Self {
        let entry = |path: &PathBuf| {
            Arc::new(ModelEntry { name: name(&folder, path), path: path.clone(), facts: OnceLock::new() })
        };
        let given = models.iter().map(entry).collect();
        Self {
            folder,
            library,
            options,
            given,
            found: Mutex::default(),
            scores: Mutex::new(Lru::new(KEPT_FRAMES)),
            queue: Mutex::default(),
            changed: Condvar::new(),
            is_stopped: AtomicBool::new(false),
        }
    }

    /// Begins to compute, on a thread of its own.
    pub(crate) fn start(self: &Arc<Self>, events: &Arc<Events>) -> Result<(), StudioError> {
        let (scoring, events) = (self.clone(), events.clone());
        std::thread::Builder::new().name("scoring".into()).spawn(move || scoring.work(&events))?;
        Ok(())
    }

    pub(crate) fn stop(&self) {
        self.is_stopped.store(true, Ordering::Relaxed);
        self.changed.notify_all();
    }

    /// The models that were named, and those that were found.
    pub(crate) fn models(&self) -> Vec<Arc<ModelEntry>> {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        for path in self.library.models() {
            let real = |entry: &Arc<ModelEntry>| {
                entry.path == path || entry.path.canonicalize().is_ok_and(|own| holds(&own, &path))
            };
            if !self.given.iter().chain(found.iter()).any(real) {
                found.push(Arc::new(ModelEntry {
                    name: name(&self.folder, &path),
                    path,
                    facts: OnceLock::new(),
                }));
            }
        }
        self.given.iter().chain(found.iter()).cloned().collect()
    }

    /// A model by its name.
    pub(crate) fn model(&self, name: &str) -> Result<Arc<ModelEntry>, Refusal> {
        let model = self.models().into_iter().find(|model| *model.name == *name);
        model.ok_or_else(|| Refusal::not_found(format!("there is no model `{name}`")))
    }

    /// What a model said of an episode, if it was asked.
    pub(crate) fn scores(&self, model: &ModelEntry, episode: &EpisodeKey) -> Option<Scored> {
        let key = (model.name.clone(), episode.clone());
        self.scores.lock().unwrap_or_else(PoisonError::into_inner).get(&key)
    }

    /// Asks a model about an episode, before all that waits.
    pub(crate) fn ask(&self, model: &Arc<ModelEntry>, episode: &EpisodeKey) {
        if self.scores(model, episode).is_some_and(|scored| scored.is_ok()) {
            return;
        }
        let mut queue = self.queue();
        let is_same = |job: &Job| job.model.name == model.name && job.episode == *episode;
        if let Some(at) = queue.jobs.iter().position(is_same) {
            queue.jobs.remove(at);
        } else {
            queue.all += 1;
        }
        queue.jobs.push_front(Job { model: model.clone(), episode: episode.clone() });
        self.changed.notify_all();
    }

    /// Asks a model about many episodes, after all that waits.
    pub(crate) fn ask_all(&self, model: &Arc<ModelEntry>, episodes: &[EpisodeKey]) {
        let wanted: Vec<&EpisodeKey> =
            episodes.iter().filter(|episode| self.scores(model, episode).is_none()).collect();
        let mut queue = self.queue();
        for episode in wanted {
            let is_same = |job: &Job| job.model.name == model.name && job.episode == *episode;
            if queue.jobs.len() < MOST_JOBS && !queue.jobs.iter().any(is_same) {
                queue.jobs.push_back(Job { model: model.clone(), episode: episode.clone() });
                queue.all += 1;
            }
        }
        self.changed.notify_all();
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers what is asked, until it is stopped.
    fn work(&self, events: &Events) {
        let mut open: Vec<(Arc<str>, OpenModel)> = Vec::new();
        while !self.is_stopped.load(Ordering::Relaxed) {
            let Some(job) = self.next() else { continue };
            let scored = self.score(&job, &mut open, events);
            let (cost, error) = match &scored {
                Ok(scores) => (scores.scores.len().max(1), None),
                Err(why) => (1, Some(why.clone())),
            };
            let key = (job.model.name.clone(), job.episode.clone());
            self.scores.lock().unwrap_or_else(PoisonError::into_inner).put(key, scored, cost);
            let (done, all) = self.count_done();
            events.tell(
                "scored",
                &json!({"model": &*job.model.name, "d": &*job.episode.dataset, "i": job.episode.item, "s": job.episode.part,
                    "error": error.as_deref(), "done": done, "all": all}),
            );
        }
    }

    fn next(&self) -> Option<Job> {
        let mut queue = self.queue();
        if let Some(job) = queue.jobs.pop_front() {
            return Some(job);
        }
        drop(self.changed.wait_timeout(queue, Duration::from_secs(60)));
        None
    }

    fn count_done(&self) -> (usize, usize) {
        let mut queue = self.queue();
        queue.done += 1;
        let counted = (queue.done, queue.all);
        if queue.jobs.is_empty() {
            (queue.done, queue.all) = (0, 0);
        }
        counted
    }

    fn score(&self, job: &Job, open: &mut Vec<(Arc<str>, OpenModel)>, events: &Events) -> Scored {
        let scorer = self.opened(&job.model, open)?;
        let episode = self.library.episode(&job.episode).map_err(|refusal| Arc::from(refusal.why))?;
        let told = std::cell::Cell::new(Instant::now());
        let recording: &Recording = episode.recording();
        let progress = |done: usize| {
            if told.get().elapsed() > TELL_EVERY {
                told.set(Instant::now());
                events.tell(
                    "scoring",
                    &json!({"model": &*job.model.name, "d": &*job.episode.dataset, "i": job.episode.item, "s": job.episode.part,
                        "frames": done, "of": recording.len()}),
                );
            }
            !self.is_stopped.load(Ordering::Relaxed)
        };
        let scores = scorer.scores(recording, &progress).map_err(Arc::from)?;
        Ok(Arc::new(scores))
    }

    /// The model, opened if need be. Those that were not used for longest are closed.
    fn opened<'a>(
        &self,
        model: &ModelEntry,
        open: &'a mut Vec<(Arc<str>, OpenModel)>,
    ) -> Result<&'a OpenModel, Arc<str>> {
        if let Some(at) = open.iter().position(|(name, _)| *name == model.name) {
            let found = open.remove(at);
            open.push(found);
        } else {
            let scorer = OpenModel::open(&model.path, &self.options)?;
            let _ = model.facts.set(scorer.facts.clone());
            if open.len() >= OPEN_MODELS {
                open.remove(0);
            }
            open.push((model.name.clone(), scorer));
        }
        open.last().map(|(_, scorer)| scorer).ok_or_else(|| "no model is open".into())
    }
}

/// Whether a run, a folder of a checkpoint or a file is where another file lies.
fn holds(own: &Path, file: &Path) -> bool {
    own == file || plaudit_reward::open::ClassifierCheckpoint::locate(own).is_ok_and(|found| found == file)
}

/// What pages call a model: its path below the folder, without what every model is called.
fn name(folder: &Folder, path: &Path) -> Arc<str> {
    let real = path.canonicalize().unwrap_or_else(|_| path.into());
    let mut name =
        if real.starts_with(folder.root()) { folder.name(&real) } else { path.display().to_string() };
    for ending in ["/model.safetensors", "/checkpoints/best_model"] {
        if let Some(short) = name.strip_suffix(ending) {
            name = short.to_string();
        }
    }
    name.into()
}
