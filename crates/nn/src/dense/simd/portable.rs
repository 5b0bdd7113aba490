//! Arrays that any compiler turns into what vectors the target has.

use super::Simd;

/// Eight floats in an array.
pub(in crate::dense) struct Portable;

const LANES: usize = 8;

impl Simd for Portable {
    type V = [f32; LANES];
    const LANES: usize = LANES;
    const TILE_ROWS: usize = 4;
    const FUSED: bool = false;

    #[inline(always)]
    unsafe fn zero() -> Self::V {
        [0.0; LANES]
    }

    #[inline(always)]
    unsafe fn splat(x: f32) -> Self::V {
        [x; LANES]
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self::V {
        // SAFETY: the caller vouches for the memory; an array of floats has the alignment of a float.
        unsafe { from.cast::<Self::V>().read() }
    }

    #[inline(always)]
    unsafe fn store(to: *mut f32, v: Self::V) {
        // SAFETY: as for `load`.
        unsafe { to.cast::<Self::V>().write(v) }
    }

    #[inline(always)]
    unsafe fn load_first(from: *const f32, count: usize) -> Self::V {
        let mut v = [0.0; LANES];
        for (i, lane) in v.iter_mut().enumerate().take(count) {
            // SAFETY: the caller vouches for the first `count` floats.
            *lane = unsafe { *from.add(i) };
        }
        v
    }

    #[inline(always)]
    unsafe fn store_first(to: *mut f32, v: Self::V, count: usize) {
        for (i, lane) in v.into_iter().enumerate().take(count) {
            // SAFETY: as for `load_first`.
            unsafe { *to.add(i) = lane };
        }
    }

    #[inline(always)]
    unsafe fn add(a: Self::V, b: Self::V) -> Self::V {
        std::array::from_fn(|i| a[i] + b[i])
    }

    #[inline(always)]
    unsafe fn mul_add(a: Self::V, b: Self::V, c: Self::V) -> Self::V {
        std::array::from_fn(|i| a[i] * b[i] + c[i])
    }

    #[inline(always)]
    unsafe fn sum(v: Self::V) -> f32 {
        ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7]))
    }

    #[inline(always)]
    unsafe fn transpose(from: *const f32, from_row: usize, to: *mut f32, to_row: usize) {
        for row in 0..LANES {
            for column in 0..LANES {
                // SAFETY: the caller vouches for both squares.
                unsafe { *to.add(column * to_row + row) = *from.add(row * from_row + column) };
            }
        }
    }
}
