//! Collecting as a person does it: whole files, nothing overwritten, nothing lost to a kill.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use plaudit_data::demonstrations;
use plaudit_data::inspect::{DatasetFormat, InspectOptions, inspect};
use plaudit_data::lerobot::{self, Dataset};
use plaudit_data::store::Store;
use plaudit_pyfiles as pyfiles;

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

    let episodes: Vec<_> = all.iter().map(|path| pyfiles::read(path).unwrap()).collect();
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
        pyfiles::read(path).unwrap_or_else(|error| panic!("{error}"));
    }
    done(collect(directory.path(), &["--episodes", "1"]));
    assert_eq!(pickles(&kept).len(), survived.len() + 1);
    let names = std::fs::read_dir(&kept).unwrap().map(|entry| entry.unwrap().file_name());
    let partial = names.filter(|name| name.to_string_lossy().ends_with(".partial")).count();
    assert_eq!(partial, 0, "what the killed run had not finished is cleared away");
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
    assert_eq!((format, episodes), (DatasetFormat::Episodes, 3));
    for (name, format) in [
        ("lerobot", DatasetFormat::Lerobot),
        ("npy", DatasetFormat::Trajectories),
        ("frames", DatasetFormat::Frames),
        ("store", DatasetFormat::Store),
    ] {
        assert_eq!(looked(name), (format, 3, successes), "{name}");
    }
    assert_eq!(demonstrations::read(&kept.join("replay_buffer")).unwrap().len(), 3);

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

const FORMATS: [&str; 6] = ["pickle", "lerobot", "npy", "frames", "store", "replay_buffer"];

#[test]
fn two_collections_at_once_never_share_a_folder() {
    for format in FORMATS {
        let directory = tempfile::tempdir().unwrap();
        let export = format!("env.eval.data_collection.export_format={format}");
        let resume = "env.eval.data_collection.resume=true";
        let words = ["--episodes", "6", &export, resume];
        let spawn = || collect(directory.path(), &words).stderr(Stdio::piped()).spawn().unwrap();
        let both = [spawn(), spawn()].map(|child| child.wait_with_output().unwrap());
        let done = both.iter().filter(|output| output.status.success()).count();
        assert!(done >= 1, "{format}: {}", String::from_utf8_lossy(&both[0].stderr));
        for refused in both.iter().filter(|output| !output.status.success()) {
            let said = said(refused);
            assert!(said.contains("another collection is writing to kept"), "{format}: {said}");
        }
        // One that was refused comes later instead, and adds.
        (done..2).for_each(|_| drop(self::done(collect(directory.path(), &words))));
        let kept = directory.path().join("kept");
        let episodes = inspect(&kept, &InspectOptions::default(), &|_, _| {}).unwrap().episodes;
        assert_eq!(episodes, 12, "{format}");
    }
}

/// What was said, however the lines are broken.
fn said(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    text.split_whitespace().filter(|word| *word != "│").collect::<Vec<_>>().join(" ")
}

/// All files below a folder, without the hidden one that says who collects.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(files(&path)),
            false if path.ends_with(".plaudit-collect") => {}
            false => found.push(path),
        }
    }
    found.sort();
    found
}

fn run_directory(directory: &Path) -> String {
    let mut runs = std::fs::read_dir(directory.join("logs")).unwrap();
    format!("logs/{}", runs.next().unwrap().unwrap().file_name().to_str().unwrap())
}

/// Starts a collection and sends it a signal once so many pickles are there.
fn stopped(directory: &Path, words: &[&str], pickles_there: usize, signal: &str) -> Output {
    let kept = directory.join("kept/pickle");
    stopped_when(directory, words, signal, || pickles(&kept).len() >= pickles_there)
}

fn stopped_when(directory: &Path, words: &[&str], signal: &str, is_due: impl Fn() -> bool) -> Output {
    let child = collect(directory, words).stderr(Stdio::piped()).spawn().unwrap();
    let began = Instant::now();
    while !is_due() && began.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert!(!output.status.success(), "it was done before it could be stopped");
    output
}

#[test]
fn a_resumed_collection_leaves_the_files_of_one_that_never_stopped() {
    let formats = format!("env.eval.data_collection.export_format=[{}]", FORMATS.join(","));
    let words = [
        "--episodes",
        "60",
        "actor.model.noise=0.25",
        "env.eval.data_collection.finalize_interval=13",
        &formats,
    ];
    let (whole, broken) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    done(collect(whole.path(), &words));
    stopped(broken.path(), &words, 6, "-KILL");
    let resume = format!("runner.resume_dir={}", run_directory(broken.path()));
    let resumed = [&words[..], &[&resume]].concat();
    let paused = stopped(broken.path(), &resumed, 20, "-TERM");
    let said = String::from_utf8_lossy(&paused.stderr).into_owned();
    let command = said.lines().find_map(|line| line.strip_prefix("to go on: plaudit ")).unwrap();
    assert!(command.contains("--episodes 60") && command.contains(&resume), "{command}");
    let shards = lerobot::shards(&broken.path().join("kept/lerobot")).unwrap();
    let lengths: Vec<usize> = shards.iter().map(|shard| Dataset::open(shard).unwrap().len()).collect();
    assert!(lengths.iter().sum::<usize>() >= 20, "a paused collection can be used as it is: {lengths:?}");
    let pasted = format!("{} {command}", env!("CARGO_BIN_EXE_plaudit"));
    let output = Command::new("sh").args(["-c", &pasted]).current_dir(&broken).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));

    let [expected, found] = [&whole, &broken].map(|folder| files(&folder.path().join("kept")));
    let names = |files: &[PathBuf], root: &Path| -> Vec<PathBuf> {
        files.iter().map(|file| file.strip_prefix(root).unwrap().to_owned()).collect()
    };
    assert_eq!(names(&found, broken.path()), names(&expected, whole.path()));
    for (found, expected) in found.iter().zip(&expected) {
        // Only these have the time of day in them.
        if !found.to_string_lossy().contains("kept/frames") {
            assert!(std::fs::read(found).unwrap() == std::fs::read(expected).unwrap(), "{found:?}");
        }
    }

    let again = done(collect(broken.path(), &resumed));
    assert!(String::from_utf8_lossy(&again.stderr).contains("this collection is finished"), "{again:?}");
    assert_eq!(files(&broken.path().join("kept")).len(), expected.len());
}

#[test]
fn a_collection_goes_on_only_as_it_began_and_where_it_left_off() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let formats = "env.eval.data_collection.export_format=[pickle,frames]";
    stopped(path, &["--episodes", "100000", formats], 2, "-KILL");
    let resume = format!("runner.resume_dir={}", run_directory(path));
    let fewer = collect(path, &["--episodes", "50", formats, &resume]).output().unwrap();
    assert!(said(&fewer).contains("--episodes 100000"), "{}", said(&fewer));
    done(collect(path, &["--episodes", "1", formats, "runner.logger.log_path=other"]));
    let late = collect(path, &["--episodes", "100000", formats, &resume]).output().unwrap();
    assert!(
        !late.status.success() && said(&late).contains("another one wrote there since"),
        "{}",
        said(&late)
    );
}

#[test]
fn a_kill_hides_few_frames_of_a_lerobot_dataset() {
    let directory = tempfile::tempdir().unwrap();
    let lerobot = "env.eval.data_collection.export_format=lerobot";
    let frames = "env.eval.data_collection.finalize_frames=100";
    let shards = || lerobot::shards(&directory.path().join("kept")).unwrap_or_default();
    let words = ["--episodes", "90", "env.eval.data_collection.finalize_interval=100", lerobot, frames];
    stopped_when(directory.path(), &words, "-KILL", || !shards().is_empty());
    assert!(!shards().is_empty(), "shards close by frames, long before 100 episodes");
    for shard in shards() {
        let dataset = Dataset::open(&shard).unwrap();
        let frames: usize = (0..dataset.len()).map(|at| dataset.read(at).unwrap().len()).sum();
        assert!((100..200).contains(&frames), "{frames}");
    }
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
        // The lines of a message are wrapped, and where depends on its length.
        let unwrapped = said.split_whitespace().collect::<Vec<_>>().join(" ");
        let is_full = |words| unwrapped.contains(words);
        assert!(is_full("No space left on device") || is_full("no storage space"), "{said}");
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
            pyfiles::read(path).unwrap_or_else(|error| panic!("{error}"));
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
