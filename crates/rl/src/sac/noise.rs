//! Standard normal numbers by the thousand.

use plaudit_core::Rng;
use plaudit_nn::dense::ln;

/// Samples `count` standard normal numbers (Box-Muller in 32 bits, both values used: a batch of noise is sampled at
/// every update, and [`Rng::normal`] would take longer over it than the networks take over some of their layers).
pub(super) fn fill(rng: &mut Rng, count: usize, into: &mut Vec<f32>) {
    let pairs = count.div_ceil(2);
    into.resize(2 * pairs, 0.0);
    let (radii, turns) = into.split_at_mut(pairs);
    for (radius, turn) in radii.iter_mut().zip(&mut *turns) {
        // 24 bits each: in (0, 1] for the logarithm, in [0, 1) for the angle.
        *radius = ((rng.u32() >> 8) + 1) as f32 * (1.0 / (1 << 24) as f32);
        *turn = (rng.u32() >> 8) as f32 * (1.0 / (1 << 24) as f32);
    }
    ln(radii);
    for (radius, turn) in radii.iter_mut().zip(turns) {
        let length = (-2.0 * *radius).sqrt();
        let (sine, cosine) = sin_cos(*turn);
        (*radius, *turn) = (length * cosine, length * sine);
    }
    into.truncate(count);
}

/// Sine and cosine of a part of a whole turn, within 1e-7: by series within an eighth of a turn from the nearest
/// quarter. No branches, so that compilers make vectors of it.
fn sin_cos(turn: f32) -> (f32, f32) {
    let quarters = (4.0 * turn + 0.5) as i32;
    let angle = (4.0 * turn - quarters as f32) * std::f32::consts::FRAC_PI_2;
    let z = angle * angle;
    let sine = angle * (1.0 - z / 6.0 * (1.0 - z / 20.0 * (1.0 - z / 42.0 * (1.0 - z / 72.0))));
    let cosine = 1.0 - z / 2.0 * (1.0 - z / 12.0 * (1.0 - z / 30.0 * (1.0 - z / 56.0 * (1.0 - z / 90.0))));
    let (first, second) = if quarters & 1 == 0 { (sine, cosine) } else { (cosine, sine) };
    let (down, left) = (quarters & 2 != 0, (quarters + 1) & 2 != 0);
    (if down { -first } else { first }, if left { -second } else { second })
}

#[cfg(test)]
mod tests {
    use super::*;
    use plaudit_core::Seed;

    #[test]
    fn moments_are_those_of_the_distribution() {
        let mut samples = Vec::new();
        fill(&mut Seed::new(7).rng(), 200_001, &mut samples);
        let n = samples.len() as f64;
        let moment = |power: i32| samples.iter().map(|&x| f64::from(x).powi(power)).sum::<f64>() / n;
        // Four standard errors: 4 sqrt(var/n), with var 1, 2, 15 and 96 for the first four moments.
        assert!(moment(1).abs() < 0.009, "{}", moment(1));
        assert!((moment(2) - 1.0).abs() < 0.013, "{}", moment(2));
        assert!(moment(3).abs() < 0.035, "{}", moment(3));
        assert!((moment(4) - 3.0).abs() < 0.088, "{}", moment(4));
    }

    #[test]
    fn angles_are_precise() {
        for i in 0..100_000 {
            let turn = i as f32 / 100_000.0;
            let (sine, cosine) = sin_cos(turn);
            let (exact_sine, exact_cosine) = (f64::from(turn) * std::f64::consts::TAU).sin_cos();
            let off = (f64::from(sine) - exact_sine).abs().max((f64::from(cosine) - exact_cosine).abs());
            assert!(off < 2e-7, "{turn}: {sine} {cosine}, {off} off");
        }
    }
}
