//! Adapters: what they add to a model's layers, and which of its tensors they replace.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::config::Config;
use super::error::VlmError;
use super::load::{ModelTensor, ModelWeights, full_name};
use super::network::{Linear, Network};
use crate::classifier::Spec;
use crate::weights::{Array, Weights};

/// The table of tokens.
const EMBEDDINGS: &str = "language_model.embed_tokens.weight";

/// What adapters add to linear layers: `scale * B (A x)`, by the layer's name, and the tensors that they bring along.
#[derive(Clone, Debug, PartialEq)]
pub struct Adapter {
    /// Where it was read, for messages.
    pub(super) source: PathBuf,
    pub(super) layers: BTreeMap<String, LoraWeights>,
    /// What is added to the table of tokens, `scale * (B A)` transposed: `down` is `[rank, tokens]`, `up` `[width, rank]`.
    pub(super) embeddings: Option<LoraWeights>,
    /// Tensors of the model that are replaced, by the network's names: biases, whole modules, a checkpoint's base.
    pub(super) replaced: BTreeMap<String, Array>,
}

/// The adapter of one layer.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct LoraWeights {
    pub(super) rank: usize,
    pub(super) scale: f64,
    /// `[rank, inputs]`
    pub(super) down: Vec<f32>,
    /// `[outputs, rank]`
    pub(super) up: Vec<f32>,
    /// Shapes of the two in files.
    pub(super) shapes: [Vec<usize>; 2],
    /// DoRA: the norm that each row of the merged weights is brought to.
    pub(super) magnitude: Option<Vec<f32>>,
}

pub(super) const CONFIG: &str = "adapter_config.json";
pub(super) const WEIGHTS: &str = "adapter_model.safetensors";
pub(super) const PREFIX: &str = "base_model.model.";

impl Adapter {
    /// Low-rank matrices of layers alone.
    pub(super) fn of_layers(source: PathBuf, layers: BTreeMap<String, LoraWeights>) -> Self {
        Self { source, layers, embeddings: None, replaced: BTreeMap::new() }
    }

    /// How many layers it changes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.layers.len()
    }

    /// Whether it changes no layer; it may still replace tensors.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.layers.is_empty()
    }

    fn wrong(&self, problem: String) -> VlmError {
        VlmError::Adapter { file: self.source.clone(), problem }
    }

    /// Refuses what cannot be trained further: only low-rank matrices of layers can. Tensors of the base that come along must be
    /// those that are there (`own`, by the network's names).
    pub(super) fn check_plain(&self, own: &dyn Fn(&str) -> Option<Vec<f32>>) -> Result<(), VlmError> {
        let magnitude =
            self.layers.iter().find(|(_, lora)| lora.magnitude.is_some()).map(|(name, _)| name.as_str());
        let replaced = || {
            let other = self.replaced.iter().find(|(name, tensor)| own(name) != tensor.to_f32());
            other.map(|(name, _)| name.as_str())
        };
        let odd = magnitude.or(self.embeddings.as_ref().map(|_| EMBEDDINGS)).or_else(replaced);
        match odd.map(full_name) {
            Some(name) => Err(self.wrong(format!(
                "changes `{name}` by more than low-rank matrices, which cannot be trained further"
            ))),
            None => Ok(()),
        }
    }

    /// The model's tensors with what the adapter replaces, and with its embeddings in them; layers are merged when they are
    /// loaded. A head that is tied to embeddings which change becomes one of its own: it stays what it was, as in peft.
    pub(super) fn apply(
        &self,
        config: &mut Config,
        specs: &[Spec],
        weights: &mut ModelWeights,
    ) -> Result<(), VlmError> {
        const HEAD: &str = "lm_head.weight";
        for (name, tensor) in &self.replaced {
            let full = full_name(name);
            if name == HEAD && config.tied {
                self.check_tied_head(tensor, weights)?;
                continue;
            }
            let Some(spec) = specs.iter().find(|spec| spec.name == *name) else {
                return Err(self.wrong(format!(
                    "has `{full}`, which this model does not have; was it trained on another?"
                )));
            };
            if tensor.shape() != spec.shape {
                let problem = format!(
                    "`{full}` is {:?}, here {:?}; was it trained on another model?",
                    tensor.shape(),
                    spec.shape
                );
                return Err(self.wrong(problem));
            }
            if tensor.to_f32().is_none() {
                return Err(self.wrong(format!("`{full}` holds {:?}, and no floats", tensor.dtype())));
            }
            let is_same = || weights.get(name).is_some_and(|own| own.to_f32() == tensor.to_f32());
            if name == EMBEDDINGS && config.tied && !self.replaced.contains_key(HEAD) && !is_same() {
                let problem = format!(
                    "replaces `{full}`, to which the head is tied, and does not say what the head is to be"
                );
                return Err(self.wrong(problem));
            }
            weights.insert(name.as_str(), ModelTensor::Plain(tensor.clone()));
        }
        let Some(lora) = &self.embeddings else { return Ok(()) };
        let (tokens, width) = (config.text.vocab, config.text.width);
        if (lora.down.len(), lora.up.len()) != (lora.rank * tokens, width * lora.rank) {
            let full = full_name(EMBEDDINGS);
            return Err(self.wrong(format!(
                "`{full}` is not of {tokens} tokens and width {width}; was it trained on another model?"
            )));
        }
        let Some(base) = weights.get(EMBEDDINGS).cloned() else { return Ok(()) };
        let mut table = base.to_f32().unwrap_or_default();
        for (token, row) in table.chunks_exact_mut(width).enumerate() {
            for (number, up) in row.iter_mut().zip(lora.up.chunks_exact(lora.rank)) {
                let sum: f32 = (0..lora.rank).map(|k| up[k] * lora.down[k * tokens + token]).sum();
                *number += sum * lora.scale as f32;
            }
        }
        if config.tied {
            config.tied = false;
            weights.insert(HEAD, base);
        }
        let table = Array::from_slice(&[tokens, width], &table);
        let table = table.unwrap_or_else(|_| unreachable!("a number for each token and feature"));
        weights.insert(EMBEDDINGS, ModelTensor::Plain(table));
        Ok(())
    }

    /// A checkpoint has a tied head twice; both must be the same.
    fn check_tied_head(&self, head: &Array, weights: &ModelWeights) -> Result<(), VlmError> {
        let replaced = self.replaced.get(EMBEDDINGS).map(Array::to_f32);
        let table = replaced.or_else(|| weights.get(EMBEDDINGS).map(ModelTensor::to_f32));
        if table.is_some_and(|table| table == head.to_f32()) {
            return Ok(());
        }
        let problem = "has a `lm_head.weight` other than the embeddings, to which config.json ties it (`tie_word_embeddings`)";
        Err(self.wrong(problem.into()))
    }

    /// Whether every layer is one of the network's, of its sizes.
    pub(super) fn check(&self, network: &Network) -> Result<(), VlmError> {
        let linears = network.all_linears();
        let wrong = |problem| Err(self.wrong(problem));
        for (name, lora) in &self.layers {
            let full = full_name(name);
            let Some(linear) = linears.iter().find(|linear| linear.name == *name) else {
                return wrong(format!(
                    "changes `{full}`, which this model does not have; was it trained on another?"
                ));
            };
            let (inputs, outputs) = (lora.down.len() / lora.rank, lora.up.len() / lora.rank);
            if (inputs, outputs) != (linear.inputs, linear.outputs) {
                let own = format!("{} to {}", linear.inputs, linear.outputs);
                return wrong(format!(
                    "`{full}` goes from {inputs} to {outputs} features, here from {own}; was it trained on another model?"
                ));
            }
            if let Some(magnitude) = &lora.magnitude
                && magnitude.len() != outputs
            {
                let count = magnitude.len();
                return wrong(format!("`{full}` has {count} magnitudes (DoRA) for {outputs} outputs"));
            }
        }
        Ok(())
    }

    /// Saves it as the peft package does: `adapter_config.json` and `adapter_model.safetensors`.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn save(&self, folder: impl AsRef<Path>, base_model: Option<&str>) -> Result<(), VlmError> {
        let folder = folder.as_ref();
        let failed = |file: PathBuf| move |source| VlmError::File { file, source };
        std::fs::create_dir_all(folder).map_err(failed(folder.to_owned()))?;
        let mut weights = Weights::new();
        for (name, lora) in &self.layers {
            let [down, up] = peft_names(name);
            weights.insert_f32(down, &lora.shapes[0], &lora.down);
            weights.insert_f32(up, &lora.shapes[1], &lora.up);
        }
        weights.write_safetensors(folder.join(WEIGHTS), &[("format".into(), "pt".into())].into())?;
        let config = serde_json::to_string_pretty(&self.peft_config(base_model)).unwrap_or_default();
        std::fs::write(folder.join(CONFIG), config).map_err(failed(folder.join(CONFIG)))
    }

    fn peft_config(&self, base_model: Option<&str>) -> Value {
        let rank = self.layers.values().next().map_or(0, |lora| lora.rank);
        let scale = self.layers.values().next().map_or(1.0, |lora| lora.scale);
        // Whole names: what is listed is exactly what is in the file.
        let targets: Vec<String> = self.layers.keys().map(|name| full_name(name)).collect();
        json!({
            "peft_type": "LORA",
            "task_type": null,
            "base_model_name_or_path": base_model,
            "r": rank,
            "lora_alpha": scale * rank as f64,
            "lora_dropout": 0.0,
            "bias": "none",
            "fan_in_fan_out": false,
            "inference_mode": true,
            "init_lora_weights": "gaussian",
            "modules_to_save": null,
            "target_modules": targets,
        })
    }
}

/// Names of the two matrices of a layer in the peft package's files.
pub(super) fn peft_names(layer: &str) -> [String; 2] {
    ["lora_A", "lora_B"].map(|matrix| format!("{PREFIX}{}.{matrix}.weight", full_name(layer)))
}

/// Shapes of the two matrices for weights of this shape. Those of patches are a convolution in other programs.
pub(super) fn shapes(weight: &[usize], rank: usize) -> [Vec<usize>; 2] {
    let (outputs, inputs) = (weight[0], &weight[1..]);
    let down = std::iter::once(rank).chain(inputs.iter().copied()).collect();
    let up = [outputs, rank].into_iter().chain(std::iter::repeat_n(1, inputs.len() - 1)).collect();
    [down, up]
}

impl LoraWeights {
    /// A layer's weights `[outputs, inputs]` with the adapter in them.
    pub(super) fn merge_into(&self, weights: &mut [f32], layer: &Linear) {
        use rayon::prelude::*;
        let inputs = layer.inputs;
        weights.par_chunks_exact_mut(inputs).zip(self.up.par_chunks_exact(self.rank)).for_each(
            |(row, up)| {
                for (factor, down) in up.iter().zip(self.down.chunks_exact(inputs)) {
                    let factor = factor * self.scale as f32;
                    row.iter_mut().zip(down).for_each(|(weight, down)| *weight += factor * down);
                }
            },
        );
        if let Some(magnitude) = &self.magnitude {
            weights.par_chunks_exact_mut(inputs).zip(magnitude).for_each(|(row, magnitude)| {
                let norm = row.iter().map(|weight| f64::from(*weight).powi(2)).sum::<f64>().sqrt();
                let factor = (f64::from(*magnitude) / norm) as f32;
                row.iter_mut().for_each(|weight| *weight *= factor);
            });
        }
    }
}
