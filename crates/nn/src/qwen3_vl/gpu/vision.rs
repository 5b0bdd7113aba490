//! The vision tower on a GPU.

use cudarc::driver::CudaSlice;
use half::bf16;

use super::super::cache::ScoreCache;
use super::super::config::VisionConfig;
use super::super::patches::Kind;
use super::super::vision::{angles, corners};
use super::device::{Arg, Shape};
use super::engine::{Attention, Engine, heads_of};
use super::error::GpuError;
use super::memory::{Address, Lists};
use super::parameters::{Block, LayerNorm, Merger};
use super::product::Finish;
use super::shelf::{Marked, Shelf};

const EPSILON: f32 = 1e-6;

/// A pair of frames.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pair<'a> {
    pub(super) kind: Kind,
    /// Rows and columns of patches.
    pub(super) sides: [usize; 2],
    pub(super) bytes: &'a [u8],
}

impl Pair<'_> {
    pub(super) fn patches(&self) -> usize {
        self.sides.iter().product()
    }
}

/// What is known of a picture's patches before it is seen.
pub(super) struct Places {
    /// Learned positions.
    learned: CudaSlice<u16>,
    /// Cosine and sine of each patch's angles.
    turns: CudaSlice<f32>,
}

/// Pairs of one kind and size that go through the tower together.
struct Group {
    sides: [usize; 2],
    /// Patches of a pair, and of all.
    per_pair: usize,
    count: usize,
    /// Where the tokens go among those seen, and how many rows all have that are seen.
    first: usize,
    seen_rows: usize,
    seen: Address,
    /// First patches and lengths of pairs.
    starts: Address,
    lengths: Address,
}

impl Engine {
    /// Sees pairs of frames that are not kept, and takes those that are from where they are. The tokens of each begin at the
    /// row that is returned for it, among `seen_rows`.
    pub(super) fn see_new(
        &mut self,
        pairs: &[Pair<'_>],
        marks: &[u64],
        seen_rows: usize,
        cache: &mut ScoreCache,
        rules: impl Fn(Kind) -> [[f32; 2]; 3],
    ) -> Result<Vec<usize>, GpuError> {
        let (merged, width) = (self.config.vision.merged(), self.config.text.width);
        let levels = 1 + self.config.vision.deepstack.len();
        let marked: Vec<Marked<'_>> = pairs
            .iter()
            .zip(marks)
            .map(|(pair, mark)| Marked { pair: *pair, mark: *mark, rows: pair.patches() / merged })
            .collect();
        // Pairs mostly have one size; that of the largest says how many there is room for.
        let size = |pair: &Marked<'_>| {
            (pair.rows, pair.rows * levels * width * size_of::<u16>() + pair.pair.bytes.len())
        };
        let (most_rows, bytes) = marked.iter().map(size).max().unwrap_or_default();
        let room = cache.room_for(bytes) * most_rows;
        if room == 0 {
            return self.see(pairs, seen_rows, rules);
        }
        cache.shelf.open(&self.gpu, room, levels * width)?;
        let found: Vec<Option<usize>> = marked.iter().map(|pair| cache.shelf.find(pair)).collect();
        let fresh: Vec<usize> = (0..pairs.len()).filter(|i| found[*i].is_none()).collect();
        let mut firsts = vec![usize::MAX; pairs.len()];
        let unseen: Vec<Pair<'_>> = fresh.iter().map(|i| pairs[*i]).collect();
        let seen = self.see(&unseen, seen_rows, rules)?;
        fresh.iter().zip(seen).for_each(|(i, row)| firsts[*i] = row);
        let fresh_rows: usize = fresh.iter().map(|i| marked[*i].rows).sum();
        let mut kept = Vec::with_capacity(seen_rows - fresh_rows);
        for (i, first) in found.iter().enumerate().filter_map(|(i, first)| Some((i, (*first)?))) {
            firsts[i] = fresh_rows + kept.len();
            kept.extend(first..first + marked[i].rows);
        }
        self.take_kept(&cache.shelf, &kept, fresh_rows, seen_rows)?;
        let mut order = fresh;
        order.sort_by_key(|i| firsts[*i]);
        let order: Vec<Marked<'_>> = order.into_iter().map(|i| marked[i]).collect();
        self.keep_seen(&mut cache.shelf, &order, seen_rows)?;
        Ok(firsts)
    }

    /// Copies rows of the shelf to what is seen, from row `to` on.
    fn take_kept(
        &mut self,
        shelf: &Shelf,
        rows: &[usize],
        to: usize,
        seen_rows: usize,
    ) -> Result<(), GpuError> {
        let mut lists = Lists::default();
        let list = lists.add(rows.iter().copied());
        let base = self.space.lists.put(&self.gpu, lists.numbers())?;
        let seen = self.space.seen.of(&self.gpu, 0)?;
        let width = self.config.text.width;
        for level in 0..=self.config.vision.deepstack.len() {
            let from = shelf.at(&self.gpu, level, 0, width);
            let to = seen.plus((level * seen_rows + to) * width);
            self.take_rows(from, list.at(base), to, rows.len(), width)?;
        }
        Ok(())
    }

    /// Copies rows of pairs that were just seen to the shelf.
    fn keep_seen(
        &mut self,
        shelf: &mut Shelf,
        pairs: &[Marked<'_>],
        seen_rows: usize,
    ) -> Result<(), GpuError> {
        let (rows, place) = shelf.keep(pairs);
        let seen = self.space.seen.of(&self.gpu, 0)?;
        let width = self.config.text.width;
        for level in 0..=self.config.vision.deepstack.len() {
            let from = seen.plus((level * seen_rows + rows.start) * width);
            let to = shelf.at(&self.gpu, level, place, width);
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
        self.gpu.run("take_rows", Shape::rows(count, width), &args)
    }

    /// Sees pairs of frames. The tokens of each begin at the row that is returned for it, among `seen_rows`, of which they
    /// are the first.
    pub(super) fn see(
        &mut self,
        pairs: &[Pair<'_>],
        seen_rows: usize,
        rules: impl Fn(Kind) -> [[f32; 2]; 3],
    ) -> Result<Vec<usize>, GpuError> {
        let merged = self.config.vision.merged();
        let levels = 1 + self.config.vision.deepstack.len();
        self.space.seen.of(&self.gpu, levels * seen_rows * self.config.text.width)?;
        let mut firsts = vec![usize::MAX; pairs.len()];
        let mut row = 0;
        while let Some(first) = firsts.iter().position(|row| *row == usize::MAX) {
            let Pair { kind, sides, .. } = pairs[first];
            let is_alike = |i: &usize| pairs[*i].kind == kind && pairs[*i].sides == sides;
            let alike: Vec<usize> = (first..pairs.len()).filter(is_alike).collect();
            let start = row;
            for i in &alike {
                firsts[*i] = row;
                row += pairs[*i].patches() / merged;
            }
            let alike: Vec<&Pair<'_>> = alike.iter().map(|i| &pairs[*i]).collect();
            self.see_alike(&alike, rules(kind), start, seen_rows)?;
        }
        Ok(firsts)
    }

    fn see_alike(
        &mut self,
        pairs: &[&Pair<'_>],
        rules: [[f32; 2]; 3],
        first: usize,
        seen_rows: usize,
    ) -> Result<(), GpuError> {
        let (sides, per_pair) = (pairs[0].sides, pairs[0].patches());
        self.know_places(sides)?;
        let mut lists = Lists::default();
        let starts = lists.add((0..pairs.len()).map(|i| i * per_pair));
        let lengths = lists.add(std::iter::repeat_n(per_pair, pairs.len()));
        let base = self.space.lists.put(&self.gpu, lists.numbers())?;
        let group = Group {
            sides,
            per_pair,
            count: pairs.len() * per_pair,
            first,
            seen_rows,
            seen: self.space.seen.of(&self.gpu, 0)?,
            starts: starts.at(base),
            lengths: lengths.at(base),
        };
        let x = self.patches(pairs, rules, &group)?;
        for i in 0..self.parameters.blocks.len() {
            let block = self.parameters.blocks[i];
            self.block(&block, x, &group)?;
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
        pairs: &[&Pair<'_>],
        rules: [[f32; 2]; 3],
        group: &Group,
    ) -> Result<Address, GpuError> {
        let (width, len) = (self.config.vision.width, self.config.vision.patch_len());
        let parts: Vec<&[u8]> = pairs.iter().map(|pair| pair.bytes).collect();
        let bytes = self.space.bytes.put(&self.gpu, &parts)?;
        let total = group.count * len;
        let numbers = self.space.inner.of(&self.gpu, total)?;
        let args = [
            Arg::At(bytes),
            Arg::At(numbers),
            Arg::Count(total as u64),
            Arg::Int((len / 3) as i32),
            Arg::Colours(rules.map(|[mean, _]| mean)),
            Arg::Colours(rules.map(|[_, spread]| spread)),
        ];
        self.gpu.run("pixels", Shape::eights(total), &args)?;
        let x = self.space.x.of(&self.gpu, group.count * width)?;
        let learned = self.gpu.address(&self.places[&group.sides].learned);
        let args = [Arg::At(x), Arg::At(learned), Arg::Int(group.per_pair as i32), Arg::Int(width as i32)];
        self.gpu.run("repeat_rows", Shape::rows(group.count, width), &args)?;
        let patch = self.parameters.patch;
        self.linear("patch product", patch, numbers, group.count, Finish::BiasAdd(patch.bias), x)?;
        Ok(x)
    }

    fn block(&mut self, block: &Block, x: Address, group: &Group) -> Result<(), GpuError> {
        let VisionConfig { width, heads, inner, .. } = self.config.vision;
        let count = group.count;
        let normal = self.normal(&block.norm1, x, count, width)?;
        let qkv = self.space.qkv.of(&self.gpu, count * 3 * width)?;
        self.linear("vision qkv product", block.qkv, normal, count, Finish::Bias(block.qkv.bias), qkv)?;
        let turns = self.gpu.address(&self.places[&group.sides].turns);
        let args = [
            Arg::At(qkv),
            Arg::Int((3 * width) as i32),
            Arg::Int((2 * heads) as i32),
            Arg::At(turns),
            Arg::Int(group.per_pair as i32),
        ];
        self.gpu.run("turn_vision", heads_of(count, 2 * heads), &args)?;
        let mixed = self.space.mixed.of(&self.gpu, count * width)?;
        self.attend(&Attention {
            kernel: "attend_vision",
            q: qkv,
            q_stride: 3 * width,
            k: qkv.plus(width),
            v: qkv.plus(2 * width),
            kv_stride: 3 * width,
            out: mixed,
            heads,
            kv_heads: heads,
            head_width: width / heads,
            lists: [group.starts, group.lengths, group.starts, group.lengths],
            sequences: count / group.per_pair,
            longest: group.per_pair,
            prefix: (Address::NONE, Address::NONE, 0, 0),
        })?;
        self.linear("vision proj product", block.proj, mixed, count, Finish::BiasAdd(block.proj.bias), x)?;
        let normal = self.normal(&block.norm2, x, count, width)?;
        let hidden = self.space.inner.of(&self.gpu, count * inner)?;
        self.linear(
            "vision fc1 product",
            block.fc1,
            normal,
            count,
            Finish::BiasGelu(block.fc1.bias),
            hidden,
        )?;
        self.linear("vision fc2 product", block.fc2, hidden, count, Finish::BiasAdd(block.fc2.bias), x)
    }

    fn normal(
        &mut self,
        norm: &LayerNorm,
        x: Address,
        rows: usize,
        width: usize,
    ) -> Result<Address, GpuError> {
        let y = self.space.normal.of(&self.gpu, rows * width)?;
        let args = [
            Arg::At(x),
            Arg::At(norm.scale),
            Arg::At(norm.shift),
            Arg::At(y),
            Arg::Int(rows as i32),
            Arg::Float(EPSILON),
        ];
        let kernel = if width == self.config.vision.width { "layer_norm" } else { "layer_norm_merged" };
        self.gpu.run(kernel, Shape::warps(rows), &args)?;
        Ok(y)
    }

    /// Squares of patches, normalised, to tokens: a level of what is seen.
    fn merge(
        &mut self,
        merger: &Merger,
        normal: Address,
        level: usize,
        group: &Group,
    ) -> Result<(), GpuError> {
        let rows = group.count / self.config.vision.merged();
        let hidden = self.space.inner.of(&self.gpu, rows * merger.fc1.outputs)?;
        self.linear("merger products", merger.fc1, normal, rows, Finish::Bias(merger.fc1.bias), hidden)?;
        let count = rows * merger.fc1.outputs;
        self.gpu.run("gelu", Shape::eights(count), &[Arg::At(hidden), Arg::Count(count as u64)])?;
        let y = group.seen.plus((level * group.seen_rows + group.first) * self.config.text.width);
        self.linear("merger products", merger.fc2, hidden, rows, Finish::Bias(merger.fc2.bias), y)
    }

    /// Works out positions and angles of pictures of a size, once.
    fn know_places(&mut self, sides: [usize; 2]) -> Result<(), GpuError> {
        if self.places.contains_key(&sides) {
            return Ok(());
        }
        let vision = &self.config.vision;
        let (corners, shares) = corners(vision, sides);
        let mut learned = vec![0.0f32; sides[0] * sides[1] * vision.width];
        for (i, (corner, share)) in corners.iter().zip(&shares).enumerate() {
            let row = &mut learned[i / 4 * vision.width..][..vision.width];
            let from = &self.parameters.positions[corner * vision.width..][..vision.width];
            row.iter_mut().zip(from).for_each(|(sum, number)| *sum += share * number);
        }
        let learned: Vec<u16> = learned.iter().map(|number| bf16::from_f32(*number).to_bits()).collect();
        let turns: Vec<f32> =
            angles(vision, sides).iter().flat_map(|angle| [angle.cos(), angle.sin()]).collect();
        let failed = || GpuError::failed("copying to the GPU");
        let learned = self.gpu.stream.clone_htod(&learned).map_err(failed())?;
        let turns = self.gpu.stream.clone_htod(&turns).map_err(failed())?;
        self.places.insert(sides, Places { learned, turns });
        Ok(())
    }
}
