//! Frames as images that a browser shows: strips of several, and small ones for lists.

use std::sync::{Arc, Mutex, PoisonError};

use plaudit_core::FrameShape;
use plaudit_data::recording::Recording;
use plaudit_draw::Canvas;

use crate::http::Refusal;
use crate::library::{EpisodeKey, OpenEpisode};
use crate::lru::Lru;

/// Bytes of encoded images that are kept.
const KEPT_BYTES: usize = 64 << 20;
/// The longer side of a frame in a player.
pub(crate) const FRAME_SIDE: usize = 512;
/// The longer side of a frame in a list.
const THUMB_SIDE: usize = 120;
/// Pixels of one strip, and frames.
const STRIP_PIXELS: usize = 1 << 20;
const STRIP_FRAMES: usize = 32;
/// Pixels of a camera's frame that is shown.
const MOST_PIXELS: usize = 64 << 20;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum ImageKey {
    Strip { episode: EpisodeKey, camera: String, from: usize, count: usize },
    Thumb(EpisodeKey),
}

/// Images that were made lately.
pub(crate) struct Images {
    kept: Mutex<Lru<ImageKey, Arc<Vec<u8>>>>,
}

/// A camera as a player shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CameraView {
    pub(crate) name: String,
    pub(crate) width: usize,
    pub(crate) height: usize,
    /// Frames of a strip.
    pub(crate) chunk: usize,
}

impl Default for Images {
    fn default() -> Self {
        Self { kept: Mutex::new(Lru::new(KEPT_BYTES)) }
    }
}

/// Width and height of a frame whose longer side is so long at most.
pub(crate) fn fitted((height, width): (usize, usize), side: usize) -> (usize, usize) {
    let long = height.max(width).max(1);
    match long > side {
        true => ((height * side / long).max(1), (width * side / long).max(1)),
        false => (height.max(1), width.max(1)),
    }
}

/// The cameras of an episode that can be shown.
pub(crate) fn cameras(recording: &Recording) -> Vec<CameraView> {
    let view = |name: String| {
        let shape = recording.frame(0, &name).ok().flatten()?.shape();
        if shape.height * shape.width > MOST_PIXELS {
            return None;
        }
        let (height, width) = fitted((shape.height, shape.width), FRAME_SIDE);
        let chunk = (STRIP_PIXELS / (height * width)).clamp(1, STRIP_FRAMES);
        Some(CameraView { name, width, height, chunk })
    };
    recording.cameras().into_iter().filter_map(view).collect()
}

/// A frame of a camera, fitted into a size; grey where there is none.
pub(crate) fn frame(
    recording: &Recording,
    at: usize,
    camera: &str,
    (height, width): (usize, usize),
) -> Result<Canvas, Refusal> {
    let failed = |error: &dyn std::fmt::Display| Refusal::failed(error.to_string());
    let mut place = Canvas::filled(width, height, [96; 3]);
    let Some(image) = recording.frame(at, camera).map_err(|error| failed(&error))? else { return Ok(place) };
    let (shape, pixels) = (image.shape(), image.pixels().map_err(|error| failed(&error))?);
    let is_plain = (shape.height, shape.width) == (height, width) && matches!(shape.channels, 1 | 3);
    if is_plain && pixels.len() == shape.height * shape.width * shape.channels {
        place.paste((0, 0), FrameShape { height, width, ..shape }, &pixels);
    } else {
        place.put((0, 0), &Canvas::fitted(shape, &pixels, height.max(width)));
    }
    Ok(place)
}

impl Images {
    fn kept(
        &self,
        key: ImageKey,
        make: impl FnOnce() -> Result<Canvas, Refusal>,
    ) -> Result<Arc<Vec<u8>>, Refusal> {
        if let Some(found) = self.kept.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return Ok(found);
        }
        let made = Arc::new(make()?.png());
        let cost = made.len();
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).put(key, made.clone(), cost);
        Ok(made)
    }

    /// Frames of a camera side by side, as a PNG. Of a strip that goes beyond the end, there is the beginning.
    pub(crate) fn strip(
        &self,
        episode: &OpenEpisode,
        camera: &str,
        from: usize,
        count: usize,
    ) -> Result<Arc<Vec<u8>>, Refusal> {
        let recording = episode.recording();
        let views = cameras(recording);
        let view = views.iter().find(|view| view.name == camera);
        let view = view.ok_or_else(|| Refusal::not_found(format!("there is no camera `{camera}`")))?;
        if from >= recording.len() {
            return Err(Refusal::not_found(format!("there is no frame {from}")));
        }
        let count = count.clamp(1, view.chunk).min(recording.len() - from);
        let key = ImageKey::Strip { episode: episode.key.clone(), camera: camera.into(), from, count };
        self.kept(key, || {
            let mut strip = Canvas::filled(view.width * count, view.height, [0; 3]);
            for number in 0..count {
                let image = frame(recording, from + number, camera, (view.height, view.width))?;
                strip.put((number * view.width, 0), &image);
            }
            Ok(strip)
        })
    }

    /// The first, middle and last frame of the first camera, small, as a PNG.
    pub(crate) fn thumb(&self, episode: &OpenEpisode) -> Result<Arc<Vec<u8>>, Refusal> {
        let recording = episode.recording();
        let view =
            cameras(recording).into_iter().next().ok_or_else(|| Refusal::not_found("it has no images"))?;
        self.kept(ImageKey::Thumb(episode.key.clone()), || {
            let side = THUMB_SIDE;
            let (height, width) = fitted((view.height, view.width), side);
            let mut thumb = Canvas::filled(3 * side, side, [12, 15, 18]);
            let last = recording.len().saturating_sub(1);
            for (place, at) in [0, last / 2, last].into_iter().enumerate() {
                let image = frame(recording, at, &view.name, (height, width))?;
                thumb.put((place * side + (side - width) / 2, (side - height) / 2), &image);
            }
            Ok(thumb)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_made_smaller_and_never_larger() {
        assert_eq!(fitted((128, 128), 512), (128, 128));
        assert_eq!(fitted((480, 640), 320), (240, 320));
        assert_eq!(fitted((1, 4000), 100), (1, 100));
        assert_eq!(fitted((0, 0), 10), (1, 1));
    }
}
