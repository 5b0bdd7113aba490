//! Folders of pictures that a person sorted: `success/` and `failure/`.
//!
//! Each picture is a moment: `000001.png`, or `000001@CAMERA.png` for each camera where there are several. What lies in
//! neither folder (such as in `unsorted/`, where frames wait for a person) is left alone.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use plaudit_core::FrameShape;

use super::cameras::{CameraKey, MAIN};
use super::error::LabelledError;
use super::image::FrameImage;
use super::{Kind, LabelledData, LabelledEpisode, LabelledFrame};
use crate::convert::list;
use crate::python::Array;

/// The folders, and what lies in them.
const SORTED: [(&str, bool); 2] = [("success", true), ("failure", false)];
/// Between the name of a moment and its camera.
const AT: char = '@';

/// Whether a folder is one of sorted pictures.
pub(super) fn is_at(path: &Path) -> bool {
    SORTED.iter().any(|(name, _)| list(&path.join(name), "png").is_ok_and(|found| !found.is_empty()))
}

/// Every picture, each an episode of its own.
pub(super) fn read(path: &Path, cameras: &[CameraKey]) -> Result<LabelledData, LabelledError> {
    let wrong = |what: String| LabelledError::Images { path: path.into(), what };
    let mut episodes = Vec::new();
    let mut shapes: Option<Vec<FrameShape>> = None;
    for (folder, success) in SORTED {
        for (name, files) in moments(&path.join(folder)) {
            let images: Vec<FrameImage> = cameras
                .iter()
                .map(|camera| {
                    // A picture without a camera is of the only one that is asked for.
                    let only = || (cameras.len() == 1).then(|| files.get(MAIN)).flatten();
                    let place = camera.among(files.keys().map(String::as_str));
                    let file = place.and_then(|place| files.values().nth(place)).or_else(only);
                    let file = file.ok_or_else(|| {
                        wrong(format!("{folder}/{name} has no picture of camera `{}`", camera.written))
                    })?;
                    picture(file)
                })
                .collect::<Result<_, _>>()?;
            let found: Vec<FrameShape> = images.iter().map(FrameImage::shape).collect();
            let first = shapes.get_or_insert_with(|| found.clone());
            if let Some((first, found)) = first.iter().zip(&found).find(|(first, found)| first != found) {
                return Err(wrong(format!(
                    "{folder}/{name} is {}x{} and the first picture {}x{}; all pictures of a camera have one size",
                    found.height, found.width, first.height, first.width
                )));
            }
            let frames = vec![LabelledFrame { images, success, at: 0, state: None }];
            episodes.push(LabelledEpisode { name, folder: folder.into(), frames });
        }
    }
    let names = cameras.iter().map(|camera| camera.written.clone());
    Ok(LabelledData {
        path: path.into(),
        kind: Kind::Pictures,
        cameras: names.zip(shapes.unwrap_or_default()).collect(),
        episodes,
        in_episodes: false,
        has_past: false,
        skipped: Vec::new(),
    })
}

/// The pictures of a folder by moment, then by camera.
fn moments(folder: &Path) -> BTreeMap<String, BTreeMap<String, PathBuf>> {
    let mut moments: BTreeMap<String, BTreeMap<String, PathBuf>> = BTreeMap::new();
    for file in list(folder, "png").unwrap_or_default() {
        let stem = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let (name, camera) = stem.split_once(AT).unwrap_or((&stem, MAIN));
        moments.entry(name.into()).or_default().insert(camera.into(), file);
    }
    moments
}

fn picture(file: &Path) -> Result<FrameImage, LabelledError> {
    let wrong = |what: String| LabelledError::Images { path: file.into(), what };
    let open = File::open(file).map_err(|error| wrong(error.to_string()))?;
    let mut decoder = png::Decoder::new(BufReader::new(open));
    decoder.set_transformations(png::Transformations::normalize_to_color8());
    let broken =
        |error: png::DecodingError| wrong(format!("{error}; take this picture out, or save it again"));
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
    let array = Array::from_slice(&[height, width, 3], &rgb).map_err(|error| wrong(error.to_string()))?;
    FrameImage::of(&array, || "the picture".into())
        .map_err(|problem| LabelledError::Frames(problem.in_file(file)))
}
