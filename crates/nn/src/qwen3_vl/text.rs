//! The language model.

use burn::tensor::{Device, FloatDType, IndexingUpdateOp, Tensor};

use super::config::TextConfig;
use super::layers::{Attend, Rope, attend, head_norm, indices, rms_norm, swiglu};
use super::network::{Layer, Text};
use super::pass::Pass;
use super::vision::Seen;

/// Keys and values of what was read before, per layer: `[b, tokens, kv_heads, head]`.
#[derive(Clone, Debug, Default)]
pub(super) struct Memory {
    layers: Vec<[Tensor<4>; 2]>,
}

impl Memory {
    /// The same for `batch` sequences that begin alike.
    pub(super) fn shared_by(&self, batch: usize) -> Self {
        let spread = |x: &Tensor<4>| x.clone().repeat_dim(0, batch);
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
    pub(super) attend: Attend,
    /// The rows that are tokens of pictures, and what is seen there.
    pub(super) seen: Option<(Vec<usize>, Seen)>,
}

/// Of which tokens the result is wanted.
#[derive(Clone, Copy, Debug)]
pub(super) enum Wanted<'a> {
    /// All.
    All,
    /// One of each sequence, which attends as all do that stand last.
    LastOf(&'a [usize]),
}

/// The axis (time, row or column) that each number of half a head follows, and how quickly.
pub(super) fn frequencies(config: &TextConfig) -> Vec<(usize, f32)> {
    let [_, rows, columns] = config.sections;
    let axis = |k: usize| match k % 3 {
        1 if k < 3 * rows => 1,
        2 if k < 3 * columns => 2,
        _ => 0,
    };
    let frequency = |k: usize| 1.0 / (config.theta as f32).powf(2.0 * k as f32 / config.head_width as f32);
    (0..config.head_width / 2).map(|k| (axis(k), frequency(k))).collect()
}

/// The angles of positions `[batch * tokens]`, interleaved over time, row and column.
pub(super) fn rope(
    config: &TextConfig,
    places: &[[i32; 3]],
    batch: usize,
    dtype: FloatDType,
    device: &Device,
) -> Rope {
    let (half, frequencies) = (config.head_width / 2, frequencies(config));
    let angles: Vec<f32> = places
        .iter()
        .flat_map(|place| frequencies.iter().map(|(axis, frequency)| place[*axis] as f32 * frequency))
        .collect();
    Rope::new(&angles, [batch, places.len() / batch, half], dtype, device)
}

/// Reads a batch: the numbers of the wanted tokens after the last normalisation, `[rows, width]`. What it remembers
/// is added to `memory`, if there is one.
pub(super) fn read<P: Pass>(
    pass: &P,
    text: &Text,
    config: &TextConfig,
    batch: &Batch,
    mut memory: Option<&mut Memory>,
    wanted: Wanted<'_>,
    device: &Device,
) -> Tensor<2> {
    let mut x = embed(pass, text, config, batch, device);
    for i in 0..text.layers.len() {
        let deep = batch.seen.as_ref().and_then(|(_, seen)| seen.deepstack.get(i).cloned());
        x = step(pass, text, config, batch, i, x, deep, memory.as_deref_mut(), wanted, device);
    }
    rms_norm(x, pass.vector(text.norm), config.epsilon)
}

/// Layer `i`: numbers `[rows, width]` to numbers, with what is seen added to its rows afterwards.
#[expect(clippy::too_many_arguments, reason = "a layer meets all there is to know of a batch")]
pub(super) fn step<P: Pass>(
    pass: &P,
    text: &Text,
    config: &TextConfig,
    batch: &Batch,
    i: usize,
    x: Tensor<2>,
    deep: Option<Tensor<2>>,
    memory: Option<&mut Memory>,
    wanted: Wanted<'_>,
    device: &Device,
) -> Tensor<2> {
    let wanted = if i + 1 == text.layers.len() { wanted } else { Wanted::All };
    let x = layer_forward(pass, &text.layers[i], config, batch, x, i, memory, wanted, device);
    match (deep, &batch.seen) {
        (Some(deep), Some((rows, _))) => add_rows(x, rows, deep, wanted, batch.tokens, device),
        _ => x,
    }
}

/// Words from the table and what is seen, in the order of the sequences.
pub(super) fn embed<P: Pass>(
    pass: &P,
    text: &Text,
    config: &TextConfig,
    batch: &Batch,
    device: &Device,
) -> Tensor<2> {
    let Some((rows, seen)) = &batch.seen else {
        let ids = indices(batch.ids.iter().map(|id| *id as usize), device);
        return pass.rows(text.embed, config.width, ids);
    };
    let mut order = vec![usize::MAX; batch.ids.len()];
    let words = batch.ids.len() - rows.len();
    rows.iter().enumerate().for_each(|(i, row)| order[*row] = words + i);
    let is_word = order.iter().map(|place| *place == usize::MAX).collect::<Vec<_>>();
    order.iter_mut().filter(|place| **place == usize::MAX).enumerate().for_each(|(i, place)| *place = i);
    let ids = batch.ids.iter().zip(is_word).filter(|(_, is_word)| *is_word);
    let ids = indices(ids.map(|(id, _)| *id as usize), device);
    let words = pass.rows(text.embed, config.width, ids);
    Tensor::cat(vec![words, seen.tokens.clone()], 0).select(0, indices(order, device))
}

/// Adds what is seen to its rows; if only some rows are left, to those of them that are tokens of pictures.
fn add_rows(
    x: Tensor<2>,
    rows: &[usize],
    deep: Tensor<2>,
    wanted: Wanted<'_>,
    tokens: usize,
    device: &Device,
) -> Tensor<2> {
    let Wanted::LastOf(last) = wanted else {
        return x.select_assign(0, indices(rows.iter().copied(), device), deep, IndexingUpdateOp::Add);
    };
    let kept = last
        .iter()
        .enumerate()
        .filter_map(|(b, token)| Some((b, rows.iter().position(|row| *row == b * tokens + token)?)));
    let (to, from): (Vec<usize>, Vec<usize>) = kept.unzip();
    if to.is_empty() {
        return x;
    }
    let deep = deep.select(0, indices(from, device));
    x.select_assign(0, indices(to, device), deep, IndexingUpdateOp::Add)
}

#[expect(clippy::too_many_arguments, reason = "a layer meets all there is to know of a batch")]
fn layer_forward<P: Pass>(
    pass: &P,
    layer: &Layer,
    config: &TextConfig,
    batch: &Batch,
    x: Tensor<2>,
    index: usize,
    memory: Option<&mut Memory>,
    wanted: Wanted<'_>,
    device: &Device,
) -> Tensor<2> {
    let TextConfig { heads, kv_heads, head_width, epsilon, .. } = *config;
    let normal = rms_norm(x.clone(), pass.vector(layer.norm1), epsilon);
    let split = |x: Tensor<2>, heads: usize| {
        let tokens = x.dims()[0] / batch.size;
        x.reshape([batch.size, tokens, heads, head_width])
    };
    let keys = split(pass.linear(&layer.k, normal.clone()), kv_heads);
    let keys = batch.rope.turn(head_norm(keys, pass.vector(layer.k_norm), epsilon));
    let values = split(pass.linear(&layer.v, normal.clone()), kv_heads);
    let [keys, values] = remember(memory, index, [keys, values]);
    let (x, normal, rope, look) = match wanted {
        Wanted::All => (x, normal, batch.rope.clone(), batch.attend.clone()),
        Wanted::LastOf(last) => {
            let rows = indices(last.iter().enumerate().map(|(b, token)| b * batch.tokens + token), device);
            let look = batch.attend.of_last(last, batch.tokens, keys.dims()[1], device);
            (x.select(0, rows.clone()), normal.select(0, rows), batch.rope.at(last, batch.tokens), look)
        }
    };
    let count = x.dims()[0];
    let queries = split(pass.linear(&layer.q, normal), heads);
    let queries = rope.turn(head_norm(queries, pass.vector(layer.q_norm), epsilon));
    let mixed = attend(queries, keys, values, &look).reshape([count, heads * head_width]);
    let x = x + pass.linear(&layer.o, mixed);
    let normal = rms_norm(x.clone(), pass.vector(layer.norm2), epsilon);
    let inner = swiglu(pass.linear(&layer.gate, normal.clone()), pass.linear(&layer.up, normal));
    x + pass.linear(&layer.down, inner)
}

/// Keys and values with those of earlier tokens before them; remembered, if there is a memory.
fn remember(memory: Option<&mut Memory>, index: usize, new: [Tensor<4>; 2]) -> [Tensor<4>; 2] {
    let Some(memory) = memory else { return new };
    match memory.layers.get_mut(index) {
        Some(old) => {
            let [old_keys, old_values] = old.clone();
            let [keys, values] = new;
            *old = [Tensor::cat(vec![old_keys, keys], 1), Tensor::cat(vec![old_values, values], 1)];
            old.clone()
        }
        None => {
            memory.layers.push(new.clone());
            new
        }
    }
}
