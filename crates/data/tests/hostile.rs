//! Files that nobody should have put there: pipes, bombs, labels that are none. Each is named, quickly and cheaply.

#![allow(clippy::unwrap_used)] // a test that cannot go on says so by stopping

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::channel;
use std::time::Duration;

use plaudit_core::{End, FrameShape};
use plaudit_data::convert::{ImageOptions, WindowOptions, convert_images, convert_windows};
use plaudit_data::demonstrations;
use plaudit_data::episode::as_python::{as_frames, as_npy, as_pickle};
use plaudit_data::episode::{CameraTrack, Episode, Timestep};
use plaudit_data::inspect::{InspectOptions, Report, inspect, verify};
use plaudit_data::labelled::{LabelledData, ReadOptions};
use plaudit_data::lerobot::{Settings, Writer};
use plaudit_data::replay_buffer;
use plaudit_data::store::{Labels, Origin, Store};
use plaudit_data::windows::{Objective, WindowReadOptions, WindowViews, Windows};
use plaudit_pyfiles::{self as pyfiles, Array, Limits, PickleStyle, PyValue, Reader, Storages};

fn episode(number: u8, success: bool) -> Episode {
    let timestep = |at: usize| Timestep {
        reward: at as f32,
        end: if at == 3 { End::Terminated } else { End::No },
        success: (at > 0).then_some(success && at == 3),
        facts: vec![],
    };
    let shape = FrameShape::rgb(8, 8);
    let pixels =
        (0..4 * shape.bytes()).map(|at| (at * 7 + usize::from(number) * 41) as u8 | 16).collect::<Vec<_>>();
    Episode {
        row: 0,
        number: number.into(),
        batch_step: 3,
        success,
        task: None,
        cameras: vec![CameraTrack { name: "base".into(), shape, pixels: pixels.into() }],
        states: (0..4).map(|at| vec![at as f32, f32::from(number)]).collect(),
        actions: (0..3).map(|at| vec![at as f32]).collect(),
        timesteps: (0..4).map(timestep).collect(),
    }
}

fn pickle(path: &Path, value: &PyValue) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    pyfiles::write_pickle(path, value, PickleStyle::default()).unwrap();
}

/// A small dataset of each format.
fn dataset(format: &str, folder: &Path) {
    let episodes: Vec<Episode> = (0..4).map(|number| episode(number, number % 2 == 0)).collect();
    for (number, episode) in episodes.iter().enumerate() {
        let outcome = if episode.success { ["success", "positive"] } else { ["failure", "negative"] };
        match format {
            "pickle" => {
                let end = if episode.success { "success" } else { "fail" };
                let name = format!("rank_0_env_0_episode_{number}_step_3_{end}.pkl");
                pickle(&folder.join(name), &as_pickle(episode, 0).unwrap());
            }
            "frames" => {
                let path = folder.join(outcome[0]).join(format!("episode_{number:06}.pkl"));
                pickle(&path, &as_frames(episode, number as u64, 0.0).unwrap());
            }
            "npy" => {
                let path = folder.join(outcome[1]).join(format!("{number:06}.npy"));
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                pyfiles::write_npy(path, &as_npy(episode, &[]).unwrap()).unwrap();
            }
            "store" => {
                let store = if number == 0 { Store::create(folder, None) } else { Store::open(folder) };
                store.unwrap().add(episode, &Origin::new("a test")).unwrap();
            }
            "replay_buffer" => replay_buffer::Writer::open(folder).unwrap().append(episode).unwrap(),
            _ => {}
        }
    }
    let raw = folder.with_extension("raw");
    match format {
        "lerobot" => {
            let mut writer = Writer::new(folder, 0, Settings::default()).unwrap();
            episodes.iter().for_each(|episode| drop(writer.append(episode).unwrap()));
            writer.finish().unwrap();
        }
        "images" => {
            dataset("pickle", &raw);
            let [train, val] = ["train.pt", "val.pt"].map(|name| folder.join(name));
            fs::create_dir_all(folder).unwrap();
            let options = ImageOptions { val_split: 0.5, ..ImageOptions::default() };
            convert_images(&raw, &train, &val, &options, &|_| {}).unwrap();
        }
        "windows" => {
            dataset("pickle", &raw);
            let options = WindowOptions {
                window_size: 2,
                val_split: 0.5,
                balance_labels: false,
                extra_views: vec![],
                ..WindowOptions::default()
            };
            convert_windows(&raw, folder, &options, &|_| {}).unwrap();
        }
        _ => {}
    }
}

const FORMATS: [&str; 8] =
    ["pickle", "frames", "npy", "store", "replay_buffer", "lerobot", "images", "windows"];

/// Every file of a folder, hidden ones left out.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(files(&path)),
            false if path.file_name().unwrap().to_str().unwrap().starts_with('.') => {}
            false => found.push(path),
        }
    }
    found.sort();
    found
}

/// Something must be over within some seconds, well or not.
fn in_time(what: &str, act: impl FnOnce() + Send + 'static) {
    let (done, wait) = channel();
    std::thread::spawn(move || {
        act();
        let _ = done.send(());
    });
    assert!(wait.recv_timeout(Duration::from_secs(30)).is_ok(), "{what} hangs");
}

fn looked(path: &Path) -> Result<Report, String> {
    inspect(path, &InspectOptions::default(), &|_, _| {}).map_err(|error| error.to_string())
}

#[test]
fn a_pipe_in_the_place_of_any_file_is_refused_and_never_waited_for() {
    for format in FORMATS {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join(format);
        dataset(format, &folder);
        assert!(verify(&folder, &|_, _| {}).unwrap().is_whole(), "{format}");
        for file in files(&folder) {
            let aside = file.with_extension("aside");
            fs::rename(&file, &aside).unwrap();
            assert!(Command::new("mkfifo").arg(&file).status().unwrap().success());
            let place = folder.clone();
            in_time(&format!("{format}: {}", file.display()), move || {
                let whole = verify(&place, &|_, _| {}).is_ok_and(|found| found.is_whole());
                // LeRobot's statistics and a conversion's summary are for others.
                let unread = ["stats.json", "metadata.json", "dataset_info.json"];
                assert!(whole == unread.iter().any(|name| file.ends_with(name)), "{}", file.display());
                let _ = looked(&place);
                let _ = LabelledData::read(&place, &ReadOptions::default(), &|_| {});
                let _ = demonstrations::read(&place);
                fs::remove_file(&file).unwrap();
                fs::rename(&aside, &file).unwrap();
            });
        }
    }
}

#[test]
fn damage_of_any_file_is_found_and_named() {
    for format in FORMATS {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join(format);
        dataset(format, &folder);
        for file in files(&folder) {
            let name = file.file_name().unwrap().to_str().unwrap();
            if ["stats.json", "metadata.json", "dataset_info.json"].contains(&name) {
                continue; // for others
            }
            let whole = fs::read(&file).unwrap();
            fs::write(&file, &whole[..whole.len() / 2]).unwrap();
            let said = match verify(&folder, &|_, _| {}) {
                Ok(found) => format!("{:?}", found.broken),
                Err(error) => error.to_string(),
            };
            // Lines that a store's manifest has lost are known by the files that it does not list.
            let name = if name == "manifest.jsonl" { "in no line of the manifest" } else { name };
            assert!(said.contains(name), "{format}, {name}: {said}");
            fs::write(&file, &whole).unwrap();
        }
    }
}

#[test]
fn a_lerobot_dataset_without_its_metadata_or_with_other_counts_is_not_whole() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("lerobot");
    dataset("lerobot", &folder);
    let info = files(&folder).into_iter().find(|file| file.ends_with("meta/info.json")).unwrap();
    let whole = fs::read_to_string(&info).unwrap();
    let said = || match verify(&folder, &|_, _| {}) {
        Ok(found) => format!("{:?}", found.broken),
        Err(error) => error.to_string(),
    };
    let mut counts: serde_json::Value = serde_json::from_str(&whole).unwrap();
    counts["total_frames"] = 7.into();
    fs::write(&info, counts.to_string()).unwrap();
    assert!(said().contains("total_frames is 7"), "{}", said());
    fs::remove_file(&info).unwrap();
    assert!(said().contains("info.json"), "{}", said());
}

#[test]
fn every_flipped_bit_of_a_store_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    dataset("store", &path);
    let id = Store::open(&path).unwrap().episodes()[0].id;
    let file = path.join(format!("episodes/{id}.safetensors"));
    let whole = fs::read(&file).unwrap();
    for at in (0..whole.len()).step_by(whole.len() / 60) {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 8);
        fs::write(&file, &bytes).unwrap();
        let store = Store::open(&path).unwrap();
        let error = store.episode(id).unwrap_err().to_string();
        assert!(error.contains(&id.to_string()), "byte {at}: {error}");
        let found = verify(&path, &|_, _| {}).unwrap();
        assert!(found.broken.len() == 1 && found.broken[0].file.contains(&id.to_string()), "{found:?}");
    }
    fs::write(&file, &whole).unwrap();
    assert!(Store::open(&path).unwrap().episode(id).is_ok());
}

/// A PNG that claims to be so large and holds next to nothing.
fn bomb(width: u32, height: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, width, height);
    encoder.set_color(png::ColorType::Rgb);
    drop(encoder.write_header().unwrap());
    bytes
}

#[test]
fn an_image_may_claim_no_more_than_a_camera_has() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["success/000001.png", "failure/000001.png"] {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bomb(50_000, 50_000)).unwrap();
    }
    let error = LabelledData::read(folder.path(), &ReadOptions::default(), &|_| {}).unwrap_err().to_string();
    assert!(error.contains("success/000001.png: 50000x50000 pixels"), "{error}");
}

fn images(labels: PyValue, count: usize) -> PyValue {
    let image = |at: usize| PyValue::from(Array::from_slice(&[2, 2, 3], &[at as u8 + 20; 12]).unwrap());
    PyValue::dict([("images", PyValue::list((0..count).map(image))), ("labels", labels)])
}

#[test]
fn labels_are_zeros_and_ones_and_as_many_as_images() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("train.pt");
    let list = |labels: &[i64]| PyValue::list(labels.iter().map(|label| PyValue::Int(*label)));
    let array = |labels: &[f32]| PyValue::from(Array::from_slice(&[labels.len()], labels).unwrap());
    let flags = PyValue::list([true, false, true].map(PyValue::from));
    for (labels, expected) in [
        (list(&[0, 1, 1]), None),
        (array(&[1.0, 0.0, 1.0]), None),
        (flags, None),
        (list(&[0, 2, 1]), Some("labels[1] is 2")),
        (list(&[0, 1, -1]), Some("labels[2] is -1")),
        (array(&[0.0, 1.0, 0.5]), Some("labels[2] is 0.5")),
        (array(&[f32::NAN, 1.0, 0.0]), Some("labels[0] is NaN")),
        (PyValue::list([PyValue::None, true.into(), true.into()]), Some("labels[0] is None")),
        (PyValue::list(["1", "0", "1"].map(PyValue::from)), Some("labels[0]")),
        (list(&[0, 1]), Some("3 images and 2 labels")),
    ] {
        pyfiles::write_pt(&path, &images(labels, 3), Storages::Own).unwrap();
        let trained = LabelledData::read(&path, &ReadOptions::default(), &|_| {});
        let trained = trained.map(drop).map_err(|error| error.to_string());
        let looked = looked(folder.path()).map(drop);
        match expected {
            None => assert_eq!((trained, looked), (Ok(()), Ok(()))),
            Some(expected) => {
                for said in [trained.unwrap_err(), looked.unwrap_err()] {
                    assert!(said.contains(expected) && said.contains("train.pt"), "{said}");
                }
            }
        }
    }
}

#[test]
fn labels_of_every_other_format_are_zeros_and_ones_too() {
    let root = tempfile::tempdir().unwrap();
    for format in ["pickle", "frames", "npy"] {
        let folder = root.path().join(format);
        dataset(format, &folder);
        let file = files(&folder).remove(0);
        let two = || PyValue::Int(2);
        let value = match format {
            "pickle" => with(as_pickle(&episode(0, true), 0).unwrap(), "infos", |infos| {
                let infos = infos.as_items().unwrap().iter().cloned();
                PyValue::list(infos.map(|info| with(info, "success", |_| two())))
            }),
            "frames" => with(as_frames(&episode(0, true), 0, 0.0).unwrap(), "frames", |frames| {
                let frames = frames.as_items().unwrap().iter().cloned();
                PyValue::list(frames.map(|frame| with(frame, "success", |_| two())))
            }),
            _ => {
                let labels = || Array::from_slice(&[3], &[0.0f32, 2.0, 1.0]).unwrap().into();
                with(as_npy(&episode(0, true), &[]).unwrap().item().unwrap().clone(), "labels", |_| labels())
            }
        };
        match format {
            "npy" => {
                let whole = PyValue::ObjectArray(pyfiles::ObjectArray::around(value).into());
                pyfiles::write_npy(&file, &whole).unwrap();
            }
            _ => pickle(&file, &value),
        }
        let name = file.file_name().unwrap().to_str().unwrap();
        let report = looked(&folder).unwrap();
        let said = &report.broken[0];
        assert!(
            said.file.ends_with(name) && said.problem.contains("is 2, and a label is 0 or 1"),
            "{said:?}"
        );
        let trained = LabelledData::read(&folder, &ReadOptions::default(), &|_| {}).unwrap_err().to_string();
        assert!(trained.contains(name) && trained.contains("is 2, and a label"), "{trained}");
    }

    let path = root.path().join("store");
    dataset("store", &path);
    let mut store = Store::open(&path).unwrap();
    let id = store.episodes()[0].id;
    let values = vec![0.0, f32::NAN, 2.0, 1.0];
    store.add_labels(id, &Labels { name: "success".into(), values, by: "a test".into() }).unwrap();
    let error = LabelledData::read(&path, &ReadOptions::default(), &|_| {}).unwrap_err().to_string();
    assert!(error.contains("label 2 of `success`") && error.contains("is 2"), "{error}");
}

/// A dict with another value under a key.
fn with(value: PyValue, key: &str, change: impl Fn(&PyValue) -> PyValue) -> PyValue {
    let entries = value.as_dict().unwrap().iter().map(|(name, value)| {
        let name = name.as_str().unwrap().to_string();
        let value = if name == key { change(value) } else { value.clone() };
        (name, value)
    });
    let mut entries: Vec<(String, PyValue)> = entries.collect();
    if !entries.iter().any(|(name, _)| name == key) {
        entries.push((key.into(), change(&PyValue::None)));
    }
    PyValue::dict(entries.iter().map(|(name, value)| (name.as_str(), value.clone())))
}

#[test]
fn a_line_of_a_manifest_is_bounded() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("windows");
    dataset("windows", &folder);
    let manifest = folder.join("train/segments.jsonl");
    let text = fs::read_to_string(&manifest).unwrap();
    let mut lines: Vec<String> = text.lines().map(String::from).collect();
    let mut row: serde_json::Value = serde_json::from_str(&lines[1]).unwrap();
    row["prompt"] = "a".repeat(20 << 20).into();
    lines[1] = row.to_string();
    fs::write(&manifest, lines.join("\n")).unwrap();
    let report = looked(&folder).unwrap();
    assert!(report.broken[0].file.ends_with("segments.jsonl"), "{report}");
    assert!(report.broken[0].problem.contains("line 2") && report.broken[0].problem.contains("longer than"));
    let reading = WindowReadOptions {
        prompt_key: "prompt".into(),
        answer_key: "answer".into(),
        objectives: vec![Objective::Trend],
        data_root: None,
        views: WindowViews::Main,
    };
    let error = Windows::read(&[folder.join("train")], &reading).unwrap_err().to_string();
    assert!(error.contains("segments.jsonl line 2: longer than 262144 bytes"), "{error}");
}

#[test]
fn objects_are_bounded_by_the_bytes_there_are_for_them() {
    // `]` is an empty list, `0` throws it away: an object for two bytes.
    let hostile = [&b"\x80\x04"[..], &b"]0".repeat(1000), b"N."].concat();
    let honest =
        PyValue::list((0..300).map(|at| PyValue::from(format!("the {at}th text is long enough").as_str())));
    let honest = pyfiles::pickle_bytes(&honest, PickleStyle::default()).unwrap();
    let limits = Limits { objects: 100, ..Limits::default() };
    let read = |bytes: &[u8]| Reader::new().limits(limits).read_bytes(bytes.to_vec());
    let error = read(&hostile).unwrap_err().to_string();
    assert!(error.contains("objects"), "{error}");
    assert!(read(&honest).is_ok());
}
