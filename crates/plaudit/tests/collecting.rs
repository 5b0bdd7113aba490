//! Collecting as a person does it: whole files, nothing overwritten, nothing lost to a kill.

#![allow(clippy::unwrap_used)] // a test that cannot go on says so by stopping

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use plaudit_data::python;

fn collect(directory: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_plaudit"));
    command.args(["collect", "pickcube_scripted", "env.eval.total_num_envs=4"]);
    command.args([
        "env.eval.init_params.sensor_configs.width=32",
        "env.eval.init_params.sensor_configs.height=24",
    ]);
    command.args(["env.eval.data_collection.save_dir=kept"]).args(words).current_dir(directory);
    command
}

fn done(mut command: Command) -> Output {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output
}

fn pickles(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let paths = entries.map(|entry| entry.unwrap().path());
    let mut paths: Vec<_> = paths.filter(|path| path.extension().is_some_and(|e| e == "pkl")).collect();
    paths.sort();
    paths
}

#[test]
fn collections_add_up_and_hold_what_happened() {
    let directory = tempfile::tempdir().unwrap();
    done(collect(directory.path(), &["--episodes", "4"]));
    let first = pickles(&directory.path().join("kept"));
    assert_eq!(first.len(), 4);
    let again = done(collect(directory.path(), &["--episodes", "3"]));
    assert!(String::from_utf8_lossy(&again.stderr).contains("kept holds 4 episodes; new ones are added"));
    let all = pickles(&directory.path().join("kept"));
    assert_eq!(all.len(), 7);

    let episodes: Vec<_> = all.iter().map(|path| python::read(path).unwrap()).collect();
    for episode in &episodes {
        assert_eq!(
            episode.get("success").and_then(|success| success.to_bool()),
            Some(true),
            "the script does not fail"
        );
        let seen = episode.get("observations").and_then(|list| list.as_items()).unwrap();
        let image = seen[0].get("main_images").and_then(|image| image.as_array()).unwrap();
        assert_eq!(image.shape(), [24, 32, 3]);
    }
    let starts: Vec<_> = episodes
        .iter()
        .map(|episode| {
            episode.get("observations").unwrap().as_items().unwrap()[0].get("states").unwrap().clone()
        })
        .collect();
    for (at, start) in starts.iter().enumerate() {
        assert!(!starts[..at].contains(start), "no episode is played twice");
    }
}

#[test]
fn a_kill_loses_at_most_what_was_in_flight() {
    let directory = tempfile::tempdir().unwrap();
    let mut child =
        collect(directory.path(), &["--episodes", "100000"]).stderr(Stdio::null()).spawn().unwrap();
    let (kept, began) = (directory.path().join("kept"), Instant::now());
    while pickles(&kept).len() < 5 && began.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let survived = pickles(&kept);
    assert!(survived.len() >= 5, "{}", survived.len());
    for path in &survived {
        python::read(path).unwrap_or_else(|error| panic!("{error}"));
    }
    done(collect(directory.path(), &["--episodes", "1"]));
    assert_eq!(pickles(&kept).len(), survived.len() + 1);
    let left = std::fs::read_dir(&kept).unwrap().count();
    assert_eq!(left, survived.len() + 1, "what the killed run had not finished is cleared away");
}

#[test]
fn targets_are_met_per_outcome() {
    let directory = tempfile::tempdir().unwrap();
    let words = [
        "actor.model.noise=0.25",
        "env.eval.data_collection.export_format=frames",
        "env.eval.data_collection.target_success=2",
        "env.eval.data_collection.target_failure=2",
    ];
    done(collect(directory.path(), &words));
    for outcome in ["success", "failure"] {
        assert_eq!(pickles(&directory.path().join("kept").join(outcome)).len(), 2, "{outcome}");
    }
}

#[test]
fn only_successes_are_kept_when_only_they_are_wanted() {
    let directory = tempfile::tempdir().unwrap();
    let words = [
        "actor.model.noise=0.25",
        "env.eval.data_collection.only_success=true",
        "env.eval.ignore_terminations=true",
        "--episodes",
        "3",
    ];
    done(collect(directory.path(), &words));
    let names: Vec<_> =
        pickles(&directory.path().join("kept")).iter().map(|p| p.display().to_string()).collect();
    assert_eq!(names.len(), 3);
    assert!(names.iter().all(|name| name.ends_with("_success.pkl")), "{names:?}");
}
