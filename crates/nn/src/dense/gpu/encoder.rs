//! A convolutional encoder on a GPU: several of one shape at once, one for each camera.

use super::kernels::{Floats, GpuKernels, Groups, Params, Rows, SumParts};
use super::mlp::{GpuMlp, InputGradient, TILE, WantedGradients, WeightGradients};
use crate::dense::encoder::{ConvEncoder, ConvLayerLayout, Keypoints};
use crate::gpu::GpuError;
use crate::kernels::conv::ConvShape;

/// Outputs of a convolution whose gradients a block sums up at most; as the kernels have it.
const MOST_PIXELS: usize = 1024;
/// Blocks that share the sums of a convolution's gradient, where the batch is large enough.
const CHUNKS: usize = 32;

/// So many encoders of one shape, with memory for what a pass leaves behind. Groups of the inner count (cameras) have parameters
/// of their own; those of the outer count (moments) share them.
#[derive(Debug)]
pub struct GpuConvEncoder {
    shapes: Vec<ConvShape>,
    places: Vec<ConvLayerLayout>,
    keypoints: Option<Keypoints>,
    head_start: usize,
    head: GpuMlp,
    inner: usize,
    images: usize,
    /// What each convolution gave.
    outputs: Vec<Rows>,
    /// What the head takes: the last of them, or its keypoints.
    features: Rows,
    backward: Option<BackwardMemory>,
}

/// Memory of a backward pass, of one group of the outer count.
#[derive(Debug)]
struct BackwardMemory {
    /// Gradients of features; of a layer's output and of its input.
    features: Floats,
    grads: [Floats; 2],
    /// Sums for weights and bias, of one chunk of outputs after the other.
    partial: Floats,
}

impl GpuConvEncoder {
    /// Encoders of the shape of `encoder`, with memory for `outer` times `inner` groups of so many images, whose outputs go to the
    /// rows of `output`. With `trains`, groups of the first of the outer count can have a backward pass.
    ///
    /// # Errors
    /// If there is too little memory.
    pub fn new(
        kernels: &mut GpuKernels,
        encoder: &ConvEncoder,
        [outer, inner, images]: [usize; 3],
        output: Rows,
        trains: bool,
    ) -> Result<Self, GpuError> {
        let parts = encoder.parts();
        let (shapes, room) = (parts.shapes.to_vec(), outer * inner * images);
        let mut outputs = Vec::new();
        for shape in &shapes {
            let each = shape.output_len();
            outputs.push(Rows::dense(kernels.floats(room * each)?, each, images, inner));
        }
        let features = match parts.keypoints {
            None => outputs[shapes.len() - 1],
            Some(keypoints) => {
                let each = keypoints.outputs();
                Rows::dense(kernels.floats(room * each)?, each, images, inner)
            }
        };
        let backward = match trains {
            false => None,
            true => {
                let largest = shapes.iter().map(ConvShape::output_len).max().unwrap_or(0) * inner * images;
                let partial = |shape: &ConvShape| {
                    chunks(shape, images).0 * (shape.weights_len() + shape.out_channels) * inner
                };
                Some(BackwardMemory {
                    features: kernels.floats(inner * images * features.stride)?,
                    grads: [kernels.floats(largest)?, kernels.floats(largest)?],
                    partial: kernels.floats(shapes.iter().map(partial).max().unwrap_or(0))?,
                })
            }
        };
        Ok(Self {
            head: GpuMlp::new(kernels, parts.head, outer, inner, images)?.with_output(output),
            places: parts.places.to_vec(),
            keypoints: parts.keypoints,
            head_start: parts.head_start,
            shapes,
            inner,
            images,
            outputs,
            features,
            backward,
        })
    }

    /// The outputs of `outer` times the inner count of groups, for so many images each: numbers from -0.5 to 0.5, as
    /// [`GpuKernels::center_images`] makes them.
    pub fn forward(
        &self,
        kernels: &mut GpuKernels,
        params: Params,
        images: Rows,
        outer: usize,
        count: usize,
    ) -> Result<(), GpuError> {
        assert!(count <= self.images, "{count} images in memory for {}", self.images);
        let groups = Groups { outer, inner: self.inner };
        let mut x = images;
        for ((shape, places), y) in self.shapes.iter().zip(&self.places).zip(&self.outputs) {
            let outputs = count * shape.out_height() * shape.out_width();
            let mut words = kernels.fitted(groups, x, count, shape.input_len()).to_vec();
            words.extend(kernels.params(groups, params, places.weights.clone()));
            words.push(bias_offset(places));
            words.extend(kernels.fitted(groups, *y, count, shape.output_len()));
            words.push(groups.inner as u64);
            words.extend(sizes(shape, count));
            let tiles = [outputs.div_ceil(TILE[0]), shape.out_channels.div_ceil(TILE[1]), groups.count()];
            kernels.launch("conv_forward", tiles, &words)?;
            x = *y;
        }
        if let Some(keypoints) = self.keypoints {
            let words = self.keypoints_words(kernels, groups, keypoints, count);
            let blocks = [count, keypoints.channels.div_ceil(32), groups.count()];
            kernels.launch("keypoints_forward", blocks, &words)?;
        }
        self.head.forward(kernels, self.head_params(params), self.features, outer, count)
    }

    /// The gradients of the parameters, given those of the outputs of the first `inner` groups of the last forward pass.
    pub fn backward(
        &self,
        kernels: &mut GpuKernels,
        params: Params,
        images: Rows,
        count: usize,
        grad_output: Rows,
        gradients: WeightGradients,
    ) -> Result<(), GpuError> {
        let Some(BackwardMemory { features, grads, partial }) = &self.backward else {
            unreachable!("these encoders were made without a backward pass")
        };
        let groups = Groups { outer: 1, inner: self.inner };
        let grad_features = Rows { floats: *features, ..self.features };
        let last = self.shapes.len() - 1;
        let mut grad = Rows { floats: grads[0], ..self.outputs[last] };
        // Without keypoints the head takes the last feature map, whose ReLU is behind it.
        let to = if self.keypoints.is_some() { grad_features } else { grad };
        let relu = self.keypoints.is_none().then_some(self.outputs[last]);
        let wanted = WantedGradients {
            weights: Some(WeightGradients { to: self.head_params(gradients.to), ..gradients }),
            inputs: Some(InputGradient { to, columns: 0..self.features.stride, relu, add: false }),
        };
        let head = self.head_params(params);
        self.head.backward(kernels, head, self.features, 1, count, grad_output, &wanted)?;
        if let Some(keypoints) = self.keypoints {
            let mut words = self.keypoints_words(kernels, groups, keypoints, count);
            words.extend(kernels.fitted(groups, grad_features, count, self.features.stride));
            words.extend(kernels.fitted(groups, grad, count, keypoints.inputs()));
            let blocks = [count, keypoints.inputs().div_ceil(super::runner::THREADS), groups.count()];
            kernels.launch("keypoints_backward", blocks, &words)?;
        }
        for layer in (0..self.shapes.len()).rev() {
            let before = layer.checked_sub(1).map(|before| self.outputs[before]);
            let x = before.unwrap_or(images);
            self.weight_gradients(kernels, layer, x, grad, *partial, gradients, count)?;
            let Some(before) = before else { break };
            let to = Rows { floats: grads[(last - layer + 1) % 2], ..before };
            self.input_gradients(kernels, layer, params, grad, to, before, count)?;
            grad = to;
        }
        Ok(())
    }

    #[allow(clippy::too_many_arguments)] // both sides of a layer
    fn weight_gradients(
        &self,
        kernels: &mut GpuKernels,
        layer: usize,
        x: Rows,
        grad: Rows,
        partial: Floats,
        gradients: WeightGradients,
        count: usize,
    ) -> Result<(), GpuError> {
        let (shape, places) = (&self.shapes[layer], &self.places[layer]);
        let groups = Groups { outer: 1, inner: self.inner };
        let (chunks, pixels) = chunks(shape, count);
        let weights = shape.weights_len() / shape.out_channels;
        let rows = weights + usize::from(places.bias.is_some());
        let numbers = rows * shape.out_channels;
        let partial = Rows { floats: partial, stride: numbers, outer: 0, inner: chunks * numbers };
        let mut words = kernels.fitted(groups, x, count, shape.input_len()).to_vec();
        words.extend(kernels.fitted(groups, grad, count, shape.output_len()));
        words.extend(kernels.fitted(groups, partial, chunks, numbers));
        words.push(groups.inner as u64);
        words.extend(sizes(shape, count));
        words.extend([pixels as u64, u64::from(places.bias.is_some())]);
        let tiles = rows.div_ceil(TILE[0]) * shape.out_channels.div_ceil(TILE[1]);
        kernels.launch("conv_weight_gradient", [chunks, tiles, groups.count()], &words)?;
        let WeightGradients { to, add } = gradients;
        let start = places.weights.start;
        let to = Rows {
            floats: to.floats.part(start..to.floats.len()),
            stride: numbers,
            outer: 0,
            inner: to.inner,
        };
        kernels.sum_parts(&SumParts {
            groups,
            from: partial,
            step: numbers,
            parts: chunks,
            to,
            rows: 1,
            columns: 0..numbers,
            add,
        })
    }

    #[allow(clippy::too_many_arguments)] // both sides of a layer
    fn input_gradients(
        &self,
        kernels: &mut GpuKernels,
        layer: usize,
        params: Params,
        grad: Rows,
        to: Rows,
        relu: Rows,
        count: usize,
    ) -> Result<(), GpuError> {
        let (shape, places) = (&self.shapes[layer], &self.places[layer]);
        let groups = Groups { outer: 1, inner: self.inner };
        let mut words = kernels.fitted(groups, grad, count, shape.output_len()).to_vec();
        words.extend(kernels.params(groups, params, places.weights.clone()));
        words.extend(kernels.fitted(groups, to, count, shape.input_len()));
        words.push(kernels.fitted(groups, relu, count, shape.input_len())[0]);
        words.push(groups.inner as u64);
        words.extend(sizes(shape, count));
        let pixels = count * shape.height.div_ceil(shape.stride) * shape.width.div_ceil(shape.stride);
        let kinds = shape.stride * shape.stride * shape.in_channels.div_ceil(TILE[1]);
        kernels.launch("conv_input_gradient", [pixels.div_ceil(TILE[0]), kinds, groups.count()], &words)
    }

    fn keypoints_words(
        &self,
        kernels: &GpuKernels,
        groups: Groups,
        keypoints: Keypoints,
        count: usize,
    ) -> Vec<u64> {
        let values = self.outputs[self.shapes.len() - 1];
        let mut words = kernels.fitted(groups, values, count, keypoints.inputs()).to_vec();
        words.extend(kernels.fitted(groups, self.features, count, keypoints.outputs()));
        let sizes = [groups.inner, keypoints.height, keypoints.width, keypoints.channels];
        words.extend(sizes.map(|size| size as u64));
        words
    }

    fn head_params(&self, params: Params) -> Params {
        Params { floats: params.floats.part(self.head_start..params.floats.len()), ..params }
    }
}

/// How the outputs of a convolution are cut for its gradient: how many parts, and how many outputs each.
fn chunks(shape: &ConvShape, images: usize) -> (usize, usize) {
    let outputs = images * shape.out_height() * shape.out_width();
    let pixels = outputs.div_ceil(CHUNKS).clamp(TILE[0], MOST_PIXELS);
    (outputs.div_ceil(pixels), pixels)
}

fn bias_offset(places: &ConvLayerLayout) -> u64 {
    places.bias.as_ref().map_or(u64::MAX, |bias| (bias.start - places.weights.start) as u64)
}

/// A `ConvShape` of the kernels.
fn sizes(shape: &ConvShape, images: usize) -> [u64; 7] {
    let ConvShape { height, width, in_channels, out_channels, kernel, stride, .. } = *shape;
    [images, height, width, in_channels, out_channels, kernel, stride].map(|size| size as u64)
}
