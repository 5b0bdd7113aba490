//! The kernels of a pass in their order, and where everything lies.

use super::super::network::{Block, ConvNorm, EPSILON, Head, Linear, Network, Pooling, Trunk};
use super::super::settings::Precision;
use super::convolution::{ConvShape, ConvWork, Epilogue};
use super::launches::{
    Launches, Map, PixelKind, PlacedImages, RELU, Step, TANH, THREADS, halved, int, square_numbers, threads,
};
use super::parameters::{GpuParameters, LinearLayer, SQUARE_CHANNELS, SQUARE_TAPS};
use crate::gpu::{Address, Arg, LaunchShape};

/// A pass for some images.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) steps: Vec<Step>,
    /// Bytes of memory, from the base on.
    pub(super) bytes: usize,
    /// Where the features `[n, width]` and the logits `[n]` will be, from the base on.
    pub(super) features: usize,
    pub(super) feature_width: usize,
    pub(super) logits: usize,
}

/// What a plan is made for.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlanInput<'a> {
    pub(super) network: &'a Network,
    pub(super) parameters: &'a GpuParameters,
    pub(super) precision: Precision,
    /// Rows and columns of images.
    pub(super) size: [usize; 2],
    /// Time steps, and cameras.
    pub(super) count: usize,
    pub(super) cameras: usize,
    pub(super) kind: PixelKind,
    /// Where images lie: camera after camera.
    pub(super) images: Address,
    /// Where there is memory.
    pub(super) base: Address,
}

struct Planner<'a> {
    input: PlanInput<'a>,
    launches: Launches,
    /// Memory that blocks take turns with.
    turns: [Address; 4],
}

/// Plans a pass.
pub(super) fn plan(input: PlanInput<'_>) -> Plan {
    let launches = Launches::new(input.base, input.precision);
    let mut planner = Planner { input, launches, turns: [Address::NONE; 4] };
    let PlanInput { network, count, cameras, .. } = input;
    let of_trunk = cameras / network.trunks.len() * count;
    planner.take_turns(of_trunk);
    let feature_width: usize = (0..cameras).map(|camera| planner.features_of(camera)).sum();
    let features = planner.launches.take_floats(count * feature_width);
    let stem = planner.stem_memory(of_trunk);
    let mut column = 0;
    for (trunk, network_trunk) in network.trunks.iter().enumerate() {
        let map = planner.trunk(network_trunk, stem, trunk * of_trunk, of_trunk);
        for i in 0..cameras / network.trunks.len() {
            let camera = trunk + i;
            let offset = i * count * map.pixels() * map.channels * planner.launches.number_bytes();
            let own = Map { at: Address(map.at.0 + offset as u64), images: count, ..map };
            let to = Address(features.0 + (column * size_of::<f32>()) as u64);
            planner.pool(camera, own, to, feature_width);
            column += planner.features_of(camera);
        }
    }
    let logits = planner.head(features, count);
    let launches = planner.launches;
    Plan {
        bytes: launches.used,
        features: launches.offset_of(features),
        feature_width,
        logits: launches.offset_of(logits),
        steps: launches.steps,
    }
}

impl Planner<'_> {
    /// Memory for the largest feature maps after the first pool.
    fn take_turns(&mut self, images: usize) {
        let PlanInput { network, parameters, size, .. } = self.input;
        let mut most = 0;
        for trunk in &network.trunks {
            let mut now = size.map(|side| halved(halved(side)));
            most = most.max(now[0] * now[1] * parameters.convolutions[trunk.stem.index].outputs);
            for block in trunk.wide.iter().chain(&trunk.deep) {
                let channels = |layer: &ConvNorm| parameters.convolutions[layer.index].outputs;
                let widest = block.path.iter().chain(&block.shortcut).map(channels).max().unwrap_or(0);
                most = most.max(now[0] * now[1] * widest);
                let stride: usize = block.path.iter().map(|layer| layer.stride).product();
                now = now.map(|side| (side - 1) / stride + 1);
            }
        }
        self.turns = [0; 4].map(|_| self.launches.take_numbers(most * images));
    }

    /// Memory for images in squares, and for what the first convolution makes of them.
    fn stem_memory(&mut self, images: usize) -> [Address; 2] {
        let [height, width] = self.input.size.map(halved);
        let outputs = height * width * STEM_CHANNELS;
        [square_numbers(self.input.size), outputs].map(|numbers| self.launches.take_numbers(numbers * images))
    }

    /// The feature maps of a trunk.
    fn trunk(&mut self, trunk: &Trunk, stem: [Address; 2], first_image: usize, images: usize) -> Map {
        let mut map = self.stem(trunk, stem, first_image, images);
        let mut turn = 0;
        for block in trunk.wide.iter().chain(&trunk.deep) {
            (map, turn) = self.block(block, map, turn);
        }
        map
    }

    fn stem(
        &mut self,
        trunk: &Trunk,
        [squares, outputs]: [Address; 2],
        first_image: usize,
        images: usize,
    ) -> Map {
        let PlanInput { size, kind, parameters, images: at, .. } = self.input;
        let one = size[0] * size[1] * 3;
        let at = Address(at.0 + (first_image * one * kind.size()) as u64);
        let placed = PlacedImages { at, count: images, size, kind, byte_table: parameters.byte_table };
        let all = self.launches.space_to_depth(placed, squares);
        let out = size.map(halved);
        let row = all[1] * SQUARE_CHANNELS;
        let shape = ConvShape {
            images,
            out,
            outputs: self.input.parameters.convolutions[trunk.stem.index].outputs,
            strides: [all[0] * row, row, SQUARE_CHANNELS],
            size: [all[0], out[1]],
            stride: 1,
            padding: 0,
            taps: [SQUARE_TAPS, 1],
            channels: SQUARE_TAPS * SQUARE_CHANNELS,
            relu: true,
            adds: false,
            goes_back: false,
        };
        let map = self.conv_norm(&trunk.stem, squares, shape, Address::NONE, outputs);
        self.max_pool(map)
    }

    fn max_pool(&mut self, map: Map) -> Map {
        let pooled = Map { at: self.turns[0], size: map.size.map(halved), ..map };
        let numbers =
            [map.images, map.size[0], map.size[1], pooled.size[0], pooled.size[1], map.channels].map(int);
        let args = [Arg::At(map.at), Arg::At(pooled.at)].into_iter().chain(numbers);
        self.launches.run("max_pool", threads(pooled.len() / 8), args.collect());
        pooled
    }

    /// A block whose input has one of the turns; its output and which turn that has.
    fn block(&mut self, block: &Block, input: Map, turn: usize) -> (Map, usize) {
        let others: Vec<usize> = (0..4).filter(|other| *other != turn).collect();
        let shortcut = match &block.shortcut {
            Some(layer) => {
                let to = self.turns[others[0]];
                self.plain_conv(layer, input, Address::NONE, false, to).at
            }
            None => input.at,
        };
        let (last, before) = block.path.split_last().unwrap_or_else(|| unreachable!("a block has layers"));
        let mut map = input;
        for (i, layer) in before.iter().enumerate() {
            map = self.plain_conv(layer, map, Address::NONE, true, self.turns[others[1 + i % 2]]);
        }
        let output = others[1 + before.len() % 2];
        (self.plain_conv(last, map, shortcut, true, self.turns[output]), output)
    }

    fn plain_conv(
        &mut self,
        layer: &ConvNorm,
        input: Map,
        residual: Address,
        relu: bool,
        to: Address,
    ) -> Map {
        let convolution = self.input.parameters.convolutions[layer.index];
        let out = input.size.map(|side| (side - 1) / convolution.stride + 1);
        let row = input.size[1] * input.channels;
        let shape = ConvShape {
            images: input.images,
            out,
            outputs: convolution.outputs,
            strides: [input.size[0] * row, row, input.channels],
            size: input.size,
            stride: convolution.stride,
            padding: convolution.kernel / 2,
            taps: [convolution.kernel; 2],
            channels: convolution.inputs,
            relu,
            adds: residual != Address::NONE,
            goes_back: false,
        };
        self.conv_norm(layer, input.at, shape, residual, to)
    }

    /// A convolution, its normalisation, residual and ReLU.
    fn conv_norm(
        &mut self,
        layer: &ConvNorm,
        x: Address,
        shape: ConvShape,
        residual: Address,
        y: Address,
    ) -> Map {
        let convolution = self.input.parameters.convolutions[layer.index];
        let (weights, bias, epilogue) = (convolution.weights, convolution.bias, Epilogue::default());
        let map = Map { at: y, images: shape.images, size: shape.out, channels: shape.outputs };
        let Some((groups, norm)) = convolution.group_norm else {
            self.launches.steps.push(Step::Conv(ConvWork { x, weights, bias, residual, y, shape, epilogue }));
            return map;
        };
        let bare = ConvShape { relu: false, adds: false, ..shape };
        self.launches.steps.push(Step::Conv(ConvWork {
            x,
            weights,
            bias,
            residual: Address::NONE,
            y,
            shape: bare,
            epilogue,
        }));
        let args = [Arg::At(y), Arg::At(norm.scale), Arg::At(norm.shift), Arg::At(residual), Arg::At(y)];
        let numbers = [map.pixels(), map.channels, groups, usize::from(shape.relu)].map(int);
        let args = args.into_iter().chain(numbers).chain([Arg::Float(EPSILON as f32)]);
        let blocks = LaunchShape { blocks: [map.images * groups, 1, 1], threads: 2 * THREADS, shared: 0 };
        self.launches.run("group_norm", blocks, args.collect());
        map
    }

    /// Columns of features that a camera gives.
    fn features_of(&self, camera: usize) -> usize {
        match &self.input.network.poolings[camera] {
            Pooling::Mean => self.channels_of_trunk(),
            Pooling::Spatial { project, .. } => self.linear(project).outputs,
        }
    }

    fn channels_of_trunk(&self) -> usize {
        let trunk = &self.input.network.trunks[0];
        let last = trunk.deep.last().and_then(|block| block.path.last());
        last.map_or(0, |layer| self.input.parameters.convolutions[layer.index].outputs)
    }

    fn linear(&self, layer: &Linear) -> LinearLayer {
        self.input.parameters.linears[layer.index]
    }

    /// Feature maps to columns of features.
    fn pool(&mut self, camera: usize, map: Map, to: Address, row_stride: usize) {
        let pooling = &self.input.network.poolings[camera];
        let (Pooling::Spatial { per_position, project, .. }, Some(embeddings)) =
            (pooling, self.input.parameters.embeddings[camera])
        else {
            return self.launches.average(map, to, row_stride);
        };
        let embedded = self.launches.take_floats(map.images * map.channels * embeddings.blocks);
        let from = match per_position {
            true => map.at,
            false => {
                let averaged = self.launches.take_floats(map.images * map.channels);
                self.launches.average(map, averaged, map.channels);
                averaged
            }
        };
        self.launches.embed(embeddings, from, map, *per_position, embedded);
        let project = self.linear(project);
        let projected = self.launches.linear(project, embedded, map.images, false);
        self.launches.layer_norm(
            embeddings.norm,
            projected,
            to,
            [map.images, project.outputs, row_stride],
            TANH,
        );
    }

    fn head(&mut self, features: Address, count: usize) -> Address {
        match &self.input.network.head {
            Head::Single(layer) => self.launches.linear(self.linear(layer), features, count, false),
            Head::Hidden { first, last, .. } => {
                let hidden = self.launches.linear(self.linear(first), features, count, true);
                self.launches.linear(self.linear(last), hidden, count, false)
            }
            Head::Normed { first, last, .. } => {
                let first = self.linear(first);
                let hidden = self.launches.linear(first, features, count, false);
                if let Some(norm) = self.input.parameters.head_norm {
                    self.launches.layer_norm(
                        norm,
                        hidden,
                        hidden,
                        [count, first.outputs, first.outputs],
                        RELU,
                    );
                }
                self.launches.linear(self.linear(last), hidden, count, false)
            }
        }
    }
}

/// Channels of the first convolution's outputs.
const STEM_CHANNELS: usize = 64;
#[cfg(test)]
mod tests {
    use super::super::super::network;
    use super::super::super::parameters::Parameters;
    use super::super::super::settings::{Arch, ClassifierSettings};
    use super::*;
    use std::ops::Range;

    const BASE: u64 = 1 << 40;

    /// The pass of a network with fresh weights.
    fn planned(settings: &ClassifierSettings, count: usize) -> (Plan, usize) {
        let (network, specs) = network::build(settings);
        let fresh = Parameters::fresh(specs, plaudit_core::Seed::new(0));
        let preprocess = settings.preprocess();
        let (parameters, _) = GpuParameters::lay_out(&network, &fresh, &preprocess, settings.precision);
        let input = PlanInput {
            network: &network,
            parameters: &parameters,
            precision: settings.precision,
            size: [preprocess.height, preprocess.width],
            count,
            cameras: preprocess.keys.len(),
            kind: PixelKind::Floats,
            images: Address(1 << 50),
            base: Address(BASE),
        };
        (plan(input), network.convolutions.len())
    }

    fn bytes(at: Address, numbers: usize, size: usize) -> Range<u64> {
        at.0..at.0 + (numbers * size) as u64
    }

    fn overlap(one: &Range<u64>, other: &Range<u64>) -> bool {
        one.start < other.end && other.start < one.end
    }

    /// No convolution writes where it reads, or outside its memory, in sizes that its kernels do not take.
    #[test]
    fn convolutions_read_and_write_apart_and_inside_their_memory() {
        for (arch, cameras, count) in [
            (Arch::Resnet18, 1, 3),
            (Arch::Resnet18, 2, 2),
            (Arch::Resnet50, 1, 1),
            (Arch::Resnet10, 1, 5),
            (Arch::Resnet10Spatial, 2, 2),
        ] {
            for (precision, size) in [(Precision::Bf16, 2), (Precision::Fp32, 4)] {
                let image_keys = (0..cameras).map(|i| format!("camera {i}")).collect();
                let settings = ClassifierSettings {
                    arch,
                    precision,
                    image_keys,
                    image_size: [3, 50, 67],
                    ..Default::default()
                };
                let (plan, convolutions) = planned(&settings, count);
                let all = BASE..BASE + plan.bytes as u64;
                let works: Vec<&ConvWork> = plan
                    .steps
                    .iter()
                    .filter_map(|step| match step {
                        Step::Conv(work) => Some(work),
                        Step::Kernel { .. } | Step::Beside(_) | Step::WaitFor(_) => None,
                    })
                    .collect();
                assert_eq!(works.len(), convolutions, "{arch:?}");
                for ConvWork { x, residual, y, shape, .. } in works {
                    let written = shape.images * shape.out[0] * shape.out[1] * shape.outputs;
                    let to = bytes(*y, written, size);
                    let from = bytes(*x, shape.images * shape.strides[0], size);
                    assert!(!overlap(&from, &to), "{arch:?}: {shape:?}");
                    for range in [&from, &to] {
                        assert!(all.start <= range.start && range.end <= all.end, "{arch:?}: {shape:?}");
                    }
                    assert_eq!(*residual != Address::NONE, shape.adds);
                    assert!(
                        !shape.adds || !overlap(&bytes(*residual, written, size), &to),
                        "{arch:?}: {shape:?}"
                    );
                    assert!(
                        shape.outputs.is_multiple_of(64) && shape.channels.is_multiple_of(64),
                        "{arch:?}: {shape:?}"
                    );
                }
                assert!(plan.logits + count * 4 <= plan.bytes && plan.features < plan.bytes);
            }
        }
    }
}
