//! Recordings of several formats, exported and read back.
#![allow(clippy::unwrap_used, missing_docs)]

mod lerobot_episodes;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use lerobot_episodes::{Kind, episode};
use plaudit_core::FrameShape;
use plaudit_data::convert::BadFiles;
use plaudit_data::episode::{CollectionRun, Ending, EpisodeFormat, EpisodeWriter, Targets};
use plaudit_data::export::{
    ExportError, ExportFormat, ExportOptions, ExportProblem, StatePose, export, export_scored,
};
use plaudit_data::lerobot::{Dataset, ImageStorage};
use plaudit_data::recording::{DatasetFormat, Recording, Recordings, Rules};

fn options(format: ExportFormat) -> ExportOptions {
    ExportOptions { format, fps: 20.0, rules: Rules::default() }
}

fn lerobot(images: ImageStorage) -> ExportFormat {
    ExportFormat::LeRobot { images, robot_type: "panda".into() }
}

fn mcap() -> ExportFormat {
    ExportFormat::Mcap { poses: Vec::new() }
}

/// Three episodes of two cameras as a collector writes them.
fn collected(folder: &Path, format: EpisodeFormat) -> PathBuf {
    let path = folder.join("collected");
    let mut writer =
        EpisodeWriter::start(&path, format, Targets::default(), CollectionRun::Anonymous).unwrap();
    let cameras = vec![("base_camera", FrameShape::rgb(16, 24)), ("hand_camera", FrameShape::rgb(16, 24))];
    let kind = Kind { cameras, ..Kind::default() };
    for number in 0..3 {
        let mut one = episode(&kind, number, 4 + number as usize);
        one.row = number as usize;
        one.timesteps.iter_mut().enumerate().for_each(|(at, step)| step.reward = at as f32 / 8.0);
        one.timesteps.iter_mut().skip(1).for_each(|step| step.success = step.success.or(Some(false)));
        writer.write(one).unwrap();
    }
    writer.finish(Ending::Complete).unwrap();
    path
}

fn exported(source: &Path, to: &Path, options: &ExportOptions) -> u64 {
    let report = export(source, to, options, &|_, _| {}).unwrap();
    assert!(report.skipped.is_empty());
    let hidden = fs::read_dir(to.parent().unwrap()).unwrap();
    let hidden =
        hidden.filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().contains(".partial"));
    assert_eq!(hidden.count(), 0, "nothing half-made stays");
    report.frames
}

/// Actions, rewards, labels, success and task.
type Numbers = (Vec<Vec<f32>>, Vec<f64>, Vec<Option<bool>>, Option<bool>, Option<String>);

/// What a recording says, but for its images: they are compared apart.
fn numbers(path: &Path) -> Vec<Numbers> {
    let found = Recordings::open(path, &Rules::default()).unwrap();
    let mut all = Vec::new();
    for recording in found.iter().map(Result::unwrap) {
        // What followed each action: in collectors' files, the entries after the reset.
        let reset = usize::from(!recording.follows_actions());
        all.push((
            recording.actions().to_vec(),
            recording.rewards()[reset..].to_vec(),
            recording.labels()[reset..].to_vec(),
            recording.success(),
            recording.task().map(str::to_owned),
        ));
    }
    all
}

#[test]
fn pickles_become_a_lerobot_dataset_that_says_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let source = collected(dir.path(), EpisodeFormat::Pickle);
    for images in [ImageStorage::Png, ImageStorage::H264] {
        let to = dir.path().join(format!("{images:?}"));
        assert_eq!(exported(&source, &to, &options(lerobot(images))), 4 + 5 + 6);
        let dataset = Dataset::open(&to).unwrap();
        assert_eq!((dataset.info().fps, dataset.len()), (Some(20.0), 3));
        let names: Vec<&str> = dataset.info().features.iter().map(|feature| &*feature.name).collect();
        let own = ["observation.state", "action", "next.reward", "next.success", "next.done"];
        assert_eq!(names[..5], own);
        assert_eq!(numbers(&to), numbers(&source));
        let (read, want) = (
            Recordings::open(&to, &Rules::default()).unwrap(),
            Recordings::open(&source, &Rules::default()).unwrap(),
        );
        assert_eq!(read.format, DatasetFormat::Lerobot);
        for (read, want) in read.iter().map(Result::unwrap).zip(want.iter().map(Result::unwrap)) {
            assert_eq!(read.cameras().len(), 2);
            for at in 0..read.len() {
                assert_eq!(read.state(at), want.state(at));
                let (got, want) = (
                    read.frame(at, "main_images").unwrap().unwrap(),
                    want.frame(at, "main_images").unwrap().unwrap(),
                );
                assert_eq!(got.shape(), want.shape());
                assert!(images == ImageStorage::H264 || got.pixels().unwrap() == want.pixels().unwrap());
            }
        }
    }
}

#[test]
fn hdf5_and_lerobot_videos_are_exported_too() {
    let dir = tempfile::tempdir().unwrap();
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    for (name, source) in [
        ("m", "hdf5/maniskill/trajectory.rgb.h5"),
        ("v", "lerobot/v3_video_av1"),
        ("r", "hdf5/robomimic/image.hdf5"),
    ] {
        let (source, to) = (tests.join(source), dir.path().join(name));
        exported(&source, &to, &options(lerobot(ImageStorage::Png)));
        let (read, want) = (numbers(&to), numbers(&source));
        assert_eq!(read.len(), want.len());
        for (read, want) in read.iter().zip(&want) {
            assert_eq!((&read.0, read.3), (&want.0, want.3), "{}", source.display());
        }
        exported(&source, &dir.path().join(format!("{name}_mcap")), &options(mcap()));
    }
}

#[test]
fn an_mcap_file_holds_every_topic() {
    let dir = tempfile::tempdir().unwrap();
    let source = collected(dir.path(), EpisodeFormat::Pickle);
    let to = dir.path().join("mcap");
    exported(&source, &to, &options(mcap()));
    let mut files: Vec<PathBuf> = fs::read_dir(&to).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert_eq!(files.len(), 3);
    assert!(
        files[0].ends_with("000000_rank_0_env_0_episode_0_step_4_success.mcap"),
        "{}",
        files[0].display()
    );
    let bytes = fs::read(&files[0]).unwrap();
    let mut topics: BTreeMap<String, Vec<(u64, Vec<u8>)>> = BTreeMap::new();
    for message in mcap::MessageStream::new(&bytes).unwrap() {
        let message = message.unwrap();
        let schema = message.channel.schema.as_ref().unwrap();
        let expected = match &*message.channel.topic {
            "/reward" => "plaudit.Scalar",
            "/success" => "plaudit.Flag",
            "/state" | "/action" => "plaudit.Vector",
            _ => "foxglove.CompressedImage",
        };
        assert_eq!((&*schema.name, &*schema.encoding), (expected, "protobuf"));
        topics
            .entry(message.channel.topic.clone())
            .or_default()
            .push((message.log_time, message.data.to_vec()));
    }
    let counts: Vec<(&str, usize)> = topics.iter().map(|(topic, all)| (&**topic, all.len())).collect();
    let names =
        ["/action", "/camera/extra_view_images", "/camera/main_images", "/reward", "/state", "/success"];
    assert_eq!(counts.iter().map(|(name, _)| *name).collect::<Vec<_>>(), names);
    assert!(counts.iter().all(|(_, count)| *count == 4), "{counts:?}");
    // The reward of the first action, 1/8, is at the time of the second frame: 1/20 s.
    let (time, reward) = &topics["/reward"][0];
    assert_eq!((*time, &reward[reward.len() - 8..]), (50_000_000, &0.125f64.to_le_bytes()[..]));
    let png = b"\x89PNG";
    assert!(topics["/camera/main_images"][0].1.windows(4).any(|word| word == png));
}

#[test]
fn mcap_files_are_read_back() {
    let dir = tempfile::tempdir().unwrap();
    let source = collected(dir.path(), EpisodeFormat::Pickle);
    let to = dir.path().join("mcap");
    exported(&source, &to, &options(mcap()));
    let [read, want] = [&to, &source].map(|path| Recordings::open(path, &Rules::default()).unwrap());
    assert_eq!((read.format, read.len()), (DatasetFormat::Mcap, want.len()));
    for (read, want) in read.iter().map(Result::unwrap).zip(want.iter().map(Result::unwrap)) {
        // There is a frame before each action; what the last one led to has no frame.
        let frames = want.actions().len();
        assert_eq!((read.len(), read.actions(), read.success()), (frames, want.actions(), want.success()));
        assert_eq!(read.rewards()[1..], want.rewards()[1..frames]);
        assert_eq!(read.labels()[1..], want.labels()[1..frames]);
        for at in 0..frames {
            assert_eq!(read.state(at), want.state(at));
            for camera in want.cameras() {
                let got = read.frame(at, &format!("camera/{camera}")).unwrap().unwrap();
                let expected = want.frame(at, &camera).unwrap().unwrap();
                assert_eq!(got.pixels().unwrap(), expected.pixels().unwrap(), "{camera} {at}");
            }
        }
    }
}

#[test]
fn what_cannot_be_exported_is_refused_and_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let source = collected(dir.path(), EpisodeFormat::Pickle);
    let to = dir.path().join("out");
    let refused = |source: &Path, options: &ExportOptions| {
        let error = export(source, &to, options, &|_, _| {}).unwrap_err();
        assert!(!to.exists());
        error
    };
    for fps in [0.0, f64::NAN, 1e9] {
        let error = refused(&source, &ExportOptions { fps, ..options(mcap()) });
        assert!(matches!(error, ExportError::Fps { .. }), "{error}");
    }
    let missing = refused(&dir.path().join("nowhere"), &options(mcap()));
    assert!(matches!(missing, ExportError::Open(_)), "{missing}");

    // One damaged file stops it, or is left out and listed.
    fs::write(source.join("rank_0_env_9_episode_0_step_4_fail.pkl"), b"not a pickle").unwrap();
    let error = refused(&source, &options(lerobot(ImageStorage::H264)));
    assert!(matches!(error, ExportError::File(_)) && error.to_string().contains("env_9"), "{error}");
    let rules = Rules { bad_files: BadFiles::Skip, ..Rules::default() };
    let skip = ExportOptions { rules, ..options(mcap()) };
    let report = export(&source, &to, &skip, &|_, _| {}).unwrap();
    assert_eq!((report.episodes, report.skipped.len()), (3, 1));
    let error = export(&source, &to, &skip, &|_, _| {}).unwrap_err();
    assert!(matches!(error, ExportError::Exists { .. }), "{error}");
    assert_eq!(fs::read_dir(&to).unwrap().count(), 3, "what is there stays");
}

#[test]
fn recordings_that_end_with_an_action_lose_that_one_and_say_so() {
    let dir = tempfile::tempdir().unwrap();
    let source = collected(dir.path(), EpisodeFormat::Frames);
    let report =
        export(&source, &dir.path().join("out"), &options(lerobot(ImageStorage::Png)), &|_, _| {}).unwrap();
    let open = Recordings::open(&source, &Rules::default()).unwrap();
    let seen: usize = open.iter().map(|one| one.unwrap().len()).sum();
    assert_eq!((report.without_last_action, report.frames as usize), (3, seen - 3));
}

#[test]
fn python_packages_read_mcap_files() {
    let Some(python) = std::env::var_os("PLAUDIT_MCAP_PYTHON") else {
        eprintln!("skipped: PLAUDIT_MCAP_PYTHON names no interpreter");
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let source = collected(dir.path(), EpisodeFormat::Pickle);
    let to = dir.path().join("mcap");
    exported(&source, &to, &options(mcap()));
    let check = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/export_oracle/check_mcap.py");
    let file = to.join("000000_rank_0_env_0_episode_0_step_4_success.mcap");
    let run = std::process::Command::new(&python)
        .arg(check)
        .args([file.as_os_str(), "4".as_ref()])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success(), "{said}{}", String::from_utf8_lossy(&run.stderr));
}

fn maniskill() -> ExportFormat {
    ExportFormat::Maniskill { env_id: Some("PickCube-v1".into()) }
}

#[test]
fn trajectories_of_maniskill_say_the_same_as_what_they_were_made_of() {
    let dir = tempfile::tempdir().unwrap();
    let source = collected(dir.path(), EpisodeFormat::Pickle);
    let to = dir.path().join("trajectories");
    assert_eq!(exported(&source, &to, &options(maniskill())), 4 + 5 + 6);
    let [read, want] = [&to, &source].map(|path| Recordings::open(path, &Rules::default()).unwrap());
    assert_eq!((read.format, read.len()), (DatasetFormat::Maniskill, 3));
    assert_eq!(numbers(&to), numbers(&source));
    for (read, want) in read.iter().map(Result::unwrap).zip(want.iter().map(Result::unwrap)) {
        assert_eq!((read.len(), read.ends()), (want.len(), want.ends()), "also what the last action led to");
        assert_eq!(read.cameras(), ["base_camera", "extra_view_images"]);
        for at in 0..want.len() {
            assert_eq!(read.state(at), want.state(at));
            for camera in ["main_images", "extra_view_images"] {
                let [got, expected] = [&read, &want].map(|one| one.frame(at, camera).unwrap().unwrap());
                assert_eq!(got.pixels().unwrap(), expected.pixels().unwrap(), "{camera} {at}");
            }
        }
    }
    let text = fs::read_to_string(to.join("trajectory.json")).unwrap();
    let described: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(described["env_info"]["env_id"], "PickCube-v1");
    assert_eq!(described["env_info"]["env_kwargs"]["obs_mode"], "rgb+state");
    let first = &described["episodes"][0];
    assert_eq!((&first["episode_id"], &first["elapsed_steps"]), (&0.into(), &4.into()));
}

/// From every format whose episodes have actions, and back from ManiSkill's own file.
#[test]
fn other_formats_become_trajectories_too() {
    let dir = tempfile::tempdir().unwrap();
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    for (name, source) in [
        ("m", "hdf5/maniskill/trajectory.rgb.h5"),
        ("s", "hdf5/maniskill_state"),
        ("v", "lerobot/v3_video_av1"),
        ("r", "hdf5/robomimic/image.hdf5"),
    ] {
        let (source, to) = (tests.join(source), dir.path().join(name));
        exported(&source, &to, &options(maniskill()));
        let [read, want] = [&to, &source].map(|path| {
            let found = Recordings::open(path, &Rules::default()).unwrap();
            found.iter().map(Result::unwrap).collect::<Vec<_>>()
        });
        assert_eq!(read.len(), want.len());
        for (read, want) in read.iter().zip(&want) {
            assert_eq!((read.actions(), read.success()), (want.actions(), want.success()), "{name}");
            assert_eq!(read.len(), want.actions().len() + 1);
            assert_eq!(read.state(0), want.state(0));
            for camera in want.cameras() {
                let got = read.frame(1, &camera).unwrap().unwrap();
                assert_eq!(got.pixels().unwrap(), want.frame(1, &camera).unwrap().unwrap().pixels().unwrap());
            }
        }
    }
}

/// What `python` prints of the file at `path`.
fn checked_by(python: &std::ffi::OsStr, script: &str, path: &Path) -> serde_json::Value {
    let check = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/export_oracle").join(script);
    let run = std::process::Command::new(python).arg(check).arg(path).output().unwrap();
    let said = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{said}{}", String::from_utf8_lossy(&run.stdout));
    serde_json::from_slice(&run.stdout).unwrap()
}

#[test]
fn python_packages_read_maniskill_trajectories() {
    let Some(python) = std::env::var_os("PLAUDIT_ORACLE_PYTHON") else {
        eprintln!("skipped: PLAUDIT_ORACLE_PYTHON names no interpreter");
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let source = collected(dir.path(), EpisodeFormat::Pickle);
    let to = dir.path().join("trajectories");
    exported(&source, &to, &options(maniskill()));
    let found = checked_by(&python, "check_maniskill.py", &to.join("trajectory.h5"));
    let floats = |value: &serde_json::Value| -> Vec<f32> {
        value.as_array().unwrap().iter().map(|number| number.as_f64().unwrap() as f32).collect()
    };
    let rows = |value: &serde_json::Value| -> Vec<Vec<f32>> {
        value.as_array().unwrap().iter().map(floats).collect()
    };
    let want = Recordings::open(&source, &Rules::default()).unwrap();
    for (number, want) in want.iter().map(Result::unwrap).enumerate() {
        let found = &found[format!("traj_{number}")];
        assert_eq!(rows(&found["actions"]), want.actions());
        let states: Vec<Vec<f32>> = (0..want.len()).map(|at| want.state(at).unwrap()).collect();
        assert_eq!(rows(&found["state"]), states);
        let rewards: Vec<f32> = want.rewards()[1..].iter().map(|reward| *reward as f32).collect();
        assert_eq!(floats(&found["rewards"]), rewards);
        let labels: Vec<Option<bool>> =
            found["success"].as_array().unwrap().iter().map(serde_json::Value::as_bool).collect();
        assert_eq!(labels, want.labels()[1..]);
        for (camera, group) in [("main_images", "base_camera"), ("extra_view_images", "extra_view_images")] {
            let frames = (0..want.len()).map(|at| want.frame(at, camera).unwrap().unwrap());
            let pixels: Vec<u8> = frames.flat_map(|frame| frame.pixels().unwrap().into_owned()).collect();
            let sum: i64 =
                pixels.iter().enumerate().map(|(at, pixel)| i64::from(*pixel) * (at as i64 % 997 + 1)).sum();
            assert_eq!(found["cameras"][group][1], sum, "{camera}");
        }
    }
}

/// Messages of a topic: time and content.
fn topic(path: &Path, name: &str) -> Vec<(u64, Vec<u8>)> {
    let bytes = fs::read(path).unwrap();
    let messages = mcap::MessageStream::new(&bytes).unwrap().map(Result::unwrap);
    messages
        .filter(|message| message.channel.topic == name)
        .map(|message| (message.log_time, message.data.to_vec()))
        .collect()
}

#[test]
fn scores_and_poses_are_topics_and_no_part_of_the_state() {
    let dir = tempfile::tempdir().unwrap();
    let source = collected(dir.path(), EpisodeFormat::Pickle);
    let to = dir.path().join("mcap");
    let poses = vec!["tcp=0:xyz".parse::<StatePose>().unwrap()];
    let scores = |recording: &Recording| Ok((0..recording.len()).map(|at| at as f32 / 8.0).collect());
    export_scored(&source, &to, &options(ExportFormat::Mcap { poses }), Some(&scores), &|_, _| {}).unwrap();
    let mut files: Vec<PathBuf> = fs::read_dir(&to).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let found = topic(&files[0], "/reward_model/score");
    let values: Vec<f64> = found
        .iter()
        .map(|(_, data)| f64::from_le_bytes(data[data.len() - 8..].try_into().unwrap()))
        .collect();
    assert_eq!(values, [0.0, 0.125, 0.25, 0.375], "one for each frame");
    assert_eq!(found[3].0, 150_000_000, "at the time of its frame");
    let want = Recordings::open(&source, &Rules::default()).unwrap().iter().next().unwrap().unwrap();
    let (time, pose) = &topic(&files[0], "/pose/tcp")[1];
    let state = want.state(1).unwrap();
    // x, y and z, each after its tag, and then a rotation by nothing.
    let numbers: Vec<u8> = (1u8..4)
        .zip(&state)
        .flat_map(|(field, number)| [&[field << 3 | 1][..], &f64::from(*number).to_le_bytes()].concat())
        .collect();
    assert!(*time == 50_000_000 && pose.windows(numbers.len()).any(|part| part == numbers), "{pose:?}");
    let read = Recordings::open(&files[0], &Rules::default()).unwrap().iter().next().unwrap().unwrap();
    assert_eq!(read.state(1), want.state(1), "what a model thought of it was not observed");

    let refused = |poses: &[&str], scores: plaudit_data::export::FrameScores<'_>| {
        let poses = poses.iter().map(|text| text.parse().unwrap()).collect();
        let (to, options) = (dir.path().join("none"), options(ExportFormat::Mcap { poses }));
        let error = export_scored(&source, &to, &options, Some(scores), &|_, _| {}).unwrap_err();
        assert!(!to.exists());
        match error {
            ExportError::Episode { problem, .. } => problem,
            other => panic!("{other}"),
        }
    };
    let problem = refused(&["tcp=999:wxyz"], &scores);
    assert!(matches!(problem, ExportProblem::Pose { frame: 0, .. }), "{problem}");
    let problem = refused(&[], &|_| Err("the model is not well".into()));
    assert_eq!(problem.to_string(), "the model is not well");
    let problem = refused(&[], &|_| Ok(vec![0.0]));
    assert!(problem.to_string().contains("1 scores for 4 frames"), "{problem}");
}
