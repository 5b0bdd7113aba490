//! A run from start to end: its directory, its listeners, its state, and Ctrl-C.

use std::io::Stderr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use plaudit_core::{Emit, EndReason, Event, Level};
use plaudit_view::{Recorder, RunDir, RunProcess, Terminal, write_atomically};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::checkpoint;
use crate::cli::Verbosity;
use crate::config::{LoadedConfig, yaml};
use crate::console;
use crate::failure::Failure;
use crate::loggers::{self, Loggers};
pub use crate::signals::interrupted;
pub(crate) use crate::signals::listen_for_interrupts;

static PENDING_NOTICES: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Queues a notice for the terminal, from any thread, while a step is still under way.
pub(crate) fn notify_soon(text: &str) {
    if let Ok(mut texts) = PENDING_NOTICES.lock() {
        texts.push(text.into());
    }
}

/// The notices that nobody has shown yet.
pub(crate) fn pending_notices() -> Vec<String> {
    PENDING_NOTICES.lock().map(|mut texts| std::mem::take(&mut *texts)).unwrap_or_default()
}

/// Keeps the terminal alive while a step takes long: the clock moves on, and Ctrl-C is answered at once.
struct Ticker {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Ticker {
    fn start(terminal: Arc<Mutex<Terminal<Stderr>>>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            let mut answered = false;
            while !stopped.load(Ordering::Relaxed) {
                std::thread::park_timeout(Duration::from_millis(100));
                let Ok(mut terminal) = terminal.lock() else { return };
                if interrupted() && !std::mem::replace(&mut answered, true) {
                    let text = "finishing this step, then saving (Ctrl-C again stops at once)".into();
                    terminal.emit(Event::Notice { level: Level::Info, text });
                }
                for text in pending_notices() {
                    terminal.emit(Event::Notice { level: Level::Warning, text });
                }
                terminal.tick();
            }
        });
        Self { stop, thread: Some(thread) }
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

/// A run that is going on.
pub struct Run {
    directory: RunDir,
    recorder: Recorder,
    terminal: Option<Arc<Mutex<Terminal<Stderr>>>>,
    ticker: Option<Ticker>,
    loggers: Loggers,
    job: &'static str,
}

impl Run {
    /// Makes the run directory, or opens the one that `runner.resume_dir` names, and says so.
    pub fn start(
        loaded: &LoadedConfig,
        job: &'static str,
        unit: &str,
        steps: impl Into<Option<u64>>,
        verbosity: Verbosity,
    ) -> Result<Self, Failure> {
        loggers::check(loaded)?; // a refusal comes before anything is made
        let directory = directory(loaded, job)?;
        let recorder = Recorder::open(&directory).map_err(|error| Failure::runtime(error, None))?;
        // Whoever wants to stop the run later must know which process it is.
        RunProcess::this()
            .map_or(Ok(()), |this| this.write(directory.path()))
            .map_err(|error| Failure::runtime(error, None))?;
        let terminal = (!verbosity.quiet)
            .then(|| Arc::new(Mutex::new(Terminal::on(std::io::stderr(), console::use_colour()))));
        let ticker = terminal.clone().map(Ticker::start);
        let repair = recorder.repair().map(ToString::to_string);
        let loggers = Loggers::start(loaded, &directory)?;
        let mut run = Self { directory, recorder, terminal, ticker, loggers, job };
        listen_for_interrupts();
        let name = run_name(loaded);
        run.emit(Event::Started {
            name,
            job: job.into(),
            unit: unit.into(),
            step: run.saved_step()?.max(begun_at(loaded)),
            steps: steps.into(),
        });
        if let Some(text) = repair {
            run.emit(Event::Notice { level: Level::Warning, text });
        }
        let text = yaml::to_yaml(&loaded.as_tree(), false);
        run.emit(Event::Text { step: 0, name: "config".into(), text: format!("```yaml\n{text}```") });
        Ok(run)
    }

    /// What was saved last, if the run is resumed.
    pub fn restore<S: DeserializeOwned>(&self) -> Result<Option<S>, Failure> {
        Ok(self.read_state()?.map(|saved: Saved<S>| saved.state))
    }

    /// Makes the state safe on disk. A kill from now on costs only what comes after.
    pub fn save<S: Serialize>(&mut self, step: u64, state: &S) -> Result<(), Failure> {
        let json =
            serde_json::to_vec(&Saved { step, state }).map_err(|error| Failure::runtime(error, None))?;
        let path = self.state_path();
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).map_err(|error| {
                Failure::runtime(format!("cannot make {}: {error}", parent.display()), None)
            })?;
        }
        write_atomically(&path, &json).map_err(|error| Failure::runtime(error, None))?;
        let relative = path.strip_prefix(self.directory.path()).unwrap_or(&path).display().to_string();
        self.emit(Event::Saved { step, path: relative });
        Ok(())
    }

    /// Ends the run and reports how it ended: where to look, or how to resume.
    pub fn finish<T>(
        mut self,
        outcome: Result<(T, EndReason), Failure>,
        command: &[String],
    ) -> Result<T, Failure> {
        let reason = match &outcome {
            Ok((_, reason)) => reason.clone(),
            Err(error) => EndReason::Failed { error: error.to_string() },
        };
        let step = self.saved_step()?;
        self.ticker = None; // nothing may be drawn after the last frame
        self.emit(Event::Ended { step, reason: reason.clone() });
        if let Some(lost_events) = self.recorder.lost_events() {
            console::eprintln(&format!("warning: {lost_events}"));
        }
        for text in std::mem::take(&mut self.loggers).finish() {
            console::eprintln(&format!("warning: {text}"));
        }
        let path = self.directory.path().display();
        if reason != EndReason::Done {
            let resume = quoted(&format!("runner.resume_dir={path}"));
            console::eprintln(&format!("saved in {path}\nto go on: {} {resume}", without_resume(command)));
        }
        let (result, _) = outcome?;
        if reason == EndReason::Interrupted {
            return Err(Failure::Stopped);
        }
        if self.terminal.is_some() {
            console::eprintln(&format!("run directory: {path}"));
        }
        Ok(result)
    }

    /// The run directory.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Where episodes go.
    pub fn data_directory(&self) -> PathBuf {
        self.directory.data()
    }

    /// Where checkpoints go.
    pub fn checkpoints_directory(&self) -> PathBuf {
        self.directory.checkpoints()
    }

    /// Where videos go.
    pub fn video_directory(&self) -> PathBuf {
        self.directory.video()
    }

    fn state_path(&self) -> PathBuf {
        self.directory.checkpoints().join(format!("{}.json", self.job))
    }

    fn saved_step(&self) -> Result<u64, Failure> {
        Ok(self.read_state::<serde::de::IgnoredAny>()?.map_or(0, |saved| saved.step))
    }

    fn read_state<S: DeserializeOwned>(&self) -> Result<Option<Saved<S>>, Failure> {
        let path = self.state_path();
        let bytes = match std::fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => {
                return Err(Failure::runtime(format!("cannot read {}: {error}", path.display()), None));
            }
        };
        let help = "it was written by another version or another command; start a new run".to_string();
        serde_json::from_slice(&bytes).map(Some).map_err(|error| {
            Failure::runtime(format!("{} is no state of this command: {error}", path.display()), help)
        })
    }
}

impl Emit for Run {
    fn emit(&mut self, event: Event) {
        if matches!(event, Event::Metrics { .. }) {
            for text in self.loggers.stopped() {
                self.emit(Event::Notice { level: Level::Warning, text });
            }
        }
        self.recorder.emit(event.clone());
        if let Some(mut terminal) = self.terminal.as_ref().and_then(|terminal| terminal.lock().ok()) {
            terminal.emit(event);
        }
    }
}

/// What a state file holds.
#[derive(Serialize, serde::Deserialize)]
struct Saved<S> {
    step: u64,
    state: S,
}

/// What a run is called.
pub(crate) fn run_name(loaded: &LoadedConfig) -> String {
    loaded.config.runner.logger.experiment_name.clone().unwrap_or_else(|| loaded.name.clone())
}

/// Makes the run directory, or opens the one that `runner.resume_dir` names.
pub(crate) fn directory(loaded: &LoadedConfig, job: &str) -> Result<RunDir, Failure> {
    let config = yaml::to_yaml(&loaded.as_tree(), false);
    let failed = |error: &dyn std::fmt::Display| Failure::runtime(error, None);
    // A checkpoint starts a run of its own; a run directory goes on in place.
    if let Some(path) = resume_dir(loaded).filter(|path| checkpoint::step_of(path).is_none()) {
        let run = RunDir::open(path).map_err(|error| {
            loaded.problem(
                "runner.resume_dir",
                error.to_string(),
                "name a run directory, or a checkpoint's folder in it",
            )
        })?;
        same_config(&run, &config)?;
        return Ok(run);
    }
    let run = match &loaded.config.runner.logger.log_path {
        Some(path) => {
            refuse_leftovers(loaded, Path::new(path), job)?;
            RunDir::at(Path::new(path)).map_err(|error| {
                loaded.problem(
                    "runner.logger.log_path",
                    error.to_string(),
                    "leave it out, and each run gets a directory of its own",
                )
            })?
        }
        None => RunDir::create(Path::new("logs"), &run_name(loaded), SystemTime::now())
            .map_err(|error| failed(&error))?,
    };
    run.write_config(&config).map_err(|error| failed(&error))?;
    Ok(run)
}

/// A new run must not go on from checkpoints that happen to lie where it is to be: nobody says that they are of its config.
fn refuse_leftovers(loaded: &LoadedConfig, path: &Path, job: &str) -> Result<(), Failure> {
    let checkpoints = path.join("checkpoints");
    let is_one = |name: &std::ffi::OsStr| {
        *name == *format!("{job}.json") || checkpoint::step_of(Path::new(name)).is_some()
    };
    let found = std::fs::read_dir(&checkpoints)
        .ok()
        .and_then(|entries| entries.flatten().map(|entry| entry.file_name()).find(|name| is_one(name)));
    let Some(found) = found else { return Ok(()) };
    let message = format!(
        "{} is there already, of a run whose config is not known: a new run would go on from it",
        checkpoints.join(found).display()
    );
    let hint = "choose another path, or name the run with runner.resume_dir to go on with it";
    Err(loaded.problem("runner.logger.log_path", message, hint).into())
}

fn resume_dir(loaded: &LoadedConfig) -> Option<&Path> {
    loaded.config.runner.resume_dir.as_deref().map(Path::new)
}

/// The step of the checkpoint that a run starts from; 0 without one.
fn begun_at(loaded: &LoadedConfig) -> u64 {
    resume_dir(loaded).and_then(checkpoint::step_of).unwrap_or(0)
}

/// A run goes on with the config it began with; only its length, its place and what ranks share may change.
pub(crate) fn same_config(run: &RunDir, config: &str) -> Result<(), Failure> {
    let path = run.config();
    let before = std::fs::read_to_string(&path)
        .map_err(|error| Failure::runtime(format!("cannot read {}: {error}", path.display()), None))?;
    let may_change = |line: &&str| {
        !["resume_dir:", "log_path:", "rollout_epoch:", "max_epochs:", "max_steps:", "sharding_strategy:"]
            .iter()
            .any(|key| line.trim().starts_with(key))
    };
    let (mut old, mut new) = (before.lines().filter(may_change), config.lines().filter(may_change));
    loop {
        match (old.next(), new.next()) {
            (None, None) => return Ok(()),
            (old, new) if old == new => {}
            (old, new) => {
                let (old, new) = (old.unwrap_or("nothing").trim(), new.unwrap_or("nothing").trim());
                let message = format!(
                    "{} was run with another config: `{old}` there, `{new}` now",
                    run.path().display()
                );
                return Err(Failure::usage(
                    message,
                    "resume with the same config, or start a new run".to_string(),
                ));
            }
        }
    }
}

/// The command without an older `runner.resume_dir`.
fn without_resume(command: &[String]) -> String {
    let words = command.iter().filter(|word| !word.starts_with("runner.resume_dir="));
    words.map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}

/// A word as a shell takes it.
pub(crate) fn quoted(word: &str) -> String {
    let plain = !word.is_empty() && word.chars().all(|c| c.is_alphanumeric() || "_-./=:,+@%".contains(c));
    if plain { word.into() } else { format!("'{}'", word.replace('\'', "'\\''")) }
}
