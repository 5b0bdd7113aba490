//! What may be in a manifest and in a pickle, and what may not.

use std::fs;
use std::path::Path;

use plaudit_pyfiles::{Array, DType, PickleStyle, Protocol, PyValue, TensorStyle, pickle_bytes};

use super::*;

fn options() -> WindowReadOptions {
    WindowReadOptions {
        prompt_key: "prompt".into(),
        answer_key: "answer".into(),
        objectives: vec![Objective::Trend, Objective::Success],
        data_root: None,
        views: WindowViews::All,
    }
}

fn frames(count: usize, shape: &[usize]) -> PyValue {
    let bytes: Vec<u8> = (0..shape.iter().product::<usize>()).map(|byte| byte as u8).collect();
    PyValue::list((0..count).map(|_| Array::new(DType::U8, shape, bytes.clone()).unwrap().into()))
}

/// A folder with one window of these entries; gives its manifest.
fn window(folder: &Path, entries: Vec<(&str, PyValue)>, more: &str) -> PathBuf {
    fs::create_dir_all(folder.join("pkl")).unwrap();
    let style = PickleStyle { protocol: Protocol::Five, tensors: TensorStyle::Numpy };
    fs::write(folder.join("pkl/a.pkl"), pickle_bytes(&PyValue::dict(entries), style).unwrap()).unwrap();
    let line =
        format!(r#"{{"prompt": "Better?", "answer": "Positive", "pkl_path": "/moved/pkl/a.pkl"{more}}}"#);
    fs::write(folder.join("segments.jsonl"), line + "\n").unwrap();
    folder.join("segments.jsonl")
}

fn problem(entries: Vec<(&str, PyValue)>, more: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let manifest = window(folder.path(), entries, more);
    Windows::read(&[manifest], &options()).and_then(|windows| windows.frames(0)).unwrap_err().to_string()
}

#[test]
fn a_window_of_a_folder_that_was_moved_is_found_beside_its_manifest() {
    let folder = tempfile::tempdir().unwrap();
    let entries = vec![
        ("main_frames", frames(2, &[1, 2, 3])),
        ("extra_view_frames", frames(2, &[1, 2])),
        ("extra_view_2_frames", frames(2, &[1, 1, 4])),
    ];
    let more =
        r#", "segment_metadata": {"window_size": 2, "start_step": 7}, "supervision": {"score": -0.25}"#;
    window(folder.path(), entries, more);
    let windows = Windows::read(&[folder.path().into()], &options()).unwrap();
    assert_eq!((windows.len(), windows.row(0).answer, windows.row(0).prompt.as_str()), (1, 0, "Better?"));
    assert_eq!((windows.row(0).start, windows.row(0).progress), (Some(7), Some(-0.25)));
    assert_eq!(windows.balance(Objective::Trend), [("positive", 1), ("negative", 0), ("unclear", 0)]);
    let views = windows.frames(0).unwrap();
    let bytes: Vec<&[u8]> = views.iter().map(|view| view[1].rgb.as_slice()).collect();
    assert_eq!(bytes, [&[0, 1, 2, 3, 4, 5][..], &[0, 0, 0, 1, 1, 1], &[0, 1, 2]]);
}

#[test]
fn one_view_is_an_error_unless_one_is_asked_for() {
    let one = || vec![("main_frames", frames(2, &[1, 1, 3]))];
    assert!(problem(one(), "").contains("has no `extra_view_frames`"));
    let folder = tempfile::tempdir().unwrap();
    let manifest = window(folder.path(), one(), "");
    let options = WindowReadOptions { views: WindowViews::Main, ..options() };
    assert_eq!(Windows::read(&[manifest], &options).unwrap().frames(0).unwrap().len(), 1);
}

#[test]
fn short_windows_and_strange_frames_are_errors() {
    let both = |view: PyValue| vec![("main_frames", view), ("extra_view_frames", frames(5, &[1, 1, 3]))];
    let short = problem(both(frames(3, &[1, 1, 3])), r#", "segment_metadata": {"window_size": 5}"#);
    assert!(short.contains("`main_frames` has 3 frames, and the window is to have 5"), "{short}");
    assert!(problem(both(PyValue::list([])), "").contains("has 0 frames"));
    assert!(problem(both(frames(5, &[3, 1, 8])), "").contains("is of shape [3, 1, 8]"));
    assert!(problem(both(PyValue::list([PyValue::None])), "").contains("no array"));
}

#[test]
fn lines_that_are_no_windows_are_named() {
    let check = |line: &str, expected: &str| {
        let folder = tempfile::tempdir().unwrap();
        let manifest = folder.path().join("segments.jsonl");
        fs::write(&manifest, line).unwrap();
        let error = Windows::read(&[manifest], &options()).unwrap_err().to_string();
        assert!(error.contains(expected), "{line}: {error}");
    };
    check("", "lists no windows");
    check("{", "line 1: no JSON");
    check("{}", "has no `prompt`");
    check(r#"{"question": "?"}"#, "has no `answer`");
    check(r#"{"prompt": "?", "answer": "perhaps"}"#, "`perhaps`, not one of positive, negative");
    check(r#"{"prompt": "?", "supervision": {"label": "negative"}}"#, "has no `pkl_path`");
    check(
        r#"{"prompt": "?", "answer": "negative", "video_clip": "a.mp4"}"#,
        "shows a video file (`video_clip`)",
    );
    check(r#"{"prompt": "?", "answer": "negative", "pkl_path": "/no/a.pkl"}"#, "`/no/a.pkl` is not there");
    let nowhere = Windows::read(&["/nowhere".into()], &options()).unwrap_err();
    assert!(matches!(nowhere, WindowsError::Manifest { .. }), "{nowhere}");
}
