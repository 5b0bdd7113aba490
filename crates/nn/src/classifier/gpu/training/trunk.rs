//! A trunk forward, with what its gradient needs kept, and backward.
//!
//! Batch normalisation takes no pass of its own for its sums: a convolution's kernel leaves them beside its outputs, and the kernel that
//! makes the gradient of inputs drops what ReLU held back and leaves the sums that the normalisation before needs.

use super::super::super::network::{Block, ConvNorm, EPSILON, Norm, Trunk};
use super::super::super::trainer::MOMENTUM;
use super::super::convolution::{ConvShape, ConvWork, Epilogue, ResidualKind, words};
use super::super::launches::{Map, PlacedImages, Step, THREADS, halved, int, square_numbers, threads};
use super::super::parameters::{SQUARE_CHANNELS, SQUARE_TAPS};
use super::layout::{Back, ConvPlace};
use super::plan::{PlanInput, Planner, Scratch, Statistic, Turn};
use crate::gpu::{Address, Arg, LaunchShape};

/// A convolution and its normalisation, as they were run.
#[derive(Clone, Copy, Debug)]
pub(super) struct LayerRecord {
    layer: ConvNorm,
    shape: ConvShape,
    x: Address,
    /// What normalisation was given.
    y: Map,
    /// What came of it, residual and ReLU included; of a shortcut, only where the normalisation is over groups.
    after: Map,
    /// Mean and factor of each group.
    groups: Address,
}

#[derive(Debug)]
struct BlockRecord {
    path: Vec<LayerRecord>,
    shortcut: Option<LayerRecord>,
    input: Map,
}

#[derive(Debug)]
struct StemRecord {
    layer: LayerRecord,
    pooled: Map,
    /// What normalisation was given where the pool chose, and where that was.
    chosen: Address,
    windows: Address,
    /// Its gradient, in the place of what blocks have no use for any more.
    gradient: Address,
}

/// A trunk as it was run.
#[derive(Debug)]
pub(super) struct TrunkRecord {
    stem: StemRecord,
    blocks: Vec<BlockRecord>,
    pub(super) output: Map,
    number_bytes: usize,
}

impl TrunkRecord {
    /// Bytes of the largest gradient that goes from block to block.
    pub(super) fn largest_gradient(&self) -> usize {
        let maps = self.blocks.iter().map(|block| block.input).chain([self.output]);
        maps.map(|map| map.len()).max().unwrap_or(0) * self.number_bytes
    }
}

/// The normalisation before some inputs, which their gradient goes on through.
struct Before {
    record: LayerRecord,
    given: Address,
    /// What came of it, where a residual was added.
    after: Address,
}

/// Rows whose sums are one entry.
const SUM_ROWS: usize = 64;
/// Blocks that share the rows of sums, and rows that are worth a block.
const MOST_SHARES: usize = 64;
const ROWS_OF_SHARE: usize = 64;
/// Channels of a block there.
const CHANNELS_AT_ONCE: usize = 32;
/// Threads of `group_norm_gradient`.
const GROUP_THREADS: usize = 256;
/// Lanes and channels of a block of `gradient_sums`.
const SUM_LANES: usize = 16;
const SUM_CHANNELS: usize = 64;

impl Planner<'_> {
    fn conv_place(&self, layer: &ConvNorm) -> &ConvPlace {
        &self.input.layout.convolutions[layer.index]
    }

    /// The feature maps of a trunk.
    pub(super) fn trunk(&mut self, trunk: &Trunk, first_image: usize, images: usize) -> TrunkRecord {
        let mut stem = self.stem(&trunk.stem, first_image, images);
        let mark = self.launches.take(0);
        let (mut map, mut blocks) = (stem.pooled, Vec::new());
        for block in trunk.wide.iter().chain(&trunk.deep) {
            let record = self.block(block, map);
            map = record.path[record.path.len() - 1].after;
            blocks.push(record);
        }
        let number_bytes = self.launches.number_bytes();
        if !self.input.is_frozen {
            // When the first layer has its turn, all blocks are done.
            let needed = self.launches.offset_of(mark) + stem.layer.y.len() * number_bytes;
            let missing = needed.saturating_sub(self.launches.used);
            self.launches.used += missing;
            stem.gradient = mark;
        }
        TrunkRecord { stem, blocks, output: map, number_bytes }
    }

    fn stem(&mut self, layer: &ConvNorm, first_image: usize, images: usize) -> StemRecord {
        let PlanInput { size, kind, arenas, images: at, .. } = self.input;
        let one = size[0] * size[1] * 3;
        let at = Address(at.0 + (first_image * one * kind.size()) as u64);
        let squares = self.launches.take_numbers(square_numbers(size) * images);
        let placed = PlacedImages { at, count: images, size, kind, byte_table: arenas.byte_table };
        let all = self.launches.space_to_depth(placed, squares);
        let out = size.map(halved);
        let row = all[1] * SQUARE_CHANNELS;
        let shape = ConvShape {
            images,
            out,
            outputs: self.conv_place(layer).outputs,
            strides: [all[0] * row, row, SQUARE_CHANNELS],
            size: [all[0], out[1]],
            stride: 1,
            padding: 0,
            taps: [SQUARE_TAPS, 1],
            channels: SQUARE_TAPS * SQUARE_CHANNELS,
            relu: false,
            adds: false,
            goes_back: false,
        };
        let mut record = self.conv(layer, squares, shape);
        let y = record.y;
        if record.groups != Address::NONE {
            record.after = self.norm_act(&record, None, true);
        }
        let pooled = Map { size: y.size.map(halved), ..y };
        let pooled = Map { at: self.launches.take_numbers(pooled.len()), ..pooled };
        let windows = self.launches.take(pooled.len() / 8 * size_of::<u32>());
        let chosen = match record.groups {
            Address::NONE => self.launches.take_numbers(pooled.len()),
            _ => Address::NONE,
        };
        let from = if record.groups == Address::NONE { y.at } else { record.after.at };
        let mut args = vec![Arg::At(from)];
        args.extend(self.norm_args(&record).map(Arg::At));
        args.extend([pooled.at, chosen, windows].map(Arg::At));
        args.extend([images, y.size[0], y.size[1], pooled.size[0], pooled.size[1], y.channels].map(int));
        self.launches.run("pool_training", threads(pooled.len() / 8), args);
        StemRecord { layer: record, pooled, chosen, windows, gradient: Address::NONE }
    }

    /// Mean, scale and shift of a batch normalisation; nothing of one over groups.
    fn norm_args(&self, record: &LayerRecord) -> [Address; 3] {
        let place = self.conv_place(&record.layer);
        match place.groups {
            Some(_) => [Address::NONE; 3],
            None => [
                self.statistic(Statistic::Mean, place.statistics),
                self.statistic(Statistic::Scale, place.statistics),
                self.parameter(place.shift),
            ],
        }
    }

    fn block(&mut self, block: &Block, input: Map) -> BlockRecord {
        let shortcut = block.shortcut.as_ref().map(|layer| {
            let mut record = self.plain_conv(layer, input);
            if record.groups != Address::NONE {
                record.after = self.norm_act(&record, None, false);
            }
            record
        });
        let mut path: Vec<LayerRecord> = Vec::new();
        let mut map = input;
        for (i, layer) in block.path.iter().enumerate() {
            let mut record = self.plain_conv(layer, map);
            let residual = match (i + 1 == block.path.len(), &shortcut) {
                (false, _) => None,
                (true, None) => Some((input.at, None)),
                (true, Some(shortcut)) if shortcut.groups != Address::NONE => Some((shortcut.after.at, None)),
                (true, Some(shortcut)) => Some((shortcut.y.at, Some(*shortcut))),
            };
            record.after = self.norm_act(&record, residual, true);
            map = record.after;
            path.push(record);
        }
        BlockRecord { path, shortcut, input }
    }

    fn plain_conv(&mut self, layer: &ConvNorm, input: Map) -> LayerRecord {
        let place = self.conv_place(layer);
        let row = input.size[1] * input.channels;
        let shape = ConvShape {
            images: input.images,
            out: input.size.map(|side| (side - 1) / place.stride + 1),
            outputs: place.outputs,
            strides: [input.size[0] * row, row, input.channels],
            size: input.size,
            stride: place.stride,
            padding: place.kernel / 2,
            taps: [place.kernel; 2],
            channels: place.inputs,
            relu: false,
            adds: false,
            goes_back: false,
        };
        self.conv(layer, input.at, shape)
    }

    /// A convolution, and the statistics of its outputs.
    fn conv(&mut self, layer: &ConvNorm, x: Address, shape: ConvShape) -> LayerRecord {
        let place = self.conv_place(layer).clone();
        let y = Map { at: Address::NONE, images: shape.images, size: shape.out, channels: shape.outputs };
        let y = Map { at: self.launches.take_numbers(y.len()), ..y };
        let rows = shape.rows().div_ceil(SUM_ROWS);
        let counts = matches!(layer.norm, Norm::Batch { .. }) && !layer.frozen;
        let sums = if counts { self.sums(rows, shape.outputs) } else { Address::NONE };
        let weights = self.number(self.input.arenas.rounded, place.weight);
        let (bias, residual) = (Address::NONE, Address::NONE);
        let epilogue = Epilogue { sums, ..Default::default() };
        self.launches.steps.push(Step::Conv(ConvWork {
            x,
            weights,
            bias,
            residual,
            y: y.at,
            shape,
            epilogue,
        }));
        let groups = match place.groups {
            Some(groups) => self.launches.take(y.images * groups * 8),
            None => Address::NONE,
        };
        let record = LayerRecord { layer: *layer, shape, x, y, after: y, groups };
        match layer.norm {
            Norm::Batch { .. } if layer.frozen => self.fixed_statistics(&place),
            Norm::Batch { .. } => self.batch_statistics(&place, rows, shape.rows()),
            Norm::Group { .. } => (),
        }
        record
    }

    fn sums(&mut self, rows: usize, channels: usize) -> Address {
        self.scratch(Scratch::Sums, rows * channels * 8)
    }

    /// The arguments and blocks of kernels that add up rows of sums.
    fn all_sums(&mut self, rows: usize, channels: usize) -> (Vec<Arg>, LaunchShape) {
        let shares = (rows / ROWS_OF_SHARE).clamp(1, MOST_SHARES);
        let partials = self.scratch(Scratch::Partials, shares * channels * 16);
        let args = vec![
            Arg::At(self.sums(rows, channels)),
            int(rows),
            int(channels),
            Arg::At(partials),
            Arg::At(self.input.arenas.arrived),
        ];
        let blocks = [channels / CHANNELS_AT_ONCE, shares, 1];
        (args, LaunchShape { blocks, threads: THREADS, shared: 0 })
    }

    fn batch_statistics(&mut self, place: &ConvPlace, rows: usize, count: usize) {
        let (mut args, shape) = self.all_sums(rows, place.outputs);
        args.extend([
            Arg::Float(count as f32),
            Arg::At(self.parameter(place.scale)),
            Arg::Float(EPSILON as f32),
        ]);
        let found = [Statistic::Mean, Statistic::Variance, Statistic::Root, Statistic::Scale];
        args.extend(found.map(|which| Arg::At(self.statistic(which, place.statistics))));
        self.launches.run("batch_statistics", shape, args);
    }

    fn fixed_statistics(&mut self, place: &ConvPlace) {
        let at = |which| Arg::At(self.statistic(which, place.statistics));
        let args = vec![
            at(Statistic::RunningMean),
            at(Statistic::RunningVariance),
            int(place.outputs),
            Arg::At(self.parameter(place.scale)),
            Arg::Float(EPSILON as f32),
            at(Statistic::Mean),
            at(Statistic::Root),
            at(Statistic::Scale),
        ];
        self.launches.run("fixed_statistics", threads(place.outputs), args);
    }

    /// Normalisation, residual and ReLU. A residual may have a normalisation of its own, which was not done yet.
    fn norm_act(
        &mut self,
        record: &LayerRecord,
        residual: Option<(Address, Option<LayerRecord>)>,
        relu: bool,
    ) -> Map {
        let y = record.y;
        let to = Map { at: self.launches.take_numbers(y.len()), ..y };
        let (residual, other) = residual.unwrap_or((Address::NONE, None));
        let place = self.conv_place(&record.layer).clone();
        if let Some(groups) = place.groups {
            let addresses = [y.at, self.parameter(place.scale), self.parameter(place.shift), residual, to.at];
            let mut args: Vec<Arg> = addresses.into_iter().chain([record.groups]).map(Arg::At).collect();
            args.extend([y.pixels(), y.channels, groups, usize::from(relu)].map(int));
            args.push(Arg::Float(EPSILON as f32));
            let blocks = [y.images * groups, 1, 1];
            let shape = LaunchShape { blocks, threads: 2 * THREADS, shared: 0 };
            self.launches.run("group_norm_training", shape, args);
            return to;
        }
        let other = other.map_or([Address::NONE; 3], |other| self.norm_args(&other));
        let [mean, scale, shift] = self.norm_args(record);
        let addresses = [y.at, mean, scale, shift, residual, other[0], other[1], other[2], to.at];
        let mut args: Vec<Arg> = addresses.map(Arg::At).to_vec();
        let (rounds, shape) = self.pass(y.len());
        args.extend([Arg::Count(y.len() as u64), int(y.channels), Arg::Int(i32::from(relu)), int(rounds)]);
        self.launches.run("norm_act", shape, args);
        to
    }

    /// From the gradient of a trunk's outputs, in its scratch memory, to those of all its weights.
    pub(super) fn trunk_gradients(&mut self, trunk: &TrunkRecord) {
        let gradient = self.scratch(Scratch::Gradient, trunk.largest_gradient());
        let output = Map { at: gradient, ..trunk.output };
        let mut rows = 0;
        if let Some(last) = trunk.blocks.last().and_then(|block| block.path.last())
            && last.groups == Address::NONE
        {
            rows = self.gradient_sums(output, last, true);
        }
        for (i, block) in trunk.blocks.iter().enumerate().rev() {
            let before = match i.checked_sub(1).map(|i| &trunk.blocks[i].path) {
                Some(path) => {
                    let last = path[path.len() - 1];
                    Before { record: last, given: last.y.at, after: last.after.at }
                }
                None => {
                    let stem = &trunk.stem;
                    Before { record: stem.layer, given: stem.chosen, after: Address::NONE }
                }
            };
            rows = self.block_gradients(block, gradient, rows, before);
        }
        self.stem_gradients(&trunk.stem, gradient, rows);
    }

    /// Sums of a gradient for a normalisation; after ReLU, of what that let through, which is also what is left.
    fn gradient_sums(&mut self, gradient: Map, record: &LayerRecord, relu: bool) -> usize {
        let rows = gradient.rows().div_ceil(SUM_ROWS);
        let after = if relu { record.after.at } else { Address::NONE };
        let [mean, ..] = self.norm_args(record);
        let sums = self.sums(rows, gradient.channels);
        let mut args = [gradient.at, record.y.at, after, mean, sums].map(Arg::At).to_vec();
        args.extend([gradient.rows(), gradient.channels].map(int));
        let shape = LaunchShape {
            blocks: [rows, gradient.channels / SUM_CHANNELS, 1],
            threads: SUM_LANES * SUM_CHANNELS / 8,
            shared: SUM_LANES * SUM_CHANNELS * 8,
        };
        self.launches.run("gradient_sums", shape, args);
        rows
    }

    /// Gradients of a block: that of its outputs becomes that of its inputs. `rows` of sums are there for the last normalisation;
    /// how many are there for the one before the block.
    fn block_gradients(
        &mut self,
        block: &BlockRecord,
        gradient: Address,
        rows: usize,
        before: Before,
    ) -> usize {
        let (last, earlier) = block.path.split_last().unwrap_or_else(|| unreachable!("a block has layers"));
        let is_wide = earlier.iter().any(|layer| last.y.len() > 2 * layer.y.len());
        let (mut turn, mut back) = self.next_turn(last.y, is_wide, None);
        let output = Map { at: gradient, ..last.y };
        self.norm_gradient(last, output, rows, true, back.at);
        let residual = block.shortcut.as_ref();
        let residual = residual.map(|shortcut| self.shortcut_gradients(shortcut, output, is_wide, turn));
        let mut layer = last;
        for previous in earlier.iter().rev() {
            self.weight_gradient(layer, back.at);
            let (next, to) = self.next_turn(previous.y, false, Some(turn));
            let through = Before { record: *previous, given: previous.y.at, after: Address::NONE };
            let rows = self.input_gradient(layer, back, None, to, Some(through));
            self.norm_gradient(previous, to, rows, true, to.at);
            (layer, turn, back) = (previous, next, to);
        }
        self.weight_gradient(layer, back.at);
        let input = Map { at: gradient, ..block.input };
        self.input_gradient(layer, back, Some(residual.unwrap_or(output)), input, Some(before))
    }

    /// Gradients of a shortcut's weights, and what goes through it to the block's inputs: of those alone that it looked at. The gradient
    /// of `kept` is still needed.
    fn shortcut_gradients(&mut self, shortcut: &LayerRecord, output: Map, is_wide: bool, kept: Turn) -> Map {
        let rows = match shortcut.groups {
            Address::NONE => self.gradient_sums(output, shortcut, false),
            _ => 0,
        };
        let (_, back) = self.next_turn(shortcut.y, is_wide, Some(kept));
        self.norm_gradient(shortcut, output, rows, false, back.at);
        self.weight_gradient(shortcut, back.at);
        let inputs = Map { channels: self.conv_place(&shortcut.layer).inputs, ..back };
        let to = self.scratch_map(Scratch::Shortcut, inputs);
        self.input_gradient(shortcut, back, None, to, None);
        to
    }

    fn stem_gradients(&mut self, stem: &StemRecord, gradient: Address, rows: usize) {
        let StemRecord { layer, pooled, windows, gradient: to, .. } = stem;
        self.wait_for_all(); // what blocks have no use for any more is written to
        let y = layer.y;
        let has_groups = layer.groups != Address::NONE;
        let place = self.conv_place(&layer.layer).clone();
        let [mean, scale, of_input, constant] = match has_groups {
            true => [Address::NONE; 4],
            false => {
                self.gradient_statistics(&place, rows, y.rows());
                let found = [Statistic::Mean, Statistic::Scale, Statistic::OfInput, Statistic::Constant];
                found.map(|which| self.statistic(which, place.statistics))
            }
        };
        let addresses = [gradient, *windows, y.at, mean, scale, of_input, constant, *to];
        let mut args = addresses.map(Arg::At).to_vec();
        let sizes = [y.images, y.size[0], y.size[1], pooled.size[0], pooled.size[1], y.channels];
        args.extend(sizes.map(int));
        self.launches.run("pool_gradient", threads(pooled.len() / 8), args);
        if has_groups {
            self.norm_gradient(layer, Map { at: *to, ..y }, 0, true, *to);
        }
        self.weight_gradient(layer, *to);
    }

    /// The gradient of what a normalisation was given, and of its own parameters. A batch's takes `rows` of sums that are there; one
    /// over groups also keeps of `gradient` what ReLU let through.
    fn norm_gradient(&mut self, record: &LayerRecord, gradient: Map, rows: usize, relu: bool, to: Address) {
        let place = self.conv_place(&record.layer).clone();
        let y = record.y;
        if let Some(groups) = place.groups {
            return self.group_gradient(record, &place, groups, gradient, relu, to);
        }
        self.gradient_statistics(&place, rows, y.rows());
        let found = [Statistic::Mean, Statistic::Scale, Statistic::OfInput, Statistic::Constant];
        let [mean, scale, of_input, constant] = found.map(|which| self.statistic(which, place.statistics));
        let mut args = [gradient.at, y.at, mean, scale, of_input, constant, to].map(Arg::At).to_vec();
        let (rounds, shape) = self.pass(y.len());
        args.extend([Arg::Count(y.len() as u64), int(y.channels), int(rounds)]);
        self.launches.run("norm_gradient", shape, args);
    }

    /// Eights of numbers that a thread has in a pass over so many, and the blocks of it: few have more where all are busy.
    fn pass(&self, count: usize) -> (usize, LaunchShape) {
        let blocks = |rounds: usize| count.div_ceil(rounds * THREADS * 8);
        let enough = 2 * self.input.weight_tiles.multiprocessors;
        let rounds = [4, 2].into_iter().find(|rounds| blocks(*rounds) >= enough).unwrap_or(1);
        (rounds, LaunchShape { blocks: [blocks(rounds), 1, 1], threads: THREADS, shared: 0 })
    }

    fn gradient_statistics(&mut self, place: &ConvPlace, rows: usize, count: usize) {
        let (mut args, shape) = self.all_sums(rows, place.outputs);
        args.push(Arg::Float(count as f32));
        let numbers = [Statistic::Root, Statistic::Scale, Statistic::OfInput, Statistic::Constant];
        args.extend(numbers.map(|which| Arg::At(self.statistic(which, place.statistics))));
        let learned = [self.gradient(place.scale), self.gradient(place.shift), self.is_good()];
        args.extend(learned.map(Arg::At));
        self.launches.run("gradient_statistics", shape, args);
    }

    fn group_gradient(
        &mut self,
        record: &LayerRecord,
        place: &ConvPlace,
        groups: usize,
        gradient: Map,
        relu: bool,
        to: Address,
    ) {
        let y = record.y;
        let after = if relu { record.after.at } else { Address::NONE };
        let sums = self.sums(y.images, y.channels);
        let scale = self.parameter(place.scale);
        let addresses = [gradient.at, y.at, after, record.groups, scale, to, sums];
        let mut args = addresses.map(Arg::At).to_vec();
        args.extend([y.pixels(), y.channels, groups].map(int));
        let shape = LaunchShape { blocks: [y.images * groups, 1, 1], threads: GROUP_THREADS, shared: 0 };
        self.launches.run("group_norm_gradient", shape, args);
        let (mut args, shape) = self.all_sums(y.images, y.channels);
        let learned = [self.gradient(place.scale), self.gradient(place.shift), self.is_good()];
        args.extend(learned.map(Arg::At));
        self.launches.run("group_norm_parameters", shape, args);
    }

    fn weight_gradient(&mut self, record: &LayerRecord, gradient: Address) {
        let place = self.conv_place(&record.layer).clone();
        let shape = &record.shape;
        let divided = self.input.weight_tiles.divide(shape, place.is_stem());
        let count = shape.outputs * shape.columns();
        let partial = match divided.splits {
            1 => Address::NONE,
            splits => self.scratch(Scratch::Weights, splits * count * size_of::<f32>()),
        };
        let (to, is_good) = (self.gradient(place.weight), self.is_good());
        let addresses = [record.x, gradient, Address::NONE, Address::NONE, to, partial, is_good];
        let words = words(addresses, shape, divided.splits, &Epilogue::default());
        let (kernel, shape, args) = (divided.kernel, divided.launch, vec![Arg::Words(words)]);
        let mut steps = vec![Step::Kernel { kernel, shape, args }];
        if divided.splits > 1 {
            let args = vec![
                Arg::At(partial),
                int(divided.splits),
                int(count),
                Arg::At(to),
                Arg::At(is_good),
                Arg::Int(i32::from(place.is_stem())),
            ];
            steps.push(Step::Kernel { kernel: "add_partials", shape: threads(count / 4), args });
        }
        self.run_beside(steps, gradient);
    }

    /// The gradient of a convolution's inputs, plus `residual`; where something was normalised before them, of what ReLU let through
    /// there, with the rows of sums that it needs.
    fn input_gradient(
        &mut self,
        record: &LayerRecord,
        gradient: Map,
        residual: Option<Map>,
        to: Map,
        before: Option<Before>,
    ) -> usize {
        let before = before.filter(|before| before.record.groups == Address::NONE);
        let place = self.conv_place(&record.layer).clone();
        let backs = place.backs.iter().map(|back| (*back, back_size(back, to))).collect::<Vec<_>>();
        let rows_of = |size: [usize; 2]| (to.images * size[0] * size[1]).div_ceil(SUM_ROWS);
        let rows: usize = backs.iter().map(|(_, size)| rows_of(*size)).sum();
        let mut epilogue = Epilogue::default();
        if let Some(before) = &before {
            let [mean, scale, shift] = self.norm_args(&before.record);
            let sums = self.sums(rows, to.channels);
            let Before { given, after, .. } = *before;
            epilogue = Epilogue { before: given, after, mean, scale, shift, sums, ..epilogue };
        }
        for (back, out) in backs {
            let residual = residual.filter(|_| back.odd.is_none_or(|odd| odd == [0, 0]));
            epilogue.residual = match (back.odd, residual) {
                (Some(_), _) => ResidualKind::SamePixel,
                (None, Some(residual)) if residual.size != to.size => {
                    ResidualKind::EvenPixels([residual.pixels(), residual.size[1]])
                }
                _ => ResidualKind::SamePlace,
            };
            if let Some([odd_y, odd_x]) = back.odd {
                let row = to.size[1] * to.channels;
                epilogue.out =
                    [odd_y * row + odd_x * to.channels, to.pixels() * to.channels, 2 * row, 2 * to.channels];
            }
            if out[0] * out[1] > 0 {
                let row = gradient.size[1] * gradient.channels;
                let shape = ConvShape {
                    images: to.images,
                    out,
                    outputs: to.channels,
                    strides: [gradient.size[0] * row, row, gradient.channels],
                    size: gradient.size,
                    stride: 1,
                    padding: if back.odd.is_some() { 0 } else { back.taps[0] / 2 },
                    taps: back.taps,
                    channels: gradient.channels,
                    relu: false,
                    adds: residual.is_some(),
                    goes_back: before.is_some(),
                };
                self.launches.steps.push(Step::Conv(ConvWork {
                    x: gradient.at,
                    weights: self.number(self.input.arenas.transposed, back.weights),
                    bias: Address::NONE,
                    residual: residual.map_or(Address::NONE, |residual| residual.at),
                    y: to.at,
                    shape,
                    epilogue,
                }));
            }
            epilogue.first_sums += rows_of(out);
        }
        rows
    }

    /// What becomes of the running statistics of all layers.
    pub(super) fn running_statistics(&mut self) {
        let channels = self.input.layout.channels;
        if channels == 0 {
            return;
        }
        let arrays =
            [Statistic::Mean, Statistic::Variance, Statistic::RunningMean, Statistic::RunningVariance];
        let mut args: Vec<Arg> = arrays.map(|which| Arg::At(self.statistic(which, 0))).to_vec();
        args.extend([int(channels), Arg::Float(MOMENTUM as f32), Arg::At(self.is_good())]);
        self.launches.run("running_statistics", threads(channels), args);
    }
}

/// The rows and columns of inputs whose gradient a convolution makes: those of its kind, even or odd.
fn back_size(back: &Back, to: Map) -> [usize; 2] {
    match back.odd {
        None => to.size,
        Some(odd) => std::array::from_fn(|axis| (to.size[axis] + 1 - odd[axis]) / 2),
    }
}
