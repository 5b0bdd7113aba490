//! The operations on the CPU: Burn's tensors in and out, our kernels between.

use burn::backend::flex::{FlexTensor, Layout};
use burn::backend::{DType, Flex};
use burn::tensor::{Bytes, Shape};

use super::AdamStep;
use super::extension::{Geometry, ImageOps, Residual, Weights};
use crate::kernels::conv::{self, ConvSaved, ConvShape};
use crate::kernels::norm::{self, BatchNormSaved, GroupNorm, GroupNormSaved};
use crate::kernels::pool::{self, PoolShape};
use crate::kernels::{Precision, adam, copy, unfilled};

/// The tensor with its numbers one after another from the start of its memory.
pub(super) fn packed(tensor: FlexTensor) -> FlexTensor {
    let contiguous = tensor.is_contiguous() && tensor.layout().start_offset() == 0;
    if contiguous { tensor } else { tensor.to_contiguous() }
}

/// The tensor with its numbers one after another somewhere in its memory: enough for [`numbers`].
fn contiguous(tensor: FlexTensor) -> FlexTensor {
    if tensor.is_contiguous() { tensor } else { tensor.to_contiguous() }
}

/// The numbers of a tensor that is [`packed`].
pub(super) fn numbers(tensor: &FlexTensor) -> &[f32] {
    let numbers = tensor.as_slice::<f32>();
    numbers.unwrap_or_else(|| unreachable!("networks are f32 on the CPU, and this one is contiguous"))
}

/// The numbers of a tensor that is [`packed`], to be changed; in place if nobody else holds them.
pub(super) fn numbers_mut(tensor: &mut FlexTensor) -> &mut [f32] {
    let count = tensor.layout().num_elements();
    &mut tensor.storage_mut::<f32>()[..count]
}

pub(super) fn tensor<const D: usize>(numbers: Vec<f32>, shape: [usize; D]) -> FlexTensor {
    FlexTensor::new(Bytes::from_elems(numbers), Layout::contiguous(Shape::new(shape)), DType::F32)
}

pub(super) fn dims(tensor: &FlexTensor) -> [usize; 4] {
    tensor.layout().shape().dims()
}

pub(super) fn conv_shape(input: &FlexTensor, weights: &FlexTensor, geometry: Geometry) -> ConvShape {
    let [batch, height, width, in_channels] = dims(input);
    let [kernel, _, _, out_channels] = dims(weights);
    let Geometry { stride, padding } = geometry;
    ConvShape { batch, height, width, in_channels, out_channels, kernel, stride, padding }
}

fn output_dims(shape: &ConvShape) -> [usize; 4] {
    [shape.batch, shape.out_height(), shape.out_width(), shape.out_channels]
}

/// A convolution of tensors that are [`packed`].
pub(super) fn conv(
    shape: &ConvShape,
    input: &FlexTensor,
    weights: &FlexTensor,
    precision: Precision,
) -> (FlexTensor, ConvSaved) {
    let mut output = unfilled(shape.output_len());
    let saved = conv::forward(shape, precision, numbers(input), numbers(weights), &mut output);
    (tensor(output, output_dims(shape)), saved)
}

/// Batch normalisation of a tensor that is [`packed`].
pub(super) fn batch_norm_act(
    input: &FlexTensor,
    scale: &FlexTensor,
    shift: &FlexTensor,
    residual: Option<FlexTensor>,
    relu: bool,
    epsilon: f64,
) -> (FlexTensor, BatchNormSaved) {
    let residual = residual.map(packed);
    let mut output = unfilled(numbers(input).len());
    let (scale, shift) = (numbers(scale), numbers(shift));
    let residual = residual.as_ref().map(numbers);
    let saved = norm::batch_norm_act_forward(
        numbers(input),
        scale,
        shift,
        residual,
        relu,
        epsilon as f32,
        &mut output,
    );
    (tensor(output, dims(input)), saved)
}

/// Group normalisation of a tensor that is [`packed`].
pub(super) fn group_norm_act(
    input: &FlexTensor,
    [scale, shift]: [&FlexTensor; 2],
    residual: Option<FlexTensor>,
    groups: usize,
    relu: bool,
    epsilon: f64,
) -> (FlexTensor, GroupNormSaved) {
    let residual = residual.map(packed);
    let mut output = unfilled(numbers(input).len());
    let saved = norm::group_norm_act_forward(
        dims(input)[0],
        groups,
        numbers(input),
        numbers(scale),
        numbers(shift),
        residual.as_ref().map(numbers),
        relu,
        epsilon as f32,
        &mut output,
    );
    (tensor(output, dims(input)), saved)
}

pub(super) fn pool_shape(input: &FlexTensor) -> PoolShape {
    let [batch, height, width, channels] = dims(input);
    PoolShape { batch, height, width, channels }
}

/// Max pooling of a tensor that is [`packed`].
pub(super) fn max_pool(shape: &PoolShape, input: &FlexTensor, max_indices: Option<&mut [u8]>) -> FlexTensor {
    let mut output = unfilled(shape.output_len());
    pool::max_pool_3x3_s2_p1(shape, numbers(input), &mut output, max_indices);
    tensor(output, [shape.batch, shape.out_height(), shape.out_width(), shape.channels])
}

/// The shape that a pool after a convolution of this shape has.
fn pooled_shape(shape: &ConvShape) -> PoolShape {
    let [batch, height, width, channels] = output_dims(shape);
    PoolShape { batch, height, width, channels }
}

fn pooled_tensor(output: Vec<f32>, shape: &PoolShape) -> FlexTensor {
    tensor(output, [shape.batch, shape.out_height(), shape.out_width(), shape.channels])
}

/// The mean over places of a tensor that is [`packed`].
pub(super) fn global_avg_pool(shape: &PoolShape, input: &FlexTensor) -> FlexTensor {
    let mut output = unfilled(shape.batch * shape.channels);
    pool::global_average(shape, numbers(input), &mut output);
    tensor(output, [shape.batch, shape.channels])
}

impl ImageOps for Flex {
    fn conv(input: FlexTensor, weights: FlexTensor, geometry: Geometry, precision: Precision) -> FlexTensor {
        let (input, weights) = (packed(input), packed(weights));
        conv(&conv_shape(&input, &weights, geometry), &input, &weights, precision).0
    }

    fn batch_norm_act(
        input: FlexTensor,
        scale: FlexTensor,
        shift: FlexTensor,
        residual: Residual<Self>,
        relu: bool,
        epsilon: f64,
    ) -> (FlexTensor, FlexTensor, FlexTensor) {
        let (input, scale, shift) = (packed(input), packed(scale), packed(shift));
        let (output, saved) = batch_norm_act(&input, &scale, &shift, residual.into_option(), relu, epsilon);
        let channels = saved.mean.len();
        (output, tensor(saved.mean, [channels]), tensor(saved.variance, [channels]))
    }

    fn group_norm_act(
        input: FlexTensor,
        scale: FlexTensor,
        shift: FlexTensor,
        residual: Residual<Self>,
        groups: usize,
        relu: bool,
        epsilon: f64,
    ) -> FlexTensor {
        let (input, scale, shift) = (packed(input), packed(scale), packed(shift));
        group_norm_act(&input, [&scale, &shift], residual.into_option(), groups, relu, epsilon).0
    }

    fn max_pool(input: FlexTensor) -> FlexTensor {
        let input = packed(input);
        max_pool(&pool_shape(&input), &input, None)
    }

    fn global_avg_pool(input: FlexTensor) -> FlexTensor {
        let input = packed(input);
        global_avg_pool(&pool_shape(&input), &input)
    }

    fn fixed_conv(
        input: FlexTensor,
        weights: Weights<Self>,
        residual: Residual<Self>,
        _geometry: Geometry,
        relu: bool,
    ) -> FlexTensor {
        let Weights::Packed(weights) = weights else {
            unreachable!("weights for the CPU are arranged for its kernels")
        };
        let (input, residual) = (contiguous(input), residual.into_option().map(contiguous));
        let [batch, height, width, _] = dims(&input);
        let shape = weights.shape(batch, height, width);
        let mut output = unfilled(shape.output_len());
        let residual = residual.as_ref().map(numbers);
        weights.run(numbers(&input), batch, height, width, residual, relu, &mut output);
        tensor(output, output_dims(&shape))
    }

    fn fixed_conv_pooled(input: FlexTensor, weights: Weights<Self>, _geometry: Geometry) -> FlexTensor {
        let Weights::Packed(weights) = weights else {
            unreachable!("weights for the CPU are arranged for its kernels")
        };
        let input = contiguous(input);
        let [batch, height, width, _] = dims(&input);
        let pooled = pooled_shape(&weights.shape(batch, height, width));
        let mut output = unfilled(pooled.output_len());
        weights.run_pooled(numbers(&input), batch, height, width, &mut output);
        pooled_tensor(output, &pooled)
    }

    fn fixed_conv_group_norm_pooled(
        input: FlexTensor,
        weights: Weights<Self>,
        scale: FlexTensor,
        shift: FlexTensor,
        _geometry: Geometry,
        groups: usize,
        epsilon: f64,
    ) -> FlexTensor {
        let Weights::Packed(weights) = weights else {
            unreachable!("weights for the CPU are arranged for its kernels")
        };
        let (input, scale, shift) = (contiguous(input), contiguous(scale), contiguous(shift));
        let [batch, height, width, _] = dims(&input);
        let pooled = pooled_shape(&weights.shape(batch, height, width));
        let mut output = unfilled(pooled.output_len());
        let norm = GroupNorm { groups, gamma: numbers(&scale), beta: numbers(&shift), eps: epsilon as f32 };
        weights.run_normed_pooled(numbers(&input), batch, height, width, &norm, &mut output);
        pooled_tensor(output, &pooled)
    }

    fn append_images(images: FlexTensor, others: Residual<Self>, first: usize, count: usize) -> FlexTensor {
        let images = contiguous(images);
        let [_, height, width, channels] = dims(&images);
        let len = height * width * channels;
        let room = || tensor(unfilled(count * len), [count, height, width, channels]);
        let mut all = packed(others.into_option().unwrap_or_else(room));
        let from = numbers(&images);
        copy(from, &mut numbers_mut(&mut all)[first * len..][..from.len()]);
        all
    }

    fn sum_of_squares(numbers: FlexTensor) -> FlexTensor {
        tensor(vec![adam::sum_of_squares(self::numbers(&packed(numbers))) as f32], [1])
    }

    fn adamw(
        parameters: FlexTensor,
        gradients: FlexTensor,
        first: FlexTensor,
        second: FlexTensor,
        step: AdamStep,
    ) -> (FlexTensor, FlexTensor, FlexTensor) {
        let (mut parameters, gradients) = (packed(parameters), packed(gradients));
        let (mut first, mut second) = (packed(first), packed(second));
        let moments = (numbers_mut(&mut first), numbers_mut(&mut second));
        adam::step(&step, numbers_mut(&mut parameters), numbers(&gradients), moments.0, moments.1);
        (parameters, first, second)
    }
}
