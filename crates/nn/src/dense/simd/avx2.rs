//! Eight floats in an AVX register.

use std::arch::x86_64::*;

use super::Simd;

/// AVX2 with fused products.
pub(in crate::dense) struct Avx2;

const LANES: usize = 8;

/// A mask of the first `count` lanes: eight entries of this, from `8 - count` on.
static MASKS: [i32; 16] = [-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0];

#[inline(always)]
unsafe fn first(count: usize) -> __m256i {
    // SAFETY: `count` is 0 to 8, so eight entries from `8 - count` lie within the sixteen.
    unsafe { _mm256_loadu_si256(MASKS.as_ptr().add(LANES - count).cast()) }
}

// SAFETY (of every block here): the trait asks callers for the instructions and the memory.
impl Simd for Avx2 {
    type V = __m256;
    const LANES: usize = LANES;
    const TILE_ROWS: usize = 6;
    const FUSED: bool = true;

    #[inline(always)]
    unsafe fn zero() -> Self::V {
        unsafe { _mm256_setzero_ps() }
    }

    #[inline(always)]
    unsafe fn splat(x: f32) -> Self::V {
        unsafe { _mm256_set1_ps(x) }
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self::V {
        unsafe { _mm256_loadu_ps(from) }
    }

    #[inline(always)]
    unsafe fn store(to: *mut f32, v: Self::V) {
        unsafe { _mm256_storeu_ps(to, v) }
    }

    #[inline(always)]
    unsafe fn load_first(from: *const f32, count: usize) -> Self::V {
        unsafe { _mm256_maskload_ps(from, first(count)) }
    }

    #[inline(always)]
    unsafe fn store_first(to: *mut f32, v: Self::V, count: usize) {
        unsafe { _mm256_maskstore_ps(to, first(count), v) }
    }

    #[inline(always)]
    unsafe fn add(a: Self::V, b: Self::V) -> Self::V {
        unsafe { _mm256_add_ps(a, b) }
    }

    #[inline(always)]
    unsafe fn mul_add(a: Self::V, b: Self::V, c: Self::V) -> Self::V {
        unsafe { _mm256_fmadd_ps(a, b, c) }
    }

    #[inline(always)]
    unsafe fn sum(v: Self::V) -> f32 {
        unsafe {
            let four = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps::<1>(v));
            let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
            _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)))
        }
    }

    #[inline(always)]
    unsafe fn transpose(from: *const f32, from_row: usize, to: *mut f32, to_row: usize) {
        unsafe {
            let row = |i: usize| _mm256_loadu_ps(from.add(i * from_row));
            // Pairs of rows, then fours, then halves.
            let low = [0, 2, 4, 6].map(|i| _mm256_unpacklo_ps(row(i), row(i + 1)));
            let high = [0, 2, 4, 6].map(|i| _mm256_unpackhi_ps(row(i), row(i + 1)));
            let mut fours = [_mm256_setzero_ps(); LANES];
            for half in 0..2 {
                let (a, b) = (half * 2, half * 2 + 1);
                fours[half * 4] = _mm256_shuffle_ps::<0x44>(low[a], low[b]);
                fours[half * 4 + 1] = _mm256_shuffle_ps::<0xee>(low[a], low[b]);
                fours[half * 4 + 2] = _mm256_shuffle_ps::<0x44>(high[a], high[b]);
                fours[half * 4 + 3] = _mm256_shuffle_ps::<0xee>(high[a], high[b]);
            }
            for i in 0..4 {
                _mm256_storeu_ps(to.add(i * to_row), _mm256_permute2f128_ps::<0x20>(fours[i], fours[i + 4]));
                _mm256_storeu_ps(
                    to.add((i + 4) * to_row),
                    _mm256_permute2f128_ps::<0x31>(fours[i], fours[i + 4]),
                );
            }
        }
    }
}
