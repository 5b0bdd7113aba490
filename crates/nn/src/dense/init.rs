//! The numbers that parameters begin with, as PyTorch's `nn.init` samples them (from our own generator).

use plaudit_core::{Rng, Seed};

use super::spec::{Bias, Init};

/// Weights `[outputs, inputs]`, row by row.
pub(super) fn weights(init: &Init, outputs: usize, inputs: usize, seed: Seed) -> Vec<f32> {
    let count = outputs * inputs;
    let mut rng = seed.rng();
    match init {
        Init::Orthogonal { gain } => orthogonal(outputs, inputs, *gain, &mut rng),
        Init::KaimingNormalFanOut { gain } => normal(count, *gain / (outputs as f32).sqrt(), &mut rng),
        Init::XavierUniform { gain } => {
            uniform(count, gain * (6.0 / (inputs + outputs) as f32).sqrt(), &mut rng)
        }
        Init::Normal { std } => normal(count, *std, &mut rng),
        Init::TorchDefault => uniform(count, 1.0 / (inputs as f32).sqrt(), &mut rng),
        Init::Rows(groups) => {
            let total: usize = groups.iter().map(|(rows, _)| rows).sum();
            assert_eq!(total, outputs, "the groups of rows must add up to the width");
            let groups = groups.iter().enumerate();
            groups.flat_map(|(i, (rows, init))| weights(init, *rows, inputs, seed.index(i as u64))).collect()
        }
    }
}

/// A bias of `outputs` numbers.
pub(super) fn bias(bias: Bias, outputs: usize, inputs: usize, seed: Seed) -> Vec<f32> {
    match bias {
        Bias::None => Vec::new(),
        Bias::Zero => vec![0.0; outputs],
        Bias::TorchDefault => uniform(outputs, 1.0 / (inputs as f32).sqrt(), &mut seed.rng()),
    }
}

fn normal(count: usize, std: f32, rng: &mut Rng) -> Vec<f32> {
    (0..count).map(|_| std * rng.normal() as f32).collect()
}

fn uniform(count: usize, bound: f32, rng: &mut Rng) -> Vec<f32> {
    (0..count).map(|_| rng.uniform(-f64::from(bound), f64::from(bound)) as f32).collect()
}

/// Gram-Schmidt over normal vectors, twice over: the second pass removes what rounding left in the first.
/// The vectors are the rows or the columns of the matrix, whichever are fewer.
fn orthogonal(outputs: usize, inputs: usize, gain: f32, rng: &mut Rng) -> Vec<f32> {
    let (few, long) = (outputs.min(inputs), outputs.max(inputs));
    let mut vectors: Vec<Vec<f64>> = Vec::with_capacity(few);
    for _ in 0..few {
        let mut vector: Vec<f64> = (0..long).map(|_| rng.normal()).collect();
        for _ in 0..2 {
            for earlier in &vectors {
                let along = dot(earlier, &vector);
                vector.iter_mut().zip(earlier).for_each(|(x, e)| *x -= along * e);
            }
        }
        let length = dot(&vector, &vector).sqrt();
        vector.iter_mut().for_each(|x| *x /= length);
        vectors.push(vector);
    }
    let at = |output: usize, input: usize| match outputs <= inputs {
        true => vectors[output][input],
        false => vectors[input][output],
    };
    (0..outputs * inputs).map(|i| gain * at(i / inputs, i % inputs) as f32).collect()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}
