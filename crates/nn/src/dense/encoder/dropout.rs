//! Dropout whose mask is a function of a seed and a place: nothing to keep for the backward pass.

use plaudit_core::Seed;

use crate::kernels::simd::{Simd, for_each_isa};
use crate::kernels::{Isa, Precision};

/// Whether some numbers are left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dropout {
    /// Everything passes: for acting and for target networks.
    Off,
    /// Some are left out, others each time the seed is another.
    On(Seed),
}

/// A mask: which numbers pass, and what those are multiplied with.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Mask {
    keys: [u32; 2],
    /// Hashes below this are left out.
    threshold: u32,
    scale: f32,
}

impl Mask {
    /// The mask of a rate; none where nothing is left out.
    pub(super) fn new(dropout: Dropout, rate: f32) -> Option<Self> {
        let Dropout::On(seed) = dropout else { return None };
        let mut rng = seed.purpose("dropout").rng();
        let threshold = (f64::from(rate) * f64::from(u32::MAX)) as u32;
        (rate > 0.0).then(|| Self { keys: [rng.u32(), rng.u32()], threshold, scale: 1.0 / (1.0 - rate) })
    }

    /// Leaves out what the mask leaves out; the first value has the place `start`. For the forward and the backward pass.
    pub(super) fn apply(self, values: &mut [f32], start: usize) {
        apply(Isa::best(Precision::F32), values, start as u32, self);
    }
}

for_each_isa! {
    fn apply = apply_all(values: &mut [f32], start: u32, mask: Mask);
}

#[inline(always)]
fn apply_all<L: Simd>(_: L, values: &mut [f32], start: u32, mask: Mask) {
    for (i, value) in values.iter_mut().enumerate() {
        let place = start.wrapping_add(i as u32);
        let hash = mix(mix(place ^ mask.keys[0]).wrapping_add(mask.keys[1]));
        *value *= if hash < mask.threshold { 0.0 } else { mask.scale };
    }
}

/// Every bit of the input changes about half of the output.
#[inline(always)]
fn mix(mut x: u32) -> u32 {
    x = (x ^ (x >> 16)).wrapping_mul(0x7feb_352d);
    x = (x ^ (x >> 15)).wrapping_mul(0x846c_a68b);
    x ^ (x >> 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mask(seed: u64, rate: f32, count: usize) -> Vec<f32> {
        let mut values = vec![1.0; count];
        Mask::new(Dropout::On(Seed::new(seed)), rate).unwrap().apply(&mut values, 0);
        values
    }

    #[test]
    fn the_asked_share_is_left_out_and_the_mean_stays() {
        for rate in [0.1, 0.5] {
            let values = mask(1, rate, 100_000);
            let dropped = values.iter().filter(|v| **v == 0.0).count() as f32 / 1e5;
            // Four standard errors of 100,000 samples.
            assert!((dropped - rate).abs() < 4.0 * (rate * (1.0 - rate) / 1e5).sqrt(), "{dropped} of {rate}");
            assert!(values.iter().all(|v| *v == 0.0 || (*v - 1.0 / (1.0 - rate)).abs() < 1e-6));
        }
    }

    #[test]
    fn masks_differ_between_seeds_and_neighbours_are_independent() {
        let (a, b) = (mask(1, 0.5, 50_000), mask(2, 0.5, 50_000));
        let share = |pairs: usize| pairs as f32 / 50_000.0;
        let both = share(a.iter().zip(&b).filter(|(a, b)| **a == 0.0 && **b == 0.0).count());
        let neighbours = share(a.windows(2).filter(|pair| pair[0] == 0.0 && pair[1] == 0.0).count());
        // A quarter each, within five standard errors.
        assert!((both - 0.25).abs() < 0.01 && (neighbours - 0.25).abs() < 0.01, "{both} {neighbours}");
    }

    #[test]
    fn a_mask_depends_on_places_alone() {
        let whole = mask(3, 0.3, 1000);
        let mut part = vec![1.0; 100];
        Mask::new(Dropout::On(Seed::new(3)), 0.3).unwrap().apply(&mut part, 500);
        assert_eq!(part, whole[500..600]);
        assert_eq!(Mask::new(Dropout::Off, 0.3), None);
        assert_eq!(Mask::new(Dropout::On(Seed::new(3)), 0.0), None);
    }
}
