//! Conversions to windows, against what Python makes of the same episodes.

#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};

use plaudit_core::{End, FrameShape};
use plaudit_data::convert::{BadFiles, WindowOptions, convert_windows};
use plaudit_data::episode::as_python::as_pickle;
use plaudit_data::episode::{CameraTrack, Episode, Timestep};
use plaudit_data::recording::Rules;
use plaudit_pyfiles::{self as pyfiles, PickleStyle, PyValue};
use serde_json::Value;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/convert").join(name)
}

fn options(given: &Value) -> WindowOptions {
    let mut options = WindowOptions::default();
    for (key, value) in given.as_object().unwrap() {
        let (whole, number) = (value.as_i64(), value.as_f64());
        match key.as_str() {
            "window_size" => options.window_size = whole.unwrap() as usize,
            "stride" => options.stride = whole.unwrap() as usize,
            "delta_threshold" => options.delta_threshold = number.unwrap(),
            "tail_unclear_ratio" => options.tail_unclear_ratio = number.unwrap(),
            "num_samples_per_episode" => options.num_samples_per_episode = whole.unwrap(),
            "keep_last_window" => options.keep_last_window = value.as_bool().unwrap(),
            "val_split" => options.val_split = number.unwrap(),
            "balance_labels" => options.balance_labels = value.as_bool().unwrap(),
            "max_samples_per_label" => options.max_samples_per_label = Some(whole.unwrap() as usize),
            "eval_max_samples_per_label" => {
                options.eval_max_samples_per_label = Some(whole.unwrap() as usize)
            }
            "reverse_positive_as_negative" => options.reverse_positive_as_negative = value.as_bool().unwrap(),
            "task_description" => options.task_description = value.as_str().map(String::from),
            "random_seed" => options.seed = whole.unwrap(),
            other => panic!("{other}"),
        }
    }
    options
}

fn crc(text: &str) -> u64 {
    u64::from(crc32fast::hash(text.as_bytes()))
}

fn numbers(value: &Value) -> Vec<u64> {
    value.as_array().unwrap().iter().map(|number| number.as_u64().unwrap()).collect()
}

/// The frames of both views of a pickle, as the fixture script names them.
fn frames(pickle: &Path) -> u64 {
    let data = pyfiles::read(pickle).unwrap();
    let view = |key: &str| -> String {
        let images = data.get(key).and_then(PyValue::as_items).unwrap();
        let crcs = images.iter().map(|image| crc32fast::hash(image.as_array().unwrap().bytes()).to_string());
        format!("[{}]", crcs.collect::<Vec<_>>().join(","))
    };
    crc(&format!("[{},{}]", view("main_frames"), view("extra_view_frames")))
}

/// Every case: manifests and info equal to the byte, frames equal, on numpy arrays and torch tensors.
#[test]
fn manifests_and_frames_equal_pythons() {
    for kind in ["numpy", "torch"] {
        let raw = fixture(&format!("episodes_{kind}"));
        let text = std::fs::read_to_string(fixture(&format!("expected_{kind}.json"))).unwrap();
        let expected: Value = serde_json::from_str(&text).unwrap();
        for case in expected["windows"].as_array().unwrap() {
            let out = tempfile::tempdir().unwrap();
            let name = format!("{kind} {}", case["options"]);
            convert_windows(&raw, out.path(), &options(&case["options"]), &|_| {}).unwrap();
            let portable = |text: String| {
                text.replace(out.path().to_str().unwrap(), "{OUT}").replace(raw.to_str().unwrap(), "{RAW}")
            };
            for split in ["train", "eval"] {
                check_split(&out.path().join(split), case, split, &portable, &name);
            }
            let info = portable(std::fs::read_to_string(out.path().join("dataset_info.json")).unwrap());
            let rlinf = case["info"].as_str().unwrap().strip_suffix("\n}").unwrap();
            let ours = info.strip_prefix(rlinf).unwrap_or_else(|| panic!("{name}\n{rlinf}\n{info}"));
            assert!(ours.starts_with(",\n  \"views\": ["), "{ours}");
            assert!(ours.contains("\"leakage\": {"), "{ours}");
        }
    }
}

fn check_split(folder: &Path, case: &Value, split: &str, portable: &dyn Fn(String) -> String, name: &str) {
    let manifest = std::fs::read_to_string(folder.join("segments.jsonl")).unwrap();
    let lines: Vec<String> = manifest.lines().map(|line| portable(line.into())).collect();
    if let Some(whole) = case["whole_lines"][split].as_array() {
        let whole: Vec<&str> = whole.iter().map(|line| line.as_str().unwrap()).collect();
        assert_eq!(lines, whole, "{name}");
    }
    let crcs: Vec<u64> = lines.iter().map(|line| crc(line)).collect();
    assert_eq!(crcs, numbers(&case["lines"][split]), "{name} {split}");
    let pickles = manifest.lines().map(|line| {
        let row: Value = serde_json::from_str(line).unwrap();
        PathBuf::from(row["pkl_path"].as_str().unwrap())
    });
    let found: Vec<u64> = pickles.map(|path| frames(&path)).collect();
    assert_eq!(found, numbers(&case["frames"][split]), "{name} {split}");
    let left = std::fs::read_dir(folder).unwrap().count();
    assert_eq!(left, 2, "only pkl/ and segments.jsonl");
    assert_eq!(std::fs::read_dir(folder.join("pkl")).unwrap().count(), found.len(), "{name} {split}");
}

#[test]
fn pickles_say_what_rlinf_reads() {
    let out = tempfile::tempdir().unwrap();
    convert_windows(&fixture("episodes_numpy"), out.path(), &WindowOptions::default(), &|_| {}).unwrap();
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(out.path().join("train/pkl")).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let reversed =
        files.iter().find(|path| path.to_str().unwrap().ends_with("_reverse_negative.pkl")).unwrap();
    assert_eq!(std::fs::read(reversed).unwrap()[..2], [0x80, 5], "protocol 5");
    let data = pyfiles::read(reversed).unwrap();
    let keys: Vec<&str> = data.as_dict().unwrap().iter().map(|(key, _)| key.as_str().unwrap()).collect();
    let expected = [
        "main_frames",
        "extra_view_frames",
        "label",
        "score",
        "source_episode_path",
        "start_idx",
        "end_idx",
        "augmentation",
    ];
    assert_eq!(keys, expected);
    assert_eq!(data.get("augmentation").and_then(PyValue::as_str), Some("reverse_positive"));
    assert!(data.get("score").and_then(PyValue::to_f64).unwrap() < 0.0);
    let PyValue::Array(frame) = &data.get("main_frames").and_then(PyValue::as_items).unwrap()[0] else {
        panic!("frames are numpy arrays")
    };
    assert_eq!(frame.shape(), [6, 8, 3]);
}

#[test]
fn other_views_are_a_choice() {
    let out = tempfile::tempdir().unwrap();
    let convert = |extra_views: Vec<usize>| {
        let options = WindowOptions {
            extra_views,
            rules: Rules { bad_files: BadFiles::Skip, ..Rules::default() },
            ..Default::default()
        };
        convert_windows(&fixture("episodes_numpy"), out.path(), &options, &|_| {}).unwrap();
        let manifest = std::fs::read_to_string(out.path().join("train/segments.jsonl")).unwrap();
        let row: Value = serde_json::from_str(manifest.lines().next().unwrap()).unwrap();
        (pyfiles::read(row["pkl_path"].as_str().unwrap()).unwrap(), row)
    };
    let (pickle, row) = convert(vec![]);
    assert!(pickle.get("extra_view_frames").is_none());
    assert!(row["prompt"].as_str().unwrap().contains("You are given a 5-frame video (main view)"));
    let (pickle, row) = convert(vec![0, 1]);
    assert_eq!(pickle.get("extra_view_1_frames").and_then(PyValue::as_items).map(<[_]>::len), Some(5));
    assert!(row["prompt"].as_str().unwrap().contains("3 synchronized 5-frame videos"));
    assert_eq!(row["segment_metadata"]["views"][2], "extra_view_images[1]");
}

#[test]
fn episodes_of_another_size_are_named() {
    let raw = tempfile::tempdir().unwrap();
    let write = |name: &str, side: usize| {
        let shape = FrameShape::rgb(side, side);
        let timestep = |at: usize| Timestep {
            reward: at as f32,
            end: if at == 7 { End::Terminated } else { End::No },
            success: Some(at == 7),
            facts: vec![],
        };
        let episode = Episode {
            row: 0,
            number: 0,
            batch_step: 7,
            success: true,
            task: None,
            cameras: vec![CameraTrack {
                name: "base".into(),
                shape,
                pixels: vec![9; 8 * shape.bytes()].into(),
            }],
            states: vec![vec![0.0]; 8],
            actions: vec![vec![0.0]; 7],
            timesteps: (0..8).map(timestep).collect(),
        };
        pyfiles::write_pickle(
            raw.path().join(name),
            &as_pickle(&episode, 0).unwrap(),
            PickleStyle::default(),
        )
        .unwrap();
    };
    write("a_success.pkl", 16);
    write("b_success.pkl", 16);
    write("c_success.pkl", 24);
    let out = tempfile::tempdir().unwrap();
    let convert = |bad_files| {
        let options = WindowOptions {
            extra_views: vec![],
            rules: Rules { bad_files, ..Rules::default() },
            ..Default::default()
        };
        convert_windows(raw.path(), out.path(), &options, &|_| {})
    };
    let error = convert(BadFiles::Stop).unwrap_err().to_string();
    assert!(error.contains("c_success.pkl") && error.contains("[24, 24, 3]"), "{error}");
    assert!(std::fs::read_dir(out.path()).unwrap().next().is_none(), "nothing is written");
    assert_eq!(convert(BadFiles::Skip).unwrap().skipped.len(), 1);
}
