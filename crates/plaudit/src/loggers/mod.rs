//! Loggers in Python (Weights & Biases, MLflow, trackio): a process of the user's Python for each, which
//! follows the event log.
//!
//! A run never waits for them while it works, and what goes wrong there stops no run: it is said once. Only
//! when the run begins must they be there, since a run whose curves nobody will see is better not started.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use plaudit_view::RunDir;
use serde_json::json;

use crate::commands::report::audit_beside;
use crate::config::LoadedConfig;
use crate::config::blocks::runner::LoggerBackend;
use crate::failure::Failure;
use crate::run::run_name;

const FOLLOW: &str = include_str!("follow.py");
const KEY: &str = "runner.logger.logger_backends";
/// How long a logger may take to begin: it may ask a server.
const BEGIN: Duration = Duration::from_secs(120);
/// How long it may take to send the rest once the run is over.
const END: Duration = Duration::from_secs(120);
/// How much of what it said is repeated.
const LAST_WORDS: usize = 400;

/// The loggers of a run.
#[derive(Default)]
pub(crate) struct Loggers(Vec<Logger>);

struct Logger {
    name: &'static str,
    process: Child,
    output: PathBuf,
    has_failed: bool,
}

/// The package that a backend needs, if it is one of Python's.
fn package(backend: LoggerBackend) -> Option<&'static str> {
    match backend {
        LoggerBackend::Wandb => Some("wandb"),
        LoggerBackend::Mlflow => Some("mlflow"),
        LoggerBackend::Trackio => Some("trackio"),
        LoggerBackend::Tensorboard | LoggerBackend::Swanlab => None,
    }
}

fn packages(loaded: &LoadedConfig) -> Vec<&'static str> {
    let mut packages: Vec<&str> =
        loaded.config.runner.logger.logger_backends.iter().filter_map(|one| package(*one)).collect();
    packages.dedup();
    packages
}

/// Makes sure that the packages are there, before anything is made.
pub(crate) fn check(loaded: &LoadedConfig) -> Result<(), Failure> {
    let python = &loaded.config.runner.logger.python;
    for name in packages(loaded) {
        let find = "import importlib.util, sys; sys.exit(importlib.util.find_spec(sys.argv[1]) is None)";
        let found = Command::new(python).args(["-c", find, name]).stdin(Stdio::null()).output();
        let refused = |message: String, hint: &str| Err(loaded.problem(KEY, message, hint).into());
        match found {
            Ok(found) if found.status.success() => {}
            Ok(_) => {
                let message = format!("{name}: {python} has no package `{name}`");
                let hint = format!(
                    "`{python} -m pip install {name}`, name another Python with runner.logger.python, or take \
                     {name} off the list"
                );
                return refused(message, &hint);
            }
            Err(error) => {
                let message = format!("{name}: cannot start {python}: {error}");
                return refused(message, "name a Python that has the package with runner.logger.python");
            }
        }
    }
    Ok(())
}

impl Loggers {
    /// Starts the loggers that the config asks for, and waits until each has begun.
    pub(crate) fn start(loaded: &LoadedConfig, run: &RunDir) -> Result<Self, Failure> {
        let mut loggers = Self::default();
        for name in packages(loaded) {
            loggers.0.push(Logger::start(loaded, run, name)?);
        }
        Ok(loggers)
    }

    /// Loggers that have stopped since the last call, in words.
    pub(crate) fn stopped(&mut self) -> Vec<String> {
        self.0.iter_mut().filter_map(Logger::stopped).collect()
    }

    /// Waits until all is sent, and says what was not. The end of the run must be in the log.
    pub(crate) fn finish(self) -> Vec<String> {
        self.0.into_iter().filter_map(Logger::finish).collect()
    }
}

impl Logger {
    fn start(loaded: &LoadedConfig, run: &RunDir, name: &'static str) -> Result<Self, Failure> {
        let python = &loaded.config.runner.logger.python;
        let folder = run.path().join("loggers");
        let output = folder.join(format!("{name}.txt"));
        let failed = |what: String| Failure::runtime(format!("{name}: {what}"), None);
        let file = std::fs::create_dir_all(&folder)
            .and_then(|()| File::options().create(true).append(true).open(&output))
            .map_err(|error| failed(format!("cannot write {}: {error}", output.display())))?;
        let mut command = Command::new(python);
        command.args(["-c", FOLLOW]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(file);
        // Ctrl-C ends the run, and the run its loggers, once all is sent.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut process =
            command.spawn().map_err(|error| failed(format!("cannot start {python}: {error}")))?;
        let state = folder.join(format!("{name}.json"));
        let settings = settings(loaded, run, name, &state);
        let is_told = process.stdin.as_mut().is_some_and(|stdin| writeln!(stdin, "{settings}").is_ok());
        let mut logger = Self { name, process, output, has_failed: false };
        if is_told && logger.is_ready() {
            return Ok(logger);
        }
        let _ = logger.process.kill(); // it may have ended by itself
        let _ = logger.process.wait();
        let message = format!("{name} does not begin: {}", logger.last_words());
        let hint = match name {
            "wandb" => "`wandb login`, or WANDB_MODE=offline to send it later; or take wandb off the list",
            "mlflow" => "MLFLOW_TRACKING_URI names its server or folder; or take mlflow off the list",
            _ => "take it off the list to run without it",
        };
        Err(loaded.problem(KEY, message, hint).into())
    }

    /// Waits for its word that it has begun.
    fn is_ready(&mut self) -> bool {
        let Some(stdout) = self.process.stdout.take() else { return false };
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || {
            let mut line = String::new();
            let is_ready = BufReader::new(stdout).read_line(&mut line).is_ok() && line.trim() == "ready";
            let _ = sender.send(is_ready); // nobody waits any more: it took too long
        });
        receiver.recv_timeout(BEGIN).unwrap_or(false)
    }

    fn stopped(&mut self) -> Option<String> {
        if self.has_failed || !matches!(self.process.try_wait(), Ok(Some(_))) {
            return None;
        }
        self.has_failed = true;
        Some(format!("{} gets no more of this run, which goes on: {}", self.name, self.last_words()))
    }

    fn finish(mut self) -> Option<String> {
        if self.has_failed {
            return None; // which was said
        }
        drop(self.process.stdin.take());
        let began = Instant::now();
        loop {
            match self.process.try_wait() {
                Ok(Some(status)) if status.success() => return None,
                Ok(None) if began.elapsed() < END => std::thread::sleep(Duration::from_millis(50)),
                Ok(None) => {
                    let _ = self.process.kill();
                    let _ = self.process.wait();
                    return Some(format!("{} did not take all of this run in time", self.name));
                }
                Ok(Some(_)) | Err(_) => {
                    return Some(format!(
                        "{} did not take all of this run: {}",
                        self.name,
                        self.last_words()
                    ));
                }
            }
        }
    }

    /// What it said last, and where all of it is.
    fn last_words(&self) -> String {
        let text = std::fs::read(&self.output).unwrap_or_default();
        let text = String::from_utf8_lossy(&text).split_whitespace().collect::<Vec<_>>().join(" ");
        let skipped = text.chars().count().saturating_sub(LAST_WORDS);
        let words: String = text.chars().skip(skipped).collect();
        format!("{words} (all it said: {})", self.output.display())
    }
}

/// What the process is told. Whatever happens to this program, the process sees its standard input end.
fn settings(loaded: &LoadedConfig, run: &RunDir, name: &str, state: &Path) -> serde_json::Value {
    let folder_name = run.path().file_name().map(|name| name.to_string_lossy().into_owned());
    json!({
        "backend": name,
        "project": loaded.config.runner.logger.project_name,
        "name": folder_name.unwrap_or_else(|| run_name(loaded)),
        "folder": run.path().display().to_string(),
        "state": state.display().to_string(),
        "begins_at": std::fs::metadata(run.events()).map_or(0, |log| log.len()),
        "config": serde_json::to_value(loaded.as_tree()).unwrap_or_default(),
        "videos": videos(loaded, run).display().to_string(),
        "audit": audit(loaded).map(|file| file.display().to_string()),
    })
}

/// Where the run's videos appear.
fn videos(loaded: &LoadedConfig, run: &RunDir) -> PathBuf {
    let named = loaded.config.env.eval.video_cfg.video_base_dir.as_ref();
    named.map_or_else(|| run.video(), PathBuf::from)
}

/// What an audit left beside the model that rewards the run.
fn audit(loaded: &LoadedConfig) -> Option<PathBuf> {
    let reward = &loaded.config.reward;
    let model = reward.model.model_path.as_ref().filter(|_| reward.use_reward_model)?;
    audit_beside(Path::new(model))
}
