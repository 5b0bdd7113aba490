//! The grain of the table, looked up instead of computed for each pixel.

use std::sync::LazyLock;

const SIZE: usize = 256;
/// Pixels of grain per metre.
const PER_METRE: f32 = 160.0;

static GRAIN: LazyLock<Vec<f32>> = LazyLock::new(|| {
    let at = |x: usize, y: usize| {
        // All frequencies are whole numbers per tile, so that tiles join.
        let turn = std::f32::consts::TAU / SIZE as f32;
        let (x, y) = (x as f32 * turn, y as f32 * turn);
        let bend = 1.5 * (x + 0.5 * (2.0 * y).sin()).sin();
        let lines = 0.6 * (9.0 * y + bend).sin() + 0.4 * (31.0 * y + 3.0 * bend + (3.0 * x).sin()).sin();
        1.0 + 0.07 * lines
    };
    (0..SIZE * SIZE).map(|k| at(k % SIZE, k / SIZE)).collect()
});

/// The brightness of the wood at a place of the table.
pub(super) fn grain(x: f32, y: f32) -> f32 {
    let wrap = |metres: f32| (metres * PER_METRE) as i32 as usize % SIZE;
    // The table lies within ten metres of the origin: shifted, nothing is negative.
    GRAIN[wrap(y + 16.0) * SIZE + wrap(x + 16.0)]
}
