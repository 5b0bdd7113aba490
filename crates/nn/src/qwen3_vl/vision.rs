//! The vision tower: patches of frames to tokens.
//!
//! Attention never leaves a pair of frames, so a pair's tokens depend on its pixels alone and can be kept.

use super::config::VisionConfig;
use super::layers::{AttentionMask, Rope, attend, layer_norm, tanh_gelu};
use super::network::{Block, LayerNorm, Merger, Vision};
use super::param_source::ParamSource;
use super::patches::patch_coordinates;
use crate::tensor::{Tensor, gelu, weighted_row_sums};

/// The output of the vision tower: embeddings, and deepstack embeddings for the first layers of the language model,
/// each `[tokens, width]`.
#[derive(Clone, Debug)]
pub(super) struct VisualEmbeds {
    pub(super) tokens: Tensor<2>,
    pub(super) deepstack: Vec<Tensor<2>>,
}

impl VisualEmbeds {
    /// Several after one another.
    pub(super) fn join(parts: Vec<Self>) -> Option<Self> {
        let levels = parts.first()?.deepstack.len();
        let level = |i: usize| Tensor::cat(parts.iter().map(|part| part.deepstack[i].clone()).collect(), 0);
        let deepstack = (0..levels).map(level).collect();
        Some(Self { tokens: Tensor::cat(parts.into_iter().map(|part| part.tokens).collect(), 0), deepstack })
    }

    /// Some rows of all of it.
    pub(super) fn rows(&self, from: usize, count: usize) -> Self {
        let rows = |x: &Tensor<2>| x.clone().narrow(0, from, count);
        Self { tokens: rows(&self.tokens), deepstack: self.deepstack.iter().map(rows).collect() }
    }
}

/// Runs the tower over pairs of frames of one size: `patches` `[pairs * rows * columns, numbers]`.
pub(super) fn vision_forward<P: ParamSource>(
    params: &P,
    vision: &Vision,
    config: &VisionConfig,
    patches: Tensor<2>,
    [rows, columns]: [usize; 2],
) -> VisualEmbeds {
    let (count, per_pair) = (patches.dims()[0], rows * columns);
    let x = params.linear(&vision.patch, patches);
    let positions = learned_positions(params, vision, config, [rows, columns]);
    // Every pair has the same positions.
    let pair = per_pair * config.width;
    let x = x.reshape([count / per_pair, pair]).add_bias(positions.reshape([pair]));
    let mut x = x.reshape([count, config.width]);
    let rope = rope(config, [rows, columns]);
    let mut deepstack = Vec::with_capacity(config.deepstack.len());
    for (i, block) in vision.blocks.iter().enumerate() {
        x = block_forward(params, block, config, x, per_pair, &rope);
        if let Some(level) = config.deepstack.iter().position(|deep| *deep == i) {
            let merger = &vision.deepstack[level];
            let wide = x.clone().reshape([count / config.merged(), config.width * config.merged()]);
            deepstack.push((level, merge(params, merger, norm(params, &merger.norm, wide))));
        }
    }
    deepstack.sort_by_key(|(level, _)| *level);
    let merger = &vision.merger;
    let normal = norm(params, &merger.norm, x);
    let wide = normal.reshape([count / config.merged(), config.width * config.merged()]);
    let deepstack = deepstack.into_iter().map(|(_, level)| level).collect();
    VisualEmbeds { tokens: merge(params, merger, wide), deepstack }
}

fn norm<P: ParamSource>(params: &P, norm: &LayerNorm, x: Tensor<2>) -> Tensor<2> {
    layer_norm(x, params.vector(norm.scale), params.vector(norm.shift))
}

fn merge<P: ParamSource>(params: &P, merger: &Merger, x: Tensor<2>) -> Tensor<2> {
    params.linear(&merger.fc2, gelu(params.linear(&merger.fc1, x)))
}

fn block_forward<P: ParamSource>(
    params: &P,
    block: &Block,
    config: &VisionConfig,
    x: Tensor<2>,
    per_pair: usize,
    rope: &Rope,
) -> Tensor<2> {
    let (count, width, heads) = (x.dims()[0], config.width, config.heads);
    let (pairs, head) = (count / per_pair, width / heads);
    let qkv = params.linear(&block.qkv, norm(params, &block.norm1, x.clone()));
    let qkv = qkv.reshape([pairs, per_pair, 3, heads, head]);
    let part = |i| qkv.clone().narrow(2, i, 1).reshape([pairs, per_pair, heads, head]);
    let mixed = attend(rope.apply(part(0)), rope.apply(part(1)), part(2), &AttentionMask::All);
    let x = x + params.linear(&block.proj, mixed.reshape([count, width]));
    let inner = tanh_gelu(params.linear(&block.fc1, norm(params, &block.norm2, x.clone())));
    x + params.linear(&block.fc2, inner)
}

/// The learned positions of an image's patches, between those of the learned square: `[rows * columns, width]`.
fn learned_positions<P: ParamSource>(
    params: &P,
    vision: &Vision,
    config: &VisionConfig,
    sides: [usize; 2],
) -> Tensor<2> {
    let (corners, shares) = corners(config, sides);
    weighted_row_sums(params.rows(vision.positions, config.width, &corners), shares, 4)
}

/// The four learned positions around each patch of an image, patch by patch, and their shares.
pub(super) fn corners(config: &VisionConfig, [rows, columns]: [usize; 2]) -> (Vec<usize>, Vec<f32>) {
    let (count, side) = (rows * columns, config.positions);
    let (mut corners, mut shares) = (Vec::with_capacity(4 * count), Vec::with_capacity(4 * count));
    for [row, column] in patch_coordinates(rows, columns, config.merge) {
        let (rows, columns) = (between(row, rows, side), between(column, columns, side));
        for (row, share_of_row) in rows {
            for (column, share_of_column) in columns {
                corners.push(row * side + column);
                shares.push(share_of_row * share_of_column);
            }
        }
    }
    (corners, shares)
}

/// The two learned positions beside place `index` of `size`, and their shares. Ends meet ends.
fn between(index: usize, size: usize, side: usize) -> [(usize, f32); 2] {
    let place = index as f32 * (side - 1) as f32 / size.saturating_sub(1).max(1) as f32;
    let (low, share) = (place.floor() as usize, place - place.floor());
    [(low, 1.0 - share), ((low + 1).min(side - 1), share)]
}

/// The angles of rows and columns.
fn rope(config: &VisionConfig, sides: [usize; 2]) -> Rope {
    Rope::new(&angles(config, sides), config.width / config.heads / 2)
}

/// Patch by patch, the angles of half a head's numbers.
pub(super) fn angles(config: &VisionConfig, [rows, columns]: [usize; 2]) -> Vec<f32> {
    let quarter = config.width / config.heads / 4;
    let frequency = |k: usize| 1.0 / (config.theta as f32).powf(2.0 * k as f32 / (2 * quarter) as f32);
    let frequencies: Vec<f32> = (0..quarter).map(frequency).collect();
    patch_coordinates(rows, columns, config.merge)
        .flatten()
        .flat_map(|place| frequencies.iter().map(move |frequency| place as f32 * frequency))
        .collect()
}
