//! One run of a sweep: a `plaudit train` of its own, started, followed and asked to stop.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command as Process, ExitStatus, Stdio};

use plaudit_core::{EndReason, Event};
use plaudit_view::{EventTail, RunDir, RunProgress, Summary};

use super::plan::{Plan, PlannedRun};
use crate::config::yaml;
use crate::failure::Failure;
use crate::run;
use crate::signals;

/// How much of what a run said last is repeated when it fails.
const LAST_WORDS: usize = 300;
/// What people want to see while a run goes on, the most telling first.
const SHOWN: [&str; 4] = ["eval/success_once", "env/success_once", "eval/return", "env/return"];

/// What is there of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Found {
    /// It is done.
    Finished,
    /// It was stopped, and has a checkpoint.
    Saved,
    /// Nothing of it is there, or nothing that it could go on from.
    Nothing,
}

/// Looks for what an earlier sweep left of a run. A finished one must have been run with the same config.
pub(super) fn find(plan: &Plan, run: &PlannedRun) -> Result<Found, Failure> {
    let folder = plan.folder.join(&run.folder);
    let Ok(dir) = RunDir::open(&folder) else { return Ok(Found::Nothing) };
    let summary = Summary::read(&dir).map_err(|error| Failure::runtime(error, None))?;
    let saved = dir.checkpoints();
    let is_saved = ["train.json", "eval.json"].iter().any(|name| saved.join(name).is_file());
    let found = match summary.end {
        Some(EndReason::Done) => Found::Finished,
        _ if is_saved => Found::Saved,
        _ => Found::Nothing,
    };
    if found != Found::Nothing {
        run::same_config(&dir, &yaml::to_yaml(&run.config.as_tree(), false))?;
    }
    Ok(found)
}

/// A run that goes on.
pub(super) struct RunningChild {
    /// Its place in the plan.
    pub(super) place: usize,
    /// The slot it has: which GPU it uses.
    pub(super) slot: usize,
    pub(super) progress: RunProgress,
    /// Whether it has learned a step, so that what it needs is known.
    pub(super) has_learned: bool,
    process: Child,
    tail: EventTail,
    output: PathBuf,
}

/// What a run is given of the machine.
pub(super) struct Share {
    pub(super) slot: usize,
    pub(super) threads: usize,
    /// The GPU it sees, by CUDA's name of it.
    pub(super) gpu: Option<String>,
}

impl RunningChild {
    /// Starts a run, or goes on with it.
    pub(super) fn start(plan: &Plan, place: usize, share: &Share) -> Result<Self, Failure> {
        let run = &plan.runs[place];
        let folder = plan.folder.join(&run.folder);
        let unable = |what: &str, error: std::io::Error| Failure::runtime(format!("{what}: {error}"), None);
        let key = match find(plan, run)? {
            Found::Saved => "runner.resume_dir",
            _ => {
                remove_unsaved(&folder)?;
                "runner.logger.log_path"
            }
        };
        let outputs = plan.folder.join("output");
        let output = outputs.join(format!("{}.txt", run.folder));
        let file = fs::create_dir_all(&outputs)
            .and_then(|()| File::options().create(true).append(true).open(&output))
            .map_err(|error| unable(&format!("cannot write {}", output.display()), error))?;
        let program = crate::program::path().map_err(|error| unable("cannot start plaudit itself", error))?;
        let mut process = Process::new(program);
        process.arg("train").args(&plan.shared).args(&run.overrides);
        process.arg(format!("{key}={}", quoted_value(&folder.display().to_string())));
        process.stdin(Stdio::null()).stdout(Stdio::null()).stderr(file);
        if std::env::var_os("RAYON_NUM_THREADS").is_none() {
            process.env("RAYON_NUM_THREADS", share.threads.to_string());
        }
        if let Some(gpu) = &share.gpu {
            process.env("CUDA_VISIBLE_DEVICES", gpu);
        }
        process.env(signals::STOP_WITH_PARENT, "1");
        // Ctrl-C reaches the sweep alone, which asks its runs to stop: once each.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut process, 0);
        let process = process.spawn().map_err(|error| unable("cannot start plaudit itself", error))?;
        signals::end_with_us(process.id());
        let progress = RunProgress { name: run.name.clone(), ..RunProgress::default() };
        let tail = EventTail::of(&folder);
        Ok(Self { place, slot: share.slot, progress, has_learned: false, process, tail, output })
    }

    /// Its process.
    pub(super) fn id(&self) -> u32 {
        self.process.id()
    }

    /// Takes in what it has logged since.
    pub(super) fn follow(&mut self) {
        // Whoever writes the log says what is wrong with it; here it is only shown.
        for entry in self.tail.news().unwrap_or_default() {
            match entry.event {
                Event::Started { step, steps, .. } => {
                    (self.progress.step, self.progress.steps) = (step, steps);
                }
                Event::Progress { step } => self.progress.step = self.progress.step.max(step),
                Event::Metrics { step, values } => {
                    self.has_learned |= step > 0;
                    self.progress.step = self.progress.step.max(step);
                    self.take(&values);
                }
                _ => {}
            }
        }
    }

    fn take(&mut self, values: &[(String, f64)]) {
        let rank = |name: &str| SHOWN.iter().position(|shown| *shown == name);
        let before = self.progress.metric.as_ref().and_then(|(name, _)| rank(name)).unwrap_or(SHOWN.len());
        let best = values.iter().filter_map(|(name, value)| Some((rank(name)?, name, *value)));
        // Success that never comes says less than a return.
        let best = best.filter(|(_, name, value)| !name.contains("success") || *value > 0.0);
        if let Some((rank, name, value)) = best.min_by_key(|(rank, _, _)| *rank)
            && rank <= before
        {
            self.progress.metric = Some((name.clone(), value));
        }
    }

    /// Asks it to finish its step, save and end.
    pub(super) fn ask_to_stop(&self) {
        signals::ask_to_stop(self.process.id());
    }

    /// How it ended, if it has.
    pub(super) fn ended(&mut self) -> Result<Option<ExitStatus>, Failure> {
        let ended = self.process.try_wait();
        let ended =
            ended.map_err(|error| Failure::runtime(format!("cannot wait for a run: {error}"), None))?;
        if ended.is_some() {
            signals::has_ended(self.process.id());
        }
        Ok(ended)
    }

    /// What it said last, and where all of it is.
    pub(super) fn last_words(&self) -> String {
        let text = fs::read(&self.output).unwrap_or_default();
        let text = String::from_utf8_lossy(&text[text.len().saturating_sub(1 << 16)..]).into_owned();
        let errors = text.rfind('×').map_or(text.as_str(), |at| &text[at..]);
        let words = errors.replace(['│', '×', '╰', '╭', '─', '▶'], " ");
        let words: String =
            words.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(LAST_WORDS).collect();
        format!("{words} (all it said: {})", self.output.display())
    }
}

/// A path as an override writes it: in quotes, where the grammar would take it apart.
fn quoted_value(path: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "._-/+".contains(letter);
    if path.chars().all(is_plain) {
        return path.into();
    }
    format!("'{}'", path.replace('\'', "\\'"))
}

/// Removes what a run left that was killed before it saved anything.
fn remove_unsaved(folder: &Path) -> Result<(), Failure> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Failure::runtime(format!("cannot remove {}: {error}", folder.display()), None))
        }
        _ => Ok(()),
    }
}
