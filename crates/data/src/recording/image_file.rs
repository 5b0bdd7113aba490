//! PNG and JPEG: an image in a file of its own, or among other data, as RGB. A head says how large it is before memory is taken.

use std::io::{BufReader, Cursor};
use std::path::Path;

use plaudit_core::FrameShape;
use plaudit_pyfiles::{Access, Array, Buffer, DType, plain_file};
use zune_jpeg::JpegDecoder;
use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

use super::FileProblem;

/// Pixels of the largest image that is read: no file makes memory run out by what its head says.
const MOST_PIXELS: u64 = 1 << 26;
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n";
const JPEG: &[u8] = &[0xff, 0xd8];

/// An image that is decoded when it is asked for. Its bytes are a view of the file that it lies in.
#[derive(Clone, Debug)]
pub(crate) struct EncodedImage {
    bytes: Buffer,
    shape: FrameShape,
}

impl EncodedImage {
    /// Looks at the head alone.
    pub(super) fn new(bytes: Buffer) -> Result<Self, FileProblem> {
        let (height, width) = match () {
            () if bytes.starts_with(PNG) => png_sides(&png_decoder(Cursor::new(&bytes[..]))?.0),
            () if bytes.starts_with(JPEG) => jpeg_decoder(&bytes)?.1,
            () => {
                let start: Vec<String> = bytes.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
                let what =
                    format!("{} bytes that begin with [{}] are no PNG or JPEG", bytes.len(), start.join(" "));
                return Err(FileProblem::Image { what });
            }
        };
        Ok(Self { bytes, shape: FrameShape::rgb(height, width) })
    }

    pub(super) fn shape(&self) -> FrameShape {
        self.shape
    }

    /// Its bytes as they lie in the file.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(super) fn rgb(&self) -> Result<Vec<u8>, FileProblem> {
        let decoded = match self.bytes.starts_with(PNG) {
            true => png_rgb(Cursor::new(&self.bytes[..]))?,
            false => jpeg_rgb(&self.bytes)?,
        };
        let rgb = decoded.bytes();
        if rgb.len() != self.shape.bytes() {
            let what = format!("its head says {} bytes, and it has {}", self.shape.bytes(), rgb.len());
            return Err(FileProblem::Image { what });
        }
        Ok(rgb.to_vec())
    }
}

/// The image of a PNG file.
pub(super) fn read_png(file: &Path) -> Result<Array, FileProblem> {
    png_rgb(BufReader::new(plain_file::open(file)?))
}

/// The image of a JPEG file.
pub(super) fn read_jpeg(file: &Path) -> Result<Array, FileProblem> {
    jpeg_rgb(&Buffer::open(file, Access::Copy)?)
}

fn broken(error: impl std::fmt::Display) -> FileProblem {
    FileProblem::Image { what: error.to_string() }
}

/// Refuses an image without a pixel, and one that is too large.
pub(super) fn check_sides(height: usize, width: usize) -> Result<(), FileProblem> {
    if height as u64 * width as u64 > MOST_PIXELS {
        let what = format!("{height}x{width} pixels, where {MOST_PIXELS} pixels are read at most");
        return Err(FileProblem::Image { what });
    }
    if height == 0 || width == 0 {
        return Err(FileProblem::Image { what: format!("{height}x{width} pixels are no image") });
    }
    Ok(())
}

fn png_sides(header: &png::Info<'_>) -> (usize, usize) {
    (header.height as usize, header.width as usize)
}

type PngParts<R> = (png::Info<'static>, png::Decoder<R>);

fn png_decoder<R: std::io::BufRead + std::io::Seek>(from: R) -> Result<PngParts<R>, FileProblem> {
    // Room for the pixels in 16 bits and four channels, and for a row or two.
    let limits = png::Limits { bytes: 8 * MOST_PIXELS as usize + (1 << 20) };
    let mut decoder = png::Decoder::new_with_limits(from, limits);
    decoder.set_transformations(png::Transformations::normalize_to_color8());
    decoder.set_ignore_text_chunk(true);
    decoder.set_ignore_iccp_chunk(true);
    let header = decoder.read_header_info().map_err(broken)?;
    let header = png::Info::with_size(header.width, header.height);
    let (height, width) = png_sides(&header);
    check_sides(height, width)?;
    Ok((header, decoder))
}

fn png_rgb<R: std::io::BufRead + std::io::Seek>(from: R) -> Result<Array, FileProblem> {
    let mut reader = png_decoder(from)?.1.read_info().map_err(broken)?;
    let mut pixels = vec![0; reader.output_buffer_size().unwrap_or(0)];
    let info = reader.next_frame(&mut pixels).map_err(broken)?;
    pixels.truncate(info.buffer_size());
    let (height, width) = (info.height as usize, info.width as usize);
    let rgb: Vec<u8> = match info.color_type.samples() {
        3 => pixels,
        // Without colours all three are the same; what shines through is left out.
        samples @ (1 | 2) => pixels.chunks_exact(samples).flat_map(|pixel| [pixel[0]; 3]).collect(),
        samples => pixels.chunks_exact(samples).flat_map(|pixel| [pixel[0], pixel[1], pixel[2]]).collect(),
    };
    Array::new(DType::U8, &[height, width, 3], rgb).map_err(broken)
}

type JpegParts<'a> = (JpegDecoder<ZCursor<&'a [u8]>>, (usize, usize));

fn jpeg_decoder(bytes: &[u8]) -> Result<JpegParts<'_>, FileProblem> {
    let side = 1 << 15;
    let options = DecoderOptions::default()
        .jpeg_set_out_colorspace(ColorSpace::RGB)
        .set_max_width(side)
        .set_max_height(side)
        .set_strict_mode(true);
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(bytes), options);
    decoder.decode_headers().map_err(broken)?;
    let (width, height) = decoder.dimensions().unwrap_or_default();
    check_sides(height, width)?;
    Ok((decoder, (height, width)))
}

fn jpeg_rgb(bytes: &[u8]) -> Result<Array, FileProblem> {
    let (mut decoder, (height, width)) = jpeg_decoder(bytes)?;
    let pixels = decoder.decode().map_err(broken)?;
    Array::new(DType::U8, &[height, width, 3], pixels).map_err(broken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_that_claims_to_be_huge_is_refused_before_memory_is_taken() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("bomb.png");
        let mut bytes = plaudit_draw::encode_png(FrameShape::rgb(1, 1), &[1, 2, 3]).unwrap();
        assert!(std::fs::write(&file, &bytes).is_ok() && read_png(&file).is_ok());
        bytes[16..20].copy_from_slice(&60_000_u32.to_be_bytes());
        bytes[20..24].copy_from_slice(&50_000_u32.to_be_bytes());
        let check = crc32fast::hash(&bytes[12..29]);
        bytes[29..33].copy_from_slice(&check.to_be_bytes());
        std::fs::write(&file, &bytes).unwrap();
        let error = read_png(&file).unwrap_err().to_string();
        assert!(error.contains("50000x60000 pixels"), "{error}");
        let error = EncodedImage::new(bytes.into()).unwrap_err().to_string();
        assert!(error.contains("50000x60000 pixels"), "{error}");
    }

    #[test]
    fn what_is_no_image_is_named_by_its_first_bytes() {
        let error = EncodedImage::new(b"GIF89a".to_vec().into()).unwrap_err().to_string();
        assert_eq!(error, "6 bytes that begin with [47 49 46 38 39 61] are no PNG or JPEG");
        assert!(EncodedImage::new(Vec::new().into()).is_err());
    }
}
