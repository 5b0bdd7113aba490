//! SIMD vectors, with one interface for every instruction set.
//!
//! A kernel is written once, over a [`Simd`], and [`Isa::run`] compiles and runs it once per instruction set. That a
//! value of a `Simd` type exists proves that the CPU has its instructions, so arithmetic is safe; only
//! access to memory is not.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod compiled;
mod portable;

use super::Precision;
pub(crate) use compiled::for_each_isa;
use portable::Portable;
use std::sync::OnceLock;

/// One instruction set. The methods that touch memory accept any alignment.
pub(crate) trait Simd: Copy {
    /// Numbers in a vector.
    const WIDTH: usize;
    /// Rows of a register tile, which is two vectors wide: what fits into the registers beside the operands.
    const ROWS: usize;
    /// Bytes of a number that goes into [`Simd::dot`].
    const OPERAND_BYTES: usize;
    /// Operands in a word, which is what [`Simd::dot`] takes per lane.
    const OPERANDS_PER_WORD: usize = 4 / Self::OPERAND_BYTES;
    /// Whether `f32::mul_add` is an instruction; elsewhere it is a slow function.
    const FUSED: bool;

    /// `WIDTH` numbers.
    type Vector: Copy;

    fn splat(self, value: f32) -> Self::Vector;
    fn add(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    fn sub(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    fn mul(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    fn div(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    fn sqrt(self, a: Self::Vector) -> Self::Vector;
    /// `a * b + c`
    fn mul_add(self, a: Self::Vector, b: Self::Vector, c: Self::Vector) -> Self::Vector;
    /// `c - a * b`
    fn neg_mul_add(self, a: Self::Vector, b: Self::Vector, c: Self::Vector) -> Self::Vector;
    /// `a` where it is above zero or not a number, else zero.
    fn relu(self, a: Self::Vector) -> Self::Vector;
    /// `a` within bounds; what is not a number stays.
    fn clamp(self, a: Self::Vector, low: f32, high: f32) -> Self::Vector;
    /// Two to the power of the integer, from -126 to 127, in the lowest bits of each float.
    fn power_of_two(self, a: Self::Vector) -> Self::Vector;
    /// `a` where `gate` is above zero, else zero.
    fn where_positive(self, a: Self::Vector, gate: Self::Vector) -> Self::Vector;
    /// `a` where `place` is `wanted`, else zero.
    fn where_equal(self, a: Self::Vector, place: Self::Vector, wanted: f32) -> Self::Vector;
    /// `(value, place)` if `value` is larger than `best` or not a number, else `(best, best_place)`.
    fn keep_larger(
        self,
        best: (Self::Vector, Self::Vector),
        value: Self::Vector,
        place: f32,
    ) -> (Self::Vector, Self::Vector);

    /// Reads `WIDTH` numbers.
    ///
    /// # Safety
    /// They can be read.
    unsafe fn load(self, from: *const f32) -> Self::Vector;
    /// Reads the first `count` numbers (at most `WIDTH`); the rest is zero.
    ///
    /// # Safety
    /// They can be read.
    unsafe fn load_first(self, from: *const f32, count: usize) -> Self::Vector;
    /// Writes `WIDTH` numbers.
    ///
    /// # Safety
    /// They can be written.
    unsafe fn store(self, to: *mut f32, vector: Self::Vector);
    /// Writes the first `count` numbers (at most `WIDTH`).
    ///
    /// # Safety
    /// They can be written.
    unsafe fn store_first(self, to: *mut f32, vector: Self::Vector, count: usize);
    /// Writes `WIDTH` numbers, which are whole and below 256, as bytes.
    ///
    /// # Safety
    /// `WIDTH` bytes can be written.
    unsafe fn store_bytes(self, to: *mut u8, vector: Self::Vector);
    /// Reads `WIDTH` bytes as numbers.
    ///
    /// # Safety
    /// They can be read.
    unsafe fn load_bytes(self, from: *const u8) -> Self::Vector;
    /// Writes `WIDTH` numbers as operands of [`Simd::dot`].
    ///
    /// # Safety
    /// `WIDTH * OPERAND_BYTES` bytes can be written.
    unsafe fn store_operands(self, to: *mut u8, vector: Self::Vector);
    /// Writes `WIDTH` words of operands: those of `rows[0]`, or if a word holds two, pairs of one from each row.
    ///
    /// # Safety
    /// `WIDTH` words can be written.
    unsafe fn store_words(self, to: *mut u32, rows: [Self::Vector; 2]);
    /// Reads `WIDTH` words of operands.
    ///
    /// # Safety
    /// They can be read.
    unsafe fn load_words(self, from: *const u32) -> Self::Vector;
    /// Reads one word of operands into every lane.
    ///
    /// # Safety
    /// It can be read.
    unsafe fn splat_word(self, from: *const u32) -> Self::Vector;
    /// Asks for a line of the cache that will be read soon. The place need not exist.
    #[inline(always)]
    fn prefetch(self, _place: *const f32) {}
    /// Writes 8 rows of 8 numbers as columns. Strides are in numbers.
    ///
    /// # Safety
    /// They can be read and written.
    unsafe fn transpose_8x8(self, from: *const f32, from_stride: usize, to: *mut f32, to_stride: usize);
    /// `a * b + c` of single numbers, rounded as [`Simd::mul_add`] rounds: for loops that the compiler makes vectors of.
    #[inline(always)]
    fn mul_add_one(self, a: f32, b: f32, c: f32) -> f32 {
        if Self::FUSED { a.mul_add(b, c) } else { a * b + c }
    }
    /// Adds to each lane of `sum` the product of its operands in `a` and `b`, or of both pairs of them. The first
    /// `sum` is zero; [`Simd::number_of`] makes numbers of the last.
    fn dot(self, sum: Self::Vector, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// What [`Simd::dot`] summed up; of integers, `unit` times as much.
    #[inline(always)]
    fn number_of(self, sum: Self::Vector, _unit: Self::Vector) -> Self::Vector {
        sum
    }
    /// The larger of both magnitudes. What is not a number is larger than any.
    #[inline(always)]
    fn larger_magnitude(self, a: Self::Vector, b: Self::Vector) -> Self::Vector {
        let [mut left, mut right] = [[0.0f32; 16]; 2];
        const { assert!(Self::WIDTH <= 16) };
        // SAFETY: the arrays hold a vector.
        unsafe {
            self.store(left.as_mut_ptr(), a);
            self.store(right.as_mut_ptr(), b);
            for (left, right) in left.iter_mut().zip(right) {
                *left = f32::from_bits(left.abs().to_bits().max(right.abs().to_bits()));
            }
            self.load(left.as_ptr())
        }
    }
    /// The sum of each vector's numbers.
    #[inline(always)]
    fn sums_of_four(self, vectors: [Self::Vector; 4]) -> [f32; 4] {
        const { assert!(Self::WIDTH <= 16) };
        vectors.map(|vector| {
            let mut lanes = [0.0f32; 16];
            // SAFETY: the array holds a vector.
            unsafe { self.store(lanes.as_mut_ptr(), vector) };
            let mut half = Self::WIDTH / 2;
            while half > 0 {
                for i in 0..half {
                    lanes[i] += lanes[i + half];
                }
                half /= 2;
            }
            lanes[0]
        })
    }
    /// The largest magnitude in a vector.
    #[inline(always)]
    fn largest_magnitude(self, vector: Self::Vector) -> f32 {
        let mut lanes = [0.0f32; 16];
        const { assert!(Self::WIDTH <= 16) };
        // SAFETY: the array holds a vector.
        unsafe { self.store(lanes.as_mut_ptr(), vector) };
        f32::from_bits(lanes.into_iter().fold(0, |most, x| most.max(x.abs().to_bits())))
    }
}

/// Work that is compiled once per instruction set. `run` and all it calls must be `#[inline(always)]`: a function of
/// its own would not be compiled for the instruction set of its caller.
pub(crate) trait Kernel {
    /// What it gives back.
    type Output;
    /// Does the work.
    fn run<L: Simd>(self, simd: L) -> Self::Output;
}

/// An instruction set that this CPU has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Isa(Level);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Level {
    #[cfg(target_arch = "x86_64")]
    Avx512Bf16,
    #[cfg(target_arch = "x86_64")]
    Avx512Int16,
    #[cfg(target_arch = "x86_64")]
    Avx512,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    Portable,
}

impl Isa {
    /// The quickest instruction set here for multiplications in `precision`, looked up once.
    #[must_use]
    pub fn best(precision: Precision) -> Self {
        static BEST: OnceLock<[Isa; 2]> = OnceLock::new();
        let [single, half] = *BEST.get_or_init(|| {
            let all = Self::all();
            let single = all.iter().find(|isa| isa.precision() == Precision::F32);
            [single, all.first()].map(|isa| isa.copied().unwrap_or(Self(Level::Portable)))
        });
        match precision {
            Precision::F32 => single,
            Precision::Bf16 => half,
        }
    }

    /// Every instruction set that this CPU has, the quickest first.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let mut all = Vec::new();
        #[cfg(target_arch = "x86_64")]
        {
            let avx2 = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
            let avx512 = avx2
                && is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vl");
            // No CPU has the one without the other.
            let bf16 =
                avx512 && is_x86_feature_detected!("avx512bf16") && is_x86_feature_detected!("avx512vnni");
            for (level, here) in [(Level::Avx512Bf16, bf16), (Level::Avx512, avx512), (Level::Avx2, avx2)] {
                all.extend(here.then_some(Self(level)));
            }
        }
        all.push(Self(Level::Portable));
        all
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            Level::Avx512Bf16 => "AVX-512 BF16",
            #[cfg(target_arch = "x86_64")]
            Level::Avx512Int16 => "AVX-512 VNNI",
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => "AVX-512",
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => "AVX2",
            Level::Portable => "portable",
        }
    }

    /// What it multiplies in.
    #[must_use]
    pub fn precision(self) -> Precision {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            Level::Avx512Bf16 | Level::Avx512Int16 => Precision::Bf16,
            _ => Precision::F32,
        }
    }

    /// The same for work in single precision.
    pub(crate) fn single(self) -> Self {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            Level::Avx512Bf16 | Level::Avx512Int16 => Self(Level::Avx512),
            _ => self,
        }
    }

    /// The same for products of integers, which are as quick as those of bfloat16, where there are such.
    pub(crate) fn int16(self) -> Option<Self> {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            Level::Avx512Bf16 => Some(Self(Level::Avx512Int16)),
            _ => None,
        }
    }

    /// Whether its products are of integers.
    pub(crate) fn is_int16(self) -> bool {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            Level::Avx512Int16 => true,
            _ => false,
        }
    }

    /// Runs a kernel with these instructions.
    #[inline]
    pub(crate) fn run<K: Kernel>(self, kernel: K) -> K::Output {
        match self.0 {
            // SAFETY: `all` made this value, so the CPU has what the functions need.
            #[cfg(target_arch = "x86_64")]
            Level::Avx512Bf16 => unsafe { avx512::run_bf16(kernel) },
            // SAFETY: as above; it is made of the one above.
            #[cfg(target_arch = "x86_64")]
            Level::Avx512Int16 => unsafe { avx512::run_int16(kernel) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => unsafe { avx512::run(kernel) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => unsafe { avx2::run(kernel) },
            Level::Portable => kernel.run(Portable),
        }
    }

    /// The sizes of a register tile.
    pub(crate) fn tile(self) -> TileSize {
        self.run(MeasureTile)
    }
}

/// What drivers need to know of a [`Simd`] to lay out memory for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TileSize {
    /// Numbers in a vector.
    pub(crate) width: usize,
    /// Rows of a register tile.
    pub(crate) rows: usize,
    /// Columns of a register tile.
    pub(crate) columns: usize,
    /// Bytes of an operand.
    pub(crate) operand_bytes: usize,
}

impl TileSize {
    /// Words that hold `operands` operands.
    pub(crate) fn words(self, operands: usize) -> usize {
        operands.div_ceil(4 / self.operand_bytes)
    }
}

struct MeasureTile;

impl Kernel for MeasureTile {
    type Output = TileSize;

    #[inline(always)]
    fn run<L: Simd>(self, _: L) -> TileSize {
        let (width, rows, operand_bytes) = (L::WIDTH, L::ROWS, L::OPERAND_BYTES);
        TileSize { width, rows, columns: 2 * width, operand_bytes }
    }
}
