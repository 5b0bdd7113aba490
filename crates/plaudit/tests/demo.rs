//! The demo as a person meets it, without waiting for it.

use crate::runs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use crate::runs::{command, ctrl_c, plaudit, refused, succeeds};

/// Everything done but the last stage.
fn nearly_done(at: &std::path::Path) {
    let log = "runner.logger.log_path=plaudit-demo/policy";
    succeeds(at, &["-q", "train", "cartpole_ppo", log, "runner.max_epochs=1", "runner.val_check_interval=1"]);
    std::fs::create_dir_all(at.join("plaudit-demo/play")).unwrap();
    for run in ["policy", "play"] {
        let printed = r#"{"wall_secs":0,"elapsed_secs":1,"event":"metrics","step":1,"values":[["eval/success_once",0.625]]}"#;
        let path = at.join("plaudit-demo").join(run).join("events.jsonl");
        let before = std::fs::read_to_string(&path).unwrap_or_default();
        std::fs::write(path, format!("{before}{printed}\n")).unwrap();
    }
    let done =
        ["demos", "play", "misses", "held out", "held-out misses", "dataset", "reward", "audit", "policy"];
    let state = serde_json::json!({ "seed": 1, "done": done });
    std::fs::write(at.join("plaudit-demo/demo.json"), state.to_string()).unwrap();
}

#[test]
fn a_demo_that_was_stopped_goes_on_with_the_stage_it_was_in() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    nearly_done(at);
    let output = plaudit(at, &["demo"]);
    let (printed, result) =
        (String::from_utf8_lossy(&output.stderr), String::from_utf8_lossy(&output.stdout).into_owned());
    assert!(output.status.success(), "{printed}");
    assert_eq!(printed.matches("done before").count(), 9, "{printed}");
    assert!(
        printed.contains("$ plaudit report plaudit-demo/policy --output plaudit-demo/report.html"),
        "{printed}"
    );
    assert!(result.contains("62 % before") && result.contains("plaudit-demo/report.html"), "{result}");
    assert!(result.contains("plaudit studio plaudit-demo\n"), "{result}");
    assert!(at.join("plaudit-demo/report.html").is_file());
    let again = plaudit(at, &["demo"]);
    assert_eq!(String::from_utf8_lossy(&again.stderr).matches("done before").count(), 10);
}

#[test]
fn a_folder_of_another_demo_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    nearly_done(at);
    let printed = refused(at, &["demo", "--seed", "2"], 2);
    assert!(printed.contains("plaudit-demo holds another demo"), "{printed}");
    std::fs::write(at.join("plaudit-demo/demo.json"), "no JSON").unwrap();
    assert!(refused(at, &["demo"], 2).contains("holds another demo"));
    std::fs::write(at.join("file"), "").unwrap();
    assert!(refused(at, &["demo", "--dir", "file/below"], 2).contains("cannot make"));
}

#[test]
fn ctrl_c_says_where_the_demo_stopped_and_how_it_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let mut demo = command(folder.path(), &["demo", "--seed", "7", "--dir", "my demo"]);
    // A group of its own, as a terminal has one: Ctrl-C goes to the demo and to the stage that it runs.
    let mut child = demo.process_group(0).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    while !said.contains("pickcube_demos") {
        said += &lines.next().unwrap();
    }
    runs::wait_for(&folder.path().join("my demo/collect/events.jsonl"));
    let group = format!("-{}", child.id());
    assert!(Command::new("kill").args([ctrl_c(), "--", &group]).status().unwrap().success());
    let said = lines.collect::<Vec<_>>().join("\n");
    assert_eq!(child.wait().unwrap().code(), Some(1), "{said}");
    // On a busy machine the stage may have come to its end before Ctrl-C reached it.
    let where_it_stopped =
        |word: &str| format!("stopped {word} stage 1 of 10: A script shows how PickCube is done");
    assert!(["in", "after"].iter().any(|word| said.contains(&where_it_stopped(word))), "{said}");
    assert!(said.ends_with("to go on: plaudit demo --seed 7 --dir 'my demo'"), "{said}");
}
