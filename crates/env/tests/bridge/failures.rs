//! Whatever breaks in Python is reported, and breaks nothing here.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use plaudit_core::{Env, Seed};
use plaudit_env::{BridgeSettings, Make, Vectorization};
use serde_json::json;

use super::{Bridge, python, settings, start, with};

fn failing(python: PathBuf, how: &str) -> BridgeSettings {
    with(settings(python, "odd/Failing-v0", 2), json!({"how": how}))
}

/// What the second step says, after a first that is fine.
fn second_step(env: &mut Bridge) -> String {
    env.reset(Seed::new(1)).unwrap();
    env.step(&[0.0; 2]).unwrap();
    env.step(&[0.0; 2]).unwrap_err().to_string()
}

#[test]
fn exceptions_come_with_their_traceback_and_a_reset_goes_on() {
    let Some(python) = python() else { return };
    let mut env = start(failing(python, "raises"));
    let words = second_step(&mut env);
    let first = words.lines().next().unwrap();
    let expected = "the environment failed: `odd/Failing-v0` failed in step: ValueError: boom in step";
    assert_eq!(first, expected);
    assert!(words.contains("odd_envs.py") && words.contains("in raises"), "{words}");
    assert!(env.step(&[0.0; 2]).unwrap_err().to_string().contains("stepped before they were reset"));
    env.reset(Seed::new(1)).unwrap();
    env.step(&[0.0; 2]).unwrap();
    assert_eq!((env.restarts(), env.is_running()), (0, true));
}

#[test]
fn a_process_that_ends_is_reported_with_its_output_and_restarted() {
    let Some(python) = python() else { return };
    let check = |how: &str, parts: &[&str]| {
        let mut env = start(failing(python.clone(), how));
        let words = second_step(&mut env);
        for part in parts {
            assert!(words.contains(part), "{how}: {part} in {words}");
        }
        assert!(!env.is_running());
        let gone = env.step(&[0.0; 2]).unwrap_err().to_string();
        assert!(gone.contains("exited after an earlier error; reset restarts it"), "{gone}");
        env.reset(Seed::new(2)).unwrap();
        env.step(&[0.0; 2]).unwrap();
        assert_eq!(env.restarts(), 1);
    };
    check("exits", &["its Python process exited with status 3", "It printed:\nfarewell"]);
    check(
        "crashes",
        &["killed by signal 11 (SIGSEGV", "Fatal Python error: Segmentation fault", "in crashes"],
    );
}

#[test]
fn a_process_that_hangs_dumps_its_traceback_and_is_killed() {
    let Some(python) = python() else { return };
    let mut env = start(BridgeSettings { step_timeout_secs: 0.5, ..failing(python, "hangs") });
    let started = Instant::now();
    let words = second_step(&mut env);
    assert!(words.contains("no answer within 0.5 s"), "{words}");
    assert!(words.contains("odd_envs.py") && words.contains("in hangs"), "{words}");
    assert!(started.elapsed() < Duration::from_secs(5));
}

#[test]
fn what_is_printed_is_kept_and_disturbs_nothing() {
    let Some(python) = python() else { return };
    let mut env = start(failing(python, "prints"));
    env.reset(Seed::new(1)).unwrap();
    let states: Vec<_> = (1..5).map(|_| env.step(&[1.0; 2]).unwrap().obs.state[1]).collect();
    assert_eq!(states, [1.0, 2.0, 3.0, 4.0]);
    let deadline = Instant::now() + Duration::from_secs(2);
    while !env.output().contains("stdin") && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(5));
    }
    let printed = env.output();
    assert!(printed.contains("kkkk raw") && printed.contains("stdin gave ''"), "{printed}");
}

#[test]
fn numbers_that_are_none_and_shapes_that_change_are_refused() {
    let Some(python) = python() else { return };
    let check = |how: &str, expected: &str| {
        let mut env = start(failing(python.clone(), how));
        let words = second_step(&mut env);
        assert!(words.contains(expected), "{how}: {words}");
        assert!(env.is_running() && env.reset(Seed::new(1)).is_ok());
    };
    check("nan_reward", "returned reward NaN in environment 0; rewards must be finite");
    check("nan_state", "shows NaN in state value 0 of environment 0");
    check("wrong_shape", "the observation has shape (1,), but should have (2,)");
}

#[test]
fn what_cannot_be_made_says_why() {
    let Some(python) = python() else { return };
    let refused = |settings| Bridge::start(settings).unwrap_err().to_string();
    let words = refused(settings(python.clone(), "CartPol-v1", 1));
    assert!(words.contains("Gymnasium has no `CartPol-v1`") && words.contains("`CartPole-v1`"), "{words}");
    let words = refused(settings(python.clone(), "odd/ManyHands-v0", 1));
    assert!(words.contains("one of 1267650600228229401496703205376 combinations"), "{words}");
    let words = refused(with(settings(python.clone(), "CartPole-v1", 1), json!({"wheels": 3})));
    assert!(words.contains("could not be made: TypeError") && words.contains("wheels"), "{words}");
    let missing =
        BridgeSettings { import: vec!["no_such_module".into()], ..settings(python, "CartPole-v1", 1) };
    let words = refused(missing);
    assert!(words.contains("ModuleNotFoundError: No module named 'no_such_module'"), "{words}");
}

#[test]
fn a_python_without_gymnasium_says_where_to_install_it() {
    let Some(python) = python() else { return };
    // `-S` leaves out installed packages; a script stands between, since an interpreter has no arguments.
    let folder = tempfile::tempdir().unwrap();
    let bare = super::stubs::script(&folder, &format!("exec {} -S \"$@\"", python.display()));
    let words = Bridge::start(settings(bare, "CartPole-v1", 1)).unwrap_err().to_string();
    assert!(words.contains("has no module `") && words.contains("-m pip install"), "{words}");
}

#[test]
fn dropping_ends_the_process_and_those_it_started() {
    let Some(python) = python() else { return };
    for vectorization in [Vectorization::Rows, Vectorization::Async] {
        let mut settings = settings(python.clone(), "odd/Counter-v0", 2);
        let Make::Gymnasium { vectorization: how, .. } = &mut settings.make else { unreachable!() };
        *how = vectorization;
        let mut env = start(settings);
        env.reset(Seed::new(1)).unwrap();
        let process = env.process_id().unwrap();
        let workers = std::fs::read_to_string(format!("/proc/{process}/task/{process}/children")).unwrap();
        let workers: Vec<u32> = workers.split_whitespace().map(|number| number.parse().unwrap()).collect();
        assert_eq!(workers.len(), if vectorization == Vectorization::Async { 2 } else { 0 });
        assert!(is_alive(process));
        drop(env);
        assert!(!is_alive(process) && !workers.into_iter().any(is_alive));
    }
}

#[test]
fn a_process_killed_from_outside_is_noticed_though_its_workers_live() {
    let Some(python) = python() else { return };
    let mut settings = settings(python, "odd/Counter-v0", 2);
    let Make::Gymnasium { vectorization, .. } = &mut settings.make else { unreachable!() };
    *vectorization = Vectorization::Async;
    let mut env = start(settings);
    env.reset(Seed::new(1)).unwrap();
    let process = env.process_id().unwrap().to_string();
    assert!(Command::new("kill").args(["-9", &process]).status().unwrap().success());
    let words = env.step(&[0.0; 2]).unwrap_err().to_string();
    assert!(words.contains("was killed by signal 9"), "{words}");
    env.reset(Seed::new(1)).unwrap();
}

/// Played by another run of this test program, which is then killed.
#[test]
#[ignore = "a part in the next test"]
fn a_parent_that_is_killed() {
    let Some(python) = python() else { return };
    // The thread that made the environments may end before them.
    let made = std::thread::spawn(|| start(failing(python, "hangs"))).join();
    let mut env = made.unwrap();
    env.reset(Seed::new(1)).unwrap();
    env.step(&[0.0; 2]).unwrap();
    println!("process {}", env.process_id().unwrap());
    let _ = env.step(&[0.0; 2]); // hangs, so that the child cannot notice by itself
}

#[test]
fn the_process_does_not_outlive_a_parent_that_is_killed() {
    if python().is_none() {
        return;
    }
    let mut parent = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "failures::a_parent_that_is_killed", "--include-ignored", "--nocapture"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(parent.stdout.take().unwrap()));
    let process = lines.find_map(|line| line.unwrap().split_once("process ")?.1.trim().parse().ok()).unwrap();
    std::thread::sleep(Duration::from_millis(200));
    assert!(is_alive(process));
    parent.kill().unwrap();
    parent.wait().unwrap();
    let deadline = Instant::now() + Duration::from_secs(5);
    while is_alive(process) && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(!is_alive(process));
}

/// Whether there is such a process, other than as an entry that nobody has collected yet.
fn is_alive(process: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}
