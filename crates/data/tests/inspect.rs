//! Every format inspected, golden reports of real files, and every suspicion provoked once.

#![allow(clippy::unwrap_used)] // a test that cannot go on says so by stopping

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use plaudit_core::{End, FrameShape};
use plaudit_data::convert::{ImageOptions, WindowOptions, convert_images, convert_windows};
use plaudit_data::episode::as_python::{as_frames, as_npy, as_pickle, pickle_name};
use plaudit_data::episode::{CameraTrack, Episode, Timestep};
use plaudit_data::inspect::{
    DatasetFormat, InspectError, InspectOptions, Report, SheetOptions, Suspicion, contact_sheet, inspect,
    verify,
};
use plaudit_data::lerobot::{Settings, Writer};
use plaudit_data::recording::OpenError;
use plaudit_data::replay_buffer;
use plaudit_data::store::{Origin, Store};
use plaudit_pyfiles::{self as pyfiles, Array, PickleStyle, PyValue, Storages};

fn tests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests")
}

fn look(path: &Path) -> Report {
    inspect(path, &InspectOptions::default(), &|_, _| {}).unwrap()
}

fn kinds(report: &Report) -> Vec<Suspicion> {
    report.findings.iter().map(|finding| finding.kind).collect()
}

/// An episode of four steps whose images depend on `seed`, and that succeeds at its end.
fn episode(seed: u8) -> Episode {
    let entries = 5usize;
    let shape = FrameShape::rgb(16, 16);
    let pixel = |at: usize| (at * 7 + usize::from(seed) * 41 + at / 768 * 13) as u8 | 16;
    let timestep = |at: usize| Timestep {
        reward: at as f32 / 4.0,
        end: if at == 4 { End::Terminated } else { End::No },
        success: (at > 0).then_some(at == 4),
        facts: vec![],
    };
    Episode {
        row: 0,
        number: seed.into(),
        batch_step: u64::from(seed) * 4,
        success: true,
        task: None,
        cameras: vec![CameraTrack {
            name: "base".into(),
            shape,
            pixels: (0..entries * shape.bytes()).map(pixel).collect::<Vec<_>>().into(),
        }],
        states: (0..entries).map(|at| vec![at as f32, f32::from(seed)]).collect(),
        actions: (1..entries).map(|at| vec![at as f32 * 0.1]).collect(),
        timesteps: (0..entries).map(timestep).collect(),
    }
}

/// One that never succeeds.
fn failure(seed: u8) -> Episode {
    let mut episode = episode(seed);
    episode.success = false;
    episode.timesteps.iter_mut().skip(1).for_each(|timestep| timestep.success = Some(false));
    episode
}

fn write(folder: &Path, episodes: &[Episode]) {
    for episode in episodes {
        let path = folder.join(pickle_name(episode, 0));
        pyfiles::write_pickle(path, &as_pickle(episode, 0).unwrap(), PickleStyle::default()).unwrap();
    }
}

/// The report of a folder with two good episodes and what `change` makes of a third.
fn provoke(change: impl FnOnce(&mut Episode)) -> Report {
    let dir = tempfile::tempdir().unwrap();
    let mut third = episode(3);
    change(&mut third);
    write(dir.path(), &[episode(1), failure(2), third]);
    look(dir.path())
}

#[test]
fn reports_of_real_files_stay_what_they_are() {
    for (name, path) in [
        ("pkl_torch", "../../pyfiles/tests/python/fixtures/pkl_torch"),
        ("pkl_numpy", "../../pyfiles/tests/python/fixtures/pkl_numpy"),
        ("episodes_torch", "convert/episodes_torch"),
        ("reward_train", "../../pyfiles/tests/python/fixtures/reward_train.pt"),
        ("old_traj", "../../pyfiles/tests/python/fixtures/old_traj_000000.npy"),
        ("vlm_clip", "../../pyfiles/tests/python/fixtures/vlm_trend_clip.pkl"),
        ("many_pt", "../../pyfiles/tests/python/fixtures"),
    ] {
        let mut report = look(&tests().join(path));
        report.path = path.trim_start_matches("../../pyfiles/tests/").into();
        let found = format!("{report}\n{}\n", serde_json::to_string_pretty(&report).unwrap());
        let golden = tests().join(format!("inspect/{name}.txt"));
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            fs::write(&golden, &found).unwrap();
        }
        let expected = fs::read_to_string(&golden).unwrap_or_default();
        assert!(found == expected, "{name} changed; if that is meant, set UPDATE_GOLDEN=1\n{found}");
    }
}

#[test]
fn good_episodes_are_not_suspicious() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), &[episode(1), failure(2), episode(3)]);
    let report = look(dir.path());
    assert_eq!(kinds(&report), [], "{report}");
    assert_eq!((report.success.once, report.success.labelled, report.success.at_end), (2, 3, 2));
    assert_eq!((report.lengths.median, report.frames), (4, 15));
    assert!(report.to_string().contains("Nothing suspicious."));
}

#[test]
fn every_suspicion_can_be_provoked() {
    let one_of = |kind: Suspicion, report: &Report| {
        let found = report.findings.iter().find(|finding| finding.kind == kind);
        let found = found.unwrap_or_else(|| panic!("{kind:?} is not in\n{report}"));
        assert!(!found.advice.is_empty());
        assert!(found.count == 0 || found.examples[0].contains("episode_"), "{found:?}");
    };
    let pixels = |change: fn(usize, &mut [u8])| {
        move |episode: &mut Episode| {
            let bytes = episode.cameras[0].shape.bytes();
            Arc::make_mut(&mut episode.cameras[0].pixels)
                .chunks_exact_mut(bytes)
                .enumerate()
                .for_each(|(at, frame)| change(at, frame));
        }
    };
    one_of(
        Suspicion::BlackFrames,
        &provoke(pixels(|at, frame| {
            if at == 2 {
                frame.fill(0)
            }
        })),
    );
    one_of(Suspicion::FrozenCamera, &provoke(pixels(|_, frame| frame.fill(77))));
    one_of(Suspicion::ConstantActions, &provoke(|episode| episode.actions.fill(vec![0.5])));
    one_of(Suspicion::NotFinite, &provoke(|episode| episode.states[2][0] = f32::NAN));
    one_of(Suspicion::NotFinite, &provoke(|episode| episode.timesteps[1].reward = f32::INFINITY));
    one_of(
        Suspicion::UnrewardedSuccess,
        &provoke(|episode| episode.timesteps.iter_mut().for_each(|timestep| timestep.reward = 0.0)),
    );
    one_of(
        Suspicion::MixedSizes,
        &provoke(|episode| {
            episode.cameras[0].shape = FrameShape::rgb(8, 16);
            Arc::make_mut(&mut episode.cameras[0].pixels).truncate(5 * 8 * 16 * 3);
        }),
    );
    one_of(
        Suspicion::MixedWidths,
        &provoke(|episode| episode.states.iter_mut().for_each(|state| state.push(0.0))),
    );
    one_of(Suspicion::Duplicates, &provoke(|third| *third = Episode { number: 3, ..episode(1) }));
    one_of(
        Suspicion::NearDuplicates,
        &provoke(|third| {
            *third = Episode { number: 3, ..episode(1) };
            Arc::make_mut(&mut third.cameras[0].pixels)
                .iter_mut()
                .for_each(|byte| *byte = byte.saturating_add(2));
        }),
    );
    one_of(
        Suspicion::ContradictingLabels,
        &provoke(|third| {
            let last = third.cameras[0].image(4).to_vec();
            Arc::make_mut(&mut third.cameras[0].pixels)[2 * last.len()..3 * last.len()]
                .copy_from_slice(&last);
        }),
    );
    one_of(
        Suspicion::TooShort,
        &provoke(|third| {
            let bytes = third.cameras[0].shape.bytes();
            Arc::make_mut(&mut third.cameras[0].pixels).truncate(2 * bytes);
            third.states.truncate(2);
            third.actions.truncate(1);
            third.timesteps.truncate(2);
        }),
    );
}

/// What only files can have wrong, not episodes.
#[test]
fn suspicions_about_files() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), &[episode(1), failure(2)]);
    let renamed = dir.path().join("rank_0_env_0_episode_9_step_9_fail.pkl");
    fs::rename(dir.path().join(pickle_name(&episode(1), 0)), &renamed).unwrap();
    fs::write(dir.path().join("rank_0_env_0_episode_8_step_9_fail.pkl"), b"\x80\x04}").unwrap();
    let report = look(dir.path());
    assert!(kinds(&report).contains(&Suspicion::OutcomeDisagrees), "{report}");
    assert_eq!((report.files, report.episodes, report.broken.len()), (3, 2, 1));
    assert!(report.broken[0].file.contains("episode_8"));

    // Labels as they come: at the reset only, flipping, none at all, and too few.
    for (labels, kind) in [
        (&[true, false, false, false, false][..], Suspicion::SuccessOnlyAtReset),
        (&[true, false, true, false, true], Suspicion::FlippingLabels),
        (&[], Suspicion::NoSuccessFlags),
        (&[false, true, false], Suspicion::UnevenLists),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let image = |at: usize| Array::from_slice(&[2, 2, 3], &[40 + at as u8; 12]).unwrap().into();
        let observation = |at| PyValue::dict([("main_images", image(at))]);
        let info = |label: &bool| PyValue::dict([("success", PyValue::Bool(*label))]);
        let none = std::iter::repeat_n(PyValue::dict::<&str>([]), if labels.is_empty() { 5 } else { 0 });
        let file = PyValue::dict([
            ("observations", PyValue::list((0..5).map(observation))),
            (
                "actions",
                PyValue::list((0..4).map(|at| Array::from_slice(&[1], &[at as f32]).unwrap().into())),
            ),
            ("rewards", PyValue::list((0..5).map(|at| PyValue::Float(f64::from(at))))),
            ("infos", PyValue::list(labels.iter().map(info).chain(none))),
        ]);
        pyfiles::write_pickle(dir.path().join("a.pkl"), &file, PickleStyle::default()).unwrap();
        let report = look(dir.path());
        assert!(kinds(&report).contains(&kind), "{kind:?}: {report}");
    }
}

#[test]
fn older_collectors_and_our_store_are_read_alike() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = Store::create(dir.path().join("store"), None).unwrap();
    for (number, episode) in [episode(1), failure(2), episode(3)].iter().enumerate() {
        let (a, b) = if episode.success { ("success", "positive") } else { ("failure", "negative") };
        for folder in [dir.path().join("frames").join(a), dir.path().join("npy").join(b)] {
            fs::create_dir_all(folder).unwrap();
        }
        let frames = dir.path().join(format!("frames/{a}/episode_{number:06}.pkl"));
        pyfiles::write_pickle(
            frames,
            &as_frames(episode, number as u64, 0.0).unwrap(),
            PickleStyle::default(),
        )
        .unwrap();
        let npy = dir.path().join(format!("npy/{b}/{number:06}.npy"));
        pyfiles::write_npy(npy, &as_npy(episode, &[]).unwrap()).unwrap();
        store.add(episode, &Origin::new("test")).unwrap();
    }
    for (folder, format, frames) in [
        ("frames", DatasetFormat::Frames, 12),
        ("npy", DatasetFormat::Trajectories, 12),
        ("store", DatasetFormat::Store, 15),
    ] {
        let report = look(&dir.path().join(folder));
        assert_eq!((report.format, report.episodes, report.frames), (format, 3, frames), "{report}");
        assert_eq!((report.success.once, report.success.at_end, report.broken.len()), (2, 2, 0));
        assert_eq!(kinds(&report), [], "{report}");
        assert_eq!(report.cameras[0].sizes[0].shape, [16, 16, 3]);
    }
    // One outcome alone, from inside its folder.
    let report = look(&dir.path().join("frames/success"));
    assert_eq!((report.format, report.episodes), (DatasetFormat::Frames, 2));
    assert!(look(&dir.path().join("npy/positive")).success.once == 2);
}

#[test]
fn what_the_converters_write_is_inspected_too() {
    let dir = tempfile::tempdir().unwrap();
    let raw = tests().join("convert/episodes_torch");
    let [train, val] = ["train.pt", "val.pt"].map(|name| dir.path().join("images").join(name));
    fs::create_dir_all(dir.path().join("images")).unwrap();
    convert_images(&raw, &train, &val, &ImageOptions::default(), &|_| {}).unwrap();
    let report = look(&dir.path().join("images"));
    assert_eq!((report.format, report.episodes), (DatasetFormat::Images, 2));
    assert_eq!(report.leakage.unwrap().exact_duplicates, 0);
    fs::copy(&train, &val).unwrap();
    let report = look(&dir.path().join("images"));
    assert!(kinds(&report).contains(&Suspicion::SharedBetweenSplits), "{report}");

    let windows = dir.path().join("windows");
    let options = WindowOptions { window_size: 3, delta_threshold: 0.01, ..WindowOptions::default() };
    let made = convert_windows(&raw, &windows, &options, &|_| {});
    let Ok(_) = made else { panic!("{}", made.err().unwrap()) };
    let report = look(&windows);
    assert_eq!(
        (report.format, report.lengths.max, report.broken.len()),
        (DatasetFormat::Windows, 3, 0),
        "{report}"
    );
    assert!(report.labels.iter().any(|label| label.name == "positive"));
    assert_eq!(report.leakage.as_ref().unwrap().shared_episodes, 0, "{report}");
    // The folder moved, a pickle is gone, and a line is torn.
    let moved = dir.path().join("moved");
    fs::rename(&windows, &moved).unwrap();
    let first = fs::read_dir(moved.join("train/pkl")).unwrap().next().unwrap().unwrap().path();
    fs::remove_file(first).unwrap();
    let manifest = moved.join("train/segments.jsonl");
    fs::write(&manifest, fs::read_to_string(&manifest).unwrap() + "{\"task\"\n").unwrap();
    let again = look(&moved);
    assert_eq!((again.episodes + 1, again.broken.len()), (report.episodes, 2), "{again}");
}

#[test]
fn a_contact_sheet_shows_every_outcome() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), &[episode(1), failure(2), episode(3)]);
    let report = look(dir.path());
    let options = SheetOptions { columns: 3, side: 16, ..SheetOptions::default() };
    let sheet = contact_sheet(dir.path(), &report, &options).unwrap();
    let mut reader = png::Decoder::new(std::io::Cursor::new(&sheet)).read_info().unwrap();
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    let info = reader.next_frame(&mut pixels).unwrap();
    let is = |colour: [u8; 3]| {
        pixels.chunks_exact(3).enumerate().filter(move |(_, pixel)| *pixel == colour).map(|(at, _)| at)
    };
    let (grey, red, green) = ([161, 161, 170], [220, 38, 38], [22, 163, 74]);
    // A border is four pixels wide, and the legend has a square of each colour.
    let borders = |colour| (is(colour).count() - 12 * 12) / (24 * 24 - 16 * 16);
    assert_eq!([grey, red, green].map(borders), [3, 4, 2]);
    let last_row = |colour| is(colour).next_back().unwrap() / info.width as usize;
    assert!(last_row(green) + 24 < last_row(red), "failures come last");

    let states = Array::from_slice(&[2], &[0.0f32, 1.0]).unwrap();
    let blind = PyValue::dict([
        ("observations", PyValue::list([PyValue::dict([("states", states.into())])])),
        ("infos", PyValue::list([])),
    ]);
    let path = dir.path().join("blind.pkl");
    pyfiles::write_pickle(&path, &blind, PickleStyle::default()).unwrap();
    let report = look(&path);
    assert!(kinds(&report).contains(&Suspicion::NoImages));
    assert!(contact_sheet(&path, &report, &options).unwrap_err().to_string().contains("no images"));
}

#[test]
fn a_limit_looks_at_some_and_says_so() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), &(1..9).map(episode).collect::<Vec<_>>());
    let report =
        inspect(dir.path(), &InspectOptions { limit: Some(3), ..InspectOptions::default() }, &|_, _| {})
            .unwrap();
    assert_eq!((report.files, report.inspected_files, report.episodes), (8, 3, 3));
    assert!(report.to_string().contains("3 of 8 files, evenly spread"));
}

#[test]
fn what_is_no_dataset_is_said_with_what_might_be() {
    let dir = tempfile::tempdir().unwrap();
    let inside = dir.path().join("run/collected_data");
    fs::create_dir_all(&inside).unwrap();
    let error = inspect(dir.path(), &InspectOptions::default(), &|_, _| {}).unwrap_err();
    assert!(matches!(&error, InspectError::Nothing { nearby, .. } if nearby.is_empty()));
    write(&inside, &[episode(1)]);
    let error = inspect(dir.path(), &InspectOptions::default(), &|_, _| {}).unwrap_err();
    assert!(error.to_string().contains("did you mean"), "{error}");
    let error = inspect(&dir.path().join("gone"), &InspectOptions::default(), &|_, _| {}).unwrap_err();
    assert!(matches!(error, InspectError::Open(OpenError::Read { .. })));

    let refused = inspect(
        &tests().join("../../pyfiles/tests/python/refused/evil.pkl"),
        &InspectOptions::default(),
        &|_, _| {},
    );
    assert!(refused.unwrap_err().to_string().contains("posix.system"));
    let other = PyValue::dict([("weights", PyValue::Int(1))]);
    let path = dir.path().join("model.pt");
    pyfiles::write_pt(&path, &other, Storages::Shared).unwrap();
    let error = inspect(&path, &InspectOptions::default(), &|_, _| {}).unwrap_err();
    assert!(error.to_string().contains("no `labels` (it has weights)"), "{error}");
}

#[test]
fn lerobot_datasets_are_inspected_shard_by_shard() {
    let dir = tempfile::tempdir().unwrap();
    for (rank, episodes) in [[episode(1), failure(2)], [episode(3), episode(4)]].iter().enumerate() {
        let mut writer = Writer::new(dir.path(), rank as u64, Settings::default()).unwrap();
        episodes.iter().for_each(|episode| drop(writer.append(episode).unwrap()));
        writer.finish().unwrap();
    }
    let report = look(dir.path());
    assert_eq!((report.format, report.episodes, report.frames), (DatasetFormat::Lerobot, 4, 16), "{report}");
    assert_eq!((report.success.once, report.success.labelled, report.broken.len()), (3, 4, 0), "{report}");
    assert_eq!(kinds(&report), [], "{report}");
    assert!(!contact_sheet(dir.path(), &report, &SheetOptions::default()).unwrap().is_empty());
}

#[test]
fn replay_buffers_are_inspected_trajectory_by_trajectory() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = replay_buffer::Writer::open(dir.path()).unwrap();
    [episode(1), failure(2), episode(3)].iter().for_each(|episode| writer.append(episode).unwrap());
    let report = look(dir.path());
    assert_eq!(
        (report.format, report.episodes, report.frames),
        (DatasetFormat::ReplayBuffer, 3, 12),
        "{report}"
    );
    assert_eq!(
        (report.success.once, report.success.labelled),
        (0, 0),
        "the format keeps no success: {report}"
    );
    assert!(!contact_sheet(dir.path(), &report, &SheetOptions::default()).unwrap().is_empty());

    let one = replay_buffer::files(dir.path()).unwrap().remove(0);
    assert_eq!((look(&one).format, look(&one).episodes), (DatasetFormat::ReplayBuffer, 1));
    fs::remove_file(one).unwrap();
    let error = inspect(dir.path(), &InspectOptions::default(), &|_, _| {}).unwrap_err();
    assert!(error.to_string().contains("names trajectory 0, which is not there"), "{error}");
}

/// A dataset of version 2 whose images are in videos of a codec that nothing decodes.
fn with_videos(root: &Path) {
    let source = "tests/lerobot/v21_video_av1/videos/chunk-000/observation.images.front/episode_000000.mp4";
    let mut video = fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join(source)).unwrap();
    let at = video.windows(4).rposition(|word| word == b"av01").unwrap();
    video[at..at + 4].copy_from_slice(b"xx99");
    fs::create_dir_all(root.join("meta")).unwrap();
    let info = r#"{"codebase_version": "v2.1", "fps": 10, "robot_type": "panda", "chunks_size": 1000,
        "total_episodes": 2, "total_frames": 30, "total_tasks": 1, "total_chunks": 1,
        "data_path": "data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet",
        "video_path": "videos/chunk-{episode_chunk:03d}/{video_key}/episode_{episode_index:06d}.mp4",
        "features": {"image": {"dtype": "video", "shape": [64, 48, 3], "names": ["height", "width", "channel"],
            "info": {"video.codec": "xx99"}},
        "state": {"dtype": "float32", "shape": [7], "names": ["state"]}}}"#;
    fs::write(root.join("meta/info.json"), info).unwrap();
    let lines = "{\"episode_index\": 0, \"length\": 10}\n{\"episode_index\": 1, \"length\": 20}\n";
    fs::write(root.join("meta/episodes.jsonl"), lines).unwrap();
    fs::write(root.join("meta/tasks.jsonl"), "{\"task_index\": 0, \"task\": \"lift\"}\n").unwrap();
    for episode in 0..2 {
        for file in [
            format!("data/chunk-000/episode_{episode:06}.parquet"),
            format!("videos/chunk-000/image/episode_{episode:06}.mp4"),
        ] {
            fs::create_dir_all(root.join(&file).parent().unwrap()).unwrap();
            fs::write(root.join(file), &video).unwrap();
        }
    }
}

#[test]
fn of_videos_the_metadata_is_read_and_the_files_are_looked_for() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    with_videos(root);
    let report = look(root);
    assert_eq!((report.format, report.episodes, report.frames), (DatasetFormat::Lerobot, 2, 30));
    assert_eq!((report.lengths.min, report.lengths.median, report.lengths.max), (10, 20, 20));
    assert_eq!((report.cameras[0].sizes[0].shape, report.state_widths[0].width), ([64, 48, 3], 7));
    assert_eq!(kinds(&report), [Suspicion::MetadataOnly]);
    let said = &report.findings[0].examples[0];
    assert!(said.contains("image is a video (xx99)") && said.contains("nothing here decodes it"), "{said}");
    let found = verify(root, &|_, _| {}).unwrap();
    assert!(found.is_whole() && found.unchecked[0].contains("2 video files"), "{found:?}");

    let video = "videos/chunk-000/image/episode_000001.mp4";
    fs::remove_file(root.join(video)).unwrap();
    let report = look(root);
    assert_eq!((report.broken.len(), &*report.broken[0].file), (1, video), "{report}");
    assert_eq!(verify(root, &|_, _| {}).unwrap().broken[0].file, video);

    fs::remove_dir_all(root.join("data")).unwrap();
    let error = inspect(root, &InspectOptions::default(), &|_, _| {}).unwrap_err().to_string();
    assert!(error.contains("data/chunk-000/episode_000000.parquet"), "{error}");

    // Lengths are those of the episodes, not an average.
    fs::remove_file(root.join("meta/episodes.jsonl")).unwrap();
    let error = inspect(root, &InspectOptions::default(), &|_, _| {}).unwrap_err().to_string();
    assert!(error.contains("meta/episodes.jsonl"), "{error}");
}

#[test]
fn rewards_that_are_no_numbers_are_counted_and_written_as_text() {
    let dir = tempfile::tempdir().unwrap();
    let write = |rewards: [f32; 5]| {
        let mut episode = episode(1);
        episode.timesteps.iter_mut().zip(rewards).for_each(|(timestep, reward)| timestep.reward = reward);
        let path = dir.path().join("rank_0_env_0_episode_0_step_4_success.pkl");
        pyfiles::write_pickle(path, &as_pickle(&episode, 0).unwrap(), PickleStyle::default()).unwrap();
        let json = serde_json::to_value(look(dir.path())).unwrap();
        json["reward"].clone()
    };
    let some = write([0.0, f32::NAN, 2.0, f32::INFINITY, f32::NEG_INFINITY]);
    let expected =
        serde_json::json!({"min": 0.0, "max": 2.0, "mean": 1.0, "zero_share": 0.5, "nan": 1, "infinite": 2});
    assert_eq!(some, expected);
    // The first is the reset's, which is always 0 in these files.
    let none = write([f32::NAN; 5]);
    assert_eq!((&none["max"], &none["nan"]), (&serde_json::json!(0.0), &serde_json::json!(4)));
    let none = {
        let mut store = Store::create(dir.path().join("store"), None).unwrap();
        let mut episode = episode(1);
        episode.timesteps.iter_mut().for_each(|timestep| timestep.reward = f32::NAN);
        store.add(&episode, &Origin::new("a test")).unwrap();
        serde_json::to_value(look(&dir.path().join("store"))).unwrap()["reward"].clone()
    };
    assert_eq!((&none["min"], &none["mean"]), (&serde_json::json!("NaN"), &serde_json::json!("NaN")));
}

#[test]
fn successes_that_are_lost_again_are_suspicious() {
    let dir = tempfile::tempdir().unwrap();
    for number in 0..20 {
        let mut episode = episode(number);
        if number >= 3 {
            episode.timesteps[3].success = Some(true);
            episode.timesteps[4].success = Some(false);
        }
        let path = dir.path().join(pickle_name(&episode, 0));
        pyfiles::write_pickle(path, &as_pickle(&episode, 0).unwrap(), PickleStyle::default()).unwrap();
    }
    let report = look(dir.path());
    let found = report.findings.iter().find(|finding| finding.kind == Suspicion::SuccessLost).unwrap();
    assert!(
        found.examples[0].contains("of 20 solved at some step, 3 are solved at the end and 17 no longer"),
        "{report}"
    );
}
