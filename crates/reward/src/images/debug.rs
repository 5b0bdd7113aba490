//! Images of a dataset under the names that RLinf's guides give them.

use std::fs;
use std::path::Path;

use rayon::prelude::*;

use super::{ImageWriteError, Png};
use crate::dataset::Frames;

/// Saves every frame of a split as `{part}/{success|fail}/{part}_{number:05}.png`. Of several views, the first.
///
/// # Errors
/// When an image cannot be written.
pub fn save_split(frames: &Frames, part: &str, folder: &Path) -> Result<(), ImageWriteError> {
    for label in ["success", "fail"] {
        make(&folder.join(part).join(label))?;
    }
    (0..frames.len()).into_par_iter().try_for_each(|at| {
        let label = if frames.success(at) { "success" } else { "fail" };
        save(frames, at, &folder.join(part).join(label).join(format!("{part}_{at:05}.png")))
    })
}

/// Saves every success as `{folder of its episode}_{episode}_frame{entry:03}.png`, and says how many there are.
///
/// # Errors
/// When an image cannot be written.
pub fn save_successes(frames: &Frames, folder: &Path) -> Result<usize, ImageWriteError> {
    make(folder)?;
    let successes: Vec<usize> = (0..frames.len()).filter(|at| frames.success(*at)).collect();
    successes.par_iter().try_for_each(|at| {
        let origin = frames.origin(*at);
        let name = format!("{}_{}_frame{:03}.png", origin.folder, origin.episode, origin.at);
        save(frames, *at, &folder.join(name))
    })?;
    Ok(successes.len())
}

fn make(folder: &Path) -> Result<(), ImageWriteError> {
    fs::create_dir_all(folder).map_err(|source| ImageWriteError { path: folder.into(), source })
}

fn save(frames: &Frames, at: usize, path: &Path) -> Result<(), ImageWriteError> {
    let image = frames.image(at, 0);
    let failed = |source| ImageWriteError { path: path.into(), source };
    let pixels = image.pixels().map_err(|problem| failed(std::io::Error::other(problem.to_string())))?;
    let png = Png::of(image.shape(), &pixels);
    fs::write(path, png.bytes).map_err(failed)
}
