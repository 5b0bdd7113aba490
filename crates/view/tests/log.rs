//! What is written is read back, whatever it is and wherever the log was cut.

#![allow(clippy::unwrap_used)]

use std::fs;

use plaudit_core::{Emit, EndReason, Event, Level};
use plaudit_view::{Entry, EventLog, LogError, Recorder, RunDir, RunError, Summary};
use proptest::prelude::*;

fn any_event() -> impl Strategy<Value = Event> {
    let name = || "[a-z/ é\n\"\\\\]{0,12}";
    let values = || prop::collection::vec(prop::num::f64::ANY, 0..5);
    prop_oneof![
        (name(), name(), name(), any::<u64>(), any::<Option<u64>>())
            .prop_map(|(name, job, unit, step, steps)| Event::Started { name, job, unit, step, steps }),
        (any::<u64>(), prop::collection::vec((name(), prop::num::f64::ANY), 0..5))
            .prop_map(|(step, values)| Event::Metrics { step, values }),
        (any::<u64>(), name(), values()).prop_map(|(step, name, values)| Event::Histogram {
            step,
            name,
            values
        }),
        (any::<u64>(), name(), any::<u32>(), any::<u32>(), prop::collection::vec(any::<u8>(), 0..50))
            .prop_map(|(step, name, height, width, png)| Event::Image { step, name, height, width, png }),
        (any::<u64>(), name(), ".{0,20}").prop_map(|(step, name, text)| Event::Text { step, name, text }),
        (any::<bool>(), ".{0,20}").prop_map(|(warning, text)| {
            Event::Notice { level: if warning { Level::Warning } else { Level::Info }, text }
        }),
        (any::<u64>(), name()).prop_map(|(step, path)| Event::Saved { step, path }),
        (any::<u64>(), name())
            .prop_map(|(step, error)| Event::Ended { step, reason: EndReason::Failed { error } }),
        any::<u64>().prop_map(|step| Event::Ended { step, reason: EndReason::Interrupted }),
    ]
}

fn record(run: &RunDir, events: &[Event]) {
    let mut recorder = Recorder::open(run).unwrap();
    events.iter().cloned().for_each(|event| recorder.emit(event));
    assert!(recorder.lost_events().is_none());
}

fn read(run: &RunDir) -> Vec<Event> {
    let with_image = |entry: Entry| match (entry.file, entry.event) {
        (Some(file), Event::Image { step, name, height, width, .. }) => {
            Event::Image { step, name, height, width, png: fs::read(run.path().join(file)).unwrap() }
        }
        (_, event) => event,
    };
    EventLog::open(run).unwrap().map(|entry| with_image(entry.unwrap())).collect()
}

/// As text: NaN is not equal to itself.
fn text(events: &[Event]) -> Vec<String> {
    events.iter().map(|event| format!("{event:?}")).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn events_come_back_equal(events in prop::collection::vec(any_event(), 0..8)) {
        let dir = tempfile::tempdir().unwrap();
        let run = RunDir::at(dir.path()).unwrap();
        record(&run, &events);
        prop_assert_eq!(text(&read(&run)), text(&events));
    }

    #[test]
    fn a_log_cut_anywhere_loses_at_most_its_last_event(
        events in prop::collection::vec(any_event(), 1..6),
        cut in any::<prop::sample::Index>(),
        more in any_event(),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let run = RunDir::at(dir.path()).unwrap();
        record(&run, &events);
        let bytes = fs::read(run.events()).unwrap();
        let cut = cut.index(bytes.len() + 1);
        fs::write(run.events(), &bytes[..cut]).unwrap();

        // Every line that was whole, even one that lacks only its newline.
        let ends = bytes.iter().enumerate().filter(|&(_, &byte)| byte == b'\n').map(|(at, _)| at);
        let mut expected = text(&events[..ends.filter(|&end| end <= cut).count()]);
        prop_assert_eq!(text(&read(&run)), expected.clone());

        let whole_or_empty = cut == 0 || bytes[cut - 1] == b'\n' || bytes.get(cut) == Some(&b'\n');
        let mut recorder = Recorder::open(&run).unwrap();
        prop_assert_eq!(recorder.repair().is_none(), whole_or_empty);
        recorder.emit(more.clone());
        expected.extend(text(&[more]));
        prop_assert_eq!(text(&read(&run)), expected);
    }
}

fn started(step: u64) -> Event {
    let (name, job, unit) = ("pick_cube".into(), "train".into(), "updates".into());
    Event::Started { name, job, unit, step, steps: Some(10) }
}

fn loss(step: u64, value: f64) -> Event {
    Event::Metrics { step, values: vec![("train/loss".into(), value)] }
}

fn fresh() -> (tempfile::TempDir, RunDir) {
    let dir = tempfile::tempdir().unwrap();
    let run = RunDir::at(&dir.path().join("run")).unwrap();
    (dir, run)
}

#[test]
fn a_bad_line_in_the_middle_is_named() {
    let (_dir, run) = fresh();
    record(&run, &[started(0), loss(1, 0.5)]);
    let log = fs::read_to_string(run.events()).unwrap();
    fs::write(run.events(), log.replacen('\n', "\nnot an event\n", 1)).unwrap();
    let error = EventLog::open(&run).unwrap().find_map(Result::err).unwrap();
    assert!(matches!(error, LogError::Line { line: 2, .. }), "{error}");
    assert!(error.to_string().contains("events.jsonl:2: not an event"), "{error}");
}

#[test]
fn a_summary_follows_a_run_through_a_resume() {
    let (_dir, run) = fresh();
    record(&run, &[started(0), loss(2, 0.9), loss(4, 0.8), loss(6, f64::NAN)]);
    let summary = Summary::read(&run).unwrap();
    assert_eq!((summary.end, summary.step, summary.sessions), (None, 6, 1));

    let saved = Event::Saved { step: 10, path: "checkpoints/global_step_10".into() };
    let ended = Event::Ended { step: 10, reason: EndReason::Done };
    record(&run, &[started(4), loss(6, 0.7), loss(10, 0.5), saved, ended]);
    let summary = Summary::read(&run).unwrap();
    assert_eq!((summary.name.as_str(), summary.job.as_str()), ("pick_cube", "train"));
    assert_eq!((summary.end, summary.step, summary.steps), (Some(EndReason::Done), 10, Some(10)));
    assert_eq!(summary.sessions, 2);
    assert_eq!(summary.saved, Some((10, "checkpoints/global_step_10".into())));
    let points: Vec<_> = summary.curves["train/loss"].points.iter().map(|p| (p.step, p.value)).collect();
    assert_eq!(points, [(2, 0.9), (4, 0.8), (6, 0.7), (10, 0.5)]);
    assert_eq!(summary.curves["train/loss"].last(), Some(0.5));
}

#[test]
fn images_of_one_name_and_step_do_not_overwrite_each_other() {
    let (_dir, run) = fresh();
    let image = |png: &[u8]| Event::Image {
        step: 7,
        name: "../eval/camera".into(),
        height: 1,
        width: 1,
        png: png.into(),
    };
    let events = [image(b"first"), image(b"second")];
    record(&run, &events);
    assert_eq!(read(&run), events);
    let files: Vec<_> = EventLog::open(&run).unwrap().map(|entry| entry.unwrap().file.unwrap()).collect();
    assert_eq!(files, ["images/00000007-.._eval_camera.png", "images/00000007-.._eval_camera-2.png"]);
}

#[test]
fn frequent_progress_is_thinned_and_nothing_else() {
    let (_dir, run) = fresh();
    let events: Vec<_> = (0..1000).map(|step| Event::Progress { step }).chain([loss(1000, 0.5)]).collect();
    record(&run, &events);
    let read = read(&run);
    assert!(read.len() < 10, "{}", read.len());
    assert_eq!(read.last(), events.last());
}

#[test]
fn one_recorder_at_a_time() {
    let (_dir, run) = fresh();
    let _first = Recorder::open(&run).unwrap();
    assert!(matches!(Recorder::open(&run), Err(RunError::Busy { .. })));
}

/// `/dev/full` is a disk that is always full.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_remembered_and_the_rest_is_written() {
    let (_dir, run) = fresh();
    std::os::unix::fs::symlink("/dev/full", run.metrics_log()).unwrap();
    let mut recorder = Recorder::open(&run).unwrap();
    let events = [started(0), loss(1, 0.5), loss(2, 0.4)];
    events.iter().cloned().for_each(|event| recorder.emit(event));
    let lost_events = recorder.lost_events().unwrap();
    assert_eq!(lost_events.events, 2);
    let said = lost_events.to_string();
    assert!(said.contains("metrics.log") && said.contains("free some space"), "{said}");
    assert_eq!(read(&run), events);
}
