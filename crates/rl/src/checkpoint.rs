//! What a learner writes to go on later: tensors by name, and counts.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use plaudit_nn::Weights;

use crate::learner::LearnError;
use crate::naming::Misfit;

/// The file in a checkpoint's folder.
const FILE: &str = "learner.safetensors";

/// Tensors and counts of a learner, in memory or in one safetensors file.
#[derive(Debug, Clone, Default)]
pub struct Checkpoint {
    path: PathBuf,
    tensors: Weights,
    counts: BTreeMap<String, String>,
}

impl Checkpoint {
    /// Adds tensors under a name.
    pub fn tensors(&mut self, name: &str, tensors: Weights) {
        for (tensor, values) in tensors.iter() {
            self.tensors.insert(format!("{name}/{tensor}"), values.clone());
        }
    }

    /// Adds a count.
    pub fn count(&mut self, name: &str, count: u64) {
        self.counts.insert(name.into(), count.to_string());
    }

    /// Writes it.
    pub fn write(&self, folder: &Path) -> Result<(), LearnError> {
        let path = folder.join(FILE);
        let written = self.tensors.write_safetensors(&path, &self.counts);
        written.map_err(|error| LearnError::Checkpoint { path, problem: error.to_string() })
    }

    /// Reads it.
    pub fn read(folder: &Path) -> Result<Self, LearnError> {
        let path = folder.join(FILE);
        match Weights::read(&path) {
            Ok(tensors) => Ok(Self { path, counts: tensors.metadata().clone(), tensors }),
            Err(error) => Err(LearnError::Checkpoint { path, problem: error.to_string() }),
        }
    }

    /// The tensors under a name.
    pub fn under(&self, name: &str) -> Weights {
        self.tensors.under(&format!("{name}/"))
    }

    /// A count.
    pub fn counted(&self, name: &str) -> Result<u64, LearnError> {
        let missing =
            || self.problem(format!("there is no count `{name}`; it was written by another learner"));
        self.counts.get(name).and_then(|count| count.parse().ok()).ok_or_else(missing)
    }

    /// Tensors of another shape, told as a problem with this checkpoint.
    pub fn misfit(&self, misfit: Misfit) -> LearnError {
        self.problem(format!("{misfit}; it was written by another network"))
    }

    fn problem(&self, problem: String) -> LearnError {
        LearnError::Checkpoint { path: self.path.clone(), problem }
    }
}
