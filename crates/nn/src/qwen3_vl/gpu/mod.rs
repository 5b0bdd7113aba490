//! Scoring and answering on an NVIDIA GPU in bf16. Training of adapters there is in `train/`.
//!
//! Matrix products are cuBLASLt's; everything between them is some twenty kernels of our own (`kernels.cu`, `attention.cu`, `decode.cu`), which
//! NVRTC compiles when a model is opened. The libraries are loaded when they are first needed, so that building takes no
//! CUDA. Sequences are packed without padding, memory is reused from call to call, biases, residuals and the
//! tower's GELU go with the products, only the last token of a prompt goes through the last layer, and of the head only
//! the labels' rows are read.
//!
//! | file | what |
//! |---|---|
//! | `kernels.rs` | the kernels |
//! | `parameters.rs` | a model's parameters there |
//! | `quantized.rs` | weights of eight bits |
//! | `frame_cache.rs` | embeddings of frame pairs that are kept |
//! | `engine.rs` | all of these together |
//! | `vision.rs`, `text.rs` | the two halves of the network |
//! | `batch.rs`, `lists.rs` | the index lists of a batch |
//! | `decode.rs`, `kv_cache.rs` | answers in words, one token after another, and the keys and values that are kept for them |
//!
//! The GPU itself, its memory and its matrix products are those of [`crate::gpu`].

mod batch;
mod decode;
mod engine;
mod frame_cache;
mod kernels;
mod kv_cache;
mod lists;
mod parameters;
mod quantized;
mod text;
mod train;
mod vision;

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use super::adapter::Adapter;
use super::cache::ScoreCache;
use super::config::Config;
use super::error::VlmError;
use super::forward::{Architecture, MIN_SHARED_PREFIX};
use super::load::ModelWeights;
use super::model::Quantization;
use super::network::Network;
use super::patches::Visual;
use super::processor::Inputs;
use super::text::frequencies;
use crate::classifier::{Precision, Spec};
use crate::gpu::{Buffer, Cublas, Gpu, GpuError};
use batch::{Batch, Sequence};
use engine::{ActivationBuffers, Engine};
pub(super) use frame_cache::FrameCache;
pub(super) use kv_cache::NextToken;
use parameters::Parameters;
pub(super) use train::{GpuTrainer, TrainerParts};
use vision::FramePair;

/// Tokens that go through the network at once. More are no quicker, and need memory.
const MAX_BATCH_TOKENS: usize = 32 * 1024;
/// The same where memory is short: with weights of eight bits.
const FEW_BATCH_TOKENS: usize = 4 * 1024;

/// The time that a kernel takes in a forward pass.
#[derive(Clone, Debug, PartialEq)]
pub struct KernelTime {
    /// The kernel or matrix product.
    pub kernel: String,
    /// All its calls together.
    pub milliseconds: f64,
    /// How often it ran.
    pub calls: usize,
}

/// A model on a GPU. One forward pass at a time.
pub(super) struct GpuModel {
    engine: Mutex<Engine>,
    most_tokens: usize,
}

/// What is reused between prompts.
pub(super) enum Reuse<'a> {
    /// Nothing: every prompt is computed by itself.
    Nothing,
    /// Shared prompt prefixes and equal frame pairs, within a call and from calls before.
    Cached(&'a mut ScoreCache),
}

impl GpuModel {
    /// From weights and an adapter that were checked.
    pub(super) fn open(
        index: usize,
        (precision, quantization): (Precision, Quantization),
        config: &Config,
        (network, specs): (&Network, &[Spec]),
        weights: &ModelWeights,
        adapter: Option<&Adapter>,
    ) -> Result<Self, GpuError> {
        if precision != Precision::Bf16 {
            return Err(GpuError::Precision);
        }
        if config.text.experts.is_some() {
            return Err(GpuError::Unsupported { what: "a mixture of experts (Qwen3-VL-MoE)" });
        }
        check_sizes(config)?;
        let mut gpu = Gpu::open(index)?;
        kernels::compile(&mut gpu, config)?;
        let (axes, inv_freq): (Vec<i32>, Vec<f32>) =
            frequencies(&config.text).into_iter().map(|(axis, frequency)| (axis as i32, frequency)).unzip();
        let mut engine = Engine {
            config: config.clone(),
            parameters: Parameters::load(&gpu, network, specs, weights, adapter, quantization)?,
            buffers: ActivationBuffers::default(),
            patch_positions: HashMap::new(),
            prefix: None,
            frequencies: Buffer::default(),
            axes: Buffer::default(),
            cublas: Cublas::new(&gpu)?,
            gpu,
        };
        engine.frequencies.put(&engine.gpu, &inv_freq)?;
        engine.axes.put(&engine.gpu, &axes)?;
        let are_packed = engine.parameters.are_packed();
        let most_tokens = if are_packed { FEW_BATCH_TOKENS } else { MAX_BATCH_TOKENS };
        Ok(Self { engine: Mutex::new(engine), most_tokens })
    }

    /// For each prompt, the logits of these labels as the next token.
    pub(super) fn score(
        &self,
        architecture: &Architecture,
        inputs: &[Inputs],
        labels: &[u32],
        mut reuse: Reuse<'_>,
    ) -> Result<Vec<Vec<f32>>, VlmError> {
        architecture.check_labels(labels)?;
        if inputs.is_empty() || labels.is_empty() {
            return Ok(vec![Vec::new(); inputs.len()]);
        }
        if let Some(i) = inputs.iter().position(Inputs::is_empty) {
            return Err(VlmError::Input(format!("prompt {i} is empty")));
        }
        let mut engine = self.engine.lock().unwrap_or_else(PoisonError::into_inner);
        let mut logits = Vec::with_capacity(inputs.len());
        let mut rest = inputs;
        while !rest.is_empty() {
            let (now, later) = rest.split_at(prompts_per_batch(rest, self.most_tokens));
            logits.extend(engine.score(architecture, now, labels, &mut reuse)?);
            rest = later;
        }
        Ok(logits)
    }

    /// The time of each kernel in a forward pass, the longest first.
    pub(super) fn times(
        &self,
        architecture: &Architecture,
        inputs: &[Inputs],
        labels: &[u32],
    ) -> Result<Vec<KernelTime>, VlmError> {
        self.engine.lock().unwrap_or_else(PoisonError::into_inner).gpu.start_profiling()?;
        let scored = self.score(architecture, inputs, labels, Reuse::Cached(&mut ScoreCache::new(0)));
        let times = self.engine.lock().unwrap_or_else(PoisonError::into_inner).gpu.stop_profiling()?;
        scored?;
        let time = |(kernel, milliseconds, calls)| KernelTime { kernel, milliseconds, calls };
        Ok(times.into_iter().map(time).collect())
    }
}

impl std::fmt::Debug for GpuModel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let engine = self.engine.lock().unwrap_or_else(PoisonError::into_inner);
        write!(f, "GpuModel({})", engine.gpu.name())
    }
}

impl Engine {
    fn score(
        &mut self,
        architecture: &Architecture,
        inputs: &[Inputs],
        labels: &[u32],
        reuse: &mut Reuse<'_>,
    ) -> Result<Vec<Vec<f32>>, VlmError> {
        let is_visual_token = |id| architecture.is_visual_token(id);
        let shared = match reuse {
            Reuse::Nothing => 0,
            Reuse::Cached(_) => architecture.shared_prefix(inputs),
        };
        let prefix = if shared < MIN_SHARED_PREFIX { 0 } else { shared };
        let ids = &inputs[0].ids[..prefix];
        if prefix > 0 && self.prefix.as_ref().is_none_or(|kept| kept.ids != ids) {
            let words = Sequence { inputs: &inputs[0], from: 0, to: prefix, visual_embeds: Vec::new() };
            self.cache_prefix(ids, &Batch::new(&[words], &[], is_visual_token))?;
        }
        let (visual_embeds, visual_rows) = self.encode_visuals(architecture, inputs, reuse)?;
        let sequences = self.sequences(inputs, prefix, visual_embeds);
        let batch = Batch::new(&sequences, labels, is_visual_token);
        let x = self.text_forward(&batch, prefix, visual_rows, None)?;
        let logits = self.label_logits(x, &batch)?;
        Ok(logits.chunks_exact(labels.len()).map(<[f32]>::to_vec).collect())
    }

    /// Prompts from token `prefix` on, with the rows of their visual embeddings; those are given for each pair of frames.
    fn sequences<'a>(
        &self,
        inputs: &'a [Inputs],
        prefix: usize,
        visual_embeds: Vec<(usize, usize)>,
    ) -> Vec<Sequence<'a>> {
        let merged = self.config.vision.merged();
        let mut visual_embeds = visual_embeds.into_iter();
        let sequence = |inputs: &'a Inputs| {
            let count = inputs.visuals.iter().map(|visual| visual.grid[0]).sum();
            let rows = visual_embeds
                .by_ref()
                .take(count)
                .flat_map(|(first, patches)| first..first + patches / merged);
            Sequence { inputs, from: prefix, to: inputs.len(), visual_embeds: rows.collect() }
        };
        inputs.iter().map(sequence).collect()
    }

    /// Encodes images and videos: of each pair of frames its first row and how many patches it has; and how many rows there are.
    fn encode_visuals(
        &mut self,
        architecture: &Architecture,
        inputs: &[Inputs],
        reuse: &mut Reuse<'_>,
    ) -> Result<(Vec<(usize, usize)>, usize), GpuError> {
        let pairs: Vec<FramePair<'_>> =
            inputs.iter().flat_map(|input| &input.visuals).flat_map(pairs_of).collect();
        let mean_and_std = |kind| architecture.processor.mean_and_std(kind);
        let rows = |pairs: &[FramePair<'_>]| pairs.iter().map(|pair| self.rows_of(pair)).sum::<usize>();
        let (firsts, which, total) = match reuse {
            Reuse::Nothing => {
                let total = rows(&pairs);
                (self.encode_pairs(&pairs, total, mean_and_std)?, (0..pairs.len()).collect(), total)
            }
            Reuse::Cached(cache) => {
                let (unique_pairs, fingerprints, which) = unique_pairs(&pairs);
                let total = rows(&unique_pairs);
                (
                    self.encode_uncached(&unique_pairs, &fingerprints, total, cache, mean_and_std)?,
                    which,
                    total,
                )
            }
        };
        let place = |(pair, which): (&FramePair<'_>, usize)| (firsts[which], pair.patches());
        Ok((pairs.iter().zip(which).map(place).collect(), total))
    }

    /// Tokens of a pair.
    fn rows_of(&self, pair: &FramePair<'_>) -> usize {
        pair.patches() / self.config.vision.merged()
    }
}

fn pairs_of(visual: &Visual) -> impl Iterator<Item = FramePair<'_>> {
    let [_, rows, columns] = visual.grid;
    visual.pairs().map(move |bytes| FramePair { kind: visual.kind, sides: [rows, columns], bytes })
}

/// The distinct pairs, their fingerprints, and for each pair which of the distinct ones it is.
fn unique_pairs<'a>(pairs: &[FramePair<'a>]) -> (Vec<FramePair<'a>>, Vec<u64>, Vec<usize>) {
    use rayon::prelude::*;
    let fingerprints: Vec<u64> = pairs.par_iter().map(|pair| fingerprint(pair.bytes)).collect();
    let mut found: HashMap<u64, Vec<usize>> = HashMap::new();
    let (mut unique_pairs, mut unique_fingerprints) = (Vec::<FramePair<'a>>::new(), Vec::new());
    let mut which = Vec::with_capacity(pairs.len());
    for (pair, fingerprint) in pairs.iter().zip(fingerprints) {
        let same = found.entry(fingerprint).or_default();
        let is_like = |other: &&usize| {
            let other = &unique_pairs[**other];
            other.kind == pair.kind && other.sides == pair.sides && other.bytes == pair.bytes
        };
        which.push(match same.iter().find(is_like) {
            Some(twin) => *twin,
            None => {
                same.push(unique_pairs.len());
                unique_pairs.push(*pair);
                unique_fingerprints.push(fingerprint);
                unique_pairs.len() - 1
            }
        });
    }
    (unique_pairs, unique_fingerprints, which)
}

/// A hash of bytes.
fn fingerprint(bytes: &[u8]) -> u64 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let (words, rest) = bytes.as_chunks::<8>();
    let word = |sum: u64, word: u64| (sum.rotate_left(23) ^ word).wrapping_mul(FACTOR);
    let sum = words.iter().fold(bytes.len() as u64, |sum, bytes| word(sum, u64::from_le_bytes(*bytes)));
    rest.iter().fold(sum, |sum, byte| word(sum, u64::from(*byte)))
}

/// How many of these prompts go through the network at once: of so many tokens, or one.
fn prompts_per_batch(inputs: &[Inputs], most_tokens: usize) -> usize {
    let mut tokens = 0;
    let fits = |input: &&Inputs| {
        tokens += input.len();
        tokens <= most_tokens
    };
    inputs.iter().take_while(fits).count().max(1)
}

/// Kernels take eight numbers at a time, and heads in halves of pairs.
fn check_sizes(config: &Config) -> Result<(), GpuError> {
    let (text, vision) = (&config.text, &config.vision);
    // Gated networks of the tower are filled up with zeros.
    let vision_inner = if vision.windows.is_some() { 8 } else { vision.inner };
    for (what, size, of) in [
        ("hidden_size", text.width, 8),
        ("intermediate_size", text.inner, 8),
        ("head_dim", text.head_width, 8),
        ("the vision tower's hidden_size", vision.width, 8),
        ("the vision tower's intermediate_size", vision_inner, 8),
        ("the width of the vision tower's heads", vision.width / vision.heads, 8),
        ("the number of pixels of a patch", vision.patch_len() / 3, 8),
    ] {
        if size % of != 0 {
            return Err(GpuError::Size { what, size, of });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::patches::VisualKind;
    use super::*;

    #[test]
    fn equal_pairs_are_encoded_once() {
        let [one, other] = [[1u8; 20], [2u8; 20]];
        let pair = |kind, sides, bytes| FramePair { kind, sides, bytes };
        let pairs = [
            pair(VisualKind::Video, [2, 4], &one[..]),
            pair(VisualKind::Video, [2, 4], &other),
            pair(VisualKind::Video, [2, 4], &one),
            pair(VisualKind::Video, [4, 2], &one),
            pair(VisualKind::Image, [2, 4], &one),
            pair(VisualKind::Video, [2, 4], &other),
        ];
        let (unique_pairs, fingerprints, which) = unique_pairs(&pairs);
        assert_eq!(fingerprints.len(), unique_pairs.len());
        assert_eq!(which, [0, 1, 0, 2, 3, 1]);
        assert_eq!(unique_pairs.len(), 4);
        for (pair, which) in pairs.iter().zip(which) {
            let first = &unique_pairs[which];
            assert!(first.kind == pair.kind && first.sides == pair.sides && first.bytes == pair.bytes);
        }
    }

    #[test]
    fn bytes_of_other_order_or_length_have_another_fingerprint() {
        let bytes: Vec<u8> = (0..100).collect();
        let mut turned = bytes.clone();
        turned.swap(3, 40);
        let fingerprints =
            [fingerprint(&bytes), fingerprint(&turned), fingerprint(&bytes[..99]), fingerprint(&[])];
        for (i, fingerprint) in fingerprints.iter().enumerate() {
            assert!(!fingerprints[..i].contains(fingerprint));
        }
    }
}
