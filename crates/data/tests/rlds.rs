//! Datasets that TensorFlow Datasets wrote: what it reads from them, what is refused, and files that are damaged.

#![allow(clippy::unwrap_used)] // a test that cannot go on says so by stopping

use std::fs;
use std::path::{Path, PathBuf};

use plaudit_core::End;
use plaudit_data::convert::{ImageOptions, WindowOptions, WindowScore, convert_images, convert_windows};
use plaudit_data::demonstrations;
use plaudit_data::inspect::{InspectOptions, inspect, verify};
use plaudit_data::labelled::{LabelledData, ReadOptions};
use plaudit_data::recording::{BadFiles, DatasetFormat, Recording, Recordings, Rules};
use serde_json::Value;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/rlds").join(name)
}

/// A copy of the dataset `arm`, for tests that change it.
fn copied(folder: &Path) -> PathBuf {
    let to = folder.join("arm/1.0.0");
    fs::create_dir_all(&to).unwrap();
    for entry in fs::read_dir(fixture("arm/1.0.0")).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
    to
}

fn weighted_sum(recording: &Recording, camera: &str) -> i64 {
    let frames = (0..recording.len()).map(|at| recording.frame(at, camera).unwrap().unwrap());
    let pixels: Vec<u8> = frames.flat_map(|frame| frame.pixels().unwrap().into_owned()).collect();
    pixels.iter().enumerate().map(|(at, pixel)| i64::from(*pixel) * (at as i64 % 997 + 1)).sum()
}

fn rows(value: &Value) -> Vec<Vec<f32>> {
    let numbers =
        |row: &Value| row.as_array().unwrap().iter().map(|one| one.as_f64().unwrap() as f32).collect();
    value.as_array().unwrap().iter().map(numbers).collect()
}

fn check(dataset: &str, count: usize) -> Vec<Recording> {
    let expected: Value =
        serde_json::from_str(&fs::read_to_string(fixture("expected.json")).unwrap()).unwrap();
    let found = Recordings::open(&fixture(dataset), &Rules::default()).unwrap();
    assert_eq!((found.format, found.len()), (DatasetFormat::Rlds, count));
    let recordings: Vec<Recording> = found.iter().map(Result::unwrap).collect();
    for recording in &recordings {
        let name = recording.name();
        let said = &expected[dataset][name];
        for (camera, sum) in said["cameras"].as_object().unwrap() {
            assert_eq!(weighted_sum(recording, camera), sum.as_i64().unwrap(), "{name} {camera}");
        }
        let states: Vec<Vec<f32>> = (0..recording.len()).map(|at| recording.state(at).unwrap()).collect();
        assert_eq!(states, rows(&said["states"]), "{name}");
        assert_eq!(recording.actions(), rows(&said["actions"]), "{name}");
        let rewards: Vec<f64> =
            said["rewards"].as_array().unwrap().iter().filter_map(Value::as_f64).collect();
        assert_eq!(recording.rewards(), rewards, "{name}");
        let last = recording.ends().last().unwrap();
        let terminal = said["is_terminal"].as_array().unwrap().last().unwrap().as_bool().unwrap();
        assert_eq!(*last, if terminal { End::Terminated } else { End::Truncated }, "{name}");
        assert!(recording.ends()[..recording.len() - 1].iter().all(|end| *end == End::No), "{name}");
        assert_eq!(recording.task(), said["task"].as_str(), "{name}");
    }
    recordings
}

#[test]
fn episodes_are_what_tensorflow_datasets_reads() {
    let found = check("arm", 7);
    let names: Vec<&str> = found.iter().map(Recording::name).collect();
    assert_eq!(names, ["train_0", "train_1", "train_2", "train_3", "train_4", "val_0", "val_1"]);
    for one in &found {
        assert_eq!(one.cameras(), ["image", "wrist_image"], "depth is no image for people");
        let success: Vec<_> = (1..=one.len()).map(|at| Some(at == one.len())).collect();
        assert_eq!((one.success(), one.labels()), (Some(true), &success[..]));
        let [main, wrist] = ["main_images", "wrist_images"].map(|key| one.frame(1, key).unwrap().unwrap());
        assert_eq!(main.pixels().unwrap(), one.frame(1, "image").unwrap().unwrap().pixels().unwrap());
        assert_ne!(main.pixels().unwrap(), wrist.pixels().unwrap());
    }
}

#[test]
fn jpegs_are_those_of_tensorflow_within_rounding() {
    let found = Recordings::open(&fixture("arm"), &Rules::default()).unwrap();
    let expected = fs::read(fixture("arm_val_image.rgb")).unwrap();
    let of_val = found.iter().map(Result::unwrap).filter(|one| one.name() == "val_1");
    let frames =
        of_val.flat_map(|one| (0..one.len()).map(move |at| one.frame(at, "image").unwrap().unwrap()));
    let pixels: Vec<u8> = frames.flat_map(|frame| frame.pixels().unwrap().into_owned()).collect();
    assert_eq!(pixels.len(), expected.len());
    let differences = pixels.iter().zip(&expected).map(|(a, b)| u64::from(a.abs_diff(*b)));
    let (furthest, sum) = differences.fold((0, 0), |(most, sum), by| (most.max(by), sum + by));
    // Decoders of JPEG differ by how they round and how they enlarge colour.
    assert!(furthest <= 60 && sum < 3 * pixels.len() as u64, "{furthest}, {sum} of {}", pixels.len());
}

#[test]
fn what_nobody_says_of_success_stays_unknown() {
    let found = check("plain", 3);
    let success: Vec<_> = found.iter().map(Recording::success).collect();
    let mut flags: Vec<_> = success.clone();
    flags.sort();
    assert_eq!(flags, [Some(false), Some(false), Some(true)], "as the episodes' own flag says");
    let solved = &found[success.iter().position(|one| *one == Some(true)).unwrap()];
    assert!(solved.labels().iter().all(Option::is_none), "that it succeeded does not say where");
    let folder = tempfile::tempdir().unwrap();
    let dataset = copied(folder.path());
    // Without the marks of an end nothing says that a reward of 1 ends the task.
    let features = fs::read_to_string(dataset.join("features.json")).unwrap();
    fs::write(dataset.join("features.json"), features.replace("is_terminal", "is_something")).unwrap();
    let found = Recordings::open(folder.path(), &Rules::default()).unwrap();
    assert!(found.iter().all(|one| one.unwrap().success().is_none()));
    let rules = Rules { success_reward: Some(0.5), ..Rules::default() };
    let found = Recordings::open(folder.path(), &rules).unwrap();
    assert!(found.iter().all(|one| one.unwrap().success() == Some(true)));
}

#[test]
fn everything_reads_them() {
    let out = tempfile::tempdir().unwrap();
    let path = fixture("arm/1.0.0");
    let report = inspect(&path, &InspectOptions::default(), &|_, _| {}).unwrap();
    assert_eq!((report.episodes, report.success.once), (7, 7), "{report}");
    assert!(verify(&path, &|_, _| {}).unwrap().is_whole());
    let data = LabelledData::read(&path, &ReadOptions::default(), &|_| {}).unwrap();
    assert!(data.in_episodes && data.has_history && data.episodes.len() == 7);
    let [train, val] = ["train.pt", "val.pt"].map(|name| out.path().join(name));
    let options = ImageOptions { val_split: 0.5, ..ImageOptions::default() };
    assert!(convert_images(&path, &train, &val, &options, &|_| {}).unwrap().train[0] > 0);
    let options =
        WindowOptions { score: WindowScore::Success, extra_views: Vec::new(), ..WindowOptions::default() };
    assert!(convert_windows(&path, &out.path().join("windows"), &options, &|_| {}).is_ok());
    let demos = demonstrations::read(&path).unwrap();
    assert_eq!((demos.len(), demos[0].cameras.len(), demos[0].states[0].len()), (7, 2, 6));
    let one = Recordings::open(&path.join("arm-train.tfrecord-00001-of-00002"), &Rules::default()).unwrap();
    let names: Vec<String> = one.iter().map(|one| one.unwrap().name().into()).collect();
    assert_eq!(names, ["train_2", "train_3", "train_4"]);
}

#[test]
fn a_table_names_episodes_by_split() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("labels.csv");
    fs::write(&table, "episode,label\ntrain_3,failure\nval_0,1\n").unwrap();
    let rules = Rules { labels: Some(table), ..Rules::default() };
    let found = Recordings::open(&fixture("arm"), &rules).unwrap();
    let failed: Vec<String> = found
        .iter()
        .map(Result::unwrap)
        .filter(|one| one.success() == Some(false))
        .map(|one| one.name().into())
        .collect();
    assert_eq!(failed, ["train_3"]);
}

fn problems(path: &Path) -> String {
    let verified = verify(path, &|_, _| {}).unwrap();
    verified.broken.iter().map(|one| format!("{}: {}\n", one.file, one.problem)).collect()
}

#[test]
fn what_is_damaged_or_missing_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let dataset = copied(folder.path());
    let [first, second] =
        ["00000", "00001"].map(|at| dataset.join(format!("arm-train.tfrecord-{at}-of-00002")));
    let whole = fs::read(&first).unwrap();

    fs::remove_file(&second).unwrap();
    let text = problems(&dataset);
    assert!(text.contains("arm-train.tfrecord-00001-of-00002") && text.contains("it is not there"), "{text}");
    let error = LabelledData::read(&dataset, &ReadOptions::default(), &|_| {}).unwrap_err().to_string();
    assert!(error.contains("00001-of-00002"), "{error}");
    let rules = Rules { bad_files: BadFiles::Skip, ..Rules::default() };
    let options = ReadOptions { rules: rules.clone(), ..ReadOptions::default() };
    let data = LabelledData::read(&dataset, &options, &|_| {}).unwrap();
    assert_eq!((data.episodes.len(), data.skipped.len()), (4, 1));
    assert!(data.skipped[0].to_string().contains("00001-of-00002"), "{}", data.skipped[0]);
    let out = tempfile::tempdir().unwrap();
    let [train, val] = ["train.pt", "val.pt"].map(|name| out.path().join(name));
    let convert = |rules: Rules| {
        let options = ImageOptions { rules, val_split: 0.5, ..ImageOptions::default() };
        convert_images(&dataset, &train, &val, &options, &|_| {})
    };
    assert!(convert(Rules::default()).unwrap_err().to_string().contains("00001-of-00002"));
    assert_eq!(convert(rules).unwrap().skipped.len(), 1);
    fs::copy(fixture("arm/1.0.0/arm-train.tfrecord-00001-of-00002"), &second).unwrap();
    assert_eq!(problems(&dataset), "");

    fs::write(&first, &whole[..whole.len() - 5]).unwrap();
    assert!(problems(&dataset).contains("is damaged: it is cut short"), "{}", problems(&dataset));
    let mut bytes = whole.clone();
    bytes[5000] ^= 1;
    fs::write(&first, &bytes).unwrap();
    let text = problems(&dataset);
    assert!(text.contains("train_0") && text.contains("at byte 0 is damaged: its checksum"), "{text}");
    // A length of many gigabytes, with a checksum that fits.
    let mut bytes = 1_u64.rotate_right(8).to_le_bytes().to_vec();
    bytes.extend(plaudit_pyfiles::masked_crc32c(&bytes).to_le_bytes());
    fs::write(&first, &bytes).unwrap();
    assert!(problems(&dataset).contains("at byte 0 is damaged: it is cut short"));
    fs::write(&first, [&whole[..], &whole[..]].concat()).unwrap();
    assert!(problems(&dataset).contains("it has 4 episodes, where dataset_info.json says 2"));
}

#[test]
fn datasets_that_are_not_read_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let dataset = copied(folder.path());
    let info = fs::read_to_string(dataset.join("dataset_info.json")).unwrap();
    let features = fs::read_to_string(dataset.join("features.json")).unwrap();
    for (from, to, what) in [
        ("\"fileFormat\": \"tfrecord\"", "\"fileFormat\": \"array_record\"", "format `array_record`"),
        ("{SHARD_X_OF_Y}", "{SHARD_INDEX}", "{SHARD_INDEX}"),
        ("\"name\": \"arm\"", "\"name\": \"../arm\"", "`name` is no name of a file"),
        ("\"shardLengths\": [", "\"shardLengths\": [\"-3\", ", "-3"),
        ("{\n", "", "dataset_info.json"),
    ] {
        fs::write(dataset.join("dataset_info.json"), info.replacen(from, to, 1)).unwrap();
        let error = Recordings::open(&dataset, &Rules::default()).unwrap_err();
        assert!(error.to_string().contains(what), "{error}");
        assert!(error.hint().is_some());
    }
    fs::write(dataset.join("dataset_info.json"), &info).unwrap();
    fs::write(dataset.join("features.json"), features.replace("\"steps\"", "\"frames\"")).unwrap();
    let error = Recordings::open(&dataset, &Rules::default()).unwrap_err().to_string();
    assert!(error.contains("no `steps`"), "{error}");
    for (from, to, what) in [
        ("\"7\"", "\"6\"", "`steps/action` has 63 floats, where features.json says 54 numbers for 9 steps"),
        ("\"action\"", "\"image_action\"", "no actions"),
        ("\"7\"", "\"-1\"", "`steps/action` is stored as a tensor of no fixed shape"),
    ] {
        fs::write(dataset.join("features.json"), features.replace(from, to)).unwrap();
        let error = demonstrations::read(&dataset).unwrap_err().to_string();
        assert!(error.contains(what), "{error}");
    }
    fs::write(dataset.join("features.json"), &features).unwrap();
    let again = folder.path().join("arm/1.1.0");
    fs::create_dir(&again).unwrap();
    for name in ["features.json", "dataset_info.json"] {
        fs::copy(dataset.join(name), again.join(name)).unwrap();
    }
    let error = Recordings::open(folder.path(), &Rules::default()).unwrap_err().to_string();
    assert!(error.contains("several RLDS datasets") && error.contains("1.1.0"), "{error}");
}

#[cfg(unix)]
#[test]
fn links_out_of_the_dataset_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let dataset = copied(folder.path());
    let name = "arm-train.tfrecord-00000-of-00002";
    fs::remove_file(dataset.join(name)).unwrap();
    std::os::unix::fs::symlink(fixture("arm/1.0.0").join(name), dataset.join(name)).unwrap();
    assert!(problems(&dataset).contains("leads out of the dataset's folder"));
}
