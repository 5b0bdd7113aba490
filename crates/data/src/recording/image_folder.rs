//! Image folders that a person sorted: `success/` and `failure/`.
//!
//! Each image is a frame: `000001.png`, or `000001@CAMERA.png` for each camera where there are several. What lies in
//! neither folder (such as in `unsorted/`, where frames wait for a person) is left alone.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::cameras::MAIN;
use super::formats::Format;
use super::image_file::read_png;
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
    let camera = |(name, file): (&String, &PathBuf)| Ok((name.clone(), vec![read_png(file)?]));
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
