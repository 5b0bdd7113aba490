//! Target networks that follow slowly.

use super::compiled::{best_isa, for_each_isa};
use crate::kernels::simd::Simd;
use crate::spin_pool::{Parallelism, parallel_for_slice};

/// `target = (1 - tau) * target + tau * source`; `tau` of one copies exactly.
pub fn polyak(target: &mut [f32], source: &[f32], tau: f32) {
    assert_eq!(target.len(), source.len(), "target and source are of different networks");
    if tau == 1.0 {
        target.copy_from_slice(source);
        return;
    }
    const CHUNK: usize = 1 << 14;
    let isa = best_isa();
    let parallelism = if target.len() < 2 * CHUNK { Parallelism::OneThread } else { Parallelism::AllThreads };
    let place = |index: usize| index * CHUNK..((index + 1) * CHUNK).min(source.len());
    parallel_for_slice(parallelism, target, source.len().div_ceil(CHUNK), place, |index, target| {
        follow(isa, target, &source[place(index)], tau);
    });
}

for_each_isa! {
    fn follow = follow_all(target: &mut [f32], source: &[f32], tau: f32);
}

#[inline(always)]
fn follow_all<L: Simd>(simd: L, target: &mut [f32], source: &[f32], tau: f32) {
    for (t, s) in target.iter_mut().zip(source) {
        *t = simd.mul_add_one(tau, s - *t, *t);
    }
}
