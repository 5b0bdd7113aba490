//! Looks for datasets and models below the folder.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use plaudit_data::recording::{DatasetFormat, Recordings, Rules};
use plaudit_reward::open::ModelLocation;
use plaudit_reward::trend::JudgeCard;
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
    let mut scan = Scan { library, events, seen: 0 };
    scan.look(library.folder.root(), 0);
    library.found().is_scanned = true;
    library.changed.notify_all();
    events.tell("library", &json!({"scanned": true}));
}

struct Scan<'a> {
    library: &'a Library,
    events: &'a Events,
    /// Folders that were looked at.
    seen: usize,
}

impl Scan<'_> {
    /// Keeps what lies in a folder and below it; whether that is anything.
    fn look(&mut self, folder: &Path, depth: usize) -> bool {
        if self.library.is_stopped() || self.is_enough() {
            return true;
        }
        self.seen += 1;
        // Tensors in a checkpoint look like images in a list.
        let is_checkpoint = folder.strip_prefix(self.library.folder.root()).is_ok_and(in_checkpoints);
        let opened = if is_checkpoint { None } else { Recordings::open(folder, &Rules::default()).ok() };
        let opened = opened.filter(|recordings| !recordings.is_empty() && recordings.lies_in(folder));
        // Any folder with an image in it looks like a plain one: it is data only where nothing else is.
        let (plain, certain): (Option<Recordings>, Option<Recordings>) = match opened {
            Some(found) if found.format == DatasetFormat::PlainFolder => (Some(found), None),
            found => (None, found),
        };
        if let Some(recordings) = certain {
            keep(self.library, self.events, recordings);
            return true;
        }
        let mut is_anything = self.open_files(folder) || folder.join("events.jsonl").is_file();
        if depth < DEEPEST {
            for below in subfolders(self.library, folder) {
                is_anything |= self.look(&below, depth + 1);
            }
        }
        match plain {
            Some(recordings) if !is_anything => {
                keep(self.library, self.events, recordings);
                true
            }
            _ => is_anything,
        }
    }

    /// Whether no more is looked for, which is said once.
    fn is_enough(&mut self) -> bool {
        let mut found = self.library.found();
        let is_enough = self.seen >= MOST_FOLDERS || found.datasets.len() >= MOST_DATASETS;
        if is_enough && found.left_out.last().is_none_or(|last| !last.starts_with("more than")) {
            let why = format!(
                "more than {MOST_FOLDERS} folders or {MOST_DATASETS} datasets: open a part of this folder"
            );
            found.left_out.push(why);
        }
        is_enough
    }

    /// The reward model that a file is, or that it is the card of.
    fn model(&self, folder: &Path, file: &Path, extension: &str) -> Option<PathBuf> {
        if file.file_name().is_some_and(|name| name == JudgeCard::FILE) {
            let is_saved_on_the_way = in_checkpoints(folder) && !folder.ends_with("best_model");
            return (!is_saved_on_the_way && self.is_judge(folder)).then(|| folder.into());
        }
        is_model(file, extension).then(|| file.into())
    }

    /// Whether a folder is a judge, with all of its weights inside the folder that is shown: adapters may name a model anywhere.
    fn is_judge(&self, folder: &Path) -> bool {
        match ModelLocation::find(folder, None) {
            Ok(ModelLocation::VisionLanguage(judge)) => {
                let mut parts = std::iter::once(&judge.model).chain(&judge.lora);
                parts.all(|part| self.library.folder.inside(part).is_some())
            }
            Ok(ModelLocation::Classifier(_) | ModelLocation::Custom(_) | ModelLocation::Server(_))
            | Err(_) => false,
        }
    }

    /// Keeps files of a folder that are datasets or models by themselves; whether there are any.
    fn open_files(&self, folder: &Path) -> bool {
        let mut is_anything = false;
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
                    keep(self.library, self.events, recordings);
                    is_anything = true;
                }
            } else if let Some(model) = self.model(folder, &path, extension) {
                self.library.found().models.push(model);
                self.events.tell("library", &json!({}));
                is_anything = true;
            }
        }
        is_anything
    }
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

/// Whether a path below the folder leads through a run's checkpoints, or through tensors as PyTorch has them.
fn in_checkpoints(below: &Path) -> bool {
    below.components().any(|part| part.as_os_str() == "checkpoints" || part.as_os_str() == "model_state_dict")
}

/// Folders below one; links are not followed, since what they lead to inside is found anyway. What a run draws is no data.
fn subfolders(library: &Library, folder: &Path) -> Vec<PathBuf> {
    let is_run = folder.join("events.jsonl").is_file();
    let is_drawn = |path: &Path| ["images", "video"].iter().any(|name| path.ends_with(name));
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let is_folder = |entry: &std::fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
    let folders = entries.filter(is_folder).map(|entry| entry.path());
    let is_unwanted = |path: &PathBuf| is_skipped(path) || is_run && is_drawn(path);
    let mut folders: Vec<PathBuf> =
        folders.filter(|path| !is_unwanted(path) && library.folder.inside(path).is_some()).collect();
    folders.sort();
    folders
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
