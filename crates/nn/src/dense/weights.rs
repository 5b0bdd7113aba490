//! How the weights of a layer lie in memory, and products with them.
//!
//! A wide layer keeps its weights in panels of [`PANEL`] outputs; within a panel, the numbers of one input follow each
//! other. So a product reads a panel from front to back, gradients are summed where they belong, and products in single
//! precision need nothing packed but the transposed weights for the backward pass. A narrow layer keeps PyTorch's order
//! `[outputs, inputs]`.

use std::ops::Range;

use bytemuck::cast_slice;

use crate::kernels::gemm::{
    GemmEpilogue, PANEL, PanelProduct, dots, pack_pairs, pack_rows, panel_product, transpose,
};
use crate::kernels::layer_ops::{self, Activation, StridedRows};
use crate::kernels::{Isa, Precision};

/// Up to so many outputs a panel would be mostly empty.
const NARROW: usize = 8;

/// Below so many inputs or outputs, rounding takes longer than the faster products save; and what a network is given may
/// not bear rounding.
const HIDDEN: usize = 64;

/// The weights of a layer: their shape and what they are multiplied with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WeightShape {
    pub(super) inputs: usize,
    pub(super) outputs: usize,
    /// The instructions of its products.
    pub(super) isa: Isa,
}

/// A matrix of operands: words in rows that are `stride` apart.
#[derive(Clone, Copy)]
pub(super) struct Operands<'a> {
    words: &'a [u32],
    stride: usize,
    /// Distance of the same row in the next block.
    block: usize,
}

impl<'a> Operands<'a> {
    /// Of memory that holds numbers or packed words.
    pub(super) fn new(memory: &'a [f32], stride: usize) -> Self {
        Self { words: cast_slice(memory), stride, block: 0 }
    }

    /// A matrix spread over blocks.
    pub(super) fn in_blocks(self, block: usize) -> Self {
        Self { block, ..self }
    }
}

/// What follows a product.
#[derive(Clone, Copy)]
pub(super) struct BiasActivation<'a> {
    /// Added to each row; empty where there is none.
    pub(super) bias: &'a [f32],
    pub(super) activation: Activation,
    /// The instructions of the activation.
    pub(super) isa: Isa,
}

/// Rows of a result.
pub(super) struct OutputRows<'a> {
    pub(super) memory: &'a mut [f32],
    pub(super) rows: usize,
    pub(super) stride: usize,
}

/// So many blocks of so many rows.
#[derive(Clone, Copy)]
pub(super) struct BlockRows {
    pub(super) rows: usize,
    pub(super) blocks: usize,
}

impl WeightShape {
    /// Weights multiplied in a precision where their size allows it.
    pub(super) fn new(inputs: usize, outputs: usize, isa: Isa, precision: Precision) -> Self {
        let hidden = inputs >= HIDDEN && outputs >= HIDDEN;
        let half = hidden && precision == Precision::Bf16 && isa == Isa::best(Precision::F32);
        Self { inputs, outputs, isa: if half { Isa::best(Precision::Bf16) } else { isa } }
    }

    /// Whether products take words of two numbers.
    pub(super) fn is_half(self) -> bool {
        self.isa.precision() == Precision::Bf16
    }

    fn is_narrow(self) -> bool {
        self.outputs <= NARROW
    }

    pub(super) fn len(self) -> usize {
        self.inputs * self.outputs
    }

    /// Words of so many numbers along the depth.
    fn words(self, depth: usize) -> usize {
        if self.is_half() { depth.div_ceil(2) } else { depth }
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

    /// Room that [`Self::pack_panel`] needs for all panels: none where the weights are used as they are.
    pub(super) fn packed_len(self) -> usize {
        if self.is_half() { self.words(self.inputs) * self.outputs } else { 0 }
    }

    /// Where the words of one panel go.
    pub(super) fn packed_panel(self, panel: usize) -> Range<usize> {
        let start = panel * PANEL * self.words(self.inputs);
        start..start + self.width(panel) * self.words(self.inputs)
    }

    /// Packs one panel of weights.
    pub(super) fn pack_panel(self, weights: &[f32], panel: usize, into: &mut [f32]) {
        let width = self.width(panel);
        let rows = StridedRows { count: self.inputs, width, stride: width };
        pack_pairs(self.isa, &weights[self.panel_range(panel..panel + 1)], rows, into, width);
    }

    /// `out = x W^T` after its bias and activation, given the weights, packed if they are to be.
    pub(super) fn product(
        self,
        weights: &[f32],
        x: Operands<'_>,
        out: OutputRows<'_>,
        after: BiasActivation<'_>,
    ) {
        let OutputRows { memory, rows, stride } = out;
        let BiasActivation { bias, activation, isa } = after;
        if self.is_narrow() {
            dots(
                self.isa,
                cast_slice(x.words),
                x.stride,
                weights,
                self.inputs,
                memory,
                stride,
                rows,
                self.outputs,
            );
            let rows = StridedRows { count: rows, width: self.outputs, stride };
            return layer_ops::bias_activate(isa, memory, rows, bias, activation);
        }
        for panel in 0..self.panels() {
            let (columns, out) = (self.width(panel), &mut memory[panel * PANEL..]);
            let job = PanelProduct {
                rows,
                columns,
                depth: self.words(self.inputs),
                c_row: stride,
                ..PanelProduct::NONE
            };
            let end = match (bias.get(panel * PANEL..), activation) {
                (None | Some([]), _) => GemmEpilogue::Write,
                (Some(bias), Activation::Relu) => GemmEpilogue::BiasRelu(bias),
                (Some(bias), _) => GemmEpilogue::Bias(bias),
            };
            let job = PanelProduct { a: x.words, a_row: x.stride, a_step: 1, end, ..job };
            let weights = cast_slice(&weights[self.packed_panel(panel)]);
            panel_product(self.isa, &PanelProduct { b: weights, b_row: columns, ..job }, out);
            if !matches!((end, activation), (GemmEpilogue::BiasRelu(_), _) | (_, Activation::None)) {
                // While the panel is in the cache.
                layer_ops::activate(
                    isa,
                    out,
                    StridedRows { count: rows, width: columns, stride },
                    activation,
                );
            }
        }
    }

    /// Panels of inputs that the backward pass needs the weights in: none where they are used as they are.
    pub(super) fn input_panels(self) -> usize {
        if self.is_narrow() { 0 } else { self.inputs.div_ceil(PANEL) }
    }

    /// Room that all of them need.
    pub(super) fn transposed_len(self) -> usize {
        self.input_panels().checked_sub(1).map_or(0, |last| self.transposed_panel(last).end)
    }

    /// Where [`Self::transpose_panel`] puts one panel of inputs: the words, and where these are packed, room to do so.
    pub(super) fn transposed_panel(self, panel: usize) -> Range<usize> {
        let space = if self.is_half() { PANEL / 2 } else { 0 };
        let at = |input: usize| input.min(self.inputs) * (self.words(self.outputs) + space);
        at(panel * PANEL)..at((panel + 1) * PANEL)
    }

    /// Writes the weights of one panel of inputs, packed if they are to be, for [`Self::product_back`].
    pub(super) fn transpose_panel(self, weights: &[f32], panel: usize, into: &mut [f32]) {
        let (input, depth) = (panel * PANEL, self.words(self.outputs));
        let columns = (self.inputs - input).min(PANEL);
        let (into, space) = into.split_at_mut(depth * columns);
        for panel in 0..self.panels() {
            let width = self.width(panel);
            let from = &weights[self.panel_range(panel..panel + 1)][input * width..];
            let (first, words) = (self.words(panel * PANEL), self.words(width));
            let (from, stride) = match self.is_half() {
                true => {
                    let rows = StridedRows { count: columns, width, stride: width };
                    pack_rows(self.isa, from, rows, space, PANEL / 2);
                    (&*space, PANEL / 2)
                }
                false => (from, width),
            };
            transpose(self.isa, from, stride, &mut into[first * columns..], columns, columns, words);
        }
    }

    /// `grad_x = grad W` for some rows, given the weights themselves and transposed.
    pub(super) fn product_back(
        self,
        weights: &[f32],
        transposed: &[f32],
        grad: Operands<'_>,
        grad_x: OutputRows<'_>,
    ) {
        let OutputRows { memory, rows, stride } = grad_x;
        let depth = self.words(self.outputs);
        for input in (0..self.inputs).step_by(PANEL) {
            let columns = (self.inputs - input).min(PANEL);
            let (b, b_row) = match self.is_narrow() {
                true => (&weights[input..], self.inputs),
                false => {
                    let panel = self.transposed_panel(input / PANEL);
                    (&transposed[panel][..columns * depth], columns)
                }
            };
            let job = PanelProduct { rows, columns, depth, c_row: stride, ..PanelProduct::NONE };
            let job = PanelProduct { a: grad.words, a_row: grad.stride, a_step: 1, ..job };
            let job = PanelProduct { b: cast_slice(b), b_row, ..job };
            panel_product(self.isa, &job, &mut memory[input..]);
        }
    }

    /// `grads = grad^T x` or `grads += grad^T x` for some panels, over `depth.blocks` blocks of `depth.rows` rows; `grads`
    /// is what those panels take. The rows of both matrices are the depth.
    pub(super) fn sum_gradients(
        self,
        panels: Range<usize>,
        x: Operands<'_>,
        grad: Operands<'_>,
        depth: BlockRows,
        end: GemmEpilogue<'_>,
        grads: &mut [f32],
    ) {
        let BlockRows { rows, blocks } = depth;
        let job = PanelProduct { depth: self.words(rows), blocks, end, ..PanelProduct::NONE };
        if self.is_narrow() {
            for input in (0..self.inputs).step_by(PANEL) {
                let columns = (self.inputs - input).min(PANEL);
                let job = PanelProduct { rows: self.outputs, columns, c_row: self.inputs, ..job };
                panel_product(self.isa, &job.left(grad).right(x, input), &mut grads[input..]);
            }
            return;
        }
        for panel in panels.clone() {
            let columns = self.width(panel);
            let job = PanelProduct { rows: self.inputs, columns, c_row: columns, ..job };
            let grads = &mut grads[(panel - panels.start) * PANEL * self.inputs..];
            panel_product(self.isa, &job.left(x).right(grad, panel * PANEL), grads);
        }
    }
}

impl<'a> PanelProduct<'a> {
    /// Nothing yet, of one block.
    const NONE: Self = PanelProduct {
        rows: 0,
        columns: 0,
        depth: 0,
        blocks: 1,
        a: &[],
        a_row: 0,
        a_step: 0,
        a_block: 0,
        b: &[],
        b_row: 0,
        b_block: 0,
        c_row: 0,
        end: GemmEpilogue::Write,
    };

    /// The transposed matrix on the left: its columns are the rows of the product.
    fn left(self, matrix: Operands<'a>) -> Self {
        Self { a: matrix.words, a_row: 1, a_step: matrix.stride, a_block: matrix.block, ..self }
    }

    /// A panel of the matrix on the right.
    fn right(self, matrix: Operands<'a>, column: usize) -> Self {
        Self { b: &matrix.words[column..], b_row: matrix.stride, b_block: matrix.block, ..self }
    }
}
