//! What an image scores depends on the image alone: not on its batch, nor on how a batch is cut into parts.
#![allow(clippy::unwrap_used)]

use plaudit_core::Seed;
use plaudit_nn::classifier::{AdamW, Arch, ClassifierSettings, Precision, Trainer};
use plaudit_nn::images::{ImageBatch, ImageLayout, Pixels, ViewPixels};

const SIDE: usize = 64;
/// More than go through the wide layers at a time.
const COUNT: usize = 37;

fn logits(trainer: &mut Trainer, pixels: &[u8], range: std::ops::Range<usize>) -> Vec<u32> {
    let scorer = trainer.scorer().unwrap();
    let view = ViewPixels {
        key: &trainer.settings().image_keys[0],
        pixels: Pixels::U8(pixels),
        layout: ImageLayout::Hwc,
        count: COUNT,
        height: SIDE,
        width: SIDE,
        channels: 3,
    };
    let logits = scorer.logits(&ImageBatch::of(view).unwrap().slice(range)).unwrap();
    logits.into_iter().map(f32::to_bits).collect()
}

#[test]
fn an_image_scores_the_same_alone_and_among_others() {
    let mut rng = Seed::new(3).rng();
    let pixels: Vec<u8> = (0..COUNT * SIDE * SIDE * 3).map(|_| rng.below(256) as u8).collect();
    for arch in [Arch::Resnet18, Arch::Resnet10, Arch::Resnet10Spatial] {
        for precision in [Precision::Fp32, Precision::Bf16] {
            let settings =
                ClassifierSettings { arch, precision, image_size: [3, SIDE, SIDE], ..Default::default() };
            let mut trainer = Trainer::new(&settings, AdamW::default(), 1).unwrap();
            let all = logits(&mut trainer, &pixels, 0..COUNT);
            assert!(all.iter().any(|logit| *logit != all[0]), "the images differ");
            for (first, count) in [(0, 1), (36, 1), (30, 5), (4, 33)] {
                let some = logits(&mut trainer, &pixels, first..first + count);
                assert_eq!(some, all[first..first + count], "{} {precision:?} {first} {count}", arch.name());
            }
        }
    }
}
