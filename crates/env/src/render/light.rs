//! Two lights and the shadow of one of them.

use glam::Vec3;

/// Towards the light that casts shadows.
pub(super) const KEY: Vec3 = Vec3::new(-0.577_350_3, -0.577_350_3, 0.577_350_3);
const AMBIENT: f32 = 0.52;
const KEY_STRENGTH: f32 = 0.46;
const TOP_STRENGTH: f32 = 0.24;
/// What is left of the key light in shadow: some of it is reflected from elsewhere.
const IN_SHADOW: f32 = 0.2;

/// Pixels along one side of the shadow map, and metres it spans.
pub(super) const SHADOW_SIZE: usize = 256;
const SHADOW_METRES: f32 = 2.2;
/// What the map looks at: the middle of robot and table.
const SHADOW_CENTRE: Vec3 = Vec3::new(-0.25, 0.0, 0.25);
/// How far below the lit surface shadow begins, so that surfaces do not shade themselves.
const BIAS: f32 = 0.014;

/// From the world to the shadow map: pixels, pixels, height towards the light.
pub(super) fn to_shadow(point: Vec3) -> Vec3 {
    // Orthonormal axes with the light's direction last, the first two scaled to pixels.
    const SCALE: f32 = SHADOW_SIZE as f32 / SHADOW_METRES;
    const MIDDLE: f32 = SHADOW_SIZE as f32 / 2.0;
    const HALF_ROOT: f32 = std::f32::consts::FRAC_1_SQRT_2;
    const SIXTH_ROOT: f32 = 0.408_248_3;
    let from = point - SHADOW_CENTRE;
    let across = (from.y - from.x) * HALF_ROOT;
    let along = (from.x + from.y + 2.0 * from.z) * -SIXTH_ROOT;
    Vec3::new(across * SCALE + MIDDLE, along * SCALE + MIDDLE, from.dot(KEY))
}

/// How bright a surface is that looks at the key light and upwards by so much; `shadow` is how much of the
/// key light is kept from it.
pub(super) fn brightness(to_key: f32, to_top: f32, shadow: f32) -> f32 {
    let key = to_key.max(0.0) * (1.0 - (1.0 - IN_SHADOW) * shadow);
    AMBIENT + KEY_STRENGTH * key + TOP_STRENGTH * to_top.max(0.0)
}

/// How much of a point is in shadow: the share of four neighbouring map pixels that are higher.
pub(super) fn shadow_at(map: &[f32], point: Vec3) -> f32 {
    let seen = to_shadow(point);
    let (x, y) = (seen.x - 0.5, seen.y - 0.5);
    let last = (SHADOW_SIZE - 2) as f32;
    if !(x >= 0.0 && y >= 0.0 && x < last && y < last) {
        return 0.0;
    }
    let (column, row) = (x as i32 as usize, y as i32 as usize);
    let (right, down) = (x - column as f32, y - row as f32);
    let at = row * SHADOW_SIZE + column;
    let dark = |height: f32| if height > seen.z + BIAS { 1.0 } else { 0.0 };
    let [a, b, c, d] = [at, at + 1, at + SHADOW_SIZE, at + SHADOW_SIZE + 1].map(|k| dark(map[k]));
    (a * (1.0 - right) + b * right) * (1.0 - down) + (c * (1.0 - right) + d * right) * down
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shadow_map_looks_along_the_light() {
        let (a, b) = (Vec3::new(0.1, -0.2, 0.3), Vec3::new(0.1, -0.2, 0.3) + KEY * 0.5);
        let (from, to) = (to_shadow(a), to_shadow(b));
        assert!((from - to).truncate().length() < 1e-3);
        assert!((to.z - from.z - 0.5).abs() < 1e-5);
        let sideways = to_shadow(a + Vec3::new(1.0, -1.0, 0.0).normalize() * 0.1);
        let pixels = 0.1 * SHADOW_SIZE as f32 / SHADOW_METRES;
        assert!(((sideways - from).truncate().length() - pixels).abs() < 1e-2);
    }
}
