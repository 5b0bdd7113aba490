//! `plaudit collect` on an arm of LeRobot's. What needs lerobot runs when `PLAUDIT_LEROBOT_PYTHON` names a Python with it; the
//! rest puts a shell script in Python's place.

#![cfg(target_os = "linux")]
#![allow(clippy::print_stdout)] // and says when it was skipped

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// Runs the rest of the line in a terminal, types `arm` when it is asked for, and prints what was said.
const TERMINAL: &str = r#"
import os, pty, sys
child, terminal = pty.fork()
if child == 0:
    os.execv(sys.argv[1], sys.argv[1:])
said, armed = b"", False
while True:
    try:
        part = os.read(terminal, 4096)
    except OSError:
        part = b""
    if not part:
        break
    said += part
    if not armed and b"to let it move" in said:
        armed = True
        os.write(terminal, b"arm\n")
os.write(1, said)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"#;

/// A config with the arm of `lerobot_desk_arm.py`, without settings for the guard.
fn config(folder: &Path, robot: &str, lerobot: &str) -> PathBuf {
    let fixture = format!("{}/../env/tests/bridge/lerobot_desk_arm.py", env!("CARGO_MANIFEST_DIR"));
    let text = format!(
        r#"
runner: {{num_data_episodes: 3}}
env:
  eval:
    env_type: realworld
    max_episode_steps: 12
    ignore_terminations: false
    auto_reset: true
    override_cfg:
      step_frequency: 20
      lerobot:
        import: ["{fixture}"]
        robot: {{type: desk_arm, calibration_dir: "{folder}", log: "{folder}/log"{robot}}}
{lerobot}
    data_collection: {{enabled: true, export_format: store, save_dir: "{folder}/kept"}}
"#,
        folder = folder.display()
    );
    let path = folder.join("desk.yaml");
    std::fs::write(&path, text).unwrap();
    path
}

const LIMITS: &str = "        joint_limits: {shoulder: [-90, 90], elbow: [-40, 40], gripper.pos: [0, 100]}
        max_relative_target: 3
        max_relative_targets: {gripper: 10}
        answer_timeout_secs: 1";

fn said(output: &Output) -> String {
    let all = [&output.stdout[..], &output.stderr].concat();
    let text = String::from_utf8_lossy(&all).replace(['│', '×', '├', '╰', '─', '▶'], " ");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn collect(config: &Path, python: &str, more: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_plaudit"));
    command.arg("collect").arg(config).arg(format!("env.eval.python={python}")).args(more);
    command.stdin(Stdio::null()).current_dir(config.parent().unwrap()).output().unwrap()
}

fn in_terminal(python: &str, config: &Path, more: &[&str]) -> Output {
    let mut command = Command::new(python);
    command.args(["-c", TERMINAL, env!("CARGO_BIN_EXE_plaudit"), "collect"]).arg(config);
    command.arg(format!("env.eval.python={python}")).args(more).current_dir(config.parent().unwrap());
    command.stdin(Stdio::null()).output().unwrap()
}

fn python() -> Option<String> {
    let python = std::env::var("PLAUDIT_LEROBOT_PYTHON").ok();
    if python.is_none() {
        println!("skipped: PLAUDIT_LEROBOT_PYTHON names no Python with lerobot");
    }
    python
}

fn goals(folder: &Path) -> Vec<Vec<f64>> {
    let log = std::fs::read_to_string(folder.join("log")).unwrap_or_default();
    let line = |line: &str| serde_json::from_str::<Value>(line).unwrap();
    let numbers = |goal: &Value| goal.as_array().unwrap().iter().map(|at| at.as_f64().unwrap()).collect();
    log.lines().filter_map(|text| line(text).get("goal").map(numbers)).collect()
}

fn inspect(folder: &Path) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_plaudit"));
    said(&command.args(["dataset", "inspect"]).arg(folder.join("kept")).output().unwrap())
}

#[test]
fn a_leader_gives_episodes_within_the_limits() {
    let Some(python) = python() else { return };
    let folder = tempfile::tempdir().unwrap();
    let leader = format!(
        "        teleop: {{type: desk_leader, calibration_dir: \"{}\"}}\n        take_over: always\n        action: position\n{LIMITS}",
        folder.path().display()
    );
    let config = config(folder.path(), "", &leader);
    let output = in_terminal(&python, &config, &[]);
    let text = said(&output);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("desk_arm") && text.contains("will move"), "{text}");
    let goals = goals(folder.path());
    assert!(goals.len() > 30, "{}", goals.len());
    for (before, after) in goals.iter().zip(&goals[1..]) {
        assert!((-40.0..=40.0).contains(&after[1]), "the leader wants far more: {after:?}");
        assert!(
            (before[0] - after[0]).abs() < 3.01 && (before[1] - after[1]).abs() < 3.01,
            "{before:?} {after:?}"
        );
    }
    assert!(goals.last().unwrap()[1] < -35.0, "it was led to its limit: {:?}", goals.last());
    let text = inspect(folder.path());
    assert!(text.contains("3 episodes") && text.contains("front"), "{text}");
}

#[test]
fn a_person_at_the_leader_ends_episodes_and_a_fault_makes_one_invalid() {
    let Some(python) = python() else { return };
    let folder = tempfile::tempdir().unwrap();
    let leader = format!(
        "        teleop: {{type: desk_leader_events, success_at: 0.7, calibration_dir: \"{}\"}}\n        reset_joints: {{shoulder: 10, elbow: -20, gripper: 50}}\n{LIMITS}",
        folder.path().display()
    );
    let faulty = ", fail: raise, fail_from: 8, fail_secs: 1.0";
    let config = config(folder.path(), faulty, &leader);
    let more = ["env.eval.max_episode_steps=100", "env.eval.data_collection.only_success=true"];
    let output = in_terminal(&python, &config, &more);
    let text = said(&output);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("camera `front` has no new frame") && text.contains("the arm goes on"), "{text}");
    let text = inspect(folder.path());
    assert!(text.contains("3 episodes"), "{text}");
}

#[test]
fn nothing_moves_where_nobody_can_arm_it() {
    let Some(python) = python() else { return };
    let folder = tempfile::tempdir().unwrap();
    let config = config(folder.path(), "", LIMITS);
    let output = collect(&config, &python, &[]);
    assert!(
        !output.status.success() && said(&output).contains("nobody armed the robot"),
        "{}",
        said(&output)
    );
    assert_eq!(goals(folder.path()), Vec::<Vec<f64>>::new());
    for (lerobot, words) in [
        ("", "joint `shoulder.pos` has no limits"),
        (
            "        joint_limits: {shoulder: [0, 1], elbow: [0, 1], gripper: [0, 1]}",
            "nothing says how far `shoulder.pos`",
        ),
        ("        joint_limits: {wrist: [0, 1]}", "help: its joints are shoulder, elbow, gripper"),
        (&format!("{LIMITS}\n        action: position"), "nothing says which position"),
        (&format!("{LIMITS}\n        reset_joints: {{elbow: 0}}"), "`shoulder.pos` has no start"),
        (&format!("{LIMITS}\n        take_over: events"), "tells no events"),
    ] {
        let config = self::config(folder.path(), "", lerobot);
        let text = said(&collect(&config, &python, &[]));
        assert!(text.contains(words), "{text}\nshould contain {words}");
    }
}

/// What `collect` says when a script takes Python's place, or nothing does.
fn refused(python: &str, more: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let config = config(folder.path(), "", LIMITS);
    let output = collect(&config, python, more);
    assert!(!output.status.success());
    said(&output)
}

#[test]
fn what_is_missing_is_named() {
    let text = refused("/no/such/python", &[]);
    assert!(text.contains("env.eval.python") && text.contains("a Python with lerobot"), "{text}");
    let text = refused("/no/such/python", &["env.eval.override_cfg.server_url=http://127.0.0.1:5000"]);
    assert!(text.contains("override_cfg.server_url") && text.contains("follows joint positions"), "{text}");
    let text = refused("/no/such/python", &["env.eval.total_num_envs=2"]);
    assert!(text.contains("a robot is one environment"), "{text}");
    let text = refused("/no/such/python", &["env.eval.override_cfg.lerobot.robot.type=null"]);
    assert!(text.contains("the robot has no type"), "{text}");
    let text = refused("/no/such/python", &["env.eval.override_cfg.lerobot.reset_time=-1"]);
    assert!(text.contains("reset_time"), "{text}");
}

#[test]
fn joints_without_limits_are_named_by_the_robot() {
    let folder = tempfile::tempdir().unwrap();
    let hello =
        r#"{"state":["a.pos"],"joints":["a.pos"],"cameras":[],"has_teleop":false,"has_events":false}"#;
    let skip = "skip() { head -c $(head -c 4 | od -An -tu4) >/dev/null; }";
    let text = format!(
        "#!/bin/sh\n{skip}\nskip; skip\nprintf 'j\\{:o}\\0\\0\\0%s' '{hello}' >&0\nskip\nprintf k >&0\nexec cat >/dev/null\n",
        hello.len()
    );
    let python = folder.path().join("python");
    std::fs::write(&python, text).unwrap();
    std::fs::set_permissions(&python, std::fs::Permissions::from_mode(0o755)).unwrap();
    let text = refused(python.to_str().unwrap(), &[]);
    assert!(
        text.contains("the robot has no joint `shoulder`") && text.contains("its joints are a"),
        "{text}"
    );
}
