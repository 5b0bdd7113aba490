//! Recordings of every collector, broken ones, and what is said about them.

#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::sync::Arc;

use plaudit_data::convert::{
    BadFiles, ChannelOrder, ConvertError, ConvertOption, ImageOptions, ImageReport, WindowOptions,
    convert_images, convert_windows,
};
use plaudit_data::recording::{DatasetFormat, Recordings, Rules};
use plaudit_pyfiles::{self as pyfiles, Array, PickleStyle, PyValue};

/// Images with their labels.
type Samples = Vec<(Vec<u8>, i64)>;

const SHAPE: [usize; 3] = [4, 5, 3];

fn skipping() -> Rules {
    Rules { bad_files: BadFiles::Skip, ..Rules::default() }
}

/// An image that differs from all others.
fn image(number: usize) -> Array {
    shaped(&SHAPE, number)
}

fn shaped(shape: &[usize], number: usize) -> Array {
    let pixels: Vec<u8> =
        (0..shape.iter().product()).map(|at| ((number * 977 + at * 31) % 251) as u8).collect();
    Array::from_slice(shape, &pixels).unwrap()
}

fn observation(image: impl Into<PyValue>) -> PyValue {
    PyValue::dict([("main_images", image.into())])
}

fn tensor(array: Array) -> PyValue {
    PyValue::Tensor(Arc::new(array))
}

fn info(key: &str, value: bool) -> PyValue {
    PyValue::dict([(key, tensor(Array::from_bool(value)))])
}

/// Ten frames, the last three of them successes.
fn episode(number: usize, key: &str, make: impl Fn(usize) -> PyValue) -> PyValue {
    PyValue::dict([
        ("observations", PyValue::list((0..10).map(|at| make(number * 10 + at)))),
        ("infos", PyValue::list((0..10).map(|at| info(key, at >= 7)))),
        ("rewards", PyValue::list((0..10).map(|at| PyValue::Float(f64::from(at) * 0.1)))),
    ])
}

/// Ten frames, none of them a success.
fn failure(number: usize) -> PyValue {
    PyValue::dict([
        ("observations", PyValue::list((0..10).map(|at| observation(image(number * 10 + at))))),
        ("infos", PyValue::list((0..10).map(|_| info("success", false)))),
    ])
}

fn save(path: &Path, value: &PyValue) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    pyfiles::write_pickle(path, value, PickleStyle::default()).unwrap();
}

/// Some good episodes, to put bad ones beside.
fn good(raw: &Path, count: usize) {
    for number in 0..count {
        save(&raw.join(format!("e{number}.pkl")), &episode(number, "success", |at| observation(image(at))));
    }
}

fn convert_with(raw: &Path, options: &ImageOptions) -> Result<(ImageReport, Samples), ConvertError> {
    let out = tempfile::tempdir().unwrap();
    let (train, val) = (out.path().join("train.pt"), out.path().join("val.pt"));
    let report = convert_images(raw, &train, &val, options, &|_| {})?;
    let mut pairs = Vec::new();
    for path in [train, val] {
        let data = pyfiles::read(path).unwrap();
        let images = data.get("images").and_then(PyValue::as_items).unwrap();
        let labels = data.get("labels").and_then(PyValue::as_items).unwrap();
        for (image, label) in images.iter().zip(labels) {
            let image = image.as_array().unwrap();
            assert_eq!(image.shape(), SHAPE);
            pairs.push((image.bytes().to_vec(), label.to_i64().unwrap()));
        }
    }
    pairs.sort();
    Ok((report, pairs))
}

fn all() -> ImageOptions {
    ImageOptions { fail_success_ratio: 1e6, ..ImageOptions::default() }
}

/// What a conversion must hold, whatever the order.
fn check(
    raw: &Path,
    source: DatasetFormat,
    expected: impl IntoIterator<Item = (usize, bool)>,
) -> ImageReport {
    let (report, pairs) = convert_with(raw, &all()).unwrap();
    let mut expected: Vec<(Vec<u8>, i64)> =
        expected.into_iter().map(|(number, label)| (image(number).bytes().to_vec(), label.into())).collect();
    expected.sort();
    assert!(pairs == expected, "{} images, expected {}", pairs.len(), expected.len());
    assert_eq!(report.source, source);
    report
}

/// What a person reads when a folder of two good episodes and this one is converted.
fn message(bad: &PyValue, options: &ImageOptions) -> String {
    let raw = tempfile::tempdir().unwrap();
    good(raw.path(), 2);
    save(&raw.path().join("z.pkl"), bad);
    let text = convert_with(raw.path(), options).unwrap_err().to_string();
    assert!(text.contains("z.pkl: "), "{text}");
    let skip = ImageOptions {
        rules: Rules { bad_files: BadFiles::Skip, ..options.rules.clone() },
        ..options.clone()
    };
    let (report, pairs) = convert_with(raw.path(), &skip).unwrap();
    assert_eq!((report.skipped.len(), pairs.len()), (1, 20));
    assert!(report.metadata["skipped_files"][0].as_str().unwrap().ends_with("z.pkl"));
    text
}

// ---- collectors

#[test]
fn folders_of_frames() {
    let raw = tempfile::tempdir().unwrap();
    for number in 0..4 {
        let success = number % 2 == 0;
        let frames = (0..6).map(|at| {
            let seen = observation(image(number * 10 + at));
            PyValue::dict([("obs", seen), ("success", (success && at > 3).into())])
        });
        let data =
            PyValue::dict([("frames", PyValue::list(frames)), ("label", PyValue::Int(success.into()))]);
        let folder = if success { "success" } else { "failure" };
        save(&raw.path().join(format!("{folder}/episode_{number:06}.pkl")), &data);
    }
    let expected =
        (0..4).flat_map(|number| (0..6).map(move |at| (number * 10 + at, number % 2 == 0 && at > 3)));
    check(raw.path(), DatasetFormat::Frames, expected);
}

#[test]
fn trajectories_of_floats_with_channels_first() {
    let raw = tempfile::tempdir().unwrap();
    let [height, width, channels] = SHAPE;
    for number in 0..4 {
        let mut numbers = Vec::new();
        for at in 0..6 {
            let pixels = image(number * 10 + at);
            for channel in 0..channels {
                let plane =
                    (0..height * width).map(|pixel| f32::from(pixels.bytes()[pixel * channels + channel]));
                // Two files hold 0..1, two hold 0..255, as the fork's collector did.
                numbers.extend(plane.map(|byte| if number < 2 { byte / 255.0 } else { byte }));
            }
        }
        let images = Array::from_slice(&[6, channels, height, width], &numbers).unwrap();
        let labels: Vec<f32> = (0..6).map(|at| if number % 2 == 0 && at > 3 { 1.0 } else { 0.0 }).collect();
        let data = PyValue::dict([
            ("images", PyValue::dict([("base_camera", images.into())])),
            ("labels", Array::from_slice(&[6], &labels).unwrap().into()),
        ]);
        let folder = raw.path().join(if number % 2 == 0 { "positive" } else { "negative" });
        std::fs::create_dir_all(&folder).unwrap();
        pyfiles::write_npy(folder.join(format!("{number:06}.npy")), &data).unwrap();
    }
    let expected =
        (0..4).flat_map(|number| (0..6).map(move |at| (number * 10 + at, number % 2 == 0 && at > 3)));
    check(raw.path(), DatasetFormat::Trajectories, expected);
}

#[test]
fn transitions_of_a_robot() {
    let raw = tempfile::tempdir().unwrap();
    // Three episodes of eight; 2 and 3 of each do nothing; the last does nothing either but terminates.
    let entries = (0..24).map(|number| {
        let at = number % 8;
        let action = if matches!(at, 2 | 3 | 7) { 0.0f32 } else { 0.5 };
        let seen = PyValue::dict([("main_images", tensor(image(number)))]);
        let one = |number: f32| tensor(Array::from_slice(&[1], &[number]).unwrap());
        let flag = |value: bool| tensor(Array::from_bool(value).reshaped(&[1]).unwrap());
        PyValue::dict([
            ("transitions", PyValue::dict([("obs", seen.clone()), ("next_obs", seen)])),
            ("action", one(action)),
            ("rewards", one(if at >= 6 { 1.0 } else { 0.0 })),
            ("terminations", flag(at == 7 && number < 16)),
            ("truncations", flag(at == 7 && number == 23)),
        ])
    });
    save(&raw.path().join("data.pkl"), &PyValue::list(entries));
    let kept = (0..24).filter(|number| match number % 8 {
        2 | 3 => false,
        7 => *number < 16,
        _ => true,
    });
    let report = check(raw.path(), DatasetFormat::Transitions, kept.map(|number| (number, number % 8 >= 6)));
    assert_eq!(report.metadata["num_train_episodes"], 2);
    check(
        &raw.path().join("data.pkl"),
        DatasetFormat::Transitions,
        (0..24).filter(|n| !matches!(n % 8, 2 | 3) && *n != 23).map(|n| (n, n % 8 >= 6)),
    );
}

#[test]
fn episodes_from_before_the_merge() {
    let raw = tempfile::tempdir().unwrap();
    for number in 0..3 {
        save(
            &raw.path().join(format!("e{number}.pkl")),
            &episode(number, "is_obj_placed", |at| observation(image(at))),
        );
    }
    let expected = (0..3).flat_map(|number| (0..9).map(move |at| (number * 10 + at, at >= 7)));
    check(raw.path(), DatasetFormat::PreMerge, expected);
}

#[test]
fn keyboard_labels_are_split_by_block() {
    let raw = tempfile::tempdir().unwrap();
    // c c c c . . a a a a a a . c c c c a a a a ...: blocks of 4 successes, 6 failures, gaps between.
    let label = |at: usize| match at % 20 {
        0..4 => Some(1),
        6..12 => Some(0),
        _ => None,
    };
    let labels = (0..200).map(|at| label(at).map_or(PyValue::None, PyValue::Int));
    let data = PyValue::dict([
        ("observations", PyValue::list((0..200).map(|at| observation(image(at))))),
        ("labels", PyValue::list(labels)),
    ]);
    save(&raw.path().join("session.pkl"), &data);
    let report =
        check(raw.path(), DatasetFormat::Keyboard, (0..200).filter_map(|at| Some((at, label(at)? == 1))));
    assert_eq!(report.val, [8, 12], "two blocks of ten, of each class");
    assert_eq!(report.metadata["num_success_frames"], 40);
    assert_eq!((report.leakage.shared_episodes, report.leakage.exact_duplicates), (0, 0));
}

#[test]
fn one_press_of_each_key_is_still_split() {
    let raw = tempfile::tempdir().unwrap();
    let labels = (0..20).map(|at| PyValue::Int(i64::from(at < 10)));
    let data = PyValue::dict([
        ("observations", PyValue::list((0..20).map(|at| observation(image(at))))),
        ("labels", PyValue::list(labels)),
    ]);
    save(&raw.path().join("session.pkl"), &data);
    let (report, _) = convert_with(raw.path(), &all()).unwrap();
    assert_eq!((report.train, report.val), ([8, 8], [2, 2]));
}

#[test]
fn a_folder_of_collections_is_one_dataset() {
    let raw = tempfile::tempdir().unwrap();
    for name in ["demos", "play"] {
        std::fs::create_dir(raw.path().join(name)).unwrap();
        good(&raw.path().join(name), 2);
    }
    std::fs::create_dir(raw.path().join(".hidden")).unwrap();
    std::fs::write(raw.path().join(".hidden/broken.pkl"), "no pickle").unwrap();
    let (report, labels) = convert_with(raw.path(), &all()).unwrap();
    assert_eq!(labels.len(), 40, "all frames of four episodes: {report:?}");
}

#[test]
fn what_could_be_two_things_is_asked_for() {
    let raw = tempfile::tempdir().unwrap();
    good(raw.path(), 2);
    std::fs::create_dir(raw.path().join("success")).unwrap();
    let error = Recordings::open(raw.path(), &Rules::default()).unwrap_err();
    assert!(error.to_string().ends_with("it could be frames or collected"), "{error}");
    assert_eq!(error.hint(), Some("say which kind of recording it is"));
    let options =
        ImageOptions { rules: Rules { format: Some(DatasetFormat::Episodes), ..Rules::default() }, ..all() };
    assert_eq!(convert_with(raw.path(), &options).unwrap().1.len(), 20);
    save(&raw.path().join("weights/w.pkl"), &PyValue::dict([("layer", PyValue::Int(1))]));
    let text = Recordings::open(&raw.path().join("weights"), &Rules::default()).unwrap_err().to_string();
    assert!(text.contains("a dict with layer"), "{text}");
}

// ---- broken input

#[test]
fn a_file_that_is_cut_short() {
    let raw = tempfile::tempdir().unwrap();
    good(raw.path(), 3);
    let bytes = std::fs::read(raw.path().join("e1.pkl")).unwrap();
    std::fs::write(raw.path().join("e1.pkl"), &bytes[..bytes.len() / 2]).unwrap();
    let error = convert_with(raw.path(), &all()).unwrap_err();
    assert!(matches!(error, ConvertError::BadFile { others: 0, .. }), "{error}");
    assert!(error.to_string().contains("e1.pkl: byte "), "{error}");
    let options = ImageOptions { rules: skipping(), ..all() };
    let (report, pairs) = convert_with(raw.path(), &options).unwrap();
    assert_eq!((report.skipped.len(), pairs.len()), (1, 20));
}

#[test]
fn what_is_no_recording_is_called_by_its_name() {
    let raw = tempfile::tempdir().unwrap();
    std::fs::write(raw.path().join("notes.pkl"), "hello world").unwrap();
    let text = convert_with(raw.path(), &all()).unwrap_err().to_string();
    assert!(text.contains("is it the right file?"), "{text}");
    let raw = tempfile::tempdir().unwrap();
    plaudit_data::store::Store::create(raw.path(), None).unwrap();
    let text = convert_with(raw.path(), &all()).unwrap_err().to_string();
    assert!(text.contains("none of the 0 images"), "{text}");
}

#[test]
fn files_of_another_kind() {
    let text = message(&PyValue::dict([("observation", PyValue::None)]), &all());
    assert!(text.contains("the file has no `observations` (it has observation = None)"), "{text}");
    assert!(message(&PyValue::list([]), &all()).contains("the file is a list, not a dict"));
    let empty = PyValue::dict([("observations", PyValue::list([])), ("infos", PyValue::list([]))]);
    assert!(message(&empty, &all()).contains("`observations` is empty"));
    let short = PyValue::dict([
        ("observations", PyValue::list([observation(image(0))])),
        ("infos", PyValue::list([info("success", true), info("success", true)])),
    ]);
    assert!(message(&short, &all()).contains("2 infos but only 1 observations"));
    let many = PyValue::dict([("success", tensor(Array::from_slice(&[2], &[1.0f32, 0.0]).unwrap()))]);
    let ambiguous = PyValue::dict([
        ("observations", PyValue::list([observation(image(0))])),
        ("infos", PyValue::list([many])),
    ]);
    let text = message(&ambiguous, &all());
    assert!(text.contains("infos[0][\"success\"] is a torch tensor of shape [2], not one bool"), "{text}");
}

#[test]
fn images_that_are_none() {
    let of = |make: &dyn Fn(usize) -> PyValue| episode(9, "success", make);
    let other = of(&|at| observation(shaped(&[4, 6, 3], at)));
    let text = message(&other, &all());
    assert!(text.contains("has shape [4, 6, 3], but ") && text.contains("e0.pkl has [4, 5, 3]"), "{text}");
    let within = of(&|at| observation(if at == 94 { shaped(&[8, 5, 3], at) } else { image(at) }));
    assert!(message(&within, &all()).contains("observations[4][\"main_images\"] has shape [8, 5, 3]"));
    let floats = of(&|_| observation(Array::from_slice(&SHAPE, &[2.5f32; 60]).unwrap()));
    assert!(message(&floats, &all()).contains("float32 with values from 2.5 to 2.5"));
    let first = of(&|at| observation(shaped(&[3, 4, 5], at)));
    let text = message(&first, &all());
    assert!(text.contains("which is [channels, height, width], but [height, width, channels]"), "{text}");
    let states = of(&|_| PyValue::dict([("states", PyValue::None)]));
    let text = message(&states, &all());
    assert!(
        text.contains("no observation has an image under `main_images` (the first has states = None)"),
        "{text}"
    );
    let words = of(&|_| observation("a cube"));
    assert!(message(&words, &all()).contains("is a str, not a torch tensor"));
}

#[test]
fn channels_first_on_request() {
    let raw = tempfile::tempdir().unwrap();
    let [height, width, channels] = SHAPE;
    let planes = |number: usize| {
        let pixels = image(number);
        let plane = |channel| (0..height * width).map(move |pixel| pixel * channels + channel);
        let bytes: Vec<u8> = (0..channels).flat_map(plane).map(|at| pixels.bytes()[at]).collect();
        Array::from_slice(&[channels, height, width], &bytes).unwrap()
    };
    for number in 0..2 {
        let path = raw.path().join(format!("e{number}.pkl"));
        save(&path, &episode(number, "success", |at| observation(planes(at))));
    }
    let options = ImageOptions { channel_order: ChannelOrder::ChannelsFirst, ..all() };
    let (_, pairs) = convert_with(raw.path(), &options).unwrap();
    assert!(pairs.iter().any(|(pixels, _)| *pixels == image(13).bytes()));
}

#[test]
fn too_little_to_split() {
    let raw = tempfile::tempdir().unwrap();
    let text = convert_with(raw.path(), &all()).unwrap_err().to_string();
    assert!(text.starts_with("no episodes in ") && text.contains("data.pkl"), "{text}");
    good(raw.path(), 1);
    let error = convert_with(raw.path(), &all()).unwrap_err();
    assert!(error.to_string().starts_with("1 usable episode(s)"), "{error}");
    assert!(error.hint().unwrap().contains("at least 2"), "{error}");
    let missing = convert_with(&raw.path().join("nowhere"), &all()).unwrap_err().to_string();
    assert!(missing.contains("nowhere"), "{missing}");

    let failures = tempfile::tempdir().unwrap();
    for number in 0..3 {
        let path = failures.path().join(format!("e{number}.pkl"));
        save(&path, &failure(number));
    }
    let error = convert_with(failures.path(), &all()).unwrap_err();
    assert!(error.to_string().starts_with("none of the 30 images in "), "{error}");
    assert!(error.hint().unwrap().contains("collect successful"), "{error}");
}

#[test]
fn a_split_without_success_is_said_to_be_empty() {
    let raw = tempfile::tempdir().unwrap();
    good(raw.path(), 1);
    for number in 1..3 {
        save(&raw.path().join(format!("e{number}.pkl")), &failure(number));
    }
    let mut seen = [0, 0];
    for seed in 0..10 {
        match convert_with(raw.path(), &ImageOptions { seed, ..all() }) {
            Ok((report, _)) => {
                seen[0] += 1;
                assert!(report.notes[0].starts_with("no validation image is a success"));
            }
            Err(error) => {
                seen[1] += 1;
                assert!(error.to_string().starts_with("the train split of "), "{error}");
            }
        }
    }
    assert!(seen[0] > 0 && seen[1] > 0);
}

#[test]
fn all_files_bad() {
    let raw = tempfile::tempdir().unwrap();
    for name in ["a.pkl", "b.pkl"] {
        std::fs::write(raw.path().join(name), b"not a pickle").unwrap();
    }
    let options = ImageOptions { rules: skipping(), ..all() };
    let text = convert_with(raw.path(), &options).unwrap_err().to_string();
    assert!(text.starts_with("none of the 2 files in ") && text.contains("a.pkl: byte"), "{text}");
}

#[test]
fn what_was_there_before_stays() {
    let (raw, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (train, val) = (out.path().join("train.pt"), out.path().join("val.pt"));
    std::fs::write(&train, b"old").unwrap();
    good(raw.path(), 2);
    save(&raw.path().join("z.pkl"), &PyValue::None);
    convert_images(raw.path(), &train, &val, &all(), &|_| {}).unwrap_err();
    // A file that shrinks between the passes is found out, and leaves nothing behind either.
    std::fs::remove_file(raw.path().join("z.pkl")).unwrap();
    let cut = |progress: plaudit_data::convert::Progress| {
        if progress.done == progress.total {
            std::fs::write(raw.path().join("e0.pkl"), b"gone").unwrap();
        }
    };
    let error = convert_images(raw.path(), &train, &val, &all(), &cut).unwrap_err();
    assert!(error.to_string().contains("changed while it was being converted"), "{error}");
    assert_eq!(std::fs::read(&train).unwrap(), b"old");
    assert_eq!(std::fs::read_dir(out.path()).unwrap().count(), 1);
}

// ---- leakage

#[test]
fn an_episode_that_is_there_twice_is_found() {
    let raw = tempfile::tempdir().unwrap();
    good(raw.path(), 2);
    std::fs::copy(raw.path().join("e0.pkl"), raw.path().join("copy.pkl")).unwrap();
    let mut found = 0;
    for seed in 0..8 {
        let (report, _) = convert_with(raw.path(), &ImageOptions { seed, ..all() }).unwrap();
        let leakage = report.leakage;
        if leakage.shared_episodes == 1 {
            found += 1;
            assert_eq!((leakage.exact_duplicates, leakage.near_duplicates), (10, 10));
            assert!(report.notes[0].starts_with("10 of 10 validation images"), "{:?}", report.notes);
            assert_eq!(report.metadata["leakage"]["shared_episodes"], 1);
        } else {
            assert_eq!(leakage.exact_duplicates, 0);
        }
    }
    assert!(found > 0);
}

// ---- windows

fn windows(raw: &Path, options: &WindowOptions) -> Result<plaudit_data::convert::WindowReport, ConvertError> {
    convert_windows(raw, tempfile::tempdir().unwrap().path(), options, &|_| {})
}

#[test]
fn windows_without_a_view() {
    let raw = tempfile::tempdir().unwrap();
    good(raw.path(), 3);
    let text = windows(raw.path(), &WindowOptions::default()).unwrap_err().to_string();
    assert!(
        text.contains("none of the 3 files")
            && text.contains("no observation has the view `extra_view_images[0]`"),
        "{text}"
    );
    assert!(text.contains("(the first has main_images)"), "{text}");
    let main_only = WindowOptions { extra_views: vec![], ..WindowOptions::default() };
    windows(raw.path(), &main_only).unwrap();
    let long = WindowOptions { window_size: 11, ..main_only };
    let text = windows(raw.path(), &long).unwrap_err().to_string();
    assert!(
        text.contains("a whole window of 11 observations") && text.contains("the longest has 10"),
        "{text}"
    );
    let error = windows(raw.path(), &WindowOptions { stride: 0, ..long }).unwrap_err();
    assert!(matches!(error, ConvertError::Option { option: ConvertOption::Stride, .. }), "{error}");
}

#[test]
fn a_reward_that_is_no_number() {
    let raw = tempfile::tempdir().unwrap();
    good(raw.path(), 2);
    let PyValue::Dict(dict) = episode(5, "success", |at| observation(image(at))) else { panic!() };
    let entries = dict.iter().map(|(key, value)| {
        let key = key.as_str().unwrap();
        let nan = || PyValue::list((0..10).map(|_| PyValue::Float(f64::NAN)));
        (key.to_string(), if key == "rewards" { nan() } else { value.clone() })
    });
    save(&raw.path().join("z.pkl"), &PyValue::dict(entries));
    let main_only = WindowOptions { extra_views: vec![], ..WindowOptions::default() };
    let text = windows(raw.path(), &main_only).unwrap_err().to_string();
    assert!(text.contains("z.pkl: rewards[0] is NaN, not one finite number"), "{text}");
    let report = windows(raw.path(), &WindowOptions { rules: skipping(), ..main_only }).unwrap();
    assert_eq!(report.skipped.len(), 1);
}
