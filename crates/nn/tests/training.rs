//! Training as callers see it: it learns, it resumes bit for bit, it touches only what is declared trainable.

#![allow(clippy::unwrap_used)]

use plaudit_core::Seed;
use plaudit_nn::classifier::{AdamW, Arch, ClassifierSettings, Loss, Trainer};
use plaudit_nn::images::{ImageBatch, Layout, Pixels, View};

const SIDE: usize = 32;

fn settings(arch: Arch) -> ClassifierSettings {
    ClassifierSettings { arch, hidden_dim: Some(16), image_size: [3, SIDE, SIDE], ..Default::default() }
}

/// Bright pictures are successes, dark ones are not.
fn pictures(count: usize, seed: u64) -> (Vec<u8>, Vec<f32>) {
    let mut rng = Seed::new(seed).rng();
    let mut pixels = Vec::new();
    let labels: Vec<f32> = (0..count).map(|i| (i % 2) as f32).collect();
    for label in &labels {
        pixels.extend((0..SIDE * SIDE * 3).map(|_| (rng.below(128) as f32 + label * 127.0) as u8));
    }
    (pixels, labels)
}

fn batch(pixels: &[u8]) -> ImageBatch<'_> {
    let count = pixels.len() / (SIDE * SIDE * 3);
    let pixels = Pixels::U8(pixels);
    ImageBatch::of(View {
        key: "main_images",
        pixels,
        layout: Layout::Hwc,
        count,
        height: SIDE,
        width: SIDE,
        channels: 3,
    })
    .unwrap()
}

fn train(trainer: &mut Trainer, steps: std::ops::Range<u64>) -> Vec<f64> {
    let mut losses = Vec::new();
    for step in steps {
        let mut loss = 0.0;
        for part in 0..2 {
            let (pixels, labels) = pictures(4, 10 * step + part);
            let seed = Seed::new(3).index(step).index(part);
            let given = trainer.accumulate(&batch(&pixels), &labels, None, Loss::Bce, 0.5, seed).unwrap();
            loss += 0.5 * given.loss;
        }
        losses.push(loss);
        assert!(!trainer.step(1e-3, Some(1.0)).skipped);
    }
    losses
}

#[test]
fn it_learns_and_resumes_bit_for_bit() {
    for arch in [Arch::Resnet18, Arch::Resnet10, Arch::Resnet10Spatial] {
        let settings = settings(arch);
        let mut straight = Trainer::new(&settings, AdamW::default(), 1).unwrap();
        let first = train(&mut straight, 0..4);
        let state = straight.state();
        let later = train(&mut straight, 4..6);
        assert!(later[1] < first[0], "{arch:?}: {first:?} {later:?}");

        let mut resumed = Trainer::new(&settings, AdamW::default(), 99).unwrap();
        resumed.restore(&state).unwrap();
        assert_eq!(train(&mut resumed, 4..6), later, "{arch:?}");
        assert_eq!(resumed.state(), straight.state(), "{arch:?}");
    }
}
