//! Runs of the folder: found, followed while they go on, stopped and started.
//!
//! One thread looks for run directories and reads what is new in their logs. Of each run a few facts are kept, and not its curves:
//! those are read when a page asks, and kept for a few runs.

mod curves;
mod facts;
mod media;
mod process;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use plaudit_view::{EventTail, RunDir, RunProcess};
use serde_json::json;

use self::curves::OpenRun;
pub(crate) use self::curves::{RunCurves, thinned};
pub(crate) use self::facts::{RunFacts, RunState};
pub(crate) use self::media::{alarm_frames, media_type, videos};
pub(crate) use self::process::{RUNS_FOLDER, free_run, last_words, output_of, start, start_until_end};
use crate::backend::Backend;
use crate::error::StudioError;
use crate::events::Events;
use crate::folder::Folder;
use crate::http::Refusal;
use crate::lru::Lru;

/// How often logs are looked at, and how often the folder.
const FOLLOW_EVERY: Duration = Duration::from_millis(800);
const SCAN_EVERY: Duration = Duration::from_secs(2);
/// How deep run directories are looked for, and how many folders.
const DEEPEST: usize = 6;
const MOST_FOLDERS: usize = 5000;
/// Runs that are shown.
const MOST_RUNS: usize = 2000;
/// Runs whose curves are kept.
const OPEN_RUNS: usize = 12;

/// A run that is followed.
struct Followed {
    path: PathBuf,
    tail: EventTail,
    /// Bytes of the log when it was read last.
    bytes: u64,
    facts: RunFacts,
    /// What its config says that tells experiments apart; nothing before somebody asked.
    config: Option<Arc<Vec<(String, String)>>>,
}

/// All runs of the folder.
pub(crate) struct Runs {
    folder: Folder,
    followed: Mutex<BTreeMap<String, Followed>>,
    open: Mutex<Lru<String, Arc<Mutex<OpenRun>>>>,
    wake: (Mutex<bool>, Condvar),
    is_stopped: AtomicBool,
}

/// A run as pages see it.
#[derive(Debug, Clone)]
pub(crate) struct RunRow {
    /// Its path below the folder, which is what pages call it.
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    pub(crate) facts: RunFacts,
    pub(crate) state: RunState,
}

impl Runs {
    pub(crate) fn new(folder: Folder) -> Self {
        let (followed, open) = (Mutex::default(), Mutex::new(Lru::new(OPEN_RUNS)));
        Self {
            folder,
            followed,
            open,
            wake: (Mutex::default(), Condvar::new()),
            is_stopped: AtomicBool::new(false),
        }
    }

    /// Begins to follow, on a thread of its own.
    pub(crate) fn start(self: &Arc<Self>, events: &Arc<Events>) -> Result<(), StudioError> {
        let (runs, events) = (self.clone(), events.clone());
        std::thread::Builder::new().name("runs".into()).spawn(move || runs.follow_all(&events))?;
        Ok(())
    }

    pub(crate) fn stop(&self) {
        self.is_stopped.store(true, Ordering::Relaxed);
        self.wake.1.notify_all();
    }

    /// Looks at the folder again at once.
    pub(crate) fn look(&self) {
        *self.wake.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.wake.1.notify_all();
    }

    fn followed(&self) -> MutexGuard<'_, BTreeMap<String, Followed>> {
        self.followed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Every run, the newest first.
    pub(crate) fn rows(&self) -> Vec<RunRow> {
        let followed = self.followed();
        let mut rows: Vec<RunRow> = followed.iter().map(|(name, run)| row(name, run)).collect();
        rows.sort_by(|one, other| other.facts.started_secs.total_cmp(&one.facts.started_secs));
        rows
    }

    /// A run by its name.
    pub(crate) fn row(&self, name: &str) -> Result<RunRow, Refusal> {
        let followed = self.followed();
        let run = followed.get(name);
        run.map(|run| row(name, run))
            .ok_or_else(|| Refusal::not_found(format!("there is no run `{name}` in this folder")))
    }

    /// What the config of a run says that tells experiments apart; nothing where nobody can read it.
    pub(crate) fn config(
        &self,
        name: &str,
        backend: Option<&dyn Backend>,
    ) -> Option<Arc<Vec<(String, String)>>> {
        let path = match self.followed().get(name)? {
            Followed { config: Some(config), .. } => return Some(config.clone()),
            run => run.path.clone(),
        };
        self.folder.inside(&path.join("config.yaml"))?;
        let reported = backend?.reported(&RunDir::open(&path).ok()?).ok()?;
        let config = Arc::new(reported.config);
        self.followed().get_mut(name)?.config = Some(config.clone());
        Some(config)
    }

    /// The curves of a run, up to what its log says now.
    pub(crate) fn curves(&self, name: &str) -> Result<Arc<RunCurves>, Refusal> {
        let path = self.row(name)?.path;
        let run = {
            let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
            let kept = open.get(&name.to_string());
            kept.unwrap_or_else(|| {
                let run = Arc::new(Mutex::new(OpenRun::of(&path)));
                open.put(name.to_string(), run.clone(), 1);
                run
            })
        };
        let mut run = run.lock().unwrap_or_else(PoisonError::into_inner);
        run.news().map_err(|error| Refusal::failed(error.to_string()))
    }

    /// The process of a run that goes on, if it can be told apart from all others.
    pub(crate) fn process(&self, run: &RunRow) -> Option<RunProcess> {
        RunProcess::of(&run.path).filter(RunProcess::is_alive)
    }

    fn follow_all(&self, events: &Events) {
        let mut scanned: Option<Instant> = None;
        while !self.is_stopped.load(Ordering::Relaxed) {
            if scanned.is_none_or(|scanned| scanned.elapsed() > SCAN_EVERY) {
                if self.scan() {
                    events.tell("runs", &json!({}));
                }
                scanned = Some(Instant::now());
            }
            self.follow(events);
            let mut is_asked = self.wake.0.lock().unwrap_or_else(PoisonError::into_inner);
            if !*is_asked {
                is_asked = self
                    .wake
                    .1
                    .wait_timeout(is_asked, FOLLOW_EVERY)
                    .unwrap_or_else(PoisonError::into_inner)
                    .0;
            }
            if std::mem::take(&mut *is_asked) {
                scanned = None;
            }
        }
    }

    /// Looks for run directories; whether there are others than before.
    fn scan(&self) -> bool {
        let found = run_folders(&self.folder);
        let mut followed = self.followed();
        let before = followed.len();
        followed.retain(|_, run| run.path.exists());
        let is_fewer = followed.len() < before;
        let mut is_more = false;
        for path in found {
            let name = self.folder.name(&path);
            followed.entry(name).or_insert_with(|| {
                is_more = true;
                let (tail, facts) = (EventTail::of(&path), RunFacts::default());
                Followed { tail, bytes: 0, facts, path, config: None }
            });
        }
        is_more || is_fewer
    }

    /// Takes in what is new in the logs.
    fn follow(&self, events: &Events) {
        let names: Vec<String> = self.followed().keys().cloned().collect();
        for name in names {
            if self.is_stopped.load(Ordering::Relaxed) {
                return;
            }
            let Some(mut run) = self.followed().get_mut(&name).and_then(Followed::taken) else { continue };
            // Logs are read without the lock: they may be long.
            let before = RunState::of(&run.facts, &run.path);
            let has_news = run.read();
            let after = RunState::of(&run.facts, &run.path);
            if let Some(place) = self.followed().get_mut(&name) {
                run.config = place.config.take();
                *place = run;
                if has_news || before != after {
                    let RunFacts { step, steps, .. } = place.facts;
                    events.tell(
                        "run",
                        &json!({"run": name, "step": step, "steps": steps, "state": after.word()}),
                    );
                }
            }
        }
    }
}

impl Followed {
    /// This run, to be read elsewhere; nothing where its log has not grown.
    fn taken(&mut self) -> Option<Self> {
        let bytes = std::fs::metadata(self.path.join("events.jsonl")).map_or(0, |file| file.len());
        let is_live = self.facts.end.is_none();
        if bytes == self.bytes && !is_live {
            return None;
        }
        self.bytes = bytes;
        let tail = std::mem::replace(&mut self.tail, EventTail::of(&self.path));
        Some(Self { path: self.path.clone(), tail, bytes, facts: self.facts.clone(), config: None })
    }

    /// Reads what is new; whether anything is.
    fn read(&mut self) -> bool {
        let mut has_news = false;
        loop {
            match self.tail.news() {
                Ok(entries) if entries.is_empty() => return has_news,
                Ok(entries) => {
                    has_news = true;
                    entries.into_iter().for_each(|entry| self.facts.add(entry));
                }
                Err(error) => {
                    let why = error.to_string();
                    let is_new = self.facts.broken.as_ref() != Some(&why);
                    self.facts.broken = Some(why);
                    return has_news || is_new;
                }
            }
        }
    }
}

fn row(name: &str, run: &Followed) -> RunRow {
    let state = RunState::of(&run.facts, &run.path);
    RunRow { name: name.into(), path: run.path.clone(), facts: run.facts.clone(), state }
}

/// Every run directory below the folder.
fn run_folders(folder: &Folder) -> Vec<PathBuf> {
    let mut folders = vec![(folder.root().to_path_buf(), 0)];
    let (mut found, mut seen) = (Vec::new(), 0);
    while let Some((path, depth)) = folders.pop() {
        seen += 1;
        if seen > MOST_FOLDERS || found.len() >= MOST_RUNS {
            break;
        }
        if is_run(folder, &path) {
            found.push(path.clone());
        }
        if depth >= DEEPEST {
            continue;
        }
        for entry in std::fs::read_dir(&path).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let is_own = ["tensorboard", "checkpoints", "video", "images", "data", "target", "node_modules"];
            let is_skipped =
                name.to_string_lossy().starts_with('.') || is_own.iter().any(|own| name == **own);
            // Links are not followed: what they lead to inside is found anyway.
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) && !is_skipped {
                folders.push((entry.path(), depth + 1));
            }
        }
    }
    found
}

fn is_run(folder: &Folder, path: &Path) -> bool {
    let events = path.join("events.jsonl");
    events.is_file() && folder.inside(&events).is_some()
}
