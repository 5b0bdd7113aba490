//! `plaudit sweep`: runs side by side that are each what `plaudit train` would have made of them, whatever
//! stops the sweep.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::runs::{command, ctrl_c, curve, on_one_line, plaudit, refused, succeeds, wait_for};

/// A training of half a second.
const SMALL: [&str; 6] = [
    "cartpole_ppo",
    "runner.max_epochs=3",
    "runner.save_interval=1",
    "env.train.total_num_envs=8",
    "env.eval.total_num_envs=4",
    "algorithm.update_epoch=2",
];
/// One that goes on for long enough to be stopped.
const LONG: [&str; 6] = [
    "cartpole_ppo",
    "runner.max_epochs=150",
    "runner.save_interval=1",
    "env.train.total_num_envs=8",
    "env.eval.total_num_envs=4",
    "runner.val_check_interval=50",
];

fn sweep<'a>(config: &[&'a str], words: &[&'a str]) -> Vec<&'a str> {
    [&["sweep"], config, words].concat()
}

#[test]
fn each_run_is_what_training_alone_makes_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let words = ["actor.optim.lr=1e-3,1e-5", "seeds=2", "--jobs", "2", "--dir", "s"];
    let output = plaudit(folder.path(), &sweep(&SMALL, &words));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    let table = String::from_utf8(output.stdout).unwrap();
    for expected in ["eval/return", "lr=0.001", "lr=1e-05", "is better than", "s/report.html"] {
        assert!(table.contains(expected), "{expected}: {table}");
    }
    assert!(said.contains("done: lr=0.001 seed=1: 3 of 3"), "{said}");
    let alone =
        ["actor.optim.lr=1e-5", "actor.seed=2", "env.train.seed=2", "runner.logger.log_path=alone", "-q"];
    succeeds(folder.path(), &[&["train"], &SMALL[..], &alone].concat());
    assert_eq!(curve(&folder.path().join("s/lr=1e-05_seed=2")), curve(&folder.path().join("alone")));
    let page = std::fs::read_to_string(folder.path().join("s/report.html")).unwrap();
    for expected in ["Probability of improvement", "Performance profiles", "lr=1e-05 seed=2"] {
        assert!(page.contains(expected), "{expected}");
    }
    again(folder.path());
}

/// The same command runs nothing twice; more seeds are run beside those that are there.
fn again(folder: &Path) {
    let log = folder.join("s/lr=0.001_seed=1/events.jsonl");
    let before = std::fs::read(&log).unwrap();
    let words = ["actor.optim.lr=1e-3,1e-5", "seeds=1,2,5", "--dir", "s", "--json", "--metric", "env/return"];
    let found: serde_json::Value = serde_json::from_str(&succeeds(folder, &sweep(&SMALL, &words))).unwrap();
    assert_eq!(std::fs::read(&log).unwrap(), before, "a finished run is kept");
    assert_eq!((&found["metric"], &found["methods"][0]["runs"]), (&"env/return".into(), &3.into()));
    let probability = found["probability_of_improvement"][0]["probability"]["value"].as_f64().unwrap();
    assert!((0.5..=1.0).contains(&probability), "{found}");
    let other = refused(folder, &sweep(&SMALL, &["seeds=2", "algorithm.gamma=0.5", "--dir", "s"]), 2);
    assert!(other.contains("holds another sweep") && other.contains("--dir"), "{other}");
    let unknown = refused(
        folder,
        &sweep(&SMALL, &["actor.optim.lr=1e-3,1e-5", "--dir", "s2", "--metric", "eval/nothing"]),
        2,
    );
    assert!(unknown.contains("`eval/nothing`") && unknown.contains("eval/success_once"), "{unknown}");
}

#[test]
fn a_sweep_that_was_stopped_or_killed_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let words = sweep(&LONG, &["seeds=2", "--jobs", "2", "--dir", "s"]);
    let saved =
        |seed: u32, step: u32| folder.path().join(format!("s/seed={seed}/checkpoints/global_step_{step}"));
    let start = || {
        let mut command = command(folder.path(), &words);
        command.stderr(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
        command.spawn().unwrap()
    };
    let child = start();
    wait_for(&saved(1, 2));
    let signal = std::process::Command::new("kill").args([ctrl_c(), &child.id().to_string()]).status();
    assert!(signal.unwrap().success());
    let output = child.wait_with_output().unwrap();
    let said = on_one_line(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("to go on: plaudit sweep cartpole_ppo") && said.contains("seeds=2"), "{said}");
    let last = newest(&folder.path().join("s/seed=1"));
    assert!((2..150).contains(&last), "it stopped early: {last}");

    let mut child = start();
    wait_for(&saved(2, newest(&folder.path().join("s/seed=2")) + 2));
    child.kill().unwrap(); // SIGKILL: its runs are asked to stop, and save
    child.wait().unwrap();
    settle(&folder.path().join("s"));
    succeeds(folder.path(), &words);
    let alone = ["actor.seed=2", "env.train.seed=2", "runner.logger.log_path=alone", "-q"];
    succeeds(folder.path(), &[&["train"], &LONG[..], &alone].concat());
    assert_eq!(curve(&folder.path().join("s/seed=2")), curve(&folder.path().join("alone")));
}

/// The step of the newest checkpoint.
fn newest(run: &Path) -> u32 {
    let entries = std::fs::read_dir(run.join("checkpoints")).into_iter().flatten().flatten();
    let steps =
        entries.filter_map(|entry| entry.file_name().to_str()?.strip_prefix("global_step_")?.parse().ok());
    steps.max().unwrap_or(0)
}

/// Waits until no run of a sweep writes any more.
fn settle(folder: &Path) {
    let began = Instant::now();
    let steps = || (newest(&folder.join("seed=1")), newest(&folder.join("seed=2")));
    loop {
        let before = steps();
        std::thread::sleep(Duration::from_millis(1500));
        if steps() == before {
            return;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "the runs outlive their sweep");
    }
}

#[test]
fn a_run_that_fails_stops_no_other_and_says_why() {
    let folder = tempfile::tempdir().unwrap();
    // A folder of a run is a file: that one cannot be started.
    let words = sweep(&SMALL, &["seeds=2", "--dir", "s", "--jobs", "1"]);
    std::fs::create_dir(folder.path().join("s")).unwrap();
    std::fs::write(folder.path().join("s/seed=1"), "in the way").unwrap();
    let said = refused(folder.path(), &words, 1);
    assert!(
        said.contains("seed=1") && said.contains("in the way") || said.contains("cannot remove"),
        "{said}"
    );
    std::fs::remove_file(folder.path().join("s/seed=1")).unwrap();
    // What trains well until it evaluates, and then cannot write.
    let words = sweep(
        &SMALL,
        &[
            "seeds=2",
            "--dir",
            "t",
            "--jobs",
            "1",
            "env.eval.video_cfg.save_video=true",
            "env.eval.video_cfg.video_base_dir=/dev/null/x",
        ],
    );
    let output = plaudit(folder.path(), &words);
    let said = on_one_line(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("failed: seed=1") && said.contains("failed: seed=2"), "{said}");
    assert!(said.contains("2 of 2 runs failed") && said.contains("output/seed=1.txt"), "{said}");
}

#[test]
fn two_sweeps_do_not_share_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let words = sweep(&LONG, &["seeds=1", "--dir", "s", "-q"]);
    let mut first = command(folder.path(), &words).stderr(std::process::Stdio::null()).spawn().unwrap();
    wait_for(&folder.path().join("s/seed=1/events.jsonl"));
    let said = refused(folder.path(), &words, 2);
    assert!(said.contains("another sweep is at work in s"), "{said}");
    first.kill().unwrap();
    first.wait().unwrap();
}
