//! A frozen trunk and the embeddings above it, against the classifier that is made of the same layers (and is checked
//! against PyTorch in `torch.rs`).
#![allow(clippy::unwrap_used)]

use plaudit_nn::Weights;
use plaudit_nn::classifier::{AdamW, Arch, ClassifierSettings, FrozenTrunk, Trainer};
use plaudit_nn::dense::TensorKind;
use plaudit_nn::dense::encoder::{EncoderPart, SpatialEncoder, SpatialEncoderSpec, SpatialTape};
use plaudit_nn::images::{ImageBatch, ImageLayout, Pixels, ViewPixels};

const SIDE: usize = 64;
const COUNT: usize = 3;

fn images() -> Vec<u8> {
    let mut rng = plaudit_core::Seed::new(5).rng();
    (0..COUNT * SIDE * SIDE * 3).map(|_| rng.below(256) as u8).collect()
}

/// `y = W x + b` for each row.
fn linear(weights: &Weights, name: &str, rows: &[f32], width: usize) -> Vec<f32> {
    let (weight, bias) =
        (weights.f32(&format!("{name}.weight")).unwrap(), weights.f32(&format!("{name}.bias")).unwrap());
    let one = |row: &[f32], w: &[f32], b: f32| row.iter().zip(w).map(|(x, w)| x * w).sum::<f32>() + b;
    let outputs =
        |row: &[f32]| weight.chunks(width).zip(&bias).map(|(w, b)| one(row, w, *b)).collect::<Vec<_>>();
    rows.chunks(width).flat_map(outputs).collect()
}

#[test]
fn features_and_embeddings_are_the_classifiers() {
    let settings = ClassifierSettings {
        arch: Arch::Resnet10Spatial,
        image_size: [3, SIDE, SIDE],
        freeze_encoder: true,
        use_pretrain: Some(true),
        ..ClassifierSettings::default()
    };
    let mut trainer = Trainer::new(&settings, AdamW::default(), 7).unwrap();
    let (weights, pixels) = (trainer.weights().unwrap(), images());
    let view = ViewPixels {
        key: "main_images",
        pixels: Pixels::U8(&pixels),
        layout: ImageLayout::Hwc,
        count: COUNT,
        height: SIDE,
        width: SIDE,
        channels: 3,
    };
    let expected = trainer.scorer().unwrap().logits(&ImageBatch::of(view).unwrap()).unwrap();

    let own = weights.under("encoders.main_images.");
    let trunk = FrozenTrunk::new(&own.under("resnet_backbone."), [SIDE, SIDE]).unwrap();
    let features = trunk.features(&pixels, [SIDE, SIDE]).unwrap();
    let [channels, height, width] = trunk.shape();
    assert_eq!((channels, height, width, features.len()), (512, 2, 2, COUNT * 512 * 4));
    let encoder = SpatialEncoder::new(SpatialEncoderSpec::rlinf(channels, height, width));
    let mut params = vec![0.0; encoder.len()];
    for tensor in encoder.tensors() {
        let name = match tensor.part {
            EncoderPart::Pooling => "pooling_layer.kernel",
            EncoderPart::Head(TensorKind::Weight) => "mlp.0.weight",
            EncoderPart::Head(TensorKind::Bias) => "mlp.0.bias",
            EncoderPart::Head(TensorKind::NormWeight) => "mlp.1.weight",
            _ => "mlp.1.bias",
        };
        encoder.import(&mut params, &tensor, &own.f32(name).unwrap());
    }
    let mut tape = SpatialTape::default();
    let seen = encoder.infer(&params, &features, COUNT, &mut tape);

    // The classifier's head: linear, layer norm, ReLU, linear. Its norm is 1 and 0 at the beginning.
    let mut hidden = linear(&weights, "classifier.0", seen, 256);
    for row in hidden.chunks_mut(256) {
        let mean = row.iter().sum::<f32>() / 256.0;
        let variance = row.iter().map(|x| (x - mean) * (x - mean)).sum::<f32>() / 256.0;
        row.iter_mut().for_each(|x| *x = ((*x - mean) / (variance + 1e-5).sqrt()).max(0.0));
    }
    let made = linear(&weights, "classifier.4", &hidden, 256);
    assert!(expected.iter().any(|logit| (logit - expected[0]).abs() > 1e-3), "the images differ");
    for (made, expected) in made.iter().zip(&expected) {
        assert!((made - expected).abs() < 2e-5, "{made} where the classifier has {expected}");
    }
}

#[test]
fn a_file_without_a_trunk_is_refused_with_what_is_missing() {
    let mut weights = Weights::new();
    weights.insert_f32("conv1.weight", &[64, 3, 7, 7], &vec![0.0; 64 * 3 * 49]);
    let error = FrozenTrunk::new(&weights, [64, 64]).unwrap_err().to_string();
    assert!(error.contains("layer1.0.conv1.weight"), "{error}");
}
