//! One reader for every format: the same episodes say the same, what a format does not say stays unknown, and no frame of
//! a mapped file is copied.

#![allow(clippy::unwrap_used)] // a test that cannot go on says so by stopping

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use plaudit_core::{End, FrameShape};
use plaudit_data::convert::{ImageOptions, WindowOptions, WindowScore, convert_images, convert_windows};
use plaudit_data::episode::{
    CameraTrack, CollectionRun, Ending, Episode, EpisodeFormat, EpisodeWriter, Targets, Timestep,
};
use plaudit_data::inspect::{InspectOptions, inspect};
use plaudit_data::labelled::{LabelledData, ReadOptions};
use plaudit_data::lerobot;
use plaudit_data::recording::{DatasetFormat, Recording, Recordings, Rules, UnlabelledFrames};
use plaudit_data::store::Origin;
use plaudit_pyfiles::{self as pyfiles, Array, PickleStyle, PyValue};

const SHAPE: FrameShape = FrameShape { height: 80, width: 100, channels: 3 };
const STEPS: usize = 11;

/// An episode that is solved in its last three steps; its reward rises all the way. No two images are alike.
fn episode(number: u64) -> Episode {
    let track = |name: &str, tint: usize| {
        let pixel = |at: usize| (at / SHAPE.bytes() * 9 + at % 251 + tint + 31 * number as usize) as u8;
        let pixels: Vec<u8> = (0..(STEPS + 1) * SHAPE.bytes()).map(pixel).collect();
        CameraTrack { name: name.into(), shape: SHAPE, pixels: pixels.into() }
    };
    let timestep = |at: usize| Timestep {
        reward: if at == 0 { 0.0 } else { at as f32 / 10.0 },
        end: if at == STEPS { End::Terminated } else { End::No },
        success: (at > 0).then_some(at + 3 > STEPS),
        facts: Vec::new(),
    };
    Episode {
        row: 0,
        number,
        batch_step: STEPS as u64,
        success: true,
        task: None,
        cameras: vec![track("base_camera", 0), track("side_camera", 100)],
        states: (0..=STEPS).map(|at| vec![at as f32, number as f32]).collect(),
        actions: (0..STEPS).map(|at| vec![at as f32 / 4.0]).collect(),
        timesteps: (0..=STEPS).map(timestep).collect(),
    }
}

const FORMATS: [&str; 6] = ["pickle", "frames", "npy", "store", "lerobot", "replay_buffer"];

/// Four episodes in a folder of its own.
fn written(folder: &Path, format: &str) -> PathBuf {
    let path = folder.join(format);
    let (targets, by) = (Targets::default(), CollectionRun::Anonymous);
    let writer = match format {
        "pickle" => EpisodeWriter::start(&path, EpisodeFormat::Pickle, targets, by),
        "frames" => EpisodeWriter::start(&path, EpisodeFormat::Frames, targets, by),
        "npy" => {
            let [positive, negative] = ["positive", "negative"].map(|name| path.join(name));
            let cameras = Vec::new();
            EpisodeWriter::start(&path, EpisodeFormat::Npy { positive, negative, cameras }, targets, by)
        }
        "store" => EpisodeWriter::into_store(&path, Origin::new("a test"), targets, by),
        "lerobot" => EpisodeWriter::into_lerobot(&path, lerobot::Settings::default(), targets, by),
        _ => EpisodeWriter::into_replay_buffer(&path, targets, by),
    };
    let mut writer = writer.unwrap();
    (0..4).for_each(|number| assert!(writer.write(episode(number)).unwrap()));
    writer.finish(Ending::Complete).unwrap();
    path
}

fn first(path: &Path) -> Recording {
    Recordings::open(path, &Rules::default()).unwrap().iter().next().unwrap().unwrap()
}

#[test]
fn every_format_says_what_it_has_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let episode = episode(0);
    for format in FORMATS {
        let recording = first(&written(folder.path(), format));
        // Two layouts begin with what the first action led to.
        let offset = usize::from(matches!(format, "frames" | "npy"));
        let has_last = matches!(format, "pickle" | "store");
        assert_eq!(recording.len(), if has_last { STEPS + 1 } else { STEPS }, "{format}");
        assert_eq!(recording.cameras().len(), 2, "{format}");
        for at in 0..recording.len() {
            for (camera, track) in ["main_images", "extra_view_images"].iter().zip(&episode.cameras) {
                let camera = if format == "npy" { &*track.name } else { camera };
                let frame = recording.frame(at, camera).unwrap().unwrap();
                assert_eq!(frame.shape(), SHAPE, "{format}");
                assert!(frame.pixels().unwrap() == track.image(at + offset), "{format}, {camera} at {at}");
            }
        }
        assert!(recording.frame(0, "no_such_camera").unwrap().is_none(), "{format}");
        assert_eq!(recording.state(2), (format != "npy").then(|| vec![(2 + offset) as f32, 0.0]), "{format}");
        assert_eq!(recording.actions().len(), if format == "npy" { 0 } else { STEPS }, "{format}");
        let rewards = match format {
            "npy" | "lerobot" => 0,
            "pickle" | "store" => STEPS + 1,
            _ => STEPS,
        };
        assert_eq!(recording.rewards().len(), rewards, "{format}");
        assert_eq!(recording.success(), (format != "replay_buffer").then_some(true), "{format}");
        assert_eq!(recording.follows_actions(), matches!(format, "lerobot" | "replay_buffer"), "{format}");
        assert!(format == "npy" || recording.ends().last() == Some(&End::Terminated), "{format}");
    }
}

/// The windows of a split: label and frames of both views.
fn windows(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let manifest = std::fs::read_to_string(folder.join("segments.jsonl")).unwrap();
    let window = |line: &str| {
        let row: serde_json::Value = serde_json::from_str(line).unwrap();
        let pickle = pyfiles::read(row["pkl_path"].as_str().unwrap()).unwrap();
        let views = ["main_frames", "extra_view_frames"].iter().flat_map(|key| {
            let frames = pickle.get(key).and_then(PyValue::as_items).unwrap();
            frames.iter().flat_map(|frame| frame.as_array().unwrap().bytes().to_vec()).collect::<Vec<u8>>()
        });
        (row["answer"].as_str().unwrap().to_owned(), views.collect())
    };
    manifest.lines().map(window).collect()
}

#[test]
fn windows_are_the_same_from_every_format_that_has_the_frames_and_rewards() {
    let folder = tempfile::tempdir().unwrap();
    let convert = |format: &str, score: WindowScore| {
        let (raw, out) = (folder.path().join(format), folder.path().join(format!("windows_{format}")));
        let options =
            WindowOptions { val_split: 0.25, tail_unclear_ratio: 0.0, score, ..WindowOptions::default() };
        convert_windows(&raw, &out, &options, &|_| {}).map(|_| windows(&out.join("train")))
    };
    FORMATS.iter().for_each(|format| drop(written(folder.path(), format)));
    let expected = convert("pickle", WindowScore::Rewards).unwrap();
    assert!(expected.iter().any(|(label, _)| label == "positive"));
    // A replay buffer has what the last action led to, and a reset without a reward.
    assert!(convert("replay_buffer", WindowScore::Rewards).unwrap() == expected);
    assert!(convert("store", WindowScore::Rewards).unwrap() == expected);
    assert!(convert("frames", WindowScore::Rewards).is_ok());
    for format in ["npy", "lerobot"] {
        let error = convert(format, WindowScore::Rewards).unwrap_err();
        assert!(error.to_string().contains("it holds no rewards"), "{error}");
        assert!(error.hint().unwrap().contains("let success say"), "{error}");
        let found = convert(format, WindowScore::Success).unwrap();
        assert!(found.iter().any(|(label, _)| label == "positive"), "{format}");
    }
}

#[test]
fn success_that_nobody_knows_stays_unknown() {
    let folder = tempfile::tempdir().unwrap();
    let buffer = written(folder.path(), "replay_buffer");
    let unknown = "does not say which frames show success";
    let error = LabelledData::read(&buffer, &ReadOptions::default(), &|_| {}).unwrap_err();
    assert!(error.to_string().contains(unknown), "{error}");
    assert!(error.hint().unwrap().contains("which reward means success"), "{error}");
    let images = |rules: Rules| {
        let [train, val] = ["train.pt", "val.pt"].map(|name| folder.path().join(name));
        convert_images(&buffer, &train, &val, &ImageOptions { rules, ..Default::default() }, &|_| {})
    };
    assert!(images(Rules::default()).unwrap_err().to_string().contains(unknown));
    let report = inspect(&buffer, &InspectOptions::default(), &|_, _| {}).unwrap();
    assert_eq!(report.success.labelled, 0);
    assert!(report.to_string().contains("success    unknown: nothing says which succeeded"), "{report}");

    // A person may say which reward means success, everywhere alike.
    let rules = Rules { success_reward: Some(0.85), ..Rules::default() };
    let options = ReadOptions { rules: rules.clone(), ..ReadOptions::default() };
    let data = LabelledData::read(&buffer, &options, &|_| {}).unwrap();
    let solved = |at: usize| data.episodes[0].frames[at].success;
    assert_eq!(
        (solved(7), solved(8), solved(10)),
        (false, true, true),
        "what follows the action is 0.9 at 8"
    );
    assert!(images(rules.clone()).is_ok());
    let report = inspect(&buffer, &InspectOptions { rules, ..Default::default() }, &|_, _| {}).unwrap();
    assert_eq!(report.success.once, 4, "{report}");
}

/// A pickle whose infos say nothing of success; `solved` is what the episode says of itself.
fn unlabelled(folder: &Path, solved: Option<bool>) -> PathBuf {
    let image = || Array::from_slice(&[2, 2, 3], &[9u8; 12]).unwrap();
    let seen = || PyValue::dict([("main_images", image().into())]);
    let mut entries = vec![
        ("observations", PyValue::list([seen(), seen()])),
        ("infos", PyValue::list([PyValue::dict::<&str>([]), PyValue::dict::<&str>([])])),
    ];
    entries.extend(solved.map(|solved| ("success", solved.into())));
    let path = folder.join(format!("{solved:?}.pkl"));
    pyfiles::write_pickle(&path, &PyValue::dict(entries), PickleStyle::default()).unwrap();
    path
}

#[test]
fn an_episode_without_labels_is_a_failure_only_where_it_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let read =
        |solved| LabelledData::read(&unlabelled(folder.path(), solved), &ReadOptions::default(), &|_| {});
    assert_eq!(read(Some(false)).unwrap().frames(), 2);
    for unknown in [None, Some(true)] {
        let error = read(unknown).unwrap_err().to_string();
        assert!(error.contains("does not say which frames show success"), "{error}");
    }
}

#[test]
fn rules_are_options_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let pickles = written(folder.path(), "pickle");
    let frames = |path: &Path, rules: Rules| {
        let options = ReadOptions { rules, ..ReadOptions::default() };
        LabelledData::read(path, &options, &|_| {}).unwrap().frames()
    };
    assert_eq!(frames(&pickles, Rules::default()), 4 * (STEPS + 1), "the reset's frame is a failure");
    let left_out = Rules { unlabelled_frames: UnlabelledFrames::LeftOut, ..Rules::default() };
    assert_eq!(frames(&pickles, left_out), 4 * STEPS);

    let transitions = folder.path().join("data.pkl");
    let seen = || PyValue::dict([("main_images", Array::from_slice(&[2, 2, 3], &[9u8; 12]).unwrap().into())]);
    let transition = |action: f32, reward: f32, done: bool| {
        PyValue::dict([
            ("transitions", PyValue::dict([("obs", seen())])),
            ("action", Array::from_slice(&[1], &[action]).unwrap().into()),
            ("rewards", f64::from(reward).into()),
            ("terminations", done.into()),
            ("truncations", false.into()),
        ])
    };
    let all = [transition(0.0, 0.0, false), transition(0.01, 0.4, false), transition(1.0, 0.6, true)];
    pyfiles::write_pickle(&transitions, &PyValue::list(all), PickleStyle::default()).unwrap();
    let labels = |rules: Rules| {
        let options = ReadOptions { rules, ..ReadOptions::default() };
        let data = LabelledData::read(&transitions, &options, &|_| {}).unwrap();
        data.episodes[0].frames.iter().map(|frame| (frame.at, frame.success)).collect::<Vec<_>>()
    };
    assert_eq!(labels(Rules::default()), [(1, false), (2, true)], "an idle step, and 0.5");
    let lower = Rules { success_reward: Some(0.3), ..Rules::default() };
    assert_eq!(labels(lower), [(1, true), (2, true)]);
    let still = Rules { idle_action: 0.1, ..Rules::default() };
    assert_eq!(labels(still), [(2, true)]);
    let named = Rules { format: Some(DatasetFormat::Keyboard), ..Rules::default() };
    assert!(Recordings::open(&transitions, &named).unwrap().iter().next().unwrap().is_err());
}

/// The file that is mapped where an address points, as the system says.
fn mapped_file(address: usize) -> Option<String> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    maps.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        let (from, to) = words.next()?.split_once('-')?;
        let [from, to] = [from, to].map(|side| usize::from_str_radix(side, 16).ok());
        (from?..to?).contains(&address).then(|| words.nth(4).unwrap_or_default().to_owned())
    })
}

/// Augmentation reads what [`FrameImage::pixels`](plaudit_data::recording::FrameImage::pixels) gives: the file itself.
#[test]
#[cfg(target_os = "linux")]
fn frames_of_mapped_files_are_slices_of_the_map() {
    let folder = tempfile::tempdir().unwrap();
    for format in ["pickle", "frames", "store", "replay_buffer"] {
        let path = written(folder.path(), format);
        let rules = Rules { success_reward: Some(0.5), ..Rules::default() };
        let options = ReadOptions { rules, ..ReadOptions::default() };
        let data = LabelledData::read(&path, &options, &|_| {}).unwrap();
        let mut files: BTreeMap<String, usize> = BTreeMap::new();
        for frame in data.episodes.iter().flat_map(|episode| &episode.frames) {
            let Cow::Borrowed(pixels) = frame.images[0].pixels().unwrap() else {
                panic!("{format}: a frame was copied")
            };
            let file = mapped_file(pixels.as_ptr() as usize).unwrap_or_default();
            assert!(
                file.starts_with(path.to_str().unwrap()),
                "{format}: in `{file}`, not in a file of the dataset"
            );
            *files.entry(file).or_default() += 1;
        }
        assert_eq!(files.len(), 4, "{format}: every episode's own file");
    }
}
