//! Windows for a vision-language model: a manifest, `segments.jsonl`, and a pickle for each line.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::need_list;
use crate::inspect::collection::{Collection, Format, Part};
use crate::inspect::error::Unusable;
use crate::inspect::picture::Picture;
use crate::inspect::recorded::{Recorded, Unit};
use crate::python::PyValue;

const MANIFEST: &str = "segments.jsonl";

/// The windows that the manifests in a folder, or in the folders `train` and `eval` below it, list.
pub(in crate::inspect) fn manifests(folder: &Path) -> Option<Collection> {
    let here = [(folder.to_path_buf(), folder.file_name().map(|name| name.to_string_lossy().into_owned()))];
    let below = ["train", "eval", "val", "test"].map(|name| (folder.join(name), Some(name.to_string())));
    let found: Vec<_> =
        here.into_iter().chain(below).filter(|(folder, _)| folder.join(MANIFEST).is_file()).collect();
    if found.is_empty() {
        return None;
    }
    let mut collection = Collection { format: Format::Windows, parts: Vec::new(), broken: Vec::new() };
    for (folder, split) in found {
        manifest(&folder, split.as_deref(), &mut collection);
    }
    Some(collection)
}

fn manifest(folder: &Path, split: Option<&str>, collection: &mut Collection) {
    let path = folder.join(MANIFEST);
    let file = match File::open(&path) {
        Ok(file) => file,
        Err(error) => return collection.broken.push((path, error.into())),
    };
    for (at, line) in BufReader::new(file).lines().enumerate() {
        let wrong = |why: String| Unusable::Line { line: at + 1, why };
        let part = line.map_err(Unusable::from).and_then(|line| {
            let row: Value = serde_json::from_str(&line).map_err(|error| wrong(error.to_string()))?;
            let pickle = row["pkl_path"].as_str().ok_or_else(|| wrong("it has no pkl_path".into()))?;
            let answer = row["answer"].as_str().map(String::from);
            Ok(Part::window(beside(folder, pickle), split.map(String::from), answer))
        });
        match part {
            Ok(part) => collection.parts.push(part),
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

/// One window.
pub(in crate::inspect) fn window(value: &PyValue, part: &Part) -> Result<Vec<Recorded>, Unusable> {
    let text = |key: &str| value.get(key).and_then(PyValue::as_str).map(String::from);
    let verdict = text("label").or_else(|| part.said.clone());
    let disagrees = match (&verdict, &part.said) {
        (Some(label), Some(said)) if label != said => {
            Some(format!("the manifest says {said}, the file {label}"))
        }
        _ => None,
    };
    let mut recorded = Recorded {
        unit: Some(Unit::Window),
        verdict,
        cut_from: text("source_episode_path"),
        disagrees,
        ..Recorded::default()
    };
    need_list(value, "main_frames")?;
    for camera in ["main_frames", "extra_view_frames"] {
        let frames = super::items(value, camera).iter();
        let pictures = frames.filter_map(|frame| frame.as_array().and_then(Picture::of));
        pictures.for_each(|picture| recorded.see(camera, picture));
    }
    Ok(vec![recorded])
}
