//! Functions compiled once for each instruction set.

/// For each line, makes a function that takes an [`Isa`](crate::kernels::Isa) and runs the generic one, whose first
/// argument are its [`Simd`](crate::kernels::simd::Simd), compiled for it. The generic one and all that it calls must
/// be `#[inline(always)]`. Plain loops over slices become vectors by that alone.
macro_rules! for_each_isa {
    ($($(#[$doc:meta])* $vis:vis fn $name:ident = $generic:ident($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)?;)*) => {$(
        $(#[$doc])*
        #[allow(clippy::too_many_arguments)]
        $vis fn $name(isa: $crate::kernels::Isa, $($arg: $ty),*) $(-> $ret)? {
            struct Call<T>(T);
            impl $crate::kernels::simd::Kernel for Call<($($ty,)*)> {
                #[allow(unused_parens)] // around what is returned, or around nothing
                type Output = ($($ret)?);
                #[inline(always)]
                fn run<L: $crate::kernels::simd::Simd>(self, simd: L) -> Self::Output {
                    let ($($arg,)*) = self.0;
                    $generic(simd, $($arg),*)
                }
            }
            isa.run(Call(($($arg,)*)))
        }
    )*};
}
pub(crate) use for_each_isa;
