//! Rows of numbers, one after another in memory, as networks take them and give their gradients.

use std::ops::Range;

/// So many zeros.
pub(crate) fn zero(values: &mut Vec<f32>, len: usize) {
    values.clear();
    values.resize(len, 0.0);
}

/// The inputs of critics: each row of `encoded` followed by its action.
pub(crate) fn join(encoded: &[f32], actions: &[f32], n: usize, into: &mut Vec<f32>) {
    into.clear();
    join_more(encoded, actions, n, into);
}

/// The same, after what is there.
pub(crate) fn join_more(encoded: &[f32], actions: &[f32], n: usize, into: &mut Vec<f32>) {
    let (encoded_width, action_width) = (encoded.len() / n, actions.len() / n);
    for (encoded, action) in encoded.chunks_exact(encoded_width).zip(actions.chunks_exact(action_width)) {
        into.extend_from_slice(encoded);
        into.extend_from_slice(action);
    }
}

/// Writes rows into some columns of wider rows.
pub(crate) fn put(from: &[f32], into: &mut [f32], column: Range<usize>, width: usize) {
    for (row, from) in into.chunks_exact_mut(width).zip(from.chunks_exact(column.len())) {
        row[column.clone()].copy_from_slice(from);
    }
}

/// Reads some columns of wider rows.
pub(crate) fn take(from: &[f32], column: Range<usize>, width: usize, into: &mut Vec<f32>) {
    into.clear();
    for row in from.chunks_exact(width) {
        into.extend_from_slice(&row[column.clone()]);
    }
}

/// The part of the gradients of the critics' inputs that belongs to the encoded observation, where actions have `width` numbers.
pub(crate) fn take_encoded(grad_inputs: &[f32], width: usize, n: usize, into: &mut Vec<f32>) {
    let row = grad_inputs.len() / n;
    take(grad_inputs, 0..row - width, row, into);
}

/// The part of the gradients of the critics' inputs that belongs to actions, of `width` numbers.
pub(crate) fn take_actions(grad_inputs: &[f32], width: usize, n: usize, into: &mut Vec<f32>) {
    let row = grad_inputs.len() / n;
    take(grad_inputs, row - width..row, row, into);
}
