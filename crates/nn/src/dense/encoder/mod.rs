//! Image encoders: from images to the features that policies and critics take in.
//!
//! [`SpatialEncoder`] stands on a frozen trunk and learns what to read from its features. [`ConvEncoder`] has no
//! trunk: it is trained from scratch, on small images. Both are shapes over flat parameters, as
//! [`Mlp`](super::Mlp) is, and end in linear, layer norm, tanh.

mod convolution;
mod dropout;
mod keypoints;
mod spatial;

pub(super) use convolution::ConvLayerLayout;
pub use convolution::{ConvEncoder, ConvEncoderSpec, ConvLayer, ConvReadout, ConvTape};
pub use dropout::Dropout;
pub(super) use keypoints::Keypoints;
pub use spatial::{SpatialEncoder, SpatialEncoderSpec, SpatialTape};

use super::spec::{Bias, Init, LayerSpec, Norm};
use crate::kernels::layer_ops::Activation;

/// One tensor of an encoder, in PyTorch's order when exported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncoderTensor {
    /// What it is.
    pub part: EncoderPart,
    /// `[channels, height, width, features]` of a pooling kernel, `[out, in, height, width]` of a convolution,
    /// `[outputs, inputs]` of a weight, `[n]` of the rest.
    pub shape: Vec<usize>,
}

/// What a tensor of an encoder is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EncoderPart {
    /// The kernel of the learned pooling.
    Pooling,
    /// The weights of a convolution, counted from the input.
    ConvWeight(usize),
    /// The bias of a convolution.
    ConvBias(usize),
    /// A tensor of the last layer: linear and layer norm.
    Head(super::TensorKind),
}

/// The layer that both encoders end in.
fn last_layer(outputs: usize) -> LayerSpec {
    LayerSpec {
        width: outputs,
        bias: Bias::Zero,
        norm: Norm::Layer,
        activation: Activation::Tanh,
        init: Init::KaimingNormalFanOut { gain: 5.0 / 3.0 },
        input_norm: None,
    }
}
