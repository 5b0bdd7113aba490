//! Which layers get adapters in training, and the adapters' parameters.

use serde::{Deserialize, Serialize};

use super::super::adapter::{peft_names, shapes};
use super::super::error::VlmError;
use super::super::load::full_name;
use super::super::network::{Linear, Network};
use crate::classifier::{Id, Init, Order, Role, Spec};

/// Low-rank adapters: `y + (alpha / rank) B (A x)`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LoraConfig {
    /// The rank of the two matrices.
    pub rank: usize,
    /// The scale of what is added, times the rank.
    pub alpha: f64,
    /// Layers that get an adapter, by the last part of their name.
    pub targets: Vec<String>,
    /// Whether the vision tower gets none.
    pub freeze_vision: bool,
}

/// RLinf's list. In this network it hits all linear layers of the language model, the head, and of the vision tower
/// the attention and the layer that takes patches in.
const TARGETS: [&str; 16] = [
    "proj",
    "qkv",
    "fc1",
    "fc2",
    "q",
    "kv",
    "fc3",
    "out_proj",
    "q_proj",
    "k_proj",
    "v_proj",
    "o_proj",
    "gate_proj",
    "up_proj",
    "down_proj",
    "lm_head",
];

impl Default for LoraConfig {
    fn default() -> Self {
        Self { rank: 16, alpha: 16.0, targets: TARGETS.map(str::to_owned).to_vec(), freeze_vision: false }
    }
}

/// The adapter of a layer among the parameters.
#[derive(Clone, Debug)]
pub(in super::super) struct LoraLayer {
    pub(in super::super) layer: String,
    pub(in super::super) down: Id,
    pub(in super::super) up: Id,
    pub(in super::super) rank: usize,
    pub(in super::super) scale: f64,
}

/// Adds the parameters of adapters to those of the network: of each linear layer its adapter, if it gets one.
pub(in super::super) fn add_adapters(
    network: &Network,
    lora: &LoraConfig,
    specs: &mut Vec<Spec>,
) -> Result<Vec<Option<LoraLayer>>, VlmError> {
    if lora.rank == 0 {
        return Err(VlmError::Input("adapters of rank 0; give a rank above zero".into()));
    }
    let mut lora_layer = |linear: &&Linear| {
        let last = linear.name.rsplit('.').next().unwrap_or(&linear.name);
        let matches = |target: &String| target == last || *target == full_name(&linear.name);
        let is_frozen = lora.freeze_vision && linear.name.starts_with("visual.");
        if is_frozen || !lora.targets.iter().any(matches) {
            return None;
        }
        let shapes = shapes(&specs[linear.weight.0].shape, lora.rank);
        let mut add = |name: String, shape: Vec<usize>, init: Init| {
            specs.push(Spec { name, shape, order: Order::Same, role: Role::Trained, init });
            Id(specs.len() - 1)
        };
        let [down_name, up_name] = peft_names(&linear.name);
        let [down_shape, up_shape] = shapes;
        let down = add(down_name, down_shape, Init::Normal(1.0 / lora.rank as f64));
        let up = add(up_name, up_shape, Init::Zero);
        let scale = lora.alpha / lora.rank as f64;
        Some(LoraLayer { layer: linear.name.clone(), down, up, rank: lora.rank, scale })
    };
    let lora_layers: Vec<Option<LoraLayer>> = network.all_linears().iter().map(&mut lora_layer).collect();
    if lora_layers.iter().all(Option::is_none) {
        let targets = lora.targets.join(", ");
        return Err(VlmError::Input(format!("no layer of the model is named {targets}; try q_proj, v_proj")));
    }
    Ok(lora_layers)
}
