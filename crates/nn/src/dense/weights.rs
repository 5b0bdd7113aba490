//! How the weights of a layer lie in memory, and products with them.
//!
//! A wide layer keeps its weights in panels of [`PANEL`] outputs; within a panel, the numbers of one input follow each
//! other. So a product reads a panel from front to back, gradients are summed where they belong, and nothing is packed
//! per call but the transposed weights that the way back needs. A narrow layer keeps PyTorch's order `[outputs, inputs]`.

use std::ops::Range;

use bytemuck::cast_slice;

use super::gemm::{PANEL, PanelProduct, dots, panel_product, transpose};
use crate::kernels::Isa;

/// Up to so many outputs a panel would be mostly empty.
const NARROW: usize = 8;

/// The shape of a layer's weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WeightShape {
    pub(super) inputs: usize,
    pub(super) outputs: usize,
}

/// A matrix of a batch, spread over blocks of rows: row `r` of block `b` starts at `b * block + r * stride`.
#[derive(Clone, Copy)]
pub(super) struct Blocks<'a> {
    pub(super) data: &'a [f32],
    pub(super) stride: usize,
    pub(super) block: usize,
}

impl WeightShape {
    fn is_narrow(self) -> bool {
        self.outputs <= NARROW
    }

    pub(super) fn len(self) -> usize {
        self.inputs * self.outputs
    }

    /// Panels of outputs; one for all where the layer is narrow.
    pub(super) fn panels(self) -> usize {
        if self.is_narrow() { 1 } else { self.outputs.div_ceil(PANEL) }
    }

    /// The part of the weights that some panels take.
    pub(super) fn panel_range(self, panels: Range<usize>) -> Range<usize> {
        let at = |panel: usize| (panel * PANEL).min(self.outputs) * self.inputs;
        if self.is_narrow() { 0..self.len() } else { at(panels.start)..at(panels.end) }
    }

    /// Outputs of one panel.
    fn width(self, panel: usize) -> usize {
        (self.outputs - panel * PANEL).min(PANEL)
    }

    /// From PyTorch's order to ours.
    pub(super) fn import(self, rows: &[f32], into: &mut [f32]) {
        assert_eq!(rows.len(), self.len(), "a weight must be [{}, {}]", self.outputs, self.inputs);
        self.for_each(|row_major, ours| into[ours] = rows[row_major]);
    }

    /// From our order to PyTorch's.
    pub(super) fn export(self, ours: &[f32]) -> Vec<f32> {
        let mut rows = vec![0.0; self.len()];
        self.for_each(|row_major, place| rows[row_major] = ours[place]);
        rows
    }

    fn for_each(self, mut visit: impl FnMut(usize, usize)) {
        for output in 0..self.outputs {
            for input in 0..self.inputs {
                let row_major = output * self.inputs + input;
                let panel = output / PANEL;
                let in_panel = panel * PANEL * self.inputs + input * self.width(panel) + output % PANEL;
                visit(row_major, if self.is_narrow() { row_major } else { in_panel });
            }
        }
    }

    /// `out = x W^T` for some rows. After each panel, `finish(out, first column, columns)` while it is in the cache.
    #[allow(clippy::too_many_arguments)]
    pub(super) fn product(
        self,
        isa: Isa,
        weights: &[f32],
        x: &[f32],
        x_stride: usize,
        rows: usize,
        out: &mut [f32],
        out_stride: usize,
        finish: impl Fn(&mut [f32], usize, usize),
    ) {
        if self.is_narrow() {
            dots(isa, x, x_stride, weights, self.inputs, out, out_stride, rows, self.outputs);
            finish(out, 0, self.outputs);
            return;
        }
        for panel in 0..self.panels() {
            let (columns, out) = (self.width(panel), &mut out[panel * PANEL..]);
            let job = PanelProduct {
                rows,
                columns,
                depth: self.inputs,
                blocks: 1,
                a: cast_slice(x),
                a_row: x_stride,
                a_step: 1,
                a_block: 0,
                b: cast_slice(&weights[self.panel_range(panel..panel + 1)]),
                b_row: columns,
                b_block: 0,
                c_row: out_stride,
                add: false,
            };
            panel_product(isa, &job, out);
            finish(out, panel * PANEL, columns);
        }
    }

    /// Room that [`Self::transposed`] needs.
    pub(super) fn transposed_len(self) -> usize {
        if self.is_narrow() { 0 } else { self.len() }
    }

    /// Writes the weights in panels of inputs, for [`Self::product_back`].
    pub(super) fn transposed(self, isa: Isa, weights: &[f32], into: &mut [f32]) {
        if self.is_narrow() {
            return;
        }
        for panel in 0..self.panels() {
            let (width, from) = (self.width(panel), &weights[self.panel_range(panel..panel + 1)]);
            for input in (0..self.inputs).step_by(PANEL) {
                let columns = (self.inputs - input).min(PANEL);
                let to = &mut into[input * self.outputs + panel * PANEL * columns..];
                transpose(isa, &from[input * width..], width, to, columns, columns, width);
            }
        }
    }

    /// `grad_x = grad W` for some rows and the wanted columns of `x`, given the transposed weights too.
    #[allow(clippy::too_many_arguments)]
    pub(super) fn product_back(
        self,
        isa: Isa,
        weights: &[f32],
        transposed: &[f32],
        grad: &[f32],
        grad_stride: usize,
        rows: usize,
        grad_x: &mut [f32],
        grad_x_stride: usize,
    ) {
        for input in (0..self.inputs).step_by(PANEL) {
            let columns = (self.inputs - input).min(PANEL);
            let (b, b_row) = match self.is_narrow() {
                true => (&weights[input..], self.inputs),
                false => (&transposed[input * self.outputs..][..columns * self.outputs], columns),
            };
            let job = PanelProduct {
                rows,
                columns,
                depth: self.outputs,
                blocks: 1,
                a: cast_slice(grad),
                a_row: grad_stride,
                a_step: 1,
                a_block: 0,
                b: cast_slice(b),
                b_row,
                b_block: 0,
                c_row: grad_x_stride,
                add: false,
            };
            panel_product(isa, &job, &mut grad_x[input..]);
        }
    }

    /// `grads += grad^T x` for some panels, over `blocks` blocks of `rows` rows. `grads` is what those panels take.
    #[allow(clippy::too_many_arguments)]
    pub(super) fn add_gradients(
        self,
        isa: Isa,
        panels: Range<usize>,
        x: Blocks<'_>,
        grad: Blocks<'_>,
        rows: usize,
        blocks: usize,
        grads: &mut [f32],
    ) {
        let job = PanelProduct {
            rows: 0,
            columns: 0,
            depth: rows,
            blocks,
            a: &[],
            a_row: 1,
            a_step: 0,
            a_block: 0,
            b: &[],
            b_row: 0,
            b_block: 0,
            c_row: 0,
            add: true,
        };
        if self.is_narrow() {
            for input in (0..self.inputs).step_by(PANEL) {
                let columns = (self.inputs - input).min(PANEL);
                let job = PanelProduct { rows: self.outputs, columns, c_row: self.inputs, ..job };
                let job = job.left(grad).right(x, input);
                panel_product(isa, &job, &mut grads[input..]);
            }
            return;
        }
        for panel in panels.clone() {
            let columns = self.width(panel);
            let job = PanelProduct { rows: self.inputs, columns, c_row: columns, ..job };
            let job = job.left(x).right(grad, panel * PANEL);
            panel_product(isa, &job, &mut grads[(panel - panels.start) * PANEL * self.inputs..]);
        }
    }
}

impl<'a> PanelProduct<'a> {
    /// The transposed matrix on the left: its columns are the rows of the product.
    fn left(self, matrix: Blocks<'a>) -> Self {
        Self { a: cast_slice(matrix.data), a_row: 1, a_step: matrix.stride, a_block: matrix.block, ..self }
    }

    /// A panel of the matrix on the right.
    fn right(self, matrix: Blocks<'a>, column: usize) -> Self {
        Self { b: cast_slice(&matrix.data[column..]), b_row: matrix.stride, b_block: matrix.block, ..self }
    }
}
