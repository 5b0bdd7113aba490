//! ManiSkill's and robomimic's HDF5 files: the numbers that h5py reads, what is refused, and files that are damaged.

#![allow(clippy::unwrap_used)] // a test that cannot go on says so by stopping

use std::fs;
use std::path::{Path, PathBuf};

use plaudit_data::convert::{BadFiles, ImageOptions, convert_images};
use plaudit_data::demonstrations;
use plaudit_data::inspect::{InspectOptions, inspect, verify};
use plaudit_data::labelled::{LabelledData, ReadOptions};
use plaudit_data::recording::{DatasetFormat, Recording, Recordings, Rules};
use serde_json::Value;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/hdf5").join(name)
}

fn expected() -> Value {
    serde_json::from_str(&fs::read_to_string(fixture("expected.json")).unwrap()).unwrap()
}

/// The sum of `make_fixtures.py`: every pixel of the first so many frames, weighted by where it is.
fn weighted_sum(recording: &Recording, camera: &str) -> i64 {
    let frames = (0..recording.len()).map(|at| recording.frame(at, camera).unwrap().unwrap());
    let pixels: Vec<u8> = frames.flat_map(|frame| frame.pixels().unwrap().into_owned()).collect();
    pixels.iter().enumerate().map(|(at, pixel)| i64::from(*pixel) * (at as i64 % 997 + 1)).sum()
}

fn check(folder: &str, format: DatasetFormat, count: usize) {
    let expected = expected();
    let found = Recordings::open(&fixture(folder), &Rules::default()).unwrap();
    assert_eq!((found.format, found.len()), (format, count));
    for recording in found.iter() {
        let recording = recording.unwrap();
        let name = recording.name().to_owned();
        let said = &expected[format!("{folder}/{name}")];
        for (camera, sum) in said["cameras"].as_object().unwrap() {
            assert_eq!(weighted_sum(&recording, camera), sum.as_i64().unwrap(), "{name} {camera}");
        }
        let state: Vec<f64> = recording.state(0).unwrap().into_iter().map(f64::from).collect();
        let first: Vec<f64> = said["state"].as_array().unwrap().iter().filter_map(Value::as_f64).collect();
        assert_eq!(state[..first.len()], first[..], "{name}");
        let actions: f64 = recording.actions().iter().flatten().map(|number| f64::from(*number)).sum();
        assert!((actions - said["actions"].as_f64().unwrap()).abs() < 1e-5, "{name}: {actions}");
        // ManiSkill's columns begin with the reset here, and not in the file.
        let reset = usize::from(!recording.follows_actions());
        let rewards: Vec<f64> =
            said["rewards"].as_array().unwrap().iter().filter_map(Value::as_f64).collect();
        assert_eq!(recording.rewards()[reset..], rewards, "{name}");
        let success: Vec<_> = said["success"].as_array().unwrap().iter().map(Value::as_bool).collect();
        assert_eq!(recording.labels()[reset..], success, "{name}");
        assert_eq!(recording.success(), Some(success.contains(&Some(true))), "{name}");
    }
}

#[test]
fn trajectories_of_maniskill_are_what_h5py_reads() {
    check("maniskill", DatasetFormat::Maniskill, 4);
    let one = Recordings::open(&fixture("maniskill/trajectory.rgb.h5"), &Rules::default()).unwrap();
    let first = one.iter().next().unwrap().unwrap();
    assert_eq!(first.cameras(), ["base_camera", "hand_camera"]);
    assert_eq!((first.len(), first.state(0).unwrap().len()), (8, 26));
    let [main, hand] = ["main_images", "wrist_images"].map(|key| first.frame(3, key).unwrap().unwrap());
    assert_eq!(main.pixels().unwrap(), first.frame(3, "base_camera").unwrap().unwrap().pixels().unwrap());
    assert_ne!(main.pixels().unwrap(), hand.pixels().unwrap());
}

/// Contiguous, in chunks, with gzip, shuffled, with LZF and checksums, and growing: the demonstrations differ in it.
#[test]
fn demonstrations_of_robomimic_are_what_h5py_reads_however_they_are_stored() {
    check("robomimic", DatasetFormat::Robomimic, 6);
    let found = Recordings::open(&fixture("robomimic"), &Rules::default()).unwrap();
    let names: Vec<String> = found.iter().map(|one| one.unwrap().name().to_owned()).collect();
    assert_eq!(names.last().unwrap(), "demo_10", "numbers count as numbers: {names:?}");
}

#[test]
fn everything_reads_them() {
    let out = tempfile::tempdir().unwrap();
    for (folder, episodes) in [("maniskill", 4), ("robomimic", 6)] {
        let path = fixture(folder);
        let report = inspect(&path, &InspectOptions::default(), &|_, _| {}).unwrap();
        assert_eq!(report.episodes, episodes, "{report}");
        assert!(verify(&path, &|_, _| {}).unwrap().is_whole());
        let data = LabelledData::read(&path, &ReadOptions::default(), &|_| {}).unwrap();
        assert!(data.in_episodes && data.has_history && data.episodes.len() == episodes);
        let [train, val] = ["train.pt", "val.pt"].map(|name| out.path().join(name));
        let options = ImageOptions { val_split: 0.5, ..ImageOptions::default() };
        assert!(convert_images(&path, &train, &val, &options, &|_| {}).unwrap().train[0] > 0);
        let demos = demonstrations::read(&path).unwrap();
        assert_eq!((demos.len(), demos[0].cameras.len()), (episodes, 2));
    }
}

#[test]
fn states_alone_are_refused_with_what_to_do() {
    let states = fixture("maniskill_state");
    let demos = demonstrations::read(&states).unwrap();
    assert_eq!((demos.len(), demos[0].states[0].len()), (4, 42), "states are enough to imitate");
    for (folder, what) in [("maniskill_state", "without images"), ("maniskill_none", "no observations")] {
        let error = LabelledData::read(&fixture(folder), &ReadOptions::default(), &|_| {}).unwrap_err();
        let text = error.to_string();
        assert!(text.contains(what) && text.contains("traj_0"), "{text}");
    }
    let found = Recordings::open(&fixture("maniskill_none"), &Rules::default()).unwrap();
    let problem = found.iter().next().unwrap().unwrap_err().problem;
    assert!(problem.hint().unwrap().contains("replay_trajectory"), "{problem}");
}

/// One file of several is damaged, and one is of another program: that stops a conversion, or is counted.
#[test]
fn a_damaged_file_among_others_stops_or_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    let whole = fixture("robomimic/image.hdf5");
    fs::copy(&whole, folder.path().join("a.hdf5")).unwrap();
    fs::write(folder.path().join("b.hdf5"), &fs::read(&whole).unwrap()[..600]).unwrap();
    fs::copy(fixture("maniskill/trajectory.rgb.h5"), folder.path().join("c.hdf5")).unwrap();
    let out = tempfile::tempdir().unwrap();
    let convert = |bad_files| {
        let [train, val] = ["train.pt", "val.pt"].map(|name| out.path().join(name));
        let options = ImageOptions {
            val_split: 0.5,
            rules: Rules { bad_files, ..Rules::default() },
            ..ImageOptions::default()
        };
        convert_images(folder.path(), &train, &val, &options, &|_| {})
    };
    let error = convert(BadFiles::Stop).unwrap_err().to_string();
    assert!(error.contains("b.hdf5"), "{error}");
    let skipped = convert(BadFiles::Skip).unwrap().skipped;
    let skipped: Vec<String> = skipped.iter().map(ToString::to_string).collect();
    assert_eq!(skipped.len(), 2, "{skipped:?}");
}

/// Every frame of whatever can still be opened.
fn read_all(path: &Path) -> usize {
    let Ok(found) = Recordings::open(path, &Rules::default()) else { return 0 };
    let read = |recording: Recording| {
        for camera in recording.cameras() {
            (0..recording.len()).for_each(|at| drop(recording.frame(at, &camera)));
        }
    };
    found.iter().map(|recording| recording.map(read).is_ok()).filter(|is_read| *is_read).count()
}

#[test]
fn a_damaged_file_is_named_and_nothing_panics() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["maniskill/trajectory.rgb.h5", "robomimic/image.hdf5", "maniskill_state/trajectory.state.h5"]
    {
        let whole = fs::read(fixture(name)).unwrap();
        let path = folder.path().join(Path::new(name).file_name().unwrap());
        for cut in (0..40).map(|part| whole.len() * part / 40) {
            fs::write(&path, &whole[..cut]).unwrap();
            let error = Recordings::open(&path, &Rules::default());
            assert!(error.is_err() || read_all(&path) < 6, "{name} cut at {cut}");
        }
        // Everywhere, and then often where the structure of the file is.
        let everywhere = (0..150).map(|at| at * (whole.len() - 1) / 150);
        for at in everywhere.chain((0..2000).step_by(11)) {
            for flip in [0xff, 0x01, 0x80] {
                let mut bytes = whole.clone();
                bytes[at] ^= flip;
                fs::write(&path, &bytes).unwrap();
                read_all(&path);
            }
        }
        fs::remove_file(&path).unwrap();
    }
}
