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
    const MIDDLE: f32 = SHADOW_SIZE as f32 / 2.0;
    along_shadow(point - SHADOW_CENTRE) + Vec3::new(MIDDLE, MIDDLE, 0.0)
}

/// A way through the world as a way over the shadow map.
pub(super) fn along_shadow(way: Vec3) -> Vec3 {
    // Orthonormal axes with the light's direction last, the first two scaled to pixels.
    const SCALE: f32 = SHADOW_SIZE as f32 / SHADOW_METRES;
    const HALF_ROOT: f32 = std::f32::consts::FRAC_1_SQRT_2 * SCALE;
    const SIXTH_ROOT: f32 = 0.408_248_3 * SCALE;
    Vec3::new((way.y - way.x) * HALF_ROOT, (way.x + way.y + 2.0 * way.z) * -SIXTH_ROOT, way.dot(KEY))
}

/// How bright a surface is that looks at the key light and upwards by so much; `shadow` is how much of the
/// key light is kept from it.
pub(super) fn brightness(to_key: f32, to_top: f32, shadow: f32) -> f32 {
    let key = to_key.max(0.0) * (1.0 - (1.0 - IN_SHADOW) * shadow);
    AMBIENT + KEY_STRENGTH * key + TOP_STRENGTH * to_top.max(0.0)
}

/// How much of a place on the shadow map is in shadow: the share of four neighbouring pixels that are
/// higher than it.
#[inline(always)]
pub(super) fn shadow_at(map: &[f32], place: Vec3) -> f32 {
    let (x, y) = (place.x - 0.5, place.y - 0.5);
    let last = (SHADOW_SIZE - 2) as f32;
    if !(x >= 0.0 && y >= 0.0 && x < last && y < last) {
        return 0.0;
    }
    let (column, row) = (x as i32, y as i32);
    let (right, down) = (x - column as f32, y - row as f32);
    let at = row as usize * SHADOW_SIZE + column as usize;
    let (upper, lower) = (&map[at..at + 2], &map[at + SHADOW_SIZE..at + SHADOW_SIZE + 2]);
    let dark = |height: f32| if height > place.z + BIAS { 1.0 } else { 0.0 };
    let (a, b, c, d) = (dark(upper[0]), dark(upper[1]), dark(lower[0]), dark(lower[1]));
    let (above, below) = (a + (b - a) * right, c + (d - c) * right);
    above + (below - above) * down
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
