//! Low-rank adapters on disk: the peft package's folders, and what RLinf saves.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::error::VlmError;
use super::load::full_name;
use super::network::{Linear, Network};
use crate::weights::Weights;

/// What adapters add to linear layers: `scale * B (A x)`, by the layer's name.
#[derive(Clone, Debug, PartialEq)]
pub struct Adapter {
    /// Where it was read, for messages.
    pub(super) source: PathBuf,
    pub(super) layers: BTreeMap<String, LoraWeights>,
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
}

const CONFIG: &str = "adapter_config.json";
const WEIGHTS: &str = "adapter_model.safetensors";
const PREFIX: &str = "base_model.model.";

impl Adapter {
    /// Reads an adapter: a folder that the peft package saved, or a checkpoint of RLinf's fine-tuning (a
    /// `full_weights.pt`, or a folder of the run with one), whose scale is one.
    ///
    /// # Errors
    /// When there is none, it is damaged, or of a kind that is not supported.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, VlmError> {
        let path = path.as_ref();
        let config = path.join(CONFIG);
        if config.is_file() {
            let file = path.join(WEIGHTS);
            let wrong = |problem| VlmError::Adapter { file: config.clone(), problem };
            let text = std::fs::read_to_string(&config)
                .map_err(|source| VlmError::File { file: config.clone(), source })?;
            let value = serde_json::from_str(&text).map_err(|error| wrong(format!("no JSON: {error}")))?;
            let scale = peft_scale(&value).map_err(wrong)?;
            return Self::from_weights(&file, &Weights::read(&file)?, scale);
        }
        let file = Weights::locate(path)?;
        Self::from_weights(&file, &Weights::read(&file)?, |_| 1.0)
    }

    /// Adapters among named tensors; `scale` gives the factor of a rank.
    fn from_weights(file: &Path, weights: &Weights, scale: impl Fn(usize) -> f64) -> Result<Self, VlmError> {
        let wrong = |problem: String| VlmError::Adapter { file: file.to_owned(), problem };
        let mut layers = BTreeMap::new();
        for (name, down) in weights.iter() {
            let Some((layer, rest)) = name.split_once(".lora_A.") else { continue };
            let twin = format!("{layer}.lora_B.{rest}");
            let up = weights.get(&twin).ok_or_else(|| wrong(format!("has `{name}` but no `{twin}`")))?;
            let rank = down.shape().first().copied().unwrap_or(0);
            if up.shape().get(1) != Some(&rank) || rank == 0 {
                let shapes = format!("{:?} and {:?}", down.shape(), up.shape());
                return Err(wrong(format!("`{name}` and `{twin}` are {shapes}: not of one rank")));
            }
            let numbers = |tensor: &crate::weights::Array| {
                tensor.to_f32().ok_or_else(|| wrong(format!("`{name}` holds no floats")))
            };
            let shapes = [down.shape().to_vec(), up.shape().to_vec()];
            let lora =
                LoraWeights { rank, scale: scale(rank), down: numbers(down)?, up: numbers(up)?, shapes };
            layers.insert(plain_layer(layer), lora);
        }
        if layers.is_empty() {
            return Err(wrong("has no tensors named `lora_A`; is it an adapter?".into()));
        }
        Ok(Self { source: file.to_owned(), layers })
    }

    /// How many layers it changes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.layers.len()
    }

    /// Whether it changes nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.layers.is_empty()
    }

    /// Whether every layer is one of the network's, of its sizes.
    pub(super) fn check(&self, network: &Network) -> Result<(), VlmError> {
        let linears = network.all_linears();
        let wrong = |problem| Err(VlmError::Adapter { file: self.source.clone(), problem });
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

/// A layer's name as the network has it.
fn plain_layer(stored: &str) -> String {
    let name = stored.strip_prefix("module.").unwrap_or(stored);
    let name = name.strip_prefix(PREFIX).unwrap_or(name);
    name.strip_prefix("model.").unwrap_or(name).to_owned()
}

/// The factor of a rank by peft's configuration.
fn peft_scale(config: &Value) -> Result<impl Fn(usize) -> f64, String> {
    let truth = |key: &str| config.get(key).and_then(Value::as_bool).unwrap_or(false);
    for key in ["use_dora", "fan_in_fan_out", "lora_bias", "use_qalora"] {
        if truth(key) {
            return Err(format!("`{key}` is true, which is not supported"));
        }
    }
    if config.get("peft_type").and_then(Value::as_str).is_some_and(|kind| kind != "LORA") {
        return Err("`peft_type` is not `LORA`".into());
    }
    let filled = |key: &str| match config.get(key) {
        Some(Value::Array(list)) => !list.is_empty(),
        Some(Value::Object(map)) => !map.is_empty(),
        _ => false,
    };
    for key in ["alpha_pattern", "modules_to_save", "layer_replication"] {
        if filled(key) {
            return Err(format!("`{key}` is set, which is not supported"));
        }
    }
    let alpha = config.get("lora_alpha").and_then(Value::as_f64).ok_or("`lora_alpha` must be a number")?;
    let root = truth("use_rslora");
    Ok(move |rank: usize| if root { alpha / (rank as f64).sqrt() } else { alpha / rank as f64 })
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
    }
}
