//! Vectors of the processor at hand: AVX-512, AVX2 with FMA, or plain arrays, chosen when a network is made.
//!
//! A kernel is written once, generic over [`Simd`] and always inlined; [`for_each_isa!`] makes one compiled version
//! of it per instruction set and a function that picks among them.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod portable;

#[cfg(target_arch = "x86_64")]
pub(super) use avx2::Avx2;
#[cfg(target_arch = "x86_64")]
pub(super) use avx512::Avx512;
pub(super) use portable::Portable;

/// A set of instructions that this processor has. There is no other way to make one than to ask the processor, so
/// that holding one is the permission to use it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Isa(Instructions);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Instructions {
    #[cfg(target_arch = "x86_64")]
    Avx512,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    Portable,
}

impl Instructions {
    #[cfg(target_arch = "x86_64")]
    const ALL: [Self; 3] = [Self::Avx512, Self::Avx2, Self::Portable];
    #[cfg(not(target_arch = "x86_64"))]
    const ALL: [Self; 1] = [Self::Portable];

    fn are_there(self) -> bool {
        #[cfg(target_arch = "x86_64")]
        use std::is_x86_feature_detected as has;
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => {
                let parts = has!("avx512f") && has!("avx512bw") && has!("avx512dq") && has!("avx512vl");
                parts && Self::Avx2.are_there()
            }
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => has!("avx2") && has!("fma"),
            Self::Portable => true,
        }
    }
}

impl Isa {
    /// All that this processor has, the best first.
    pub fn available() -> impl Iterator<Item = Self> {
        Instructions::ALL.into_iter().filter(|instructions| instructions.are_there()).map(Self)
    }

    /// The best this processor has.
    pub fn best() -> Self {
        Self::available().next().unwrap_or(Self(Instructions::Portable))
    }

    /// Which instructions to use.
    pub(super) fn instructions(self) -> Instructions {
        self.0
    }
}

/// A vector of floats. Methods are unsafe because each needs its instructions, and loads and stores valid memory.
pub(super) trait Simd {
    /// The vector.
    type V: Copy;
    /// Floats in it.
    const LANES: usize;
    /// Rows of the tile that a matrix product keeps in registers (two vectors wide).
    const TILE_ROWS: usize;
    /// Whether a product and a sum are one instruction. Where not, `f32::mul_add` would be a slow function call.
    const FUSED: bool;

    unsafe fn zero() -> Self::V;
    unsafe fn splat(x: f32) -> Self::V;
    unsafe fn load(from: *const f32) -> Self::V;
    unsafe fn store(to: *mut f32, v: Self::V);
    /// The first `count` (1 to `LANES`) floats, zeros after them.
    unsafe fn load_first(from: *const f32, count: usize) -> Self::V;
    unsafe fn store_first(to: *mut f32, v: Self::V, count: usize);
    unsafe fn add(a: Self::V, b: Self::V) -> Self::V;
    /// `a * b + c`
    unsafe fn mul_add(a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// The sum over all lanes.
    unsafe fn sum(v: Self::V) -> f32;
    /// Writes a square of `LANES` rows and columns with rows and columns exchanged.
    unsafe fn transpose(from: *const f32, from_row: usize, to: *mut f32, to_row: usize);
}

/// `a * b + c` of single floats, as precise as the instructions have it.
#[inline(always)]
pub(super) fn mul_add<S: Simd>(a: f32, b: f32, c: f32) -> f32 {
    if S::FUSED { a.mul_add(b, c) } else { a * b + c }
}

/// Compiles a generic kernel for each instruction set, and makes the function that picks one.
macro_rules! for_each_isa {
    ($($(#[$doc:meta])* $vis:vis fn $name:ident = $generic:ident($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)?;)*) => {$(
        $(#[$doc])*
        #[allow(clippy::too_many_arguments)]
        $vis fn $name(isa: $crate::dense::simd::Isa, $($arg: $ty),*) $(-> $ret)? {
            use $crate::dense::simd::Instructions;
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
            fn on_avx512($($arg: $ty),*) $(-> $ret)? {
                $generic::<$crate::dense::simd::Avx512>($($arg),*)
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma")]
            fn on_avx2($($arg: $ty),*) $(-> $ret)? {
                $generic::<$crate::dense::simd::Avx2>($($arg),*)
            }
            match isa.instructions() {
                // SAFETY: an `Isa` exists only for instructions that the processor was found to have.
                #[cfg(target_arch = "x86_64")]
                Instructions::Avx512 => unsafe { on_avx512($($arg),*) },
                // SAFETY: as above.
                #[cfg(target_arch = "x86_64")]
                Instructions::Avx2 => unsafe { on_avx2($($arg),*) },
                Instructions::Portable => $generic::<$crate::dense::simd::Portable>($($arg),*),
            }
        }
    )*};
}
pub(super) use for_each_isa;
