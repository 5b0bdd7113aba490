//! Sixteen floats in an AVX-512 register.

use std::arch::x86_64::*;

use super::Simd;

/// AVX-512 with its byte, double-word and vector-length parts.
pub(in crate::dense) struct Avx512;

const LANES: usize = 16;

#[inline(always)]
fn first(count: usize) -> __mmask16 {
    ((1u32 << count) - 1) as __mmask16
}

// SAFETY (of every block here): the trait asks callers for the instructions and the memory.
impl Simd for Avx512 {
    type V = __m512;
    const LANES: usize = LANES;
    const TILE_ROWS: usize = 13;
    const FUSED: bool = true;

    #[inline(always)]
    unsafe fn zero() -> Self::V {
        unsafe { _mm512_setzero_ps() }
    }

    #[inline(always)]
    unsafe fn splat(x: f32) -> Self::V {
        unsafe { _mm512_set1_ps(x) }
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self::V {
        unsafe { _mm512_loadu_ps(from) }
    }

    #[inline(always)]
    unsafe fn store(to: *mut f32, v: Self::V) {
        unsafe { _mm512_storeu_ps(to, v) }
    }

    #[inline(always)]
    unsafe fn load_first(from: *const f32, count: usize) -> Self::V {
        unsafe { _mm512_maskz_loadu_ps(first(count), from) }
    }

    #[inline(always)]
    unsafe fn store_first(to: *mut f32, v: Self::V, count: usize) {
        unsafe { _mm512_mask_storeu_ps(to, first(count), v) }
    }

    #[inline(always)]
    unsafe fn add(a: Self::V, b: Self::V) -> Self::V {
        unsafe { _mm512_add_ps(a, b) }
    }

    #[inline(always)]
    unsafe fn mul_add(a: Self::V, b: Self::V, c: Self::V) -> Self::V {
        unsafe { _mm512_fmadd_ps(a, b, c) }
    }

    #[inline(always)]
    unsafe fn sum(v: Self::V) -> f32 {
        unsafe { _mm512_reduce_add_ps(v) }
    }

    #[inline(always)]
    unsafe fn transpose(from: *const f32, from_row: usize, to: *mut f32, to_row: usize) {
        unsafe {
            // Squares of four within 128-bit parts first, then the parts change places.
            let mut fours = [_mm512_setzero_ps(); LANES];
            for group in 0..4 {
                let row = |i: usize| _mm512_loadu_ps(from.add((group * 4 + i) * from_row));
                let (low_a, high_a) =
                    (_mm512_unpacklo_ps(row(0), row(1)), _mm512_unpackhi_ps(row(0), row(1)));
                let (low_b, high_b) =
                    (_mm512_unpacklo_ps(row(2), row(3)), _mm512_unpackhi_ps(row(2), row(3)));
                fours[group * 4] = _mm512_shuffle_ps::<0x44>(low_a, low_b);
                fours[group * 4 + 1] = _mm512_shuffle_ps::<0xee>(low_a, low_b);
                fours[group * 4 + 2] = _mm512_shuffle_ps::<0x44>(high_a, high_b);
                fours[group * 4 + 3] = _mm512_shuffle_ps::<0xee>(high_a, high_b);
            }
            for i in 0..4 {
                let [a, b, c, d] = [fours[i], fours[4 + i], fours[8 + i], fours[12 + i]];
                let (even_ab, odd_ab) =
                    (_mm512_shuffle_f32x4::<0x88>(a, b), _mm512_shuffle_f32x4::<0xdd>(a, b));
                let (even_cd, odd_cd) =
                    (_mm512_shuffle_f32x4::<0x88>(c, d), _mm512_shuffle_f32x4::<0xdd>(c, d));
                _mm512_storeu_ps(to.add(i * to_row), _mm512_shuffle_f32x4::<0x88>(even_ab, even_cd));
                _mm512_storeu_ps(to.add((4 + i) * to_row), _mm512_shuffle_f32x4::<0x88>(odd_ab, odd_cd));
                _mm512_storeu_ps(to.add((8 + i) * to_row), _mm512_shuffle_f32x4::<0xdd>(even_ab, even_cd));
                _mm512_storeu_ps(to.add((12 + i) * to_row), _mm512_shuffle_f32x4::<0xdd>(odd_ab, odd_cd));
            }
        }
    }
}
