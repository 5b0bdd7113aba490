//! `plaudit reward`: a model learns to tell success from failure, or progress from regress, and is measured and audited.

mod audit;
mod checkpoint;
mod data;
mod eval;
mod export;
mod label;
mod legacy_flags;
mod model_card;
mod second_model;
mod sft;
mod summary;
mod train;
mod training_run;
mod warm_start;
mod windows;

use clap::Subcommand;

pub(super) use audit::{calibration_chart, scores_chart};
pub(super) use checkpoint::{PreparationArgs, no_gpu, probability, unopened};
pub(super) use data::as_failure;

use crate::cli::Verbosity;
use crate::failure::Failure;

/// Train a reward model, measure it, and find out whether it can be trusted
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Train a classifier of images to tell success from failure
    Train(Box<train::Train>),
    /// Tune a vision-language model to judge whether windows of frames show progress
    Sft(sft::Sft),
    /// Measure a reward model on labelled frames or windows
    Eval(Box<eval::Eval>),
    /// Label the frames that a model is unsure about, until it is wrong rarely enough
    Label(Box<label::LabelCommand>),
    /// Write a reward model for other programs: ONNX, or a folder in Hugging Face's layout
    Export(Box<export::Export>),
    /// Find out whether a reward model can be trusted: a page, JSON, and an exit code
    Audit(Box<audit::AuditCommand>),
}

impl Command {
    /// Does it.
    pub fn run(self, verbosity: Verbosity) -> Result<(), Failure> {
        match self {
            Self::Train(train) => train.run(verbosity),
            Self::Sft(sft) => sft.run(verbosity),
            Self::Eval(eval) => eval.run(verbosity),
            Self::Label(label) => label.run(verbosity),
            Self::Export(export) => export.run(verbosity),
            Self::Audit(audit) => audit.run(verbosity),
        }
    }
}
