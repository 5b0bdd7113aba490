//! Encoders of images against PyTorch (fixtures and their maker in `torch_dense/`).
#![allow(clippy::unwrap_used)]

use std::collections::HashMap;

use plaudit_core::Seed;
use plaudit_nn::dense::TensorKind;
use plaudit_nn::dense::encoder::{
    ConvEncoder, ConvEncoderSpec, ConvLayer, ConvReadout, ConvTape, Dropout, EncoderPart, EncoderTensor,
    SpatialEncoder, SpatialEncoderSpec, SpatialTape,
};
use plaudit_nn::kernels::Precision;
use serde::Deserialize;

/// Relative to the largest number of the tensor: sums of some hundred products in another order.
const TOLERANCE: f32 = 3e-6;

#[derive(Deserialize)]
struct Case {
    kind: String,
    batch: usize,
    outputs: usize,
    #[serde(default)]
    channels: usize,
    #[serde(default)]
    height: usize,
    #[serde(default)]
    width: usize,
    #[serde(default)]
    features: usize,
    #[serde(default)]
    size: usize,
    #[serde(default)]
    layers: Vec<[usize; 3]>,
    params: HashMap<String, Vec<f32>>,
    x: Vec<f32>,
    y: Vec<f32>,
    grad_out: Vec<f32>,
    grads: HashMap<String, Vec<f32>>,
}

fn case(kind: &str) -> Case {
    let cases: Vec<Case> = serde_json::from_str(include_str!("torch_dense/encoders.json")).unwrap();
    cases.into_iter().find(|case| case.kind == kind).unwrap()
}

impl Case {
    fn spatial(&self, dropout: f32) -> SpatialEncoder {
        let Case { channels, height, width, features, outputs, .. } = *self;
        SpatialEncoder::new(SpatialEncoderSpec { channels, height, width, features, dropout, outputs })
    }

    fn conv(&self, readout: ConvReadout) -> ConvEncoder {
        let layers =
            self.layers.iter().map(|&[channels, kernel, stride]| ConvLayer { channels, kernel, stride });
        let (height, width, outputs) = (self.size, self.size, self.outputs);
        let precision = Precision::F32;
        ConvEncoder::new(ConvEncoderSpec {
            height,
            width,
            channels: 3,
            layers: layers.collect(),
            readout,
            outputs,
            precision,
        })
    }
}

fn key(part: EncoderPart) -> String {
    match part {
        EncoderPart::Pooling => "pooling".into(),
        EncoderPart::ConvWeight(layer) => format!("conv_weight_{layer}"),
        EncoderPart::ConvBias(layer) => format!("conv_bias_{layer}"),
        EncoderPart::Head(TensorKind::Weight) => "weight".into(),
        EncoderPart::Head(TensorKind::Bias) => "bias".into(),
        EncoderPart::Head(TensorKind::NormWeight) => "norm_weight".into(),
        EncoderPart::Head(TensorKind::NormBias) => "norm_bias".into(),
        EncoderPart::Head(other) => panic!("{other:?}"),
    }
}

#[track_caller]
fn close(what: &str, ours: &[f32], theirs: &[f32]) {
    assert_eq!(ours.len(), theirs.len(), "{what}");
    let scale = theirs.iter().fold(1e-3f32, |m, x| m.max(x.abs()));
    for (i, (a, b)) in ours.iter().zip(theirs).enumerate() {
        assert!((a - b).abs() <= TOLERANCE * scale, "{what}[{i}]: {a}, PyTorch has {b} (scale {scale})");
    }
}

fn check_grads(case: &Case, tensors: Vec<EncoderTensor>, export: impl Fn(&EncoderTensor) -> Vec<f32>) {
    assert_eq!(tensors.len(), case.grads.len());
    for tensor in tensors {
        let name = key(tensor.part);
        close(&name, &export(&tensor), &case.grads[&name]);
        assert_eq!(tensor.shape.iter().product::<usize>(), case.grads[&name].len(), "{name}");
    }
}

#[test]
fn spatial_embeddings_are_pytorchs() {
    let case = case("spatial");
    let encoder = case.spatial(0.3);
    let mut params = vec![f32::NAN; encoder.len()];
    for tensor in encoder.tensors() {
        encoder.import(&mut params, &tensor, &case.params[&key(tensor.part)]);
        assert_eq!(encoder.export(&params, &tensor), case.params[&key(tensor.part)]);
    }
    let mut tape = SpatialTape::default();
    close("inferred", encoder.infer(&params, &case.x, case.batch, &mut tape), &case.y);
    close("outputs", encoder.forward(&params, &case.x, case.batch, Dropout::Off, &mut tape), &case.y);
    let mut grads = vec![0.0; encoder.len()];
    encoder.backward(&params, &case.x, &mut tape, &case.grad_out, &mut grads);
    check_grads(&case, encoder.tensors().collect(), |tensor| encoder.export(&grads, tensor));
}

/// With a mask, gradients are those of the function that the mask makes: differences agree.
#[test]
fn gradients_go_through_dropout() {
    let case = case("spatial");
    let encoder = case.spatial(0.5);
    let mut params = encoder.init(Seed::new(1));
    let dropout = Dropout::On(Seed::new(2));
    let mut tape = SpatialTape::default();
    let loss = |params: &[f32], tape: &mut SpatialTape| -> f64 {
        let outputs = encoder.forward(params, &case.x, case.batch, dropout, tape);
        outputs.iter().zip(&case.grad_out).map(|(y, g)| f64::from(*y) * f64::from(*g)).sum()
    };
    let whole = encoder.forward(&params, &case.x, case.batch, Dropout::Off, &mut tape).to_vec();
    assert_ne!(encoder.forward(&params, &case.x, case.batch, dropout, &mut tape), whole);
    let mut grads = vec![0.0; encoder.len()];
    encoder.backward(&params, &case.x, &mut tape, &case.grad_out, &mut grads);
    let step = 1e-2;
    for i in (0..params.len()).step_by(97) {
        let before = params[i];
        params[i] = before + step;
        let above = loss(&params, &mut tape);
        params[i] = before - step;
        let numerical_gradient = (above - loss(&params, &mut tape)) / f64::from(2.0 * step);
        params[i] = before;
        assert!(
            (numerical_gradient - f64::from(grads[i])).abs() < 5e-3 * (1.0 + numerical_gradient.abs()),
            "{i}: {} is not {numerical_gradient}",
            grads[i]
        );
    }
}

#[test]
fn convolutions_are_pytorchs() {
    check_convolutions("conv", ConvReadout::Flatten);
}

#[test]
fn keypoints_are_pytorchs() {
    check_convolutions("keypoints", ConvReadout::Keypoints);
}

fn check_convolutions(kind: &str, readout: ConvReadout) {
    let case = case(kind);
    let encoder = case.conv(readout);
    let images: Vec<u8> = case.x.iter().map(|x| *x as u8).collect();
    let mut params = vec![f32::NAN; encoder.len()];
    for tensor in encoder.tensors() {
        encoder.import(&mut params, &tensor, &case.params[&key(tensor.part)]);
        assert_eq!(encoder.export(&params, &tensor), case.params[&key(tensor.part)]);
    }
    let mut tape = ConvTape::default();
    close("inferred", encoder.infer(&params, &images, case.batch, &mut tape), &case.y);
    close("outputs", encoder.forward(&params, &images, case.batch, &mut tape), &case.y);
    let mut grads = vec![0.0; encoder.len()];
    encoder.backward(&params, &mut tape, &case.grad_out, &mut grads);
    check_grads(&case, encoder.tensors().collect(), |tensor| encoder.export(&grads, tensor));
}

#[test]
fn threads_make_no_difference() {
    let encoder = ConvEncoder::new(ConvEncoderSpec::drq(32, 32, 3, 50));
    let spatial =
        SpatialEncoder::new(SpatialEncoderSpec { outputs: 40, ..SpatialEncoderSpec::rlinf(100, 2, 2) });
    let images: Vec<u8> = (0..20 * encoder.inputs()).map(|i| (i * 7919 % 251) as u8).collect();
    let features: Vec<f32> = (0..20 * spatial.inputs()).map(|i| (i as f32 * 0.7).sin()).collect();
    let params = (encoder.init(Seed::new(1)), spatial.init(Seed::new(1)));
    let with = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            let (mut tape, mut grads) = (ConvTape::default(), vec![0.0; encoder.len()]);
            let mut all = encoder.forward(&params.0, &images, 20, &mut tape).to_vec();
            encoder.backward(&params.0, &mut tape, &all, &mut grads);
            let (mut tape, mut spatial_grads) = (SpatialTape::default(), vec![0.0; spatial.len()]);
            let outputs =
                spatial.forward(&params.1, &features, 20, Dropout::On(Seed::new(3)), &mut tape).to_vec();
            spatial.backward(&params.1, &features, &mut tape, &outputs, &mut spatial_grads);
            all.extend([grads, outputs, spatial_grads].concat());
            all
        })
    };
    let one = with(1);
    for threads in [2, 5] {
        assert!(with(threads).iter().zip(&one).all(|(a, b)| a.to_bits() == b.to_bits()), "{threads} threads");
    }
}

#[test]
fn the_encoder_of_small_images_has_the_sizes_it_should() {
    let encoder = ConvEncoder::new(ConvEncoderSpec::drq(64, 64, 3, 50));
    // 64 → 31 → 15 → 13 → 11
    let head = encoder.tensors().find(|tensor| tensor.part == EncoderPart::Head(TensorKind::Weight)).unwrap();
    assert_eq!(head.shape, [50, 32 * 11 * 11]);
    let convolutions = (3 * 9 + 1) * 32 + 3 * (32 * 9 + 1) * 32;
    assert_eq!(encoder.len(), convolutions + 50 * (32 * 11 * 11) + 3 * 50);
}
