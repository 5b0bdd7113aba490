//! The networks beside PyTorch's: logits, gradients, statistics and steps. `torch/make_fixtures.py` made the numbers.

#![allow(clippy::unwrap_used, clippy::print_stderr)]

#[path = "torch/formula.rs"]
mod formula;
#[path = "torch/made.rs"]
mod made;

use std::collections::BTreeMap;

use plaudit_core::Seed;
use plaudit_nn::Weights;
use plaudit_nn::classifier::{AdamW, Arch, ClassifierSettings, Device, Loss, Precision, Scorer, Trainer};
use plaudit_nn::gpu;
use plaudit_nn::images::{ImageBatch, ImageLayout, Pixels, ViewPixels};
use serde::Deserialize;

/// Norm, product with a fixed random vector, and up to four entries of a tensor.
type Digest = Vec<f64>;

#[derive(Deserialize)]
struct Case {
    settings: ClassifierSettings,
    /// Which of the made images.
    images: usize,
    eval_logits: Vec<f64>,
    #[serde(default)]
    gradients: BTreeMap<String, Digest>,
    #[serde(default)]
    statistics: BTreeMap<String, Digest>,
    #[serde(default)]
    steps: Vec<Step>,
    #[serde(default)]
    moved: BTreeMap<String, Digest>,
}

#[derive(Deserialize)]
struct Step {
    loss: f64,
    logits: Vec<f64>,
    grad_norm: f64,
}

const BATCH: usize = 4;
const LABELS: [f32; BATCH] = [0.0, 1.0, 0.0, 1.0];
const WEIGHTS: [f32; BATCH] = [1.0, 2.0, 0.5, 1.5];
const ADAMW: AdamW = AdamW { betas: (0.9, 0.999), eps: 1e-3, weight_decay: 0.01 };

fn cases() -> BTreeMap<String, Case> {
    serde_json::from_str(include_str!("torch/networks.json")).unwrap()
}

fn images(settings: &ClassifierSettings, number: usize) -> Vec<(String, Vec<u8>)> {
    let [_, height, width] = settings.image_size;
    let make = |key: &String| {
        (key.clone(), formula::bytes(&format!("picture {number} {key}"), BATCH * height * width * 3))
    };
    settings.image_keys.iter().map(make).collect()
}

fn batch<'a>(settings: &ClassifierSettings, images: &'a [(String, Vec<u8>)]) -> ImageBatch<'a> {
    let [channels, height, width] = settings.image_size;
    let view = |(key, pixels): &'a (String, Vec<u8>)| ViewPixels {
        key,
        pixels: Pixels::U8(pixels),
        layout: ImageLayout::Hwc,
        count: BATCH,
        height,
        width,
        channels,
    };
    ImageBatch::new(images.iter().map(view).collect()).unwrap()
}

fn close(what: &str, got: &[f32], expected: &[f64], tolerance: f64) {
    assert_eq!(got.len(), expected.len(), "{what}");
    for (got, expected) in got.iter().zip(expected) {
        let error = (f64::from(*got) - expected).abs();
        assert!(error <= tolerance, "{what}: {got} instead of {expected}, {error:.1e} off");
    }
}

/// The largest difference of a tensor from its digest, relative to its norm.
fn distance(name: &str, numbers: &[f32], expected: &Digest) -> f64 {
    let norm = numbers.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt();
    let probe = formula::fractions(&format!("probe {name}"), numbers.len());
    let product: f64 = numbers.iter().zip(probe).map(|(x, p)| f64::from(*x) * p).sum();
    let places = (0..numbers.len().min(4)).map(|k| if numbers.len() < 4 { k } else { numbers.len() * k / 4 });
    let got = [norm, product].into_iter().chain(places.map(|place| f64::from(numbers[place])));
    let largest = got.zip(expected).map(|(got, expected)| (got - expected).abs()).fold(0.0, f64::max);
    largest / expected[0].max(1e-12)
}

fn tensors_close(what: &str, got: &Weights, expected: &BTreeMap<String, Digest>, tolerance: f64) {
    let mut worst = (0.0, String::new());
    for (name, digest) in expected {
        let numbers = got.f32(name).unwrap_or_else(|| panic!("{what}: nothing for {name}"));
        let off = distance(name, &numbers, digest);
        assert!(off <= tolerance, "{what} {name}: {off:.1e} off");
        worst = if off > worst.0 { (off, name.clone()) } else { worst };
    }
    eprintln!("{what}: at most {:.1e} off, at {}", worst.0, worst.1);
}

fn check(case: &str) {
    let cases = cases();
    let Case { settings, images: number, eval_logits, steps, .. } = &cases[case];
    let weights = made::weights(&Trainer::new(settings, ADAMW, 0).unwrap().weights().unwrap());
    let images = images(settings, *number);
    let batch = batch(settings, &images);

    let scorer = Scorer::new(settings, &weights, Device::Cpu).unwrap();
    close(&format!("{case}: eval logits"), &scorer.logits(&batch).unwrap(), eval_logits, 1e-4);
    for precision in [Precision::Bf16, Precision::Fp16] {
        let rounded = ClassifierSettings { precision, ..settings.clone() };
        let scorer = Scorer::new(&rounded, &weights, Device::Cpu).unwrap();
        close(&format!("{case}: {precision:?} logits"), &scorer.logits(&batch).unwrap(), eval_logits, 2e-2);
    }
    check_on_gpu(case, settings, &weights, &batch, eval_logits);
    if steps.is_empty() {
        return;
    }
    for device in devices() {
        check_training(&format!("{case} on {device:?}"), &cases[case], &weights, &batch, device);
    }
}

/// Whether there is a GPU. Kernels are compiled once for all tests.
fn has_gpu() -> bool {
    let kernel_cache = Some(std::env::temp_dir().join("plaudit-kernels"));
    gpu::set_places(gpu::Places { library_folders: vec!["/usr/local/cuda/lib64".into()], kernel_cache });
    gpu::count().is_ok_and(|count| count > 0)
}

/// Where networks can be trained here.
fn devices() -> Vec<Device> {
    let gpu = has_gpu().then_some(Device::Cuda(0));
    if gpu.is_none() {
        eprintln!("not trained on a GPU, which this machine has not");
    }
    [Device::Cpu].into_iter().chain(gpu).collect()
}

/// How far a gradient is from itself where another order of sums puts a unit on the other side of its ReLU: in networks of bottlenecks, with
/// three times the units, it does in these cases. PyTorch's single precision is as far from its double precision
/// (`bench/gpu/relu.py`: 1.3e-2 to 6.0e-2 for ResNet-50), and weights after two steps twice as far.
fn kinks(arch: Arch) -> f64 {
    match arch {
        Arch::Resnet50 | Arch::Resnet101 | Arch::Resnet152 => 6e-2,
        _ => 0.0,
    }
}

/// Two steps beside PyTorch's.
fn check_training(case: &str, expected: &Case, weights: &Weights, batch: &ImageBatch<'_>, device: Device) {
    let Case { settings, eval_logits, gradients, statistics, steps, moved, .. } = expected;
    let kinks = if device == Device::Cpu { 0.0 } else { kinks(settings.arch) };
    let mut trainer = Trainer::on(device, settings, ADAMW, 0).unwrap();
    trainer.load(weights).unwrap();
    close(&format!("{case}: trainer's eval logits"), &trainer.predict(batch).unwrap(), eval_logits, 1e-4);
    for (i, step) in steps.iter().enumerate() {
        // Errors of the first step come back in the second: its gradient is of weights that moved.
        let slack = if i == 0 { 1.0 } else { 10.0 };
        let given = trainer.accumulate(batch, &LABELS, Some(&WEIGHTS), Loss::Bce, 1.0, Seed::new(0)).unwrap();
        close(&format!("{case}: logits of step {i}"), &given.logits, &step.logits, 1e-4 * slack);
        assert!((given.loss - step.loss).abs() < 1e-5 * slack, "{case}: {} {}", given.loss, step.loss);
        if i == 0 {
            let got = trainer.gradients().unwrap();
            tensors_close(&format!("{case}: gradient"), &got, gradients, 1e-3f64.max(kinks));
            assert_eq!(got.len(), gradients.len(), "{case}: gradients where there are none in PyTorch");
            tensors_close(&format!("{case}: statistic"), &trainer.weights().unwrap(), statistics, 1e-5);
        }
        let outcome = trainer.step(1e-3, Some(1.0)).unwrap();
        let off = (outcome.grad_norm / step.grad_norm - 1.0).abs();
        assert!(off < 1e-3 * slack && !outcome.skipped, "{case}: gradient norm of step {i} {off:.1e} off");
    }
    let difference = difference(&trainer.weights().unwrap(), weights);
    tensors_close(&format!("{case}: moved"), &difference, moved, 5e-3f64.max(2.0 * kinks));
}

/// The same on a GPU, within the same tolerances, where there is one.
fn check_on_gpu(
    case: &str,
    settings: &ClassifierSettings,
    weights: &Weights,
    batch: &ImageBatch<'_>,
    eval_logits: &[f64],
) {
    if !has_gpu() {
        return eprintln!("{case}: not on a GPU, which this machine has not");
    }
    for (precision, tolerance) in [(Precision::Fp32, 1e-4), (Precision::Bf16, 2e-2), (Precision::Fp16, 2e-2)]
    {
        let settings = ClassifierSettings { precision, ..settings.clone() };
        let scorer = Scorer::new(&settings, weights, Device::Cuda(0)).unwrap();
        let what = format!("{case}: {precision:?} logits on the GPU");
        close(&what, &scorer.logits(batch).unwrap(), eval_logits, tolerance);
        for (i, expected) in eval_logits.iter().enumerate() {
            let alone = scorer.logits(&batch.slice(i..i + 1)).unwrap();
            close(&format!("{what}, image {i} alone"), &alone, &[*expected], tolerance);
        }
    }
}

/// What rounding to bf16 costs PyTorch: `torch/make_bf16.py`.
#[derive(Deserialize)]
struct Rounding {
    /// Between the gradients of single precision and of autocast.
    cosine: f64,
    /// The largest difference of a logit.
    logits: f64,
}

/// Rounding to bf16 puts some units on the other side of their kink. It may turn the gradient no further than PyTorch's own
/// autocast turns it: up to a thousandth, since other units are rounded.
#[test]
fn bf16_gradients_point_the_same_way() {
    let cases = cases();
    let torch: BTreeMap<String, Rounding> = serde_json::from_str(include_str!("torch/bf16.json")).unwrap();
    for (case, theirs) in &torch {
        let Case { settings, images: number, .. } = &cases[case.as_str()];
        let images = images(settings, *number);
        let batch = batch(settings, &images);
        let gradients = |precision, device| {
            let settings = ClassifierSettings { precision, ..settings.clone() };
            let mut trainer = Trainer::on(device, &settings, ADAMW, 0).unwrap();
            trainer.load(&made::weights(&trainer.weights().unwrap())).unwrap();
            let given = trainer.accumulate(&batch, &LABELS, None, Loss::Bce, 1.0, Seed::new(0)).unwrap();
            (given, trainer.gradients().unwrap())
        };
        let (exact, exact_gradients) = gradients(Precision::Fp32, Device::Cpu);
        let expected: Vec<f64> = exact.logits.iter().map(|logit| f64::from(*logit)).collect();
        for device in devices() {
            let (rounded, rounded_gradients) = gradients(Precision::Bf16, device);
            // On a GPU what goes from layer to layer is rounded as well, as it is in PyTorch.
            let allowed = if device == Device::Cpu { 2e-2 } else { theirs.logits.max(2e-2) };
            close(&format!("{case}: bf16 logits in training"), &rounded.logits, &expected, allowed);
            let all = |weights: &Weights| {
                weights.names().flat_map(|name| weights.f32(name).unwrap()).collect::<Vec<f32>>()
            };
            let cosine = cosine(&all(&exact_gradients), &all(&rounded_gradients));
            eprintln!(
                "{case} on {device:?}: cosine {cosine:.4}, PyTorch's {:.4}; logits off by {:.4} there",
                theirs.cosine, theirs.logits
            );
            assert!(cosine > theirs.cosine - 1e-3, "{case}: cosine {cosine}, PyTorch's {}", theirs.cosine);
        }
    }
}

fn cosine(a: &[f32], b: &[f32]) -> f64 {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>();
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
}

fn difference(after: &Weights, before: &Weights) -> Weights {
    let mut difference = Weights::new();
    for (name, tensor) in before.iter() {
        let (after, before) = (after.f32(name).unwrap(), before.f32(name).unwrap());
        let moved: Vec<f32> = after.iter().zip(before).map(|(after, before)| after - before).collect();
        difference.insert_f32(name, tensor.shape(), &moved);
    }
    difference
}

macro_rules! cases {
    ($($test:ident: $case:literal),* $(,)?) => {
        $(#[test] fn $test() { check($case); })*

        #[test]
        fn every_case_is_tested() {
            assert_eq!(cases().into_keys().collect::<Vec<_>>(), { let mut all = vec![$($case),*]; all.sort(); all });
        }
    };
}

cases! {
    resnet18: "resnet18",
    resnet18_plain_head: "resnet18 plain head",
    resnet18_frozen: "resnet18 frozen",
    resnet18_one_trunk: "resnet18 two cameras, one trunk",
    resnet18_two_trunks: "resnet18 two cameras, two trunks",
    resnet34: "resnet34",
    resnet50: "resnet50",
    resnet101: "resnet101",
    resnet152: "resnet152",
    resnet10: "resnet10",
    resnet10_frozen: "resnet10 frozen",
    resnet10_spatial: "resnet10 spatial",
    resnet10_spatial_pooled: "resnet10 spatial, pooled, frozen",
    resnet10_spatial_two: "resnet10 spatial, two cameras",
}
