//! The model that is labelled for and the second one, as files and as what they say.

use std::path::{Path, PathBuf};

use plaudit_reward::active_labels::{FrameScores, ModelOpinions};
use plaudit_reward::audit::{conditioned, conditions_hold, logits};
use plaudit_reward::dataset::{Frames, ViewKey};
use plaudit_reward::open::{ModelLocation, OpenClassifier};

use crate::build::second_model_beside;
use crate::cli::Verbosity;
use crate::commands::reward::checkpoint::{PreparationArgs, only_served, unfit, unopened, without_states};
use crate::commands::reward::data::{as_failure, views};
use crate::console;
use crate::device::DeviceChoice;
use crate::failure::Failure;
use crate::progress::{ProgressBar, ProgressUpdate};

/// Frames scored at a time.
const BATCH: usize = 256;

/// Where two models are; without a second one, it is looked for beside the first.
#[derive(Debug, Clone)]
pub(super) struct ModelPaths {
    pub(super) model: PathBuf,
    pub(super) second: Option<PathBuf>,
}

/// How they are opened.
pub(super) struct Opener<'a> {
    pub(super) preparation: &'a PreparationArgs,
    pub(super) device: DeviceChoice,
    pub(super) verbosity: Verbosity,
}

/// Both of them.
pub(super) struct LabelModels {
    pub(super) paths: ModelPaths,
    model: OpenClassifier,
    second: Option<OpenClassifier>,
}

impl Opener<'_> {
    pub(super) fn open(&self, paths: &ModelPaths) -> Result<LabelModels, Failure> {
        let model = self.classifier(&paths.model)?;
        let beside = || second_model_beside(&model.file.display().to_string()).map(PathBuf::from);
        let second = paths.second.clone().or_else(beside);
        if second.is_none() && !self.verbosity.quiet {
            console::eprintln(&format!(
                "note: no second model lies beside {}, so that only the distance to the threshold counts; --second MODEL names one",
                paths.model.display()
            ));
        }
        let second_model = second.as_deref().map(|second| self.classifier(second)).transpose()?;
        if let (Some(path), Some(second)) = (&second, &second_model) {
            refuse_unlike(paths, path, &model, second)?;
        }
        let paths = ModelPaths { model: paths.model.clone(), second };
        Ok(LabelModels { paths, model, second: second_model })
    }

    fn classifier(&self, path: &Path) -> Result<OpenClassifier, Failure> {
        let location = ModelLocation::find(path, None).map_err(|error| unopened(error.into()))?;
        match location {
            ModelLocation::Classifier(_) => {}
            ModelLocation::Custom(location) => {
                let message = format!("{location} is {}, which is not trained here", location.kind());
                let help = "give an image classifier of `plaudit reward train`: labels are for what learns from them";
                return Err(Failure::usage(message, help.to_string()));
            }
            ModelLocation::Server(address) => return Err(only_served(&address)),
            ModelLocation::VisionLanguage(_) => {
                let message =
                    format!("{} is a vision-language judge of windows, not of single frames", path.display());
                return Err(Failure::usage(message, "give an image classifier".to_string()));
            }
        }
        let model = self.preparation.open(path, self.device, self.verbosity)?;
        if model.card.settings.progress_bins.is_some() {
            let message = format!(
                "{} is a model of progress: it learns from whole demonstrations, not from labelled frames",
                path.display()
            );
            return Err(Failure::usage(message, "give a classifier of success".to_string()));
        }
        Ok(model)
    }
}

/// Two models that cannot be compared.
fn refuse_unlike(
    paths: &ModelPaths,
    second_path: &Path,
    model: &OpenClassifier,
    second: &OpenClassifier,
) -> Result<(), Failure> {
    if model.file == second.file {
        let message = format!("{} is both models: it never disagrees with itself", paths.model.display());
        return Err(Failure::usage(message, "give another --second, or leave it out".to_string()));
    }
    let keys = |model: &OpenClassifier| model.card.settings.image_keys.join(", ");
    if keys(model) != keys(second) {
        let message = format!(
            "{} looks through {}, and the second model {} through {}",
            paths.model.display(),
            keys(model),
            second_path.display(),
            keys(second)
        );
        return Err(Failure::usage(message, "give a --second of the same cameras".to_string()));
    }
    Ok(())
}

impl LabelModels {
    pub(super) fn views(&self) -> Result<Vec<ViewKey>, Failure> {
        views(&self.model.card.settings.image_keys).map_err(|error| as_failure(&error))
    }

    /// What both say about all frames.
    pub(super) fn opinions(
        &self,
        frames: &Frames,
        threshold: Option<f64>,
        verbosity: Verbosity,
    ) -> Result<ModelOpinions, Failure> {
        let bar = ProgressBar::new("reward label", verbosity);
        let model = scores(&self.model, frames, threshold, "scoring", &bar)?;
        let second = self.second.as_ref();
        let second = second.map(|second| scores(second, frames, None, "scoring again", &bar)).transpose()?;
        let conditions = self.model.card.conditions.as_ref();
        let is_learnable = conditions.map(|conditions| conditions_hold(frames, conditions)).transpose();
        let is_learnable = is_learnable.map_err(|error| without_states(&error))?;
        Ok(ModelOpinions { model, second, is_learnable })
    }
}

fn scores(
    model: &OpenClassifier,
    frames: &Frames,
    threshold: Option<f64>,
    what: &'static str,
    bar: &ProgressBar,
) -> Result<FrameScores, Failure> {
    let on_progress = |done, total| bar.show(ProgressUpdate { what, unit: "frames", done, total });
    let found = logits(&model.scorer, frames, BATCH, &on_progress);
    let found = found.map_err(|error| unfit(&model.file, &error))?;
    let found = conditioned(frames, model.card.conditions.as_ref(), found);
    let found = found.map_err(|error| without_states(&error))?;
    let threshold = threshold.or(model.card.threshold).unwrap_or(0.5);
    let scores = FrameScores::of(&found, model.card.temperature(), threshold);
    if !scores.are_finite() {
        let message =
            format!("{} gives scores that are no numbers; its weights are broken", model.file.display());
        return Err(Failure::runtime(message, "give an earlier checkpoint".to_string()));
    }
    Ok(scores)
}
