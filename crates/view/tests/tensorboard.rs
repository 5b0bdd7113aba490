//! Event files against TensorBoard's own code: the bytes it writes, and what it reads.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;
use std::process::Command;

use plaudit_core::{Emit, Event};
use plaudit_view::tensorboard::EventFile;
use plaudit_view::{Recorder, RunDir, Stamp};

/// 2 x 1, RGB.
const PNG: &[u8] = include_bytes!("fixtures/two_pixels.png");

fn metrics(step: u64, values: &[(&str, f64)]) -> Event {
    Event::Metrics { step, values: values.iter().map(|(name, value)| ((*name).into(), *value)).collect() }
}

fn started(step: u64) -> Event {
    let (name, job, unit) = ("run".into(), "train".into(), "updates".into());
    Event::Started { name, job, unit, step, steps: None }
}

fn events() -> Vec<Event> {
    vec![
        started(100),
        metrics(300, &[("train/loss", 0.5), ("env/success_once", 0.0)]),
        metrics(301, &[("train/loss", f64::NAN)]),
        Event::Histogram { step: 301, name: "scores".into(), values: vec![0.0, 15.0, f64::NAN, 30.0] },
        Event::Image { step: 302, name: "eval/camera".into(), height: 1, width: 2, png: PNG.into() },
        Event::Text { step: 0, name: "config".into(), text: "größe: 3\n".into() },
    ]
}

/// `fixtures/run.tfevents` was written by `fixtures/make_tfevents.py` with TensorBoard's own protocol buffers.
#[test]
fn the_bytes_are_those_tensorboard_writes() {
    let dir = tempfile::tempdir().unwrap();
    let stamp = Stamp { wall_secs: 1_785_587_696.25, elapsed_secs: 0.0 };
    let mut file = EventFile::create(dir.path(), stamp.wall_secs).unwrap();
    for event in events() {
        file.add(stamp, &event).unwrap();
    }
    let path = fs::read_dir(dir.path()).unwrap().next().unwrap().unwrap().path();
    let name = path.file_name().unwrap().to_str().unwrap();
    assert!(name.starts_with("events.out.tfevents.1785587696."), "{name}");
    assert!(
        fs::read(&path).unwrap() == include_bytes!("fixtures/run.tfevents"),
        "not the bytes of the fixture"
    );
}

/// Set `PLAUDIT_ORACLE_PYTHON` to a Python that has tensorboard.
#[test]
fn tensorboard_reads_what_a_run_wrote_and_resumed() {
    let Ok(python) = std::env::var("PLAUDIT_ORACLE_PYTHON") else {
        println!("skipped: PLAUDIT_ORACLE_PYTHON names no Python with tensorboard");
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let run = RunDir::at(dir.path()).unwrap();
    let mut first = Recorder::open(&run).unwrap();
    for event in [started(0), metrics(100, &[("train/loss", 0.75)]), metrics(200, &[("train/loss", 9.0)])] {
        first.emit(event);
    }
    drop(first);
    let mut second = Recorder::open(&run).unwrap();
    events().into_iter().for_each(|event| second.emit(event));
    let read = read_with_tensorboard(&python, &run.tensorboard());
    // Step 200 came after the step the run was resumed from, and is gone.
    let loss = r#""train/loss": [[100, 0.75], [300, 0.5], [301, "nan"]]"#;
    let expected = [
        r#"{"script": {"histograms": {"scores": [[301, 3.0, 0.0, 30.0]]}, "#,
        r#""images": {"eval/camera": [[302, 1, 2, 72]]}, "#,
        r#""scalars": {"env/success_once": [[300, 0.0]], "#,
        loss,
        r#"}, "text": {"config": [[0, "gr\u00f6\u00dfe: 3\n"]]}}, "#,
        r#""server": {"histograms": ["scores"], "images": ["eval/camera"], "#,
        r#""scalars": ["env/success_once", "train/loss"], "text": ["config"]}}"#,
    ];
    assert_eq!(read.trim(), expected.concat());
}

fn read_with_tensorboard(python: &str, logdir: &Path) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/check_tensorboard.py");
    let output = Command::new(python).arg(script).arg(logdir).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    String::from_utf8(output.stdout).unwrap()
}
