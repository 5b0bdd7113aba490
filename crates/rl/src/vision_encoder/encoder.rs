//! One camera's encoder: learned from the pixels up, or above a trunk that never changes.

use std::sync::Arc;

use plaudit_core::{FrameShape, Seed};
use plaudit_nn::Weights;
use plaudit_nn::dense::TensorKind;
use plaudit_nn::dense::encoder::{
    ConvEncoder, ConvEncoderSpec, ConvTape, Dropout, EncoderPart, EncoderTensor, SpatialEncoder,
    SpatialEncoderSpec, SpatialTape,
};
use plaudit_nn::kernels::Precision;

use super::{EncoderKind, Trunk};
use crate::naming::{self, WeightsMismatch};

#[derive(Debug, Clone)]
pub(super) enum Encoder {
    Learned(ConvEncoder),
    Frozen { trunk: Arc<dyn Trunk>, above: SpatialEncoder },
}

/// What a forward pass of one encoder keeps for the backward pass.
#[derive(Debug, Clone)]
pub(super) enum EncoderTape {
    Learned(Box<ConvTape>),
    Frozen(Box<SpatialTape>),
}

/// What an encoder takes.
#[derive(Debug, Clone, Copy)]
pub(super) enum EncoderInput<'a> {
    /// `[n, height, width, channels]`
    Pixels(&'a [u8]),
    /// `[n, channels, rows, columns]`
    Features(&'a [f32]),
}

impl Encoder {
    pub(super) fn new(encoder_kind: &EncoderKind, outputs: usize) -> Self {
        match encoder_kind {
            EncoderKind::Learned { frame: FrameShape { height, width, channels }, layers, readout } => {
                Self::Learned(ConvEncoder::new(ConvEncoderSpec {
                    height: *height,
                    width: *width,
                    channels: *channels,
                    layers: layers.clone(),
                    readout: *readout,
                    outputs,
                    precision: Precision::F32,
                }))
            }
            EncoderKind::Frozen { trunk, embeddings, dropout } => {
                let [channels, height, width] = trunk.shape();
                let (features, dropout) = (*embeddings, *dropout);
                let spec = SpatialEncoderSpec { channels, height, width, features, dropout, outputs };
                Self::Frozen { trunk: trunk.clone(), above: SpatialEncoder::new(spec) }
            }
        }
    }

    pub(super) fn tape(&self) -> EncoderTape {
        match self {
            Self::Learned(_) => EncoderTape::Learned(Box::default()),
            Self::Frozen { .. } => EncoderTape::Frozen(Box::default()),
        }
    }

    pub(super) fn trunk(&self) -> Option<&Arc<dyn Trunk>> {
        match self {
            Self::Learned(_) => None,
            Self::Frozen { trunk, .. } => Some(trunk),
        }
    }

    /// The size images must have, if it takes images.
    pub(super) fn frame(&self) -> Option<FrameShape> {
        let Self::Learned(encoder) = self else { return None };
        let ConvEncoderSpec { height, width, channels, .. } = *encoder.spec();
        Some(FrameShape { height, width, channels })
    }

    /// Numbers in the features it takes; none where it takes images.
    pub(super) fn features(&self) -> usize {
        match self {
            Self::Learned(_) => 0,
            Self::Frozen { above, .. } => above.inputs(),
        }
    }

    pub(super) fn outputs(&self) -> usize {
        match self {
            Self::Learned(encoder) => encoder.outputs(),
            Self::Frozen { above, .. } => above.outputs(),
        }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Self::Learned(encoder) => encoder.len(),
            Self::Frozen { above, .. } => above.len(),
        }
    }

    pub(super) fn init(&self, seed: Seed) -> Vec<f32> {
        match self {
            Self::Learned(encoder) => encoder.init(seed),
            Self::Frozen { above, .. } => above.init(seed),
        }
    }

    pub(super) fn forward<'t>(
        &self,
        params: &[f32],
        encoder_input: EncoderInput<'_>,
        n: usize,
        dropout: Dropout,
        tape: &'t mut EncoderTape,
    ) -> &'t [f32] {
        match (self, encoder_input, tape) {
            (Self::Learned(encoder), EncoderInput::Pixels(pixels), EncoderTape::Learned(tape)) => {
                encoder.forward(params, pixels, n, tape)
            }
            (Self::Frozen { above, .. }, EncoderInput::Features(features), EncoderTape::Frozen(tape)) => {
                above.forward(params, features, n, dropout, tape)
            }
            _ => unreachable!("an encoder has a tape of its own and is given what it takes"),
        }
    }

    pub(super) fn infer<'t>(
        &self,
        params: &[f32],
        encoder_input: EncoderInput<'_>,
        n: usize,
        tape: &'t mut EncoderTape,
    ) -> &'t [f32] {
        match (self, encoder_input, tape) {
            (Self::Learned(encoder), EncoderInput::Pixels(pixels), EncoderTape::Learned(tape)) => {
                encoder.infer(params, pixels, n, tape)
            }
            (Self::Frozen { above, .. }, EncoderInput::Features(features), EncoderTape::Frozen(tape)) => {
                above.infer(params, features, n, tape)
            }
            _ => unreachable!("an encoder has a tape of its own and is given what it takes"),
        }
    }

    pub(super) fn backward(
        &self,
        params: &[f32],
        encoder_input: EncoderInput<'_>,
        tape: &mut EncoderTape,
        grad_out: &[f32],
        grads: &mut [f32],
    ) {
        match (self, encoder_input, tape) {
            (Self::Learned(encoder), _, EncoderTape::Learned(tape)) => {
                encoder.backward(params, tape, grad_out, grads);
            }
            (Self::Frozen { above, .. }, EncoderInput::Features(features), EncoderTape::Frozen(tape)) => {
                above.backward(params, features, tape, grad_out, grads);
            }
            _ => unreachable!("an encoder has a tape of its own and is given what it takes"),
        }
    }

    pub(super) fn export(&self, params: &[f32], prefix: &str, into: &mut Weights) {
        for tensor in self.tensors() {
            let values = match self {
                Self::Learned(encoder) => encoder.export(params, &tensor),
                Self::Frozen { above, .. } => above.export(params, &tensor),
            };
            into.insert_f32(format!("{prefix}{}", name(tensor.part)), &tensor.shape, &values);
        }
    }

    pub(super) fn import(
        &self,
        params: &mut [f32],
        prefix: &str,
        from: &Weights,
    ) -> Result<(), WeightsMismatch> {
        for tensor in self.tensors() {
            let values = naming::take(from, &format!("{prefix}{}", name(tensor.part)), &tensor.shape)?;
            match self {
                Self::Learned(encoder) => encoder.import(params, &tensor, &values),
                Self::Frozen { above, .. } => above.import(params, &tensor, &values),
            }
        }
        Ok(())
    }

    fn tensors(&self) -> Vec<EncoderTensor> {
        match self {
            Self::Learned(encoder) => encoder.tensors().collect(),
            Self::Frozen { above, .. } => above.tensors().collect(),
        }
    }
}

/// RLinf's names; its encoders have no convolutions that learn, so those names are ours.
fn name(part: EncoderPart) -> String {
    match part {
        EncoderPart::Pooling => "pooling_layer.kernel".into(),
        EncoderPart::ConvWeight(layer) => format!("conv.{}.weight", 2 * layer),
        EncoderPart::ConvBias(layer) => format!("conv.{}.bias", 2 * layer),
        EncoderPart::Head(kind) => {
            let norm = usize::from(matches!(kind, TensorKind::NormWeight | TensorKind::NormBias));
            format!("mlp.{norm}.{}", naming::leaf(kind))
        }
    }
}
