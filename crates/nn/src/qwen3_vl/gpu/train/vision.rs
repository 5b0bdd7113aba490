//! The vision tower in training, if it has adapters: forward and backward.

use super::super::super::config::VisionConfig;
use super::super::super::patches::VisualKind;
use super::super::super::vision::EPSILON;
use super::super::engine::{Attention, heads_of};
use super::super::lists::Lists;
use super::super::parameters::LayerNorm;
use super::super::vision::FramePair;
use super::TrainEngine;
use super::activations::{Keep, Place, VisionActivations};
use super::attention::AttentionBackward;
use super::linear::{LoraLinear, Output, ProductNames, Rows};
use crate::gpu::{Address, Arg, Epilogue, GpuError, LaunchShape};

const PATCH: ProductNames = ProductNames { forward: "patch matmul", backward: "patch matmul backward" };
const BLOCK: ProductNames = ProductNames { forward: "vision matmuls", backward: "vision matmuls backward" };
const MERGER: ProductNames = ProductNames { forward: "merger matmuls", backward: "merger matmuls backward" };

/// A block of the tower.
#[derive(Clone, Debug)]
pub(super) struct VisionBlock {
    pub(super) norm1: LayerNorm,
    pub(super) qkv: LoraLinear,
    pub(super) proj: LoraLinear,
    pub(super) norm2: LayerNorm,
    pub(super) fc1: LoraLinear,
    pub(super) fc2: LoraLinear,
}

#[derive(Clone, Debug)]
pub(super) struct VisionMerger {
    pub(super) norm: LayerNorm,
    pub(super) fc1: LoraLinear,
    pub(super) fc2: LoraLinear,
}

/// The tower's layers with their adapters.
#[derive(Clone, Debug)]
pub(super) struct VisionLayers {
    pub(super) patch: LoraLinear,
    pub(super) blocks: Vec<VisionBlock>,
    /// The last merger, then those of deepstack levels.
    pub(super) mergers: Vec<VisionMerger>,
}

/// Pairs of frames of one kind and size.
struct PairGroup {
    sides: [usize; 2],
    per_pair: usize,
    pairs: usize,
    /// The first patch among all.
    first: usize,
    starts: Address,
    lengths: Address,
}

impl PairGroup {
    fn count(&self) -> usize {
        self.pairs * self.per_pair
    }
}

/// What the backward pass needs to know of the forward pass.
pub(super) struct VisionPass<'a> {
    groups: Vec<PairGroup>,
    activations: &'a VisionActivations,
    memory: Address,
    keep: Keep,
    pub(super) visual_rows: usize,
}

/// What is stored of a block for the pairs of a group.
#[derive(Clone, Copy)]
struct BlockAddresses {
    x: Address,
    qkv: Address,
    mixed: Address,
    log_sums: Address,
    middle: Address,
    inner: Address,
    h_qkv: Address,
    h_inner: Address,
    h_down: Address,
    /// What comes out of it.
    out: Address,
}

impl VisionPass<'_> {
    fn at(&self, place: Place) -> Address {
        place.at(self.memory)
    }

    fn block(
        &self,
        config: &VisionConfig,
        block: &VisionBlock,
        group: &PairGroup,
        i: usize,
    ) -> BlockAddresses {
        let stored = &self.activations.blocks[i];
        let rows = |place: Place, width: usize| self.at(place).plus(group.first * width);
        let width = config.width;
        let next = self.activations.blocks.get(i + 1).map_or(self.activations.last, |next| next.x);
        BlockAddresses {
            x: rows(stored.x, width),
            qkv: rows(stored.qkv, 3 * width),
            mixed: rows(stored.mixed, block.proj.base.stride()),
            log_sums: self.at(stored.log_sums).plus_ints(group.first * config.heads),
            middle: rows(stored.middle, width),
            inner: rows(stored.inner, config.inner),
            h_qkv: rows(stored.h_qkv, block.qkv.base.extra),
            h_inner: rows(stored.h_inner, block.fc1.base.extra),
            h_down: rows(stored.h_down, block.fc2.base.extra),
            out: rows(next, width),
        }
    }
}

impl TrainEngine {
    /// Encodes frame pairs and keeps what the backward pass needs. The tokens of each begin at the row that is returned for it.
    pub(super) fn vision_forward<'a>(
        &mut self,
        pairs: &[FramePair<'_>],
        activations: &'a VisionActivations,
        memory: Address,
        keep: Keep,
        mean_and_std: impl Fn(VisualKind) -> [[f32; 2]; 3],
    ) -> Result<(VisionPass<'a>, Vec<usize>), GpuError> {
        let merged = self.engine.config.vision.merged();
        let (order, firsts) = group_pairs(pairs, merged);
        let visual_rows: usize = pairs.iter().map(|pair| pair.patches() / merged).sum();
        let levels = 1 + self.engine.config.vision.deepstack.len();
        let width = self.engine.config.text.width;
        let engine = &mut self.engine;
        engine.buffers.visual_embeds.of(&engine.gpu, levels * visual_rows * width)?;
        let groups = self.pair_groups(pairs, &order)?;
        let pass = VisionPass { groups, activations, memory, keep, visual_rows };
        for (group, members) in pass.groups.iter().zip(&order) {
            let members: Vec<&FramePair<'_>> = members.iter().map(|i| &pairs[*i]).collect();
            self.group_forward(&pass, group, &members, mean_and_std(members[0].kind))?;
        }
        Ok((pass, firsts))
    }

    /// Where the attention of each group's pairs begins and ends, put on the GPU for both passes.
    fn pair_groups(
        &mut self,
        pairs: &[FramePair<'_>],
        order: &[Vec<usize>],
    ) -> Result<Vec<PairGroup>, GpuError> {
        let mut lists = Lists::default();
        let mut listed = Vec::with_capacity(order.len());
        for members in order {
            let per_pair = pairs[members[0]].patches();
            let starts = lists.add((0..members.len()).map(|i| i * per_pair));
            listed.push((starts, lists.add(std::iter::repeat_n(per_pair, members.len()))));
        }
        let base = self.pair_lists.put(&self.engine.gpu, lists.numbers())?;
        let mut first = 0;
        let mut groups = Vec::with_capacity(order.len());
        for (members, (starts, lengths)) in order.iter().zip(listed) {
            let (sides, per_pair) = (pairs[members[0]].sides, pairs[members[0]].patches());
            self.engine.prepare_positions(sides)?;
            let (starts, lengths) = (starts.at(base), lengths.at(base));
            let group = PairGroup { sides, per_pair, pairs: members.len(), first, starts, lengths };
            first += group.count();
            groups.push(group);
        }
        Ok(groups)
    }

    fn group_forward(
        &mut self,
        pass: &VisionPass<'_>,
        group: &PairGroup,
        pairs: &[&FramePair<'_>],
        mean_and_std: [[f32; 2]; 3],
    ) -> Result<(), GpuError> {
        let layers = self.vision.clone();
        let config = self.engine.config.vision.clone();
        self.patches_forward(pass, group, pairs, mean_and_std, &layers.patch)?;
        for (i, block) in layers.blocks.iter().enumerate() {
            let stored = pass.block(&config, block, group, i);
            self.block_forward(pass, group, block, &stored, true)?;
            if let Some(level) = config.deepstack.iter().position(|deep| *deep == i) {
                self.merger_forward(pass, group, &layers.mergers[level + 1], level + 1, stored.out)?;
            }
        }
        let last = pass.at(pass.activations.last).plus(group.first * config.width);
        self.merger_forward(pass, group, &layers.mergers[0], 0, last)
    }

    /// Pixels to what goes into the first block.
    fn patches_forward(
        &mut self,
        pass: &VisionPass<'_>,
        group: &PairGroup,
        pairs: &[&FramePair<'_>],
        mean_and_std: [[f32; 2]; 3],
        patch: &LoraLinear,
    ) -> Result<(), GpuError> {
        let (width, len) = (self.engine.config.vision.width, self.engine.config.vision.patch_len());
        let (count, stride) = (group.count(), patch.base.stride());
        let numbers = pass.at(pass.activations.pixels).plus(group.first * stride);
        let plain = if patch.base.extra > 0 { pass.at(pass.activations.plain) } else { numbers };
        let engine = &mut self.engine;
        let parts: Vec<&[u8]> = pairs.iter().map(|pair| pair.bytes).collect();
        let bytes = engine.buffers.bytes.put(&engine.gpu, &parts)?;
        let total = count * len;
        let args = [
            Arg::At(bytes),
            Arg::At(plain),
            Arg::Count(total as u64),
            Arg::Int((len / 3) as i32),
            Arg::Colours(mean_and_std.map(|[mean, _]| mean)),
            Arg::Colours(mean_and_std.map(|[_, std_dev]| std_dev)),
        ];
        engine.gpu.run("pixels", LaunchShape::eights(total), &args)?;
        let x = pass.at(pass.activations.blocks[0].x).plus(group.first * width);
        let learned = engine.patch_positions[&group.sides].learned.as_ref();
        let learned = learned.map_or(Address::NONE, |learned| engine.gpu.address(learned));
        let args = [Arg::At(x), Arg::At(learned), Arg::Int(group.per_pair as i32), Arg::Int(width as i32)];
        engine.gpu.run("repeat_rows", LaunchShape::rows(count, width), &args)?;
        if patch.base.extra > 0 {
            self.copy_rows(Rows::new(plain, len), Address::NONE, Rows::new(numbers, stride), count, len)?;
        }
        self.forward(PATCH, patch, numbers, count, Output::add(Epilogue::BiasAdd(patch.base.bias), x, x))
    }

    /// A block; `is_first` unless it is computed again for the backward pass.
    fn block_forward(
        &mut self,
        pass: &VisionPass<'_>,
        group: &PairGroup,
        block: &VisionBlock,
        stored: &BlockAddresses,
        is_first: bool,
    ) -> Result<(), GpuError> {
        let VisionConfig { width, heads, inner, .. } = self.engine.config.vision;
        let (count, scratch, none) = (group.count(), pass.activations.scratch, Address::NONE);
        let (normal, gated) = (pass.at(scratch.normal), pass.at(scratch.gated));
        self.layer_norm(&block.norm1, stored.x, Rows::new(normal, block.qkv.base.stride()), count, width)?;
        let bias = Epilogue::Bias(block.qkv.base.bias);
        self.forward(BLOCK, &block.qkv, normal, count, Output::new(bias, stored.qkv))?;
        self.copy_h(&block.qkv, normal, stored.h_qkv, count)?;
        let cos_sin = self.engine.gpu.address(&self.engine.patch_positions[&group.sides].cos_sin);
        let args = [
            Arg::At(stored.qkv),
            Arg::Int((3 * width) as i32),
            Arg::Int((2 * heads) as i32),
            Arg::At(cos_sin),
            Arg::Int(group.per_pair as i32),
        ];
        self.engine.gpu.run("turn_vision", heads_of(count, 2 * heads), &args)?;
        self.engine.attend(&Attention {
            kernel: "attend_vision",
            q: stored.qkv,
            q_stride: 3 * width,
            k: stored.qkv.plus(width),
            k_stride: 3 * width,
            v: stored.qkv.plus(2 * width),
            v_stride: 3 * width,
            out: stored.mixed,
            out_stride: block.proj.base.stride(),
            log_sums: stored.log_sums,
            heads,
            kv_heads: heads,
            head_width: width / heads,
            lists: [group.starts, group.lengths, group.starts, group.lengths],
            sequences: group.pairs,
            longest: group.per_pair,
            prefix: (none, none, 0, 0),
        })?;
        let bias = Epilogue::BiasAdd(block.proj.base.bias);
        self.forward(BLOCK, &block.proj, stored.mixed, count, Output::add(bias, stored.x, stored.middle))?;
        self.layer_norm(
            &block.norm2,
            stored.middle,
            Rows::new(normal, block.fc1.base.stride()),
            count,
            width,
        )?;
        let bias = Epilogue::Bias(block.fc1.base.bias);
        self.forward(BLOCK, &block.fc1, normal, count, Output::new(bias, stored.inner))?;
        self.copy_h(&block.fc1, normal, stored.h_inner, count)?;
        let fc2 = if is_first { block.fc2.clone() } else { block.fc2.without_outputs() };
        self.gelu("gelu_tanh", stored.inner, Rows::new(gated, block.fc2.base.stride()), count, inner)?;
        let bias = Epilogue::BiasAdd(fc2.base.bias);
        self.forward(BLOCK, &fc2, gated, count, Output::add(bias, stored.middle, stored.out))?;
        self.copy_h(&block.fc2, gated, stored.h_down, count)
    }

    fn layer_norm(
        &mut self,
        norm: &LayerNorm,
        x: Address,
        y: Rows,
        rows: usize,
        width: usize,
    ) -> Result<(), GpuError> {
        let args = [
            Arg::At(x),
            Arg::At(norm.scale),
            Arg::At(norm.shift),
            Arg::At(y.at),
            Arg::Int(y.stride as i32),
            Arg::Int(rows as i32),
            Arg::Float(EPSILON as f32),
        ];
        let is_narrow = width == self.engine.config.vision.width;
        let kernel = if is_narrow { "layer_norm" } else { "layer_norm_merged" };
        self.engine.gpu.run(kernel, LaunchShape::warps(rows), &args)
    }

    fn layer_norm_backward(
        &mut self,
        norm: &LayerNorm,
        x: Address,
        dy: Rows,
        dx: Address,
        adds: bool,
        [rows, width]: [usize; 2],
    ) -> Result<(), GpuError> {
        let args = [
            Arg::At(x),
            Arg::At(norm.scale),
            Arg::At(dy.at),
            Arg::Int(dy.stride as i32),
            Arg::At(dx),
            Arg::Int(i32::from(adds)),
            Arg::Int(rows as i32),
            Arg::Float(EPSILON as f32),
        ];
        let is_narrow = width == self.engine.config.vision.width;
        let kernel = if is_narrow { "layer_norm_backward" } else { "layer_norm_merged_backward" };
        self.engine.gpu.run(kernel, LaunchShape::warps(rows), &args)
    }

    /// GELU of rows, or its backward pass; see `backward.cu`.
    fn gelu(
        &mut self,
        kernel: &'static str,
        x: Address,
        y: Rows,
        rows: usize,
        width: usize,
    ) -> Result<(), GpuError> {
        let args = [Arg::At(x), Arg::At(y.at), Arg::Int(y.stride as i32), Arg::Int(width as i32)];
        self.engine.gpu.run(kernel, LaunchShape::rows(rows, width), &args)
    }

    /// Squares of patches to tokens: a level of the visual embeddings.
    fn merger_forward(
        &mut self,
        pass: &VisionPass<'_>,
        group: &PairGroup,
        merger: &VisionMerger,
        level: usize,
        x: Address,
    ) -> Result<(), GpuError> {
        let merge = self.merge_addresses(pass, group, merger, level);
        let (rows, wide) = (merge.rows, merge.wide);
        let normal = Rows::new(pass.at(pass.activations.merged), merger.fc1.base.stride());
        self.merger_norm(pass, group, merger, level, x, normal)?;
        let bias = Epilogue::Bias(merger.fc1.base.bias);
        self.forward(MERGER, &merger.fc1, normal.at, rows, Output::new(bias, merge.inner))?;
        self.copy_h(&merger.fc1, normal.at, merge.h_inner, rows)?;
        let act = pass.at(pass.activations.merged_inner);
        self.gelu("gelu_erf", merge.inner, Rows::new(act, merger.fc2.base.stride()), rows, wide)?;
        let engine = &mut self.engine;
        let embeds = engine.buffers.visual_embeds.of(&engine.gpu, 0)?;
        let y = embeds.plus((level * pass.visual_rows + merge.first) * engine.config.text.width);
        self.forward(MERGER, &merger.fc2, act, rows, Output::new(Epilogue::Bias(merger.fc2.base.bias), y))?;
        self.copy_h(&merger.fc2, act, merge.h_out, rows)
    }

    /// What goes into a merger's first product: the last one has norms of patches, the others of squares of them.
    fn merger_norm(
        &mut self,
        pass: &VisionPass<'_>,
        group: &PairGroup,
        merger: &VisionMerger,
        level: usize,
        x: Address,
        y: Rows,
    ) -> Result<(), GpuError> {
        let (width, merged) = (self.engine.config.vision.width, self.engine.config.vision.merged());
        let (rows, wide) = (group.count() / merged, width * merged);
        if level > 0 {
            return self.layer_norm(&merger.norm, x, y, rows, wide);
        }
        if y.stride == wide {
            return self.layer_norm(&merger.norm, x, Rows::new(y.at, width), group.count(), width);
        }
        let plain = pass.at(pass.activations.plain);
        self.layer_norm(&merger.norm, x, Rows::new(plain, width), group.count(), width)?;
        self.copy_rows(Rows::new(plain, wide), Address::NONE, y, rows, wide)
    }

    fn merge_addresses(
        &self,
        pass: &VisionPass<'_>,
        group: &PairGroup,
        merger: &VisionMerger,
        level: usize,
    ) -> MergeAddresses {
        let (width, merged) = (self.engine.config.vision.width, self.engine.config.vision.merged());
        let (first, wide) = (group.first / merged, width * merged);
        let stored = pass.activations.mergers[level];
        let rows = |place: Place, width: usize| pass.at(place).plus(first * width);
        MergeAddresses {
            rows: group.count() / merged,
            first,
            wide,
            inner: rows(stored.inner, wide),
            h_inner: rows(stored.h_inner, merger.fc1.base.extra),
            h_out: rows(stored.h_out, merger.fc2.base.extra),
        }
    }

    /// From the gradients of visual embeddings to those of the tower's adapters.
    pub(super) fn vision_backward(
        &mut self,
        pass: &VisionPass<'_>,
        d_visual: Address,
    ) -> Result<(), GpuError> {
        let layers = self.vision.clone();
        let config = self.engine.config.vision.clone();
        let dx = pass.at(pass.activations.scratch.dx);
        for group in &pass.groups {
            let last = pass.at(pass.activations.last).plus(group.first * config.width);
            self.merger_backward(pass, group, &layers.mergers[0], 0, last, d_visual)?;
            for (i, block) in layers.blocks.iter().enumerate().rev() {
                let stored = pass.block(&config, block, group, i);
                if let Some(level) = config.deepstack.iter().position(|deep| *deep == i) {
                    let merger = &layers.mergers[level + 1];
                    self.merger_backward(pass, group, merger, level + 1, stored.out, d_visual)?;
                }
                if pass.keep == Keep::LayerInputs {
                    self.block_forward(pass, group, block, &stored, false)?;
                }
                self.block_mlp_backward(pass, group, block, &stored)?;
                self.block_attention_backward(pass, group, block, &stored)?;
            }
            self.patches_backward(pass, group, &layers.patch, dx)?;
        }
        Ok(())
    }

    fn merger_backward(
        &mut self,
        pass: &VisionPass<'_>,
        group: &PairGroup,
        merger: &VisionMerger,
        level: usize,
        x: Address,
        d_visual: Address,
    ) -> Result<(), GpuError> {
        let merge = self.merge_addresses(pass, group, merger, level);
        let (rows, wide, width) = (merge.rows, merge.wide, self.engine.config.vision.width);
        let text_width = self.engine.config.text.width;
        let dy = Rows::new(d_visual.plus((level * pass.visual_rows + merge.first) * text_width), text_width);
        let act = Rows::new(pass.at(pass.activations.merged_inner), merger.fc2.base.stride());
        self.backward_input(MERGER, &merger.fc2, dy, rows, act.at, true)?;
        self.gelu("gelu_erf_backward", merge.inner, act, rows, wide)?;
        let h = Rows::new(merge.h_out, merger.fc2.base.extra);
        self.backward_adapters(&merger.fc2, act, h, act.columns_from(wide), dy, rows)?;
        let (dy, d_normal) = (
            Rows::new(merge.inner, wide),
            Rows::new(pass.at(pass.activations.merged), merger.fc1.base.stride()),
        );
        self.backward_input(MERGER, &merger.fc1, dy, rows, d_normal.at, true)?;
        let plain = Rows::new(pass.at(pass.activations.plain), wide);
        if merger.fc1.base.extra > 0 {
            self.merger_norm(pass, group, merger, level, x, plain)?;
            let h = Rows::new(merge.h_inner, merger.fc1.base.extra);
            self.backward_adapters(&merger.fc1, plain, h, d_normal.columns_from(wide), dy, rows)?;
        }
        let dx = pass.at(pass.activations.scratch.dx);
        if level > 0 {
            return self.layer_norm_backward(&merger.norm, x, d_normal, dx, true, [rows, wide]);
        }
        self.copy_rows(d_normal, Address::NONE, plain, rows, wide)?;
        let plain = Rows::new(plain.at, width);
        self.layer_norm_backward(&merger.norm, x, plain, dx, false, [group.count(), width])
    }

    fn block_mlp_backward(
        &mut self,
        pass: &VisionPass<'_>,
        group: &PairGroup,
        block: &VisionBlock,
        stored: &BlockAddresses,
    ) -> Result<(), GpuError> {
        let VisionConfig { width, inner, .. } = self.engine.config.vision;
        let (count, scratch) = (group.count(), pass.activations.scratch);
        let dx = Rows::new(pass.at(scratch.dx), width);
        let gated = Rows::new(pass.at(scratch.gated), block.fc2.base.stride());
        self.backward_input(BLOCK, &block.fc2, dx, count, gated.at, true)?;
        self.gelu("gelu_tanh_backward", stored.inner, gated, count, inner)?;
        let h = Rows::new(stored.h_down, block.fc2.base.extra);
        self.backward_adapters(&block.fc2, gated, h, gated.columns_from(inner), dx, count)?;
        let dy = Rows::new(stored.inner, inner);
        let d_normal = Rows::new(pass.at(scratch.d_normal), block.fc1.base.stride());
        self.backward_input(BLOCK, &block.fc1, dy, count, d_normal.at, true)?;
        if block.fc1.base.extra > 0 {
            let normal = Rows::new(pass.at(scratch.normal), width);
            self.layer_norm(&block.norm2, stored.middle, normal, count, width)?;
            let h = Rows::new(stored.h_inner, block.fc1.base.extra);
            self.backward_adapters(&block.fc1, normal, h, d_normal.columns_from(width), dy, count)?;
        }
        self.layer_norm_backward(&block.norm2, stored.middle, d_normal, dx.at, true, [count, width])
    }

    fn block_attention_backward(
        &mut self,
        pass: &VisionPass<'_>,
        group: &PairGroup,
        block: &VisionBlock,
        stored: &BlockAddresses,
    ) -> Result<(), GpuError> {
        let VisionConfig { width, heads, .. } = self.engine.config.vision;
        let (count, scratch) = (group.count(), pass.activations.scratch);
        let (dx, stride) = (Rows::new(pass.at(scratch.dx), width), block.proj.base.stride());
        let (mixed, d_mixed) = (Rows::new(stored.mixed, stride), Rows::new(pass.at(scratch.d_mixed), stride));
        self.backward_input(BLOCK, &block.proj, dx, count, d_mixed.at, true)?;
        let (h, dh) = (mixed.columns_from(width), d_mixed.columns_from(width));
        self.backward_adapters(&block.proj, mixed, h, dh, dx, count)?;
        let (qkv, d_qkv) = (stored.qkv, pass.at(scratch.d_qkv));
        let part = |i: usize| Rows::new(qkv.plus(i * width), 3 * width);
        self.attend_backward(&AttentionBackward {
            kernels: [
                "multiply_heads_vision",
                "attend_vision_backward_queries",
                "attend_vision_backward_keys",
            ],
            q: part(0),
            k: part(1),
            v: part(2),
            out: mixed,
            d_out: d_mixed,
            log_sums: stored.log_sums,
            products: pass.at(scratch.products),
            gradients: [d_qkv, d_qkv.plus(width), d_qkv.plus(2 * width)],
            stride: 3 * width,
            heads,
            kv_heads: heads,
            head_width: width / heads,
            lists: [group.starts, group.lengths],
            sequences: group.pairs,
            longest: group.per_pair,
            tokens: count,
        })?;
        let cos_sin = self.engine.gpu.address(&self.engine.patch_positions[&group.sides].cos_sin);
        let args = [
            Arg::At(d_qkv),
            Arg::Int((3 * width) as i32),
            Arg::Int((2 * heads) as i32),
            Arg::At(cos_sin),
            Arg::Int(group.per_pair as i32),
        ];
        self.engine.gpu.run("turn_vision_backward", heads_of(count, 2 * heads), &args)?;
        let dy = Rows::new(d_qkv, 3 * width);
        let d_normal = Rows::new(pass.at(scratch.d_normal), block.qkv.base.stride());
        self.backward_input(BLOCK, &block.qkv, dy, count, d_normal.at, true)?;
        if block.qkv.base.extra > 0 {
            let normal = Rows::new(pass.at(scratch.normal), width);
            self.layer_norm(&block.norm1, stored.x, normal, count, width)?;
            let h = Rows::new(stored.h_qkv, block.qkv.base.extra);
            self.backward_adapters(&block.qkv, normal, h, d_normal.columns_from(width), dy, count)?;
        }
        self.layer_norm_backward(&block.norm1, stored.x, d_normal, dx.at, true, [count, width])
    }

    /// The adapter of the layer that takes patches in.
    fn patches_backward(
        &mut self,
        pass: &VisionPass<'_>,
        group: &PairGroup,
        patch: &LoraLinear,
        dx: Address,
    ) -> Result<(), GpuError> {
        if patch.base.extra == 0 {
            return Ok(());
        }
        let (count, stride, inputs) = (group.count(), patch.base.stride(), patch.base.inputs);
        let dy = Rows::new(dx, self.engine.config.vision.width);
        let plain = Rows::new(pass.at(pass.activations.plain), stride);
        self.backward_input(PATCH, patch, dy, count, plain.at, false)?;
        let x = Rows::new(pass.at(pass.activations.pixels).plus(group.first * stride), stride);
        self.backward_adapters(patch, x, x.columns_from(inputs), plain.columns_from(inputs), dy, count)
    }
}

/// What is stored of a merger for the pairs of a group.
struct MergeAddresses {
    rows: usize,
    /// The first of its tokens among all.
    first: usize,
    wide: usize,
    inner: Address,
    h_inner: Address,
    h_out: Address,
}

/// Pairs of one kind and size together, in the order they go through the tower, and the first token of each pair.
fn group_pairs(pairs: &[FramePair<'_>], merged: usize) -> (Vec<Vec<usize>>, Vec<usize>) {
    let (mut order, mut firsts, mut row) = (Vec::new(), vec![usize::MAX; pairs.len()], 0);
    while let Some(first) = firsts.iter().position(|row| *row == usize::MAX) {
        let is_alike =
            |i: &usize| pairs[*i].kind == pairs[first].kind && pairs[*i].sides == pairs[first].sides;
        let alike: Vec<usize> = (first..pairs.len()).filter(is_alike).collect();
        for i in &alike {
            firsts[*i] = row;
            row += pairs[*i].patches() / merged;
        }
        order.push(alike);
    }
    (order, firsts)
}
