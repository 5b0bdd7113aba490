//! JPEGs from cameras: sizes are bounded before memory is taken, and half an image is no image.

use plaudit_core::{FrameShape, Frames};
use zune_jpeg::JpegDecoder;
use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

/// The most bytes of a compressed image: 4K at the best quality is about half of it.
pub(super) const LARGEST_JPEG: usize = 16 << 20;
/// The most rows and columns of an image from a camera.
pub(super) const LARGEST_SIDE: usize = 4096;
/// Progressive images come in passes; more than this is made to take time.
const MOST_SCANS: usize = 16;

/// An APP0 segment that says: Motion JPEG. Decoders then know the Huffman tables that webcams leave out.
const MOTION_JPEG: [u8; 18] = [0xff, 0xe0, 0, 16, b'A', b'V', b'I', b'1', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

const START: [u8; 2] = [0xff, 0xd8];
const END: u8 = 0xd9;
const START_OF_SCAN: u8 = 0xda;
const HUFFMAN_TABLES: u8 = 0xc4;

/// Decodes one whole JPEG to RGB.
pub(super) fn decode(bytes: &[u8]) -> Result<Frames, String> {
    if bytes.len() > LARGEST_JPEG {
        return Err(format!("{} bytes are more than the {LARGEST_JPEG} that are read", bytes.len()));
    }
    let mut walk = MarkerWalk::default();
    let end = match walk.advance(bytes) {
        Progress::Ended(end) => end,
        Progress::Torn => return Err(format!("the JPEG of {} bytes is cut off", bytes.len())),
        Progress::NotJpeg => return Err("it is no JPEG".into()),
    };
    let bytes = &bytes[..end];
    if walk.has_huffman_tables {
        decode_rgb(bytes)
    } else {
        decode_rgb(&[&START[..], &MOTION_JPEG, &bytes[START.len()..]].concat())
    }
}

fn decode_rgb(bytes: &[u8]) -> Result<Frames, String> {
    let options = DecoderOptions::default()
        .set_strict_mode(true)
        .set_max_width(LARGEST_SIDE)
        .set_max_height(LARGEST_SIDE)
        .jpeg_set_max_scans(MOST_SCANS)
        .jpeg_set_out_colorspace(ColorSpace::RGB);
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(bytes), options);
    decoder.decode_headers().map_err(|error| error.to_string())?;
    let info = decoder.info().ok_or("it has no size")?;
    let shape = FrameShape::rgb(usize::from(info.height), usize::from(info.width));
    let pixels = decoder.decode().map_err(|error| error.to_string())?;
    if pixels.len() != shape.bytes() {
        return Err(format!("{} bytes are no image of {}x{}", pixels.len(), shape.width, shape.height));
    }
    Frames::new(shape, pixels).map_err(|error| error.to_string())
}

/// How far a walk through a JPEG came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    /// The image ends before this byte.
    Ended(usize),
    /// More bytes are needed.
    Torn,
    /// These bytes are no JPEG.
    NotJpeg,
}

/// Walks along the markers of a JPEG to its end, also while it still arrives: servers that do not say how long an
/// image is would otherwise show it only when the next one comes.
#[derive(Debug, Clone, Default)]
pub(super) struct MarkerWalk {
    at: usize,
    is_in_scan: bool,
    has_huffman_tables: bool,
}

impl MarkerWalk {
    /// Goes on with `bytes`, which begin with all bytes of the last call.
    pub(super) fn advance(&mut self, bytes: &[u8]) -> Progress {
        if self.at == 0 {
            if !START.starts_with(&bytes[..bytes.len().min(START.len())]) {
                return Progress::NotJpeg;
            }
            if bytes.len() < START.len() {
                return Progress::Torn;
            }
            self.at = START.len();
        }
        loop {
            if self.is_in_scan {
                self.skip_scan(bytes);
            }
            let Some(&[mark, kind]) = bytes.get(self.at..self.at + 2) else { return Progress::Torn };
            match (mark, kind) {
                (0xff, END) => return Progress::Ended(self.at + 2),
                // Fill bytes may stand before any marker.
                (0xff, 0xff) => self.at += 1,
                // Markers without a length: temporary, restarts.
                (0xff, 0x01 | 0xd0..=0xd7) => self.at += 2,
                (0xff, 0x02..) => {
                    let Some(&[high, low]) = bytes.get(self.at + 2..self.at + 4) else {
                        return Progress::Torn;
                    };
                    let length = usize::from(u16::from_be_bytes([high, low]));
                    if length < 2 {
                        return Progress::NotJpeg;
                    }
                    self.has_huffman_tables |= kind == HUFFMAN_TABLES;
                    self.is_in_scan = kind == START_OF_SCAN;
                    self.at += 2 + length;
                }
                _ => return Progress::NotJpeg,
            }
        }
    }

    /// Entropy-coded bytes go on until a marker that is neither a stuffed 0xff nor a restart.
    fn skip_scan(&mut self, bytes: &[u8]) {
        while let Some(&[byte, next]) = bytes.get(self.at..self.at + 2) {
            match (byte, next) {
                (0xff, 0x00 | 0xd0..=0xd7) => self.at += 2,
                (0xff, _) => {
                    self.is_in_scan = false;
                    return;
                }
                _ => self.at += 1,
            }
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use jpeg_encoder::{ColorType, Encoder};
    use proptest::prelude::*;

    /// A JPEG of one colour.
    pub(crate) fn jpeg(width: u16, height: u16, colour: [u8; 3]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let pixels = colour.repeat(usize::from(width) * usize::from(height));
        Encoder::new(&mut bytes, 90).encode(&pixels, width, height, ColorType::Rgb).unwrap();
        bytes
    }

    /// The same without its Huffman tables, as webcams send it.
    fn without_tables(bytes: &[u8]) -> Vec<u8> {
        let (mut at, mut kept) = (2, START.to_vec());
        while bytes[at + 1] != START_OF_SCAN {
            let length = 2 + usize::from(u16::from_be_bytes([bytes[at + 2], bytes[at + 3]]));
            if bytes[at + 1] != HUFFMAN_TABLES {
                kept.extend(&bytes[at..at + length]);
            }
            at += length;
        }
        kept.extend(&bytes[at..]);
        kept
    }

    fn is_near(pixel: &[u8], colour: [u8; 3]) -> bool {
        pixel.iter().zip(colour).all(|(got, wanted)| got.abs_diff(wanted) <= 3)
    }

    #[test]
    fn colours_survive() {
        let image = decode(&jpeg(32, 16, [200, 40, 90])).unwrap();
        assert_eq!(image.shape, FrameShape::rgb(16, 32));
        assert!(
            image.pixels.chunks(3).all(|pixel| is_near(pixel, [200, 40, 90])),
            "{:?}",
            &image.pixels[..3]
        );
    }

    #[test]
    fn images_without_huffman_tables_are_decoded() {
        let whole = jpeg(32, 16, [10, 180, 60]);
        let webcam = without_tables(&whole);
        assert!(webcam.len() + 300 < whole.len());
        let image = decode(&webcam).unwrap();
        assert!(is_near(&image.pixels[..3], [10, 180, 60]), "{:?}", &image.pixels[..3]);
    }

    #[test]
    fn torn_and_foreign_bytes_are_named() {
        let whole = jpeg(64, 64, [1, 2, 3]);
        assert!(decode(&whole[..whole.len() / 2]).unwrap_err().contains("cut off"));
        assert!(decode(&whole[..whole.len() - 1]).unwrap_err().contains("cut off"));
        assert!(decode(b"GIF89a").unwrap_err().contains("no JPEG"));
        assert!(decode(b"").unwrap_err().contains("cut off"));
        assert!(decode(&[&whole[..], b"\r\n"].concat()).is_ok(), "what follows is not part of it");
    }

    /// The size stands in the frame header: five bytes after the marker.
    #[test]
    fn giants_are_refused_before_memory_is_taken() {
        let mut giant = jpeg(16, 16, [0; 3]);
        let header = giant.windows(2).position(|two| two == [0xff, 0xc0]).unwrap();
        giant[header + 5..header + 9].copy_from_slice(&[0xff; 4]);
        assert!(decode(&giant).is_err());
        assert!(decode(&vec![0; LARGEST_JPEG + 1]).unwrap_err().contains("more than"));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn an_image_ends_at_the_same_byte_however_it_arrives(cuts in prop::collection::vec(1usize..400, 1..30)) {
            let bytes = [jpeg(48, 40, [120, 9, 250]), b"--next".to_vec()].concat();
            let end = bytes.len() - 6;
            let (mut walk, mut came) = (MarkerWalk::default(), 0);
            for cut in cuts {
                came = (came + cut).min(bytes.len());
                let progress = walk.advance(&bytes[..came]);
                prop_assert_eq!(progress, if came >= end { Progress::Ended(end) } else { Progress::Torn });
            }
        }

        #[test]
        fn damaged_images_never_panic(damage in prop::collection::vec((0usize..2000, any::<u8>()), 1..20), cut in 0usize..2000) {
            let mut bytes = jpeg(40, 24, [9, 99, 199]);
            for (at, byte) in damage {
                let at = at % bytes.len();
                bytes[at] = byte;
            }
            let _ = decode(&bytes);
            bytes.truncate(cut);
            let _ = decode(&bytes);
        }
    }
}
