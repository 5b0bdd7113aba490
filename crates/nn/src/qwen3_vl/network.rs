//! The layers of the model, and the name, shape and first value of each of their parameters.
//!
//! Names are Hugging Face's without the leading `model.`, which [`Weights`](crate::Weights) takes off.

use super::config::{Config, TextConfig, VisionConfig};
use crate::classifier::{Id, Init, Order, Role, Spec};

/// A linear layer: its place among all of them, and its parameters.
#[derive(Clone, Debug)]
pub(super) struct Linear {
    pub(super) index: usize,
    pub(super) name: String,
    pub(super) weight: Id,
    pub(super) bias: Option<Id>,
    pub(super) inputs: usize,
    pub(super) outputs: usize,
}

/// Normalisation to mean zero and variance one, then scale and shift.
#[derive(Clone, Debug)]
pub(super) struct LayerNorm {
    pub(super) scale: Id,
    pub(super) shift: Id,
}

/// A block of the vision tower.
#[derive(Clone, Debug)]
pub(super) struct Block {
    pub(super) norm1: LayerNorm,
    pub(super) qkv: Linear,
    pub(super) proj: Linear,
    pub(super) norm2: LayerNorm,
    pub(super) fc1: Linear,
    pub(super) fc2: Linear,
}

/// Squares of patches to tokens.
#[derive(Clone, Debug)]
pub(super) struct Merger {
    pub(super) norm: LayerNorm,
    pub(super) fc1: Linear,
    pub(super) fc2: Linear,
}

/// The vision tower.
#[derive(Clone, Debug)]
pub(super) struct Vision {
    pub(super) patch: Linear,
    pub(super) positions: Id,
    pub(super) blocks: Vec<Block>,
    pub(super) merger: Merger,
    pub(super) deepstack: Vec<Merger>,
}

/// A layer of the language model.
#[derive(Clone, Debug)]
pub(super) struct Layer {
    pub(super) norm1: Id,
    pub(super) q: Linear,
    pub(super) k: Linear,
    pub(super) v: Linear,
    pub(super) o: Linear,
    pub(super) q_norm: Id,
    pub(super) k_norm: Id,
    pub(super) norm2: Id,
    pub(super) gate: Linear,
    pub(super) up: Linear,
    pub(super) down: Linear,
}

/// The language model.
#[derive(Clone, Debug)]
pub(super) struct Text {
    pub(super) embed: Id,
    pub(super) layers: Vec<Layer>,
    pub(super) norm: Id,
    pub(super) head: Linear,
}

/// All layers.
#[derive(Clone, Debug)]
pub(super) struct Network {
    pub(super) vision: Vision,
    pub(super) text: Text,
}

/// Standard deviation of random initial weights, as in transformers.
const INIT_STD: f64 = 0.02;

/// Collects parameters while layers are made.
struct NetworkBuilder {
    specs: Vec<Spec>,
    linears: usize,
}

impl NetworkBuilder {
    fn parameter(&mut self, name: String, shape: &[usize], init: Init) -> Id {
        self.specs.push(Spec { name, shape: shape.to_vec(), order: Order::Same, role: Role::Trained, init });
        Id(self.specs.len() - 1)
    }

    fn scale(&mut self, name: &str, width: usize) -> Id {
        self.parameter(format!("{name}.weight"), &[width], Init::One)
    }

    fn layer_norm(&mut self, name: &str, width: usize) -> LayerNorm {
        let scale = self.scale(name, width);
        LayerNorm { scale, shift: self.parameter(format!("{name}.bias"), &[width], Init::Zero) }
    }

    fn linear(&mut self, name: &str, inputs: usize, outputs: usize, bias: bool) -> Linear {
        let weight = self.parameter(format!("{name}.weight"), &[outputs, inputs], Init::Normal(INIT_STD));
        let bias = bias.then(|| self.parameter(format!("{name}.bias"), &[outputs], Init::Zero));
        self.with(name, weight, bias, inputs, outputs)
    }

    fn with(&mut self, name: &str, weight: Id, bias: Option<Id>, inputs: usize, outputs: usize) -> Linear {
        self.linears += 1;
        Linear { index: self.linears - 1, name: name.to_owned(), weight, bias, inputs, outputs }
    }
}

/// The layers of a configuration, and their parameters.
pub(super) fn build(config: &Config) -> (Network, Vec<Spec>) {
    let mut builder = NetworkBuilder { specs: Vec::new(), linears: 0 };
    let vision = vision(&mut builder, &config.vision, config.text.width);
    let text = text(&mut builder, &config.text, config.tied);
    (Network { vision, text }, builder.specs)
}

fn vision(builder: &mut NetworkBuilder, config: &VisionConfig, text_width: usize) -> Vision {
    let VisionConfig { width, inner, .. } = *config;
    let kernel = [width, 3, config.frames, config.patch, config.patch];
    let name = "visual.patch_embed.proj";
    let weight = builder.parameter(format!("{name}.weight"), &kernel, Init::Normal(INIT_STD));
    let bias = builder.parameter(format!("{name}.bias"), &[width], Init::Zero);
    let patch = builder.with(name, weight, Some(bias), config.patch_len(), width);
    let position_count = config.positions * config.positions;
    let positions =
        builder.parameter("visual.pos_embed.weight".into(), &[position_count, width], Init::Normal(INIT_STD));
    let blocks = (0..config.depth).map(|i| {
        let name = |part: &str| format!("visual.blocks.{i}.{part}");
        Block {
            norm1: builder.layer_norm(&name("norm1"), width),
            qkv: builder.linear(&name("attn.qkv"), width, 3 * width, true),
            proj: builder.linear(&name("attn.proj"), width, width, true),
            norm2: builder.layer_norm(&name("norm2"), width),
            fc1: builder.linear(&name("mlp.linear_fc1"), width, inner, true),
            fc2: builder.linear(&name("mlp.linear_fc2"), inner, width, true),
        }
    });
    let blocks = blocks.collect();
    let merged = width * config.merged();
    let mut merger = |name: &str, norm_width: usize| Merger {
        norm: builder.layer_norm(&format!("{name}.norm"), norm_width),
        fc1: builder.linear(&format!("{name}.linear_fc1"), merged, merged, true),
        fc2: builder.linear(&format!("{name}.linear_fc2"), merged, text_width, true),
    };
    let last = merger("visual.merger", width);
    let deepstack = (0..config.deepstack.len())
        .map(|i| merger(&format!("visual.deepstack_merger_list.{i}"), merged))
        .collect();
    Vision { patch, positions, blocks, merger: last, deepstack }
}

fn text(builder: &mut NetworkBuilder, config: &TextConfig, tied: bool) -> Text {
    let TextConfig { vocab, width, inner, head_width, .. } = *config;
    let (q_width, kv_width) = (config.heads * head_width, config.kv_heads * head_width);
    let table = "language_model.embed_tokens.weight";
    let embed = builder.parameter(table.into(), &[vocab, width], Init::Normal(INIT_STD));
    let layers = (0..config.layers).map(|i| {
        let name = |part: &str| format!("language_model.layers.{i}.{part}");
        Layer {
            norm1: builder.scale(&name("input_layernorm"), width),
            q: builder.linear(&name("self_attn.q_proj"), width, q_width, false),
            k: builder.linear(&name("self_attn.k_proj"), width, kv_width, false),
            v: builder.linear(&name("self_attn.v_proj"), width, kv_width, false),
            o: builder.linear(&name("self_attn.o_proj"), q_width, width, false),
            q_norm: builder.scale(&name("self_attn.q_norm"), head_width),
            k_norm: builder.scale(&name("self_attn.k_norm"), head_width),
            norm2: builder.scale(&name("post_attention_layernorm"), width),
            gate: builder.linear(&name("mlp.gate_proj"), width, inner, false),
            up: builder.linear(&name("mlp.up_proj"), width, inner, false),
            down: builder.linear(&name("mlp.down_proj"), inner, width, false),
        }
    });
    let layers = layers.collect();
    let norm = builder.scale("language_model.norm", width);
    let head = match tied {
        true => builder.with("lm_head", embed, None, width, vocab),
        false => builder.linear("lm_head", width, vocab, false),
    };
    Text { embed, layers, norm, head }
}

impl Network {
    /// Every linear layer.
    pub(super) fn all_linears(&self) -> Vec<&Linear> {
        let Self { vision, text, .. } = self;
        let mut all = vec![&vision.patch];
        all.extend(vision.blocks.iter().flat_map(|block| [&block.qkv, &block.proj, &block.fc1, &block.fc2]));
        let mergers = std::iter::once(&vision.merger).chain(&vision.deepstack);
        all.extend(mergers.flat_map(|merger| [&merger.fc1, &merger.fc2]));
        all.extend(text.layers.iter().flat_map(|layer| {
            let Layer { q, k, v, o, gate, up, down, .. } = layer;
            [q, k, v, o, gate, up, down]
        }));
        all.push(&text.head);
        all.sort_by_key(|linear| linear.index);
        all
    }
}
