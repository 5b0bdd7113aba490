//! The vision tower: patches of frames to tokens.
//!
//! Attention never leaves a pair of frames, so a pair's tokens depend on its pixels alone and can be kept.

use super::config::VisionConfig;
use super::layers::{AttentionMask, Rope, attend, layer_norm, rms_norm, swiglu, tanh_gelu};
use super::network::{Block, Merger, Vision, VisionNorm};
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
    let windows = Windows::new(config, [rows, columns]);
    let patches = match &windows {
        Some(windows) => patches.select(0, &windows.rows_of_pairs(count / per_pair, config.merged())),
        None => patches,
    };
    let mut x = params.linear(&vision.patch, patches);
    if let Some((positions, side)) = vision.positions.zip(config.positions) {
        let (corners, shares) = corners(config.merge, side, [rows, columns]);
        let positions = weighted_row_sums(params.rows(positions, config.width, &corners), shares, 4);
        // Every pair has the same positions.
        let pair = per_pair * config.width;
        x = x.reshape([count / per_pair, pair]).add_bias(positions.reshape([pair]));
        x = x.reshape([count, config.width]);
    }
    let rope = Rope::new(&angles(config, [rows, columns]), config.width / config.heads / 2);
    let mut deepstack = Vec::with_capacity(config.deepstack.len());
    for (i, block) in vision.blocks.iter().enumerate() {
        let spans = windows.as_ref().filter(|_| !config.attends_fully(i)).map(|windows| &windows.lengths[..]);
        x = block_forward(params, block, config, x, per_pair, (&rope, spans.unwrap_or(&[per_pair])));
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
    let tokens = merge(params, merger, wide);
    let tokens = match &windows {
        Some(windows) => tokens.select(0, &windows.places_of_pairs(count / per_pair)),
        None => tokens,
    };
    VisualEmbeds { tokens, deepstack }
}

/// The windows of a pair's tokens, one after another.
pub(super) struct Windows {
    /// The tokens in the order of windows.
    pub(super) order: Vec<usize>,
    /// Patches of each window.
    pub(super) lengths: Vec<usize>,
}

impl Windows {
    /// Of images of so many rows and columns of patches, if the tower has windows.
    pub(super) fn new(config: &VisionConfig, [rows, columns]: [usize; 2]) -> Option<Self> {
        let side = config.windows.as_ref()?.side;
        let (rows, columns) = (rows / config.merge, columns / config.merge);
        let (mut order, mut lengths) = (Vec::with_capacity(rows * columns), Vec::new());
        for top in (0..rows).step_by(side) {
            for left in (0..columns).step_by(side) {
                let (bottom, right) = ((top + side).min(rows), (left + side).min(columns));
                let tokens =
                    (top..bottom).flat_map(|row| (left..right).map(move |column| row * columns + column));
                order.extend(tokens);
                lengths.push((bottom - top) * (right - left) * config.merged());
            }
        }
        Some(Self { order, lengths })
    }

    /// The patches of one pair in the order of windows; a token has `merged` of them.
    pub(super) fn patches(&self, merged: usize) -> impl Iterator<Item = usize> {
        self.order.iter().flat_map(move |token| token * merged..(token + 1) * merged)
    }

    /// The same of all pairs.
    fn rows_of_pairs(&self, pairs: usize, merged: usize) -> Vec<usize> {
        let per_pair = self.order.len() * merged;
        (0..pairs).flat_map(|pair| self.patches(merged).map(move |patch| pair * per_pair + patch)).collect()
    }

    /// Where the tokens of all pairs are in the order of windows.
    pub(super) fn places_of_pairs(&self, pairs: usize) -> Vec<usize> {
        let mut places = vec![0; self.order.len()];
        self.order.iter().enumerate().for_each(|(place, token)| places[*token] = place);
        let of_pair = |pair: usize| places.iter().map(move |place| pair * self.order.len() + place);
        (0..pairs).flat_map(of_pair).collect()
    }
}

/// The epsilon of the tower's norms.
pub(super) const EPSILON: f64 = 1e-6;

fn norm<P: ParamSource>(params: &P, norm: &VisionNorm, x: Tensor<2>) -> Tensor<2> {
    match norm.shift {
        Some(shift) => layer_norm(x, params.vector(norm.scale), params.vector(shift), EPSILON),
        None => rms_norm(x, params.vector(norm.scale), EPSILON),
    }
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
    // The angles, and the patches that attend to one another.
    (rope, spans): (&Rope, &[usize]),
) -> Tensor<2> {
    let (count, width, heads) = (x.dims()[0], config.width, config.heads);
    let (pairs, head) = (count / per_pair, width / heads);
    let qkv = params.linear(&block.qkv, norm(params, &block.norm1, x.clone()));
    let qkv = qkv.reshape([pairs, per_pair, 3, heads, head]);
    let part = |i| qkv.clone().narrow(2, i, 1).reshape([pairs, per_pair, heads, head]);
    let (queries, keys, values) = (rope.apply(part(0)), rope.apply(part(1)), part(2));
    let mut from = 0;
    let mut span_mixed = |span: &usize| {
        let part = |x: &Tensor<4>| x.clone().narrow(1, from, *span);
        let mixed = attend(part(&queries), part(&keys), part(&values), &AttentionMask::All);
        from += span;
        mixed
    };
    let mixed = match spans {
        [_] => attend(queries, keys, values, &AttentionMask::All),
        _ => Tensor::cat(spans.iter().map(&mut span_mixed).collect(), 1),
    };
    let x = x + params.linear(&block.proj, mixed.reshape([count, width]));
    let normal = norm(params, &block.norm2, x.clone());
    let inner = match &block.up {
        Some(up) => swiglu(params.linear(&block.fc1, normal.clone()), params.linear(up, normal)),
        None => tanh_gelu(params.linear(&block.fc1, normal)),
    };
    x + params.linear(&block.fc2, inner)
}

/// The four learned positions around each patch of an image, patch by patch, and their shares.
pub(super) fn corners(merge: usize, side: usize, [rows, columns]: [usize; 2]) -> (Vec<usize>, Vec<f32>) {
    let count = rows * columns;
    let (mut corners, mut shares) = (Vec::with_capacity(4 * count), Vec::with_capacity(4 * count));
    for [row, column] in patch_coordinates(rows, columns, merge) {
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

/// Patch by patch in the order that the tower has them, the angles of half a head's numbers.
pub(super) fn angles(config: &VisionConfig, [rows, columns]: [usize; 2]) -> Vec<f32> {
    let quarter = config.width / config.heads / 4;
    let frequency = |k: usize| 1.0 / (config.theta as f32).powf(2.0 * k as f32 / (2 * quarter) as f32);
    let frequencies: Vec<f32> = (0..quarter).map(frequency).collect();
    let mut coordinates: Vec<[usize; 2]> = patch_coordinates(rows, columns, config.merge).collect();
    if let Some(windows) = Windows::new(config, [rows, columns]) {
        coordinates = windows.patches(config.merged()).map(|patch| coordinates[patch]).collect();
    }
    coordinates
        .into_iter()
        .flatten()
        .flat_map(|place| frequencies.iter().map(move |frequency| place as f32 * frequency))
        .collect()
}
