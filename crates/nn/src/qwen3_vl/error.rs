//! What can go wrong with a vision-language model.

use std::path::PathBuf;

use crate::classifier::{ClassifierError, Mismatch};
use crate::weights::WeightsError;

/// A model that cannot be opened, asked or trained.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VlmError {
    /// The folder lacks a file.
    #[error("{}: cannot be read ({source}); a Qwen-VL folder has config.json, tokenizer.json and *.safetensors, as \
             saved by `save_pretrained`", file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A JSON file that is no JSON, or says something this code cannot do.
    #[error("{}: {problem}", file.display())]
    Config {
        /// The file.
        file: PathBuf,
        /// What is wrong, and what to do.
        problem: String,
    },
    /// A weight file of the index is not there, or lacks what the index promises.
    #[error("{}: {problem}", file.display())]
    Shard {
        /// The file.
        file: PathBuf,
        /// What is wrong, and what to do.
        problem: String,
    },
    /// Weights of another network.
    #[error("{}: the weights do not fit config.json: {mismatch}", folder.display())]
    Mismatch {
        /// The folder of the model.
        folder: PathBuf,
        /// How they differ.
        mismatch: Mismatch,
    },
    /// A weight file that cannot be read.
    #[error(transparent)]
    Weights(#[from] WeightsError),
    /// The device is not there.
    #[error(transparent)]
    Device(#[from] ClassifierError),
    /// The GPU is not there, or refuses.
    #[error(transparent)]
    Gpu(#[from] crate::gpu::GpuError),
    /// The ranks that train together no longer do.
    #[error(transparent)]
    Sync(#[from] plaudit_core::SyncError),
    /// An adapter for other layers or another rank.
    #[error("{}: {problem}", file.display())]
    Adapter {
        /// The adapter's file.
        file: PathBuf,
        /// What does not fit, and what to do.
        problem: String,
    },
    /// Images, videos or texts the model cannot take.
    #[error("{0}")]
    Input(String),
    /// A question that goes beyond the positions that the model knows.
    #[error(
        "the question takes {positions} positions, and the model knows {most} (`max_position_embeddings`)"
    )]
    TooLong {
        /// What it takes.
        positions: usize,
        /// What there are.
        most: usize,
    },
}

impl VlmError {
    /// Whether it is the device that is missing or refuses, not the model.
    #[must_use]
    pub fn is_device_error(&self) -> bool {
        matches!(self, Self::Device(_) | Self::Gpu(_))
    }
}
