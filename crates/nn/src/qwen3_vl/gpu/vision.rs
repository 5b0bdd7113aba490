//! The vision tower on a GPU.

use std::borrow::Cow;

use cudarc::driver::CudaSlice;
use half::bf16;

use super::super::cache::ScoreCache;
use super::super::config::VisionConfig;
use super::super::patches::VisualKind;
use super::super::vision::{EPSILON, Windows, angles, corners};
use super::engine::{Attention, Engine, heads_of};
use super::frame_cache::{FrameCache, HashedPair};
use super::lists::{List, Lists};
use super::parameters::{Block, LayerNorm, Merger};
use crate::gpu::Address;
use crate::gpu::Epilogue;
use crate::gpu::GpuError;
use crate::gpu::{Arg, LaunchShape};

/// A pair of frames.
#[derive(Clone, Copy, Debug)]
pub(super) struct FramePair<'a> {
    pub(super) kind: VisualKind,
    /// Rows and columns of patches.
    pub(super) sides: [usize; 2],
    pub(super) bytes: &'a [u8],
}

impl FramePair<'_> {
    /// Its bytes in the order that the tower takes patches of `len` bytes in.
    fn ordered(&self, windows: Option<&Windows>, merged: usize, len: usize) -> Cow<'_, [u8]> {
        match windows {
            Some(windows) => {
                let patches = windows.patches(merged).flat_map(|patch| &self.bytes[patch * len..][..len]);
                Cow::Owned(patches.copied().collect())
            }
            None => Cow::Borrowed(self.bytes),
        }
    }

    pub(super) fn patches(&self) -> usize {
        self.sides.iter().product()
    }
}

/// Positions of an image's patches, which depend on its size only.
pub(super) struct PatchPositions {
    /// Learned positions, if the tower has some.
    pub(super) learned: Option<CudaSlice<u16>>,
    /// Cosine and sine of each patch's angles.
    pub(super) cos_sin: CudaSlice<f32>,
}

/// Pairs of one kind and size that go through the tower together.
struct Group {
    sides: [usize; 2],
    /// Patches of a pair, and of all.
    per_pair: usize,
    count: usize,
    /// The first row of the tokens among the visual embeddings, and how many rows those have.
    first: usize,
    visual_rows: usize,
    visual_embeds: Address,
    /// Patches that attend to one another: those of a pair, and within windows.
    pairs: Spans,
    windows: Option<Spans>,
    /// Where the tokens are in the order of windows.
    places: Address,
}

/// Patches that attend to one another.
#[derive(Clone, Copy)]
struct Spans {
    /// First patches and lengths.
    starts: Address,
    lengths: Address,
    count: usize,
    longest: usize,
}

/// First patches of spans that follow one another.
fn starts_of(lengths: &[usize]) -> impl Iterator<Item = usize> {
    lengths.iter().scan(0, |next, length| {
        let start = *next;
        *next += length;
        Some(start)
    })
}

impl Engine {
    /// Encodes frame pairs that are not cached, and copies those that are. The tokens of each begin at the
    /// row that is returned for it, among `visual_rows`.
    pub(super) fn encode_uncached(
        &mut self,
        pairs: &[FramePair<'_>],
        fingerprints: &[u64],
        visual_rows: usize,
        cache: &mut ScoreCache,
        mean_and_std: impl Fn(VisualKind) -> [[f32; 2]; 3],
    ) -> Result<Vec<usize>, GpuError> {
        let (merged, width) = (self.config.vision.merged(), self.config.text.width);
        let levels = 1 + self.config.vision.deepstack.len();
        let hashed: Vec<HashedPair<'_>> = pairs
            .iter()
            .zip(fingerprints)
            .map(|(pair, fingerprint)| HashedPair {
                pair: *pair,
                fingerprint: *fingerprint,
                rows: pair.patches() / merged,
            })
            .collect();
        // Pairs mostly have one size; that of the largest says how many there is room for.
        let size = |pair: &HashedPair<'_>| {
            (pair.rows, pair.rows * levels * width * size_of::<u16>() + pair.pair.bytes.len())
        };
        let (most_rows, bytes) = hashed.iter().map(size).max().unwrap_or_default();
        let room = cache.max_pairs(bytes) * most_rows;
        if room == 0 {
            return self.encode_pairs(pairs, visual_rows, mean_and_std);
        }
        cache.frame_cache.open(&self.gpu, room, levels * width)?;
        let found: Vec<Option<usize>> = hashed.iter().map(|pair| cache.frame_cache.find(pair)).collect();
        let new: Vec<usize> = (0..pairs.len()).filter(|i| found[*i].is_none()).collect();
        let mut firsts = vec![usize::MAX; pairs.len()];
        let uncached: Vec<FramePair<'_>> = new.iter().map(|i| pairs[*i]).collect();
        let visual_embeds = self.encode_pairs(&uncached, visual_rows, mean_and_std)?;
        new.iter().zip(visual_embeds).for_each(|(i, row)| firsts[*i] = row);
        let new_rows: usize = new.iter().map(|i| hashed[*i].rows).sum();
        let mut kept = Vec::with_capacity(visual_rows - new_rows);
        for (i, first) in found.iter().enumerate().filter_map(|(i, first)| Some((i, (*first)?))) {
            firsts[i] = new_rows + kept.len();
            kept.extend(first..first + hashed[i].rows);
        }
        self.copy_cached(&cache.frame_cache, &kept, new_rows, visual_rows)?;
        let mut order = new;
        order.sort_by_key(|i| firsts[*i]);
        let order: Vec<HashedPair<'_>> = order.into_iter().map(|i| hashed[i]).collect();
        self.cache_embeds(&mut cache.frame_cache, &order, visual_rows)?;
        Ok(firsts)
    }

    /// Copies cached rows to the visual embeddings, from row `to` on.
    fn copy_cached(
        &mut self,
        frame_cache: &FrameCache,
        rows: &[usize],
        to: usize,
        visual_rows: usize,
    ) -> Result<(), GpuError> {
        let mut lists = Lists::default();
        let list = lists.add(rows.iter().copied());
        let base = self.buffers.lists.put(&self.gpu, lists.numbers())?;
        let visual_embeds = self.buffers.visual_embeds.of(&self.gpu, 0)?;
        let width = self.config.text.width;
        for level in 0..=self.config.vision.deepstack.len() {
            let from = frame_cache.at(&self.gpu, level, 0, width);
            let to = visual_embeds.plus((level * visual_rows + to) * width);
            self.take_rows(from, list.at(base), to, rows.len(), width)?;
        }
        Ok(())
    }

    /// Copies rows of pairs that were just encoded to the cache.
    fn cache_embeds(
        &mut self,
        frame_cache: &mut FrameCache,
        pairs: &[HashedPair<'_>],
        visual_rows: usize,
    ) -> Result<(), GpuError> {
        let (rows, place) = frame_cache.keep(pairs);
        let visual_embeds = self.buffers.visual_embeds.of(&self.gpu, 0)?;
        let width = self.config.text.width;
        for level in 0..=self.config.vision.deepstack.len() {
            let from = visual_embeds.plus((level * visual_rows + rows.start) * width);
            let to = frame_cache.at(&self.gpu, level, place, width);
            self.take_rows(from, Address::NONE, to, rows.len(), width)?;
        }
        Ok(())
    }

    /// Rows that lie one after another, or of `rows` those it names.
    fn take_rows(
        &mut self,
        from: Address,
        rows: Address,
        to: Address,
        count: usize,
        width: usize,
    ) -> Result<(), GpuError> {
        let stride = Arg::Int(width as i32);
        let args = [Arg::At(from), stride, Arg::At(rows), Arg::At(to), stride, stride];
        self.gpu.run("take_rows", LaunchShape::rows(count, width), &args)
    }

    /// Encodes frame pairs. The tokens of each begin at the row that is returned for it, among `visual_rows`, of which they
    /// are the first.
    pub(super) fn encode_pairs(
        &mut self,
        pairs: &[FramePair<'_>],
        visual_rows: usize,
        mean_and_std: impl Fn(VisualKind) -> [[f32; 2]; 3],
    ) -> Result<Vec<usize>, GpuError> {
        let merged = self.config.vision.merged();
        let levels = 1 + self.config.vision.deepstack.len();
        self.buffers.visual_embeds.of(&self.gpu, levels * visual_rows * self.config.text.width)?;
        let mut firsts = vec![usize::MAX; pairs.len()];
        let mut row = 0;
        while let Some(first) = firsts.iter().position(|row| *row == usize::MAX) {
            let FramePair { kind, sides, .. } = pairs[first];
            let is_alike = |i: &usize| pairs[*i].kind == kind && pairs[*i].sides == sides;
            let alike: Vec<usize> = (first..pairs.len()).filter(is_alike).collect();
            let start = row;
            for i in &alike {
                firsts[*i] = row;
                row += pairs[*i].patches() / merged;
            }
            let alike: Vec<&FramePair<'_>> = alike.iter().map(|i| &pairs[*i]).collect();
            self.encode_same_size(&alike, mean_and_std(kind), start, visual_rows)?;
        }
        Ok(firsts)
    }

    fn encode_same_size(
        &mut self,
        pairs: &[&FramePair<'_>],
        mean_and_std: [[f32; 2]; 3],
        first: usize,
        visual_rows: usize,
    ) -> Result<(), GpuError> {
        let (sides, per_pair) = (pairs[0].sides, pairs[0].patches());
        self.prepare_positions(sides)?;
        let mut lists = Lists::default();
        let mut spans = |lengths: &[usize]| {
            let starts = lists.add(starts_of(lengths));
            let longest = lengths.iter().copied().max().unwrap_or(0);
            (starts, lists.add(lengths.iter().copied()), longest)
        };
        let windows = Windows::new(&self.config.vision, sides);
        let of_pairs = spans(&vec![per_pair; pairs.len()]);
        let of_windows = windows.as_ref().map(|windows| spans(&windows.lengths.repeat(pairs.len())));
        let places = windows.as_ref().map(|windows| windows.places_of_pairs(pairs.len()));
        let places = lists.add(places.unwrap_or_default());
        let base = self.buffers.lists.put(&self.gpu, lists.numbers())?;
        let at = |(starts, lengths, longest): (List, List, usize)| Spans {
            starts: starts.at(base),
            lengths: lengths.at(base),
            count: starts.len,
            longest,
        };
        let group = Group {
            sides,
            per_pair,
            count: pairs.len() * per_pair,
            first,
            visual_rows,
            visual_embeds: self.buffers.visual_embeds.of(&self.gpu, 0)?,
            pairs: at(of_pairs),
            windows: of_windows.map(at),
            places: places.at(base),
        };
        let x = self.patches(pairs, windows.as_ref(), mean_and_std, &group)?;
        for i in 0..self.parameters.blocks.len() {
            let block = self.parameters.blocks[i];
            let windows = group.windows.filter(|_| !self.config.vision.attends_fully(i));
            self.block(&block, x, &group, windows.unwrap_or(group.pairs))?;
            if let Some(level) = self.config.vision.deepstack.iter().position(|deep| *deep == i) {
                let merger = self.parameters.deepstack[level];
                let VisionConfig { width, .. } = self.config.vision;
                let merged = self.config.vision.merged();
                let normal = self.normal(&merger.norm, x, group.count / merged, width * merged)?;
                self.merge(&merger, normal, level + 1, &group)?;
            }
        }
        let merger = self.parameters.merger;
        let normal = self.normal(&merger.norm, x, group.count, self.config.vision.width)?;
        self.merge(&merger, normal, 0, &group)
    }

    /// Pixels to numbers `[patches, width]` with their learned positions.
    fn patches(
        &mut self,
        pairs: &[&FramePair<'_>],
        windows: Option<&Windows>,
        mean_and_std: [[f32; 2]; 3],
        group: &Group,
    ) -> Result<Address, GpuError> {
        let (width, len) = (self.config.vision.width, self.config.vision.patch_len());
        let merged = self.config.vision.merged();
        let parts: Vec<Cow<'_, [u8]>> = pairs.iter().map(|pair| pair.ordered(windows, merged, len)).collect();
        let parts: Vec<&[u8]> = parts.iter().map(|part| &part[..]).collect();
        let bytes = self.buffers.bytes.put(&self.gpu, &parts)?;
        let total = group.count * len;
        let numbers = self.buffers.inner.of(&self.gpu, total)?;
        let args = [
            Arg::At(bytes),
            Arg::At(numbers),
            Arg::Count(total as u64),
            Arg::Int((len / 3) as i32),
            Arg::Colours(mean_and_std.map(|[mean, _]| mean)),
            Arg::Colours(mean_and_std.map(|[_, std_dev]| std_dev)),
        ];
        self.gpu.run("pixels", LaunchShape::eights(total), &args)?;
        let x = self.buffers.x.of(&self.gpu, group.count * width)?;
        let patch = self.parameters.patch;
        let mut epilogue = patch.with_bias(0);
        if let Some(learned) = &self.patch_positions[&group.sides].learned {
            let learned = self.gpu.address(learned);
            let args =
                [Arg::At(x), Arg::At(learned), Arg::Int(group.per_pair as i32), Arg::Int(width as i32)];
            self.gpu.run("repeat_rows", LaunchShape::rows(group.count, width), &args)?;
            epilogue = Epilogue::BiasAdd(patch.bias);
        }
        self.linear("patch matmul", patch, numbers, group.count, epilogue, x)?;
        Ok(x)
    }

    fn block(&mut self, block: &Block, x: Address, group: &Group, spans: Spans) -> Result<(), GpuError> {
        let VisionConfig { width, heads, .. } = self.config.vision;
        let count = group.count;
        let normal = self.normal(&block.norm1, x, count, width)?;
        let qkv = self.buffers.qkv.of(&self.gpu, count * 3 * width)?;
        self.linear("vision qkv matmul", block.qkv, normal, count, Epilogue::Bias(block.qkv.bias), qkv)?;
        let cos_sin = self.gpu.address(&self.patch_positions[&group.sides].cos_sin);
        let args = [
            Arg::At(qkv),
            Arg::Int((3 * width) as i32),
            Arg::Int((2 * heads) as i32),
            Arg::At(cos_sin),
            Arg::Int(group.per_pair as i32),
        ];
        self.gpu.run("turn_vision", heads_of(count, 2 * heads), &args)?;
        let mixed = self.buffers.mixed.of(&self.gpu, count * width)?;
        self.attend(&Attention {
            kernel: "attend_vision",
            q: qkv,
            q_stride: 3 * width,
            k: qkv.plus(width),
            v: qkv.plus(2 * width),
            k_stride: 3 * width,
            v_stride: 3 * width,
            out: mixed,
            out_stride: width,
            log_sums: Address::NONE,
            heads,
            kv_heads: heads,
            head_width: width / heads,
            lists: [spans.starts, spans.lengths, spans.starts, spans.lengths],
            sequences: spans.count,
            longest: spans.longest,
            prefix: (Address::NONE, Address::NONE, 0, 0),
        })?;
        self.linear("vision proj matmul", block.proj, mixed, count, Epilogue::BiasAdd(block.proj.bias), x)?;
        let normal = self.normal(&block.norm2, x, count, width)?;
        let mut hidden = self.buffers.inner.of(&self.gpu, count * block.fc1.outputs)?;
        let bias = block.fc1.bias;
        let epilogue = if block.is_gated { Epilogue::Bias(bias) } else { Epilogue::BiasGelu(bias) };
        self.linear("vision fc1 matmul", block.fc1, normal, count, epilogue, hidden)?;
        if block.is_gated {
            let inner = block.fc2.inputs;
            let gated = self.buffers.gated.of(&self.gpu, count * inner)?;
            let args = [Arg::At(hidden), Arg::At(gated), Arg::Int(inner as i32), Arg::Int(inner as i32)];
            self.gpu.run("swiglu", LaunchShape::rows(count, inner), &args)?;
            hidden = gated;
        }
        self.linear("vision fc2 matmul", block.fc2, hidden, count, Epilogue::BiasAdd(block.fc2.bias), x)
    }

    fn normal(
        &mut self,
        norm: &LayerNorm,
        x: Address,
        rows: usize,
        width: usize,
    ) -> Result<Address, GpuError> {
        let y = self.buffers.normal.of(&self.gpu, rows * width)?;
        let args = [
            Arg::At(x),
            Arg::At(norm.scale),
            Arg::At(norm.shift),
            Arg::At(y),
            Arg::Int(width as i32),
            Arg::Int(rows as i32),
            Arg::Float(EPSILON as f32),
        ];
        let kernel = if width == self.config.vision.width { "layer_norm" } else { "layer_norm_merged" };
        self.gpu.run(kernel, LaunchShape::warps(rows), &args)?;
        Ok(y)
    }

    /// Squares of patches, normalised, to tokens: a level of the visual embeddings.
    fn merge(
        &mut self,
        merger: &Merger,
        normal: Address,
        level: usize,
        group: &Group,
    ) -> Result<(), GpuError> {
        let rows = group.count / self.config.vision.merged();
        let hidden = self.buffers.inner.of(&self.gpu, rows * merger.fc1.outputs)?;
        self.linear("merger matmuls", merger.fc1, normal, rows, Epilogue::Bias(merger.fc1.bias), hidden)?;
        let count = rows * merger.fc1.outputs;
        self.gpu.run("gelu", LaunchShape::eights(count), &[Arg::At(hidden), Arg::Count(count as u64)])?;
        let width = self.config.text.width;
        let y = group.visual_embeds.plus((level * group.visual_rows + group.first) * width);
        let bias = Epilogue::Bias(merger.fc2.bias);
        if group.windows.is_none() {
            return self.linear("merger matmuls", merger.fc2, hidden, rows, bias, y);
        }
        let windowed = self.buffers.qkv.of(&self.gpu, rows * width)?;
        self.linear("merger matmuls", merger.fc2, hidden, rows, bias, windowed)?;
        self.take_rows(windowed, group.places, y, rows, width)
    }

    /// Computes positions and angles of images of a size, once.
    pub(super) fn prepare_positions(&mut self, sides: [usize; 2]) -> Result<(), GpuError> {
        if self.patch_positions.contains_key(&sides) {
            return Ok(());
        }
        let vision = &self.config.vision;
        let learned = vision.positions.map(|side| self.learned_positions(side, sides));
        let cos_sin: Vec<f32> =
            angles(vision, sides).iter().flat_map(|angle| [angle.cos(), angle.sin()]).collect();
        let failed = || GpuError::failed("copying to the GPU");
        let learned =
            learned.map(|learned| self.gpu.stream.clone_htod(&learned).map_err(failed())).transpose()?;
        let cos_sin = self.gpu.stream.clone_htod(&cos_sin).map_err(failed())?;
        self.patch_positions.insert(sides, PatchPositions { learned, cos_sin });
        Ok(())
    }

    /// The learned positions of an image's patches, between those of the learned square.
    fn learned_positions(&self, side: usize, sides: [usize; 2]) -> Vec<u16> {
        let vision = &self.config.vision;
        let (corners, shares) = corners(vision.merge, side, sides);
        let mut learned = vec![0.0f32; sides[0] * sides[1] * vision.width];
        for (i, (corner, share)) in corners.iter().zip(&shares).enumerate() {
            let row = &mut learned[i / 4 * vision.width..][..vision.width];
            let from = &self.parameters.positions[corner * vision.width..][..vision.width];
            row.iter_mut().zip(from).for_each(|(sum, number)| *sum += share * number);
        }
        learned.iter().map(|number| bf16::from_f32(*number).to_bits()).collect()
    }
}
