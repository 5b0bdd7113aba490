//! Image folders that a person sorted: `success/` and `failure/`.
//!
//! Each image is a frame: `000001.png`, or `000001@CAMERA.png` for each camera where there are several. What lies in
//! neither folder (such as in `unsorted/`, where frames wait for a person) is left alone.

use std::collections::BTreeMap;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use plaudit_pyfiles::{Array, DType, plain_file};

use super::cameras::MAIN;
use super::formats::Format;
use super::item::Item;
use super::observation::Columns;
use super::probe::list;
use super::{FileProblem, Recording, Unit};

pub(super) const FORMAT: Format = Format {
    name: "image-folder",
    describe: "images, sorted into folders success and failure",
    noun: ["image", "images"],
    is_at: |probe| Ok(is_at(probe.path)),
    items: |path| {
        let item = |(file, image)| Item::new(file, move |_| Ok(vec![read(&image)?]));
        Ok(frames(path).into_iter().map(item).collect::<Vec<_>>().into())
    },
    location: |_, _| "the image".into(),
    ..Format::EPISODES
};

/// The folders, and what lies in them.
const SORTED: [(&str, bool); 2] = [("success", true), ("failure", false)];
/// Between the name of a frame and its camera.
const AT: char = '@';
/// Pixels of the largest image that is read: no file makes memory run out by what its head says.
const MOST_PIXELS: u64 = 1 << 26;

/// Whether a folder is an image folder.
fn is_at(path: &Path) -> bool {
    SORTED.iter().any(|(name, _)| list(&path.join(name), "png").is_ok_and(|found| !found.is_empty()))
}

/// One frame of an image folder: its label, and its file of each camera.
#[derive(Clone, Debug)]
struct SortedImage {
    success: bool,
    files: BTreeMap<String, PathBuf>,
}

/// Every frame with its name.
fn frames(path: &Path) -> Vec<(PathBuf, SortedImage)> {
    let of = |(folder, success): (&str, bool)| {
        let folder = path.join(folder);
        let frame = move |(name, files): (String, BTreeMap<String, PathBuf>)| {
            (folder.join(format!("{name}.png")), SortedImage { success, files })
        };
        by_frame(&path.join(if success { SORTED[0].0 } else { SORTED[1].0 })).into_iter().map(frame)
    };
    SORTED.into_iter().flat_map(of).collect()
}

/// One frame: a recording of its own, since nobody knows what came before it.
fn read(image: &SortedImage) -> Result<Recording, FileProblem> {
    let camera = |(name, file): (&String, &PathBuf)| Ok((name.clone(), vec![read_image(file)?]));
    let cameras: Vec<_> = image.files.iter().map(camera).collect::<Result<_, FileProblem>>()?;
    // An image without a camera name is of the only camera that is asked for.
    let main = (cameras.len() == 1).then_some(0);
    Ok(Recording {
        unit: Unit::Images,
        is_loose: true,
        observations: Columns { cameras, main, ..Columns::default() }.rows(1),
        labels: vec![Some(image.success)],
        ..Recording::default()
    })
}

/// The images of a folder by frame, then by camera.
fn by_frame(folder: &Path) -> BTreeMap<String, BTreeMap<String, PathBuf>> {
    let mut by_frame: BTreeMap<String, BTreeMap<String, PathBuf>> = BTreeMap::new();
    for file in list(folder, "png").unwrap_or_default() {
        let stem = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let (name, camera) = stem.split_once(AT).unwrap_or((&stem, MAIN));
        by_frame.entry(name.into()).or_default().insert(camera.into(), file);
    }
    by_frame
}

fn read_image(file: &Path) -> Result<Array, FileProblem> {
    let open = plain_file::open(file)?;
    // Room for the pixels in 16 bits and four channels, and for a row or two.
    let limits = png::Limits { bytes: 8 * MOST_PIXELS as usize + (1 << 20) };
    let mut decoder = png::Decoder::new_with_limits(BufReader::new(open), limits);
    decoder.set_transformations(png::Transformations::normalize_to_color8());
    decoder.set_ignore_text_chunk(true);
    decoder.set_ignore_iccp_chunk(true);
    let broken = |error: png::DecodingError| FileProblem::Image { what: error.to_string() };
    let header = decoder.read_header_info().map_err(broken)?;
    if u64::from(header.width) * u64::from(header.height) > MOST_PIXELS {
        let (height, width) = (header.height, header.width);
        let what = format!("{height}x{width} pixels, where {MOST_PIXELS} pixels are read at most");
        return Err(FileProblem::Image { what });
    }
    let mut reader = decoder.read_info().map_err(broken)?;
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
    let wrong = |error: plaudit_pyfiles::ShapeError| FileProblem::Image { what: error.to_string() };
    Array::new(DType::U8, &[height, width, 3], rgb).map_err(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;
    use plaudit_core::FrameShape;

    #[test]
    fn an_image_that_claims_to_be_huge_is_refused_before_memory_is_taken() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("bomb.png");
        let mut bytes = plaudit_draw::encode_png(FrameShape::rgb(1, 1), &[1, 2, 3]).unwrap();
        assert!(std::fs::write(&file, &bytes).is_ok() && read_image(&file).is_ok());
        bytes[16..20].copy_from_slice(&60_000_u32.to_be_bytes());
        bytes[20..24].copy_from_slice(&50_000_u32.to_be_bytes());
        let check = crc32fast::hash(&bytes[12..29]);
        bytes[29..33].copy_from_slice(&check.to_be_bytes());
        std::fs::write(&file, &bytes).unwrap();
        let error = read_image(&file).unwrap_err().to_string();
        assert!(error.contains("50000x60000 pixels"), "{error}");
    }
}
