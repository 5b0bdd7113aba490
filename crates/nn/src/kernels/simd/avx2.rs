//! AVX2 with FMA: eight numbers at a time.

use super::{Kernel, Simd};
use std::arch::x86_64::*;

/// Runs a kernel compiled for AVX2.
///
/// # Safety
/// The CPU has these features.
#[target_feature(enable = "avx2,fma")]
pub(super) unsafe fn run<K: Kernel>(kernel: K) -> K::Output {
    kernel.run(Avx2(()))
}

/// AVX2 and FMA; made by [`run`] alone.
#[derive(Clone, Copy)]
pub(super) struct Avx2(());

/// All ones in the first `count` lanes.
///
/// # Safety
/// The CPU has AVX2.
#[inline(always)]
unsafe fn first(count: usize) -> __m256i {
    const ONES_THEN_ZEROS: [i32; 16] = [-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0];
    debug_assert!(count <= 8);
    // SAFETY: eight numbers from place 8 - count on are inside the sixteen.
    unsafe { _mm256_loadu_si256(ONES_THEN_ZEROS.as_ptr().add(8 - count).cast()) }
}

/// [`Simd::transpose_8x8`] for every instruction set that contains this one.
///
/// # Safety
/// The CPU has AVX2; the numbers can be read and written.
#[inline(always)]
pub(super) unsafe fn transpose_8x8(from: *const f32, from_stride: usize, to: *mut f32, to_stride: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        let row = |i: usize| _mm256_loadu_ps(from.add(i * from_stride));
        let (a, b, c, d) = (row(0), row(1), row(2), row(3));
        let (e, f, g, h) = (row(4), row(5), row(6), row(7));
        // Pairs, then fours, then halves change places.
        let (ab_low, ab_high) = (_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
        let (cd_low, cd_high) = (_mm256_unpacklo_ps(c, d), _mm256_unpackhi_ps(c, d));
        let (ef_low, ef_high) = (_mm256_unpacklo_ps(e, f), _mm256_unpackhi_ps(e, f));
        let (gh_low, gh_high) = (_mm256_unpacklo_ps(g, h), _mm256_unpackhi_ps(g, h));
        let upper = [
            _mm256_shuffle_ps::<0x44>(ab_low, cd_low),
            _mm256_shuffle_ps::<0xee>(ab_low, cd_low),
            _mm256_shuffle_ps::<0x44>(ab_high, cd_high),
            _mm256_shuffle_ps::<0xee>(ab_high, cd_high),
        ];
        let lower = [
            _mm256_shuffle_ps::<0x44>(ef_low, gh_low),
            _mm256_shuffle_ps::<0xee>(ef_low, gh_low),
            _mm256_shuffle_ps::<0x44>(ef_high, gh_high),
            _mm256_shuffle_ps::<0xee>(ef_high, gh_high),
        ];
        for i in 0..4 {
            _mm256_storeu_ps(to.add(i * to_stride), _mm256_permute2f128_ps::<0x20>(upper[i], lower[i]));
            _mm256_storeu_ps(to.add((i + 4) * to_stride), _mm256_permute2f128_ps::<0x31>(upper[i], lower[i]));
        }
    }
}

impl Simd for Avx2 {
    const WIDTH: usize = 8;
    const FUSED: bool = true;
    const ROWS: usize = 6;
    const OPERAND_BYTES: usize = 4;
    type Vector = __m256;

    // SAFETY, for every block below: a value of this type exists only inside `run`, whose caller promises the
    // features. What is read and written, the callers of the unsafe methods promise.
    #[inline(always)]
    fn splat(self, value: f32) -> __m256 {
        // SAFETY: in `run` only, where the CPU has the instructions.
        unsafe { _mm256_set1_ps(value) }
    }
    #[inline(always)]
    fn add(self, a: __m256, b: __m256) -> __m256 {
        // SAFETY: in `run` only, where the CPU has the instructions.
        unsafe { _mm256_add_ps(a, b) }
    }
    #[inline(always)]
    fn sub(self, a: __m256, b: __m256) -> __m256 {
        // SAFETY: in `run` only, where the CPU has the instructions.
        unsafe { _mm256_sub_ps(a, b) }
    }
    #[inline(always)]
    fn mul(self, a: __m256, b: __m256) -> __m256 {
        // SAFETY: in `run` only, where the CPU has the instructions.
        unsafe { _mm256_mul_ps(a, b) }
    }
    #[inline(always)]
    fn div(self, a: __m256, b: __m256) -> __m256 {
        // SAFETY: in `run` only, where the CPU has the instructions.
        unsafe { _mm256_div_ps(a, b) }
    }
    #[inline(always)]
    fn sqrt(self, a: __m256) -> __m256 {
        // SAFETY: in `run` only, where the CPU has the instructions.
        unsafe { _mm256_sqrt_ps(a) }
    }
    #[inline(always)]
    fn mul_add(self, a: __m256, b: __m256, c: __m256) -> __m256 {
        // SAFETY: in `run` only, where the CPU has the instructions.
        unsafe { _mm256_fmadd_ps(a, b, c) }
    }
    #[inline(always)]
    fn neg_mul_add(self, a: __m256, b: __m256, c: __m256) -> __m256 {
        // SAFETY: in `run` only, where the CPU has the instructions.
        unsafe { _mm256_fnmadd_ps(a, b, c) }
    }
    #[inline(always)]
    fn relu(self, a: __m256) -> __m256 {
        // The second operand is what comes out when one is not a number.
        // SAFETY: in `run` only, where the CPU has the instructions.
        unsafe { _mm256_max_ps(_mm256_setzero_ps(), a) }
    }
    #[inline(always)]
    fn clamp(self, a: __m256, low: f32, high: f32) -> __m256 {
        // The second operand is what comes out when one is not a number.
        // SAFETY: in `run` only, where the CPU has the instructions.
        unsafe { _mm256_max_ps(_mm256_set1_ps(low), _mm256_min_ps(_mm256_set1_ps(high), a)) }
    }
    #[inline(always)]
    fn power_of_two(self, a: __m256) -> __m256 {
        // SAFETY: in `run` only, where the CPU has the instructions.
        unsafe {
            let exponent = _mm256_slli_epi32::<23>(_mm256_castps_si256(a));
            _mm256_castsi256_ps(_mm256_add_epi32(exponent, _mm256_set1_epi32(0x3f80_0000)))
        }
    }
    #[inline(always)]
    fn where_positive(self, a: __m256, gate: __m256) -> __m256 {
        // SAFETY: in `run` only, where the CPU has the instructions.
        unsafe { _mm256_and_ps(_mm256_cmp_ps::<_CMP_GT_OQ>(gate, _mm256_setzero_ps()), a) }
    }
    #[inline(always)]
    fn where_equal(self, a: __m256, place: __m256, wanted: f32) -> __m256 {
        // SAFETY: in `run` only, where the CPU has the instructions.
        unsafe { _mm256_and_ps(_mm256_cmp_ps::<_CMP_EQ_OQ>(place, _mm256_set1_ps(wanted)), a) }
    }
    #[inline(always)]
    fn keep_larger(self, best: (__m256, __m256), value: __m256, place: f32) -> (__m256, __m256) {
        // SAFETY: in `run` only, where the CPU has the instructions.
        unsafe {
            let larger = _mm256_or_ps(
                _mm256_cmp_ps::<_CMP_GT_OQ>(value, best.0),
                _mm256_cmp_ps::<_CMP_UNORD_Q>(value, value),
            );
            (_mm256_blendv_ps(best.0, value, larger), _mm256_blendv_ps(best.1, _mm256_set1_ps(place), larger))
        }
    }
    #[inline(always)]
    fn prefetch(self, place: *const f32) {
        // SAFETY: every CPU has the instruction, and it reads nothing.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(place.cast()) }
    }
    // SAFETY: the caller's promise, as the trait has it.
    #[inline(always)]
    unsafe fn load(self, from: *const f32) -> __m256 {
        unsafe { _mm256_loadu_ps(from) }
    }
    // SAFETY: the caller's promise, as the trait has it.
    #[inline(always)]
    unsafe fn load_first(self, from: *const f32, count: usize) -> __m256 {
        unsafe { _mm256_maskload_ps(from, first(count)) }
    }
    // SAFETY: the caller's promise, as the trait has it.
    #[inline(always)]
    unsafe fn store(self, to: *mut f32, vector: __m256) {
        unsafe { _mm256_storeu_ps(to, vector) }
    }
    // SAFETY: the caller's promise, as the trait has it.
    #[inline(always)]
    unsafe fn store_first(self, to: *mut f32, vector: __m256, count: usize) {
        unsafe { _mm256_maskstore_ps(to, first(count), vector) }
    }
    // SAFETY: the caller's promise, as the trait has it.
    #[inline(always)]
    unsafe fn store_bytes(self, to: *mut u8, vector: __m256) {
        unsafe {
            let whole = _mm256_cvttps_epi32(vector);
            let halves = _mm_packs_epi32(_mm256_castsi256_si128(whole), _mm256_extracti128_si256::<1>(whole));
            _mm_storel_epi64(to.cast(), _mm_packus_epi16(halves, halves));
        }
    }
    // SAFETY: the caller's promise, as the trait has it.
    #[inline(always)]
    unsafe fn store_operands(self, to: *mut u8, vector: __m256) {
        unsafe { _mm256_storeu_ps(to.cast(), vector) }
    }
    // SAFETY: the caller's promise, as the trait has it.
    #[inline(always)]
    unsafe fn load_bytes(self, from: *const u8) -> __m256 {
        unsafe { _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64(from.cast()))) }
    }
    // SAFETY: the caller's promise, as the trait has it.
    #[inline(always)]
    unsafe fn store_words(self, to: *mut u32, rows: [__m256; 2]) {
        unsafe { _mm256_storeu_ps(to.cast(), rows[0]) }
    }
    // SAFETY: the caller's promise, as the trait has it.
    #[inline(always)]
    unsafe fn load_words(self, from: *const u32) -> __m256 {
        unsafe { _mm256_loadu_ps(from.cast()) }
    }
    // SAFETY: the caller's promise, as the trait has it.
    #[inline(always)]
    unsafe fn splat_word(self, from: *const u32) -> __m256 {
        unsafe { _mm256_set1_ps(from.cast::<f32>().read_unaligned()) }
    }
    // SAFETY: the caller's promise, as the trait has it.
    #[inline(always)]
    unsafe fn transpose_8x8(self, from: *const f32, from_stride: usize, to: *mut f32, to_stride: usize) {
        unsafe { transpose_8x8(from, from_stride, to, to_stride) }
    }
    #[inline(always)]
    fn dot(self, sum: __m256, a: __m256, b: __m256) -> __m256 {
        self.mul_add(a, b, sum)
    }
}
