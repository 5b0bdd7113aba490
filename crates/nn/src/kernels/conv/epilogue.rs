//! The epilogue: what happens to sums before they are written to the output.

use crate::kernels::simd::Simd;

/// What happens to a sum before it is written.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ConvEpilogue<'a> {
    /// Whole tiles of it, see [`super::pack::padded_to_tiles`].
    pub(super) bias: Option<&'a [f32]>,
    pub(super) residual: Option<&'a [f32]>,
    pub(super) relu: bool,
}

impl ConvEpilogue<'_> {
    /// Adds what is to be added to a vector of sums, and writes it: the channels from `column` on, as many as there
    /// are, of the pixel whose `channels` channels begin at `place` of the output and of the residual.
    ///
    /// # Safety
    /// They can be written.
    #[inline(always)]
    pub(super) unsafe fn write<L: Simd>(
        &self,
        l: L,
        mut sum: L::Vector,
        place: usize,
        column: usize,
        channels: usize,
        output: *mut f32,
    ) {
        let count = channels.saturating_sub(column).min(L::WIDTH);
        if count == 0 {
            return;
        }
        let place = place + column;
        // SAFETY: the caller's promise; the bias is whole tiles, the residual as large as the output.
        unsafe {
            if let Some(bias) = self.bias {
                sum = l.add(sum, l.load(bias.as_ptr().add(column)));
            }
            if let Some(residual) = self.residual {
                sum = l.add(sum, load_some(l, residual.as_ptr().add(place), count));
            }
            if self.relu {
                sum = l.relu(sum);
            }
            store_some(l, output.add(place), sum, count);
        }
    }
}

/// # Safety
/// `count` numbers can be read; it is at most a vector.
#[inline(always)]
pub(super) unsafe fn load_some<L: Simd>(l: L, from: *const f32, count: usize) -> L::Vector {
    // SAFETY: the caller's promise.
    unsafe { if count == L::WIDTH { l.load(from) } else { l.load_first(from, count) } }
}

/// # Safety
/// `count` numbers can be written; it is at most a vector.
#[inline(always)]
pub(super) unsafe fn store_some<L: Simd>(l: L, to: *mut f32, vector: L::Vector, count: usize) {
    // SAFETY: the caller's promise.
    unsafe { if count == L::WIDTH { l.store(to, vector) } else { l.store_first(to, vector, count) } }
}
