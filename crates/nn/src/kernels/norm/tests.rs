//! Both norms on every instruction set against the formulas in double precision, and their gradients against the
//! formulas of the textbook.

use super::*;
use crate::kernels::{Isa, Precision};
use proptest::prelude::*;

fn numbers(len: usize, seed: u64, mean: f32) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1u64 << 24) as f32 - 0.5
    };
    (0..len).map(|_| mean + next() + next() + next()).collect()
}

struct Case {
    batch: usize,
    pixels: usize,
    channels: usize,
    /// `None` for batch norm.
    groups: Option<usize>,
    relu: bool,
    shortcut: bool,
}

struct Numbers {
    input: Vec<f32>,
    gamma: Vec<f32>,
    beta: Vec<f32>,
    residual: Vec<f32>,
    grad: Vec<f32>,
}

struct Expected {
    output: Vec<f64>,
    grad_input: Vec<f64>,
    grad_residual: Vec<f64>,
    gamma: Vec<Sum>,
    beta: Vec<Sum>,
}

/// A sum whose terms may cancel: rounding leaves a share of what was summed, however small the sum is.
#[derive(Clone, Copy, Default)]
struct Sum {
    value: f64,
    /// The magnitudes of the terms, and of what each was the difference of.
    magnitude: f64,
}

impl Sum {
    fn add(&mut self, term: f64, magnitude: f64) {
        self.value += term;
        self.magnitude += magnitude;
    }
}

const EPS: f32 = 1e-5;
/// How far a sum may be off, in roundings of what was summed.
const SUM_EPSILONS: f64 = 4.0;

impl Case {
    fn len(&self) -> usize {
        self.batch * self.pixels * self.channels
    }

    fn numbers(&self, seed: u64) -> Numbers {
        Numbers {
            // Far from zero: a variance from sums of squares would be off.
            input: numbers(self.len(), seed, 20.0),
            gamma: numbers(self.channels, seed + 1, 1.0),
            beta: numbers(self.channels, seed + 2, 0.2),
            residual: numbers(self.len(), seed + 3, 0.0),
            grad: numbers(self.len(), seed + 4, 0.0),
        }
    }

    /// Which numbers share their statistics.
    fn set(&self, i: usize) -> usize {
        let (channel, image) = (i % self.channels, i / self.channels / self.pixels);
        self.groups.map_or(channel, |groups| image * groups + channel / (self.channels / groups))
    }

    /// What calculus says, in double precision. `output` is what a kernel gave: where rounding decides a sign, and with
    /// it the gradient of all that share statistics, the kernel's word counts.
    fn expected(&self, numbers: &Numbers, output: &[f32]) -> Expected {
        let sets = self.groups.map_or(self.channels, |groups| groups * self.batch);
        let count = (self.len() / sets) as f64;
        let mean_of = |value: &dyn Fn(usize) -> f64| {
            let mut sums = vec![0.0; sets];
            (0..self.len()).for_each(|i| sums[self.set(i)] += value(i) / count);
            sums
        };
        let input = |i: usize| f64::from(numbers.input[i]);
        let mean = mean_of(&input);
        let variance = mean_of(&|i| (input(i) - mean[self.set(i)]).powi(2));
        let deviation = |i: usize| (variance[self.set(i)] + f64::from(EPS)).sqrt();
        let normal = |i: usize| (input(i) - mean[self.set(i)]) / deviation(i);
        let gamma = |i: usize| f64::from(numbers.gamma[i % self.channels]);
        let before_relu = |i: usize| {
            let residual = if self.shortcut { f64::from(numbers.residual[i]) } else { 0.0 };
            normal(i) * gamma(i) + f64::from(numbers.beta[i % self.channels]) + residual
        };
        let is_cut = |i: usize| {
            let sum = before_relu(i);
            if sum.abs() < 1e-4 { output[i] <= 0.0 } else { sum <= 0.0 }
        };
        let passed = |i: usize| if self.relu && is_cut(i) { 0.0 } else { f64::from(numbers.grad[i]) };
        let mean_grad = mean_of(&|i| passed(i) * gamma(i));
        let mean_product = mean_of(&|i| passed(i) * gamma(i) * normal(i));
        let mut of_gamma = vec![Sum::default(); self.channels];
        let mut of_beta = of_gamma.clone();
        for i in 0..self.len() {
            let magnitude = passed(i).abs();
            // A number less its mean is as exact as the two are.
            let subtracted = (input(i).abs() + mean[self.set(i)].abs()) / deviation(i);
            of_gamma[i % self.channels].add(passed(i) * normal(i), magnitude * subtracted);
            of_beta[i % self.channels].add(passed(i), magnitude);
        }
        let grad_input = |i: usize| {
            (passed(i) * gamma(i) - mean_grad[self.set(i)] - normal(i) * mean_product[self.set(i)])
                / deviation(i)
        };
        let output = |i| if self.relu { before_relu(i).max(0.0) } else { before_relu(i) };
        let all = |value: &dyn Fn(usize) -> f64| (0..self.len()).map(value).collect();
        Expected {
            output: all(&output),
            grad_input: all(&grad_input),
            grad_residual: all(&passed),
            gamma: of_gamma,
            beta: of_beta,
        }
    }

    fn check(&self, seed: u64) {
        let numbers = self.numbers(seed);
        for isa in Isa::all().into_iter().filter(|isa| isa.precision() == Precision::F32) {
            self.check_on(isa, &numbers);
        }
    }

    fn check_on(&self, isa: Isa, numbers: &Numbers) {
        let Numbers { input, gamma, beta, residual, grad } = numbers;
        let residual = self.shortcut.then_some(&residual[..]);
        let mut output = vec![f32::NAN; self.len()];
        let mut grad = grad.clone();
        let mut separate = vec![f32::NAN; self.len()];
        let grad_input = self.shortcut.then_some(&mut separate[..]);
        let grads = match self.groups {
            None => {
                let saved = batch::forward_on(isa, input, gamma, beta, residual, self.relu, EPS, &mut output);
                let rectified = self.relu.then_some(&output[..]);
                batch::backward_on(isa, input, gamma, &saved, rectified, &mut grad, grad_input)
            }
            Some(groups) => {
                let (batch, relu) = (self.batch, self.relu);
                let saved = group::forward_on(
                    isa,
                    batch,
                    groups,
                    input,
                    gamma,
                    beta,
                    residual,
                    relu,
                    EPS,
                    &mut output,
                );
                let rectified = self.relu.then_some(&output[..]);
                group::backward_on(isa, batch, groups, input, gamma, &saved, rectified, &mut grad, grad_input)
            }
        };
        let (name, expected) = (isa.name(), self.expected(numbers, &output));
        close("output", name, &output, &expected.output, 2e-5);
        if self.shortcut {
            close("gradient of the residual", name, &grad, &expected.grad_residual, 1e-6);
            close("gradient of the input", name, &separate, &expected.grad_input, 1e-4);
        } else {
            close("gradient of the input", name, &grad, &expected.grad_input, 1e-4);
        }
        sums_up("gradient of the scale", name, &grads.gamma, &expected.gamma);
        sums_up("gradient of the shift", name, &grads.beta, &expected.beta);
    }
}

#[track_caller]
fn sums_up(what: &str, isa: &str, got: &[f32], expected: &[Sum]) {
    for (i, (&got, sum)) in got.iter().zip(expected).enumerate() {
        let (distance, allowed) =
            ((f64::from(got) - sum.value).abs(), SUM_EPSILONS * f64::from(f32::EPSILON) * sum.magnitude);
        assert!(distance <= allowed, "{what} on {isa}: {got} instead of {} at {i}", sum.value);
    }
}

#[track_caller]
fn close(what: &str, isa: &str, got: &[f32], expected: &[f64], allowed: f64) {
    let largest = expected.iter().fold(1e-3, |largest: f64, x| largest.max(x.abs()));
    for (i, (&got, &expected)) in got.iter().zip(expected).enumerate() {
        let distance = (f64::from(got) - expected).abs() / largest;
        assert!(distance <= allowed, "{what} on {isa}: {got} instead of {expected} at {i}");
    }
}

#[test]
fn the_norms_of_residual_networks() {
    for (relu, shortcut) in [(false, false), (true, false), (true, true)] {
        Case { batch: 4, pixels: 64, channels: 64, groups: None, relu, shortcut }.check(1);
        Case { batch: 40, pixels: 49, channels: 16, groups: None, relu, shortcut }.check(2);
        Case { batch: 3, pixels: 64, channels: 64, groups: Some(4), relu, shortcut }.check(3);
    }
}

/// One of its numbers is zero but for rounding.
#[test]
fn a_sign_that_rounding_decides() {
    Case { batch: 3, pixels: 39, channels: 30, groups: None, relu: true, shortcut: false }.check(960);
}

#[test]
fn running_statistics_divide_by_one_less() {
    let input = [1.0, 2.0, 3.0, 4.0];
    let saved = batch_norm_act_forward(&input, &[1.0], &[0.0], None, false, EPS, &mut [0.0; 4]);
    assert_eq!((saved.mean[0], saved.variance[0]), (2.5, 1.25));
    assert!((saved.unbiased_variance()[0] - 5.0 / 3.0).abs() < 1e-6);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn any_size(
        batch in 1usize..5,
        pixels in 4usize..40,
        width in 1usize..20,
        groups in 1usize..4,
        grouped in any::<bool>(),
        relu in any::<bool>(),
        shortcut in any::<bool>(),
        seed in 0u64..1000,
    ) {
        let groups_or_batch = grouped.then_some(groups);
        Case { batch, pixels, channels: width * groups, groups: groups_or_batch, relu, shortcut }.check(seed);
    }
}
