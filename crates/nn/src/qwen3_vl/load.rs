//! The weights of a Hugging Face folder: one safetensors file, or several with an index.

use std::collections::BTreeMap;
use std::path::Path;

use super::error::VlmError;
use crate::classifier::{Mismatch, Spec};
use crate::weights::{DType, Weights};

const SINGLE: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";

/// Reads all weights of a folder. Bytes stay on disk until they are used.
pub(super) fn weights(folder: &Path) -> Result<Weights, VlmError> {
    let (single, index) = (folder.join(SINGLE), folder.join(INDEX));
    if !index.is_file() {
        if !single.is_file() {
            let problem = format!("is not there, nor {INDEX}; a model's folder has one of them");
            return Err(VlmError::Shard { file: single, problem });
        }
        return Ok(Weights::read(&single)?);
    }
    let mut all = Weights::new();
    for (shard, names) in shards(&index)? {
        let file = folder.join(&shard);
        if !file.is_file() {
            let problem = format!("is named by {INDEX} and not there; was the download complete?");
            return Err(VlmError::Shard { file, problem });
        }
        let stored = Weights::read(&file)?;
        for name in names {
            let plain = name.strip_prefix("model.").unwrap_or(&name);
            let Some(tensor) = stored.get(plain) else {
                let problem = format!("has no tensor `{name}`, which {INDEX} says is in it");
                return Err(VlmError::Shard { file, problem });
            };
            all.insert(plain, tensor.clone());
        }
    }
    Ok(all)
}

/// The files an index names, and the tensors in each.
fn shards(index: &Path) -> Result<BTreeMap<String, Vec<String>>, VlmError> {
    let text =
        std::fs::read_to_string(index).map_err(|source| VlmError::File { file: index.to_owned(), source })?;
    let wrong = |problem: String| VlmError::Config { file: index.to_owned(), problem };
    let value: serde_json::Value =
        serde_json::from_str(&text).map_err(|error| wrong(format!("no JSON: {error}")))?;
    let map = value.get("weight_map").and_then(|map| map.as_object());
    let map = map.ok_or_else(|| wrong("has no `weight_map`".into()))?;
    let mut shards: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, shard) in map {
        let shard = shard.as_str().filter(|shard| !shard.contains(['/', '\\']));
        let shard = shard.ok_or_else(|| wrong(format!("`{name}` is in no file of this folder")))?;
        shards.entry(shard.to_owned()).or_default().push(name.clone());
    }
    Ok(shards)
}

/// Compares weights with what the network wants. A tied head that was stored all the same is no fault.
pub(super) fn check(folder: &Path, specs: &[Spec], weights: &Weights, tied: bool) -> Result<(), VlmError> {
    let (mut shapes, mut missing) = (Vec::new(), Vec::new());
    for spec in specs {
        match weights.get(&spec.name) {
            None => missing.push(full_name(&spec.name)),
            Some(stored) if stored.shape() != spec.shape => {
                shapes.push((full_name(&spec.name), stored.shape().to_vec(), spec.shape.clone()));
            }
            Some(_) => {}
        }
    }
    refuse_other_numbers(folder, specs, weights)?;
    let known = |name: &str| specs.iter().any(|spec| spec.name == name) || (tied && name == "lm_head.weight");
    let unexpected: Vec<String> = weights.names().filter(|name| !known(name)).map(full_name).collect();
    if shapes.is_empty() && missing.is_empty() && unexpected.is_empty() {
        return Ok(());
    }
    let mut hints = Vec::new();
    if !tied && missing == ["lm_head.weight"] {
        hints.push("Is `tie_word_embeddings` of config.json meant to be true?".to_owned());
    }
    let mismatch = Mismatch { shapes, missing, unexpected, hints };
    Err(VlmError::Mismatch { folder: folder.to_owned(), mismatch })
}

/// Integers and floats of eight bits mean nothing without the scales of a quantisation.
fn refuse_other_numbers(folder: &Path, specs: &[Spec], weights: &Weights) -> Result<(), VlmError> {
    for spec in specs {
        let Some(stored) = weights.get(&spec.name) else { continue };
        let kind = stored.dtype();
        if !matches!(kind, DType::F32 | DType::F16 | DType::Bf16 | DType::F64) {
            let name = full_name(&spec.name);
            let problem = format!(
                "`{name}` holds {kind:?}: the weights are quantised, or no weights; open the folder of the same model in \
                 bf16, fp16 or fp32"
            );
            return Err(VlmError::Shard { file: folder.to_owned(), problem });
        }
    }
    Ok(())
}

/// A parameter's name in Hugging Face's files.
pub(super) fn full_name(name: &str) -> String {
    if name.starts_with("lm_head") { name.to_owned() } else { format!("model.{name}") }
}
