//! States as small networks like them: each number less its mean, by its deviation over the demonstrations.
//!
//! ```text
//! x = (s − m) / d        W x + b  =  (W / d) s + (b − W m / d)
//! ```
//!
//! By the second line a network that takes `x` is one that takes `s`, with another first layer. So weights leave and
//! enter as those of a network on plain states, and whoever reads them need not know.

use plaudit_nn::dense::{Mlp, Tensor, TensorKind};

/// Numbers that hardly vary are not blown up: no deviation counts as smaller than this.
const LEAST_DEVIATION: f32 = 0.02;

/// Where states lie, and how far apart.
#[derive(Debug, Clone, PartialEq)]
pub struct StateScale {
    /// m, one number for each of a state.
    pub mean: Vec<f32>,
    /// d.
    pub deviation: Vec<f32>,
}

impl StateScale {
    /// The scale of these states, `[N, width]` in all; nothing where there are none.
    pub fn of<'a>(states: impl Iterator<Item = &'a [f32]> + Clone) -> Option<Self> {
        let width = states.clone().next()?.len();
        let (mut count, mut mean, mut square) = (0.0, vec![0.0_f64; width], vec![0.0_f64; width]);
        for state in states.clone() {
            count += 1.0;
            mean.iter_mut().zip(state).for_each(|(sum, value)| *sum += f64::from(*value));
        }
        mean.iter_mut().for_each(|sum| *sum /= count);
        for state in states {
            let away = state.iter().zip(&mean).map(|(value, mean)| f64::from(*value) - mean);
            square.iter_mut().zip(away).for_each(|(sum, away)| *sum += away * away);
        }
        let deviation = square.iter().map(|sum| ((sum / count).sqrt() as f32).max(LEAST_DEVIATION));
        Some(Self { deviation: deviation.collect(), mean: mean.iter().map(|mean| *mean as f32).collect() })
    }

    /// From s to x, `[N, width]`.
    pub fn apply(&self, states: &mut [f32]) {
        for state in states.chunks_exact_mut(self.mean.len()) {
            for (value, (mean, deviation)) in state.iter_mut().zip(self.mean.iter().zip(&self.deviation)) {
                *value = (*value - mean) / deviation;
            }
        }
    }

    /// From a network on x to the same on s. States are the first of its inputs.
    pub fn fold(&self, mlp: &Mlp, params: &mut [f32]) {
        self.change_first_layer(mlp, params, |row, bias| {
            for (weight, (mean, deviation)) in row.iter_mut().zip(self.mean.iter().zip(&self.deviation)) {
                *weight /= deviation;
                *bias -= *weight * mean;
            }
        });
    }

    /// From a network on s to the same on x.
    pub fn unfold(&self, mlp: &Mlp, params: &mut [f32]) {
        self.change_first_layer(mlp, params, |row, bias| {
            for (weight, (mean, deviation)) in row.iter_mut().zip(self.mean.iter().zip(&self.deviation)) {
                *bias += *weight * mean;
                *weight *= deviation;
            }
        });
    }

    fn change_first_layer(
        &self,
        mlp: &Mlp,
        params: &mut [f32],
        mut change: impl FnMut(&mut [f32], &mut f32),
    ) {
        let of = |kind| move |tensor: &Tensor| tensor.layer == 0 && tensor.kind == kind;
        let find = |kind| mlp.tensors().find(of(kind));
        let (Some(weight), Some(bias)) = (find(TensorKind::Weight), find(TensorKind::Bias)) else { return };
        let (mut rows, mut biases) = (mlp.export(params, &weight), mlp.export(params, &bias));
        for (row, bias) in rows.chunks_exact_mut(mlp.inputs()).zip(&mut biases) {
            change(row, bias);
        }
        mlp.import(params, &weight, &rows);
        mlp.import(params, &bias, &biases);
    }
}

#[cfg(test)]
mod tests {
    use plaudit_core::Seed;
    use plaudit_nn::dense::{Activation, Bias, LayerSpec, MlpSpec, Scratch};

    use super::*;

    fn states() -> Vec<[f32; 3]> {
        (0..50).map(|i| i as f32).map(|i| [0.01 * i, 5.0 - 0.2 * i, 0.3]).collect()
    }

    #[test]
    fn states_become_of_one_size_and_what_stands_still_stays_small() {
        let scale = StateScale::of(states().iter().map(|state| &state[..])).unwrap();
        let mut all = states().concat();
        scale.apply(&mut all);
        for at in 0..2 {
            let column: Vec<f32> = all.iter().skip(at).step_by(3).copied().collect();
            let mean = column.iter().sum::<f32>() / 50.0;
            let square = column.iter().map(|value| value * value).sum::<f32>() / 50.0;
            assert!(mean.abs() < 1e-5 && (square - 1.0).abs() < 1e-4, "{at}: {mean} {square}");
        }
        assert!(all.iter().skip(2).step_by(3).all(|value| value.abs() < 1e-4));
        assert_eq!(scale.deviation[2], LEAST_DEVIATION);
    }

    #[test]
    fn folded_into_its_first_layer_a_network_takes_plain_states() {
        let scale = StateScale::of(states().iter().map(|state| &state[..])).unwrap();
        let hidden = LayerSpec { activation: Activation::Tanh, bias: Bias::Zero, ..LayerSpec::linear(8) };
        // Four inputs: a state of three, and an action.
        let mlp = Mlp::new(MlpSpec { inputs: 4, layers: vec![hidden, LayerSpec::linear(2)] });
        let on_scaled = mlp.init(Seed::new(1));
        let mut on_plain = on_scaled.clone();
        scale.fold(&mlp, &mut on_plain);
        let (plain, mut scaled) = ([0.2, 3.0, 0.31, -0.7], [0.2, 3.0, 0.31, -0.7]);
        scale.apply(&mut scaled[..3]);
        let mut scratch = Scratch::default();
        let expected = mlp.infer(&on_scaled, &scaled, 1, &mut scratch).to_vec();
        let got = mlp.infer(&on_plain, &plain, 1, &mut scratch).to_vec();
        assert!(expected.iter().zip(&got).all(|(a, b)| (a - b).abs() < 1e-4), "{expected:?} {got:?}");
        scale.unfold(&mlp, &mut on_plain);
        assert!(on_plain.iter().zip(&on_scaled).all(|(a, b)| (a - b).abs() < 1e-5));
    }
}
