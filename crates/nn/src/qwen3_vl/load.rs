//! The weights of a Hugging Face folder: one safetensors file, or several with an index; quantised or not.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;

use indexmap::IndexMap;

use super::error::VlmError;
use super::quantized::{LayerTensors, QuantizedTensor, Scheme};
use crate::classifier::{Id, Mismatch, Spec};
use crate::weights::{Array, DType, Weights};

const SINGLE: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";

/// The tensors of a model by the network's names. Bytes stay on disk until they are used, and those of few bits are unpacked then.
#[derive(Clone, Debug, Default)]
pub(super) struct ModelWeights {
    tensors: IndexMap<String, ModelTensor>,
}

/// A tensor of a model.
#[derive(Clone, Debug)]
pub(super) enum ModelTensor {
    /// As it was stored.
    Plain(Array),
    /// The weights of an expert, out of those of all.
    Expert(ExpertTensor),
    /// Codes and scales of few bits.
    Quantized(QuantizedTensor),
}

impl ModelTensor {
    pub(super) fn shape(&self) -> &[usize] {
        match self {
            Self::Plain(array) => array.shape(),
            Self::Expert(expert) => &expert.shape,
            Self::Quantized(quantized) => quantized.shape(),
        }
    }

    /// Its numbers, if they are floats.
    pub(super) fn to_f32(&self) -> Option<Vec<f32>> {
        match self {
            Self::Plain(array) => array.to_f32(),
            Self::Expert(expert) => expert.to_f32(),
            Self::Quantized(quantized) => Some(quantized.to_f32()),
        }
    }
}

/// Some outputs of a matrix that has those of several layers.
#[derive(Clone, Debug)]
pub(super) struct ExpertTensor {
    stored: Array,
    /// Outputs and inputs.
    shape: [usize; 2],
    /// The first output.
    first: usize,
    /// Whether outputs are columns, and not rows.
    is_transposed: bool,
}

impl ExpertTensor {
    fn to_f32(&self) -> Option<Vec<f32>> {
        let ([outputs, inputs], columns) = (self.shape, self.stored.shape()[1]);
        let all = self.stored.to_f32()?;
        if !self.is_transposed {
            return Some(all[self.first * inputs..][..outputs * inputs].to_vec());
        }
        let column = |output: usize| (0..inputs).map(move |input| input * columns + self.first + output);
        Some((0..outputs).flat_map(column).map(|place| all[place]).collect())
    }
}

/// The experts of a tensor for all experts of a layer: `[experts, inputs, outputs]` as the hub has it, or `[experts, outputs, inputs]` as
/// transformers 5 saves what it made itself. `None` where it is no such tensor, or could be both.
fn split_experts(
    name: &str,
    tensor: &Array,
    specs: &HashMap<&str, &[usize]>,
) -> Option<Vec<(String, ModelTensor)>> {
    let (layer, part) = name.rsplit_once(".experts.")?;
    let [experts, rows, columns] = *tensor.shape() else { return None };
    let parts: &[&str] = match part {
        "gate_up_proj" => &["gate_proj", "up_proj"],
        "down_proj" => &["down_proj"],
        _ => return None,
    };
    let name = |expert: usize, part: &str| format!("{layer}.experts.{expert}.{part}.weight");
    let [outputs, inputs] = **specs.get(name(0, parts[0]).as_str())? else { return None };
    let all = outputs * parts.len();
    let is_transposed = match ([rows, columns] == [inputs, all], [rows, columns] == [all, inputs]) {
        (true, false) => true,
        (false, true) => false,
        _ => return None,
    };
    let of_expert = |expert: usize| {
        let stored = tensor.row(expert)?;
        let split = parts.iter().enumerate().map(move |(i, part)| {
            let (stored, first) = (stored.clone(), i * outputs);
            let tensor = ExpertTensor { stored, shape: [outputs, inputs], first, is_transposed };
            (name(expert, part), ModelTensor::Expert(tensor))
        });
        Some(split)
    };
    Some((0..experts).filter_map(of_expert).flatten().collect())
}

/// The network's name of a tensor. Older files of Qwen2.5-VL have the language model at the top.
pub(super) fn network_name(stored: &str) -> String {
    let is_of_text = ["layers.", "embed_tokens.", "norm."].iter().any(|start| stored.starts_with(start));
    if is_of_text { format!("language_model.{stored}") } else { stored.to_owned() }
}

impl ModelWeights {
    pub(super) fn get(&self, name: &str) -> Option<&ModelTensor> {
        self.tensors.get(name)
    }

    pub(super) fn insert(&mut self, name: impl Into<String>, tensor: ModelTensor) {
        self.tensors.insert(name.into(), tensor);
    }

    /// A parameter of weights that were checked.
    pub(super) fn of(&self, specs: &[Spec], id: Id) -> &ModelTensor {
        self.get(&specs[id.0].name).unwrap_or_else(|| unreachable!("weights were checked"))
    }

    /// Its numbers.
    pub(super) fn numbers(&self, specs: &[Spec], id: Id) -> Vec<f32> {
        self.of(specs, id).to_f32().unwrap_or_else(|| unreachable!("weights were checked"))
    }
}

/// Reads the weights of a folder for a network of these parameters, and checks that they are its weights.
pub(super) fn model_weights(folder: &Path, specs: &[Spec], tied: bool) -> Result<ModelWeights, VlmError> {
    let mut stored = Weights::new();
    for (name, tensor) in weights(folder)?.iter() {
        stored.insert(network_name(name), tensor.clone());
    }
    let file = folder.join("config.json");
    let text = std::fs::read(&file).map_err(|source| VlmError::File { file: file.clone(), source })?;
    let config = serde_json::from_slice(&text).unwrap_or_default();
    let mut all = ModelWeights::default();
    let mut layers = LayerTensors::new(folder, &stored);
    if let Some(scheme) = Scheme::parse(&file, &config)? {
        for spec in specs {
            if let Some(quantized) = layers.quantized(&scheme, &spec.name, &spec.shape)? {
                all.insert(&spec.name, ModelTensor::Quantized(quantized));
            }
        }
    }
    let shapes = specs.iter().map(|spec| (spec.name.as_str(), &spec.shape[..])).collect();
    for (name, tensor) in stored.iter().filter(|(name, _)| !layers.is_used(name)) {
        match split_experts(name, tensor, &shapes) {
            Some(experts) => experts.into_iter().for_each(|(name, tensor)| all.insert(name, tensor)),
            None => all.insert(name, ModelTensor::Plain(tensor.clone())),
        }
    }
    check(folder, specs, &all, tied)?;
    Ok(all)
}

/// Refuses files of llama.cpp, in place of a folder or in one without safetensors.
pub(super) fn refuse_gguf(path: &Path) -> Result<(), VlmError> {
    let is_gguf =
        |file: &Path| file.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("gguf"));
    let has_weights = [SINGLE, INDEX].iter().any(|name| path.join(name).is_file());
    let files = std::fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    let inside = || files.into_iter().find(|file| is_gguf(file)).filter(|_| !has_weights);
    let found = if is_gguf(path) { Some(path.to_owned()) } else { inside() };
    match found {
        None => Ok(()),
        Some(file) => Err(VlmError::Shard {
            file,
            problem: "GGUF is not read; open the model's folder of safetensors (FP8, AWQ, GPTQ and compressed-tensors are), \
                      or let llama.cpp serve it behind the OpenAI chat protocol"
                .into(),
        }),
    }
}

/// Reads all tensors of a folder.
fn weights(folder: &Path) -> Result<Weights, VlmError> {
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
fn check(folder: &Path, specs: &[Spec], weights: &ModelWeights, tied: bool) -> Result<(), VlmError> {
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
    let names: HashSet<&str> = specs.iter().map(|spec| spec.name.as_str()).collect();
    let known = |name: &str| names.contains(name) || (tied && name == "lm_head.weight");
    let unexpected = weights.tensors.keys().filter(|name| !known(name)).map(|name| full_name(name));
    let unexpected: Vec<String> = unexpected.collect();
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
fn refuse_other_numbers(folder: &Path, specs: &[Spec], weights: &ModelWeights) -> Result<(), VlmError> {
    for spec in specs {
        let kind = match weights.get(&spec.name) {
            Some(ModelTensor::Plain(stored)) => stored.dtype(),
            Some(ModelTensor::Expert(expert)) => expert.stored.dtype(),
            _ => continue,
        };
        if !matches!(kind, DType::F32 | DType::F16 | DType::Bf16 | DType::F64) {
            let name = full_name(&spec.name);
            let problem = format!(
                "`{name}` holds {kind:?}: the weights are quantised, and `quantization_config` of config.json does not say how \
                 (or they are no weights); open the folder of the same model in bf16, fp16 or fp32"
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
