//! What the bridge makes of programs that are no Python. The script's standard input is the socket.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use plaudit_env::{Bridge, BridgeSettings};

/// An executable shell script.
pub(crate) fn script(folder: &tempfile::TempDir, text: &str) -> PathBuf {
    let path = folder.path().join("python");
    std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// What starting says when this script is the interpreter.
fn start_with(text: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let settings = BridgeSettings {
        python: script(&folder, text),
        start_timeout_secs: 0.6,
        ..BridgeSettings::gymnasium("CartPole-v1", 1)
    };
    let started = Instant::now();
    let words = Bridge::start(settings).unwrap_err().to_string();
    assert!(started.elapsed() < Duration::from_secs(10));
    words
}

#[test]
fn an_interpreter_that_is_not_there() {
    let settings =
        BridgeSettings { python: "/nowhere/python".into(), ..BridgeSettings::gymnasium("X-v0", 1) };
    let words = Bridge::start(settings).unwrap_err().to_string();
    assert!(words.starts_with("cannot run `/nowhere/python`: No such file"), "{words}");
    assert!(words.ends_with("choose a Python interpreter that exists"), "{words}");
}

#[test]
fn a_program_that_ends_at_once_is_quoted() {
    let words = start_with("echo sorry >&2; exit 7");
    assert!(words.contains("its Python process exited with status 7"), "{words}");
    assert!(words.ends_with("It printed:\nsorry"), "{words}");
    let words = start_with("kill -9 $$");
    assert!(words.contains("was killed by signal 9 (SIGKILL, possibly out of memory)"), "{words}");
}

#[test]
fn a_program_that_says_nothing_is_killed() {
    let words = start_with("exec sleep 60");
    assert!(words.contains("no answer within 0.6 s, so its Python process was killed"), "{words}");
}

#[test]
fn a_program_that_sends_invalid_messages_is_killed() {
    let words = start_with("printf 'Hello' >&0; exec sleep 60");
    assert!(words.contains("sent an invalid message (an answer that starts with byte 72)"), "{words}");
    let words = start_with(r"printf 'j\377\377\377\377' >&0; exec sleep 60");
    assert!(words.contains("a message of 4294967295 bytes"), "{words}");
    let hello = r#"{"state_width": 1e3, "cameras": [], "actions": {"discrete": 2}}"#;
    let words = start_with(&format!(r"printf 'j\{:o}\0\0\0%s' '{hello}' >&0; exec sleep 60", hello.len()));
    assert!(words.contains("sent an invalid message"), "{words}");
}

#[test]
fn sizes_beyond_this_machine_are_refused_before_they_are_allocated() {
    let camera = r#"{"name": "a", "height": 16384, "width": 16384, "channels": 64}"#;
    let mut cameras = camera.to_owned();
    for name in "bcdefghijklmnopqrstuvwxyz".chars() {
        cameras += &format!(",{}", camera.replace("\"a\"", &format!("\"{name}\"")));
    }
    let hello = format!(
        r#"{{"state_width": 1, "cameras": [{cameras}], "actions": {{"discrete": 2}}, "max_episode_steps": null, "control_hz": null}}"#
    );
    let [low, high, ..] = (hello.len() as u32).to_le_bytes();
    let words = start_with(&format!(r"printf 'j\{low:03o}\{high:03o}\0\0%s' '{hello}' >&0; exec sleep 60"));
    assert!(words.contains("each need 1.2 TiB"), "{words}");
}
