//! `plaudit demo`: the whole way once, from episodes to a policy trained with a learned reward.
//!
//! Every stage is a command of plaudit itself, run as a user would run it and printed as a user would type it. What
//! is finished is noted in a file, so that a demo that was stopped goes on with the stage it was in.

mod stages;

use std::path::{Path, PathBuf};
use std::process::{Command as Process, Stdio};
use std::time::Instant;

use clap::Args;
use plaudit_view::write_atomically;
use serde::{Deserialize, Serialize};

use self::stages::{Stage, stages};
use crate::cli::Verbosity;
use crate::console;
use crate::failure::Failure;
use crate::program;
use crate::run::{interrupted, listen_for_interrupts, quoted};

/// From episodes to a policy trained with a learned reward, in a few minutes
///
/// A script shows PickCube, a clone of it plays, an image classifier learns what success looks like and is audited, and
/// PPO starts from the clone, rewarded by the classifier alone. Success is measured by simulator ground truth. Each
/// stage prints the command that does it; a demo that was stopped goes on where it was.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plaudit demo                        about four minutes on two cores
  plaudit demo --seed 7 --dir demo7   another seed, beside the first")]
pub struct Command {
    /// Random seed of every stage
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Where everything goes
    #[arg(long, value_name = "DIR", default_value = "plaudit-demo")]
    dir: PathBuf,
}

/// What is done, in `demo.json`.
#[derive(Debug, Serialize, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
struct Progress {
    seed: u64,
    /// Names of finished stages.
    done: Vec<String>,
}

impl Command {
    /// Does it.
    pub fn run(self, verbosity: Verbosity) -> Result<(), Failure> {
        listen_for_interrupts();
        let mut progress = self.progress()?;
        let stages = stages(&self.dir, self.seed);
        let began = Instant::now();
        for (number, stage) in stages.iter().enumerate() {
            if progress.done.iter().any(|done| done == stage.name) {
                console::eprintln(&format!(
                    "{} of {}  {}: done before",
                    number + 1,
                    stages.len(),
                    stage.title
                ));
                continue;
            }
            console::eprintln(&format!(
                "\n{} of {}  {}\n{}",
                number + 1,
                stages.len(),
                stage.title,
                stage.meaning
            ));
            let is_finished = run_stage(stage, verbosity)?;
            if is_finished {
                progress.done.push(stage.name.into());
                self.save(&progress)?;
            }
            if interrupted() && progress.done.len() < stages.len() {
                let when = if is_finished { "after" } else { "in" };
                let place =
                    format!("stopped {when} stage {} of {}: {}", number + 1, stages.len(), stage.title);
                console::eprintln(&format!("\n{place}\nto go on: {}", self.as_typed()));
                return Err(Failure::Stopped);
            }
        }
        self.conclude(began)
    }

    /// The command that goes on with this demo.
    fn as_typed(&self) -> String {
        let dir = quoted(&self.dir.display().to_string());
        format!("plaudit demo --seed {} --dir {dir}", self.seed)
    }

    /// What an earlier demo of this folder has done.
    fn progress(&self) -> Result<Progress, Failure> {
        let fresh = Progress { seed: self.seed, done: Vec::new() };
        std::fs::create_dir_all(&self.dir).map_err(|error| {
            let help = "give --dir a folder that can be written".to_string();
            Failure::usage(format!("cannot make {}: {error}", self.dir.display()), help)
        })?;
        let Ok(text) = std::fs::read_to_string(self.state_file()) else {
            self.save(&fresh)?;
            return Ok(fresh);
        };
        let other = || {
            let message = format!("{} holds another demo", self.dir.display());
            Failure::usage(message, "give the --seed it was started with, or another --dir".to_string())
        };
        let found: Progress = serde_json::from_str(&text).map_err(|_| other())?;
        if found.seed != self.seed {
            return Err(other());
        }
        Ok(found)
    }

    fn state_file(&self) -> PathBuf {
        self.dir.join("demo.json")
    }

    fn save(&self, progress: &Progress) -> Result<(), Failure> {
        let text = serde_json::to_string_pretty(progress).map_err(|error| Failure::runtime(error, None))?;
        write_atomically(&self.state_file(), text.as_bytes()).map_err(|error| Failure::runtime(error, None))
    }

    /// The result, by simulator ground truth.
    fn conclude(&self, began: Instant) -> Result<(), Failure> {
        let before = success(&self.dir.join(stages::PLAY))?;
        let after = success(&self.dir.join(stages::POLICY))?;
        let page = self.dir.join("report.html");
        console::print(&format!(
            "\nsuccess rate (simulator ground truth): {:.0} % before training with the learned reward, {:.0} % after\n\
             the page about it: {}\n\
             episodes, models and runs in the browser: plaudit studio {}\n{}",
            100.0 * before,
            100.0 * after,
            page.display(),
            quoted(&self.dir.display().to_string()),
            match began.elapsed().as_secs() {
                0..3 => String::new(),
                seconds => format!("that took {} min {:02} s\n", seconds / 60, seconds % 60),
            },
        ))
    }
}

/// Runs a stage as its own process, which shows its own progress. Says whether it came to its end, or Ctrl-C stopped it.
fn run_stage(stage: &Stage, verbosity: Verbosity) -> Result<bool, Failure> {
    let words = resumed_command(&stage.command)?;
    console::eprintln(&format!("\n  $ {}\n", as_typed(&words)));
    let unable =
        |error: std::io::Error| Failure::runtime(format!("cannot start plaudit itself: {error}"), None);
    let mut process = Process::new(program::path().map_err(unable)?);
    process.args(words).stdin(Stdio::null());
    if verbosity.quiet {
        process.arg("--quiet");
    }
    let status = process.status().map_err(unable)?;
    if status.success() || status.code().is_some_and(|code| stage.accepted == Some(code)) {
        return Ok(true);
    }
    if interrupted() {
        return Ok(false);
    }
    let message = format!("the stage stopped: {status}");
    let help = "what went wrong is said above; the same `plaudit demo` goes on with this stage".to_string();
    Err(Failure::runtime(message, help))
}

/// The command, if an earlier demo was stopped in it: a run that was saved goes on; what one left that was not saved is
/// removed, and it begins anew.
fn resumed_command(words: &[String]) -> Result<Vec<String>, Failure> {
    const RUN: &str = "runner.logger.log_path=";
    let named = |key: &str| words.iter().find_map(|word| Some(PathBuf::from(word.split_once(key)?.1)));
    let Some(run) = named(RUN).filter(|run| run.exists()) else { return Ok(words.to_vec()) };
    let is_saved =
        ["train.json", "reward_train.json"].iter().any(|state| run.join("checkpoints").join(state).exists());
    if is_saved {
        let resume = format!("runner.resume_dir={}", run.display());
        let goes_on = |word: &String| if word.starts_with(RUN) { resume.clone() } else { word.clone() };
        return Ok(words.iter().map(goes_on).collect());
    }
    for left in
        [Some(run), named(".data_collection.save_dir=")].into_iter().flatten().filter(|left| left.exists())
    {
        std::fs::remove_dir_all(&left)
            .map_err(|error| Failure::runtime(format!("cannot remove {}: {error}", left.display()), None))?;
    }
    Ok(words.to_vec())
}

/// A command as it is typed into a shell.
fn as_typed(words: &[String]) -> String {
    let quoted = |word: &String| match word.contains(['{', '[', ' ', '*', '$']) {
        true => format!("'{word}'"),
        false => word.clone(),
    };
    ["plaudit".to_string()].into_iter().chain(words.iter().map(quoted)).collect::<Vec<_>>().join(" ")
}

/// The latest success rate of a run's policy, by simulator ground truth.
fn success(run: &Path) -> Result<f64, Failure> {
    let path = run.join("events.jsonl");
    let text = std::fs::read_to_string(&path)
        .map_err(|error| Failure::runtime(format!("{}: {error}", path.display()), None))?;
    let newest = text.lines().rev().find_map(|line| {
        let event: serde_json::Value = serde_json::from_str(line).ok()?;
        let values = event["values"].as_array()?.iter();
        values.filter(|pair| pair[0] == "eval/success_once").find_map(|pair| pair[1].as_f64())
    });
    newest.ok_or_else(|| Failure::runtime(format!("{} has no evaluation", path.display()), None))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stage_goes_on_where_it_was_saved_and_begins_anew_where_it_was_not() {
        let folder = tempfile::tempdir().unwrap();
        let (run, kept) = (folder.path().join("run"), folder.path().join("kept"));
        let words = vec![
            "train".to_string(),
            format!("runner.logger.log_path={}", run.display()),
            format!("env.train.data_collection.save_dir={}", kept.display()),
        ];
        assert_eq!(resumed_command(&words).unwrap(), words, "nothing is there yet");
        std::fs::create_dir_all(run.join("checkpoints")).unwrap();
        std::fs::create_dir_all(&kept).unwrap();
        std::fs::write(run.join("checkpoints/reward_train.json"), "").unwrap();
        let resumed = resumed_command(&words).unwrap();
        assert_eq!(resumed[1], format!("runner.resume_dir={}", run.display()));
        assert!(kept.exists());
        std::fs::remove_file(run.join("checkpoints/reward_train.json")).unwrap();
        assert_eq!(resumed_command(&words).unwrap(), words);
        assert!(!run.exists() && !kept.exists(), "what was half done is gone");
    }
}
