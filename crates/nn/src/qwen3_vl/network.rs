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

/// Normalisation to mean zero and variance one, then scale and shift; without a shift, to a mean square of one.
#[derive(Clone, Debug)]
pub(super) struct VisionNorm {
    pub(super) scale: Id,
    pub(super) shift: Option<Id>,
}

/// A block of the vision tower.
#[derive(Clone, Debug)]
pub(super) struct Block {
    pub(super) norm1: VisionNorm,
    pub(super) qkv: Linear,
    pub(super) proj: Linear,
    pub(super) norm2: VisionNorm,
    pub(super) fc1: Linear,
    /// With it, the feed-forward network is gated (SwiGLU) by `fc1`; else GELU follows that.
    pub(super) up: Option<Linear>,
    pub(super) fc2: Linear,
}

/// Squares of patches to tokens.
#[derive(Clone, Debug)]
pub(super) struct Merger {
    pub(super) norm: VisionNorm,
    pub(super) fc1: Linear,
    pub(super) fc2: Linear,
}

/// The vision tower.
#[derive(Clone, Debug)]
pub(super) struct Vision {
    pub(super) patch: Linear,
    pub(super) positions: Option<Id>,
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
    /// Norms of the heads of queries and keys.
    pub(super) q_norm: Option<Id>,
    pub(super) k_norm: Option<Id>,
    pub(super) norm2: Id,
    pub(super) feed_forward: FeedForward,
}

/// What follows attention in a layer.
#[derive(Clone, Debug)]
pub(super) enum FeedForward {
    /// One gated network for all tokens.
    Dense(Mlp),
    /// Several, of which each token goes through a few.
    Experts(Experts),
}

/// A gated feed-forward network.
#[derive(Clone, Debug)]
pub(super) struct Mlp {
    pub(super) gate: Linear,
    pub(super) up: Linear,
    pub(super) down: Linear,
}

/// A mixture of experts.
#[derive(Clone, Debug)]
pub(super) struct Experts {
    /// Gives the logits of experts.
    pub(super) router: Linear,
    pub(super) mlps: Vec<Mlp>,
    /// Experts of a token.
    pub(super) per_token: usize,
}

impl Layer {
    /// The network of a layer without experts.
    pub(super) fn dense(&self) -> &Mlp {
        match &self.feed_forward {
            FeedForward::Dense(mlp) => mlp,
            FeedForward::Experts(_) => unreachable!("models with experts were refused"),
        }
    }
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

    fn vision_norm(&mut self, name: &str, width: usize, has_shift: bool) -> VisionNorm {
        let scale = self.scale(name, width);
        let shift = has_shift.then(|| self.parameter(format!("{name}.bias"), &[width], Init::Zero));
        VisionNorm { scale, shift }
    }

    fn mlp(&mut self, name: &str, width: usize, inner: usize) -> Mlp {
        Mlp {
            gate: self.linear(&format!("{name}.gate_proj"), width, inner, false),
            up: self.linear(&format!("{name}.up_proj"), width, inner, false),
            down: self.linear(&format!("{name}.down_proj"), inner, width, false),
        }
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
    let is_windowed = config.windows.is_some();
    let bias = (!is_windowed).then(|| builder.parameter(format!("{name}.bias"), &[width], Init::Zero));
    let patch = builder.with(name, weight, bias, config.patch_len(), width);
    let positions = config.positions.map(|side| {
        let shape = [side * side, width];
        builder.parameter("visual.pos_embed.weight".into(), &shape, Init::Normal(INIT_STD))
    });
    let [fc1, fc2] = match is_windowed {
        true => ["mlp.gate_proj", "mlp.down_proj"],
        false => ["mlp.linear_fc1", "mlp.linear_fc2"],
    };
    let blocks = (0..config.depth).map(|i| {
        let name = |part: &str| format!("visual.blocks.{i}.{part}");
        Block {
            norm1: builder.vision_norm(&name("norm1"), width, !is_windowed),
            qkv: builder.linear(&name("attn.qkv"), width, 3 * width, true),
            proj: builder.linear(&name("attn.proj"), width, width, true),
            norm2: builder.vision_norm(&name("norm2"), width, !is_windowed),
            fc1: builder.linear(&name(fc1), width, inner, true),
            up: is_windowed.then(|| builder.linear(&name("mlp.up_proj"), width, inner, true)),
            fc2: builder.linear(&name(fc2), inner, width, true),
        }
    });
    let blocks = blocks.collect();
    let merged = width * config.merged();
    let [norm, fc1, fc2] = match is_windowed {
        true => ["ln_q", "mlp.0", "mlp.2"],
        false => ["norm", "linear_fc1", "linear_fc2"],
    };
    let mut merger = |name: &str, norm_width: usize| Merger {
        norm: builder.vision_norm(&format!("{name}.{norm}"), norm_width, !is_windowed),
        fc1: builder.linear(&format!("{name}.{fc1}"), merged, merged, true),
        fc2: builder.linear(&format!("{name}.{fc2}"), merged, text_width, true),
    };
    let last = merger("visual.merger", width);
    let deepstack = (0..config.deepstack.len())
        .map(|i| merger(&format!("visual.deepstack_merger_list.{i}"), merged))
        .collect();
    Vision { patch, positions, blocks, merger: last, deepstack }
}

fn text(builder: &mut NetworkBuilder, config: &TextConfig, tied: bool) -> Text {
    let TextConfig { vocab, width, inner, head_width, attention_bias: bias, .. } = *config;
    let (q_width, kv_width) = (config.heads * head_width, config.kv_heads * head_width);
    let table = "language_model.embed_tokens.weight";
    let embed = builder.parameter(table.into(), &[vocab, width], Init::Normal(INIT_STD));
    let layers = (0..config.layers).map(|i| {
        let name = |part: &str| format!("language_model.layers.{i}.{part}");
        Layer {
            norm1: builder.scale(&name("input_layernorm"), width),
            q: builder.linear(&name("self_attn.q_proj"), width, q_width, bias),
            k: builder.linear(&name("self_attn.k_proj"), width, kv_width, bias),
            v: builder.linear(&name("self_attn.v_proj"), width, kv_width, bias),
            o: builder.linear(&name("self_attn.o_proj"), q_width, width, false),
            q_norm: (!bias).then(|| builder.scale(&name("self_attn.q_norm"), head_width)),
            k_norm: (!bias).then(|| builder.scale(&name("self_attn.k_norm"), head_width)),
            norm2: builder.scale(&name("post_attention_layernorm"), width),
            feed_forward: match config.experts_of(i) {
                None => FeedForward::Dense(builder.mlp(&name("mlp"), width, inner)),
                Some(experts) => FeedForward::Experts(Experts {
                    router: builder.linear(&name("mlp.gate"), width, experts.count, false),
                    mlps: (0..experts.count)
                        .map(|e| builder.mlp(&name(&format!("mlp.experts.{e}")), width, experts.inner))
                        .collect(),
                    per_token: experts.per_token,
                }),
            },
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

impl FeedForward {
    fn linears(&self) -> Vec<&Linear> {
        match self {
            Self::Dense(Mlp { gate, up, down }) => vec![gate, up, down],
            Self::Experts(Experts { router, mlps, .. }) => {
                let experts = mlps.iter().flat_map(|Mlp { gate, up, down }| [gate, up, down]);
                std::iter::once(router).chain(experts).collect()
            }
        }
    }
}

impl Network {
    /// Every linear layer.
    pub(super) fn all_linears(&self) -> Vec<&Linear> {
        let Self { vision, text, .. } = self;
        let mut all = vec![&vision.patch];
        all.extend(vision.blocks.iter().flat_map(|block| {
            let Block { qkv, proj, fc1, fc2, up, .. } = block;
            [qkv, proj, fc1, fc2].into_iter().chain(up)
        }));
        let mergers = std::iter::once(&vision.merger).chain(&vision.deepstack);
        all.extend(mergers.flat_map(|merger| [&merger.fc1, &merger.fc2]));
        all.extend(text.layers.iter().flat_map(|layer| {
            let Layer { q, k, v, o, .. } = layer;
            [q, k, v, o].into_iter().chain(layer.feed_forward.linears())
        }));
        all.push(&text.head);
        all.sort_by_key(|linear| linear.index);
        all
    }
}
