//! Images as PNG: how LeRobot's image layout keeps them.

use std::io::Cursor;

use plaudit_core::FrameShape;
use png::{Decoder, Limits, Transformations};

/// The pixels of a PNG file, HWC, into `pixels`, which has room for just that. The header is compared with the
/// shape before anything is inflated.
pub(super) fn decode(bytes: &[u8], shape: FrameShape, pixels: &mut [u8]) -> Result<(), String> {
    if !bytes.starts_with(b"\x89PNG") {
        return Err("not a PNG file; other formats are not read".into());
    }
    let limits = Limits { bytes: pixels.len().saturating_add(1 << 16) };
    let mut decoder = Decoder::new_with_limits(Cursor::new(bytes), limits);
    decoder.set_transformations(Transformations::normalize_to_color8());
    decoder.set_ignore_text_chunk(true);
    decoder.set_ignore_iccp_chunk(true);
    let header = decoder.read_header_info().map_err(|error| error.to_string())?;
    if (header.height as usize, header.width as usize) != (shape.height, shape.width) {
        let (height, width) = (header.height, header.width);
        return Err(format!("{height}x{width}, where the dataset says {}x{}", shape.height, shape.width));
    }
    let mut reader = decoder.read_info().map_err(|error| error.to_string())?;
    let channels = reader.output_color_type().0.samples();
    if channels != shape.channels || reader.output_buffer_size() != Some(pixels.len()) {
        return Err(format!("{channels} channels, where the dataset says {}", shape.channels));
    }
    reader.next_frame(pixels).map_err(|error| error.to_string())?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use plaudit_draw::encode_png as encode;

    #[test]
    fn pixels_come_back() {
        for channels in 1..=4 {
            let shape = FrameShape { height: 5, width: 7, channels };
            let pixels: Vec<u8> = (0..shape.bytes()).map(|at| (at * 37 % 251) as u8).collect();
            let mut back = vec![0; shape.bytes()];
            decode(&encode(shape, &pixels).unwrap(), shape, &mut back).unwrap();
            assert_eq!(back, pixels);
        }
        assert!(encode(FrameShape { height: 1, width: 1, channels: 5 }, &[0; 5]).is_none());
    }

    #[test]
    fn another_size_is_refused_before_inflating() {
        let large = FrameShape::rgb(2000, 2000);
        let bomb = encode(large, &vec![0; large.bytes()]).unwrap();
        let small = FrameShape::rgb(4, 4);
        let why = decode(&bomb, small, &mut vec![0; small.bytes()]).unwrap_err();
        assert_eq!(why, "2000x2000, where the dataset says 4x4");
        let gray = encode(FrameShape { height: 4, width: 4, channels: 1 }, &[0; 16]).unwrap();
        let why = decode(&gray, small, &mut vec![0; small.bytes()]).unwrap_err();
        assert_eq!(why, "1 channels, where the dataset says 3");
    }

    #[test]
    fn damaged_files_are_errors() {
        let shape = FrameShape::rgb(8, 8);
        let whole = encode(shape, &vec![7; shape.bytes()]).unwrap();
        let mut pixels = vec![0; shape.bytes()];
        for cut in 0..whole.len() - 12 {
            assert!(decode(&whole[..cut], shape, &mut pixels).is_err(), "cut at {cut}");
        }
    }
}
