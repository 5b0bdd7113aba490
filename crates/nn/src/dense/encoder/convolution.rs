//! A small convolutional encoder, trained from scratch with the policy.

use std::ops::Range;

use plaudit_core::Seed;
use rayon::prelude::*;

use super::keypoints::Keypoints;
use super::{EncoderPart, EncoderTensor, last_layer};
use crate::dense::init;
use crate::dense::{Init, Mlp, MlpSpec, Scratch, Tape, TensorKind};
use crate::kernels::conv::{self, ConvSaved, ConvShape};
use crate::kernels::memory::AlignedBuffer;
use crate::kernels::simd::{Simd, for_each_isa};
use crate::kernels::{Isa, Precision};

/// The shape of a [`ConvEncoder`].
#[derive(Debug, Clone, PartialEq)]
pub struct ConvEncoderSpec {
    /// Rows of an image.
    pub height: usize,
    /// Columns of an image.
    pub width: usize,
    /// Channels of an image: three, or three for each frame or camera seen at once.
    pub channels: usize,
    /// From the image up; a ReLU follows each, but for the last where keypoints are read.
    pub layers: Vec<ConvLayer>,
    /// How the last feature map is read out.
    pub readout: ConvReadout,
    /// Numbers that come out.
    pub outputs: usize,
    /// What the convolutions multiply in.
    pub precision: Precision,
}

/// How the feature map of the last convolution is read out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConvReadout {
    /// Flattened: every channel at every position.
    Flatten,
    /// Spatial softmax: the expected position of each channel, two numbers each. No bias, which a softmax would ignore.
    Keypoints,
}

/// One convolution, square and without padding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConvLayer {
    /// Channels that come out.
    pub channels: usize,
    /// Rows and columns of its kernel.
    pub kernel: usize,
    /// Step between neighbouring outputs.
    pub stride: usize,
}

impl ConvEncoderSpec {
    /// Four layers of 32 channels after DrQ (Kostrikov et al., 2020), with strides 2, 2, 1, 1 for small images.
    pub fn drq(height: usize, width: usize, channels: usize, outputs: usize) -> Self {
        let layers = [2, 2, 1, 1].map(|stride| ConvLayer { channels: 32, kernel: 3, stride });
        let (layers, readout) = (layers.to_vec(), ConvReadout::Flatten);
        Self { height, width, channels, layers, readout, outputs, precision: Precision::F32 }
    }
}

/// Convolutions with ReLU; what is read of the last; linear, layer norm, tanh.
///
/// Images are bytes `[batch, height, width, channels]`; they become numbers from -0.5 to 0.5.
#[derive(Debug, Clone)]
pub struct ConvEncoder {
    spec: ConvEncoderSpec,
    /// For one image.
    shapes: Vec<ConvShape>,
    places: Vec<ConvLayerLayout>,
    keypoints: Option<Keypoints>,
    head_start: usize,
    head: Mlp,
}

/// Where the parameters of a convolution lie.
#[derive(Debug, Clone)]
pub(in crate::dense) struct ConvLayerLayout {
    /// `[row, column, in, out]`
    pub(in crate::dense) weights: Range<usize>,
    /// Right behind them. A ReLU follows where there is one.
    pub(in crate::dense) bias: Option<Range<usize>>,
}

/// What an encoder is made of, for those who compute it elsewhere.
pub(in crate::dense) struct EncoderParts<'a> {
    /// For one image.
    pub(in crate::dense) shapes: &'a [ConvShape],
    pub(in crate::dense) places: &'a [ConvLayerLayout],
    pub(in crate::dense) keypoints: Option<Keypoints>,
    pub(in crate::dense) head_start: usize,
    pub(in crate::dense) head: &'a Mlp,
}

/// What a forward pass leaves for the backward pass.
#[derive(Debug, Clone, Default)]
pub struct ConvTape {
    batch: usize,
    images: AlignedBuffer,
    layers: Vec<LayerTape>,
    /// `[batch, 2 * channels]`, where keypoints are read.
    points: AlignedBuffer,
    head: Tape,
    scratch: Scratch,
    /// Gradients of a layer's output and of its input.
    grads: [AlignedBuffer; 2],
    grad_weights: Vec<f32>,
    /// Sums for a bias, of each image.
    sums: Vec<f32>,
}

#[derive(Debug, Clone, Default)]
struct LayerTape {
    output: AlignedBuffer,
    saved: Option<ConvSaved>,
}

impl ConvEncoder {
    /// An encoder of this shape.
    ///
    /// # Panics
    /// If a size is zero, or the layers leave nothing of the image.
    pub fn new(spec: ConvEncoderSpec) -> Self {
        assert!(!spec.layers.is_empty(), "an encoder needs a convolution");
        let mut size = (spec.height, spec.width, spec.channels);
        let mut shapes = Vec::with_capacity(spec.layers.len());
        let mut places = Vec::with_capacity(spec.layers.len());
        let mut end = 0;
        let reads_points = spec.readout == ConvReadout::Keypoints;
        for (at, layer) in spec.layers.iter().enumerate() {
            let shape = ConvShape {
                batch: 1,
                height: size.0,
                width: size.1,
                in_channels: size.2,
                out_channels: layer.channels,
                kernel: layer.kernel,
                stride: layer.stride,
                padding: 0,
            };
            size = (shape.out_height(), shape.out_width(), layer.channels);
            let weights = end..end + shape.weights_len();
            let has_bias = !(reads_points && at + 1 == spec.layers.len());
            let bias = has_bias.then(|| weights.end..weights.end + layer.channels);
            end = bias.as_ref().map_or(weights.end, |bias| bias.end);
            places.push(ConvLayerLayout { weights, bias });
            shapes.push(shape);
        }
        let (height, width, channels) = size;
        let keypoints = reads_points.then_some(Keypoints { height, width, channels });
        let inputs = keypoints.map_or(height * width * channels, Keypoints::outputs);
        assert!(
            height * width * channels > 0,
            "images of {} by {} are too small for these layers",
            spec.height,
            spec.width
        );
        let head = Mlp::new(MlpSpec { inputs, layers: vec![last_layer(spec.outputs)] });
        Self { spec, shapes, places, keypoints, head_start: end, head }
    }

    /// The shape it was made from.
    pub fn spec(&self) -> &ConvEncoderSpec {
        &self.spec
    }

    /// What it is made of.
    pub(in crate::dense) fn parts(&self) -> EncoderParts<'_> {
        let Self { shapes, places, keypoints, head_start, head, .. } = self;
        EncoderParts { shapes, places, keypoints: *keypoints, head_start: *head_start, head }
    }

    /// Bytes of one image.
    pub fn inputs(&self) -> usize {
        self.shapes[0].input_len()
    }

    /// Numbers that come out for one image.
    pub fn outputs(&self) -> usize {
        self.spec.outputs
    }

    /// Length of its parameters.
    #[allow(clippy::len_without_is_empty)] // an encoder without parameters cannot be made
    pub fn len(&self) -> usize {
        self.head_start + self.head.len()
    }

    /// Every tensor.
    pub fn tensors(&self) -> impl Iterator<Item = EncoderTensor> + '_ {
        let convolutions = self.shapes.iter().enumerate().flat_map(|(layer, shape)| {
            let weight = vec![shape.out_channels, shape.in_channels, shape.kernel, shape.kernel];
            let weight = EncoderTensor { part: EncoderPart::ConvWeight(layer), shape: weight };
            let bias = self.places[layer]
                .bias
                .as_ref()
                .map(|bias| EncoderTensor { part: EncoderPart::ConvBias(layer), shape: vec![bias.len()] });
            std::iter::once(weight).chain(bias)
        });
        let head = self.head.tensors();
        let head =
            head.map(|tensor| EncoderTensor { part: EncoderPart::Head(tensor.kind), shape: tensor.shape });
        convolutions.chain(head)
    }

    /// Parameters to begin with: orthogonal kernels with ReLU's gain, no biases.
    pub fn init(&self, seed: Seed) -> Vec<f32> {
        let mut params = vec![0.0; self.len()];
        for tensor in self.tensors() {
            if let EncoderPart::ConvWeight(layer) = tensor.part {
                let shape = &self.shapes[layer];
                let inputs = shape.weights_len() / shape.out_channels;
                let seed = seed.purpose("convolution").index(layer as u64);
                let init = Init::Orthogonal { gain: std::f32::consts::SQRT_2 };
                let values = init::weights(&init, shape.out_channels, inputs, seed);
                self.import(&mut params, &tensor, &values);
            }
        }
        params[self.head_start..].copy_from_slice(&self.head.init(seed.purpose("head")));
        params
    }

    /// One tensor as PyTorch keeps it.
    pub fn export(&self, params: &[f32], tensor: &EncoderTensor) -> Vec<f32> {
        match tensor.part {
            EncoderPart::ConvWeight(layer) => {
                let ours = &params[self.places[layer].weights.clone()];
                let mut theirs = vec![0.0; ours.len()];
                self.for_each_weight(layer, |there, here| theirs[there] = ours[here]);
                theirs
            }
            EncoderPart::ConvBias(layer) => {
                self.places[layer].bias.clone().map_or_else(Vec::new, |bias| params[bias].to_vec())
            }
            EncoderPart::Head(kind) => self.export_head(params, kind),
            EncoderPart::Pooling => Vec::new(),
        }
    }

    /// Puts one tensor, as PyTorch keeps it, into the parameters.
    pub fn import(&self, params: &mut [f32], tensor: &EncoderTensor, values: &[f32]) {
        match tensor.part {
            EncoderPart::ConvWeight(layer) => {
                let ours = &mut params[self.places[layer].weights.clone()];
                assert_eq!(ours.len(), values.len(), "a kernel must be {:?}", tensor.shape);
                self.for_each_weight(layer, |there, here| ours[here] = values[there]);
            }
            EncoderPart::ConvBias(layer) => {
                if let Some(bias) = self.places[layer].bias.clone() {
                    params[bias].copy_from_slice(values);
                }
            }
            EncoderPart::Head(kind) => self.import_head(params, kind, values),
            EncoderPart::Pooling => {}
        }
    }

    /// Outputs `[batch, outputs]`, with what [`Self::backward`] needs left on the tape.
    pub fn forward<'t>(
        &self,
        params: &[f32],
        images: &[u8],
        batch: usize,
        tape: &'t mut ConvTape,
    ) -> &'t [f32] {
        self.convolve(params, images, batch, tape);
        let ConvTape { layers, points, head, .. } = tape;
        let features = self.read(layers, points, batch);
        self.head.forward(&params[self.head_start..], features, batch, head)
    }

    /// Outputs alone. The tape is memory only.
    pub fn infer<'t>(
        &self,
        params: &[f32],
        images: &[u8],
        batch: usize,
        tape: &'t mut ConvTape,
    ) -> &'t [f32] {
        self.convolve(params, images, batch, tape);
        let ConvTape { layers, points, scratch, .. } = tape;
        let features = self.read(layers, points, batch);
        self.head.infer(&params[self.head_start..], features, batch, scratch)
    }

    /// Adds the gradients of the parameters to `grads`, given those of the outputs of the last forward pass on this
    /// tape.
    pub fn backward(&self, params: &[f32], tape: &mut ConvTape, grad_out: &[f32], grads: &mut [f32]) {
        let ConvTape { batch, images, layers, points, head, grads: [grad, next], grad_weights, sums, .. } =
            tape;
        let batch = *batch;
        let len = batch * self.head.inputs();
        grad.fit(len);
        let head_grads = &mut grads[self.head_start..];
        self.head.backward(&params[self.head_start..], head, grad_out, head_grads, Some(&mut grad[..len]));
        if let (Some(keypoints), Some(last)) = (self.keypoints, layers.last()) {
            let outputs = batch * keypoints.inputs();
            next.fit(outputs);
            keypoints.backward(&last.output[..outputs], &points[..len], &grad[..len], &mut next[..outputs]);
            std::mem::swap(grad, next);
        }
        for (layer, shape) in self.shapes.iter().enumerate().rev() {
            let shape = ConvShape { batch, ..*shape };
            let ConvLayerLayout { weights, bias } = self.places[layer].clone();
            let grad_output = &mut grad[..shape.output_len()];
            let output = &layers[layer].output[..shape.output_len()];
            if let Some(bias) = bias {
                relu_back_all(output, grad_output, batch, sums, &mut grads[bias]);
            }
            let input = match layer {
                0 => &images[..shape.input_len()],
                _ => &layers[layer - 1].output[..shape.input_len()],
            };
            next.fit(if layer > 0 { shape.input_len() } else { 0 });
            let grad_input = (layer > 0).then(|| &mut next[..shape.input_len()]);
            grad_weights.resize(shape.weights_len(), 0.0);
            let saved = layers[layer].saved.as_ref().expect("a forward pass comes first");
            let kernel = &params[weights.clone()];
            conv::backward(&shape, input, kernel, saved, grad_output, grad_input, Some(grad_weights));
            grads[weights].iter_mut().zip(&*grad_weights).for_each(|(g, new)| *g += new);
            std::mem::swap(grad, next);
        }
    }

    fn convolve(&self, params: &[f32], images: &[u8], batch: usize, tape: &mut ConvTape) {
        assert_eq!(params.len(), self.len(), "parameters of another encoder");
        assert_eq!(images.len(), batch * self.inputs(), "images must be [batch, height, width, channels]");
        tape.batch = batch;
        tape.layers.resize_with(self.shapes.len(), LayerTape::default);
        tape.images.fit(images.len());
        let numbers = tape.images[..images.len()].par_chunks_mut(self.inputs());
        let isa = Isa::best(Precision::F32);
        numbers
            .zip(images.par_chunks(self.inputs()))
            .for_each(|(numbers, bytes)| center(isa, bytes, numbers));
        for (layer, shape) in self.shapes.iter().enumerate() {
            let shape = ConvShape { batch, ..*shape };
            let ConvLayerLayout { weights, bias } = self.places[layer].clone();
            let (before, after) = tape.layers.split_at_mut(layer);
            let input = before.last().map_or(&*tape.images, |before| &*before.output);
            let LayerTape { output, saved } = &mut after[0];
            output.fit(shape.output_len());
            let output = &mut output[..shape.output_len()];
            let input = &input[..shape.input_len()];
            *saved = Some(conv::forward(&shape, self.spec.precision, input, &params[weights], output));
            if let Some(bias) = bias {
                let rows = output.par_chunks_mut(shape.output_len() / batch.max(1));
                rows.for_each(|rows| bias_relu(isa, rows, &params[bias.clone()]));
            }
        }
    }

    /// What the head takes.
    fn read<'t>(
        &self,
        layers: &'t mut [LayerTape],
        points: &'t mut AlignedBuffer,
        batch: usize,
    ) -> &'t [f32] {
        let len = batch * self.head.inputs();
        let output = &mut layers[self.shapes.len() - 1].output;
        let Some(keypoints) = self.keypoints else { return &output[..len] };
        points.fit(len);
        keypoints.forward(&mut output[..batch * keypoints.inputs()], &mut points[..len]);
        &points[..len]
    }

    /// Visits each weight of a convolution: its place in PyTorch's `[out, in, row, column]`, and in ours.
    fn for_each_weight(&self, layer: usize, mut visit: impl FnMut(usize, usize)) {
        let ConvShape { in_channels, out_channels, kernel, .. } = self.shapes[layer];
        for out in 0..out_channels {
            for input in 0..in_channels {
                for tap in 0..kernel * kernel {
                    let there = (out * in_channels + input) * kernel * kernel + tap;
                    visit(there, (tap * in_channels + input) * out_channels + out);
                }
            }
        }
    }

    fn export_head(&self, params: &[f32], kind: TensorKind) -> Vec<f32> {
        let Some(tensor) = self.head.tensors().find(|tensor| tensor.kind == kind) else { return Vec::new() };
        let ours = self.head.export(&params[self.head_start..], &tensor);
        match kind {
            TensorKind::Weight if self.keypoints.is_none() => {
                self.columns().flat_map(|columns| columns.map(|(_, here)| ours[here])).collect()
            }
            _ => ours,
        }
    }

    fn import_head(&self, params: &mut [f32], kind: TensorKind, values: &[f32]) {
        let Some(tensor) = self.head.tensors().find(|tensor| tensor.kind == kind) else { return };
        let head = &mut params[self.head_start..];
        if kind != TensorKind::Weight || self.keypoints.is_some() {
            return self.head.import(head, &tensor, values);
        }
        assert_eq!(values.len(), tensor.range.len(), "a weight must be {:?}", tensor.shape);
        let mut ours = vec![0.0; values.len()];
        self.columns().flatten().for_each(|(there, here)| ours[here] = values[there]);
        self.head.import(head, &tensor, &ours);
    }

    /// The weights of the last layer, row by row: places in PyTorch's order of what it takes, channels first, and in
    /// ours, channels last.
    fn columns(&self) -> impl Iterator<Item = impl Iterator<Item = (usize, usize)>> {
        let last = self.shapes[self.shapes.len() - 1];
        let (channels, places) = (last.out_channels, last.out_height() * last.out_width());
        (0..self.spec.outputs).map(move |output| {
            (0..channels * places).map(move |i| {
                let (channel, place) = (i / places, i % places);
                let start = output * channels * places;
                (start + i, start + place * channels + channel)
            })
        })
    }
}

/// Backward pass of ReLU, image by image; adds the sums for the bias in the order of the images.
fn relu_back_all(output: &[f32], grad: &mut [f32], batch: usize, sums: &mut Vec<f32>, grad_bias: &mut [f32]) {
    let (isa, image, channels) = (Isa::best(Precision::F32), output.len() / batch.max(1), grad_bias.len());
    sums.resize(batch * channels, 0.0);
    let images = grad.par_chunks_mut(image).zip(output.par_chunks(image));
    let images = images.zip(sums.par_chunks_mut(channels));
    images.for_each(|((grad, output), sums)| relu_back(isa, output, grad, sums));
    for sums in sums.chunks_exact(channels) {
        grad_bias.iter_mut().zip(sums).for_each(|(g, s)| *g += s);
    }
}

for_each_isa! {
    /// Bytes as numbers from -0.5 to 0.5.
    fn center = center_all(bytes: &[u8], numbers: &mut [f32]);

    /// Adds a bias to each row, then ReLU.
    fn bias_relu = bias_relu_all(values: &mut [f32], bias: &[f32]);

    /// Backward pass of ReLU; writes the sums over the rows.
    fn relu_back = relu_back_one(output: &[f32], grad: &mut [f32], sums: &mut [f32]);
}

#[inline(always)]
fn center_all<L: Simd>(_: L, bytes: &[u8], numbers: &mut [f32]) {
    for (number, byte) in numbers.iter_mut().zip(bytes) {
        *number = f32::from(*byte) / 255.0 - 0.5;
    }
}

#[inline(always)]
fn bias_relu_all<L: Simd>(_: L, values: &mut [f32], bias: &[f32]) {
    for row in values.chunks_exact_mut(bias.len()) {
        for (x, b) in row.iter_mut().zip(bias) {
            let sum = *x + b;
            *x = if sum < 0.0 { 0.0 } else { sum };
        }
    }
}

#[inline(always)]
fn relu_back_one<L: Simd>(_: L, output: &[f32], grad: &mut [f32], sums: &mut [f32]) {
    sums.fill(0.0);
    let channels = sums.len();
    for (row, output) in grad.chunks_exact_mut(channels).zip(output.chunks_exact(channels)) {
        for ((g, y), s) in row.iter_mut().zip(output).zip(&mut *sums) {
            *g = if *y > 0.0 { *g } else { 0.0 };
            *s += *g;
        }
    }
}
