//! Recordings that the mcap packages wrote: what was written, what is refused, and files that are damaged.

#![allow(clippy::unwrap_used)] // a test that cannot go on says so by stopping

use std::fs;
use std::path::{Path, PathBuf};

use plaudit_data::demonstrations;
use plaudit_data::inspect::{InspectOptions, inspect, verify};
use plaudit_data::labelled::{LabelledData, ReadOptions};
use plaudit_data::recording::{DatasetFormat, Recording, Recordings, Rules};
use serde_json::Value;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mcap").join(name)
}

fn weighted_sum(recording: &Recording, camera: &str) -> i64 {
    let frames = (0..recording.len()).map(|at| recording.frame(at, camera).unwrap().unwrap());
    let pixels: Vec<u8> = frames.flat_map(|frame| frame.pixels().unwrap().into_owned()).collect();
    pixels.iter().enumerate().map(|(at, pixel)| i64::from(*pixel) * (at as i64 % 997 + 1)).sum()
}

fn rows(value: &Value) -> Vec<Vec<f32>> {
    let rows: Vec<Vec<f64>> = serde_json::from_value(value.clone()).unwrap();
    rows.into_iter().map(|row| row.into_iter().map(|number| number as f32).collect()).collect()
}

#[test]
fn recordings_are_what_was_written_whatever_their_encoding() {
    let said: Value = serde_json::from_str(&fs::read_to_string(fixture("expected.json")).unwrap()).unwrap();
    for (name, front, wrist) in [
        ("protobuf", "camera/front", "camera/wrist"),
        ("json", "camera/front", "camera/wrist"),
        ("ros2", "front/image_raw/compressed", "wrist/image_raw"),
    ] {
        let found = Recordings::open(&fixture(&format!("{name}.mcap")), &Rules::default()).unwrap();
        assert_eq!((found.format, found.len()), (DatasetFormat::Mcap, 1));
        let recording = found.iter().next().unwrap().unwrap();
        assert_eq!((recording.name(), recording.len(), recording.cameras().len()), (name, 6, 2));
        assert_eq!(weighted_sum(&recording, front), said["front"].as_i64().unwrap(), "{name}");
        assert_eq!(weighted_sum(&recording, "main_images"), said["front"].as_i64().unwrap(), "{name}");
        assert_eq!(weighted_sum(&recording, wrist), said["wrist"].as_i64().unwrap(), "{name}");
        let states: Vec<Vec<f32>> = (0..6).map(|at| recording.state(at).unwrap()).collect();
        assert_eq!(states, rows(&said["states"]), "{name}: what was said last before each frame");
        assert_eq!(recording.actions(), rows(&said["actions"]), "{name}: what was done after each frame");
        assert_eq!(recording.success(), Some(name != "ros2"), "{name}");
        let labels: Vec<Option<bool>> = match name {
            "protobuf" => vec![None; 6],
            "json" => (0..6).map(|at| Some(at >= 4)).collect(),
            _ => vec![Some(false); 6],
        };
        assert_eq!(recording.labels(), labels, "{name}");
        assert_eq!(recording.task(), (name != "protobuf").then_some("pick the cube"), "{name}");
        let rewards: Vec<f64> = (0..6).map(|at| f64::from(at) / 10.0).collect();
        assert_eq!(recording.rewards(), if name == "json" { &rewards[..] } else { &[] }, "{name}");
    }
}

#[test]
fn everything_reads_them() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["protobuf.mcap", "json.mcap", "ros2.mcap"] {
        fs::copy(fixture(name), folder.path().join(name)).unwrap();
    }
    let report = inspect(folder.path(), &InspectOptions::default(), &|_, _| {}).unwrap();
    assert_eq!((report.episodes, report.success.once), (3, 2), "{report}");
    assert!(verify(folder.path(), &|_, _| {}).unwrap().is_whole());
    assert_eq!(demonstrations::read(folder.path()).unwrap().len(), 3);
    let rules = Rules { success_last_frames: Some(1), ..Rules::default() };
    let data = LabelledData::read(folder.path(), &ReadOptions { rules, ..ReadOptions::default() }, &|_| {});
    assert_eq!(data.unwrap().episodes.len(), 3);
    let sorted = tempfile::tempdir().unwrap();
    fs::create_dir(sorted.path().join("failure")).unwrap();
    fs::copy(fixture("protobuf.mcap"), sorted.path().join("failure/a.mcap")).unwrap();
    let found = Recordings::open(sorted.path(), &Rules::default()).unwrap();
    assert_eq!(found.format, DatasetFormat::Mcap);
    let report = inspect(sorted.path(), &InspectOptions::default(), &|_, _| {}).unwrap();
    assert!(report.to_string().contains("its folder says failure"), "{report}");
    let rules = Rules { main_camera: "camera/wrist".into(), ..Rules::default() };
    let one = Recordings::open(&fixture("protobuf.mcap"), &rules).unwrap().iter().next().unwrap().unwrap();
    let [main, wrist] = ["main_images", "camera/wrist"].map(|key| one.frame(1, key).unwrap().unwrap());
    assert_eq!(main.pixels().unwrap(), wrist.pixels().unwrap());
}

/// A file with some messages, each of a topic of its own schema and encoding.
struct Written(Vec<u8>);

impl Written {
    fn new() -> Self {
        Self(b"\x89MCAP0\r\n".to_vec())
    }

    fn record(&mut self, operation: u8, content: &[u8]) -> &mut Self {
        self.0.push(operation);
        self.0.extend((content.len() as u64).to_le_bytes());
        self.0.extend(content);
        self
    }

    fn topic(&mut self, id: u16, topic: &str, schema: &str, encoding: &str) -> &mut Self {
        let text = |text: &str| [&(text.len() as u32).to_le_bytes()[..], text.as_bytes()].concat();
        let id = id.to_le_bytes();
        self.record(3, &[&id[..], &text(schema), &text(""), &[0; 4]].concat());
        self.record(4, &[&id[..], &id, &text(topic), &text(encoding), &[0; 4]].concat())
    }

    fn message(&mut self, id: u16, time: u64, data: &[u8]) -> &mut Self {
        let time = time.to_le_bytes();
        self.record(5, &[&id.to_le_bytes()[..], &[0; 4], &time, &time, data].concat())
    }

    fn image(&mut self, time: u64) -> &mut Self {
        let pixels = "AAAAAAAAAAAAAAAA";
        let text = format!(
            "{{\"encoding\": \"rgb8\", \"width\": 2, \"height\": 2, \"step\": 6, \"data\": \"{pixels}\"}}"
        );
        self.message(1, time, text.as_bytes())
    }

    fn problem(&self, folder: &Path) -> String {
        let path = folder.join("a.mcap");
        fs::write(&path, [&self.0[..], b"\x89MCAP0\r\n"].concat()).unwrap();
        let found = Recordings::open(&path, &Rules::default()).unwrap();
        let problem = found.iter().next().unwrap().err().map(|bad| bad.problem.with_hint());
        problem.unwrap_or_default()
    }
}

fn camera() -> Written {
    let mut file = Written::new();
    file.topic(1, "/cam", "foxglove.RawImage", "json");
    file
}

#[test]
fn what_is_missing_or_not_read_is_explained() {
    let folder = tempfile::tempdir().unwrap();
    let check = |file: &mut Written, what: &str| {
        let found = file.problem(folder.path());
        assert!(if what.is_empty() { found.is_empty() } else { found.contains(what) }, "{what}: {found}");
    };
    check(camera().image(5).image(6), "");
    check(camera().image(6).image(5), "the clock of `/cam` goes back from 6 to 5 ns");
    check(&mut Written::new(), "no topic of images");
    check(Written::new().topic(1, "/state", "x", "json").message(1, 1, b"[1]"), "its topics are /state");
    let late = |file: &mut Written| {
        file.image(5).topic(2, "/state", "x", "json").message(2, 9, b"[1]").problem(folder.path())
    };
    assert!(late(&mut camera()).contains("`/state` begins at 9 ns"));
    check(
        camera().image(5).topic(2, "/arm/action", "my.Action", "protobuf").message(2, 9, b""),
        "`/arm/action` has messages `my.Action` as protobuf",
    );
    check(
        camera().image(5).topic(2, "/video", "foxglove.CompressedVideo", "protobuf").message(2, 9, b""),
        "foxglove.CompressedVideo",
    );
    check(
        camera().image(5).topic(2, "/success", "x", "json").message(2, 9, b"{\"data\": 0.5}"),
        "`/success` is 0.5",
    );
    check(
        camera().image(5).topic(2, "/s", "x", "json").message(2, 1, b"[1]").message(2, 2, b"[1, 2]"),
        "it has 2 numbers, and the first has 1",
    );
    check(camera().message(1, 3, b"{"), "a message of `/cam` at 3 ns is damaged");
    let bayer = b"{\"encoding\": \"bayer_rggb8\", \"width\": 2, \"height\": 2, \"step\": 6, \"data\": \"\"}";
    check(camera().message(1, 3, bayer), "its encoding is `bayer_rggb8`");
    let huge = b"{\"encoding\": \"rgb8\", \"width\": 4000000000, \"height\": 4000000000, \"step\": 6, \"data\": \"\"}";
    check(camera().message(1, 3, huge), "pixels are read at most");
    let short = b"{\"encoding\": \"rgb8\", \"width\": 2, \"height\": 2, \"step\": 6, \"data\": \"AAAA\"}";
    check(camera().message(1, 3, short), "3 bytes with rows of 6 are no image of 2x2");
    check(camera().message(7, 3, b""), "a channel 7 that was not said");
    check(Written::new().record(4, &[1, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0]), "a schema 9 that was not said");
    // A chunk that claims a terabyte, and one in another.
    let chunk = |size: u64, compression: &str, data: &[u8]| {
        let length = (compression.len() as u32).to_le_bytes();
        let bytes = (data.len() as u64).to_le_bytes();
        [&[0; 16][..], &size.to_le_bytes(), &[0; 4], &length, compression.as_bytes(), &bytes, data].concat()
    };
    check(camera().record(6, &chunk(1 << 40, "zstd", &[1, 2, 3])), "claims 1099511627776");
    check(camera().record(6, &chunk(3, "brotli", &[1, 2, 3])), "compressed with `brotli`");
    check(camera().record(6, &chunk(3, "zstd", &[1, 2, 3])), "byte");
    let inner = [&[6][..], &(0_u64).to_le_bytes()].concat();
    check(camera().record(6, &chunk(inner.len() as u64, "", &inner)), "a chunk within a chunk");
}

#[test]
fn files_that_are_cut_short_or_damaged_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.mcap");
    for name in ["protobuf.mcap", "json.mcap", "ros2.mcap"] {
        let whole = fs::read(fixture(name)).unwrap();
        fs::write(&path, &whole[..whole.len() / 2]).unwrap();
        let text = verify(folder.path(), &|_, _| {}).unwrap().broken[0].problem.clone();
        assert!(text.contains("cut short") && text.contains("mcap recover"), "{text}");
        let mut bytes = whole.clone();
        bytes[9000] ^= 1;
        fs::write(&path, &bytes).unwrap();
        assert!(!verify(folder.path(), &|_, _| {}).unwrap().is_whole(), "{name}");
    }
}
