//! Tiles of an image to products and back, a vector of channels at a time.

#![expect(clippy::needless_range_loop, reason = "arrays stay in registers only when indexed by constants")]

use super::matrices::{self, INPUTS, OUTPUTS, PRODUCTS};
use crate::kernels::conv::{ConvEpilogue, ConvShape};
use crate::kernels::simd::{Kernel, Simd};
use std::ops::Range;

/// How images are cut into tiles: `[image, row, column]`, each of 4x4 outputs and the 6x6 inputs under them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tiling {
    pub(super) height: usize,
    pub(super) width: usize,
    pub(super) out_height: usize,
    pub(super) out_width: usize,
    pub(super) padding: usize,
    /// Rows and columns of tiles in an image.
    pub(super) rows: usize,
    pub(super) columns: usize,
}

impl Tiling {
    pub(super) fn of(shape: &ConvShape) -> Self {
        let (out_height, out_width) = (shape.out_height(), shape.out_width());
        Self {
            height: shape.height,
            width: shape.width,
            out_height,
            out_width,
            padding: shape.padding,
            rows: out_height.div_ceil(OUTPUTS),
            columns: out_width.div_ceil(OUTPUTS),
        }
    }

    /// Tiles of an image.
    pub(super) fn per_image(&self) -> usize {
        self.rows * self.columns
    }

    /// Image, row and column of a tile.
    #[inline(always)]
    fn position(&self, tile: usize) -> (usize, usize, usize) {
        let (image, tile) = (tile / self.per_image(), tile % self.per_image());
        (image, tile / self.columns, tile % self.columns)
    }
}

/// Transformed tiles: `[product, tile, channel]`, with a gap between products.
///
/// The gap keeps the 36 numbers of a tile from falling into the same few sets of the cache.
#[derive(Debug, Clone, Copy)]
pub(super) struct Products {
    pub(super) start: *mut f32,
    /// Numbers from one tile to the next.
    pub(super) row: usize,
    /// Numbers from one product to the next.
    pub(super) plane: usize,
}

// SAFETY: it is only a place; who writes there says why no other thread does.
unsafe impl Send for Products {}
// SAFETY: as above.
unsafe impl Sync for Products {}

impl Products {
    const GAP: usize = 16;

    /// Bytes for `tiles` tiles of `row` channels.
    pub(super) fn bytes(tiles: usize, row: usize) -> usize {
        PRODUCTS * (tiles * row + Self::GAP) * size_of::<f32>()
    }

    pub(super) fn at(start: *mut u8, tiles: usize, row: usize) -> Self {
        Self { start: start.cast(), row, plane: tiles * row + Self::GAP }
    }

    /// Where a product of a tile begins.
    ///
    /// # Safety
    /// There are that many tiles and channels.
    #[inline(always)]
    pub(super) unsafe fn place(&self, product: usize, tile: usize, channel: usize) -> *mut f32 {
        // SAFETY: the caller's promise.
        unsafe { self.start.add(product * self.plane + tile * self.row + channel) }
    }
}

/// Inputs to products: the tiles `tiles`, of which the first is written to place `first` of `products`.
pub(super) struct FromInput {
    pub(super) tiling: Tiling,
    pub(super) channels: usize,
    pub(super) input: *const f32,
    pub(super) tiles: Range<usize>,
    pub(super) products: Products,
    pub(super) first: usize,
}

impl Kernel for FromInput {
    type Output = ();

    #[inline(always)]
    fn run<L: Simd>(self, l: L) {
        for (i, tile) in self.tiles.clone().enumerate() {
            let (image, row, column) = self.tiling.position(tile);
            for channel in (0..self.channels).step_by(L::WIDTH) {
                let count = (self.channels - channel).min(L::WIDTH);
                // SAFETY: who made `self` has these tiles in `input` and room for them in `products`, rows of which are whole
                // vectors.
                unsafe {
                    let to = self.products.place(0, self.first + i, channel);
                    if count == L::WIDTH {
                        self.transform::<L, true>(l, image, (row, column), channel, count, to);
                    } else {
                        self.transform::<L, false>(l, image, (row, column), channel, count, to);
                    }
                }
            }
        }
    }
}

impl FromInput {
    /// # Safety
    /// The tile is inside the input; `to` is its place among the products.
    #[inline(always)]
    unsafe fn transform<L: Simd, const FULL: bool>(
        &self,
        l: L,
        image: usize,
        (row, column): (usize, usize),
        channel: usize,
        count: usize,
        to: *mut f32,
    ) {
        let Tiling { height, width, padding, .. } = self.tiling;
        let mut half = [[l.splat(0.0); INPUTS]; INPUTS];
        // SAFETY: only pixels inside the image are read, and `products` has 36 planes.
        unsafe {
            let image = self.input.add(image * height * width * self.channels + channel);
            for i in 0..INPUTS {
                let x = (column * OUTPUTS + i).wrapping_sub(padding);
                if x >= width {
                    continue;
                }
                let mut column = [l.splat(0.0); INPUTS];
                for y in 0..INPUTS {
                    let in_row = (row * OUTPUTS + y).wrapping_sub(padding);
                    if in_row < height {
                        column[y] =
                            load::<L, FULL>(l, image.add((in_row * width + x) * self.channels), count);
                    }
                }
                half[i] = matrices::input(l, column);
            }
            for y in 0..INPUTS {
                let products = matrices::input(l, across(&half, y));
                for x in 0..INPUTS {
                    l.store(to.add((y * INPUTS + x) * self.products.plane), products[x]);
                }
            }
        }
    }
}

/// Gradients of outputs to gradients of products.
pub(super) struct FromGradOutput {
    pub(super) tiling: Tiling,
    pub(super) channels: usize,
    pub(super) grad_output: *const f32,
    pub(super) tiles: Range<usize>,
    pub(super) products: Products,
    pub(super) first: usize,
}

impl Kernel for FromGradOutput {
    type Output = ();

    #[inline(always)]
    fn run<L: Simd>(self, l: L) {
        for (i, tile) in self.tiles.clone().enumerate() {
            for channel in (0..self.channels).step_by(L::WIDTH) {
                let count = (self.channels - channel).min(L::WIDTH);
                // SAFETY: as for the input.
                unsafe {
                    let to = self.products.place(0, self.first + i, channel);
                    if count == L::WIDTH {
                        self.transform::<L, true>(l, tile, channel, count, to);
                    } else {
                        self.transform::<L, false>(l, tile, channel, count, to);
                    }
                }
            }
        }
    }
}

impl FromGradOutput {
    /// # Safety
    /// The tile is inside the gradients; `to` is its place among the products.
    #[inline(always)]
    unsafe fn transform<L: Simd, const FULL: bool>(
        &self,
        l: L,
        tile: usize,
        channel: usize,
        count: usize,
        to: *mut f32,
    ) {
        let Tiling { out_height, out_width, .. } = self.tiling;
        let (image, row, column) = self.tiling.position(tile);
        let mut half = [[l.splat(0.0); INPUTS]; OUTPUTS];
        // SAFETY: only pixels inside the image are read, and `products` has 36 planes.
        unsafe {
            let image = self.grad_output.add(image * out_height * out_width * self.channels + channel);
            for i in 0..OUTPUTS {
                let x = column * OUTPUTS + i;
                if x >= out_width {
                    continue;
                }
                let mut column = [l.splat(0.0); OUTPUTS];
                for y in 0..OUTPUTS {
                    let out_row = row * OUTPUTS + y;
                    if out_row < out_height {
                        column[y] =
                            load::<L, FULL>(l, image.add((out_row * out_width + x) * self.channels), count);
                    }
                }
                half[i] = matrices::grad_output(l, column);
            }
            for y in 0..INPUTS {
                let products = matrices::grad_output(l, across(&half, y));
                for x in 0..INPUTS {
                    l.store(to.add((y * INPUTS + x) * self.products.plane), products[x]);
                }
            }
        }
    }
}

/// What products of integers are multiplied with to be what they stand for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scales {
    /// For each tile, the first at place 0.
    pub(super) tiles: *const f32,
    /// For each output channel, whole tiles of them.
    pub(super) channels: *const f32,
}

/// Products to outputs: the tiles `tiles`, of which the first is at place 0 of `products`, and the channels `channels`, of which
/// the first is at place 0 of a row.
pub(super) struct ToOutput<'a> {
    pub(super) tiling: Tiling,
    pub(super) tiles: Range<usize>,
    pub(super) channels: Range<usize>,
    pub(super) all_channels: usize,
    pub(super) products: Products,
    /// If the products are of integers.
    pub(super) scales: Option<Scales>,
    pub(super) epilogue: ConvEpilogue<'a>,
    pub(super) output: *mut f32,
}

impl ToOutput<'_> {
    /// # Safety
    /// The tiles and channels are inside the output, and nobody else writes there.
    #[inline(always)]
    pub(super) unsafe fn on<L: Simd>(&self, l: L) {
        for (i, tile) in self.tiles.clone().enumerate() {
            for channel in self.channels.clone().step_by(L::WIDTH) {
                let count = (self.channels.end - channel).min(L::WIDTH);
                // SAFETY: the caller's promise; the products were written by who made `self`.
                unsafe {
                    let from = self.products.place(0, i, channel - self.channels.start);
                    let scale = match self.scales {
                        None => l.splat(1.0),
                        Some(Scales { tiles, channels }) => {
                            l.mul(l.splat(*tiles.add(i)), l.load(channels.add(channel)))
                        }
                    };
                    if count == L::WIDTH {
                        self.transform::<L, true>(l, tile, channel, count, from, scale);
                    } else {
                        self.transform::<L, false>(l, tile, channel, count, from, scale);
                    }
                }
            }
        }
    }

    /// # Safety
    /// The tile is inside the output; `from` is its place among the products.
    #[inline(always)]
    unsafe fn transform<L: Simd, const FULL: bool>(
        &self,
        l: L,
        tile: usize,
        channel: usize,
        count: usize,
        from: *const f32,
        scale: L::Vector,
    ) {
        let Tiling { out_height, out_width, .. } = self.tiling;
        let (image, row, column) = self.tiling.position(tile);
        let mut half = [[l.splat(0.0); OUTPUTS]; INPUTS];
        // SAFETY: `products` has 36 planes, and only pixels inside the image are written.
        unsafe {
            for x in 0..INPUTS {
                half[x] = matrices::output(l, load_column(l, from, x, self.products.plane));
            }
            let mut bias = l.splat(0.0);
            if let Some(all) = self.epilogue.bias {
                bias = l.load(all.as_ptr().add(channel));
            }
            for y in 0..OUTPUTS {
                let out_row = row * OUTPUTS + y;
                if out_row >= out_height {
                    break;
                }
                let outputs = matrices::output(l, across(&half, y));
                for x in 0..OUTPUTS {
                    let out_column = column * OUTPUTS + x;
                    if out_column >= out_width {
                        break;
                    }
                    let pixel = (image * out_height + out_row) * out_width + out_column;
                    let place = pixel * self.all_channels + channel;
                    let mut output = l.mul_add(outputs[x], scale, bias);
                    if let Some(residual) = self.epilogue.residual {
                        output = l.add(output, load::<L, FULL>(l, residual.as_ptr().add(place), count));
                    }
                    if self.epilogue.relu {
                        output = l.relu(output);
                    }
                    store::<L, FULL>(l, self.output.add(place), output, count);
                }
            }
        }
    }
}

/// Gradients of products to gradients of inputs. Neighbouring tiles overlap by two pixels; as tiles come in the order of the
/// image, it is known which pixels are met for the first time and which get more.
pub(super) struct ToGradInput {
    pub(super) tiling: Tiling,
    /// Tiles of whole images.
    pub(super) tiles: Range<usize>,
    pub(super) channels: Range<usize>,
    pub(super) all_channels: usize,
    pub(super) products: Products,
    pub(super) grad_input: *mut f32,
}

impl ToGradInput {
    /// # Safety
    /// The tiles and channels are inside the gradient, and nobody else writes there.
    #[inline(always)]
    pub(super) unsafe fn on<L: Simd>(&self, l: L) {
        for (i, tile) in self.tiles.clone().enumerate() {
            for channel in self.channels.clone().step_by(L::WIDTH) {
                let count = (self.channels.end - channel).min(L::WIDTH);
                // SAFETY: the caller's promise; the products were written by who made `self`.
                unsafe {
                    let from = self.products.place(0, i, channel - self.channels.start);
                    if count == L::WIDTH {
                        self.transform::<L, true>(l, tile, channel, count, from);
                    } else {
                        self.transform::<L, false>(l, tile, channel, count, from);
                    }
                }
            }
        }
    }

    /// # Safety
    /// The tile is inside the gradient; `from` is its place among the products.
    #[inline(always)]
    unsafe fn transform<L: Simd, const FULL: bool>(
        &self,
        l: L,
        tile: usize,
        channel: usize,
        count: usize,
        from: *const f32,
    ) {
        const OVERLAP: usize = INPUTS - OUTPUTS;
        let Tiling { height, width, padding, .. } = self.tiling;
        let (image, row, column) = self.tiling.position(tile);
        let mut half = [[l.splat(0.0); INPUTS]; INPUTS];
        // SAFETY: `products` has 36 planes, and only pixels inside the image are touched.
        unsafe {
            for x in 0..INPUTS {
                half[x] = matrices::grad_input(l, load_column(l, from, x, self.products.plane));
            }
            for y in 0..INPUTS {
                let in_row = (row * OUTPUTS + y).wrapping_sub(padding);
                if in_row >= height {
                    continue;
                }
                let grads = matrices::grad_input(l, across(&half, y));
                for x in 0..INPUTS {
                    let in_column = (column * OUTPUTS + x).wrapping_sub(padding);
                    if in_column >= width {
                        continue;
                    }
                    let mut grad = grads[x];
                    let pixel = (image * height + in_row) * width + in_column;
                    let place = self.grad_input.add(pixel * self.all_channels + channel);
                    let met_before = (y < OVERLAP && row > 0) || (x < OVERLAP && column > 0);
                    if met_before {
                        grad = l.add(grad, load::<L, FULL>(l, place, count));
                    }
                    store::<L, FULL>(l, place, grad, count);
                }
            }
        }
    }
}

/// Taps of a 3x3 kernel.
const TAPS: usize = 9;
/// Inner channels between the one that is transformed and the one whose weights are asked for. With few images the
/// weights come from memory, and waiting for them would take longer than all the rest.
const INNER_AHEAD: usize = 12;
/// Numbers in a line of the cache.
const LINE: usize = 16;

/// Weights to factors, for a run of inner channels and the columns of one panel:
/// `factors[product][inner][column]`, with zeros where there is no column.
pub(super) struct FromWeights {
    /// Weight of tap 0, of the first inner channel and the first column.
    pub(super) weights: *const f32,
    /// Numbers from one tap to the next.
    pub(super) tap_stride: usize,
    /// Numbers from one inner channel to the next.
    pub(super) inner_stride: usize,
    pub(super) inner: usize,
    /// Columns there are, at most those of a panel.
    pub(super) columns: usize,
    pub(super) factors: *mut f32,
    /// Numbers from one product to the next.
    pub(super) plane: usize,
}

impl FromWeights {
    /// # Safety
    /// The weights can be read and the factors written.
    #[inline(always)]
    pub(super) unsafe fn on<L: Simd>(&self, l: L) {
        for inner in 0..self.inner {
            self.ask_ahead(l, inner);
            for lane in [0, L::WIDTH] {
                let count = self.columns.saturating_sub(lane).min(L::WIDTH);
                // SAFETY: the caller's promise; no more than the columns there are is read.
                unsafe {
                    let to = self.factors.add(inner * 2 * L::WIDTH + lane);
                    if count == 0 {
                        for product in 0..PRODUCTS {
                            l.store(to.add(product * self.plane), l.splat(0.0));
                        }
                        continue;
                    }
                    let from = self.weights.add(inner * self.inner_stride + lane);
                    if count == L::WIDTH {
                        self.transform::<L, true>(l, from, count, to);
                    } else {
                        self.transform::<L, false>(l, from, count, to);
                    }
                }
            }
        }
    }

    /// Asks for weights that will be wanted some inner channels later.
    #[inline(always)]
    pub(super) fn ask_ahead<L: Simd>(&self, l: L, inner: usize) {
        for tap in 0..TAPS {
            let soon = (inner + INNER_AHEAD) * self.inner_stride + tap * self.tap_stride;
            l.prefetch(self.weights.wrapping_add(soon));
            l.prefetch(self.weights.wrapping_add(soon + LINE));
        }
    }

    /// `count` weights from column `lane` on of an inner channel, for each row of column `x` of the kernel.
    ///
    /// # Safety
    /// They can be read.
    #[inline(always)]
    pub(super) unsafe fn column<L: Simd>(
        &self,
        l: L,
        inner: usize,
        lane: usize,
        x: usize,
        count: usize,
    ) -> [L::Vector; 3] {
        let mut column = [l.splat(0.0); 3];
        for y in 0..3 {
            // SAFETY: the caller's promise.
            unsafe {
                let from = self.weights.add(inner * self.inner_stride + (y * 3 + x) * self.tap_stride + lane);
                column[y] = if count == L::WIDTH { l.load(from) } else { l.load_first(from, count) };
            }
        }
        column
    }

    /// # Safety
    /// `count` weights can be read at `from` for every tap, and a vector written to `to` for every product.
    #[inline(always)]
    unsafe fn transform<L: Simd, const FULL: bool>(
        &self,
        l: L,
        from: *const f32,
        count: usize,
        to: *mut f32,
    ) {
        // SAFETY: the caller's promise.
        unsafe {
            let mut half = [[l.splat(0.0); INPUTS]; 3];
            for x in 0..3 {
                let mut column = [l.splat(0.0); 3];
                for y in 0..3 {
                    column[y] = load::<L, FULL>(l, from.add((y * 3 + x) * self.tap_stride), count);
                }
                half[x] = matrices::weights(l, column);
            }
            for y in 0..INPUTS {
                let factors = matrices::weights(l, across(&half, y));
                for x in 0..INPUTS {
                    l.store(to.add((y * INPUTS + x) * self.plane), factors[x]);
                }
            }
        }
    }
}

impl Kernel for FromWeights {
    type Output = ();

    #[inline(always)]
    fn run<L: Simd>(self, l: L) {
        // SAFETY: who made `self` promised its places.
        unsafe { self.on(l) }
    }
}

/// Gradients of factors, `[product][inner][column]`, to gradients of weights.
pub(super) struct ToGradWeights {
    pub(super) factors: *const f32,
    /// Numbers from one product to the next.
    pub(super) plane: usize,
    /// Numbers from one inner channel to the next.
    pub(super) row: usize,
    pub(super) inner: usize,
    pub(super) columns: usize,
    /// Gradient of tap 0, of the first inner channel and the first column.
    pub(super) grad_weights: *mut f32,
    pub(super) tap_stride: usize,
    pub(super) inner_stride: usize,
}

impl ToGradWeights {
    /// # Safety
    /// The factors can be read and the gradients written.
    #[inline(always)]
    pub(super) unsafe fn on<L: Simd>(&self, l: L) {
        for inner in 0..self.inner {
            for column in (0..self.columns).step_by(L::WIDTH) {
                let count = (self.columns - column).min(L::WIDTH);
                // SAFETY: the caller's promise; rows of factors are whole vectors.
                unsafe {
                    let from = self.factors.add(inner * self.row + column);
                    let to = self.grad_weights.add(inner * self.inner_stride + column);
                    let mut half = [[l.splat(0.0); 3]; INPUTS];
                    for x in 0..INPUTS {
                        half[x] = matrices::grad_weights(l, load_column(l, from, x, self.plane));
                    }
                    for y in 0..3 {
                        let grads = matrices::grad_weights(l, across(&half, y));
                        for x in 0..3 {
                            l.store_first(to.add((y * 3 + x) * self.tap_stride), grads[x], count);
                        }
                    }
                }
            }
        }
    }
}

impl Kernel for ToGradWeights {
    type Output = ();

    #[inline(always)]
    fn run<L: Simd>(self, l: L) {
        // SAFETY: who made `self` promised its places.
        unsafe { self.on(l) }
    }
}

/// Element `y` of every column.
#[inline(always)]
fn across<V: Copy, const N: usize, const M: usize>(columns: &[[V; M]; N], y: usize) -> [V; N] {
    let mut row = [columns[0][y]; N];
    for x in 1..N {
        row[x] = columns[x][y];
    }
    row
}

/// A column of the products of a tile.
///
/// # Safety
/// The products can be read.
#[inline(always)]
unsafe fn load_column<L: Simd>(l: L, from: *const f32, x: usize, plane: usize) -> [L::Vector; INPUTS] {
    let mut column = [l.splat(0.0); INPUTS];
    for y in 0..INPUTS {
        // SAFETY: the caller's promise.
        column[y] = unsafe { l.load(from.add((y * INPUTS + x) * plane)) };
    }
    column
}

/// # Safety
/// `count` numbers can be read, a whole vector if `FULL`.
#[inline(always)]
unsafe fn load<L: Simd, const FULL: bool>(l: L, from: *const f32, count: usize) -> L::Vector {
    // SAFETY: the caller's promise.
    unsafe { if FULL { l.load(from) } else { l.load_first(from, count) } }
}

/// # Safety
/// `count` numbers can be written, a whole vector if `FULL`.
#[inline(always)]
unsafe fn store<L: Simd, const FULL: bool>(l: L, to: *mut f32, vector: L::Vector, count: usize) {
    // SAFETY: the caller's promise.
    unsafe { if FULL { l.store(to, vector) } else { l.store_first(to, vector, count) } }
}
