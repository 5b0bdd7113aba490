//! Target networks that follow slowly.

/// `target = (1 - tau) * target + tau * source`; `tau` of one copies exactly.
pub fn polyak(target: &mut [f32], source: &[f32], tau: f32) {
    assert_eq!(target.len(), source.len(), "target and source are of different networks");
    if tau == 1.0 {
        target.copy_from_slice(source);
        return;
    }
    for (t, s) in target.iter_mut().zip(source) {
        *t += tau * (s - *t);
    }
}
