//! Learned spatial embeddings: what to read from the features of a frozen trunk.

use plaudit_core::Seed;
use rayon::prelude::*;

use super::dropout::{Dropout, Mask};
use super::{EncoderPart, EncoderTensor, last_layer};
use crate::dense::{Mlp, MlpSpec, Scratch, Tape};
use crate::kernels::memory::AlignedBuffer;
use crate::kernels::simd::{Simd, for_each_isa};
use crate::kernels::{Isa, Precision};

/// The shape of a [`SpatialEncoder`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SpatialEncoderSpec {
    /// Channels of the trunk's features.
    pub channels: usize,
    /// Their rows.
    pub height: usize,
    /// Their columns.
    pub width: usize,
    /// Weighted sums over the image that are taken of each channel.
    pub features: usize,
    /// The share of those sums that training leaves out.
    pub dropout: f32,
    /// Numbers that come out.
    pub outputs: usize,
}

impl SpatialEncoderSpec {
    /// RLinf's, on features of this size.
    pub fn rlinf(channels: usize, height: usize, width: usize) -> Self {
        Self { channels, height, width, features: 8, dropout: 0.1, outputs: 256 }
    }
}

/// Weighted sums over the image, for each channel; dropout; linear, layer norm, tanh.
///
/// Its parameters are the kernel `[channels, height, width, features]`, then those of the last layer. No gradient goes
/// to the features: the trunk below is frozen, so that a replay may keep features in place of images.
#[derive(Debug, Clone)]
pub struct SpatialEncoder {
    spec: SpatialEncoderSpec,
    head: Mlp,
}

/// What a forward pass leaves for the backward pass.
#[derive(Debug, Clone, Default)]
pub struct SpatialTape {
    /// `[batch, channels * features]`
    pooled: AlignedBuffer,
    mask: Option<Mask>,
    head: Tape,
    scratch: Scratch,
}

impl SpatialEncoder {
    /// An encoder of this shape.
    ///
    /// # Panics
    /// If a size is zero.
    pub fn new(spec: SpatialEncoderSpec) -> Self {
        assert!(spec.height > 0 && spec.width > 0, "features without places");
        let inputs = spec.channels * spec.features;
        Self { spec, head: Mlp::new(MlpSpec { inputs, layers: vec![last_layer(spec.outputs)] }) }
    }

    /// The shape it was made from.
    pub fn spec(&self) -> &SpatialEncoderSpec {
        &self.spec
    }

    /// Numbers in the features of one image.
    pub fn inputs(&self) -> usize {
        self.spec.channels * self.places()
    }

    /// Numbers that come out for one image.
    pub fn outputs(&self) -> usize {
        self.spec.outputs
    }

    /// Length of its parameters.
    #[allow(clippy::len_without_is_empty)] // an encoder without parameters cannot be made
    pub fn len(&self) -> usize {
        self.kernel_len() + self.head.len()
    }

    /// Every tensor.
    pub fn tensors(&self) -> impl Iterator<Item = EncoderTensor> + '_ {
        let SpatialEncoderSpec { channels, height, width, features, .. } = self.spec;
        let kernel =
            EncoderTensor { part: EncoderPart::Pooling, shape: vec![channels, height, width, features] };
        let head = self.head.tensors();
        let head =
            head.map(|tensor| EncoderTensor { part: EncoderPart::Head(tensor.kind), shape: tensor.shape });
        std::iter::once(kernel).chain(head)
    }

    /// Parameters to begin with: a standard normal kernel, and the last layer as RLinf begins it.
    pub fn init(&self, seed: Seed) -> Vec<f32> {
        let mut rng = seed.purpose("pooling").rng();
        let mut params: Vec<f32> = (0..self.kernel_len()).map(|_| rng.normal() as f32).collect();
        params.extend(self.head.init(seed.purpose("head")));
        params
    }

    /// One tensor as PyTorch keeps it.
    pub fn export(&self, params: &[f32], tensor: &EncoderTensor) -> Vec<f32> {
        let (kernel, head) = params.split_at(self.kernel_len());
        match self.head_tensor(tensor) {
            Some(tensor) => self.head.export(head, &tensor),
            None => kernel.to_vec(),
        }
    }

    /// Puts one tensor, as PyTorch keeps it, into the parameters.
    pub fn import(&self, params: &mut [f32], tensor: &EncoderTensor, values: &[f32]) {
        let (kernel, head) = params.split_at_mut(self.kernel_len());
        match self.head_tensor(tensor) {
            Some(tensor) => self.head.import(head, &tensor, values),
            None => kernel.copy_from_slice(values),
        }
    }

    /// Outputs `[batch, outputs]` for features `[batch, channels, height, width]`.
    pub fn forward<'t>(
        &self,
        params: &[f32],
        features: &[f32],
        batch: usize,
        dropout: Dropout,
        tape: &'t mut SpatialTape,
    ) -> &'t [f32] {
        tape.mask = Mask::new(dropout, self.spec.dropout);
        self.pool(params, features, batch, tape);
        let pooled = &tape.pooled[..batch * self.head.inputs()];
        self.head.forward(&params[self.kernel_len()..], pooled, batch, &mut tape.head)
    }

    /// Outputs alone, without dropout.
    pub fn infer<'t>(
        &self,
        params: &[f32],
        features: &[f32],
        batch: usize,
        tape: &'t mut SpatialTape,
    ) -> &'t [f32] {
        tape.mask = None;
        self.pool(params, features, batch, tape);
        let pooled = &tape.pooled[..batch * self.head.inputs()];
        self.head.infer(&params[self.kernel_len()..], pooled, batch, &mut tape.scratch)
    }

    /// Adds the gradients of the parameters to `grads`, given those of the outputs and the features of the last
    /// forward pass on this tape.
    pub fn backward(
        &self,
        params: &[f32],
        features: &[f32],
        tape: &mut SpatialTape,
        grad_out: &[f32],
        grads: &mut [f32],
    ) {
        let batch = features.len() / self.inputs();
        let (kernel, head) = grads.split_at_mut(self.kernel_len());
        let grad_pooled = &mut tape.pooled[..batch * self.head.inputs()];
        let params = &params[self.kernel_len()..];
        self.head.backward(params, &mut tape.head, grad_out, head, Some(grad_pooled));
        if let Some(mask) = tape.mask {
            let rows = grad_pooled.par_chunks_mut(self.head.inputs()).enumerate();
            rows.for_each(|(row, grad)| mask.apply(grad, row * self.head.inputs()));
        }
        self.add_kernel_gradients(features, grad_pooled, kernel);
    }

    fn places(&self) -> usize {
        self.spec.height * self.spec.width
    }

    fn kernel_len(&self) -> usize {
        self.spec.channels * self.places() * self.spec.features
    }

    fn head_tensor(&self, tensor: &EncoderTensor) -> Option<crate::dense::Tensor> {
        let EncoderPart::Head(kind) = tensor.part else { return None };
        self.head.tensors().find(|tensor| tensor.kind == kind)
    }

    fn pool(&self, params: &[f32], features: &[f32], batch: usize, tape: &mut SpatialTape) {
        assert_eq!(params.len(), self.len(), "parameters of another encoder");
        assert_eq!(
            features.len(),
            batch * self.inputs(),
            "features must be [batch, channels, height, width]"
        );
        let (isa, kernel, width) =
            (Isa::best(Precision::F32), &params[..self.kernel_len()], self.head.inputs());
        let (mask, sums) = (tape.mask, self.spec.features);
        tape.pooled.fit(batch * width);
        let rows = tape.pooled[..batch * width].par_chunks_mut(width).zip(features.par_chunks(self.inputs()));
        rows.enumerate().for_each(|(row, (pooled, features))| {
            weighted_sums(isa, features, kernel, pooled, self.places(), sums);
            if let Some(mask) = mask {
                mask.apply(pooled, row * width);
            }
        });
    }

    /// Channels side by side; for each, the images of the batch in their order.
    fn add_kernel_gradients(&self, features: &[f32], grad_pooled: &[f32], grads: &mut [f32]) {
        const CHANNELS: usize = 16;
        let (isa, each, sums) =
            (Isa::best(Precision::F32), self.places() * self.spec.features, self.spec.features);
        grads.par_chunks_mut(CHANNELS * each).enumerate().for_each(|(chunk, grads)| {
            let (first, count) = (chunk * CHANNELS, grads.len() / each);
            let images = features.chunks(self.inputs()).zip(grad_pooled.chunks(self.head.inputs()));
            for (features, grad) in images {
                let features = &features[first * self.places()..][..count * self.places()];
                add_outer(isa, features, &grad[first * sums..][..count * sums], grads, self.places(), sums);
            }
        });
    }
}

for_each_isa! {
    /// `sums[c, f]` over the places of `features[c, place] * kernel[c, place, f]`.
    fn weighted_sums = weighted_sums_of(features: &[f32], kernel: &[f32], sums: &mut [f32], places: usize, each: usize);

    /// `grads[c, place, f] += features[c, place] * grad[c, f]`
    fn add_outer = add_outer_of(features: &[f32], grad: &[f32], grads: &mut [f32], places: usize, each: usize);
}

#[inline(always)]
fn weighted_sums_of<L: Simd>(
    simd: L,
    features: &[f32],
    kernel: &[f32],
    sums: &mut [f32],
    places: usize,
    each: usize,
) {
    sums.fill(0.0);
    let channels = features.chunks_exact(places).zip(kernel.chunks_exact(places * each));
    for ((features, kernel), sums) in channels.zip(sums.chunks_exact_mut(each)) {
        for (x, kernel) in features.iter().zip(kernel.chunks_exact(each)) {
            sums.iter_mut().zip(kernel).for_each(|(s, k)| *s = simd.mul_add_one(*x, *k, *s));
        }
    }
}

#[inline(always)]
fn add_outer_of<L: Simd>(
    simd: L,
    features: &[f32],
    grad: &[f32],
    grads: &mut [f32],
    places: usize,
    each: usize,
) {
    let channels = features.chunks_exact(places).zip(grads.chunks_exact_mut(places * each));
    for ((features, grads), grad) in channels.zip(grad.chunks_exact(each)) {
        for (x, grads) in features.iter().zip(grads.chunks_exact_mut(each)) {
            grads.iter_mut().zip(grad).for_each(|(k, g)| *k = simd.mul_add_one(*x, *g, *k));
        }
    }
}
