//! What a learner writes to go on later: tensors by name, and counts.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use plaudit_nn::Weights;
use plaudit_nn::weights::Array;

use crate::learner::LearnError;
use crate::naming::Misfit;
use crate::sight::Sight;

/// The file in a checkpoint's folder.
const FILE: &str = "learner.safetensors";

/// What tells one frozen trunk from another.
const TRUNK: &str = "trunk";

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

    /// Adds one tensor.
    pub fn tensor(&mut self, name: &str, values: Array) {
        self.tensors.insert(name, values);
    }

    /// Adds a count.
    pub fn count(&mut self, name: &str, count: u64) {
        self.counts.insert(name.into(), count.to_string());
    }

    /// Notes which frozen trunk a learner looks through: it is not in the checkpoint.
    pub fn trunk(&mut self, sight: Option<&Sight>) {
        if let Some(sight) = sight.filter(|sight| sight.trunk().is_some()) {
            self.count(TRUNK, sight.trunk_mark());
        }
    }

    /// Refuses a learner that looks through another frozen trunk.
    pub fn same_trunk(&self, sight: Option<&Sight>) -> Result<(), LearnError> {
        match sight.filter(|sight| sight.trunk().is_some()) {
            Some(sight) if self.counted(TRUNK)? != sight.trunk_mark() => {
                Err(self
                    .problem("it was learned above another frozen trunk; name the file it was begun with"))
            }
            _ => Ok(()),
        }
    }

    /// Writes what a learner needs into a folder.
    pub fn write(&self, folder: &Path) -> Result<(), LearnError> {
        self.write_as(&folder.join(FILE))
    }

    /// Writes it under a name of its own.
    pub fn write_as(&self, path: &Path) -> Result<(), LearnError> {
        let written = self.tensors.write_safetensors(path, &self.counts);
        written.map_err(|error| LearnError::Checkpoint { path: path.into(), problem: error.to_string() })
    }

    /// Reads what a learner wrote into a folder.
    pub fn read(folder: &Path) -> Result<Self, LearnError> {
        Self::read_from(&folder.join(FILE))
    }

    /// Reads a file.
    pub fn read_from(path: &Path) -> Result<Self, LearnError> {
        match Weights::read(path) {
            Ok(tensors) => Ok(Self { path: path.into(), counts: tensors.metadata().clone(), tensors }),
            Err(error) => Err(LearnError::Checkpoint { path: path.into(), problem: error.to_string() }),
        }
    }

    /// One tensor.
    pub fn array(&self, name: &str) -> Option<&Array> {
        self.tensors.get(name)
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

    /// What is wrong with this file.
    pub fn problem(&self, problem: impl Into<String>) -> LearnError {
        LearnError::Checkpoint { path: self.path.clone(), problem: problem.into() }
    }
}
