//! What a person reads when a training is over.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use plaudit_core::Emit;
use plaudit_nn::Weights;
use plaudit_nn::classifier::Device;
use plaudit_pyfiles::{self as pyfiles, PyDict, PyValue, Storages};
use plaudit_reward::card::ModelCard;
use plaudit_reward::images::Mistakes;
use plaudit_reward::metrics::Metrics;
use plaudit_reward::open::{ClassifierCheckpoint, GivenNetwork, OpenClassifier};
use plaudit_reward::train::{Checkpoints, Evaluation, StopReason, TrainOutcome, evaluate};

use super::data::TrainingData;
use super::train::image;
use crate::failure::Failure;
use crate::run::Run;

/// The best model, and how good it is.
pub(super) struct Summary {
    folder: PathBuf,
    weights: Weights,
    card: ModelCard,
    steps: u64,
    reason: StopReason,
    evaluation: Option<Evaluation>,
    mistakes: Option<(PathBuf, Mistakes)>,
}

/// Mistakes of each kind that are shown.
const SHOWN: usize = 16;
/// Frames scored at a time.
const BATCH: usize = 256;

impl Summary {
    /// Reads the best model back, and looks at its mistakes, where it was trained.
    pub(super) fn of(
        run: &mut Run,
        outcome: &TrainOutcome,
        data: &TrainingData,
        device: Device,
    ) -> Result<Self, Failure> {
        let failed = |error: &dyn std::fmt::Display| Failure::runtime(error, None);
        let folder = Checkpoints::in_folder(&run.checkpoints_directory()).best();
        let checkpoint = ClassifierCheckpoint::read(&folder).map_err(|error| failed(&error))?;
        let OpenClassifier { card, scorer, .. } =
            checkpoint.open(&GivenNetwork::default(), device).map_err(|error| failed(&error))?;
        let weights = checkpoint.weights;
        let mut summary = Self {
            folder,
            weights,
            card,
            steps: outcome.progress.step,
            reason: outcome.reason,
            evaluation: None,
            mistakes: None,
        };
        if let Some(val) = data.val.as_ref().filter(|val| !val.is_empty()) {
            let evaluation = evaluate(&scorer, val, BATCH).map_err(|error| failed(&error))?;
            let threshold = summary.card.threshold.unwrap_or(0.5);
            let mistakes = Mistakes::worst(val, &evaluation.scores, threshold, SHOWN);
            if !mistakes.is_empty() {
                let (sheet, path) = (mistakes.sheet(val, threshold), run.path().join("mistakes.png"));
                sheet.write(&path).map_err(|error| failed(&error))?;
                run.emit(image("eval/mistakes", outcome.progress.step, sheet));
                summary.mistakes = Some((path, mistakes));
            }
            summary.evaluation = Some(evaluation);
        }
        Ok(summary)
    }

    /// The best model for scripts that expect one file.
    pub(super) fn write_checkpoint(&self, path: &Path) -> Result<(), Failure> {
        let written = match path.extension().is_some_and(|kind| kind == "safetensors") {
            true => {
                self.weights.write_safetensors(path, &self.card.header()).map_err(|error| error.to_string())
            }
            false => {
                pyfiles::write_pt(path, &self.as_python(), Storages::Own).map_err(|error| error.to_string())
            }
        };
        let help = format!("the model is safe in {}", self.folder.display());
        written.map_err(|error| Failure::runtime(error, help))
    }

    /// As the earlier training script saved it, without the optimiser.
    fn as_python(&self) -> PyValue {
        let tensors = self.weights.iter();
        let tensors = tensors.map(|(name, tensor)| (name.into(), PyValue::Tensor(Arc::new(tensor.clone()))));
        let dict = PyDict::new(tensors.collect()).into_ordered(None);
        let measured = |value: Option<f64>| value.map_or(PyValue::None, PyValue::Float);
        PyValue::dict([
            ("step", PyValue::Int(self.card.step as i64)),
            ("model_state_dict", PyValue::Dict(Arc::new(dict))),
            ("val_loss", measured(self.evaluation.as_ref().map(|found| found.loss))),
            ("val_acc", measured(self.evaluation.as_ref().map(|found| found.accuracy))),
            ("threshold", measured(self.card.threshold)),
        ])
    }

    pub(super) fn json(&self) -> String {
        let model = self.folder.join("model.safetensors");
        let mut value = serde_json::json!({
            "model": model.display().to_string(),
            "step": self.card.step,
            "steps": self.steps,
            "stopped_early": self.reason == StopReason::NoImprovement,
            "metrics": self.card.metrics,
            "val_loss": self.evaluation.as_ref().map(|found| found.loss),
        });
        if let Some((path, mistakes)) = &self.mistakes {
            value["mistakes"] = serde_json::json!({
                "sheet": path.display().to_string(),
                "false_positives": mistakes.false_positives,
                "false_negatives": mistakes.false_negatives,
            });
        }
        format!("{value}\n")
    }

    pub(super) fn text(&self, also: Option<&Path>) -> String {
        let early = if self.reason == StopReason::NoImprovement { ", stopped early" } else { "" };
        let mut text = format!("best model: step {} of {}{early}\n", self.card.step, self.steps);
        if let Some(metrics) = &self.card.metrics {
            text.push_str(&measured(metrics));
        }
        let mut line = |name: &str, value: String| {
            let _ = writeln!(text, "{name:<12}{value}");
        };
        line("model", self.folder.join("model.safetensors").display().to_string());
        let torch = self.folder.join("actor/model_state_dict/full_weights.pt");
        line("for PyTorch", torch.display().to_string());
        if let Some(path) = also {
            line("and", path.display().to_string());
        }
        if let Some((path, mistakes)) = &self.mistakes {
            let [alarms, misses] = [&mistakes.false_positives, &mistakes.false_negatives].map(Vec::len);
            line("mistakes", format!("{} ({alarms} false alarms, {misses} misses)", path.display()));
        }
        line("next", format!("plaudit reward eval {} DATA", self.folder.display()));
        text
    }
}

/// Metrics as lines.
pub(super) fn measured(metrics: &Metrics) -> String {
    let some = |value: Option<f64>| value.map_or("-".into(), |value| format!("{value:.4}"));
    let Metrics { confusion, .. } = metrics;
    format!(
        "  frames       {} ({} successes)\n  AUC          {}\n  average precision {}\n  at threshold {:.4}: precision {}, \
         recall {}, F1 {}, accuracy {:.4}\n  right: {} successes, {} failures; wrong: {} false alarms, {} misses\n  \
         calibration error {:.4}, Brier {:.4}, log loss {:.4}\n",
        metrics.frames,
        metrics.successes,
        some(metrics.auc),
        some(metrics.average_precision),
        metrics.threshold,
        some(metrics.precision),
        some(metrics.recall),
        some(metrics.f1),
        metrics.accuracy,
        confusion.true_positives,
        confusion.true_negatives,
        confusion.false_positives,
        confusion.false_negatives,
        metrics.ece,
        metrics.brier,
        metrics.log_loss,
    )
}
