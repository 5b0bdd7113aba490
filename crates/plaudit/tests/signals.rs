//! Signals: what whoever started plaudit had it ignore stays ignored; everything else asks it to stop.

#![cfg(target_os = "linux")] // `env --default-signal` is GNU's
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// An evaluation that would take very long, started by a shell that ignores `ignored` (or nothing).
fn long_run(directory: &Path, ignored: &str) -> Child {
    let script = format!("trap '' {ignored}; exec \"$@\"");
    let script = if ignored.is_empty() { "exec \"$@\"".into() } else { script };
    // Whoever runs the tests may have them ignore signals, as `nohup` does.
    let mut command = Command::new("env");
    command.args(["--default-signal=HUP,INT", "sh", "-c", &script, "sh"]);
    command.args([env!("CARGO_BIN_EXE_plaudit"), "eval", "cartpole_random"]);
    command.args(["env.eval.rollout_epoch=10000000", "-q"]).current_dir(directory);
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

fn wait_for(what: &str, mut is: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is() {
        assert!(began.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Episodes it has evaluated, by its state on disk.
fn saved(directory: &Path) -> Option<u64> {
    let run = std::fs::read_dir(directory.join("logs")).ok()?.next()?.ok()?;
    let text = std::fs::read(run.path().join("checkpoints/eval.json")).ok()?;
    serde_json::from_slice::<serde_json::Value>(&text).ok()?["step"].as_u64()
}

fn kill(child: &Child, signal: &str) {
    assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
}

#[test]
fn what_was_ignored_stays_ignored() {
    for (ignored, signal) in [("HUP", "-HUP"), ("INT", "-INT"), ("HUP INT", "-HUP")] {
        let directory = tempfile::tempdir().unwrap();
        let mut child = long_run(directory.path(), ignored);
        wait_for("it does not start", || saved(directory.path()).is_some());
        kill(&child, signal);
        let before = saved(directory.path()).unwrap();
        wait_for("it does not go on", || {
            assert!(child.try_wait().unwrap().is_none(), "{signal} ended it though {ignored} is ignored");
            saved(directory.path()).is_some_and(|now| now > before + 3)
        });
        kill(&child, "-TERM");
        assert_eq!(child.wait().unwrap().code(), Some(1), "it stops when it is asked to");
    }
}

#[test]
fn a_closed_terminal_ends_a_run_that_did_not_ask_to_outlive_it() {
    let directory = tempfile::tempdir().unwrap();
    let mut child = long_run(directory.path(), "");
    wait_for("it does not start", || saved(directory.path()).is_some());
    kill(&child, "-HUP");
    assert_eq!(child.wait().unwrap().code(), Some(1));
}
