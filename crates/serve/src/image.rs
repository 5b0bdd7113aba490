//! Images as clients send them: PNG and JPEG. Sizes are checked before anything is decoded.

use std::io::Cursor;

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use png::{ColorType, Limits as PngLimits, Transformations};
use zune_jpeg::JpegDecoder;
use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

use crate::model::Image;

/// Some clients leave the padding out.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// What a decoder may need beyond the pixels.
const SPARE: usize = 1 << 20;

/// An image in its file, with its size as the file says it.
#[derive(Debug)]
pub(crate) struct EncodedImage {
    format: Format,
    bytes: Vec<u8>,
    pub(crate) height: usize,
    pub(crate) width: usize,
}

#[derive(Debug, Clone, Copy)]
enum Format {
    Png,
    Jpeg,
}

/// The image in a data URL, of at most so many pixels.
///
/// # Errors
/// What is wrong with it, in words.
pub fn decode(url: &str, most_pixels: usize) -> Result<Image, String> {
    let image = EncodedImage::from_url(url)?;
    image.check_pixels(most_pixels)?;
    image.decode()
}

impl EncodedImage {
    /// Reads the file's header only.
    pub(crate) fn from_url(url: &str) -> Result<Self, String> {
        let Some(data) = url.strip_prefix("data:") else {
            return Err("only data URLs are read (data:image/png;base64,…); nothing is fetched".into());
        };
        let Some((kind, data)) = data.split_once(',') else { return Err("a data URL without data".into()) };
        if !kind.ends_with(";base64") {
            return Err("only base64 is read in data URLs".into());
        }
        Self::from_base64(data)
    }

    /// The frames of a video: a data URL of the kind `video/jpeg` or `video/png` with frames
    /// that are joined by commas, as vLLM takes them.
    pub(crate) fn frames_from_url(url: &str) -> Result<Vec<Self>, String> {
        let expected =
            "send its frames: data:video/jpeg;base64,FRAME,FRAME,…, each frame a JPEG or PNG as base64";
        let Some(data) = url.strip_prefix("data:") else {
            return Err(format!("only data URLs are read; nothing is fetched; {expected}"));
        };
        let frames =
            ["video/jpeg;base64,", "video/png;base64,"].iter().find_map(|kind| data.strip_prefix(kind));
        let Some(frames) = frames else {
            return Err(format!("files of video are not read; {expected}"));
        };
        let frame =
            |(at, frame): (usize, &str)| Self::from_base64(frame).map_err(|why| format!("frame {at}: {why}"));
        let frames: Vec<Self> = frames.split(',').enumerate().map(frame).collect::<Result<_, String>>()?;
        let size = |frame: &Self| (frame.height, frame.width);
        match frames.iter().position(|frame| size(frame) != size(&frames[0])) {
            Some(at) => Err(format!("frame {at} has another size than the first")),
            None => Ok(frames),
        }
    }

    fn from_base64(data: &str) -> Result<Self, String> {
        let bytes = BASE64.decode(data.trim()).map_err(|error| format!("bad base64: {error}"))?;
        let (format, height, width) = match bytes.as_slice() {
            [0x89, b'P', b'N', b'G', ..] => {
                let mut decoder = png::Decoder::new(Cursor::new(&bytes));
                let header = decoder.read_header_info().map_err(|error| format!("bad PNG: {error}"))?;
                (Format::Png, header.height as usize, header.width as usize)
            }
            [0xff, 0xd8, ..] => {
                let mut decoder = JpegDecoder::new(ZCursor::new(&bytes));
                decoder.decode_headers().map_err(|error| format!("bad JPEG: {error}"))?;
                let (width, height) = decoder.dimensions().ok_or("bad JPEG: no size")?;
                (Format::Jpeg, height, width)
            }
            _ => return Err("neither PNG nor JPEG".into()),
        };
        match height.checked_mul(width) {
            Some(1..) => Ok(Self { format, bytes, height, width }),
            _ => Err(format!("an image of {height}x{width} pixels")),
        }
    }

    /// Says so where it has more than so many pixels.
    pub(crate) fn check_pixels(&self, most: usize) -> Result<(), String> {
        let Self { height, width, .. } = self;
        match height * width <= most {
            true => Ok(()),
            false => Err(format!("an image of {height}x{width} pixels, where {most} pixels are allowed")),
        }
    }

    /// Bytes it will have as pixels.
    pub(crate) fn decoded_bytes(&self) -> usize {
        self.height * self.width * 3
    }

    pub(crate) fn decode(self) -> Result<Image, String> {
        let pixels = match self.format {
            Format::Png => self.png().map_err(|error| format!("bad PNG: {error}"))?,
            Format::Jpeg => self.jpeg().map_err(|error| format!("bad JPEG: {error}"))?,
        };
        let Self { height, width, .. } = self;
        if pixels.len() != height * width * 3 {
            return Err("an image that is not as large as it says".into());
        }
        Ok(Image { height, width, pixels })
    }

    fn png(&self) -> Result<Vec<u8>, String> {
        let limits = PngLimits { bytes: self.height * self.width * 8 + SPARE };
        let mut decoder = png::Decoder::new_with_limits(Cursor::new(&self.bytes), limits);
        decoder.set_transformations(Transformations::normalize_to_color8());
        decoder.set_ignore_text_chunk(true);
        decoder.set_ignore_iccp_chunk(true);
        let mut reader = decoder.read_info().map_err(|error| error.to_string())?;
        let size = reader.output_buffer_size().ok_or("too large")?;
        let mut pixels = vec![0; size];
        let frame = reader.next_frame(&mut pixels).map_err(|error| error.to_string())?;
        pixels.truncate(frame.buffer_size());
        Ok(match frame.color_type {
            ColorType::Rgb => pixels,
            ColorType::Rgba => pixels.chunks_exact(4).flat_map(|p| [p[0], p[1], p[2]]).collect(),
            ColorType::GrayscaleAlpha => pixels.chunks_exact(2).flat_map(|p| [p[0]; 3]).collect(),
            ColorType::Grayscale | ColorType::Indexed => pixels.iter().flat_map(|grey| [*grey; 3]).collect(),
        })
    }

    fn jpeg(&self) -> Result<Vec<u8>, String> {
        let options = DecoderOptions::default()
            .set_max_height(self.height)
            .set_max_width(self.width)
            .jpeg_set_out_colorspace(ColorSpace::RGB);
        let mut decoder = JpegDecoder::new_with_options(ZCursor::new(&self.bytes), options);
        decoder.decode().map_err(|error| error.to_string())
    }
}
