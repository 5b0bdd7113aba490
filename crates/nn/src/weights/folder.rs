//! The checkpoint in a folder that a training run left behind.

use std::fs;
use std::path::{Path, PathBuf};

use super::WeightsError;

/// Where a run puts its weights, relative to the folder that people name.
const CANDIDATES: [&str; 6] = [
    "model.safetensors",
    "actor/model.safetensors",
    "full_weights.pt",
    "model_state_dict/full_weights.pt",
    "actor/model_state_dict/full_weights.pt",
    "best_model.pt",
];

/// Folders of checkpoints inside a run, looked into after the folder itself.
const RUNS: [&str; 4] = ["best_model", "checkpoints/best_model", "checkpoints", "."];

pub(super) fn checkpoint_in(folder: &Path) -> Result<PathBuf, WeightsError> {
    if let Some(file) = direct(folder) {
        return Ok(file);
    }
    let nested = RUNS.iter().find_map(|inner| {
        let inner = folder.join(inner);
        direct(&inner).or_else(|| direct(&latest_step(&inner)?))
    });
    nested.or_else(|| only_file(folder)).ok_or_else(|| {
        let looked_for = CANDIDATES.iter().chain(&["checkpoints/best_model/…", "global_step_N/…"]);
        WeightsError::EmptyFolder {
            folder: folder.to_owned(),
            looked_for: looked_for.map(|candidate| (*candidate).to_owned()).collect(),
        }
    })
}

fn direct(folder: &Path) -> Option<PathBuf> {
    CANDIDATES.iter().map(|candidate| folder.join(candidate)).find(|file| file.is_file())
}

/// The `global_step_N` with the greatest `N`.
fn latest_step(folder: &Path) -> Option<PathBuf> {
    let step = |path: &Path| path.file_name()?.to_str()?.strip_prefix("global_step_")?.parse::<u64>().ok();
    let folders = fs::read_dir(folder).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    folders.filter_map(|path| Some((step(&path)?, path))).max().map(|(_, path)| path)
}

/// The one checkpoint of a folder that holds one.
fn only_file(folder: &Path) -> Option<PathBuf> {
    let files = fs::read_dir(folder).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    let named = |path: &PathBuf| {
        path.extension().is_some_and(|kind| ["safetensors", "pt", "pth"].iter().any(|known| kind == *known))
    };
    let mut found = files.filter(named);
    let first = found.next()?;
    found.next().is_none().then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_searched_from_the_folder_people_name() {
        let cases = [
            (vec!["actor/model_state_dict/full_weights.pt"], "actor/model_state_dict/full_weights.pt"),
            (vec!["model_state_dict/full_weights.pt"], "model_state_dict/full_weights.pt"),
            (
                vec![
                    "checkpoints/global_step_90/full_weights.pt",
                    "checkpoints/global_step_100/full_weights.pt",
                ],
                "checkpoints/global_step_100/full_weights.pt",
            ),
            (
                vec![
                    "checkpoints/best_model/model.safetensors",
                    "checkpoints/global_step_100/full_weights.pt",
                ],
                "checkpoints/best_model/model.safetensors",
            ),
            (
                vec!["global_step_7/actor/model_state_dict/full_weights.pt"],
                "global_step_7/actor/model_state_dict/full_weights.pt",
            ),
            (vec!["reward_model.pth"], "reward_model.pth"),
        ];
        for (files, expected) in cases {
            let dir = tempfile::tempdir().unwrap();
            for file in files {
                let file = dir.path().join(file);
                fs::create_dir_all(file.parent().unwrap()).unwrap();
                fs::write(file, b"").unwrap();
            }
            let found = checkpoint_in(dir.path()).unwrap();
            let found = found.components().collect::<PathBuf>(); // without the `.` of a place
            assert_eq!(found, dir.path().join(expected));
        }
    }

    #[test]
    fn two_candidates_are_none() {
        let dir = tempfile::tempdir().unwrap();
        for file in ["a.pt", "b.pt"] {
            fs::write(dir.path().join(file), b"").unwrap();
        }
        let error = checkpoint_in(dir.path()).unwrap_err().to_string();
        assert!(error.contains("looked for model.safetensors, actor/model.safetensors"), "{error}");
    }
}
