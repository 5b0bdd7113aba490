//! State dicts in torch's files, plain or inside the checkpoint of a training script.

use std::path::Path;
use std::sync::Arc;

use indexmap::IndexMap;

use plaudit_pyfiles::{self as pyfiles, Array, PyDict, PyValue, Storages, WriteError};

use super::{Weights, WeightsError};

/// Where training scripts put the state dict in their checkpoints.
const WRAPPERS: [&str; 3] = ["model_state_dict", "state_dict", "model"];

pub(super) fn read(file: &Path) -> Result<Weights, WeightsError> {
    let value = pyfiles::read(file)?;
    let Some(dict) = state_dict(&value) else {
        return Err(WeightsError::NoTensors { file: file.to_owned(), found: describe(&value) });
    };
    let tensors = dict
        .iter()
        .filter_map(|(name, tensor)| Some((name.as_str()?.to_owned(), tensor.as_array()?.clone())));
    Ok(Weights { tensors: tensors.collect(), ..Weights::new() })
}

/// The dict that holds tensors: the value itself, or what a wrapper holds, however often it is wrapped.
fn state_dict(value: &PyValue) -> Option<&PyDict> {
    let dict = value.as_dict()?;
    let inside = WRAPPERS.iter().find_map(|wrapper| state_dict(dict.get(wrapper)?));
    let has_tensors =
        || dict.iter().any(|(_, entry)| matches!(entry, PyValue::Tensor(_) | PyValue::Array(_)));
    inside.or_else(|| has_tensors().then_some(dict))
}

fn describe(value: &PyValue) -> String {
    let Some(dict) = value.as_dict() else { return value.kind().to_owned() };
    let keys: Vec<&str> = dict.iter().filter_map(|(key, _)| key.as_str()).take(8).collect();
    format!("a dict with the keys {}", keys.join(", "))
}

pub(super) fn write(path: &Path, tensors: &IndexMap<String, Array>) -> Result<(), WriteError> {
    let entries = tensors
        .iter()
        .map(|(name, tensor)| (PyValue::from(name.as_str()), PyValue::Tensor(Arc::new(tensor.clone()))));
    let dict = PyDict::new(entries.collect()).into_ordered(None);
    pyfiles::write_pt(path, &PyValue::Dict(Arc::new(dict)), Storages::Own)
}
