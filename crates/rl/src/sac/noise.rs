//! Standard normal numbers by the thousand.

use std::f32::consts::TAU;

use plaudit_core::Rng;

/// Draws `count` standard normal numbers (Box-Muller in 32 bits, both values used: a batch of noise is drawn at
/// every update, and [`Rng::normal`] would take longer over it than the networks take over some of their layers).
pub(super) fn fill(rng: &mut Rng, count: usize, into: &mut Vec<f32>) {
    into.resize(count, 0.0);
    for pair in into.chunks_mut(2) {
        // 24 bits each: in (0, 1] for the logarithm, in [0, 1) for the angle.
        let unit = ((rng.u32() >> 8) + 1) as f32 * (1.0 / (1 << 24) as f32);
        let turn = (rng.u32() >> 8) as f32 * (1.0 / (1 << 24) as f32);
        let radius = (-2.0 * unit.ln()).sqrt();
        let (sine, cosine) = (TAU * turn).sin_cos();
        pair[0] = radius * cosine;
        if let Some(second) = pair.get_mut(1) {
            *second = radius * sine;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plaudit_core::Seed;

    #[test]
    fn moments_are_those_of_the_distribution() {
        let mut draws = Vec::new();
        fill(&mut Seed::new(7).rng(), 200_001, &mut draws);
        let n = draws.len() as f64;
        let moment = |power: i32| draws.iter().map(|&x| f64::from(x).powi(power)).sum::<f64>() / n;
        // Four standard errors: 4 sqrt(var/n), with var 1, 2, 15 and 96 for the first four moments.
        assert!(moment(1).abs() < 0.009, "{}", moment(1));
        assert!((moment(2) - 1.0).abs() < 0.013, "{}", moment(2));
        assert!(moment(3).abs() < 0.035, "{}", moment(3));
        assert!((moment(4) - 3.0).abs() < 0.088, "{}", moment(4));
    }
}
