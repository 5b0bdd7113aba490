//! `plaudit reward`: a classifier learns to tell success from failure, and is measured.

mod data;
mod eval;
mod older;
mod summary;
mod train;

use clap::Subcommand;

use crate::cli::Volume;
use crate::failure::Failure;

/// Train an image reward model, and measure one
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Train a classifier of images to tell success from failure
    Train(Box<train::Train>),
    /// Measure a reward model on labelled frames
    Eval(eval::Eval),
}

impl Command {
    /// Does it.
    pub fn run(self, volume: Volume) -> Result<(), Failure> {
        match self {
            Self::Train(train) => train.run(volume),
            Self::Eval(eval) => eval.run(volume),
        }
    }
}
