//! The GPU with a model on it, and the memory that passes work in.

use std::collections::HashMap;

use super::super::config::Config;
use super::device::{Arg, Gpu, Shape, attention_room};
use super::error::GpuError;
use super::memory::{Address, Buffer, Bytes};
use super::parameters::{Linear, Parameters};
use super::product::{Finish, Product, Products};
use super::text::Prefix;
use super::vision::Places;

/// All that a pass needs.
pub(super) struct Engine {
    pub(super) config: Config,
    pub(super) parameters: Parameters,
    pub(super) space: Space,
    /// What a picture of some rows and columns of patches needs, whatever is on it.
    pub(super) places: HashMap<[usize; 2], Places>,
    /// What the model remembers of words that prompts begin with.
    pub(super) prefix: Option<Prefix>,
    /// Frequencies of positions, and the axis each follows.
    pub(super) frequencies: Buffer<f32>,
    pub(super) axes: Buffer<i32>,
    pub(super) products: Products,
    pub(super) gpu: Gpu,
}

/// Memory of passes. What is said of its use is of text; the vision tower uses the same.
#[derive(Default)]
pub(super) struct Space {
    pub(super) lists: Buffer<i32>,
    pub(super) bytes: Bytes,
    /// What was seen: the tokens, then what is added level by level, each `[rows, width]`.
    pub(super) seen: Buffer<u16>,
    pub(super) x: Buffer<u16>,
    /// `x` normalised.
    pub(super) normal: Buffer<u16>,
    pub(super) qkv: Buffer<u16>,
    /// What attention gives.
    pub(super) mixed: Buffer<u16>,
    /// Gate and up.
    pub(super) inner: Buffer<u16>,
    pub(super) gated: Buffer<u16>,
    /// Cosine and sine of each token's angles.
    pub(super) turns: Buffer<f32>,
    /// Last rows, and their queries.
    pub(super) last: Buffer<u16>,
    pub(super) last_queries: Buffer<u16>,
    pub(super) logits: Buffer<f32>,
}

/// Attention of some sequences.
pub(super) struct Attention {
    pub(super) kernel: &'static str,
    pub(super) q: Address,
    pub(super) q_stride: usize,
    pub(super) k: Address,
    pub(super) v: Address,
    pub(super) kv_stride: usize,
    pub(super) out: Address,
    pub(super) heads: usize,
    pub(super) kv_heads: usize,
    pub(super) head_width: usize,
    /// First rows and lengths of queries, then those of keys.
    pub(super) lists: [Address; 4],
    pub(super) sequences: usize,
    pub(super) longest: usize,
    /// Keys and values before those of all sequences, how far their rows are apart, and how many there are.
    pub(super) prefix: (Address, Address, usize, usize),
}

/// Queries of a block of the attention kernel, and its threads.
const QUERIES: usize = 64;
const ATTENTION_THREADS: usize = 128;
/// Heads that a block turns, a warp each.
const HEADS_AT_ONCE: usize = 8;

impl Engine {
    /// A linear layer over rows that lie one after another.
    pub(super) fn linear(
        &mut self,
        what: &'static str,
        layer: Linear,
        x: Address,
        rows: usize,
        finish: Finish,
        y: Address,
    ) -> Result<(), GpuError> {
        let Linear { weight, inputs, outputs, .. } = layer;
        let product = Product { x, weight, finish, y, stride: outputs, rows, inputs, outputs };
        self.products.run(&mut self.gpu, what, &product)
    }

    /// Rows, or of `rows` those it names, divided by their root mean square.
    pub(super) fn rms_norm(
        &mut self,
        x: Address,
        scale: Address,
        y: Address,
        count: usize,
        rows: Address,
    ) -> Result<(), GpuError> {
        let epsilon = self.config.text.epsilon as f32;
        let args = [
            Arg::At(x),
            Arg::At(scale),
            Arg::At(y),
            Arg::Int(count as i32),
            Arg::Float(epsilon),
            Arg::At(rows),
        ];
        self.gpu.run("rms_norm", Shape::warps(count), &args)
    }

    pub(super) fn attend(&mut self, attention: &Attention) -> Result<(), GpuError> {
        let Attention { heads, kv_heads, head_width, lists, prefix, .. } = *attention;
        let scale = std::f32::consts::LOG2_E / (head_width as f32).sqrt();
        let args = [
            Arg::At(attention.q),
            Arg::Int(attention.q_stride as i32),
            Arg::At(attention.k),
            Arg::At(attention.v),
            Arg::Int(attention.kv_stride as i32),
            Arg::At(attention.out),
            Arg::Int((heads * head_width) as i32),
            Arg::Int((heads / kv_heads) as i32),
            Arg::At(lists[0]),
            Arg::At(lists[1]),
            Arg::At(lists[2]),
            Arg::At(lists[3]),
            Arg::At(prefix.0),
            Arg::At(prefix.1),
            Arg::Int(prefix.2 as i32),
            Arg::Int(prefix.3 as i32),
            Arg::Float(scale),
        ];
        let blocks = [attention.longest.div_ceil(QUERIES), heads, attention.sequences];
        let shape = Shape { blocks, threads: ATTENTION_THREADS, shared: attention_room(head_width) };
        self.gpu.run(attention.kernel, shape, &args)
    }
}

/// A warp for each head of each row.
pub(super) fn heads_of(rows: usize, heads: usize) -> Shape {
    Shape { blocks: [rows, heads.div_ceil(HEADS_AT_ONCE), 1], threads: HEADS_AT_ONCE * 32, shared: 0 }
}
