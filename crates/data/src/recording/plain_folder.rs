//! Plain folders: an episode is a video (`NAME.mp4`) or a folder of images (PNG or JPEG, in the order of their names).
//!
//! Several cameras are `NAME@CAMERA.mp4`, or `000001@CAMERA.png` for each image. What succeeded is said by folders `success` and
//! `failure` around the episodes, or by a table among them: `labels.csv`, `labels.json` or `labels.jsonl`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use plaudit_pyfiles::{Array, DType};

use super::cameras::MAIN;
use super::error::OpenError;
use super::formats::Format;
use super::image_file::{read_jpeg, read_png};
use super::item::{Item, Items};
use super::observation::Columns;
use super::probe::{Probe, is_inside, list};
use super::{FileProblem, Recording};
use crate::video::Video;

pub(super) const FORMAT: Format = Format {
    name: "plain-folder",
    describe: "videos or folders of images",
    is_at: |probe| {
        Ok(probe.is_file(&["mp4"]) || !probe.path.is_file() && !is_anothers(probe)? && has_any(probe.path)?)
    },
    items: items_at,
    ..Format::EPISODES
};

/// Folders that say how the episodes in them went.
const OUTCOMES: [(&str, bool); 2] = [("success", true), ("failure", false)];
const TABLES: [&str; 3] = ["labels.csv", "labels.json", "labels.jsonl"];
const IMAGES: [&str; 3] = ["png", "jpg", "jpeg"];
/// Bytes of all frames of the largest episode that is read.
const MOST_BYTES: u64 = 1 << 35;

/// The files of an episode, by camera.
#[derive(Clone, Debug)]
enum Filmed {
    Videos(BTreeMap<String, PathBuf>),
    Images(BTreeMap<String, Vec<PathBuf>>),
}

/// Whether files of collectors lie there or in folders by outcome: videos beside them are of the same episodes, and folders of images
/// are what somebody looked at.
fn is_anothers(probe: &Probe<'_>) -> Result<bool, OpenError> {
    let by_outcome = ["positive", "negative", "success", "failure"].map(|name| probe.path.join(name));
    let has_collected = |folder: &PathBuf| -> Result<bool, OpenError> {
        Ok(folder.is_dir() && !(list(folder, "npy")?.is_empty() && list(folder, "pkl")?.is_empty()))
    };
    for folder in by_outcome {
        if has_collected(&folder)? {
            return Ok(true);
        }
    }
    Ok(probe.has_files("pkl")? || probe.has_files("npy")? || probe.has_files("pt")?)
}

fn has_any(path: &Path) -> Result<bool, OpenError> {
    for folder in folders(path) {
        let mut below = subfolders(&folder.0)?.into_iter();
        if !list(&folder.0, "mp4")?.is_empty() || below.any(|folder| has_images(&folder)) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The folder itself and those by outcome in it, each with what it says.
fn folders(path: &Path) -> Vec<(PathBuf, Option<bool>)> {
    let own = OUTCOMES.iter().find(|(name, _)| path.ends_with(name)).map(|(_, outcome)| *outcome);
    let below = OUTCOMES.iter().map(|(name, outcome)| (path.join(name), Some(*outcome)));
    std::iter::once((path.into(), own)).chain(below.filter(|(folder, _)| folder.is_dir())).collect()
}

/// The folders in a folder that are not hidden and not by outcome.
fn subfolders(path: &Path) -> Result<Vec<PathBuf>, OpenError> {
    let failed = |source| OpenError::Read { path: path.into(), source };
    let mut found = Vec::new();
    for entry in fs::read_dir(path).map_err(failed)? {
        let folder = entry.map_err(failed)?.path();
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let is_other = name.starts_with('.') || OUTCOMES.iter().any(|(outcome, _)| *outcome == name);
        if !is_other && folder.is_dir() {
            found.push(folder);
        }
    }
    found.sort();
    Ok(found)
}

fn has_images(folder: &Path) -> bool {
    IMAGES.iter().any(|ending| list(folder, ending).is_ok_and(|found| !found.is_empty()))
}

fn items_at(path: &Path) -> Result<Items, OpenError> {
    let root = if path.is_file() { path.parent().unwrap_or(Path::new(".")) } else { path };
    let mut found = Items::default();
    let mut add = |name: PathBuf, files: Vec<PathBuf>, filmed: Filmed, outcome: Option<bool>| {
        let item = match files.into_iter().find(|file| !is_inside(root, file)) {
            Some(file) => Item::new(file, |_| Err(FileProblem::Outside)),
            None => Item::new(name, move |_| Ok(vec![read(&filmed, outcome)?])),
        };
        found.items.push(item.with_outcome(outcome));
    };
    if path.is_file() {
        let filmed = Filmed::Videos([(MAIN.to_owned(), path.to_owned())].into());
        add(path.into(), vec![path.into()], filmed, None);
        return Ok(found);
    }
    for (folder, outcome) in folders(path) {
        for (name, cameras) in by_camera(list(&folder, "mp4")?) {
            let files = cameras.values().flatten().cloned().collect();
            let one =
                cameras.into_iter().filter_map(|(camera, files)| Some((camera, files.into_iter().next()?)));
            add(folder.join(format!("{name}.mp4")), files, Filmed::Videos(one.collect()), outcome);
        }
        for episode in subfolders(&folder)?.into_iter().filter(|folder| has_images(folder)) {
            let mut files =
                IMAGES.iter().map(|ending| list(&episode, ending)).collect::<Result<Vec<_>, _>>()?.concat();
            files.sort();
            let mut cameras: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
            for file in &files {
                cameras.entry(camera_of(file).1).or_default().push(file.clone());
            }
            add(episode, files, Filmed::Images(cameras), outcome);
        }
    }
    found.labels =
        TABLES.iter().map(|name| path.join(name)).find(|table| table.is_file() && is_inside(path, table));
    Ok(found)
}

/// `NAME@CAMERA`, or a name alone.
fn camera_of(file: &Path) -> (String, String) {
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    let (name, camera) = stem.split_once('@').unwrap_or((&stem, MAIN));
    (name.into(), camera.into())
}

fn by_camera(files: Vec<PathBuf>) -> BTreeMap<String, BTreeMap<String, Vec<PathBuf>>> {
    let mut found: BTreeMap<String, BTreeMap<String, Vec<PathBuf>>> = BTreeMap::new();
    for file in files {
        let (name, camera) = camera_of(&file);
        found.entry(name).or_default().entry(camera).or_default().push(file);
    }
    found
}

/// One episode. A folder `failure` says so of every frame; `success` does not say where.
fn read(filmed: &Filmed, outcome: Option<bool>) -> Result<Recording, FileProblem> {
    let mut cameras: Vec<(String, Vec<Array>)> = Vec::new();
    match filmed {
        Filmed::Videos(files) => {
            for (name, file) in files {
                cameras.push((name.clone(), video(file)?));
            }
        }
        Filmed::Images(files) => {
            for (name, files) in files {
                cameras.push((name.clone(), images(files)?));
            }
        }
    }
    let count = cameras.first().map_or(0, |(_, frames)| frames.len());
    if let Some((name, frames)) = cameras.iter().find(|(_, frames)| frames.len() != count) {
        let what = format!("{} frames of `{name}`, and {count} of `{}`", frames.len(), cameras[0].0);
        return Err(FileProblem::Lists { what });
    }
    let main = cameras.iter().position(|(name, _)| name == MAIN);
    Ok(Recording {
        labels: vec![outcome.filter(|success| !success); count],
        success: outcome,
        observations: Columns { cameras, main, ..Columns::default() }.rows(count),
        ..Recording::default()
    })
}

fn video(file: &Path) -> Result<Vec<Array>, FileProblem> {
    let failed = |error: crate::video::VideoError| wrong(file, &error);
    let video = Video::open(file).map_err(failed)?;
    let (shape, count) = (video.shape(), video.len());
    let bytes = room(file, shape.bytes(), count)?;
    let mut rgb = vec![0; bytes];
    video.decode(0..count, &mut rgb).map_err(failed)?;
    let all = Array::new(DType::U8, &[count, shape.height, shape.width, 3], rgb);
    let all = all.map_err(|error| wrong(file, &error))?;
    Ok((0..count).map_while(|at| all.row(at)).collect())
}

fn images(files: &[PathBuf]) -> Result<Vec<Array>, FileProblem> {
    let mut found: Vec<Array> = Vec::with_capacity(files.len());
    for file in files {
        let is_png = file.extension().is_some_and(|extension| extension == "png");
        let image = if is_png { read_png(file) } else { read_jpeg(file) };
        let image = image.map_err(|problem| wrong(file, &problem))?;
        if found.is_empty() {
            room(file, image.bytes().len(), files.len())?;
        }
        found.push(image);
    }
    Ok(found)
}

/// Bytes of so many frames, if an episode may have as many.
fn room(file: &Path, each: usize, count: usize) -> Result<usize, FileProblem> {
    let bytes = each.saturating_mul(count);
    match bytes as u64 <= MOST_BYTES {
        true => Ok(bytes),
        false => {
            Err(wrong(file, &format!("{bytes} bytes of frames, where {MOST_BYTES} are read at most: cut it")))
        }
    }
}

/// Names the file within an episode.
fn wrong(file: &Path, error: &dyn std::fmt::Display) -> FileProblem {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    FileProblem::Image { what: format!("{name}: {error}") }
}
