//! Triangles on a grid of pixels.

use glam::Vec3;

/// A corner on the grid: column, row, and a third number, such as one over the depth.
pub(super) type Corner = Vec3;

/// Nothing nearer than this is seen.
pub(super) const NEAR: f32 = 0.01;

/// Twice the area of a triangle on the plane, negative if its corners go round the other way.
pub(super) fn turn(a: Vec3, b: Vec3, c: Vec3) -> f32 {
    (b.x - a.x) * (c.y - a.y) - (c.x - a.x) * (b.y - a.y)
}

/// Cuts off what is nearer than the near plane: a triangle becomes a polygon of up to four corners.
pub(super) fn clip(corners: [Vec3; 3]) -> ([Vec3; 4], usize) {
    let mut polygon = [Vec3::ONE; 4];
    polygon[..3].copy_from_slice(&corners);
    if corners.iter().all(|corner| corner.z > NEAR) {
        return (polygon, 3);
    }
    let mut count = 0;
    for k in 0..3 {
        let (a, b) = (corners[k], corners[(k + 1) % 3]);
        if a.z > NEAR {
            polygon[count] = a;
            count += 1;
        }
        if (a.z > NEAR) != (b.z > NEAR) {
            polygon[count] = a + (b - a) * ((NEAR - a.z) / (b.z - a.z));
            polygon[count].z = NEAR;
            count += 1;
        }
    }
    (polygon, count)
}

/// Calls `put` with every run of pixels whose middles lie in the triangle: where it begins, the third
/// coordinate there, how that changes per pixel, and how many pixels there are.
///
/// Neighbouring triangles compute their common edge from the same two corners in the same order, so that
/// no pixel falls between them.
pub(super) fn fill(
    corners: [Corner; 3],
    width: usize,
    height: usize,
    mut put: impl FnMut(usize, f32, f32, usize),
) {
    let [mut top, mut middle, mut bottom] = corners;
    if middle.y < top.y {
        std::mem::swap(&mut top, &mut middle);
    }
    if bottom.y < top.y {
        std::mem::swap(&mut top, &mut bottom);
    }
    if bottom.y < middle.y {
        std::mem::swap(&mut middle, &mut bottom);
    }
    let (first, last) = (first_pixel(top.y, height), first_pixel(bottom.y, height));
    if first >= last {
        return;
    }
    // The third coordinate as a plane over the screen.
    let (u, v) = (middle - top, bottom - top);
    let area = u.x * v.y - v.x * u.y;
    if area.abs() < 1e-12 {
        return;
    }
    let per_column = (u.z * v.y - v.z * u.y) / area;
    let per_row = (v.z * u.x - u.z * v.x) / area;
    let edge = |from: Corner, to: Corner| (from, (to.x - from.x) / (to.y - from.y));
    let (long, upper, lower) = (edge(top, bottom), edge(top, middle), edge(middle, bottom));
    let at = |(from, slope): (Corner, f32), y: f32| from.x + slope * (y - from.y);
    for row in first..last {
        let y = row as f32 + 0.5;
        let (long, short) = (at(long, y), at(if y < middle.y { upper } else { lower }, y));
        let left = first_pixel(long.min(short), width);
        let right = first_pixel(long.max(short), width);
        if left < right {
            let start = top.z + per_row * (y - top.y) + per_column * (left as f32 + 0.5 - top.x);
            put(row * width + left, start, per_column, right - left);
        }
    }
}

/// The first of `count` pixels whose middle is not before `edge`.
fn first_pixel(edge: f32, count: usize) -> usize {
    let from = (edge - 0.5).max(0.0).min(count as f32);
    let near = round(from);
    near as usize + usize::from((near as i32 as f32) < from)
}

/// The whole number nearest to `value`, which lies between 0 and four million.
///
/// At 2^23 the last bit of a float counts ones. A cast does the same, but also looks for what does not fit.
pub(super) fn round(value: f32) -> u32 {
    (value + EIGHT_MILLION).to_bits() & 0x7f_ffff
}

const EIGHT_MILLION: f32 = 8_388_608.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_rounded() {
        for (value, expected) in [(0.0, 0), (0.4, 0), (0.6, 1), (254.9, 255), (255.0, 255), (4095.7, 4096)] {
            assert_eq!(round(value), expected);
        }
        for (edge, first) in [(-3.0, 0), (0.4, 0), (0.5, 0), (0.6, 1), (1.4, 1), (1.6, 2), (99.0, 10)] {
            assert_eq!(first_pixel(edge, 10), first, "{edge}");
        }
        assert_eq!(first_pixel(f32::NAN, 10), 0);
    }

    #[test]
    fn two_triangles_fill_a_square_without_gap_or_overlap() {
        let corner = |x: f32, y: f32| Corner::new(x, y, x + 2.0 * y);
        let (a, b, c, d) = (corner(1.3, 0.2), corner(8.9, 1.1), corner(9.6, 9.7), corner(0.4, 7.5));
        let mut count = [0; 100];
        for triangle in [[a, b, c], [a, c, d]] {
            fill(triangle, 10, 10, |at, start, step, pixels| {
                for k in 0..pixels {
                    count[at + k] += 1;
                    let (x, y) = (((at + k) % 10) as f32 + 0.5, (at / 10) as f32 + 0.5);
                    assert!((start + step * k as f32 - (x + 2.0 * y)).abs() < 1e-4);
                }
            });
        }
        assert!(count.iter().all(|n| *n <= 1));
        assert_eq!(count[55], 1);
        assert!(count.iter().sum::<i32>() > 50);
        let huge = [corner(-50.0, -50.0), corner(90.0, -20.0), corner(0.0, 400.0)];
        fill(huge, 10, 10, |at, _, _, pixels| assert!(at % 10 + pixels <= 10 && at < 100));
    }
}
