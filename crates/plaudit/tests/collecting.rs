//! Collecting as a person does it: whole files, nothing overwritten, nothing lost to a kill.

#![allow(clippy::unwrap_used)] // a test that cannot go on says so by stopping

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use plaudit_data::inspect::{Format, InspectOptions, inspect};
use plaudit_data::lerobot::{self, Dataset};
use plaudit_data::store::Store;
use plaudit_data::{python, replay_buffer};

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
        "env.eval.data_collection.target_success=1",
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

#[test]
fn every_format_holds_the_same_episodes() {
    let directory = tempfile::tempdir().unwrap();
    let formats = "[pickle,lerobot,npy,frames,store,replay_buffer]";
    let words = [
        "--episodes",
        "3",
        "actor.model.noise=0.25",
        "env.eval.data_collection.licence=CC-BY-4.0",
        &format!("env.eval.data_collection.export_format={formats}"),
    ];
    done(collect(directory.path(), &words));
    let kept = directory.path().join("kept");
    let looked = |format: &str| {
        let report = inspect(&kept.join(format), &InspectOptions::default(), &|_, _| {}).unwrap();
        assert!(report.broken.is_empty(), "{format}: {report}");
        (report.format, report.episodes, report.success.once)
    };
    let (format, episodes, successes) = looked("pickle");
    assert_eq!((format, episodes), (Format::Episodes, 3));
    for (name, format) in [
        ("lerobot", Format::Lerobot),
        ("npy", Format::Trajectories),
        ("frames", Format::Frames),
        ("store", Format::Store),
    ] {
        assert_eq!(looked(name), (format, 3, successes), "{name}");
    }
    assert_eq!(replay_buffer::read(&kept.join("replay_buffer")).unwrap().len(), 3);

    let shards = lerobot::shards(&kept.join("lerobot")).unwrap();
    let dataset = Dataset::open(&shards[0]).unwrap();
    let store = Store::open(kept.join("store")).unwrap();
    assert!(store.verify(&|_, _| {}).unwrap().is_whole());
    for (number, entry) in store.episodes().iter().enumerate() {
        let (stored, read) = (store.episode(entry.id).unwrap(), dataset.read(number).unwrap());
        assert_eq!(stored.actions(), read.actions.concat());
        assert_eq!(stored.frame(0, 0), read.cameras[0].image(0), "PNG loses nothing");
    }
    let origin = &store.episodes()[0].origin;
    assert_eq!((origin.env.as_deref(), origin.licence.as_deref()), (Some("PickCube-v1"), Some("CC-BY-4.0")));
    assert_eq!(origin.config_hash.as_ref().map(String::len), Some(64));
}

#[test]
fn lerobot_datasets_are_added_to_only_when_asked() {
    let directory = tempfile::tempdir().unwrap();
    let format = "env.eval.data_collection.export_format=lerobot";
    done(collect(directory.path(), &["--episodes", "2", format]));
    let refused = collect(directory.path(), &["--episodes", "1", format]).output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains("resume"), "{said}");
    done(collect(directory.path(), &["--episodes", "1", format, "env.eval.data_collection.resume=true"]));
    let shards = lerobot::shards(&directory.path().join("kept")).unwrap();
    let lengths: Vec<usize> = shards.iter().map(|shard| Dataset::open(shard).unwrap().len()).collect();
    assert_eq!(lengths, [2, 1]);
}

/// A small disk of its own, where the system lets us have one. It is gone with the process, so what is on it is copied.
#[test]
fn a_full_disk_ends_it_and_keeps_what_was_written() {
    for (format, size) in [("pickle", "3m"), ("store", "3m"), ("lerobot", "1m")] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        let (kept, copy) = (path.join("kept"), path.join("copy"));
        std::fs::create_dir(&kept).unwrap();
        let script = format!(
            "mount -t tmpfs -o size={size} none kept || exit 77; \"$@\"; code=$?; cp -r kept copy; exit $code"
        );
        let plaudit = collect(
            path,
            &["--episodes", "100000", &format!("env.eval.data_collection.export_format={format}")],
        );
        let mut command = Command::new("unshare");
        command.args(["--mount", "--map-root-user", "sh", "-c", &script, "sh"]);
        command.arg(plaudit.get_program()).args(plaudit.get_args()).current_dir(path);
        let Ok(output) = command.output() else {
            println!("skipped: there is no unshare here");
            return;
        };
        if !copy.exists() {
            println!("skipped: this system lends no small disk");
            return;
        }
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("No space left on device") || said.contains("no storage space"), "{said}");
        assert!(said.contains("are safe") && said.contains("free some space"), "{said}");
        let written = written_before(&said);
        assert!(written > 0, "{said}");
        match format {
            "lerobot" => {
                // The shard cannot be completed without room. The next collection completes it.
                std::fs::remove_dir(&kept).unwrap();
                std::fs::rename(&copy, &kept).unwrap();
                let words = ["--episodes", "1", "env.eval.data_collection.export_format=lerobot"];
                let resume = "env.eval.data_collection.resume=true";
                done(collect(path, &[&words[..], &[resume]].concat()));
                let report = inspect(&kept, &InspectOptions::default(), &|_, _| {}).unwrap();
                assert_eq!((report.episodes, report.broken.len()), (written + 1, 0), "{report}");
            }
            _ => {
                let report = inspect(&copy, &InspectOptions::default(), &|_, _| {}).unwrap();
                assert_eq!((report.episodes, report.broken.len()), (written, 0), "{report}");
            }
        }
    }
}

/// `the 12 episodes that were written before it are safe`, however the lines are broken.
fn written_before(said: &str) -> usize {
    let words: Vec<&str> = said.split_whitespace().filter(|word| *word != "│").collect();
    let at = words.windows(3).position(|some| some[1..] == ["episodes", "that"]).unwrap();
    words[at].parse().unwrap()
}

/// An environment of Python's that dies once, in its 30th step.
const DIES_ONCE: &str = r#"
import os
import gymnasium
from gymnasium.envs.classic_control import CartPoleEnv


class DiesOnce(CartPoleEnv):
    steps = 0

    def step(self, action):
        self.steps += 1
        if self.steps == 30 and not os.path.exists("died"):
            open("died", "w").close()
            os._exit(3)
        return super().step(action)


gymnasium.register("DiesOnce-v0", entry_point=DiesOnce, max_episode_steps=20)
"#;

#[test]
fn environments_that_die_are_started_again_if_that_is_allowed() {
    let Some(python) = std::env::var_os("PLAUDIT_ORACLE_PYTHON") else {
        println!("skipped: PLAUDIT_ORACLE_PYTHON names no Python with gymnasium");
        return;
    };
    for restarts in [0, 1] {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("dies_once.py"), DIES_ONCE).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_plaudit"));
        command.args(["collect", "gymnasium_random", "--episodes", "8", "env.eval.total_num_envs=2"]);
        command.args(["env.eval.init_params.id=DiesOnce-v0", "env.eval.bridge.import=[dies_once.py]"]);
        command.arg(format!("env.eval.python={}", python.display()));
        command.arg(format!("env.eval.bridge.restarts={restarts}"));
        let output = command.arg("env.eval.data_collection.save_dir=kept").current_dir(&directory).output();
        let output = output.unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let kept = pickles(&directory.path().join("kept"));
        assert!(said.contains("exited with status 3"), "{said}");
        if restarts == 0 {
            assert_eq!(output.status.code(), Some(1), "{said}");
            assert!(!kept.is_empty() && kept.len() < 8, "{kept:?}");
            assert!(said.contains(&format!("the {} episodes before it are in", kept.len())), "{said}");
            assert!(said.contains("bridge.restarts"), "{said}");
        } else {
            assert!(output.status.success(), "{said}");
            assert_eq!(kept.len(), 8);
            assert!(said.contains("start 1 of 1"), "{said}");
        }
        for path in &kept {
            python::read(path).unwrap_or_else(|error| panic!("{error}"));
        }
    }
}

#[test]
fn each_environment_gives_as_many_episodes_as_the_others() {
    let directory = tempfile::tempdir().unwrap();
    done(collect(directory.path(), &["--episodes", "6", "actor.model.noise=0.25"]));
    let mut counts = [0; 4];
    for path in pickles(&directory.path().join("kept")) {
        let name = path.file_name().unwrap().to_str().unwrap().to_string();
        counts[name.split('_').nth(3).unwrap().parse::<usize>().unwrap()] += 1;
    }
    assert_eq!(counts, [2, 2, 1, 1], "and not those that end first, which succeed");
}
