//! Looks for datasets and models below the folder.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use plaudit_data::recording::{Recordings, Rules};
use serde_json::json;

use super::{Dataset, Library, is_skipped};
use crate::events::Events;

/// How deep is looked, and how many folders.
const DEEPEST: usize = 8;
const MOST_FOLDERS: usize = 5000;
/// Datasets that are shown.
const MOST_DATASETS: usize = 500;
/// The largest header of a model's file.
const HEADER_BYTES: u64 = 16 << 20;
/// Files that are datasets by themselves.
const DATASET_FILES: [&str; 4] = ["h5", "hdf5", "mcap", "zip"];

pub(super) fn scan(library: &Library, events: &Events) {
    let mut folders = vec![(library.folder.root().to_path_buf(), 0)];
    let mut seen = 0;
    while let Some((folder, depth)) = folders.pop() {
        if library.is_stopped() {
            return;
        }
        seen += 1;
        if seen > MOST_FOLDERS || library.found().datasets.len() >= MOST_DATASETS {
            let why = format!(
                "more than {MOST_FOLDERS} folders or {MOST_DATASETS} datasets: open a part of this folder"
            );
            library.found().left_out.push(why);
            break;
        }
        if open_folder(library, events, &folder) || depth >= DEEPEST {
            continue;
        }
        let mut below = subfolders(library, &folder);
        below.sort_by(|one, other| other.cmp(one)); // the last is looked at first
        folders.extend(below.into_iter().map(|path| (path, depth + 1)));
    }
    library.found().is_scanned = true;
    library.changed.notify_all();
    events.tell("library", &json!({"scanned": true}));
}

/// Keeps what lies in a folder itself; whether it is a dataset, so that nothing below it is another one.
fn open_folder(library: &Library, events: &Events, folder: &Path) -> bool {
    let opened = Recordings::open(folder, &Rules::default());
    if let Ok(recordings) = opened
        && !recordings.is_empty()
        && recordings.lies_in(folder)
    {
        keep(library, events, recordings);
        return true;
    }
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or("");
        if !entry.file_type().is_ok_and(|kind| kind.is_file()) {
            continue;
        }
        if DATASET_FILES.contains(&extension) {
            if let Ok(recordings) = Recordings::open(&path, &Rules::default())
                && !recordings.is_empty()
            {
                keep(library, events, recordings);
            }
        } else if is_model(&path, extension) {
            library.found().models.push(path);
            events.tell("library", &json!({}));
        }
    }
    false
}

fn keep(library: &Library, events: &Events, recordings: Recordings) {
    let name = library.folder.name(&recordings.path);
    if let Some(link) = library.folder.link_out(&recordings.path) {
        let why = format!("{name}: {} leads out of this folder", library.folder.name(&link));
        library.found().left_out.push(why);
        return;
    }
    let dataset = Arc::new(Dataset::new(name, recordings));
    library.found().datasets.push(dataset);
    library.changed.notify_all();
    events.tell("library", &json!({}));
}

/// Folders below one; links are not followed, since what they lead to inside is found anyway.
fn subfolders(library: &Library, folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let is_folder = |entry: &std::fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
    let folders = entries.filter(is_folder).map(|entry| entry.path());
    folders.filter(|path| !is_skipped(path) && library.folder.inside(path).is_some()).collect()
}

/// Whether a file is a reward model that says so itself. Functions in Python are not: they would be run.
fn is_model(path: &Path, extension: &str) -> bool {
    match extension {
        "safetensors" => says_reward_model(path).unwrap_or(false),
        "onnx" => path.with_extension("json").is_file(),
        _ => false,
    }
}

/// Whether the header of a safetensors file calls it a reward model of ours.
fn says_reward_model(path: &Path) -> std::io::Result<bool> {
    let mut file = File::open(path)?;
    let mut length = [0; 8];
    file.read_exact(&mut length)?;
    let mut header = Vec::new();
    file.take(u64::from_le_bytes(length).min(HEADER_BYTES)).read_to_end(&mut header)?;
    let header: serde_json::Value = serde_json::from_slice(&header).unwrap_or_default();
    Ok(header["__metadata__"]["format"] == "plaudit reward model")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_says_so_in_its_header() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, header: &str| {
            let path = folder.path().join(name);
            let bytes = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &[0; 4]].concat();
            std::fs::write(&path, bytes).unwrap();
            path
        };
        let ours = write("a.safetensors", r#"{"__metadata__":{"format":"plaudit reward model"}}"#);
        let other = write("b.safetensors", r#"{"__metadata__":{"format":"pt"}}"#);
        assert!(is_model(&ours, "safetensors") && !is_model(&other, "safetensors"));
        std::fs::write(folder.path().join("c.safetensors"), [255; 9]).unwrap();
        assert!(!is_model(&folder.path().join("c.safetensors"), "safetensors"));
        assert!(!is_model(Path::new("reward.py"), "py"));
    }
}
