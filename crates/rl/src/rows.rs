//! Rows of numbers, one after another in memory, as networks take them and give their gradients.

use std::ops::Range;

/// So many zeros.
pub(crate) fn zero(values: &mut Vec<f32>, len: usize) {
    values.clear();
    values.resize(len, 0.0);
}

/// What critics take: each row of `seen` followed by its action.
pub(crate) fn join(seen: &[f32], actions: &[f32], n: usize, into: &mut Vec<f32>) {
    into.clear();
    join_more(seen, actions, n, into);
}

/// The same, after what is there.
pub(crate) fn join_more(seen: &[f32], actions: &[f32], n: usize, into: &mut Vec<f32>) {
    let (seen_width, action_width) = (seen.len() / n, actions.len() / n);
    for (seen, action) in seen.chunks_exact(seen_width).zip(actions.chunks_exact(action_width)) {
        into.extend_from_slice(seen);
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

/// The part of gradients by the critics' inputs that belongs to what is seen, where actions have `width` numbers.
pub(crate) fn take_seen(by_inputs: &[f32], width: usize, n: usize, into: &mut Vec<f32>) {
    let row = by_inputs.len() / n;
    take(by_inputs, 0..row - width, row, into);
}

/// The part of gradients by the critics' inputs that belongs to actions, of `width` numbers.
pub(crate) fn take_actions(by_inputs: &[f32], width: usize, n: usize, into: &mut Vec<f32>) {
    let row = by_inputs.len() / n;
    take(by_inputs, row - width..row, row, into);
}
