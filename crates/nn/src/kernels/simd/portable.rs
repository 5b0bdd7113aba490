//! Any CPU: arrays of eight numbers, in loops that compilers turn into the vectors there are.

use super::Simd;

/// No particular instruction set.
#[derive(Clone, Copy)]
pub(super) struct Portable;

const WIDTH: usize = 8;
type Vector = [f32; WIDTH];

impl Simd for Portable {
    const WIDTH: usize = WIDTH;
    const ROWS: usize = 4;
    const OPERAND_BYTES: usize = 4;
    const FUSED: bool = cfg!(target_arch = "aarch64");
    type Vector = Vector;

    #[inline(always)]
    fn splat(self, value: f32) -> Vector {
        [value; WIDTH]
    }
    #[inline(always)]
    fn add(self, a: Vector, b: Vector) -> Vector {
        std::array::from_fn(|i| a[i] + b[i])
    }
    #[inline(always)]
    fn sub(self, a: Vector, b: Vector) -> Vector {
        std::array::from_fn(|i| a[i] - b[i])
    }
    #[inline(always)]
    fn mul(self, a: Vector, b: Vector) -> Vector {
        std::array::from_fn(|i| a[i] * b[i])
    }
    #[inline(always)]
    fn div(self, a: Vector, b: Vector) -> Vector {
        std::array::from_fn(|i| a[i] / b[i])
    }
    #[inline(always)]
    fn sqrt(self, a: Vector) -> Vector {
        a.map(f32::sqrt)
    }
    #[inline(always)]
    fn mul_add(self, a: Vector, b: Vector, c: Vector) -> Vector {
        std::array::from_fn(|i| self.mul_add_one(a[i], b[i], c[i]))
    }
    #[inline(always)]
    fn neg_mul_add(self, a: Vector, b: Vector, c: Vector) -> Vector {
        std::array::from_fn(|i| self.mul_add_one(-a[i], b[i], c[i]))
    }
    #[inline(always)]
    fn relu(self, a: Vector) -> Vector {
        a.map(|x| if x < 0.0 { 0.0 } else { x })
    }
    #[inline(always)]
    fn clamp(self, a: Vector, low: f32, high: f32) -> Vector {
        a.map(|x| x.clamp(low, high))
    }
    #[inline(always)]
    fn power_of_two(self, a: Vector) -> Vector {
        a.map(|x| f32::from_bits((x.to_bits() << 23).wrapping_add(0x3f80_0000)))
    }
    #[inline(always)]
    fn where_positive(self, a: Vector, gate: Vector) -> Vector {
        std::array::from_fn(|i| if gate[i] > 0.0 { a[i] } else { 0.0 })
    }
    #[inline(always)]
    fn where_equal(self, a: Vector, place: Vector, wanted: f32) -> Vector {
        std::array::from_fn(|i| if place[i] == wanted { a[i] } else { 0.0 })
    }
    #[inline(always)]
    fn keep_larger(self, best: (Vector, Vector), value: Vector, place: f32) -> (Vector, Vector) {
        let larger: [bool; WIDTH] = std::array::from_fn(|i| value[i] > best.0[i] || value[i].is_nan());
        (
            std::array::from_fn(|i| if larger[i] { value[i] } else { best.0[i] }),
            std::array::from_fn(|i| if larger[i] { place } else { best.1[i] }),
        )
    }
    // SAFETY, for every block below: what is read and written, the callers promise; arrays of bytes have no invalid
    // values, and every access is an unaligned one.
    // SAFETY: the caller's promise, as the trait has it.
    #[inline(always)]
    unsafe fn load(self, from: *const f32) -> Vector {
        unsafe { from.cast::<Vector>().read_unaligned() }
    }
    // SAFETY: the caller's promise, as the trait has it.
    #[inline(always)]
    unsafe fn load_first(self, from: *const f32, count: usize) -> Vector {
        std::array::from_fn(|i| if i < count { unsafe { from.add(i).read_unaligned() } } else { 0.0 })
    }
    // SAFETY: the caller's promise, as the trait has it.
    #[inline(always)]
    unsafe fn store(self, to: *mut f32, vector: Vector) {
        unsafe { to.cast::<Vector>().write_unaligned(vector) }
    }
    // SAFETY: the caller's promise, as the trait has it.
    #[inline(always)]
    unsafe fn store_first(self, to: *mut f32, vector: Vector, count: usize) {
        for (i, &value) in vector.iter().enumerate().take(count) {
            unsafe { to.add(i).write_unaligned(value) }
        }
    }
    // SAFETY: the caller's promise, as the trait has it.
    #[inline(always)]
    unsafe fn store_bytes(self, to: *mut u8, vector: Vector) {
        unsafe { to.cast::<[u8; WIDTH]>().write(vector.map(|x| x as u8)) }
    }
    // SAFETY: the caller's promise, as the trait has it.
    #[inline(always)]
    unsafe fn store_operands(self, to: *mut u8, vector: Vector) {
        unsafe { to.cast::<Vector>().write_unaligned(vector) }
    }
    // SAFETY: the caller's promise, as the trait has it.
    #[inline(always)]
    unsafe fn load_bytes(self, from: *const u8) -> Vector {
        unsafe { from.cast::<[u8; WIDTH]>().read() }.map(f32::from)
    }
    // SAFETY: the caller's promise, as the trait has it.
    #[inline(always)]
    unsafe fn store_words(self, to: *mut u32, rows: [Vector; 2]) {
        unsafe { to.cast::<Vector>().write_unaligned(rows[0]) }
    }
    // SAFETY: the caller's promise, as the trait has it.
    #[inline(always)]
    unsafe fn load_words(self, from: *const u32) -> Vector {
        unsafe { from.cast::<Vector>().read_unaligned() }
    }
    // SAFETY: the caller's promise, as the trait has it.
    #[inline(always)]
    unsafe fn splat_word(self, from: *const u32) -> Vector {
        [unsafe { from.cast::<f32>().read_unaligned() }; WIDTH]
    }
    // SAFETY: the caller's promise, as the trait has it.
    #[inline(always)]
    unsafe fn transpose_8x8(self, from: *const f32, from_stride: usize, to: *mut f32, to_stride: usize) {
        for (row, column) in (0..8).flat_map(|row| (0..8).map(move |column| (row, column))) {
            unsafe { *to.add(column * to_stride + row) = *from.add(row * from_stride + column) };
        }
    }
    #[inline(always)]
    fn dot(self, sum: Vector, a: Vector, b: Vector) -> Vector {
        self.mul_add(a, b, sum)
    }
}
