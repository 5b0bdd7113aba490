//! For tests: gradients against finite differences.

use plaudit_core::Seed;

use super::Tensor;

/// Numbers between -1 and 1, none near zero, where an activation may have a kink.
pub(crate) fn numbers(count: usize, seed: u64) -> Vec<f32> {
    let mut rng = Seed::new(seed).rng();
    let magnitude = |unit: f64| (0.1 + 0.9 * unit) as f32;
    (0..count).map(|_| magnitude(rng.unit()) * if rng.unit() < 0.5 { -1.0 } else { 1.0 }).collect()
}

/// The numbers of a tensor without axes.
pub(crate) fn flat<const D: usize>(tensor: Tensor<D>) -> Tensor<1> {
    let count = tensor.dims().iter().product();
    tensor.reshape([count])
}

/// How a function is checked: the step to both sides, and how far off a derivative may be, as a share of one plus itself.
#[derive(Clone, Copy)]
pub(crate) struct Tolerance {
    step: f32,
    error: f64,
}

/// For what is linear in each of its inputs: only rounding is off, however large the step is.
pub(crate) const LINEAR: Tolerance = Tolerance { step: 0.5, error: 2e-5 };
/// For what has curvature.
pub(crate) const CURVED: Tolerance = Tolerance { step: 3e-3, error: 3e-3 };
/// For what is linear but near kinks.
pub(crate) const PIECEWISE: Tolerance = Tolerance { step: 1e-3, error: 2e-3 };

/// Checks the gradient of each number of each input; `run` gives the inputs their axes. What is found without a tape must
/// be the same.
pub(crate) fn check_gradients(
    inputs: &[Vec<f32>],
    Tolerance { step, error }: Tolerance,
    run: impl Fn(&[Tensor<1>]) -> Tensor<1>,
) {
    let plain = |inputs: &[Vec<f32>]| {
        let inputs: Vec<Tensor<1>> = inputs.iter().cloned().map(Tensor::from).collect();
        run(&inputs)
    };
    let leaves: Vec<Tensor<1>> =
        inputs.iter().map(|input| Tensor::from(input.clone()).require_grad()).collect();
    let output = run(&leaves);
    assert!(output.is_tracked() && !plain(inputs).is_tracked());
    assert_eq!(output.numbers()[..], plain(inputs).numbers()[..], "the same without a tape");
    let weights = numbers(output.numbers().len(), 99);
    let loss = |inputs: &[Vec<f32>]| -> f64 {
        let output = plain(inputs);
        output.numbers().iter().zip(&weights).map(|(y, weight)| f64::from(*y) * f64::from(*weight)).sum()
    };
    let mut gradients = output.backward(weights.clone().into());
    for (i, leaf) in leaves.iter().enumerate() {
        let gradient = gradients.take(leaf).unwrap_or_else(|| panic!("input {i} has a gradient"));
        for (place, found) in gradient.numbers().iter().enumerate() {
            let mut moved = inputs.to_vec();
            let at = moved[i][place];
            let mut loss_at = |x: f32| {
                moved[i][place] = x;
                loss(&moved)
            };
            let measured =
                (loss_at(at + step) - loss_at(at - step)) / (f64::from(at + step) - f64::from(at - step));
            let off = (f64::from(*found) - measured).abs();
            assert!(
                off <= error * (1.0 + measured.abs()),
                "input {i}, number {place}: {found}, not {measured}"
            );
        }
    }
}
