//! The worker of a robot that a person moves: `plaudit robot teleop`, with the reward model in another process.

use std::fs::{File, OpenOptions};
use std::path::Path;
use std::sync::atomic::Ordering;

use plaudit_view::write_atomically;
use serde_json::json;

use super::outcome::OutcomeFile;
use super::{WorkerContext, WorkerModels, env, status};
use crate::commands::robot::teleop::{Display, TeleopSetup, teleoperate};
use crate::failure::Failure;
use crate::run::interrupted;

/// Which start of the graph moved the arm last: a process that was started again by it must not move it.
const STARTED: &str = "teleop.started";

/// A person moves the arm; the lines that `plaudit robot teleop` shows go to a file that `cluster run` follows.
pub(super) fn work(context: &WorkerContext<'_>) -> Result<(), Failure> {
    let folder = status::folder(context.plan, context.process);
    let outcome_file = OutcomeFile::keep_room(context.plan, context.process);
    let log = open_log(&context.plan.teleop_log(context.process))?;
    let display = Display::to_file(log.try_clone().map_err(|error| cannot(&folder, &error))?);
    let start = std::env::var("DORA_NODE_CONFIG").ok().and_then(|text| dataflow_of(&text));
    let ended = match is_second_start(&folder, start.as_deref())? {
        true => Err("the process that moved the arm ended, and the arm holds".to_string()),
        false => move_arm(context, display).map_err(|failure| failure.to_string()),
    };
    let display = Display::to_file(log);
    let outcome = match &ended {
        Ok(summary) => {
            display.notice(summary.trim_end());
            json!({"outcome": "done"})
        }
        Err(_) if interrupted() => json!({"outcome": "stopped", "reason": "it was asked to stop"}),
        Err(reason) => {
            display.notice(reason);
            json!({"outcome": "stopped", "reason": reason})
        }
    };
    outcome_file.write(&outcome)?;
    context.status.stop();
    Ok(())
}

/// The reward model first: nothing moves before it answers.
fn move_arm(context: &WorkerContext<'_>, display: Display) -> Result<String, Failure> {
    let models = env::models(context)?;
    let steps = context.status.clone();
    let setup = TeleopSetup {
        display,
        models: models.clone(),
        episodes: None,
        seconds: None,
        on_step: Box::new(move || {
            steps.done.fetch_add(1, Ordering::Relaxed);
            steps.version.fetch_add(1, Ordering::Relaxed);
        }),
    };
    let summary = teleoperate(&context.loaded, setup, context.verbosity);
    // Whatever ended it, there is nothing more to score.
    if let WorkerModels::Worker(client) = &models {
        client.finish();
    }
    summary.map(|summary| summary.to_string())
}

fn open_log(path: &Path) -> Result<File, Failure> {
    OpenOptions::new().create(true).append(true).open(path).map_err(|error| cannot(path, &error))
}

fn cannot(path: &Path, error: &std::io::Error) -> Failure {
    Failure::runtime(format!("cannot write to {}: {error}", path.display()), None)
}

/// Whether the same start of all processes has moved the arm already. dora tells each of them which start it belongs to.
fn is_second_start(folder: &Path, start: Option<&str>) -> Result<bool, Failure> {
    let Some(start) = start else { return Ok(false) };
    let path = folder.join(STARTED);
    if std::fs::read_to_string(&path).is_ok_and(|before| before == start) {
        return Ok(true);
    }
    write_atomically(&path, start.as_bytes()).map_err(|error| Failure::runtime(error, None))?;
    Ok(false)
}

/// The number of a start, in what dora hands to a process.
fn dataflow_of(config: &str) -> Option<String> {
    let at = config.find("dataflow_id")?;
    let value = config[at + "dataflow_id".len()..].trim_start_matches(['"', '\'', ':', ' ']);
    let id: String = value.chars().take_while(|c| c.is_ascii_hexdigit() || *c == '-').collect();
    (!id.is_empty()).then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_is_found_in_yaml_and_in_json() {
        let id = "0190b7f2-1111-7aaa-8000-3c3c3c3c3c3c";
        for text in [
            format!("dataflow_id: {id}\nnode_id: env-0\n"),
            format!("{{\"dataflow_id\":\"{id}\",\"node_id\":\"env-0\"}}"),
            format!("---\ndataflow_id: \"{id}\"\n"),
        ] {
            assert_eq!(dataflow_of(&text).as_deref(), Some(id), "{text}");
        }
        assert_eq!(dataflow_of("node_id: env-0"), None);
    }

    #[test]
    fn an_arm_is_moved_once_by_each_start() {
        let folder = tempfile::tempdir().unwrap();
        let is_second = |start: &str| is_second_start(folder.path(), Some(start)).unwrap();
        assert!(!is_second("1"));
        assert!(is_second("1"), "dora started the process again");
        assert!(!is_second("2"), "a person started the run again");
        assert!(is_second("2"));
    }
}
