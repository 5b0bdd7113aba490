//! Windows for a vision-language model: a manifest, `segments.jsonl`, and a pickle for each line.

use std::path::{Path, PathBuf};

use serde_json::Value;

use plaudit_pyfiles::PyValue;
use plaudit_pyfiles::plain_file;

use super::formats::{DatasetFormat, Item, Recordings};
use super::observation::Columns;
use super::{FileProblem, Recording, Unit, keys};
use crate::windows::LINE_BYTES;

const MANIFEST: &str = "segments.jsonl";

/// The windows that the manifests in a folder, or in the folders `train` and `eval` below it, list.
pub(super) fn manifests(folder: &Path) -> Option<Recordings> {
    let here = [(folder.to_path_buf(), folder.file_name().map(|name| name.to_string_lossy().into_owned()))];
    let below = ["train", "eval", "val", "test"].map(|name| (folder.join(name), Some(name.to_string())));
    let found: Vec<_> =
        here.into_iter().chain(below).filter(|(folder, _)| folder.join(MANIFEST).exists()).collect();
    if found.is_empty() {
        return None;
    }
    let mut collection = Recordings::empty(folder, DatasetFormat::Windows);
    for (folder, split) in found {
        manifest(&folder, split.as_deref(), &mut collection);
    }
    Some(collection)
}

fn manifest(folder: &Path, split: Option<&str>, collection: &mut Recordings) {
    let path = folder.join(MANIFEST);
    let lines = match plain_file::lines(&path, LINE_BYTES) {
        Ok(lines) => lines,
        Err(error) => return collection.broken.push((path, error.into())),
    };
    for (number, line) in lines {
        let wrong = |why: String| FileProblem::Line { line: number, why };
        let item = line.map_err(|error| wrong(error.to_string())).and_then(|line| {
            let row: Value = serde_json::from_str(&line).map_err(|error| wrong(error.to_string()))?;
            let pickle = row["pkl_path"].as_str().ok_or_else(|| wrong("it has no pkl_path".into()))?;
            let answer = row["answer"].as_str().map(String::from);
            Ok(Item::window(beside(folder, pickle), split.map(String::from), answer))
        });
        match item {
            Ok(item) => collection.items.push(item),
            Err(problem) => collection.broken.push((path.clone(), problem)),
        }
    }
}

/// Manifests have absolute paths; folders move. A file beside the manifest is the one that is meant.
fn beside(folder: &Path, written: &str) -> PathBuf {
    let written = Path::new(written);
    let near = written.file_name().map(|name| folder.join("pkl").join(name));
    near.filter(|near| near.exists()).unwrap_or_else(|| folder.join(written))
}

/// One window; `declared` is what the manifest says.
pub(super) fn read(value: &PyValue, declared: Option<&str>) -> Result<Recording, FileProblem> {
    let text = |key: &str| value.get(key).and_then(PyValue::as_str).map(String::from);
    let window_label = text("label").or_else(|| declared.map(String::from));
    let disagrees = match (&window_label, declared) {
        (Some(label), Some(declared)) if label != declared => {
            Some(format!("the manifest says {declared}, the file {label}"))
        }
        _ => None,
    };
    keys::need_list(value, "main_frames")?;
    let camera = |name: &str| {
        let images = keys::items(value, name).iter().filter_map(|frame| frame.as_array().cloned());
        (name.to_string(), images.collect::<Vec<_>>())
    };
    let cameras: Vec<_> = ["main_frames", "extra_view_frames"].map(camera).into();
    let frames = cameras.iter().map(|(_, images)| images.len()).max().unwrap_or(0);
    Ok(Recording {
        unit: Unit::Window,
        observations: Columns { cameras, ..Columns::default() }.rows(frames),
        window_label,
        cut_from: text("source_episode_path"),
        unlabelled: Some(FileProblem::Windows),
        disagrees,
        ..Recording::default()
    })
}
