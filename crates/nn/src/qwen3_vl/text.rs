//! The language model.

use super::config::{RopeAxes, TextConfig};
use super::layers::{AttentionMask, Rope, attend, head_norm, rms_norm, swiglu};
use super::network::{Experts, FeedForward, Layer, Mlp, Text};
use super::param_source::ParamSource;
use super::vision::VisualEmbeds;
use crate::classifier::Id;
use crate::tensor::{Tensor, weighted_row_sums};

/// Keys and values of earlier tokens, per layer: `[b, tokens, kv_heads, head]`.
#[derive(Clone, Debug, Default)]
pub(super) struct KvCache {
    layers: Vec<[Tensor<4>; 2]>,
}

impl KvCache {
    /// The same for `batch` sequences that begin alike.
    pub(super) fn repeat_for_batch(&self, batch: usize) -> Self {
        let spread = |x: &Tensor<4>| Tensor::cat(vec![x.clone(); batch], 0);
        Self { layers: self.layers.iter().map(|[keys, values]| [spread(keys), spread(values)]).collect() }
    }

    pub(super) fn tokens(&self) -> usize {
        self.layers.first().map_or(0, |[keys, _]| keys.dims()[1])
    }
}

/// A batch of sequences of the same length.
pub(super) struct Batch {
    pub(super) size: usize,
    pub(super) tokens: usize,
    /// All tokens, one sequence after another.
    pub(super) ids: Vec<u32>,
    pub(super) rope: Rope,
    pub(super) attend: AttentionMask,
    /// The rows that are visual tokens, and their embeddings.
    pub(super) visual_embeds: Option<(Vec<usize>, VisualEmbeds)>,
}

/// Which tokens' hidden states are returned.
#[derive(Clone, Copy, Debug)]
pub(super) enum TokenSelection<'a> {
    /// All.
    All,
    /// One of each sequence, which attends as all do that stand last.
    LastOf(&'a [usize]),
}

/// The axis (time, row or column) that each number of half a head follows, and how quickly.
pub(super) fn frequencies(config: &TextConfig) -> Vec<(usize, f32)> {
    let [times, rows, columns] = config.sections;
    let axis = |k: usize| match config.rope_axes {
        RopeAxes::Interleaved => match k % 3 {
            1 if k < 3 * rows => 1,
            2 if k < 3 * columns => 2,
            _ => 0,
        },
        RopeAxes::Sections => usize::from(k >= times) + usize::from(k >= times + rows),
    };
    let frequency = |k: usize| 1.0 / (config.theta as f32).powf(2.0 * k as f32 / config.head_width as f32);
    (0..config.head_width / 2).map(|k| (axis(k), frequency(k))).collect()
}

/// The angles of positions `[batch * tokens]` in time, row and column.
pub(super) fn rope(config: &TextConfig, positions: &[[i32; 3]]) -> Rope {
    let (half, frequencies) = (config.head_width / 2, frequencies(config));
    let angles: Vec<f32> = positions
        .iter()
        .flat_map(|position| frequencies.iter().map(|(axis, frequency)| position[*axis] as f32 * frequency))
        .collect();
    Rope::new(&angles, half)
}

/// Runs the language model on a batch: hidden states of the selected tokens after the last norm, `[rows, width]`. Keys and values
/// are appended to `kv_cache`, if there is one.
pub(super) fn text_forward<P: ParamSource>(
    params: &P,
    text: &Text,
    config: &TextConfig,
    batch: &Batch,
    mut kv_cache: Option<&mut KvCache>,
    selection: TokenSelection<'_>,
) -> Tensor<2> {
    let mut x = embed(params, text, config, batch);
    for i in 0..text.layers.len() {
        let deep = batch
            .visual_embeds
            .as_ref()
            .and_then(|(_, visual_embeds)| visual_embeds.deepstack.get(i).cloned());
        x = layer_with_deepstack(params, text, config, batch, i, x, deep, kv_cache.as_deref_mut(), selection);
    }
    rms_norm(x, params.vector(text.norm), config.epsilon)
}

/// Layer `i`: hidden states `[rows, width]` to hidden states, with deepstack embeddings added afterwards.
#[expect(clippy::too_many_arguments, reason = "a layer needs everything about a batch")]
pub(super) fn layer_with_deepstack<P: ParamSource>(
    params: &P,
    text: &Text,
    config: &TextConfig,
    batch: &Batch,
    i: usize,
    x: Tensor<2>,
    deep: Option<Tensor<2>>,
    kv_cache: Option<&mut KvCache>,
    selection: TokenSelection<'_>,
) -> Tensor<2> {
    let selection = if i + 1 == text.layers.len() { selection } else { TokenSelection::All };
    let x = layer_forward(params, &text.layers[i], config, batch, x, i, kv_cache, selection);
    match (deep, &batch.visual_embeds) {
        (Some(deep), Some((rows, _))) => add_rows(x, rows, deep, selection, batch.tokens),
        _ => x,
    }
}

/// Token embeddings and visual embeddings, in the order of the sequences.
pub(super) fn embed<P: ParamSource>(
    params: &P,
    text: &Text,
    config: &TextConfig,
    batch: &Batch,
) -> Tensor<2> {
    let Some((rows, visual_embeds)) = &batch.visual_embeds else {
        let ids: Vec<usize> = batch.ids.iter().map(|id| *id as usize).collect();
        return params.rows(text.embed, config.width, &ids);
    };
    let mut order = vec![usize::MAX; batch.ids.len()];
    let words = batch.ids.len() - rows.len();
    rows.iter().enumerate().for_each(|(i, row)| order[*row] = words + i);
    let is_word = order.iter().map(|place| *place == usize::MAX).collect::<Vec<_>>();
    order.iter_mut().filter(|place| **place == usize::MAX).enumerate().for_each(|(i, place)| *place = i);
    let ids = batch.ids.iter().zip(is_word).filter(|(_, is_word)| *is_word);
    let ids: Vec<usize> = ids.map(|(id, _)| *id as usize).collect();
    let words = params.rows(text.embed, config.width, &ids);
    Tensor::cat(vec![words, visual_embeds.tokens.clone()], 0).select(0, &order)
}

/// Adds deepstack embeddings to visual tokens; if only some rows are left, to the visual tokens among them.
fn add_rows(
    x: Tensor<2>,
    rows: &[usize],
    deep: Tensor<2>,
    selection: TokenSelection<'_>,
    tokens: usize,
) -> Tensor<2> {
    let TokenSelection::LastOf(last) = selection else {
        return x.index_add(rows, deep);
    };
    let kept = last
        .iter()
        .enumerate()
        .filter_map(|(b, token)| Some((b, rows.iter().position(|row| *row == b * tokens + token)?)));
    let (to, from): (Vec<usize>, Vec<usize>) = kept.unzip();
    if to.is_empty() {
        return x;
    }
    x.index_add(&to, deep.select(0, &from))
}

#[expect(clippy::too_many_arguments, reason = "a layer needs everything about a batch")]
fn layer_forward<P: ParamSource>(
    params: &P,
    layer: &Layer,
    config: &TextConfig,
    batch: &Batch,
    x: Tensor<2>,
    index: usize,
    kv_cache: Option<&mut KvCache>,
    selection: TokenSelection<'_>,
) -> Tensor<2> {
    let TextConfig { heads, kv_heads, head_width, epsilon, .. } = *config;
    let normal = rms_norm(x.clone(), params.vector(layer.norm1), epsilon);
    let split = |x: Tensor<2>, heads: usize| {
        let tokens = x.dims()[0] / batch.size;
        x.reshape([batch.size, tokens, heads, head_width])
    };
    let normalised = |heads: Tensor<4>, norm: Option<Id>| match norm {
        Some(scale) => head_norm(heads, params.vector(scale), epsilon),
        None => heads,
    };
    let keys = split(params.linear(&layer.k, normal.clone()), kv_heads);
    let keys = batch.rope.apply(normalised(keys, layer.k_norm));
    let values = split(params.linear(&layer.v, normal.clone()), kv_heads);
    let [keys, values] = append_keys_values(kv_cache, index, [keys, values]);
    let (x, normal, rope, mask) = match selection {
        TokenSelection::All => (x, normal, batch.rope.clone(), batch.attend.clone()),
        TokenSelection::LastOf(last) => {
            let rows: Vec<usize> =
                last.iter().enumerate().map(|(b, token)| b * batch.tokens + token).collect();
            let mask = batch.attend.of_last(last, batch.tokens, keys.dims()[1]);
            (x.select(0, &rows), normal.select(0, &rows), batch.rope.at(last, batch.tokens), mask)
        }
    };
    let count = x.dims()[0];
    let queries = split(params.linear(&layer.q, normal), heads);
    let queries = rope.apply(normalised(queries, layer.q_norm));
    let mixed = attend(queries, keys, values, &mask).reshape([count, heads * head_width]);
    let x = x + params.linear(&layer.o, mixed);
    let normal = rms_norm(x.clone(), params.vector(layer.norm2), epsilon);
    x + match &layer.feed_forward {
        FeedForward::Dense(mlp) => mlp_forward(params, mlp, normal),
        FeedForward::Experts(experts) => experts_forward(params, experts, normal),
    }
}

fn mlp_forward<P: ParamSource>(params: &P, mlp: &Mlp, x: Tensor<2>) -> Tensor<2> {
    let inner = swiglu(params.linear(&mlp.gate, x.clone()), params.linear(&mlp.up, x));
    params.linear(&mlp.down, inner)
}

/// Each token through the experts that its router gives most, and their outputs by shares that add up to one.
fn experts_forward<P: ParamSource>(params: &P, experts: &Experts, x: Tensor<2>) -> Tensor<2> {
    let logits = params.linear(&experts.router, x.clone());
    let mut tokens_of: Vec<Vec<(usize, f32)>> = vec![Vec::new(); experts.mlps.len()];
    for (token, logits) in logits.numbers().chunks_exact(experts.mlps.len()).enumerate() {
        for (expert, share) in shares(logits, experts.per_token) {
            tokens_of[expert].push((token, share));
        }
    }
    let mut y = Tensor::zeros(x.dims());
    for (mlp, tokens) in experts.mlps.iter().zip(tokens_of).filter(|(_, tokens)| !tokens.is_empty()) {
        let (rows, shares): (Vec<usize>, Vec<f32>) = tokens.into_iter().unzip();
        let out = mlp_forward(params, mlp, x.clone().select(0, &rows));
        y = y.index_add(&rows, weighted_row_sums(out, shares, 1));
    }
    y
}

/// The experts with the greatest probabilities, the first of equals before others, and their shares of those.
fn shares(logits: &[f32], count: usize) -> Vec<(usize, f32)> {
    let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let mut experts: Vec<(usize, f32)> =
        logits.iter().map(|logit| (logit - largest).exp()).enumerate().collect();
    experts.sort_by(|one, other| other.1.total_cmp(&one.1));
    experts.truncate(count);
    let sum: f32 = experts.iter().map(|(_, share)| share).sum();
    experts.into_iter().map(|(expert, share)| (expert, share / sum)).collect()
}

/// Keys and values after those of earlier tokens; appended to the cache, if there is one.
fn append_keys_values(kv_cache: Option<&mut KvCache>, index: usize, new: [Tensor<4>; 2]) -> [Tensor<4>; 2] {
    let Some(kv_cache) = kv_cache else { return new };
    match kv_cache.layers.get_mut(index) {
        Some(old) => {
            let [old_keys, old_values] = old.clone();
            let [keys, values] = new;
            *old = [Tensor::cat(vec![old_keys, keys], 1), Tensor::cat(vec![old_values, values], 1)];
            old.clone()
        }
        None => {
            kv_cache.layers.push(new.clone());
            new
        }
    }
}
