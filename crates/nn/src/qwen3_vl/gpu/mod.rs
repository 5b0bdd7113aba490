//! Scoring on an NVIDIA GPU: one pass, forwards only, in bf16.
//!
//! Matrix products are cuBLASLt's; everything between them is a dozen kernels of our own (`kernels.cu`, `attention.cu`), which
//! NVRTC compiles when a model is opened. The libraries are loaded when they are first needed, so that building takes no
//! CUDA. Sequences lie one after another without filling, memory is used again from call to call, biases, residuals and the
//! tower's GELU go with the products, only the last token of a prompt goes through the last layer, and of the head only
//! the labels' rows are read.
//!
//! | file | what |
//! |---|---|
//! | `device.rs` | the GPU, its kernels, and a clock |
//! | `memory.rs` | memory that stays from call to call |
//! | `product.rs` | matrix products |
//! | `parameters.rs` | a model's parameters there |
//! | `shelf.rs` | pairs of frames that are kept |
//! | `engine.rs` | all of these together |
//! | `vision.rs`, `text.rs` | the two halves of the network |
//! | `batch.rs` | what the GPU is told of a batch |

#![allow(unsafe_code)] // A GPU deals in addresses; each block says why.

mod batch;
mod device;
mod engine;
mod error;
mod memory;
mod parameters;
mod product;
mod shelf;
mod text;
mod vision;

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use super::adapter::Adapter;
use super::body::{Body, WORTH_SHARING};
use super::cache::ScoreCache;
use super::config::Config;
use super::error::VlmError;
use super::network::Network;
use super::patches::Visual;
use super::processor::Inputs;
use super::text::frequencies;
use crate::classifier::{Precision, Spec};
use crate::weights::Weights;
use batch::{Batch, Sequence};
use device::Gpu;
use engine::{Engine, Space};
pub use error::GpuError;
use memory::Buffer;
use parameters::Parameters;
use product::{Finish, Product, Products};
pub(super) use shelf::Shelf;
use vision::Pair;

/// Tokens that go through the network at once. More are no quicker, and need memory.
const AT_ONCE: usize = 32 * 1024;

/// What a part of a pass takes.
#[derive(Clone, Debug, PartialEq)]
pub struct PartTime {
    /// The kernel or the product.
    pub part: String,
    /// All its calls together.
    pub milliseconds: f64,
    /// How often it ran.
    pub calls: usize,
}

/// A model on a GPU. One pass at a time.
pub(super) struct Judge {
    engine: Mutex<Engine>,
}

/// What is computed once.
pub(super) enum Share<'a> {
    /// All of every prompt by itself.
    Nothing,
    /// Prompts' beginnings and pairs of frames that are alike, in one call and in those before.
    Alike(&'a mut ScoreCache),
}

impl Judge {
    /// From weights and an adapter that were checked.
    pub(super) fn open(
        index: usize,
        precision: Precision,
        config: &Config,
        (network, specs): (&Network, &[Spec]),
        weights: &Weights,
        adapter: Option<&Adapter>,
    ) -> Result<Self, GpuError> {
        if precision != Precision::Bf16 {
            return Err(GpuError::Precision);
        }
        check_sizes(config)?;
        let mut gpu = Gpu::open(index)?;
        gpu.compile(config)?;
        let (axes, turns): (Vec<i32>, Vec<f32>) =
            frequencies(&config.text).into_iter().map(|(axis, frequency)| (axis as i32, frequency)).unzip();
        let mut engine = Engine {
            config: config.clone(),
            parameters: Parameters::load(&gpu, network, specs, weights, adapter)?,
            space: Space::default(),
            places: HashMap::new(),
            prefix: None,
            frequencies: Buffer::default(),
            axes: Buffer::default(),
            products: Products::new(&gpu)?,
            gpu,
        };
        engine.frequencies.put(&engine.gpu, &turns)?;
        engine.axes.put(&engine.gpu, &axes)?;
        Ok(Self { engine: Mutex::new(engine) })
    }

    /// For each prompt, the logits of these labels as the next token.
    pub(super) fn score(
        &self,
        body: &Body,
        inputs: &[Inputs],
        labels: &[u32],
        mut share: Share<'_>,
    ) -> Result<Vec<Vec<f32>>, VlmError> {
        body.check_labels(labels)?;
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
            let (now, later) = rest.split_at(at_once(rest));
            logits.extend(engine.score(body, now, labels, &mut share)?);
            rest = later;
        }
        Ok(logits)
    }

    /// What the parts of a pass take, the longest first.
    pub(super) fn times(
        &self,
        body: &Body,
        inputs: &[Inputs],
        labels: &[u32],
    ) -> Result<Vec<PartTime>, VlmError> {
        self.engine.lock().unwrap_or_else(PoisonError::into_inner).gpu.start_clock()?;
        let scored = self.score(body, inputs, labels, Share::Alike(&mut ScoreCache::new(0)));
        let times = self.engine.lock().unwrap_or_else(PoisonError::into_inner).gpu.stop_clock()?;
        scored?;
        let time = |(part, milliseconds, calls)| PartTime { part, milliseconds, calls };
        Ok(times.into_iter().map(time).collect())
    }
}

impl std::fmt::Debug for Judge {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let engine = self.engine.lock().unwrap_or_else(PoisonError::into_inner);
        write!(f, "Judge({})", engine.gpu.name())
    }
}

impl Engine {
    fn score(
        &mut self,
        body: &Body,
        inputs: &[Inputs],
        labels: &[u32],
        share: &mut Share<'_>,
    ) -> Result<Vec<Vec<f32>>, VlmError> {
        let is_shown = |id| body.is_shown(id);
        let shared = match share {
            Share::Nothing => 0,
            Share::Alike(_) => body.shared_prefix(inputs),
        };
        let prefix = if shared < WORTH_SHARING { 0 } else { shared };
        let ids = &inputs[0].ids[..prefix];
        if prefix > 0 && self.prefix.as_ref().is_none_or(|kept| kept.ids != ids) {
            let words = Sequence { inputs: &inputs[0], from: 0, to: prefix, seen: Vec::new() };
            self.remember(ids, &Batch::new(&[words], &[], is_shown))?;
        }
        let merged = self.config.vision.merged();
        let (seen, seen_rows) = self.see_all(body, inputs, share)?;
        let mut seen = seen.into_iter();
        let sequence = |inputs| {
            let inputs: &Inputs = inputs;
            let count = inputs.visuals.iter().map(|visual| visual.grid[0]).sum();
            let rows = seen.by_ref().take(count).flat_map(|(first, patches)| first..first + patches / merged);
            Sequence { inputs, from: prefix, to: inputs.len(), seen: rows.collect() }
        };
        let sequences: Vec<Sequence<'_>> = inputs.iter().map(sequence).collect();
        let logits = self.read(&Batch::new(&sequences, labels, is_shown), prefix, seen_rows)?;
        Ok(logits.chunks_exact(labels.len()).map(<[f32]>::to_vec).collect())
    }

    /// Sees what is on pictures: of each pair of frames its first row and how many patches it has; and how many rows there are.
    fn see_all(
        &mut self,
        body: &Body,
        inputs: &[Inputs],
        share: &mut Share<'_>,
    ) -> Result<(Vec<(usize, usize)>, usize), GpuError> {
        let pairs: Vec<Pair<'_>> =
            inputs.iter().flat_map(|input| &input.visuals).flat_map(pairs_of).collect();
        let rules = |kind| body.processor.numbers(kind);
        let rows = |pairs: &[Pair<'_>]| pairs.iter().map(|pair| self.rows_of(pair)).sum::<usize>();
        let (firsts, which, total) = match share {
            Share::Nothing => {
                let total = rows(&pairs);
                (self.see(&pairs, total, rules)?, (0..pairs.len()).collect(), total)
            }
            Share::Alike(cache) => {
                let (unlike, marks, which) = unlike(&pairs);
                let total = rows(&unlike);
                (self.see_new(&unlike, &marks, total, cache, rules)?, which, total)
            }
        };
        let place = |(pair, which): (&Pair<'_>, usize)| (firsts[which], pair.patches());
        Ok((pairs.iter().zip(which).map(place).collect(), total))
    }

    /// Tokens of a pair.
    fn rows_of(&self, pair: &Pair<'_>) -> usize {
        pair.patches() / self.config.vision.merged()
    }
}

fn pairs_of(visual: &Visual) -> impl Iterator<Item = Pair<'_>> {
    let [_, rows, columns] = visual.grid;
    visual.pairs().map(move |bytes| Pair { kind: visual.kind, sides: [rows, columns], bytes })
}

/// Pairs without those that are like one before, their fingerprints, and for each of all which one it is like.
fn unlike<'a>(pairs: &[Pair<'a>]) -> (Vec<Pair<'a>>, Vec<u64>, Vec<usize>) {
    use rayon::prelude::*;
    let marks: Vec<u64> = pairs.par_iter().map(|pair| fingerprint(pair.bytes)).collect();
    let mut found: HashMap<u64, Vec<usize>> = HashMap::new();
    let (mut unlike, mut own_marks) = (Vec::<Pair<'a>>::new(), Vec::new());
    let mut which = Vec::with_capacity(pairs.len());
    for (pair, mark) in pairs.iter().zip(marks) {
        let same = found.entry(mark).or_default();
        let is_like = |other: &&usize| {
            let other = &unlike[**other];
            other.kind == pair.kind && other.sides == pair.sides && other.bytes == pair.bytes
        };
        which.push(match same.iter().find(is_like) {
            Some(twin) => *twin,
            None => {
                same.push(unlike.len());
                unlike.push(*pair);
                own_marks.push(mark);
                unlike.len() - 1
            }
        });
    }
    (unlike, own_marks, which)
}

/// A number that bytes that differ rarely have in common.
fn fingerprint(bytes: &[u8]) -> u64 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let (words, rest) = bytes.as_chunks::<8>();
    let word = |sum: u64, word: u64| (sum.rotate_left(23) ^ word).wrapping_mul(FACTOR);
    let sum = words.iter().fold(bytes.len() as u64, |sum, bytes| word(sum, u64::from_le_bytes(*bytes)));
    rest.iter().fold(sum, |sum, byte| word(sum, u64::from(*byte)))
}

/// How many of these prompts go through the network at once.
fn at_once(inputs: &[Inputs]) -> usize {
    let mut tokens = 0;
    let fits = |input: &&Inputs| {
        tokens += input.len();
        tokens <= AT_ONCE
    };
    inputs.iter().take_while(fits).count().max(1)
}

/// Kernels take eight numbers at a time, and heads in halves of pairs.
fn check_sizes(config: &Config) -> Result<(), GpuError> {
    let (text, vision) = (&config.text, &config.vision);
    for (what, size, of) in [
        ("hidden_size", text.width, 8),
        ("intermediate_size", text.inner, 8),
        ("head_dim", text.head_width, 8),
        ("the vision tower's hidden_size", vision.width, 8),
        ("the vision tower's intermediate_size", vision.inner, 8),
        ("the width of the vision tower's heads", vision.width / vision.heads, 8),
        ("the number of pixels of a patch", vision.patch_len() / 3, 8),
    ] {
        if size % of != 0 {
            return Err(GpuError::Size { what, size, of });
        }
    }
    Ok(())
}

/// How many floating-point operations a GPU does in a second, in a product of two square matrices of bf16 numbers: what
/// the times of a pass are measured by.
///
/// # Errors
/// When there is no such GPU, or it has no memory for the matrices.
pub fn product_speed(index: usize, side: usize, repeats: usize) -> Result<f64, GpuError> {
    let mut gpu = Gpu::open(index)?;
    let mut products = Products::new(&gpu)?;
    // Random bits of numbers between 0.5 and 2 and their negatives: zeros would be quicker.
    let bits = |seed: u64| {
        let bit = |i: u64| {
            let mixed = (i + seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
            (mixed as u16 & 0x80ff) | 0x3f00
        };
        (0..(side * side) as u64).map(bit).collect::<Vec<u16>>()
    };
    let [mut x, mut weight, mut y] = [Buffer::default(), Buffer::default(), Buffer::default()];
    let product = Product {
        x: x.put(&gpu, &bits(1))?,
        weight: weight.put(&gpu, &bits(2))?,
        finish: Finish::Plain,
        y: y.of(&gpu, side * side)?,
        stride: side,
        rows: side,
        inputs: side,
        outputs: side,
    };
    let mut run = |gpu: &mut Gpu, times: usize| {
        (0..times).try_for_each(|_| products.run(gpu, "product", &product)).and_then(|()| gpu.wait())
    };
    run(&mut gpu, repeats.div_ceil(2))?;
    let start = Instant::now();
    run(&mut gpu, repeats)?;
    let operations = 2.0 * (side as f64).powi(3) * repeats as f64;
    Ok(operations / start.elapsed().as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::super::patches::Kind;
    use super::*;

    #[test]
    fn pairs_that_are_alike_are_seen_once() {
        let [one, other] = [[1u8; 20], [2u8; 20]];
        let pair = |kind, sides, bytes| Pair { kind, sides, bytes };
        let pairs = [
            pair(Kind::Video, [2, 4], &one[..]),
            pair(Kind::Video, [2, 4], &other),
            pair(Kind::Video, [2, 4], &one),
            pair(Kind::Video, [4, 2], &one),
            pair(Kind::Image, [2, 4], &one),
            pair(Kind::Video, [2, 4], &other),
        ];
        let (unlike, marks, which) = unlike(&pairs);
        assert_eq!(marks.len(), unlike.len());
        assert_eq!(which, [0, 1, 0, 2, 3, 1]);
        assert_eq!(unlike.len(), 4);
        for (pair, which) in pairs.iter().zip(which) {
            let first = &unlike[which];
            assert!(first.kind == pair.kind && first.sides == pair.sides && first.bytes == pair.bytes);
        }
    }

    #[test]
    fn bytes_of_other_order_or_length_have_another_fingerprint() {
        let bytes: Vec<u8> = (0..100).collect();
        let mut turned = bytes.clone();
        turned.swap(3, 40);
        let marks = [fingerprint(&bytes), fingerprint(&turned), fingerprint(&bytes[..99]), fingerprint(&[])];
        for (i, mark) in marks.iter().enumerate() {
            assert!(!marks[..i].contains(mark));
        }
    }
}
