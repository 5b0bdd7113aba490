//! YUYV: two pixels in four bytes, as most webcams and RealSense send their colours.

use plaudit_core::{FrameShape, Frames};

/// Turns one YUYV image, whose rows may be padded, into RGB (BT.601, limited range, as OpenCV and libv4l do).
pub(super) fn decode(
    bytes: &[u8],
    (width, height): (usize, usize),
    bytes_per_line: usize,
) -> Result<Frames, String> {
    let row_bytes = width * 2;
    let stride = if bytes_per_line == 0 { row_bytes } else { bytes_per_line };
    let is_possible = width > 0 && height > 0 && width.is_multiple_of(2) && stride >= row_bytes;
    if !is_possible {
        return Err(format!("{width}x{height} in rows of {stride} bytes is no YUYV image"));
    }
    // Drivers may leave out the padding of the last row.
    let needed = stride * (height - 1) + row_bytes;
    if bytes.len() < needed {
        return Err(format!(
            "a YUYV image of {width}x{height} has {} bytes instead of {needed}",
            bytes.len()
        ));
    }
    let shape = FrameShape::rgb(height, width);
    let mut pixels = Vec::with_capacity(shape.bytes());
    for row in bytes.chunks(stride).take(height) {
        for pair in row[..row_bytes].chunks_exact(4) {
            let [first, u, second, v] = [pair[0], pair[1], pair[2], pair[3]].map(i32::from);
            pixels.extend(rgb(first, u, v));
            pixels.extend(rgb(second, u, v));
        }
    }
    Frames::new(shape, pixels).map_err(|error| error.to_string())
}

/// In 1/256: 1.164, 1.596, 0.813, 0.391, 2.018.
fn rgb(y: i32, u: i32, v: i32) -> [u8; 3] {
    let (luma, blue, red) = (298 * (y - 16), u - 128, v - 128);
    [luma + 409 * red, luma - 208 * red - 100 * blue, luma + 516 * blue]
        .map(|value| ((value + 128) >> 8).clamp(0, 255) as u8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The corners of BT.601: black, white, and red (y 81, u 90, v 240).
    #[test]
    fn known_colours() {
        let bytes = [16, 128, 235, 128, 81, 90, 81, 240];
        let image = decode(&bytes, (4, 1), 0).unwrap();
        assert_eq!(image.pixels[..6], [0, 0, 0, 255, 255, 255]);
        assert_eq!(image.pixels[6..9], image.pixels[9..12]);
        let [r, g, b] = [image.pixels[6], image.pixels[7], image.pixels[8]];
        assert!(r >= 253 && g <= 2 && b <= 2, "{r} {g} {b}");
    }

    #[test]
    fn rows_may_be_padded_and_short_images_are_refused() {
        let row = [16, 128, 16, 128, 99, 99];
        let two = [&row[..], &row[..4]].concat();
        assert_eq!(decode(&two, (2, 2), 6).unwrap().pixels, [0; 12]);
        let error = decode(&two[..9], (2, 2), 6).unwrap_err();
        assert_eq!(error, "a YUYV image of 2x2 has 9 bytes instead of 10");
        assert!(decode(&two, (3, 1), 0).unwrap_err().contains("no YUYV"));
        assert!(decode(&two, (2, 2), 3).is_err() && decode(&two, (0, 0), 0).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_give_an_image_or_a_reason(bytes in prop::collection::vec(any::<u8>(), 0..400), width in 0usize..20, height in 0usize..20, line in 0usize..50) {
            if let Ok(image) = decode(&bytes, (width, height), line) {
                prop_assert_eq!(image.pixels.len(), width * height * 3);
            }
        }
    }
}
