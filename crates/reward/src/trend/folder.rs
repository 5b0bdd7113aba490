//! Where a judge is: a model of its own, or adapters and the model they are for.

use std::fs;
use std::path::{Path, PathBuf};

use super::card::{JudgeCard, JudgeCardError};

/// Folders of checkpoints inside a run, looked into after the folder itself.
const RUNS: [&str; 3] = ["best_model", "checkpoints/best_model", "checkpoints"];
const ADAPTER: &str = "adapter_config.json";

/// The folders of a judge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JudgeFolder {
    /// The model's Hugging Face folder.
    pub model: PathBuf,
    /// Its adapters, if it has any.
    pub lora: Option<PathBuf>,
}

/// Adapters whose model is not there.
#[derive(Debug, thiserror::Error)]
#[error("{}: these are adapters, and {problem}", adapters.display())]
pub struct NoBaseModel {
    /// The adapters' folder.
    pub adapters: PathBuf,
    /// What is wrong.
    pub problem: String,
}

impl JudgeFolder {
    /// The judge in a folder: a Hugging Face folder, adapters as peft saves them, or a run that tuned either. `None`
    /// where there is no such thing.
    ///
    /// # Errors
    /// When there are adapters, and the model that they name is not there.
    pub(crate) fn find(path: &Path) -> Result<Option<Self>, NoBaseModel> {
        let inner = RUNS.iter().map(|inner| path.join(inner));
        for folder in std::iter::once(path.to_path_buf()).chain(inner) {
            for folder in std::iter::once(folder.clone()).chain(latest_step(&folder)) {
                if is_model(&folder) {
                    return Ok(Some(Self { model: folder, lora: None }));
                }
                if folder.join(ADAPTER).is_file() {
                    return base_of(&folder).map(|model| Some(Self { model, lora: Some(folder) }));
                }
            }
        }
        Ok(None)
    }

    /// A model with adapters.
    #[must_use]
    pub fn with(model: &Path, lora: Option<&Path>) -> Self {
        Self { model: model.to_path_buf(), lora: lora.map(Path::to_path_buf) }
    }

    /// The folder that is the judge's own: that of its adapters, or else the model's. Its card is there.
    #[must_use]
    pub fn own(&self) -> &Path {
        match &self.lora {
            Some(lora) if lora.is_dir() => lora,
            _ => &self.model,
        }
    }

    /// What the judge says about itself, if it does.
    ///
    /// # Errors
    /// When it makes no sense.
    pub fn card(&self) -> Result<Option<JudgeCard>, JudgeCardError> {
        JudgeCard::read(self.own())
    }
}

/// Whether a folder holds a model.
pub(super) fn is_model(folder: &Path) -> bool {
    folder.join("config.json").is_file() && folder.join("tokenizer.json").is_file()
}

fn base_of(adapters: &Path) -> Result<PathBuf, NoBaseModel> {
    let problem = |problem: String| NoBaseModel { adapters: adapters.to_path_buf(), problem };
    let text = fs::read_to_string(adapters.join(ADAPTER))
        .map_err(|error| problem(format!("{ADAPTER} cannot be read ({error})")))?;
    let config: serde_json::Value =
        serde_json::from_str(&text).map_err(|error| problem(format!("{ADAPTER} is no JSON ({error})")))?;
    let named = config.get("base_model_name_or_path").and_then(serde_json::Value::as_str);
    let named = named.filter(|named| !named.is_empty());
    let named = named.ok_or_else(|| problem("do not say which model they are for".into()))?;
    let base = PathBuf::from(named);
    if is_model(&base) {
        return Ok(base);
    }
    Err(problem(format!("the model they are for, `{named}`, is not there")))
}

/// The `global_step_N` with the greatest `N`.
fn latest_step(folder: &Path) -> Option<PathBuf> {
    let step = |path: &Path| path.file_name()?.to_str()?.strip_prefix("global_step_")?.parse::<u64>().ok();
    let folders = fs::read_dir(folder).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    folders.filter_map(|path| Some((step(&path)?, path))).max().map(|(_, path)| path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn touch(folder: &Path, names: &[&str]) {
        fs::create_dir_all(folder).unwrap();
        names.iter().for_each(|name| fs::write(folder.join(name), "{}").unwrap());
    }

    #[test]
    fn judges_are_found_in_runs_and_adapters_lead_to_their_model() {
        let place = tempfile::tempdir().unwrap();
        let (run, tuned) = (place.path().join("run"), place.path().join("tuned"));
        touch(&run.join("checkpoints/best_model"), &["config.json", "tokenizer.json"]);
        touch(&run.join("checkpoints/global_step_5"), &["config.json", "tokenizer.json"]);
        let found = JudgeFolder::find(&run).unwrap().unwrap();
        assert_eq!(found.own(), run.join("checkpoints/best_model"));
        let adapters = tuned.join("checkpoints/global_step_10");
        touch(&adapters, &[ADAPTER]);
        touch(&tuned.join("checkpoints/global_step_9"), &[ADAPTER]);
        let error = JudgeFolder::find(&tuned).unwrap_err().to_string();
        assert!(error.contains("do not say which model"), "{error}");
        let name = |base: &Path| serde_json::json!({"base_model_name_or_path": base}).to_string();
        fs::write(adapters.join(ADAPTER), name(Path::new("/nowhere/Qwen"))).unwrap();
        assert!(JudgeFolder::find(&tuned).unwrap_err().to_string().contains("`/nowhere/Qwen`, is not there"));
        fs::write(adapters.join(ADAPTER), name(&found.model)).unwrap();
        let both = JudgeFolder::find(&tuned).unwrap().unwrap();
        assert_eq!((both.model.as_path(), both.own()), (found.model.as_path(), adapters.as_path()));
        assert_eq!(JudgeFolder::find(&place.path().join("nothing")).unwrap(), None);
        assert_eq!(JudgeFolder::find(place.path()).unwrap(), None);
    }
}
