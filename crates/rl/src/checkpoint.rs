//! What a learner writes to go on later: tensors by name, and counts.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use plaudit_nn::Weights;
use plaudit_nn::weights::Array;

use crate::learner::LearnError;
use crate::naming::WeightsMismatch;
use crate::vision_encoder::VisionEncoder;

/// The file in a checkpoint's folder.
const FILE: &str = "learner.safetensors";

/// What distinguishes one frozen trunk from another.
const TRUNK: &str = "trunk";

/// Tensors and counts of a learner, in memory or in one safetensors file.
#[derive(Debug, Clone, Default)]
pub struct Checkpoint {
    path: PathBuf,
    tensors: Weights,
    counts: BTreeMap<String, String>,
}

impl Checkpoint {
    /// An empty one whose problems name this file.
    pub fn for_file(path: PathBuf) -> Self {
        Self { path, ..Self::default() }
    }

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

    /// Stores the hash of the frozen trunk of a learner: the trunk is not in the checkpoint.
    pub fn trunk(&mut self, vision_encoder: Option<&VisionEncoder>) {
        if let Some(vision_encoder) = vision_encoder.filter(|vision_encoder| vision_encoder.trunk().is_some())
        {
            self.count(TRUNK, vision_encoder.trunk_hash());
        }
    }

    /// Refuses a learner with another frozen trunk.
    pub fn same_trunk(&self, vision_encoder: Option<&VisionEncoder>) -> Result<(), LearnError> {
        match vision_encoder.filter(|vision_encoder| vision_encoder.trunk().is_some()) {
            Some(vision_encoder) if self.counted(TRUNK)? != vision_encoder.trunk_hash() => {
                Err(self
                    .problem("it was trained above another frozen trunk; name the file it was started with"))
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
        let tensors = Weights::read(path)?;
        Ok(Self { path: path.into(), counts: tensors.metadata().clone(), tensors })
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

    /// Tensors of another shape, as a problem with this checkpoint.
    pub fn mismatch(&self, mismatch: WeightsMismatch) -> LearnError {
        self.problem(format!("{mismatch}; it was written by another network"))
    }

    /// What is wrong with this file.
    pub fn problem(&self, problem: impl Into<String>) -> LearnError {
        LearnError::Checkpoint { path: self.path.clone(), problem: problem.into() }
    }
}
