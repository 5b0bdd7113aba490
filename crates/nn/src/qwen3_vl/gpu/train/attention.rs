//! The backward pass of attention.

use super::super::engine::heads_of;
use super::super::kernels::attention_shared_bytes;
use super::TrainEngine;
use super::linear::Rows;
use crate::gpu::{Address, Arg, GpuError, LaunchShape, Side, WORDS};

/// Attention of some sequences, and where its gradients come from and go to.
pub(super) struct AttentionBackward {
    /// Of products of outputs with their gradients, of queries, and of keys and values.
    pub(super) kernels: [&'static str; 3],
    pub(super) q: Rows,
    pub(super) k: Rows,
    pub(super) v: Rows,
    pub(super) out: Rows,
    pub(super) d_out: Rows,
    pub(super) log_sums: Address,
    pub(super) products: Address,
    /// Those of queries, keys and values, and how far rows are apart.
    pub(super) gradients: [Address; 3],
    pub(super) stride: usize,
    pub(super) heads: usize,
    pub(super) kv_heads: usize,
    pub(super) head_width: usize,
    /// First rows and lengths.
    pub(super) lists: [Address; 2],
    pub(super) sequences: usize,
    pub(super) longest: usize,
    pub(super) tokens: usize,
}

/// Queries or keys of a block, and its threads, as `attention.cu` has them.
const TILE: usize = 64;
const THREADS: usize = 128;

impl AttentionBackward {
    /// The structure of `attention_backward.cu`.
    fn words(&self) -> [u64; WORDS] {
        let [dq, dk, dv] = self.gradients;
        let number = |number: usize| number as u64;
        let fields = [
            self.q.at.0,
            self.k.at.0,
            self.v.at.0,
            number(self.q.stride),
            number(self.k.stride),
            number(self.v.stride),
            number(self.heads / self.kv_heads),
            self.lists[0].0,
            self.lists[1].0,
            self.d_out.at.0,
            number(self.d_out.stride),
            self.log_sums.0,
            self.products.0,
            dq.0,
            dk.0,
            dv.0,
            number(self.stride),
        ];
        let mut words = [0; WORDS];
        words[..fields.len()].copy_from_slice(&fields);
        words
    }
}

impl TrainEngine {
    pub(super) fn attend_backward(&mut self, pass: &AttentionBackward) -> Result<(), GpuError> {
        let [multiply_heads, queries, keys] = pass.kernels;
        let gpu = &mut self.engine.gpu;
        let args = [
            Arg::At(pass.out.at),
            Arg::Int(pass.out.stride as i32),
            Arg::At(pass.d_out.at),
            Arg::Int(pass.d_out.stride as i32),
            Arg::At(pass.products),
            Arg::Int(pass.heads as i32),
        ];
        gpu.run(multiply_heads, heads_of(pass.tokens, pass.heads), &args)?;
        let scale = 1.0 / (pass.head_width as f32).sqrt();
        let args =
            [Arg::Words(pass.words()), Arg::Float(std::f32::consts::LOG2_E * scale), Arg::Float(scale)];
        let run = |engine: &mut Self, kernel, heads| {
            let blocks = [pass.longest.div_ceil(TILE), heads, pass.sequences];
            let shared = attention_shared_bytes(pass.head_width);
            engine.engine.gpu.run(kernel, LaunchShape { blocks, threads: THREADS, shared }, &args)
        };
        // Neither fills the GPU with few sequences.
        let done = self.aside(Side::Soon, |engine| run(engine, keys, pass.kv_heads))?;
        run(self, queries, pass.heads)?;
        self.wait_until(Some(&done))
    }
}
