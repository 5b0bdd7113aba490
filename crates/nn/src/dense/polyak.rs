//! Target networks that follow slowly.

use super::compiled::{best_isa, for_each_isa};
use crate::crew::{Worth, each_part};
use crate::kernels::lanes::Lanes;

/// `target = (1 - tau) * target + tau * source`; `tau` of one copies exactly.
pub fn polyak(target: &mut [f32], source: &[f32], tau: f32) {
    assert_eq!(target.len(), source.len(), "target and source are of different networks");
    if tau == 1.0 {
        target.copy_from_slice(source);
        return;
    }
    const CHUNK: usize = 1 << 14;
    let isa = best_isa();
    let worth = if target.len() < 2 * CHUNK { Worth::OneThread } else { Worth::AllThreads };
    let place = |index: usize| index * CHUNK..((index + 1) * CHUNK).min(source.len());
    each_part(worth, target, source.len().div_ceil(CHUNK), place, |index, target| {
        follow(isa, target, &source[place(index)], tau);
    });
}

for_each_isa! {
    fn follow = follow_all(target: &mut [f32], source: &[f32], tau: f32);
}

#[inline(always)]
fn follow_all<L: Lanes>(lanes: L, target: &mut [f32], source: &[f32], tau: f32) {
    for (t, s) in target.iter_mut().zip(source) {
        *t = lanes.mul_add_one(tau, s - *t, *t);
    }
}
