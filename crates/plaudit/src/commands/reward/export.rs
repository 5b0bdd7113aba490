//! `plaudit reward export`: a reward model for other programs, as ONNX or as a folder in Hugging Face's
//! layout.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use plaudit_nn::classifier::Device;
use plaudit_reward::card::ModelCard;
use plaudit_reward::onnx::{self, OnnxError};
use plaudit_reward::open::{ClassifierCheckpoint, ModelLocation};

use super::checkpoint::{PreparationArgs, only_served, unopened};
use super::model_card;
use crate::cli::Verbosity;
use crate::console;
use crate::device::DeviceChoice;
use crate::failure::Failure;
use crate::output;

/// Write a reward model for other programs
///
/// `onnx` is one file that scores images in any ONNX runtime: preprocessing is inside, so that its inputs are
/// bytes of RGB images of any size, one input for each camera. `huggingface` is a folder with safetensors,
/// config.json and a model card made from what training and audit found.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plaudit reward export reward_model --format onnx \\
      --output reward.onnx
  plaudit reward export reward_model --format huggingface \\
      --output reward-hf")]
pub struct Export {
    /// A run, a checkpoint folder or a file
    #[arg(value_name = "MODEL")]
    model: PathBuf,
    /// What to write
    #[arg(long, value_enum)]
    format: ExportFormat,
    /// The file (onnx) or the folder (huggingface)
    #[arg(long, short, value_name = "PATH")]
    output: PathBuf,
    #[command(flatten)]
    preparation: PreparationArgs,
}

/// What a model is written as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ExportFormat {
    /// One ONNX file, preprocessing inside
    Onnx,
    /// A folder with safetensors, config.json and a model card
    Huggingface,
}

impl Export {
    /// Does it.
    pub fn run(self, verbosity: Verbosity) -> Result<(), Failure> {
        refuse_other_kinds(&self.model)?;
        let opened = self.preparation.open(&self.model, DeviceChoice::Cpu, verbosity)?;
        debug_assert_eq!(opened.device, Device::Cpu);
        let checkpoint = ClassifierCheckpoint::read(&self.model).map_err(unopened)?;
        // What the checkpoint left open, the network has filled in.
        let card = ModelCard { settings: opened.scorer.settings().clone(), ..opened.card };
        match self.format {
            ExportFormat::Onnx => {
                let bytes = onnx::to_onnx(&card, &checkpoint.weights)
                    .map_err(|error| not_exported(&opened.file, &error))?;
                output::write("--output", &self.output, &bytes)?;
            }
            ExportFormat::Huggingface => self.folder(&card, &checkpoint)?,
        }
        console::print(&format!("{}\n", self.output.display()))
    }

    fn folder(&self, card: &ModelCard, checkpoint: &ClassifierCheckpoint) -> Result<(), Failure> {
        output::make_folder("--output", &self.output)?;
        let name = self.output.file_name().map_or("reward-model".into(), |name| name.to_string_lossy());
        let file = self.output.join("model.safetensors");
        let written = checkpoint.weights.write_safetensors(&file, &card.header());
        written.map_err(|error| Failure::runtime(error, None))?;
        let config = serde_json::to_string_pretty(&model_card::config(card))
            .map_err(|error| Failure::runtime(error, None))?;
        output::write("--output", &self.output.join("config.json"), config.as_bytes())?;
        let readme = model_card::readme(&name, card);
        output::write("--output", &self.output.join("README.md"), readme.as_bytes())
    }
}

/// Models that are no image classifiers are named.
fn refuse_other_kinds(path: &Path) -> Result<(), Failure> {
    match ModelLocation::find(path, None) {
        Ok(ModelLocation::Classifier(_)) => Ok(()),
        Ok(ModelLocation::Custom(location)) => {
            let message = format!("{location} is {}, and none of plaudit's own", location.kind());
            Err(Failure::usage(message, "only models that plaudit trained are exported".to_string()))
        }
        Ok(ModelLocation::Server(address)) => Err(only_served(&address)),
        Ok(ModelLocation::VisionLanguage(_)) => {
            let message = format!("{} is a vision-language model", path.display());
            let help =
                "image classifiers and models of progress are exported; its folder is Hugging Face's already";
            Err(Failure::usage(message, help.to_string()))
        }
        Err(error) => Err(unopened(error.into())),
    }
}

fn not_exported(file: &Path, error: &OnnxError) -> Failure {
    let help = match error {
        OnnxError::Missing { .. } => "the file is of another architecture, or its card was changed",
        OnnxError::TooLarge { .. } => "export it with --format huggingface",
    };
    Failure::usage(format!("{}: {error}", file.display()), help.to_string())
}
