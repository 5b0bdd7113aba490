//! What can go wrong with a classifier.

use plaudit_core::SyncError;

use crate::gpu::GpuError;
use crate::images::ImageError;
use crate::weights::WeightsError;

/// A classifier that cannot be built, loaded, trained or asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClassifierError {
    /// A setting that names no network.
    #[error("{key}: {why}")]
    Setting {
        /// The setting.
        key: &'static str,
        /// What is wrong with it.
        why: String,
    },
    /// Weights of another network.
    #[error("the checkpoint does not fit the model: {0}")]
    Mismatch(Mismatch),
    /// Images the network cannot take.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// A checkpoint that cannot be read.
    #[error(transparent)]
    Weights(#[from] WeightsError),
    /// Labels or weights of another number than images, or values that are no labels.
    #[error("{what}")]
    Labels {
        /// What is wrong.
        what: String,
    },
    /// Something that is only done on the CPU.
    #[error("{what} is done on the CPU alone")]
    OnlyOnCpu {
        /// What was asked for.
        what: &'static str,
    },
    /// The GPU is not there, or refuses.
    #[error(transparent)]
    Gpu(#[from] GpuError),
    /// The ranks of a training no longer train together.
    #[error(transparent)]
    Ranks(#[from] SyncError),
    /// A model of another making failed, which was asked in the place of a classifier.
    #[error(transparent)]
    Custom(Box<dyn std::error::Error + Send + Sync>),
}

impl ClassifierError {
    /// Whether it is the device that is missing or refuses, not the model.
    #[must_use]
    pub fn is_device_error(&self) -> bool {
        matches!(self, Self::Gpu(_) | Self::OnlyOnCpu { .. })
    }
}

/// How a checkpoint and a model differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// Tensors of other shapes: name, shape in the checkpoint, shape in the model.
    pub shapes: Vec<(String, Vec<usize>, Vec<usize>)>,
    /// Tensors the model has and the checkpoint lacks.
    pub missing: Vec<String>,
    /// Tensors the checkpoint has and the model lacks.
    pub unexpected: Vec<String>,
    /// What to change.
    pub hints: Vec<String>,
}

/// Names beyond these are counted, not listed.
const LISTED: usize = 5;

impl std::fmt::Display for Mismatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut parts = Vec::new();
        let shape =
            |(name, found, wanted): &(_, _, _)| format!("`{name}` is {found:?}, the model has {wanted:?}");
        parts.extend(listed(&self.shapes.iter().map(shape).collect::<Vec<_>>(), "; "));
        let names = |names: &[String]| {
            listed(&names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>(), ", ")
        };
        parts.extend(names(&self.missing).map(|names| format!("not in the checkpoint: {names}")));
        parts.extend(names(&self.unexpected).map(|names| format!("not in the model: {names}")));
        parts.extend(self.hints.iter().cloned());
        f.write_str(&parts.join(". "))
    }
}

fn listed(items: &[String], separator: &str) -> Option<String> {
    let shown = items.iter().take(LISTED).cloned().collect::<Vec<_>>().join(separator);
    let more = items.len().saturating_sub(LISTED);
    match (items.len(), more) {
        (0, _) => None,
        (_, 0) => Some(shown),
        _ => Some(format!("{shown} and {more} more")),
    }
}
