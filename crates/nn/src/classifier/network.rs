//! The definition of the networks: which layers there are, what PyTorch calls them, and in which order they run.

use super::init::Init;
use super::parameters::{Id, Order, Role, Spec};
use super::settings::{Arch, ClassifierSettings, Family};
use crate::ops::images::{self, Geometry};
use crate::ops::tokens::layer_norm;
use crate::tensor::{self, Tensor, relu, tanh};

/// A forward pass, for training or for inference.
pub(super) trait Pass {
    /// A parameter with its axes.
    fn parameter<const D: usize>(&self, id: Id) -> Tensor<D>;

    /// A convolution and its normalisation, plus `residual`, then ReLU if asked for. Images are `[n, h, w, c]`.
    fn conv_norm(
        &mut self,
        layer: &ConvNorm,
        input: Tensor<4>,
        residual: Option<Tensor<4>>,
        relu: bool,
    ) -> Tensor<4>;

    /// The first convolution and its normalisation, ReLU, and the pool.
    fn stem(&mut self, layer: &ConvNorm, images: Tensor<4>) -> Tensor<4> {
        images::max_pool(self.conv_norm(layer, images, None, true))
    }

    /// How many images of so many pixels go through the wide layers at a time, if not all: what these write is then in
    /// the cache when it is read.
    fn images_at_a_time(&self, _pixels: usize) -> Option<usize> {
        None
    }

    /// `[n, inputs]` to `[n, outputs]`.
    fn linear(&self, layer: &Linear, input: Tensor<2>) -> Tensor<2> {
        tensor::linear(input, self.parameter(layer.weight)).add_bias(self.parameter(layer.bias))
    }

    /// Drops this share of the numbers while training, and makes up for it with the rest.
    fn dropout(&mut self, input: Tensor<2>, share: f64) -> Tensor<2>;
}

/// How a convolution's outputs are normalised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Norm {
    /// Over the batch, with running statistics for later.
    Batch { mean: Id, variance: Id, counter: Id },
    /// Over groups of channels of one image.
    Group { groups: usize },
}

/// A convolution without bias, and the normalisation after it.
#[derive(Clone, Copy, Debug)]
pub(super) struct ConvNorm {
    /// Which one this is, counted through the network.
    pub(super) index: usize,
    pub(super) weight: Id,
    pub(super) scale: Id,
    pub(super) shift: Id,
    pub(super) norm: Norm,
    pub(super) kernel: usize,
    pub(super) stride: usize,
    pub(super) frozen: bool,
}

impl ConvNorm {
    pub(super) fn geometry(&self) -> Geometry {
        Geometry { stride: self.stride, padding: self.kernel / 2 }
    }
}

/// Added to a variance before its root is taken.
pub(super) const EPSILON: f64 = 1e-5;

/// A layer whose outputs see all inputs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Linear {
    /// Which one this is, counted through the network.
    pub(super) index: usize,
    pub(super) weight: Id,
    pub(super) bias: Id,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct LayerNorm {
    pub(super) scale: Id,
    pub(super) shift: Id,
}

impl LayerNorm {
    fn forward(&self, pass: &impl Pass, input: Tensor<2>) -> Tensor<2> {
        layer_norm(input, pass.parameter(self.scale), pass.parameter(self.shift), EPSILON)
    }
}

/// A residual block: convolutions one after another, and a shortcut past them.
#[derive(Clone, Debug)]
pub(super) struct Block {
    pub(super) path: Vec<ConvNorm>,
    pub(super) shortcut: Option<ConvNorm>,
}

impl Block {
    fn forward(&self, pass: &mut impl Pass, input: Tensor<4>) -> Tensor<4> {
        let shortcut = match &self.shortcut {
            Some(layer) => pass.conv_norm(layer, input.clone(), None, false),
            None => input.clone(),
        };
        let (last, before) = self.path.split_last().unwrap_or_else(|| unreachable!("a block has layers"));
        let inner = before.iter().fold(input, |x, layer| pass.conv_norm(layer, x, None, true));
        pass.conv_norm(last, inner, Some(shortcut), true)
    }
}

/// The convolutions of a ResNet: `[n, h, w, 3]` to `[n, h / 32, w / 32, channels]`.
#[derive(Clone, Debug)]
pub(super) struct Trunk {
    pub(super) stem: ConvNorm,
    /// The blocks of the first two stages, whose feature maps are large.
    pub(super) wide: Vec<Block>,
    /// Those of the others, whose weights are.
    pub(super) deep: Vec<Block>,
}

impl Trunk {
    fn forward(&self, pass: &mut impl Pass, images: Tensor<4>) -> Tensor<4> {
        let [count, height, width, _] = images.dims();
        let wide = match pass.images_at_a_time(height * width) {
            Some(some) if some < count => images::in_chunks(count, some, |first, some| {
                self.wide_layers(pass, images.clone().narrow(0, first, some))
            }),
            _ => self.wide_layers(pass, images),
        };
        self.deep.iter().fold(wide, |x, block| block.forward(pass, x))
    }

    fn wide_layers(&self, pass: &mut impl Pass, images: Tensor<4>) -> Tensor<4> {
        let stem = pass.stem(&self.stem, images);
        self.wide.iter().fold(stem, |x, block| block.forward(pass, x))
    }
}

/// Pooling: from a trunk's feature maps to a row of features.
#[derive(Clone, Debug)]
pub(super) enum Pooling {
    /// Global average pooling.
    Mean,
    /// Spatial learned embeddings: positions weighted by what was learned for each channel, then a layer.
    Spatial { kernel: Id, per_position: bool, dropout: f64, project: Linear, norm: LayerNorm },
}

impl Pooling {
    fn forward(&self, pass: &mut impl Pass, images: Tensor<4>) -> Tensor<2> {
        let Self::Spatial { kernel, per_position, dropout, project, norm } = self else {
            return images::global_avg_pool(images);
        };
        let [n, height, width, channels] = images.dims();
        let positions = if *per_position {
            images.reshape([n, height * width, channels])
        } else {
            images::global_avg_pool(images).reshape([n, 1, channels])
        };
        let kernel = pass.parameter::<4>(*kernel);
        let [_, rows, columns, blocks] = kernel.dims();
        let kernel = kernel.reshape([channels, rows * columns, blocks]);
        // [channels, n, positions] x [channels, positions, blocks]
        let embedded = positions.permute([2, 0, 1]).matmul(kernel).permute([1, 0, 2]);
        let embedded = pass.dropout(embedded.reshape([n, channels * blocks]), *dropout);
        tanh(norm.forward(pass, pass.linear(project, embedded)))
    }
}

/// From features to the logit.
#[derive(Clone, Debug)]
pub(super) enum Head {
    Single(Linear),
    Hidden { first: Linear, dropout: f64, last: Linear },
    Normed { first: Linear, dropout: f64, norm: LayerNorm, last: Linear },
}

impl Head {
    /// Its normalisation, if it has one.
    pub(super) fn norm(&self) -> Option<&LayerNorm> {
        match self {
            Self::Normed { norm, .. } => Some(norm),
            Self::Single(_) | Self::Hidden { .. } => None,
        }
    }

    fn forward(&self, pass: &mut impl Pass, features: Tensor<2>) -> Tensor<2> {
        match self {
            Self::Single(layer) => pass.linear(layer, features),
            Self::Hidden { first, dropout, last } => {
                let hidden = relu(pass.linear(first, features));
                let hidden = pass.dropout(hidden, *dropout);
                pass.linear(last, hidden)
            }
            Self::Normed { first, dropout, norm, last } => {
                let hidden = pass.linear(first, features);
                let hidden = pass.dropout(hidden, *dropout);
                pass.linear(last, relu(norm.forward(pass, hidden)))
            }
        }
    }
}

/// A network: one or more trunks, a pooling for each camera, a head.
#[derive(Clone, Debug)]
pub(super) struct Network {
    pub(super) trunks: Vec<Trunk>,
    pub(super) poolings: Vec<Pooling>,
    pub(super) head: Head,
    /// Every convolution, by its index.
    pub(super) convolutions: Vec<ConvNorm>,
    /// Every linear layer, by its index.
    pub(super) linears: Vec<Linear>,
}

impl Network {
    /// One image of each camera, `[n, h, w, 3]`, to the outputs of the head, image after image: a logit each, or the bins of a
    /// network of progress.
    pub(super) fn outputs(&self, pass: &mut impl Pass, views: Vec<Tensor<4>>) -> Tensor<1> {
        let features = self.features(pass, views);
        self.outputs_of_features(pass, features)
    }

    /// One image of each camera to the row of numbers that the head decides by, `[n, features]`.
    pub(super) fn features(&self, pass: &mut impl Pass, views: Vec<Tensor<4>>) -> Tensor<2> {
        let outputs = self.trunk_outputs(pass, views);
        let features = outputs.into_iter().zip(&self.poolings).map(|(x, pooling)| pooling.forward(pass, x));
        Tensor::cat(features.collect(), 1)
    }

    /// Features to the outputs of the head, row after row.
    pub(super) fn outputs_of_features(&self, pass: &mut impl Pass, features: Tensor<2>) -> Tensor<1> {
        let outputs = self.head.forward(pass, features);
        let [count, width] = outputs.dims();
        outputs.reshape([count * width])
    }

    /// The feature maps of the first camera, `[n, h / 32, w / 32, channels]`.
    pub(super) fn first_trunk_features(&self, pass: &mut impl Pass, view: Tensor<4>) -> Tensor<4> {
        self.trunks[0].forward(pass, view)
    }

    /// Cameras that share a trunk go through it as one batch, so that its normalisation sees them all.
    fn trunk_outputs(&self, pass: &mut impl Pass, views: Vec<Tensor<4>>) -> Vec<Tensor<4>> {
        if self.trunks.len() == views.len() {
            return self.trunks.iter().zip(views).map(|(trunk, view)| trunk.forward(pass, view)).collect();
        }
        let cameras = views.len();
        self.trunks[0].forward(pass, Tensor::cat(views, 0)).chunk(cameras, 0)
    }
}

/// Where each part of a network has its parameters in PyTorch's files.
struct ParameterNames {
    trunks: Vec<String>,
    head: [String; 3],
}

impl ParameterNames {
    fn of(settings: &ClassifierSettings) -> Self {
        let keys = &settings.image_keys;
        let family = settings.arch.family();
        let trunks = match family {
            Family::SmallSpatial => {
                keys.iter().map(|key| format!("encoders.{key}.resnet_backbone.")).collect()
            }
            Family::Small | Family::Torchvision if settings.separate_trunks() => {
                keys.iter().map(|key| format!("backbones.{key}.")).collect()
            }
            Family::Small | Family::Torchvision => vec!["backbone.".to_owned()],
        };
        let head = match (family, settings.hidden_dim) {
            (Family::SmallSpatial, _) => ["classifier.0.", "classifier.2.", "classifier.4."],
            (Family::Small, _) => ["classifier.1.", "", "classifier.4."],
            (Family::Torchvision, Some(_)) => ["backbone.fc.0.", "", "backbone.fc.3."],
            (Family::Torchvision, None) => ["backbone.fc.", "", ""],
        };
        Self { trunks, head: head.map(str::to_owned) }
    }
}

/// The prefixes of the trunks' names: what a pretrained file replaces.
pub(super) fn trunk_prefixes(settings: &ClassifierSettings) -> Vec<String> {
    ParameterNames::of(settings).trunks
}

/// The sizes that distinguish one ResNet from another.
struct ResnetDepth {
    blocks: [usize; 4],
    bottleneck: bool,
    group_norm: bool,
}

impl ResnetDepth {
    fn of(arch: Arch) -> Self {
        let (blocks, bottleneck) = match arch {
            Arch::Resnet10 | Arch::Resnet10Spatial => ([1, 1, 1, 1], false),
            Arch::Resnet18 => ([2, 2, 2, 2], false),
            Arch::Resnet34 => ([3, 4, 6, 3], false),
            Arch::Resnet50 => ([3, 4, 6, 3], true),
            Arch::Resnet101 => ([3, 4, 23, 3], true),
            Arch::Resnet152 => ([3, 8, 36, 3], true),
        };
        let group_norm = match arch.family() {
            Family::Small | Family::SmallSpatial => true,
            Family::Torchvision => false,
        };
        Self { blocks, bottleneck, group_norm }
    }

    fn features(&self) -> usize {
        if self.bottleneck { 2048 } else { SMALL_FEATURES }
    }
}

/// Channels at the end of a trunk without bottlenecks.
pub(super) const SMALL_FEATURES: usize = 512;
/// Group normalisation has this many groups.
const GROUPS: usize = 4;
/// The ImageNet classes whose layer the ResNet-10 files keep.
const CLASSES: usize = 1000;
/// Width of hidden layers where none is set and the architecture has one.
const DEFAULT_HIDDEN: usize = 256;

/// Writes down a network's parameters while its layers are made.
pub(super) struct Builder<'a> {
    settings: &'a ClassifierSettings,
    depth: ResnetDepth,
    specs: Vec<Spec>,
    convolutions: Vec<ConvNorm>,
    linears: Vec<Linear>,
}

/// The network that settings name, and its parameters in the order PyTorch would save them.
pub(super) fn build(settings: &ClassifierSettings) -> (Network, Vec<Spec>) {
    let mut builder = Builder {
        settings,
        depth: ResnetDepth::of(settings.arch),
        specs: Vec::new(),
        convolutions: Vec::new(),
        linears: Vec::new(),
    };
    let names = ParameterNames::of(settings);
    let trunks = names.trunks.iter().map(|name| builder.trunk(name)).collect();
    let poolings: Vec<Pooling> = settings.image_keys.iter().map(|key| builder.pooling(key)).collect();
    let head = builder.head(&names.head);
    let Builder { specs, convolutions, linears, .. } = builder;
    let network = Network { trunks, poolings, head, convolutions, linears };
    (network, specs)
}

impl Builder<'_> {
    fn parameter(&mut self, name: String, shape: &[usize], init: Init, role: Role) -> Id {
        self.specs.push(Spec { name, shape: shape.to_vec(), order: Order::Same, role, init });
        Id(self.specs.len() - 1)
    }

    fn convolution(&mut self, name: String, shape: [usize; 4]) -> Id {
        let [outputs, _, rows, columns] = shape;
        let he = Init::kaiming_normal(std::f64::consts::SQRT_2, outputs * rows * columns);
        let id = self.parameter(name, &shape, he, self.trunk_role());
        self.specs[id.0].order = Order::Convolution;
        id
    }

    fn trunk_role(&self) -> Role {
        if self.settings.freeze_encoder { Role::Frozen } else { Role::Trained }
    }

    fn trunk(&mut self, at: &str) -> Trunk {
        let stem = self.conv_norm(&format!("{at}conv1"), &format!("{at}bn1"), 3, 64, 7, 2);
        let (mut wide, mut deep) = (Vec::new(), Vec::new());
        let mut channels = 64;
        for (stage, count) in self.depth.blocks.into_iter().enumerate() {
            let blocks = if stage < 2 { &mut wide } else { &mut deep };
            let width = 64 << stage;
            for block in 0..count {
                let stride = if stage > 0 && block == 0 { 2 } else { 1 };
                blocks.push(self.block(&format!("{at}layer{}.{block}.", stage + 1), channels, width, stride));
                channels = if self.depth.bottleneck { 4 * width } else { width };
            }
        }
        if self.depth.group_norm {
            self.unused_classes(at);
        }
        Trunk { stem, wide, deep }
    }

    fn block(&mut self, at: &str, inputs: usize, width: usize, stride: usize) -> Block {
        let outputs = if self.depth.bottleneck { 4 * width } else { width };
        // Channels in and out, kernel and stride of each convolution of the path.
        let path: &[(usize, usize, usize, usize)] = if self.depth.bottleneck {
            &[(inputs, width, 1, 1), (width, width, 3, stride), (width, outputs, 1, 1)]
        } else {
            &[(inputs, width, 3, stride), (width, outputs, 3, 1)]
        };
        let mut layers = Vec::new();
        for (i, (inputs, outputs, kernel, stride)) in path.iter().enumerate() {
            let (conv, norm) = (format!("{at}conv{}", i + 1), format!("{at}bn{}", i + 1));
            layers.push(self.conv_norm(&conv, &norm, *inputs, *outputs, *kernel, *stride));
        }
        let shortcut = (stride != 1 || inputs != outputs).then(|| {
            let (conv, norm) = (format!("{at}downsample.0"), format!("{at}downsample.1"));
            self.conv_norm(&conv, &norm, inputs, outputs, 1, stride)
        });
        Block { path: layers, shortcut }
    }

    fn conv_norm(
        &mut self,
        conv: &str,
        norm: &str,
        inputs: usize,
        outputs: usize,
        kernel: usize,
        stride: usize,
    ) -> ConvNorm {
        let role = self.trunk_role();
        let weight = self.convolution(format!("{conv}.weight"), [outputs, inputs, kernel, kernel]);
        let scale = self.parameter(format!("{norm}.weight"), &[outputs], Init::One, role);
        let shift = self.parameter(format!("{norm}.bias"), &[outputs], Init::Zero, role);
        let norm = if self.depth.group_norm {
            Norm::Group { groups: GROUPS }
        } else {
            self.statistics(norm, outputs)
        };
        let index = self.convolutions.len();
        let frozen = self.settings.freeze_encoder;
        let layer = ConvNorm { index, weight, scale, shift, norm, kernel, stride, frozen };
        self.convolutions.push(layer);
        layer
    }

    fn statistics(&mut self, norm: &str, channels: usize) -> Norm {
        let mut statistic =
            |name: &str, init| self.parameter(format!("{norm}.{name}"), &[channels], init, Role::Statistic);
        let mean = statistic("running_mean", Init::Zero);
        let variance = statistic("running_var", Init::One);
        let name = format!("{norm}.num_batches_tracked");
        let counter = self.parameter(name, &[], Init::Zero, Role::Counter);
        Norm::Batch { mean, variance, counter }
    }

    /// The layer of ImageNet's classes, which the files of ResNet-10 have and nothing uses.
    fn unused_classes(&mut self, at: &str) {
        let init = Init::linear_default(512);
        self.parameter(format!("{at}fc.weight"), &[CLASSES, 512], init, Role::Unused);
        self.parameter(format!("{at}fc.bias"), &[CLASSES], init, Role::Unused);
    }

    fn pooling(&mut self, key: &str) -> Pooling {
        if !self.settings.arch.pools_spatially() {
            return Pooling::Mean;
        }
        let (at, settings) = (format!("encoders.{key}."), self.settings);
        let per_position = settings.per_position();
        let [rows, columns] = if per_position { settings.feature_size() } else { [1, 1] };
        let blocks = settings.num_spatial_blocks;
        let shape = [self.depth.features(), rows, columns, blocks];
        let name = format!("{at}pooling_layer.kernel");
        let kernel = self.parameter(name, &shape, Init::Normal(1.0), Role::Trained);
        let hidden = self.hidden();
        let init = Init::kaiming_normal(5.0 / 3.0, hidden);
        let project = self.linear(&format!("{at}mlp.0."), shape[0] * blocks, hidden, init, Init::Zero);
        let norm = self.layer_norm(&format!("{at}mlp.1."), hidden);
        Pooling::Spatial { kernel, per_position, dropout: settings.dropout, project, norm }
    }

    fn hidden(&self) -> usize {
        self.settings.hidden_dim.unwrap_or(DEFAULT_HIDDEN)
    }

    fn head(&mut self, at: &[String; 3]) -> Head {
        let (cameras, dropout) = (self.settings.image_keys.len(), self.settings.dropout);
        let (inputs, outputs) = (cameras * self.depth.features(), self.settings.outputs());
        match (self.settings.arch.family(), self.settings.hidden_dim) {
            (Family::SmallSpatial, _) => {
                let hidden = self.hidden();
                let first = self.default_linear(&at[0], cameras * hidden, hidden);
                let norm = self.layer_norm(&at[1], hidden);
                Head::Normed { first, dropout, norm, last: self.default_linear(&at[2], hidden, outputs) }
            }
            (Family::Small, _) => {
                let hidden = self.hidden();
                let first = self.default_linear(&at[0], inputs, hidden);
                Head::Hidden { first, dropout, last: self.default_linear(&at[2], hidden, outputs) }
            }
            (Family::Torchvision, Some(hidden)) => {
                let first = self.xavier_linear(&at[0], inputs, hidden);
                Head::Hidden { first, dropout, last: self.xavier_linear(&at[2], hidden, outputs) }
            }
            (Family::Torchvision, None) => Head::Single(self.xavier_linear(&at[0], inputs, outputs)),
        }
    }

    fn xavier_linear(&mut self, at: &str, inputs: usize, outputs: usize) -> Linear {
        self.linear(at, inputs, outputs, Init::xavier_uniform(inputs, outputs), Init::Zero)
    }

    fn default_linear(&mut self, at: &str, inputs: usize, outputs: usize) -> Linear {
        let init = Init::linear_default(inputs);
        self.linear(at, inputs, outputs, init, init)
    }

    fn linear(&mut self, at: &str, inputs: usize, outputs: usize, weight: Init, bias: Init) -> Linear {
        let mut parameter = |name: &str, shape: &[usize], init| {
            self.parameter(format!("{at}{name}"), shape, init, Role::Trained)
        };
        let (weight, bias) =
            (parameter("weight", &[outputs, inputs], weight), parameter("bias", &[outputs], bias));
        let layer = Linear { index: self.linears.len(), weight, bias };
        self.linears.push(layer);
        layer
    }

    fn layer_norm(&mut self, at: &str, width: usize) -> LayerNorm {
        let mut parameter =
            |name: &str, init| self.parameter(format!("{at}{name}"), &[width], init, Role::Trained);
        LayerNorm { scale: parameter("weight", Init::One), shift: parameter("bias", Init::Zero) }
    }
}
