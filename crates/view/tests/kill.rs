//! A recorder that is killed leaves a log that opens, reads and goes on.

#![allow(clippy::unwrap_used)]

use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use plaudit_core::{Emit, EndReason, Event};
use plaudit_view::{EventLog, Recorder, RunDir, Summary};

/// Names the run directory to the process that will be killed.
const VICTIM: &str = "PLAUDIT_TEST_RUN_TO_KILL";

fn metrics(step: u64) -> Event {
    Event::Metrics { step, values: vec![("train/loss".into(), 1.0 / step as f64)] }
}

/// Not a test of its own: `kill_minus_nine…` starts this very binary to run it, and kills it.
#[test]
fn a_run_to_be_killed() {
    let Ok(path) = std::env::var(VICTIM) else { return };
    let mut recorder = Recorder::open(&RunDir::open(path.as_ref()).unwrap()).unwrap();
    for step in 1.. {
        recorder.emit(metrics(step));
    }
}

#[test]
fn kill_minus_nine_loses_at_most_the_line_in_flight() {
    let dir = tempfile::tempdir().unwrap();
    let run = RunDir::at(dir.path()).unwrap();
    let mut victim = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_run_to_be_killed"])
        .env(VICTIM, run.path())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let began = Instant::now();
    while std::fs::metadata(run.events()).unwrap().len() < 50_000 {
        assert!(began.elapsed() < Duration::from_secs(60), "the run writes nothing");
        sleep(Duration::from_millis(5));
    }
    victim.kill().unwrap(); // SIGKILL
    victim.wait().unwrap();

    // Every step from the first, without a gap.
    let read: Vec<_> = EventLog::open(&run).unwrap().map(|entry| entry.unwrap().event).collect();
    let expected: Vec<_> = (1..=read.len() as u64).map(metrics).collect();
    assert!(read.len() > 300 && read == expected, "{} events", read.len());
    assert_eq!(Summary::read(&run).unwrap().end, None);

    // And on it goes.
    let next = read.len() as u64 + 1;
    let mut recorder = Recorder::open(&run).unwrap();
    recorder.emit(metrics(next));
    recorder.emit(Event::Ended { step: next, reason: EndReason::Done });
    let summary = Summary::read(&run).unwrap();
    assert_eq!((summary.end, summary.step), (Some(EndReason::Done), next));
}
