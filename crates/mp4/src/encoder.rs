//! H.264 by rusty_h264, as MP4 keeps it: units after their lengths, parameter sets apart.

use rusty_h264_common::Profile;
use rusty_h264_encoder::{EncoderConfig, Preset};

use crate::yuv::planes;

/// How coarsely numbers are rounded, 0 (hardly) to 51. About what x264 gives at `crf` 22 (bench/datasets).
const QP: u8 = 24;
/// The longest side of an image.
pub const LONGEST_SIDE: usize = 4096;
/// Types of units that lie in the configuration, not among the samples.
const SPS: u8 = 7;
const PPS: u8 = 8;
/// The type of a unit of an image that stands alone.
const IDR: u8 = 5;

/// One encoded image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sample {
    /// Its units, each after its length in four bytes.
    pub bytes: Vec<u8>,
    /// Whether decoding can begin with it.
    pub is_key: bool,
}

/// Why an image was not encoded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// A size that no encoder is made for.
    #[error("{width}x{height} pixels, where a video has 1 to {LONGEST_SIDE} a side")]
    Size {
        /// Columns.
        width: usize,
        /// Rows.
        height: usize,
    },
    /// Another number of bytes than an RGB image of the video's size has.
    #[error("{got} bytes, where an RGB image of the video's size has {expected}")]
    Bytes {
        /// Bytes that were given.
        got: usize,
        /// Bytes of an image.
        expected: usize,
    },
    /// The encoder refused.
    #[error("the encoder rusty_h264 says: {0}")]
    Encoder(String),
}

/// Encodes RGB images of one size. The same images give the same bytes.
pub struct Encoder {
    inner: rusty_h264_encoder::Encoder,
    given: (usize, usize),
    /// The parameter sets, known with the first image.
    sets: [Vec<u8>; 2],
}

impl Encoder {
    /// For images of `size`, width before height; every `key_every`th one stands alone.
    ///
    /// # Errors
    /// When a side is 0 or longer than [`LONGEST_SIDE`].
    pub fn new(size: (usize, usize), key_every: u32) -> Result<Self, EncodeError> {
        let (width, height) = size;
        if width.min(height) == 0 || width.max(height) > LONGEST_SIDE {
            return Err(EncodeError::Size { width, height });
        }
        let inner = rusty_h264_encoder::Encoder::new(settings(size, key_every));
        let inner = inner.map_err(|error| EncodeError::Encoder(error.to_string()))?;
        Ok(Self { inner, given: size, sets: Default::default() })
    }

    /// Width and height as they are shown: even, since four pixels share a colour.
    #[must_use]
    pub fn size(&self) -> (usize, usize) {
        (self.given.0.next_multiple_of(2), self.given.1.next_multiple_of(2))
    }

    /// Encodes the next image, `[height, width, 3]`. An odd side repeats its last pixels.
    ///
    /// # Errors
    /// When it has another number of bytes.
    pub fn encode(&mut self, rgb: &[u8]) -> Result<Sample, EncodeError> {
        let expected = self.given.0 * self.given.1 * 3;
        if rgb.len() != expected {
            return Err(EncodeError::Bytes { got: rgb.len(), expected });
        }
        let stream = self.inner.try_encode(&planes(rgb, self.given));
        let stream = stream.map_err(|error| EncodeError::Encoder(error.to_string()))?;
        let mut sample = Sample { bytes: Vec::with_capacity(stream.len()), is_key: false };
        for unit in units(&stream) {
            match unit.first().map(|head| head & 0x1f) {
                Some(SPS) => self.sets[0] = unit.to_vec(),
                Some(PPS) => self.sets[1] = unit.to_vec(),
                Some(kind) => {
                    sample.is_key |= kind == IDR;
                    sample.bytes.extend((unit.len() as u32).to_be_bytes());
                    sample.bytes.extend(unit);
                }
                None => {}
            }
        }
        match sample.bytes.is_empty() {
            true => Err(EncodeError::Encoder("an image gave no bytes".into())),
            false => Ok(sample),
        }
    }

    /// What a decoder has to know before the first sample: the content of `avcC`. Complete once an image was encoded.
    #[must_use]
    pub fn config(&self) -> Vec<u8> {
        let [sequence, picture] = &self.sets;
        let profile = sequence.get(1..4).unwrap_or(&[0; 3]);
        let mut config = vec![1, profile[0], profile[1], profile[2], 0xff, 0xe1]; // lengths of 4 bytes, 1 set
        config.extend((sequence.len() as u16).to_be_bytes());
        config.extend(sequence);
        config.push(1);
        config.extend((picture.len() as u16).to_be_bytes());
        config.extend(picture);
        if profile[0] == 100 {
            config.extend([0xfd, 0xf8, 0xf8, 0]); // 4:2:0, eight bits for brightness and colour, no more sets
        }
        config
    }
}

/// One image in, one sample out: no lookahead, no bidirectional images, every reference the image before. Only images at
/// multiples of `key_every` stand alone.
fn settings((width, height): (usize, usize), key_every: u32) -> EncoderConfig {
    // `baseline` is the constructor that asks no environment variable.
    let (width, height) = (width.next_multiple_of(2), height.next_multiple_of(2));
    let mut config = EncoderConfig::baseline(width, height);
    config.profile = Profile::High;
    config.cabac = true;
    config.transform_8x8 = true;
    config.preset = Preset::Balanced;
    config.level_idc = level(width.div_ceil(16), height.div_ceil(16));
    config.qp = QP;
    config.gop_size = key_every.max(1);
    config.min_keyint = key_every.max(1);
    config
}

/// The lowest level that allows so many blocks across and down.
fn level(across: usize, down: usize) -> u8 {
    const LEVELS: [(u8, usize); 4] = [(30, 1620), (31, 3600), (40, 8192), (51, 36_864)];
    let fits = |most: usize| across * down <= most && across.max(down).pow(2) <= 8 * most;
    LEVELS.into_iter().find(|(_, most)| fits(*most)).map_or(62, |(level, _)| level)
}

/// The units of a stream, without what stands between them.
fn units(stream: &[u8]) -> impl Iterator<Item = &[u8]> {
    let starts: Vec<usize> =
        stream.windows(3).enumerate().filter(|(_, w)| *w == [0, 0, 1]).map(|(at, _)| at).collect();
    let ends: Vec<usize> = starts.iter().skip(1).copied().chain([stream.len()]).collect();
    starts.into_iter().zip(ends).map(move |(start, end)| {
        let unit = &stream[start + 3..end];
        // A fourth byte of the next start code, or zeros after the last: no unit ends with one.
        let zeros = unit.iter().rev().take_while(|byte| **byte == 0).count();
        &unit[..unit.len() - zeros]
    })
}

impl std::fmt::Debug for Encoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Encoder").field("size", &self.given).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rusty_h264_decoder::Decoder;

    /// What a decoder shows of each sample.
    fn decoded(encoder: &mut Encoder, images: &[Vec<u8>]) -> Vec<(rusty_h264_common::YuvFrame, bool)> {
        let mut decoder = Decoder::new();
        let mut shown = Vec::new();
        for image in images {
            let sample = encoder.encode(image).unwrap();
            let mut stream = Vec::new();
            if sample.is_key {
                encoder.sets.iter().for_each(|set| stream.extend([&[0, 0, 0, 1], &set[..]].concat()));
            }
            let mut rest = &sample.bytes[..];
            while let Some((length, after)) = rest.split_at_checked(4) {
                let length = u32::from_be_bytes(length.try_into().unwrap()) as usize;
                stream.extend([&[0, 0, 0, 1], &after[..length]].concat());
                rest = &after[length..];
            }
            shown.push((decoder.decode(&stream).unwrap().unwrap(), sample.is_key));
        }
        shown
    }

    #[test]
    fn keys_come_as_often_as_asked_and_a_scene_is_seen_again() {
        let image = |t: usize| -> Vec<u8> {
            let at =
                |n: usize| [(n % 64 * 4) as u8, (n / 64 * 5) as u8, if n % 64 / 8 == t { 250 } else { 30 }];
            (0..64 * 48).flat_map(at).collect()
        };
        let images: Vec<_> = (0..7).map(image).collect();
        for (every, keys) in [(1, 7), (2, 4), (250, 1)] {
            let shown = decoded(&mut Encoder::new((64, 48), every).unwrap(), &images);
            assert_eq!(shown.iter().filter(|(_, key)| *key).count(), keys, "every {every}");
            for ((frame, _), image) in shown.iter().zip(&images) {
                let expected = planes(image, (64, 48));
                let off =
                    frame.y.iter().zip(&expected.y).map(|(a, b)| f64::from(a.abs_diff(*b))).sum::<f64>();
                assert!(off / (64.0 * 48.0) < 2.0, "off by {} on average", off / (64.0 * 48.0));
            }
        }
    }

    #[test]
    fn what_fits_no_video_is_refused() {
        assert_eq!(Encoder::new((0, 4), 1).unwrap_err(), EncodeError::Size { width: 0, height: 4 });
        assert!(Encoder::new((LONGEST_SIDE + 1, 4), 1).is_err());
        let mut encoder = Encoder::new((4, 4), 1).unwrap();
        assert_eq!(encoder.encode(&[0; 47]), Err(EncodeError::Bytes { got: 47, expected: 48 }));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn noise_of_any_size_is_decoded(
            width in 1_usize..80, height in 1_usize..80, frames in 1_usize..6, every in 1_u32..4, seed in any::<u32>(),
        ) {
            let noise = |t: usize| -> Vec<u8> {
                let byte = |n: usize| ((n as u32 ^ seed).wrapping_mul(2_654_435_761) >> (t % 7 + 8)) as u8;
                (0..width * height * 3).map(byte).collect()
            };
            let images: Vec<_> = (0..frames).map(noise).collect();
            let mut encoder = Encoder::new((width, height), every).unwrap();
            let size = encoder.size();
            let shown = decoded(&mut encoder, &images);
            prop_assert!(shown.iter().all(|(frame, _)| (frame.width, frame.height) == size));
            prop_assert_eq!(shown.len(), frames);
        }
    }
}
