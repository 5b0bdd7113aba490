//! The GPU with a model on it, and the memory for activations.

use std::collections::HashMap;

use super::super::config::Config;
use super::super::quantized::PackedKind;
use super::kernels::attention_shared_bytes;
use super::parameters::{Linear, PackedWeights, Parameters};
use super::text::PrefixCache;
use super::vision::PatchPositions;
use crate::gpu::GpuError;
use crate::gpu::{Address, Buffer, StagedBytes};
use crate::gpu::{Arg, Gpu, LaunchShape};
use crate::gpu::{Cublas, Epilogue, Matmul};

/// All that a forward pass needs.
pub(super) struct Engine {
    pub(super) config: Config,
    pub(super) parameters: Parameters,
    pub(super) buffers: ActivationBuffers,
    /// Positions of patches, by rows and columns of patches.
    pub(super) patch_positions: HashMap<[usize; 2], PatchPositions>,
    /// Keys and values of the prefix that prompts share.
    pub(super) prefix: Option<PrefixCache>,
    /// Frequencies of positions, and the axis each follows.
    pub(super) frequencies: Buffer<f32>,
    pub(super) axes: Buffer<i32>,
    pub(super) cublas: Cublas,
    pub(super) gpu: Gpu,
}

/// Memory for activations. Comments describe its use by the language model; the vision tower uses the same.
#[derive(Default)]
pub(super) struct ActivationBuffers {
    pub(super) lists: Buffer<i32>,
    pub(super) bytes: StagedBytes,
    /// Visual embeddings: the tokens, then each deepstack level, each `[rows, width]`.
    pub(super) visual_embeds: Buffer<u16>,
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
    pub(super) cos_sin: Buffer<f32>,
    /// Last rows, and their queries.
    pub(super) last: Buffer<u16>,
    pub(super) last_queries: Buffer<u16>,
    pub(super) logits: Buffer<f32>,
    /// What parts of the kept keys give, before they are joined.
    pub(super) split_attention: Buffer<f32>,
    /// Weights of eight bits as bf16, one layer's at a time.
    pub(super) unpacked: Buffer<u16>,
}

/// Attention of some sequences.
pub(super) struct Attention {
    pub(super) kernel: &'static str,
    pub(super) q: Address,
    pub(super) q_stride: usize,
    pub(super) k: Address,
    pub(super) k_stride: usize,
    pub(super) v: Address,
    pub(super) v_stride: usize,
    pub(super) out: Address,
    pub(super) out_stride: usize,
    /// Where the logarithm of each query's sum goes, `[queries, heads]`; or nowhere.
    pub(super) log_sums: Address,
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
        epilogue: Epilogue,
        y: Address,
    ) -> Result<(), GpuError> {
        let weight = self.weight(layer)?;
        let Linear { inputs, outputs, .. } = layer;
        let matmul = Matmul { x, weight, epilogue, y, stride: outputs, rows, inputs, outputs };
        self.cublas.run(&mut self.gpu, what, &matmul)
    }

    /// Where the weights of a layer are in bf16, until those of another are asked for.
    pub(super) fn weight(&mut self, layer: Linear) -> Result<Address, GpuError> {
        let Linear { weight, inputs, outputs, packed, .. } = layer;
        let Some(PackedWeights { kind, bytes, scales, block }) = packed else { return Ok(weight) };
        let unpacked = self.buffers.unpacked.of(&self.gpu, inputs * outputs)?;
        let args = [
            Arg::At(bytes),
            Arg::At(scales),
            Arg::At(unpacked),
            Arg::Int(inputs as i32),
            Arg::Int((block / 8) as i32),
        ];
        let kernel = match kind {
            PackedKind::Int8 => "unpack_int8",
            PackedKind::Float8 => "unpack_float8",
        };
        self.gpu.run(kernel, LaunchShape::rows(outputs, inputs), &args)?;
        Ok(unpacked)
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
            Arg::Int(self.config.text.width as i32),
            Arg::Int(count as i32),
            Arg::Float(epsilon),
            Arg::At(rows),
        ];
        self.gpu.run("rms_norm", LaunchShape::warps(count), &args)
    }

    pub(super) fn attend(&mut self, attention: &Attention) -> Result<(), GpuError> {
        let Attention { heads, kv_heads, head_width, lists, prefix, .. } = *attention;
        let scale = std::f32::consts::LOG2_E / (head_width as f32).sqrt();
        let args = [
            Arg::At(attention.q),
            Arg::Int(attention.q_stride as i32),
            Arg::At(attention.k),
            Arg::Int(attention.k_stride as i32),
            Arg::At(attention.v),
            Arg::Int(attention.v_stride as i32),
            Arg::At(attention.out),
            Arg::Int(attention.out_stride as i32),
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
            Arg::At(attention.log_sums),
        ];
        let blocks = [attention.longest.div_ceil(QUERIES), heads, attention.sequences];
        let shape =
            LaunchShape { blocks, threads: ATTENTION_THREADS, shared: attention_shared_bytes(head_width) };
        self.gpu.run(attention.kernel, shape, &args)
    }
}

/// A warp for each head of each row.
pub(super) fn heads_of(rows: usize, heads: usize) -> LaunchShape {
    LaunchShape { blocks: [rows, heads.div_ceil(HEADS_AT_ONCE), 1], threads: HEADS_AT_ONCE * 32, shared: 0 }
}
