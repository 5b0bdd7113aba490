//! Target networks that follow slowly.

use super::simd::{Isa, Simd, for_each_isa, mul_add};

/// `target = (1 - tau) * target + tau * source`; `tau` of one copies exactly.
pub fn polyak(target: &mut [f32], source: &[f32], tau: f32) {
    assert_eq!(target.len(), source.len(), "target and source are of different networks");
    if tau == 1.0 {
        target.copy_from_slice(source);
        return;
    }
    follow(Isa::best(), target, source, tau);
}

for_each_isa! {
    fn follow = follow_all(target: &mut [f32], source: &[f32], tau: f32);
}

#[inline(always)]
fn follow_all<S: Simd>(target: &mut [f32], source: &[f32], tau: f32) {
    for (t, s) in target.iter_mut().zip(source) {
        *t = mul_add::<S>(tau, s - *t, *t);
    }
}
