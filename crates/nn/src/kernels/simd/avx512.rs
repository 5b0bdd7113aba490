//! AVX-512: sixteen numbers at a time; with BF16 and VNNI, pairs of bfloat16 or of integers in a multiplication.

use super::{Kernel, Simd, avx2};
use std::arch::x86_64::*;

/// Runs a kernel compiled for AVX-512.
///
/// # Safety
/// The CPU has these features.
#[target_feature(enable = "avx2,fma,avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) unsafe fn run<K: Kernel>(kernel: K) -> K::Output {
    kernel.run(Avx512(()))
}

/// Runs a kernel compiled for AVX-512 whose products are of bfloat16.
///
/// # Safety
/// The CPU has these features.
#[target_feature(enable = "avx2,fma,avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]
pub(super) unsafe fn run_bf16<K: Kernel>(kernel: K) -> K::Output {
    kernel.run(Avx512Bf16(()))
}

/// Runs a kernel compiled for AVX-512 whose products are of 16-bit integers.
///
/// # Safety
/// The CPU has these features.
#[target_feature(enable = "avx2,fma,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub(super) unsafe fn run_int16<K: Kernel>(kernel: K) -> K::Output {
    kernel.run(Avx512Int16(()))
}

/// AVX-512 in single precision; made by [`run`] alone.
#[derive(Clone, Copy)]
pub(super) struct Avx512(());

/// AVX-512 with products of bfloat16; made by [`run_bf16`] alone.
#[derive(Clone, Copy)]
pub(super) struct Avx512Bf16(());

/// AVX-512 with products of 16-bit integers; made by [`run_int16`] alone.
#[derive(Clone, Copy)]
pub(super) struct Avx512Int16(());

/// The lowest `count` bits.
#[inline(always)]
fn first(count: usize) -> __mmask16 {
    ((1u32 << count) - 1) as __mmask16
}

/// Everything but the products, which is the same for all.
macro_rules! vectors {
    () => {
        const WIDTH: usize = 16;
        const FUSED: bool = true;
        const ROWS: usize = 12;
        type Vector = __m512;

        // SAFETY, for every block below: a value of this type exists only inside `run` and the like, whose callers
        // promise the features. What is read and written, the callers of the unsafe methods promise.
        #[inline(always)]
        fn splat(self, value: f32) -> __m512 {
            // SAFETY: in `run` only, where the CPU has the instructions.
            unsafe { _mm512_set1_ps(value) }
        }
        #[inline(always)]
        fn add(self, a: __m512, b: __m512) -> __m512 {
            // SAFETY: in `run` only, where the CPU has the instructions.
            unsafe { _mm512_add_ps(a, b) }
        }
        #[inline(always)]
        fn sub(self, a: __m512, b: __m512) -> __m512 {
            // SAFETY: in `run` only, where the CPU has the instructions.
            unsafe { _mm512_sub_ps(a, b) }
        }
        #[inline(always)]
        fn mul(self, a: __m512, b: __m512) -> __m512 {
            // SAFETY: in `run` only, where the CPU has the instructions.
            unsafe { _mm512_mul_ps(a, b) }
        }
        #[inline(always)]
        fn div(self, a: __m512, b: __m512) -> __m512 {
            // SAFETY: in `run` only, where the CPU has the instructions.
            unsafe { _mm512_div_ps(a, b) }
        }
        #[inline(always)]
        fn sqrt(self, a: __m512) -> __m512 {
            // SAFETY: in `run` only, where the CPU has the instructions.
            unsafe { _mm512_sqrt_ps(a) }
        }
        #[inline(always)]
        fn mul_add(self, a: __m512, b: __m512, c: __m512) -> __m512 {
            // SAFETY: in `run` only, where the CPU has the instructions.
            unsafe { _mm512_fmadd_ps(a, b, c) }
        }
        #[inline(always)]
        fn neg_mul_add(self, a: __m512, b: __m512, c: __m512) -> __m512 {
            // SAFETY: in `run` only, where the CPU has the instructions.
            unsafe { _mm512_fnmadd_ps(a, b, c) }
        }
        #[inline(always)]
        fn relu(self, a: __m512) -> __m512 {
            // The second operand is what comes out when one is not a number.
            // SAFETY: in `run` only, where the CPU has the instructions.
            unsafe { _mm512_max_ps(_mm512_setzero_ps(), a) }
        }
        #[inline(always)]
        fn clamp(self, a: __m512, low: f32, high: f32) -> __m512 {
            // The second operand is what comes out when one is not a number.
            // SAFETY: in `run` only, where the CPU has the instructions.
            unsafe { _mm512_max_ps(_mm512_set1_ps(low), _mm512_min_ps(_mm512_set1_ps(high), a)) }
        }
        #[inline(always)]
        fn power_of_two(self, a: __m512) -> __m512 {
            // SAFETY: in `run` only, where the CPU has the instructions.
            unsafe {
                let exponent = _mm512_slli_epi32::<23>(_mm512_castps_si512(a));
                _mm512_castsi512_ps(_mm512_add_epi32(exponent, _mm512_set1_epi32(0x3f80_0000)))
            }
        }
        #[inline(always)]
        fn where_positive(self, a: __m512, gate: __m512) -> __m512 {
            // SAFETY: in `run` only, where the CPU has the instructions.
            unsafe { _mm512_maskz_mov_ps(_mm512_cmp_ps_mask::<_CMP_GT_OQ>(gate, _mm512_setzero_ps()), a) }
        }
        #[inline(always)]
        fn where_equal(self, a: __m512, place: __m512, wanted: f32) -> __m512 {
            // SAFETY: in `run` only, where the CPU has the instructions.
            unsafe { _mm512_maskz_mov_ps(_mm512_cmp_ps_mask::<_CMP_EQ_OQ>(place, _mm512_set1_ps(wanted)), a) }
        }
        #[inline(always)]
        fn keep_larger(self, best: (__m512, __m512), value: __m512, place: f32) -> (__m512, __m512) {
            // SAFETY: in `run` only, where the CPU has the instructions.
            unsafe {
                let larger = _mm512_cmp_ps_mask::<_CMP_GT_OQ>(value, best.0)
                    | _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(value, value);
                (
                    _mm512_mask_mov_ps(best.0, larger, value),
                    _mm512_mask_mov_ps(best.1, larger, _mm512_set1_ps(place)),
                )
            }
        }
        #[inline(always)]
        fn larger_magnitude(self, a: __m512, b: __m512) -> __m512 {
            // Without its sign, a number is ordered as the integer of the same bits.
            // SAFETY: in `run` only, where the CPU has the instructions.
            unsafe {
                let no_sign = _mm512_set1_epi32(0x7fff_ffff);
                let a = _mm512_and_si512(_mm512_castps_si512(a), no_sign);
                let b = _mm512_and_si512(_mm512_castps_si512(b), no_sign);
                _mm512_castsi512_ps(_mm512_max_epi32(a, b))
            }
        }
        #[inline(always)]
        fn sums_of_four(self, [a, b, c, d]: [__m512; 4]) -> [f32; 4] {
            let mut sums = [0.0; 4];
            // SAFETY: in `run` only, where the CPU has the instructions; the array holds what is written.
            unsafe {
                // Halves of each quarter are added, then the quarters, which hold one number of each vector by then.
                let ab = _mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
                let cd = _mm512_add_ps(_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d));
                let all = _mm512_add_ps(_mm512_shuffle_ps::<0x44>(ab, cd), _mm512_shuffle_ps::<0xee>(ab, cd));
                let half = _mm256_add_ps(_mm512_castps512_ps256(all), _mm512_extractf32x8_ps::<1>(all));
                let quarter = _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps::<1>(half));
                _mm_storeu_ps(sums.as_mut_ptr(), quarter);
            }
            sums
        }
        #[inline(always)]
        fn largest_magnitude(self, vector: __m512) -> f32 {
            let vector = self.larger_magnitude(vector, vector);
            // SAFETY: in `run` only, where the CPU has the instructions.
            f32::from_bits(unsafe { _mm512_reduce_max_epu32(_mm512_castps_si512(vector)) })
        }
        #[inline(always)]
        fn prefetch(self, place: *const f32) {
            // SAFETY: every CPU has the instruction, and it reads nothing.
            unsafe { _mm_prefetch::<_MM_HINT_T1>(place.cast()) }
        }
        // SAFETY: the caller's promise, as the trait has it.
        #[inline(always)]
        unsafe fn load(self, from: *const f32) -> __m512 {
            unsafe { _mm512_loadu_ps(from) }
        }
        // SAFETY: the caller's promise, as the trait has it.
        #[inline(always)]
        unsafe fn load_first(self, from: *const f32, count: usize) -> __m512 {
            unsafe { _mm512_maskz_loadu_ps(first(count), from) }
        }
        // SAFETY: the caller's promise, as the trait has it.
        #[inline(always)]
        unsafe fn store(self, to: *mut f32, vector: __m512) {
            unsafe { _mm512_storeu_ps(to, vector) }
        }
        // SAFETY: the caller's promise, as the trait has it.
        #[inline(always)]
        unsafe fn store_first(self, to: *mut f32, vector: __m512, count: usize) {
            unsafe { _mm512_mask_storeu_ps(to, first(count), vector) }
        }
        // SAFETY: the caller's promise, as the trait has it.
        #[inline(always)]
        unsafe fn store_bytes(self, to: *mut u8, vector: __m512) {
            unsafe { _mm_storeu_si128(to.cast(), _mm512_cvtepi32_epi8(_mm512_cvttps_epi32(vector))) }
        }
        // SAFETY: the caller's promise, as the trait has it.
        #[inline(always)]
        unsafe fn load_bytes(self, from: *const u8) -> __m512 {
            unsafe { _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128(from.cast()))) }
        }
        // SAFETY: the caller's promise, as the trait has it.
        #[inline(always)]
        unsafe fn load_words(self, from: *const u32) -> __m512 {
            unsafe { _mm512_loadu_ps(from.cast()) }
        }
        // SAFETY: the caller's promise, as the trait has it.
        #[inline(always)]
        unsafe fn transpose_8x8(self, from: *const f32, from_stride: usize, to: *mut f32, to_stride: usize) {
            unsafe { avx2::transpose_8x8(from, from_stride, to, to_stride) }
        }
        // SAFETY: the caller's promise, as the trait has it.
        #[inline(always)]
        unsafe fn splat_word(self, from: *const u32) -> __m512 {
            unsafe { _mm512_castsi512_ps(_mm512_set1_epi32(from.cast::<i32>().read_unaligned())) }
        }
    };
}

impl Simd for Avx512 {
    const OPERAND_BYTES: usize = 4;
    vectors!();

    // SAFETY: the caller's promise, as the trait has it.
    #[inline(always)]
    unsafe fn store_operands(self, to: *mut u8, vector: __m512) {
        unsafe { _mm512_storeu_ps(to.cast(), vector) }
    }
    // SAFETY: the caller's promise, as the trait has it.
    #[inline(always)]
    unsafe fn store_words(self, to: *mut u32, rows: [__m512; 2]) {
        unsafe { _mm512_storeu_ps(to.cast(), rows[0]) }
    }
    #[inline(always)]
    fn dot(self, sum: __m512, a: __m512, b: __m512) -> __m512 {
        self.mul_add(a, b, sum)
    }
}

impl Simd for Avx512Bf16 {
    const OPERAND_BYTES: usize = 2;
    vectors!();

    // SAFETY, for every block below: as above.
    // SAFETY: the caller's promise, as the trait has it.
    #[inline(always)]
    unsafe fn store_operands(self, to: *mut u8, vector: __m512) {
        unsafe {
            _mm256_storeu_si256(
                to.cast(),
                std::mem::transmute::<__m256bh, __m256i>(_mm512_cvtneps_pbh(vector)),
            )
        }
    }
    // SAFETY: the caller's promise, as the trait has it.
    #[inline(always)]
    unsafe fn store_words(self, to: *mut u32, rows: [__m512; 2]) {
        unsafe {
            let rounded = |row: __m512| {
                _mm512_cvtepu16_epi32(std::mem::transmute::<__m256bh, __m256i>(_mm512_cvtneps_pbh(row)))
            };
            let pairs = _mm512_or_si512(rounded(rows[0]), _mm512_slli_epi32::<16>(rounded(rows[1])));
            _mm512_storeu_si512(to.cast(), pairs);
        }
    }
    #[inline(always)]
    fn dot(self, sum: __m512, a: __m512, b: __m512) -> __m512 {
        // SAFETY: in `run` only, where the CPU has the instructions.
        unsafe {
            let pairs = |v: __m512| std::mem::transmute::<__m512, __m512bh>(v);
            _mm512_dpbf16_ps(sum, pairs(a), pairs(b))
        }
    }
}

impl Simd for Avx512Int16 {
    const OPERAND_BYTES: usize = 2;
    vectors!();

    // SAFETY, for every block below: as above.
    // SAFETY: the caller's promise, as the trait has it.
    #[inline(always)]
    unsafe fn store_operands(self, to: *mut u8, vector: __m512) {
        unsafe { _mm256_storeu_si256(to.cast(), _mm512_cvtsepi32_epi16(_mm512_cvtps_epi32(vector))) }
    }
    // SAFETY: the caller's promise, as the trait has it.
    #[inline(always)]
    unsafe fn store_words(self, to: *mut u32, rows: [__m512; 2]) {
        const HIGH_HALVES: __mmask32 = 0xaaaa_aaaa;
        unsafe {
            let (low, high) = (_mm512_cvtps_epi32(rows[0]), _mm512_cvtps_epi32(rows[1]));
            let pairs = _mm512_mask_blend_epi16(HIGH_HALVES, low, _mm512_slli_epi32::<16>(high));
            _mm512_storeu_si512(to.cast(), pairs);
        }
    }
    #[inline(always)]
    fn dot(self, sum: __m512, a: __m512, b: __m512) -> __m512 {
        // SAFETY: in `run` only, where the CPU has the instructions.
        unsafe {
            let whole = |v: __m512| _mm512_castps_si512(v);
            _mm512_castsi512_ps(_mm512_dpwssd_epi32(whole(sum), whole(a), whole(b)))
        }
    }
    #[inline(always)]
    fn number_of(self, sum: __m512, unit: __m512) -> __m512 {
        // SAFETY: in `run` only, where the CPU has the instructions.
        unsafe { _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_castps_si512(sum)), unit) }
    }
}
