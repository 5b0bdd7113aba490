//! Other shapes of the same numbers, parts of them, and several tensors as one.

use super::tape::Node;
use super::{Numbers, Tensor};
use crate::kernels::threads::for_each_row;
use crate::kernels::{copy, unfilled};

/// A shape seen from one of its axes: `[before, axis, after]`.
#[derive(Clone, Copy)]
struct AxisView {
    before: usize,
    len: usize,
    after: usize,
}

impl AxisView {
    fn of(shape: &[usize], axis: usize) -> Self {
        let product = |axes: &[usize]| axes.iter().product();
        Self { before: product(&shape[..axis]), len: shape[axis], after: product(&shape[axis + 1..]) }
    }

    /// Numbers that lie together.
    fn run(self) -> usize {
        self.len * self.after
    }

    fn total(self) -> usize {
        self.before * self.run()
    }
}

fn with_len<const D: usize>(mut shape: [usize; D], axis: usize, len: usize) -> [usize; D] {
    shape[axis] = len;
    shape
}

impl<const D: usize> Tensor<D> {
    /// The same numbers with other axes.
    pub(crate) fn reshape<const E: usize>(self, shape: [usize; E]) -> Tensor<E> {
        let Self { numbers, node, .. } = self;
        Tensor { node, ..Tensor::new(numbers, shape) }
    }

    /// `len` places of an axis, from one on.
    pub(crate) fn narrow(self, axis: usize, start: usize, len: usize) -> Self {
        let whole = AxisView::of(&self.shape, axis);
        let part = AxisView { len, ..whole };
        assert!(start + len <= whole.len, "{len} from {start} of axis {axis} of {:?}", self.shape);
        let numbers = take(&self.numbers, whole, part, start);
        let shape = with_len(self.shape, axis, len);
        Self::from_operation(numbers, shape, [self.node], move |gradient, _| {
            [Some(put_back(&gradient, whole, part, start))]
        })
    }

    /// An axis cut into so many equal parts.
    pub(crate) fn chunk(self, count: usize, axis: usize) -> Vec<Self> {
        let len = self.shape[axis] / count;
        (0..count).map(|i| self.clone().narrow(axis, i * len, len)).collect()
    }

    /// Tensors one after another along an axis.
    pub(crate) fn cat(mut parts: Vec<Self>, axis: usize) -> Self {
        if parts.len() == 1 {
            return parts.swap_remove(0);
        }
        let first = parts[0].shape;
        let same = |part: &Self| with_len(part.shape, axis, 0) == with_len(first, axis, 0);
        assert!(parts.iter().all(same), "tensors that differ along axis {axis} alone");
        let views: Vec<AxisView> = parts.iter().map(|part| AxisView::of(&part.shape, axis)).collect();
        let whole = AxisView { len: views.iter().map(|view| view.len).sum(), ..views[0] };
        let mut output = unfilled(whole.total());
        if whole.before == 1 {
            let mut rest = &mut output[..];
            for part in &parts {
                let (own, others) = rest.split_at_mut(part.numbers.len());
                copy(&part.numbers, own);
                rest = others;
            }
        } else {
            for_each_row(&mut output, whole.run(), |row, mut rest| {
                for (part, view) in parts.iter().zip(&views) {
                    let (own, others) = rest.split_at_mut(view.run());
                    own.copy_from_slice(&part.numbers[row * view.run()..][..view.run()]);
                    rest = others;
                }
            });
        }
        let wanted: Vec<bool> = parts.iter().map(Self::is_tracked).collect();
        let node = Node::record(parts.into_iter().map(|part| part.node).collect(), move |gradient| {
            let starts = views.iter().scan(0, |end, view| Some(std::mem::replace(end, *end + view.len)));
            let parts = views.iter().zip(starts).zip(wanted);
            parts
                .map(|((view, start), wanted)| wanted.then(|| take(&gradient, whole, *view, start)))
                .collect()
        });
        Self { node, ..Self::new(output, with_len(first, axis, whole.len)) }
    }

    /// The places of an axis that `indices` name, in their order.
    pub(crate) fn select(self, axis: usize, indices: &[usize]) -> Self {
        let whole = AxisView::of(&self.shape, axis);
        assert!(indices.iter().all(|index| *index < whole.len), "indices below {}", whole.len);
        let (shape, width) = (with_len(self.shape, axis, indices.len()), whole.after);
        let mut output = unfilled(whole.before * indices.len() * width);
        for_each_row(&mut output, width, |row, output| {
            let (before, index) = (row / indices.len(), indices[row % indices.len()]);
            output.copy_from_slice(&self.numbers[before * whole.run() + index * width..][..width]);
        });
        let indices = indices.to_vec();
        Self::from_operation(output, shape, [self.node], move |gradient, _| {
            let mut of_whole = vec![0.0; whole.total()];
            let parts = gradient.chunks_exact((indices.len() * width).max(1));
            for (to, from) in of_whole.chunks_exact_mut(whole.run().max(1)).zip(parts) {
                add_rows(to, width, &indices, from);
            }
            [Some(of_whole.into())]
        })
    }

    /// Adds places of the first axis to those that `indices` name.
    pub(crate) fn index_add(self, indices: &[usize], places: Self) -> Self {
        let width = AxisView::of(&self.shape, 0).after;
        assert_eq!(places.shape, with_len(self.shape, 0, indices.len()), "a place for each index");
        let Self { mut numbers, shape, node } = self;
        add_rows(numbers.make_mut(), width, indices, &places.numbers);
        let indices = indices.to_vec();
        Self::from_operation(numbers, shape, [node, places.node], move |gradient, wanted| {
            let of_places = wanted[1].then(|| {
                let mut of_places = unfilled(indices.len() * width);
                for_each_row(&mut of_places, width, |row, to| {
                    to.copy_from_slice(&gradient[indices[row] * width..][..width]);
                });
                of_places.into()
            });
            [Some(gradient), of_places]
        })
    }

    /// The axes in another order: axis `i` of the result is axis `axes[i]`.
    pub(crate) fn permute(self, axes: [usize; D]) -> Self {
        let inverse = std::array::from_fn(|axis| axes.iter().position(|from| *from == axis).unwrap_or(axis));
        let (numbers, permuted) = permuted(&self.numbers, self.shape, axes);
        Self::from_operation(numbers, permuted, [self.node], move |gradient, _| {
            [Some(self::permuted(&gradient, permuted, inverse).0.into())]
        })
    }
}

/// `part.len` places of an axis, from one on; a view if they lie together.
fn take(numbers: &Numbers, whole: AxisView, part: AxisView, start: usize) -> Numbers {
    let from = start * whole.after;
    if whole.before == 1 {
        return numbers.part(from, part.run());
    }
    let mut output = unfilled(part.total());
    for_each_row(&mut output, part.run(), |row, output| {
        output.copy_from_slice(&numbers[row * whole.run() + from..][..part.run()]);
    });
    output.into()
}

/// The gradient of [`take`]: what was not taken has none.
fn put_back(gradient: &[f32], whole: AxisView, part: AxisView, start: usize) -> Numbers {
    let from = start * whole.after;
    let mut output = vec![0.0; whole.total()];
    if whole.before == 1 {
        copy(gradient, &mut output[from..][..part.run()]);
    } else {
        for_each_row(&mut output, whole.run(), |row, output| {
            output[from..][..part.run()].copy_from_slice(&gradient[row * part.run()..][..part.run()]);
        });
    }
    output.into()
}

/// Adds row `i` of `rows` to row `indices[i]` of `sums`, in the order of the indices.
fn add_rows(sums: &mut [f32], width: usize, indices: &[usize], rows: &[f32]) {
    let mut order: Vec<usize> = (0..indices.len()).collect();
    order.sort_by_key(|place| indices[*place]);
    for_each_row(sums, width, |row, sum| {
        let first = order.partition_point(|place| indices[*place] < row);
        for place in order[first..].iter().take_while(|place| indices[**place] == row) {
            sum.iter_mut().zip(&rows[place * width..][..width]).for_each(|(sum, x)| *sum += x);
        }
    });
}

/// Numbers with their axes in another order, and their new shape.
fn permuted<const D: usize>(numbers: &[f32], shape: [usize; D], axes: [usize; D]) -> (Vec<f32>, [usize; D]) {
    let strides: [usize; D] = std::array::from_fn(|axis| AxisView::of(&shape, axis).after);
    let (shape, strides) = (axes.map(|axis| shape[axis]), axes.map(|axis| strides[axis]));
    let mut output = unfilled(numbers.len());
    for_each_row(&mut output, shape[D - 1], |row, output| {
        let (mut rest, mut from) = (row, 0);
        for axis in (0..D - 1).rev() {
            from += rest % shape[axis] * strides[axis];
            rest /= shape[axis];
        }
        let run = numbers[from..].iter().step_by(strides[D - 1]);
        output.iter_mut().zip(run).for_each(|(to, from)| *to = *from);
    });
    (output, shape)
}
