//! Windows for a vision-language model: a manifest, `segments.jsonl`, and a pickle for each line.

use std::path::{Path, PathBuf};

use plaudit_pyfiles::PyValue;

use super::error::OpenError;
use super::formats::Format;
use super::item::{Item, Items};
use super::observation::Columns;
use super::probe::list;
use super::{FileProblem, Recording, Unit, keys};
use crate::windows::manifest::{self, MANIFEST};

pub(super) const FORMAT: Format = Format {
    name: "windows",
    describe: "labelled windows",
    noun: ["window", "windows"],
    is_at: |probe| {
        let has_manifest = probe.is_named(MANIFEST) || !with_manifest(probe.path).is_empty();
        Ok(has_manifest || probe.own_pickle()?.has("main_frames"))
    },
    items,
    location: |entry, key| format!("observations[{entry}][\"{key}\"]"),
    ..Format::EPISODES
};

/// The windows that manifests list, or those that pickles are.
fn items(path: &Path) -> Result<Items, OpenError> {
    let is_manifest = path.file_name().is_some_and(|name| name == MANIFEST);
    let folder = if is_manifest { path.parent().unwrap_or(Path::new(".")) } else { path };
    let manifests = with_manifest(folder);
    let mut found = Items::default();
    for (folder, split) in &manifests {
        listed(folder, split.as_deref(), &mut found);
    }
    if manifests.is_empty() {
        let files = if path.is_file() { vec![path.into()] } else { list(path, "pkl")? };
        found.items.extend(files.into_iter().map(|file| item(file, None, None)));
    }
    Ok(found)
}

/// The folder, and the folders `train` and `eval` below it, that have a manifest.
fn with_manifest(folder: &Path) -> Vec<(PathBuf, Option<String>)> {
    let here = (folder.to_path_buf(), folder.file_name().map(|name| name.to_string_lossy().into_owned()));
    let below = ["train", "eval", "val", "test"].map(|name| (folder.join(name), Some(name.to_string())));
    std::iter::once(here).chain(below).filter(|(folder, _)| folder.join(MANIFEST).exists()).collect()
}

fn item(path: PathBuf, split: Option<String>, declared_label: Option<String>) -> Item {
    let declared = declared_label.clone();
    let read = move |value: &PyValue, _: &super::Rules| Ok(vec![read(value, declared.as_deref())?]);
    Item { split, declared_label, ..Item::file(path, read) }
}

fn listed(folder: &Path, split: Option<&str>, found: &mut Items) {
    let path = folder.join(MANIFEST);
    let lines = match manifest::lines(&path) {
        Ok(lines) => lines,
        Err(error) => return found.broken.push((path, error.into())),
    };
    for (line, said) in lines {
        let listed = said.and_then(|said| {
            let pickle = manifest::pickle(&said)?;
            let file = manifest::locate(&path, pickle, None).unwrap_or_else(|| folder.join(pickle));
            Ok(item(file, split.map(String::from), manifest::answer(&said, "answer").map(String::from)))
        });
        match listed {
            Ok(item) => found.items.push(item),
            Err(problem) => {
                found.broken.push((path.clone(), FileProblem::Line { line, why: problem.to_string() }))
            }
        }
    }
}

/// One window; `declared` is what the manifest says.
fn read(value: &PyValue, declared: Option<&str>) -> Result<Recording, FileProblem> {
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
