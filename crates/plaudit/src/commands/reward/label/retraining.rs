//! A new model after so many labels: `plaudit reward train --from MODEL --add LABELS`, as its own process.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::models::{LabelModels, ModelPaths};
use crate::cli::Verbosity;
use crate::console;
use crate::failure::Failure;
use crate::program;
use crate::run::interrupted;

/// When and from what is trained.
pub(super) struct Retraining<'a> {
    pub(super) every: NonZeroUsize,
    /// The models of the beginning: every training starts there, with all labels.
    pub(super) from: ModelPaths,
    pub(super) folder: &'a Path,
    pub(super) settings: &'a [String],
    pub(super) verbosity: Verbosity,
}

/// A model that has learned from labels.
pub(super) struct NewerPaths {
    pub(super) labels: usize,
    pub(super) paths: ModelPaths,
}

impl Retraining<'_> {
    /// The newest model that is due with so many labels; trained, unless it is there.
    pub(super) fn model_after(
        &self,
        labels: usize,
        now: &LabelModels,
    ) -> Result<Option<NewerPaths>, Failure> {
        let due = labels - labels % self.every;
        let model = self.folder.join("models").join(format!("after_{due}"));
        let second = self.from.second.clone(); // one that was named stays
        let paths = ModelPaths { model: model.clone(), second };
        if due == 0 || now.paths.model == model {
            return Ok(None);
        }
        if !model.exists() && !self.train(&model, now.paths.second.is_some())? {
            return Ok(None); // interrupted, which the next question finds out
        }
        Ok(Some(NewerPaths { labels: due, paths }))
    }

    /// Trains, and says whether it came to its end. A model appears whole or not at all.
    fn train(&self, model: &Path, has_second: bool) -> Result<bool, Failure> {
        let unfinished = model.with_extension("unfinished");
        let unable =
            |error: std::io::Error| Failure::runtime(format!("{}: {error}", unfinished.display()), None);
        if unfinished.exists() {
            std::fs::remove_dir_all(&unfinished).map_err(unable)?;
        }
        let words = self.words(&unfinished, has_second);
        if !self.verbosity.quiet {
            console::eprintln(&format!("\n  $ plaudit {}\n", words.join(" ")));
        }
        let program = program::path().map_err(unable)?;
        let mut process = Command::new(program);
        process.args(words).stdin(Stdio::null()).stdout(Stdio::null());
        if self.verbosity.quiet {
            process.arg("--quiet");
        }
        let status = process.status().map_err(unable)?;
        if interrupted() {
            return Ok(false);
        }
        if !status.success() {
            let help = "what went wrong is said above; every label is kept, and the same command goes on";
            return Err(Failure::runtime(format!("the training stopped: {status}"), help.to_string()));
        }
        std::fs::rename(&unfinished, model).map_err(unable)?;
        Ok(true)
    }

    fn words(&self, run: &Path, has_second: bool) -> Vec<String> {
        let path = |path: &PathBuf| path.display().to_string();
        let mut words: Vec<String> = ["reward", "train", "--from"].map(String::from).into();
        words.push(path(&self.from.model));
        words.extend(["--add".into(), self.folder.display().to_string()]);
        words.push(format!("runner.logger.log_path={}", run.display()));
        let keeps_second = self.from.second.is_some() || !has_second;
        words.extend(keeps_second.then(|| "runner.second_model=false".into()));
        words.extend(self.settings.iter().cloned());
        words
    }
}
