//! Labelled frames where they lie: the same frames, labels and order as a conversion, from every source.

#![allow(clippy::unwrap_used)] // a test that cannot go on says so by stopping

use std::path::{Path, PathBuf};
use std::sync::Arc;

use plaudit_core::{End, FrameShape};
use plaudit_data::convert::{ImageFormat, ImageOptions, convert_images};
use plaudit_data::episode::{CameraTrack, Episode, Timestep, as_python};
use plaudit_data::labelled::{
    FramePick, LabelledData, LabelledError, LabelledFrame, ReadOptions, SplitOptions,
};
use plaudit_data::recording::DatasetFormat;
use plaudit_data::store::{Labels, Origin, Store};
use plaudit_pyfiles::{self as pyfiles, Array, PickleStyle, PyValue, Storages};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/convert").join(name)
}

fn read(path: &Path) -> Result<LabelledData, LabelledError> {
    LabelledData::read(path, &ReadOptions::default(), &|_| {})
}

fn refused(path: &Path) -> String {
    read(path).unwrap_err().to_string()
}

/// Pixels and labels, in order.
fn contents(data: &LabelledData, picks: &[FramePick]) -> Vec<(Vec<u8>, bool)> {
    let frame = |pick: &FramePick| {
        let frame = data.frame(*pick);
        (frame.images[0].pixels().unwrap().into_owned(), frame.success)
    };
    picks.iter().map(frame).collect()
}

/// Pixels and labels of a `.pt`, in the order of its lists.
fn written(path: &Path) -> Vec<(Vec<u8>, bool)> {
    let data = pyfiles::read(path).unwrap();
    let images = data.get("images").and_then(PyValue::as_items).unwrap();
    let labels = data.get("labels").and_then(PyValue::as_items).unwrap();
    let pair = |(image, label): (&PyValue, &PyValue)| {
        (image.as_array().unwrap().bytes().to_vec(), label.to_bool().unwrap())
    };
    images.iter().zip(labels).map(pair).collect()
}

#[test]
fn frames_are_chosen_as_a_conversion_chooses_them() {
    let out = tempfile::tempdir().unwrap();
    let (train, val) = (out.path().join("train.pt"), out.path().join("val.pt"));
    for kind in ["numpy", "torch"] {
        let raw = fixture(&format!("episodes_{kind}"));
        let data = read(&raw).unwrap();
        assert_eq!(data.format, DatasetFormat::Episodes);
        for (samples, ratio, seed) in [(0, 2.0, 42), (5, 1.0, 7), (2, 3.0, 1)] {
            let options = ImageOptions {
                num_samples_per_episode: samples,
                fail_success_ratio: ratio,
                seed,
                ..ImageOptions::default()
            };
            convert_images(&raw, &train, &val, &options, &|_| {}).unwrap();
            let options = SplitOptions {
                num_samples_per_episode: samples as usize,
                fail_success_ratio: Some(ratio),
                seed,
                ..SplitOptions::default()
            };
            let split = data.split(&options).unwrap();
            assert!(contents(&data, &split.train) == written(&train), "{kind} {samples} train");
            assert!(contents(&data, &split.val) == written(&val), "{kind} {samples} val");
        }
    }
}

#[test]
fn converted_images_know_their_episodes() {
    let out = tempfile::tempdir().unwrap();
    let (train, val) = (out.path().join("train.pt"), out.path().join("val.pt"));
    let raw = fixture("episodes_torch");
    convert_images(&raw, &train, &val, &ImageOptions::default(), &|_| {}).unwrap();
    let (episodes, images) = (read(&raw).unwrap(), read(&val).unwrap());
    assert!(images.in_episodes && images.format == DatasetFormat::Images);
    for episode in &images.episodes {
        let original = episodes.episodes.iter().find(|other| other.name == episode.name).unwrap();
        assert_eq!(episode.frames.len(), original.frames.len(), "a validation split is complete");
        for frame in &episode.frames {
            let same = original.frames.iter().find(|other| other.at == frame.at).unwrap();
            assert_eq!(frame.images[0].pixels().unwrap(), same.images[0].pixels().unwrap());
            assert_eq!(frame.success, same.success);
        }
    }
}

const SHAPE: FrameShape = FrameShape { height: 2, width: 4, channels: 3 };

/// Three entries with two cameras; the last one is a success.
fn episode(number: u64) -> Episode {
    let track = |name: &str, tint: u8| CameraTrack {
        name: name.into(),
        shape: SHAPE,
        pixels: (0..72).map(|at| tint + at / 24 + number as u8).collect::<Vec<_>>().into(),
    };
    let timestep = |success| Timestep { reward: 0.0, end: End::No, success, facts: vec![] };
    Episode {
        row: 0,
        number,
        batch_step: number,
        success: true,
        task: None,
        cameras: vec![track("base_camera", 10), track("side_camera", 100)],
        states: vec![vec![0.0]; 3],
        actions: vec![vec![0.0]; 2],
        timesteps: vec![timestep(None), timestep(Some(false)), timestep(Some(true))],
    }
}

fn tints(data: &LabelledData) -> Vec<Vec<u8>> {
    let frames = data.episodes.iter().flat_map(|episode| &episode.frames);
    frames.map(|frame| frame.images.iter().map(|image| image.pixels().unwrap()[0]).collect()).collect()
}

#[test]
fn several_cameras_are_read_from_pickles_trajectories_and_stores() {
    let folder = tempfile::tempdir().unwrap();
    let pickles = folder.path().join("pickles");
    std::fs::create_dir(&pickles).unwrap();
    for number in 0..2 {
        let value = as_python::as_pickle(&episode(number), 0).unwrap();
        pyfiles::write_pickle(pickles.join(format!("{number}.pkl")), &value, PickleStyle::default()).unwrap();
    }
    let cameras = |keys: &[&str]| ReadOptions {
        cameras: keys.iter().map(ToString::to_string).collect(),
        ..ReadOptions::default()
    };
    let both = cameras(&["extra_view_images", "main_images"]);
    let data = LabelledData::read(&pickles, &both, &|_| {}).unwrap();
    let expected = [[100, 10], [101, 11], [102, 12], [101, 11], [102, 12], [103, 13]];
    assert_eq!(tints(&data), expected);
    assert_eq!(data.cameras[1], ("main_images".into(), SHAPE));
    let labels: Vec<bool> = data.all().iter().map(|pick| data.frame(*pick).success).collect();
    assert_eq!(labels, [false, false, true, false, false, true]);
    assert_eq!(data.frame_before(FramePick { episode: 1, frame: 2 }, 2).at, 0);
    assert_eq!(data.frame_before(FramePick { episode: 1, frame: 1 }, 5).at, 0);

    let path = folder.path().join("store");
    let mut store = Store::create(&path, None).unwrap();
    let ids: Vec<_> =
        (0..2).map(|number| store.add(&episode(number), &Origin::new("test")).unwrap()).collect();
    let data = LabelledData::read(&path, &both, &|_| {}).unwrap();
    assert_eq!(tints(&data), expected);
    let by = || "a person".to_string();
    let values = vec![1.0, f32::NAN, 0.0];
    store.add_labels(ids[0], &Labels { name: "success".into(), values, by: by() }).unwrap();
    let data = LabelledData::read(&path, &ReadOptions::default(), &|_| {}).unwrap();
    let first: Vec<_> = data.episodes[0].frames.iter().map(|frame| (frame.at, frame.success)).collect();
    assert_eq!(first, [(0, true), (2, false)], "what a person said counts, and what nobody said is left out");
    let error = LabelledData::read(&path, &cameras(&["wrist_images"]), &|_| {}).unwrap_err().to_string();
    assert!(error.contains("image under `wrist_images` (the first has base_camera, side_camera)"), "{error}");

    let places = ["positive", "negative"].map(|name| folder.path().join(name));
    for (place, number) in places.iter().zip(0..) {
        std::fs::create_dir(place).unwrap();
        pyfiles::write_npy(place.join("000000.npy"), &as_python::as_npy(&episode(number), &[]).unwrap())
            .unwrap();
    }
    let options = cameras(&["base_camera", "side_camera"]);
    let data = LabelledData::read_trajectories(&places[0], &places[1], &options, &|_| {}).unwrap();
    assert_eq!(tints(&data), [[11, 101], [12, 102], [12, 102], [13, 103]]);
    assert_eq!((data.episodes[0].folder.as_str(), data.episodes[0].name.as_str()), ("positive", "000000"));
    let found = LabelledData::read(folder.path(), &options, &|_| {});
    assert_eq!(tints(&found.unwrap()), tints(&data), "the folder above is found out");
}

fn image(height: usize, tint: u8) -> PyValue {
    let pixels = vec![tint; height * 4 * 3];
    PyValue::Tensor(Arc::new(Array::from_slice(&[height, 4, 3], &pixels).unwrap()))
}

#[test]
fn what_cannot_be_learned_from_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("train.pt");
    let check = |value: PyValue, says: &[&str]| {
        pyfiles::write_pt(&path, &value, Storages::Own).unwrap();
        let error = refused(&path);
        for words in says {
            assert!(error.contains(words), "`{words}` is not in: {error}");
        }
    };
    let labels = |count: usize| PyValue::list((0..count).map(|at| PyValue::Int(at as i64 % 2)));
    let images = |heights: &[usize]| PyValue::list(heights.iter().map(|height| image(*height, 7)));
    check(
        PyValue::dict([("images", images(&[2, 3])), ("labels", labels(2))]),
        &["frame 1 has shape [3, 4, 3]", "has [2, 4, 3]"],
    );
    check(PyValue::dict([("images", images(&[2])), ("labels", labels(2))]), &["1 images and 2 labels"]);
    check(PyValue::dict([("images", images(&[])), ("labels", labels(0))]), &["`images` is empty"]);
    check(PyValue::dict([("labels", labels(0))]), &["no `images`"]);
    check(PyValue::list([]), &["is a list, not a dict"]);
    assert!(refused(&folder.path().join("nothing")).contains("does not exist"));
    let options =
        ReadOptions { cameras: vec!["main_images".into(), "wrist_images".into()], ..ReadOptions::default() };
    pyfiles::write_pt(
        &path,
        &PyValue::dict([("images", images(&[2])), ("labels", labels(1))]),
        Storages::Own,
    )
    .unwrap();
    let error = LabelledData::read(&path, &options, &|_| {}).unwrap_err().to_string();
    assert!(error.contains("wrist_images"), "{error}");
    let one = LabelledData::read(&path, &ReadOptions::default(), &|_| {}).unwrap();
    assert!(matches!(
        one.split(&SplitOptions::default()),
        Err(LabelledError::TooFewEpisodes { episodes: 1, .. })
    ));
}

#[test]
fn chosen_images_know_where_they_were_and_that_others_are_missing() {
    let out = tempfile::tempdir().unwrap();
    let raw = fixture("episodes_torch");
    for (format, name) in [(ImageFormat::Pt, "train.pt"), (ImageFormat::Store, "train")] {
        let (train, val) = (out.path().join(name), out.path().join(name.replace("train", "val")));
        let options = ImageOptions { num_samples_per_episode: 3, format, ..ImageOptions::default() };
        convert_images(&raw, &train, &val, &options, &|_| {}).unwrap();
        let (all, some) = (read(&raw).unwrap(), read(&val).unwrap());
        assert!(some.in_episodes && !some.has_history, "{name}");
        assert!(all.has_history);
        for frame in some.episodes.iter().flat_map(|episode| &episode.frames) {
            let same = |other: &&LabelledFrame| {
                other.at == frame.at && other.images[0].pixels().unwrap() == frame.images[0].pixels().unwrap()
            };
            assert!(
                all.episodes.iter().flat_map(|episode| &episode.frames).any(|other| same(&other)),
                "{name}"
            );
        }
    }
}
