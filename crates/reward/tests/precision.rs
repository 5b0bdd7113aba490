//! What kernels and rounding do to the answers of a network that has learned: a ResNet-18 is trained on rendered
//! episodes of PickCube, as in `plaudit reward train` but for seconds, and asked about episodes it has not seen.

#![allow(clippy::unwrap_used)] // a test that cannot go on says so by stopping

use plaudit_core::{FramesNeeded, Policy, Seed};
use plaudit_env::{
    CameraName, CameraSettings, ControlMode, EnvId, EnvSettings, PickCubeExpert, PickCubeSettings, make,
};
use plaudit_nn::Weights;
use plaudit_nn::classifier::{AdamW, ClassifierSettings, Device, Loss, Precision, Scorer, Trainer};
use plaudit_nn::images::{ImageBatch, ImageLayout, Pixels, ViewPixels};

const SIDE: usize = 64;
const IMAGE_BYTES: usize = SIDE * SIDE * 3;
const BATCH: usize = 32;
/// Steps of training.
const STEPS: usize = 100;
/// Where the state has the height of the cube's middle, which is 0.02 on the table.
const CUBE_HEIGHT: usize = 31;
/// Below this a frame counts as a failure, above the other as a success; what is in between is left out.
const ON_TABLE: f32 = 0.025;
const LIFTED: f32 = 0.1;

/// Frames one after the other, and whether the cube was off the table in them.
struct Frames {
    pixels: Vec<u8>,
    labels: Vec<f32>,
}

impl Frames {
    /// Every other frame of one episode in each of `rows` environments.
    fn of_episodes(rows: usize, seed: u64) -> Self {
        let camera = CameraSettings { name: CameraName::BaseCamera, width: SIDE, height: SIDE };
        let settings = PickCubeSettings { cameras: Some(vec![camera]), ..PickCubeSettings::default() };
        let mut env = make(&EnvSettings {
            pick_cube: Some(settings),
            ignore_terminations: true,
            max_episode_steps: Some(50),
            ..EnvSettings::new(EnvId::PickCubeV1, rows)
        })
        .unwrap();
        env.set_frames_needed(FramesNeeded::Everything);
        let seed = Seed::new(seed);
        let mut expert = PickCubeExpert::new(ControlMode::PdJointDeltaPos).with_noise(0.1);
        let mut obs = env.reset(seed.purpose("env")).unwrap();
        let mut frames = Self { pixels: Vec::new(), labels: Vec::new() };
        for t in 0..49 {
            let actions = expert.act(&obs, seed.purpose("policy").index(t)).unwrap().actions;
            let step = env.step(&actions).unwrap();
            obs = step.obs;
            let states = obs.state.chunks_exact(obs.state_width());
            for (state, image) in states.zip(obs.cameras[0].1.pixels.chunks_exact(IMAGE_BYTES)) {
                let label = match state[CUBE_HEIGHT] {
                    height if height < ON_TABLE => 0.0,
                    height if height > LIFTED => 1.0,
                    _ => continue,
                };
                if t % 2 == 0 {
                    frames.pixels.extend_from_slice(image);
                    frames.labels.push(label);
                }
            }
        }
        frames
    }

    fn image(&self, index: usize) -> &[u8] {
        &self.pixels[index * IMAGE_BYTES..(index + 1) * IMAGE_BYTES]
    }

    /// The frames of one class.
    fn labelled(&self, label: f32) -> Vec<usize> {
        (0..self.labels.len()).filter(|index| self.labels[*index] == label).collect()
    }
}

fn batch(pixels: &[u8]) -> ImageBatch<'_> {
    let view = ViewPixels {
        key: "main_images",
        pixels: Pixels::U8(pixels),
        layout: ImageLayout::Hwc,
        count: pixels.len() / IMAGE_BYTES,
        height: SIDE,
        width: SIDE,
        channels: 3,
    };
    ImageBatch::of(view).unwrap()
}

fn settings(precision: Precision) -> ClassifierSettings {
    ClassifierSettings { precision, image_size: [3, SIDE, SIDE], ..ClassifierSettings::default() }
}

/// Both classes in equal parts in every batch.
fn trained(frames: &Frames) -> Weights {
    let classes = [frames.labelled(0.0), frames.labelled(1.0)];
    let mut trainer = Trainer::new(&settings(Precision::Fp32), AdamW::default(), 1).unwrap();
    let mut rng = Seed::new(2).rng();
    for step in 0..STEPS {
        let chosen = (0..BATCH).map(|at| classes[at % 2][rng.below(classes[at % 2].len())]);
        let chosen: Vec<usize> = chosen.collect();
        let pixels: Vec<u8> = chosen.iter().flat_map(|index| frames.image(*index)).copied().collect();
        let labels: Vec<f32> = chosen.iter().map(|index| frames.labels[*index]).collect();
        let seed = Seed::new(3).index(step as u64);
        trainer.accumulate(&batch(&pixels), &labels, None, Loss::Bce, 1.0, seed).unwrap();
        let rate = 1e-3 * (1.0 - step as f64 / STEPS as f64);
        assert!(!trainer.step(rate, Some(1.0)).unwrap().skipped);
    }
    trainer.weights().unwrap()
}

fn probabilities(weights: &Weights, precision: Precision, pixels: &[u8]) -> Vec<f64> {
    let scorer = Scorer::new(&settings(precision), weights, Device::Cpu).unwrap();
    scorer.logits(&batch(pixels)).unwrap().into_iter().map(|logit| sigmoid(f64::from(logit))).collect()
}

fn sigmoid(logit: f64) -> f64 {
    1.0 / (1.0 + (-logit).exp())
}

/// The threshold that makes the fewest mistakes; of several such, the middle one.
fn threshold(probabilities: &[f64], labels: &[f32]) -> f64 {
    let mistakes = |threshold: f64| {
        let both = probabilities.iter().zip(labels);
        both.filter(|(probability, label)| (**probability > threshold) != (**label == 1.0)).count()
    };
    let candidates = || (1..100).map(|percent| f64::from(percent) / 100.0);
    let fewest = candidates().map(mistakes).min().unwrap();
    let best: Vec<f64> = candidates().filter(|candidate| mistakes(*candidate) == fewest).collect();
    best[best.len() / 2]
}

#[test]
fn a_trained_network_answers_the_same_in_every_arithmetic() {
    let weights = trained(&Frames::of_episodes(24, 10));
    let audit = Frames::of_episodes(24, 11);
    let exact = probabilities(&weights, Precision::Fp32, &audit.pixels);
    let threshold = threshold(&exact, &audit.labels);
    let right = |(probability, label): &(&f64, &f32)| (**probability > threshold) == (**label == 1.0);
    let accuracy = exact.iter().zip(&audit.labels).filter(right).count() as f64 / exact.len() as f64;
    assert!(accuracy > 0.9, "it has not learned: {accuracy} of {} frames", exact.len());

    // After so little training, logits are as rough as they ever are. A network that was trained to the end moved by
    // 0.0022 at most, over 10 200 frames (bench/resnet).
    let rounded = probabilities(&weights, Precision::Bf16, &audit.pixels);
    let mut moved: Vec<f64> =
        exact.iter().zip(&rounded).map(|(exact, rounded)| (exact - rounded).abs()).collect();
    moved.sort_by(f64::total_cmp);
    let (most, worst) = (moved[moved.len() * 99 / 100], moved[moved.len() - 1]);
    assert!(most <= 5e-3 && worst <= 1e-2, "99 % move by at most {most}, the worst by {worst}");
    for (index, (exact, rounded)) in exact.iter().zip(&rounded).enumerate() {
        assert_eq!(
            *exact > threshold,
            *rounded > threshold,
            "frame {index}: {rounded}, {exact}, {threshold}"
        );
    }

    // The frames that the network is least sure of show differences best.
    let mut unsure: Vec<usize> = (0..exact.len()).collect();
    unsure.sort_by(|a, b| (exact[*a] - 0.5).abs().total_cmp(&(exact[*b] - 0.5).abs()));
    let network = Plain::of(&weights);
    for index in unsure.into_iter().take(4) {
        let plain = sigmoid(network.logit(audit.image(index)));
        assert!((plain - exact[index]).abs() <= 1e-4, "frame {index}: {}, plainly {plain}", exact[index]);
    }
}

/// ResNet-18 as a textbook has it, in double precision: loops over images `[channel, row, column]`.
struct Plain<'a>(&'a Weights);

struct FeatureMap {
    channels: usize,
    side: usize,
    values: Vec<f64>,
}

impl<'a> Plain<'a> {
    fn of(weights: &'a Weights) -> Self {
        Self(weights)
    }

    fn tensor(&self, name: &str) -> Vec<f64> {
        let values = self.0.get(&format!("backbone.{name}")).unwrap().to_f32().unwrap();
        values.into_iter().map(f64::from).collect()
    }

    fn logit(&self, pixels: &[u8]) -> f64 {
        let (mean, deviation) = ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]);
        let value = |channel: usize, place: usize| {
            (f64::from(pixels[place * 3 + channel]) / 255.0 - mean[channel]) / deviation[channel]
        };
        let values = (0..IMAGE_BYTES).map(|at| value(at / (SIDE * SIDE), at % (SIDE * SIDE))).collect();
        let image = FeatureMap { channels: 3, side: SIDE, values };
        let mut x = max_pool(&relu(self.normed(&image, "conv1", "bn1", 7, 2)));
        for stage in 1..=4 {
            for block in 0..2 {
                let name = |part: &str| format!("layer{stage}.{block}.{part}");
                let stride = if stage > 1 && block == 0 { 2 } else { 1 };
                let inner = relu(self.normed(&x, &name("conv1"), &name("bn1"), 3, stride));
                let mut inner = self.normed(&inner, &name("conv2"), &name("bn2"), 3, 1);
                if stride == 2 {
                    x = self.normed(&x, &name("downsample.0"), &name("downsample.1"), 1, 2);
                }
                inner.values.iter_mut().zip(&x.values).for_each(|(sum, x)| *sum += x);
                x = relu(inner);
            }
        }
        let places = x.side * x.side;
        let means = x.values.chunks_exact(places).map(|channel| channel.iter().sum::<f64>() / places as f64);
        let sum: f64 = means.zip(self.tensor("fc.weight")).map(|(mean, weight)| mean * weight).sum();
        sum + self.tensor("fc.bias")[0]
    }

    /// A convolution, and its normalisation by running statistics.
    fn normed(&self, x: &FeatureMap, conv: &str, norm: &str, kernel: usize, stride: usize) -> FeatureMap {
        let weights = self.tensor(&format!("{conv}.weight"));
        let [scale, shift, mean, variance] = ["weight", "bias", "running_mean", "running_var"]
            .map(|part| self.tensor(&format!("{norm}.{part}")));
        let side = x.side.div_ceil(stride);
        let mut values = Vec::with_capacity(scale.len() * side * side);
        for out in 0..scale.len() {
            let weights = &weights[out * x.channels * kernel * kernel..][..x.channels * kernel * kernel];
            for place in 0..side * side {
                let sum = sum_at(x, weights, kernel, place / side * stride, place % side * stride);
                values.push((sum - mean[out]) / (variance[out] + 1e-5).sqrt() * scale[out] + shift[out]);
            }
        }
        FeatureMap { channels: scale.len(), side, values }
    }
}

/// One output of a convolution: the sum around a place, with zeros beyond the border.
fn sum_at(x: &FeatureMap, weights: &[f64], kernel: usize, row: usize, column: usize) -> f64 {
    let (pad, side) = (kernel / 2, x.side);
    // Taps that are inside of the image.
    let taps = |at: usize| pad.saturating_sub(at)..kernel.min(side + pad - at);
    let mut sum = 0.0;
    for channel in 0..x.channels {
        for i in taps(row) {
            let (first, taps) = (taps(column).start, taps(column));
            let from = (channel * side + row + i - pad) * side + column + first - pad;
            let weights = &weights[(channel * kernel + i) * kernel..][taps];
            sum += weights.iter().zip(&x.values[from..]).map(|(w, x)| w * x).sum::<f64>();
        }
    }
    sum
}

fn relu(mut x: FeatureMap) -> FeatureMap {
    x.values.iter_mut().for_each(|value| *value = value.max(0.0));
    x
}

/// The largest of three by three, every second place.
fn max_pool(x: &FeatureMap) -> FeatureMap {
    let side = x.side.div_ceil(2);
    let around = |at: usize| (2 * at).saturating_sub(1)..(2 * at + 2).min(x.side);
    let mut values = Vec::with_capacity(x.channels * side * side);
    for channel in x.values.chunks_exact(x.side * x.side) {
        for place in 0..side * side {
            let rows = around(place / side);
            let largest =
                rows.flat_map(|row| around(place % side).map(move |column| channel[row * x.side + column]));
            values.push(largest.fold(f64::NEG_INFINITY, f64::max));
        }
    }
    FeatureMap { channels: x.channels, side, values }
}
