//! An episode as LeRobot's frames, under RLinf's names.
//!
//! Frame i has what was seen before action i, that action, and what was known after it. The observation after the
//! last action is not part of this layout.

use parquet::data_type::ByteArray;
use plaudit_draw::encode_png;
use rayon::prelude::*;

use super::stats::{self, Stats};
use crate::episode::{CameraTrack, Episode};
use crate::lerobot::error::Problem;
use crate::lerobot::feature::{Feature, default_features};
use crate::lerobot::table::{Column, Values};

/// The indices of an episode in its dataset.
#[derive(Debug, Clone, Copy)]
pub(super) struct EpisodeIndices {
    pub(super) episode: u64,
    pub(super) first_frame: u64,
    pub(super) task: u64,
}

/// An episode in columns, with what is known of each.
pub(super) struct Frames {
    pub(super) features: Vec<Feature>,
    pub(super) columns: Vec<Column>,
    pub(super) stats: Vec<Stats>,
}

/// The columns that these episodes have, in RLinf's order. The caller has checked the episode.
pub(super) fn features(episode: &Episode) -> Vec<Feature> {
    let mut all = Vec::new();
    let state = episode.states.first().map_or(0, Vec::len);
    let action = episode.actions.first().map_or(0, Vec::len);
    for (name, width) in [("state", state), ("actions", action)] {
        if width > 0 {
            all.push(Feature::numbers(name, "float32", width));
        }
    }
    for name in ["done", "is_success", "intervene_flag"] {
        all.push(Feature::numbers(name, "bool", 1));
    }
    all.push(Feature::numbers("segment_id", "uint8", 1));
    let names = camera_names(&episode.cameras);
    all.extend(
        names.into_iter().zip(&episode.cameras).map(|(name, track)| Feature::image(name, track.shape)),
    );
    all.extend(default_features());
    all
}

/// `image` for the main view; `wrist_image` and `extra_view_image` for the others, numbered if there are several.
fn camera_names(cameras: &[CameraTrack]) -> Vec<String> {
    let group = |at: usize, track: &CameraTrack| match &*track.name {
        _ if at == 0 => "image",
        name if name.contains("wrist") || name.contains("hand") => "wrist_image",
        _ => "extra_view_image",
    };
    let groups: Vec<&str> = cameras.iter().enumerate().map(|(at, track)| group(at, track)).collect();
    let name = |(at, group): (usize, &&str)| {
        let same = |groups: &[&str]| groups.iter().filter(|other| *other == group).count();
        if same(&groups) > 1 { format!("{group}-{}", same(&groups[..at])) } else { (*group).to_owned() }
    };
    groups.iter().enumerate().map(name).collect()
}

/// All frames of an episode in columns, images encoded.
pub(super) fn frames(episode: &Episode, indices: EpisodeIndices, fps: f64) -> Result<Frames, Problem> {
    check(episode)?;
    let features = features(episode);
    let mut tracks = episode.cameras.iter();
    let (mut columns, mut stats) = (Vec::new(), Vec::new());
    for feature in &features {
        let values = match tracks.as_slice().first() {
            Some(track) if feature.is_image() => {
                tracks.next();
                stats.push(stats::of_images(track, episode.len()));
                images(track, episode.len())?
            }
            _ => {
                let values = numbers(episode, indices, fps, &feature.name);
                stats.push(stats::of_numbers(&values, feature.shape[0]));
                values
            }
        };
        let depth = usize::from(!feature.is_image() && feature.shape != [1]);
        columns.push(Column::list(feature.name.clone(), depth, values));
    }
    Ok(Frames { features, columns, stats })
}

/// The numbers of all frames under one of RLinf's names.
fn numbers(episode: &Episode, indices: EpisodeIndices, fps: f64, name: &str) -> Values {
    let frames = episode.len();
    let count = |first: u64| Values::I64((0..frames as u64).map(|frame| (first + frame) as i64).collect());
    let same = |value: u64| Values::I64(vec![value as i64; frames]);
    let facts =
        |name: &'static str| episode.timesteps[1..].iter().map(move |timestep| fact(&timestep.facts, name));
    match name {
        "state" => Values::F32(episode.states[..frames].concat()),
        "actions" => Values::F32(episode.actions.concat()),
        "done" => Values::Bool((1..=frames).map(|frame| frame == frames).collect()),
        "is_success" => Values::Bool(vec![episode.success; frames]),
        "intervene_flag" => Values::Bool(facts("intervene_flag").map(|value| value != 0.0).collect()),
        "segment_id" => Values::U8(facts("segment_id").map(|value| i32::from(value as u8)).collect()),
        "timestamp" => Values::F32((0..frames).map(|frame| (frame as f64 / fps) as f32).collect()),
        "frame_index" => count(0),
        "episode_index" => same(indices.episode),
        "index" => count(indices.first_frame),
        _ => same(indices.task),
    }
}

fn fact(facts: &[(std::sync::Arc<str>, f32)], name: &str) -> f32 {
    facts.iter().find(|(fact, _)| &**fact == name).map_or(0.0, |(_, value)| *value)
}

fn images(track: &CameraTrack, frames: usize) -> Result<Values, Problem> {
    let encoded: Option<Vec<ByteArray>> = (0..frames)
        .into_par_iter()
        .map(|frame| encode_png(track.shape, track.image(frame)).map(ByteArray::from))
        .collect();
    let unfit =
        || Problem::Episode(format!("camera `{}` of shape {:?} is not an image", track.name, track.shape));
    let names =
        (0..frames).map(|frame| ByteArray::from(format!("frame-{frame:06}.png").into_bytes())).collect();
    Ok(Values::Images(encoded.ok_or_else(unfit)?, names))
}

/// Episodes are plain data that anyone may fill in: everything has its length.
pub(super) fn check(episode: &Episode) -> Result<(), Problem> {
    let (frames, fail) = (episode.len(), |what: String| Err(Problem::Episode(what)));
    for (what, got) in [("states", episode.states.len()), ("timesteps", episode.timesteps.len())] {
        if got != frames + 1 {
            return fail(format!(
                "{got} {what} for {frames} actions, where one more than actions are needed"
            ));
        }
    }
    for (what, rows) in [("states", &episode.states), ("actions", &episode.actions)] {
        if rows.iter().any(|row| row.len() != rows[0].len()) {
            return fail(format!("{what} of different widths"));
        }
    }
    for track in &episode.cameras {
        let bytes = track.shape.bytes();
        if bytes == 0 || track.pixels.len() != (frames + 1) * bytes {
            let got = track.pixels.len();
            return fail(format!("{got} bytes of images of camera `{}` for {frames} actions", track.name));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use plaudit_core::FrameShape;

    #[test]
    fn cameras_get_the_names_rlinf_gives_them() {
        let names = |names: &[&str]| {
            let track = |name: &&str| CameraTrack {
                name: (*name).into(),
                shape: FrameShape::rgb(1, 1),
                pixels: Vec::new().into(),
            };
            camera_names(&names.iter().map(track).collect::<Vec<_>>())
        };
        assert_eq!(names(&["main"]), ["image"]);
        assert_eq!(names(&["main", "wrist", "side"]), ["image", "wrist_image", "extra_view_image"]);
        assert_eq!(names(&["wrist_1", "wrist_2", "wrist_3"]), ["image", "wrist_image-0", "wrist_image-1"]);
        assert_eq!(
            names(&["image", "wrist_image-0", "wrist_image-1"])[1..],
            ["wrist_image-0", "wrist_image-1"]
        );
    }
}
