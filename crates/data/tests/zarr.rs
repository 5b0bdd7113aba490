//! Replay buffers that zarr wrote: what zarr reads from them, what is refused, and chunks that are damaged.

#![allow(clippy::unwrap_used)] // a test that cannot go on says so by stopping

use std::fs;
use std::path::{Path, PathBuf};

use plaudit_data::demonstrations;
use plaudit_data::inspect::{InspectOptions, inspect, verify};
use plaudit_data::labelled::{LabelledData, ReadOptions};
use plaudit_data::recording::{DatasetFormat, Recording, Recordings, Rules};
use serde_json::Value;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/zarr").join(name)
}

fn copied(name: &str, folder: &Path) -> PathBuf {
    fn copy(from: &Path, to: &Path) {
        fs::create_dir_all(to).unwrap();
        for entry in fs::read_dir(from).unwrap() {
            let path = entry.unwrap().path();
            let to = to.join(path.file_name().unwrap());
            if path.is_dir() { copy(&path, &to) } else { fs::copy(&path, &to).map(drop).unwrap() }
        }
    }
    let to = folder.join(name);
    copy(&fixture(name), &to);
    to
}

fn weighted_sum(recording: &Recording, camera: &str) -> i64 {
    let frames = (0..recording.len()).map(|at| recording.frame(at, camera).unwrap().unwrap());
    let pixels: Vec<u8> = frames.flat_map(|frame| frame.pixels().unwrap().into_owned()).collect();
    pixels.iter().enumerate().map(|(at, pixel)| i64::from(*pixel) * (at as i64 % 997 + 1)).sum()
}

/// Every compressor of these datasets, in chunks of several episodes and of parts of an image, in both orders, and in shards.
#[test]
fn episodes_are_what_zarr_reads_however_they_are_stored() {
    let expected: Value =
        serde_json::from_str(&fs::read_to_string(fixture("expected.json")).unwrap()).unwrap();
    for name in ["push.zarr", "v3.zarr", "umi.zarr.zip"] {
        let found = Recordings::open(&fixture(name), &Rules::default()).unwrap();
        assert_eq!((found.format, found.len()), (DatasetFormat::Zarr, 3), "{name}");
        for (recording, said) in found.iter().zip(expected[name].as_array().unwrap()) {
            let recording = recording.unwrap();
            let cameras = said["cameras"].as_object().unwrap();
            assert_eq!(recording.cameras(), cameras.keys().cloned().collect::<Vec<_>>(), "{name}");
            for (camera, sum) in cameras {
                assert_eq!(weighted_sum(&recording, camera), sum.as_i64().unwrap(), "{name} {camera}");
            }
            let states = (0..recording.len()).flat_map(|at| recording.state(at).unwrap());
            let sum: f64 = states.enumerate().map(|(at, one)| f64::from(one) * (at % 997 + 1) as f64).sum();
            let said_sum = said["states"].as_f64().unwrap();
            assert!((sum - said_sum).abs() < 1e-6 * said_sum.abs().max(1.0), "{name}: {sum}, {said_sum}");
            let actions: Vec<Vec<f32>> = serde_json::from_value(said["actions"].clone()).unwrap();
            assert_eq!(recording.actions(), actions, "{name}");
            assert_eq!(recording.success(), None, "nobody says so");
        }
    }
}

#[test]
fn everything_reads_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = copied("push.zarr", folder.path());
    fs::copy(fixture("umi.zarr.zip"), folder.path().join("umi.zarr.zip")).unwrap();
    let report = inspect(folder.path(), &InspectOptions::default(), &|_, _| {}).unwrap();
    assert_eq!(report.episodes, 6, "{report}");
    assert!(verify(folder.path(), &|_, _| {}).unwrap().is_whole());
    let rules = Rules { success_last_frames: Some(2), ..Rules::default() };
    let data = LabelledData::read(&path, &ReadOptions { rules, ..ReadOptions::default() }, &|_| {}).unwrap();
    assert!(data.in_episodes && data.has_history && data.episodes.len() == 3);
    let demos = demonstrations::read(&path).unwrap();
    assert_eq!((demos.len(), demos[0].cameras.len(), demos[0].actions.len()), (3, 4, 5));
    let error = demonstrations::read(&fixture("umi.zarr.zip")).unwrap_err().to_string();
    assert!(error.contains("no actions"), "{error}");
    let first = Recordings::open(&path, &Rules::default()).unwrap().iter().next().unwrap().unwrap();
    let [main, img] = ["main_images", "img"].map(|key| first.frame(1, key).unwrap().unwrap());
    assert_eq!(main.pixels().unwrap(), img.pixels().unwrap());
}

fn refusal(path: &Path) -> String {
    let verified = verify(path, &|_, _| {}).unwrap();
    verified.broken.first().map(|one| one.problem.clone()).unwrap_or_default()
}

#[test]
fn what_is_not_read_is_refused_by_name() {
    for (store, file, from, to, what) in [
        ("push.zarr", "data/wrist/.zarray", "\"blosc\"", "\"imagecodecs_jpegxl\"", "JPEG-XL"),
        (
            "push.zarr",
            "data/wrist/.zarray",
            "\"filters\": null",
            "\"filters\": [{\"id\": \"delta\"}]",
            "the filter \"delta\"",
        ),
        ("push.zarr", "data/state/.zarray", "<f4", "<M8[ns]", "the type \"<M8[ns]\""),
        ("push.zarr", "data/state/.zarray", "\"chunks\": [", "\"chunks\": [0,", "`chunks` is"),
        (
            "push.zarr",
            "data/state/.zarray",
            "14,",
            "15,",
            "`data/state` has 15 rows, and the last episode ends at 14",
        ),
        ("push.zarr", "data/state/.zarray", "{", "", "`data/state`:"),
        ("push.zarr", "meta/episode_ends/.zarray", "<i8", "<f8", "not a list of rows that rise"),
        ("v3.zarr", "data/top/zarr.json", "\"bitshuffle\"", "\"bitshuffle\", \"x\": [", "`data/top`:"),
        ("v3.zarr", "data/top/zarr.json", "\"blosc\"", "\"zfp\"", "the codec `zfp`"),
        ("v3.zarr", "data/top/zarr.json", "\"regular\"", "\"rectilinear\"", "the chunk grid"),
        (
            "v3.zarr",
            "data/wrist/zarr.json",
            "\"chunk_shape\": [\n          1,",
            "\"chunk_shape\": [\n          3,",
            "do not fit",
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = copied(store, folder.path());
        let text = fs::read_to_string(path.join(file)).unwrap();
        let changed = text.replacen(from, to, 1);
        assert_ne!(text, changed, "{file}: {from}");
        fs::write(path.join(file), changed).unwrap();
        let found = refusal(&path);
        assert!(found.contains(what), "{file}: {found}");
    }
}

#[test]
fn damaged_chunks_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = copied("v3.zarr", folder.path());
    for (chunk, what) in [
        ("data/wrist/c/0/0/0/0", "the checksum of its index"),
        ("data/side/c/0/0/0/0", "its checksum is of other bytes"),
        ("data/top/c/0/0/0/0", "the chunk `data/top/c/0/0/0/0` is damaged"),
    ] {
        let whole = fs::read(path.join(chunk)).unwrap();
        let mut bytes = whole.clone();
        let at = bytes.len() - 9;
        bytes[at] ^= 0x55;
        fs::write(path.join(chunk), &bytes).unwrap();
        let found = refusal(&path);
        assert!(found.contains(what), "{chunk}: {found}");
        fs::write(path.join(chunk), &whole[..whole.len() / 2]).unwrap();
        assert!(refusal(&path).contains(chunk), "{chunk}");
        fs::write(path.join(chunk), &whole).unwrap();
    }
    assert_eq!(refusal(&path), "");
    // A chunk that was not written has the fill value.
    fs::remove_file(path.join("data/top/c/0/0/0/0")).unwrap();
    let first = Recordings::open(&path, &Rules::default()).unwrap().iter().next().unwrap().unwrap();
    assert!(first.frame(0, "top").unwrap().unwrap().pixels().unwrap().iter().all(|byte| *byte == 0));
}

#[test]
fn an_array_that_claims_to_be_huge_is_refused_before_memory_is_taken() {
    let folder = tempfile::tempdir().unwrap();
    let path = copied("push.zarr", folder.path());
    let file = path.join("data/side/.zarray");
    let text = fs::read_to_string(&file).unwrap();
    for (shape, chunks) in
        [("[14, 900000, 900000, 3]", "[14, 900000, 900000, 3]"), ("[14, 900000, 90000, 3]", "[1, 1, 1, 1]")]
    {
        let mut value: Value = serde_json::from_str(&text).unwrap();
        value["shape"] = serde_json::from_str(shape).unwrap();
        value["chunks"] = serde_json::from_str(chunks).unwrap();
        fs::write(&file, value.to_string()).unwrap();
        let found = refusal(&path);
        assert!(
            found.contains("`data/side`") && (found.contains("claims") || found.contains("chunks for")),
            "{found}"
        );
    }
    fs::write(&file, text.replacen("12,", "99999,", 9).replacen("99999,", "12,", 1)).unwrap();
    assert!(refusal(&path).contains("data/side"));
}

#[cfg(unix)]
#[test]
fn links_out_of_the_folder_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = copied("push.zarr", folder.path());
    fs::remove_file(path.join("data/action/0.0")).unwrap();
    std::os::unix::fs::symlink(fixture("push.zarr/data/action/0.0"), path.join("data/action/0.0")).unwrap();
    assert!(refusal(&path).contains("leads out of the dataset's folder"));
}
