//! RGB images as brightness and colour: BT.601 in its narrow range, a colour for every four pixels.

use rusty_h264_common::YuvFrame;

/// An image of an even width and height; beyond the edges of an odd one, its last pixels go on.
pub(crate) fn planes(rgb: &[u8], (width, height): (usize, usize)) -> YuvFrame {
    let (wide, tall) = (width.next_multiple_of(2), height.next_multiple_of(2));
    let mut frame = YuvFrame {
        width: wide,
        height: tall,
        y: vec![0; wide * tall],
        u: vec![0; wide * tall / 4],
        v: vec![0; wide * tall / 4],
    };
    let pixel = |x: usize, y: usize| {
        let at = (y.min(height - 1) * width + x.min(width - 1)) * 3;
        [rgb[at], rgb[at + 1], rgb[at + 2]].map(i32::from)
    };
    for y in (0..tall).step_by(2) {
        for x in (0..wide).step_by(2) {
            let mut sum = [0; 3];
            for (x, y) in [(x, y), (x + 1, y), (x, y + 1), (x + 1, y + 1)] {
                let colour = pixel(x, y);
                frame.y[y * wide + x] = brightness(colour);
                sum = std::array::from_fn(|n| sum[n] + colour[n]);
            }
            let at = y / 2 * (wide / 2) + x / 2;
            frame.u[at] = weighted(sum, [-9714, -19_070, 28_784]);
            frame.v[at] = weighted(sum, [28_784, -24_103, -4681]);
        }
    }
    frame
}

fn brightness([red, green, blue]: [i32; 3]) -> u8 {
    (((16_829 * red + 33_039 * green + 6416 * blue + 0x8000) >> 16) + 16) as u8
}

/// A weighted mean of four pixels, in 65,536ths, around the middle.
fn weighted(sum: [i32; 3], weights: [i32; 3]) -> u8 {
    let total: i32 = sum.iter().zip(weights).map(|(sum, weight)| sum * weight).sum();
    (((total + 0x2_0000) >> 18) + 128) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_those_of_bt601() {
        // Y, Cb and Cr of BT.601's primaries in the narrow range, from its own matrix.
        let cases = [
            ([0, 0, 0], [16, 128, 128]),
            ([255, 255, 255], [235, 128, 128]),
            ([255, 0, 0], [81, 90, 240]),
            ([0, 255, 0], [145, 54, 34]),
            ([0, 0, 255], [41, 240, 110]),
        ];
        for (rgb, [y, u, v]) in cases {
            let frame = planes(&rgb.repeat(9), (3, 3));
            let expected = YuvFrame { width: 4, height: 4, y: vec![y; 16], u: vec![u; 4], v: vec![v; 4] };
            assert_eq!(frame, expected, "{rgb:?}");
        }
    }
}
