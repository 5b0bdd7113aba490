//! Target networks that follow slowly.

use super::compiled::{best_isa, for_each_isa};
use crate::kernels::lanes::Lanes;

/// `target = (1 - tau) * target + tau * source`; `tau` of one copies exactly.
pub fn polyak(target: &mut [f32], source: &[f32], tau: f32) {
    assert_eq!(target.len(), source.len(), "target and source are of different networks");
    if tau == 1.0 {
        target.copy_from_slice(source);
        return;
    }
    follow(best_isa(), target, source, tau);
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
