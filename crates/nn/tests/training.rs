//! Training as callers see it: it learns, it resumes bit-exactly, it touches only what is declared trainable.

#![allow(clippy::unwrap_used)]

use plaudit_core::Seed;
use std::collections::BTreeSet;

use plaudit_nn::classifier::{AdamW, Arch, ClassifierSettings, Loss, Trainer};
use plaudit_nn::images::{ImageBatch, ImageLayout, Pixels, ViewPixels};

const SIDE: usize = 32;

fn settings(arch: Arch) -> ClassifierSettings {
    ClassifierSettings { arch, hidden_dim: Some(16), image_size: [3, SIDE, SIDE], ..Default::default() }
}

/// Bright images are successes, dark ones are not.
fn images(count: usize, seed: u64) -> (Vec<u8>, Vec<f32>) {
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
    ImageBatch::of(ViewPixels {
        key: "main_images",
        pixels,
        layout: ImageLayout::Hwc,
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
            let (pixels, labels) = images(4, 10 * step + part);
            let seed = Seed::new(3).index(step).index(part);
            let given = trainer.accumulate(&batch(&pixels), &labels, None, Loss::Bce, 0.5, seed).unwrap();
            loss += 0.5 * given.loss;
        }
        losses.push(loss);
        assert!(!trainer.step(1e-3, Some(1.0)).unwrap().skipped);
    }
    losses
}

#[test]
fn it_learns_and_resumes_bit_exactly() {
    for arch in [Arch::Resnet18, Arch::Resnet10, Arch::Resnet10Spatial] {
        let settings = settings(arch);
        let mut straight = Trainer::new(&settings, AdamW::default(), 1).unwrap();
        let first = train(&mut straight, 0..4);
        let state = straight.state().unwrap();
        let later = train(&mut straight, 4..6);
        assert!(later[1] < first[0], "{arch:?}: {first:?} {later:?}");

        let mut resumed = Trainer::new(&settings, AdamW::default(), 99).unwrap();
        resumed.restore(&state).unwrap();
        assert_eq!(train(&mut resumed, 4..6), later, "{arch:?}");
        assert_eq!(resumed.state().unwrap(), straight.state().unwrap(), "{arch:?}");
    }
}

/// Whether a parameter of a network is part of the trunk.
fn in_trunk(name: &str) -> bool {
    let plain_head = name.starts_with("backbone.fc.");
    (name.starts_with("backbone.") || name.contains("resnet_backbone.")) && !plain_head
}

#[test]
fn what_is_declared_trainable_learns_and_nothing_else() {
    let (pixels, labels) = images(4, 0);
    for (arch, frozen) in [
        (Arch::Resnet18, false),
        (Arch::Resnet18, true),
        (Arch::Resnet10, false),
        (Arch::Resnet10, true),
        (Arch::Resnet10Spatial, false),
        (Arch::Resnet10Spatial, true),
    ] {
        let settings = ClassifierSettings { freeze_encoder: frozen, ..settings(arch) };
        let mut trainer = Trainer::new(&settings, AdamW::default(), 1).unwrap();
        let before = trainer.weights().unwrap();
        trainer.accumulate(&batch(&pixels), &labels, None, Loss::Bce, 1.0, Seed::new(0)).unwrap();
        let gradients = trainer.gradients().unwrap();
        assert!(!trainer.step(1e-3, None).unwrap().skipped);
        let after = trainer.weights().unwrap();

        // ResNet-10's file has a layer of classes that no network uses.
        let unused = |name: &str| name.contains("backbone.fc.") && arch != Arch::Resnet18;
        let statistic = |name: &str| name.contains("running_") || name.ends_with("num_batches_tracked");
        let learns = |name: &&str| !(unused(name) || statistic(name) || frozen && in_trunk(name));
        let expected: BTreeSet<&str> = before.names().filter(learns).collect();
        assert_eq!(gradients.names().collect::<BTreeSet<_>>(), expected, "{arch:?}, frozen: {frozen}");
        assert_eq!(
            trainer.trainable_parameters(),
            expected.iter().map(|name| before.get(name).unwrap().len()).sum::<usize>()
        );
        for (name, tensor) in before.iter() {
            let moved = after.get(name) != Some(tensor);
            let follows = statistic(name) && !frozen;
            assert_eq!(moved, expected.contains(name) || follows, "{arch:?}, frozen: {frozen}: {name}");
        }
        for (name, gradient) in gradients.iter() {
            assert!(
                gradient.to_f32().unwrap().iter().any(|number| *number != 0.0),
                "{arch:?}: nothing reaches {name}"
            );
        }
    }
}

#[test]
fn a_gradient_that_is_not_finite_moves_nothing() {
    let (pixels, labels) = images(2, 0);
    let mut trainer = Trainer::new(&settings(Arch::Resnet10), AdamW::default(), 1).unwrap();
    let before = trainer.state().unwrap();
    trainer.accumulate(&batch(&pixels), &labels, None, Loss::Bce, f64::INFINITY, Seed::new(0)).unwrap();
    let outcome = trainer.step(1e-3, Some(1.0)).unwrap();
    assert!(outcome.skipped && !outcome.grad_norm.is_finite());
    assert_eq!(trainer.state().unwrap(), before);
}

#[test]
fn a_loss_that_is_not_finite_leaves_no_trace() {
    let (pixels, labels) = images(4, 0);
    let mut trainer = Trainer::new(&settings(Arch::Resnet18), AdamW::default(), 1).unwrap();
    let before = trainer.state().unwrap();
    let weights = [1.0, f32::NAN, 1.0, 1.0];
    let given =
        trainer.accumulate(&batch(&pixels), &labels, Some(&weights), Loss::Bce, 1.0, Seed::new(0)).unwrap();
    assert!(given.loss.is_nan());
    assert!(trainer.gradients().unwrap().is_empty());
    assert_eq!(trainer.state().unwrap(), before);
}

#[test]
fn labels_must_fit_the_images() {
    let (pixels, _) = images(2, 0);
    let mut trainer = Trainer::new(&settings(Arch::Resnet10), AdamW::default(), 1).unwrap();
    let mut refused = |labels: &[f32], weights: Option<&[f32]>| {
        let given = trainer.accumulate(&batch(&pixels), labels, weights, Loss::Bce, 1.0, Seed::new(0));
        given.unwrap_err().to_string()
    };
    assert_eq!(refused(&[1.0], None), "1 labels for 2 images");
    assert_eq!(refused(&[1.0, 0.0], Some(&[1.0])), "1 weights for 2 images");
    assert_eq!(refused(&[1.0, 2.0], None), "label 2 of image 1 is not between 0 and 1");
    assert_eq!(refused(&[1.0, f32::NAN], None), "label NaN of image 1 is not between 0 and 1");
}

#[test]
fn dropout_is_decided_by_the_seed() {
    let (pixels, labels) = images(4, 0);
    let settings = ClassifierSettings { dropout: 0.5, ..settings(Arch::Resnet10) };
    let logits = |seed: u64| {
        let mut trainer = Trainer::new(&settings, AdamW::default(), 1).unwrap();
        trainer.accumulate(&batch(&pixels), &labels, None, Loss::Bce, 1.0, Seed::new(seed)).unwrap().logits
    };
    assert_eq!(logits(1), logits(1));
    assert_ne!(logits(1), logits(2));
}

#[test]
fn threads_do_not_change_the_numbers() {
    let run = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            [Arch::Resnet18, Arch::Resnet10Spatial].map(|arch| {
                let mut trainer = Trainer::new(&settings(arch), AdamW::default(), 1).unwrap();
                train(&mut trainer, 0..1);
                let (pixels, _) = images(5, 7);
                (trainer.predict(&batch(&pixels)).unwrap(), trainer.state().unwrap())
            })
        })
    };
    let alone = run(1);
    assert!(run(2) == alone, "two threads give other numbers than one");
    assert!(run(5) == alone, "five threads give other numbers than one");
}

#[test]
fn splitting_a_batch_does_not_change_scores() {
    let mut trainer = Trainer::new(&settings(Arch::Resnet18), AdamW::default(), 1).unwrap();
    train(&mut trainer, 0..1);
    let scorer = trainer.scorer().unwrap();
    let (pixels, _) = images(300, 3);
    let all = batch(&pixels);
    let together = scorer.logits(&all).unwrap();
    assert_eq!(together.len(), 300);
    for range in [0..1, 7..9, 250..300] {
        let part = scorer.logits(&all.slice(range.clone())).unwrap();
        let off = part.iter().zip(&together[range]).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(off < 1e-5, "{off:e}");
    }
}
