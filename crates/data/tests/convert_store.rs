//! Conversions to images in stores: the same images and labels as in the files of torch, by episode.

#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};

use plaudit_data::convert::{ConvertError, ImageFormat, ImageOptions, ImageReport, convert_images};
use plaudit_data::inspect::{DatasetFormat, InspectOptions, inspect};
use plaudit_data::labelled::{LabelledData, ReadOptions};
use plaudit_data::store::Store;
use plaudit_pyfiles::{self as pyfiles, PyValue};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/convert").join(name)
}

fn convert(raw: &Path, out: &Path, options: &ImageOptions) -> Result<ImageReport, ConvertError> {
    let [train, val] = ["train", "val"].map(|split| match options.format {
        ImageFormat::Pt => out.join(format!("{split}.pt")),
        ImageFormat::Store => out.join(split),
    });
    convert_images(raw, &train, &val, options, &|_| {})
}

/// Checksum and label of each image of a `.pt`, in no order.
fn in_pt(path: &Path) -> Vec<(u32, bool)> {
    let data = pyfiles::read(path).unwrap();
    let images = data.get("images").and_then(PyValue::as_items).unwrap();
    let labels = data.get("labels").and_then(PyValue::as_items).unwrap();
    let pair = |(image, label): (&PyValue, &PyValue)| {
        (crc32fast::hash(image.as_array().unwrap().bytes()), label.to_bool().unwrap())
    };
    let mut pairs: Vec<_> = images.iter().zip(labels).map(pair).collect();
    pairs.sort_unstable();
    pairs
}

/// The same of a store.
fn in_store(path: &Path) -> Vec<(u32, bool)> {
    let store = Store::open(path).unwrap();
    assert!(store.verify(&|_, _| {}).unwrap().is_whole());
    let mut pairs = Vec::new();
    for entry in store.episodes() {
        let episode = store.episode(entry.id).unwrap();
        let frames = episode.fact("frame").unwrap();
        assert!(frames.is_sorted_by(|one, next| one < next), "in the order of time: {frames:?}");
        pairs.extend(
            (0..episode.entries())
                .map(|at| (crc32fast::hash(episode.frame(0, at)), episode.success_at(at).unwrap())),
        );
    }
    pairs.sort_unstable();
    pairs
}

#[test]
fn a_store_has_the_images_of_the_files() {
    for (raw, keep) in [("episodes_numpy", 0), ("episodes_torch", 3)] {
        let out = tempfile::tempdir().unwrap();
        let options = |format, memory_bytes| ImageOptions {
            format,
            memory_bytes,
            num_samples_per_episode: keep,
            ..ImageOptions::default()
        };
        let files = convert(&fixture(raw), out.path(), &options(ImageFormat::Pt, 1 << 20)).unwrap();
        let stores = convert(&fixture(raw), out.path(), &options(ImageFormat::Store, 1000)).unwrap();
        assert_eq!((stores.train, stores.val, stores.leakage), (files.train, files.val, files.leakage));
        for split in ["train", "val"] {
            let file = in_pt(&out.path().join(format!("{split}.pt")));
            assert_eq!(in_store(&out.path().join(split)), file, "{raw} {split}");
            let store = Store::open(out.path().join(split)).unwrap();
            assert_eq!(store.about(), Some(&stores.metadata), "what was found is in the manifest");
            assert!(store.episodes()[0].origin.source.contains(raw));
        }
        assert_eq!(names(out.path()), ["train", "train.pt", "val", "val.pt"]);
    }
}

#[test]
fn what_trains_on_files_trains_on_stores() {
    let out = tempfile::tempdir().unwrap();
    let options = ImageOptions { format: ImageFormat::Store, ..ImageOptions::default() };
    let report = convert(&fixture("episodes_numpy"), out.path(), &options).unwrap();
    let data = LabelledData::read(&out.path().join("train"), &ReadOptions::default(), &|_| {}).unwrap();
    assert_eq!(data.format, DatasetFormat::Store);
    assert_eq!(data.episodes.len(), report.metadata["num_train_episodes"].as_u64().unwrap() as usize);
    let successes = data.episodes.iter().flat_map(|episode| &episode.frames).filter(|frame| frame.success);
    assert_eq!([successes.count(), data.frames()], [report.train[0], report.train.iter().sum()]);
}

#[test]
fn both_parts_are_inspected_as_one_dataset() {
    let out = tempfile::tempdir().unwrap();
    let options = ImageOptions { format: ImageFormat::Store, ..ImageOptions::default() };
    let converted = convert(&fixture("episodes_numpy"), out.path(), &options).unwrap();
    let report = inspect(out.path(), &InspectOptions::default(), &|_, _| {}).unwrap();
    assert_eq!(report.format, DatasetFormat::Store);
    let count = |split: &str, name: &str| {
        let found =
            report.labels.iter().find(|label| label.split.as_deref() == Some(split) && label.name == name);
        found.map_or(0, |label| label.count)
    };
    assert_eq!([count("train", "success"), count("train", "fail")], converted.train);
    assert_eq!([count("val", "success"), count("val", "fail")], converted.val);
    assert_eq!(report.leakage.unwrap().exact_duplicates, converted.leakage.exact_duplicates);
    assert!(report.state_widths.is_empty() && report.action_widths.is_empty() && report.reward.is_none());
}

#[test]
fn what_is_there_already_stays() {
    let out = tempfile::tempdir().unwrap();
    let options = ImageOptions { format: ImageFormat::Store, ..ImageOptions::default() };
    convert(&fixture("episodes_numpy"), out.path(), &options).unwrap();
    let before = std::fs::read(out.path().join("val/manifest.jsonl")).unwrap();
    std::fs::remove_dir_all(out.path().join("train")).unwrap();
    let error = convert(&fixture("episodes_torch"), out.path(), &options).unwrap_err().to_string();
    assert!(error.contains("val is there already"), "{error}");
    assert_eq!(std::fs::read(out.path().join("val/manifest.jsonl")).unwrap(), before);
    assert_eq!(names(out.path()), ["val"], "nothing half-made is left");
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn what_a_killed_conversion_left_is_cleared_away() {
    let out = tempfile::tempdir().unwrap();
    std::fs::write(out.path().join(".train.pt.1-0.partial"), "half").unwrap();
    let report = convert(&fixture("episodes_numpy"), out.path(), &ImageOptions::default()).unwrap();
    assert!(report.notes.iter().any(|note| note.starts_with("1 hidden leftover(s)")), "{:?}", report.notes);
    assert_eq!(names(out.path()), ["train.pt", "val.pt"]);
}
