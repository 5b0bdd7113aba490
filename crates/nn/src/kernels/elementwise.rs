//! Functions of each number alone, over long slices on all threads.

use super::Precision;
use super::layer_ops::{self, Activation, SavedOutputs, StridedRows};
use super::simd::{Isa, Simd, for_each_isa};
use super::spin_pool::parallel_for_slice;
use super::threads::{RUN, for_each_row, parallelism, run_range};

for_each_isa! {
    fn multiply_run = multiply_all(values: &mut [f32], factors: &[f32]);
}

/// `sums += values`
pub(crate) fn add(sums: &mut [f32], values: &[f32]) {
    over_runs(sums, values, layer_ops::add);
}

/// `values *= factors`
pub(crate) fn multiply(values: &mut [f32], factors: &[f32]) {
    over_runs(values, factors, multiply_run);
}

#[inline(always)]
fn multiply_all<L: Simd>(_: L, values: &mut [f32], factors: &[f32]) {
    values.iter_mut().zip(factors).for_each(|(x, factor)| *x *= factor);
}

/// Adds a bias to each row as long as it.
pub(crate) fn add_bias(values: &mut [f32], bias: &[f32]) {
    let isa = Isa::best(Precision::F32);
    for_each_row(values, bias.len(), |_, row| {
        layer_ops::bias_activate(isa, row, row_of(bias.len()), bias, Activation::None);
    });
}

/// Applies an activation.
pub(crate) fn activate(values: &mut [f32], activation: Activation) {
    let (len, isa) = (values.len(), Isa::best(Precision::F32));
    let range = |index| run_range(len, index);
    parallel_for_slice(parallelism(len), values, len.div_ceil(RUN), range, |_, values| {
        let run = row_of(values.len());
        layer_ops::activate(isa, values, run, activation);
    });
}

/// From gradients of an activation's outputs to those of its inputs.
pub(crate) fn activate_backward(gradients: &mut [f32], outputs: &[f32], activation: Activation) {
    over_runs(gradients, outputs, |isa, gradients, outputs| {
        let run = row_of(outputs.len());
        let saved = SavedOutputs { outputs, stride: outputs.len(), rows: &[0] };
        layer_ops::activation_back(isa, activation, saved, gradients, run, &mut []);
    });
}

/// A slice as a matrix of one row.
fn row_of(width: usize) -> StridedRows {
    StridedRows { count: 1, width, stride: width }
}

fn over_runs(to: &mut [f32], from: &[f32], work: impl Fn(Isa, &mut [f32], &[f32]) + Sync) {
    assert_eq!(to.len(), from.len(), "one number for each");
    let (len, isa) = (to.len(), Isa::best(Precision::F32));
    let range = |index| run_range(len, index);
    parallel_for_slice(parallelism(len), to, len.div_ceil(RUN), range, |index, to| {
        work(isa, to, &from[range(index)]);
    });
}
