//! An episode as LeRobot's frames, under RLinf's names.
//!
//! Frame i has what was seen before action i, that action, and what was known after it. The observation after the
//! last action is not part of this layout.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use parquet::data_type::ByteArray;
use plaudit_core::End;
use plaudit_draw::encode_png;
use rayon::prelude::*;

use super::film;
use super::source::{KnownSuccess, SourceCamera, SourceEpisode};
use super::stats::{self, ImageCounts, Stats};
use super::{ColumnNames, ImageStorage, Settings};
use crate::episode::Episode;
use crate::lerobot::error::Problem;
use crate::lerobot::feature::{Feature, default_features};
use crate::lerobot::table::{Column, Values};
use crate::lerobot::{INTERVENTION, intervention};

/// A person had taken over, in lerobot's words.
const INTERVENED: &str = "complementary_info.is_intervention";
/// Images that are decoded before they are encoded together.
const IMAGES_AT_ONCE: usize = 64;

/// The indices of an episode in its dataset.
#[derive(Debug, Clone, Copy)]
pub(super) struct EpisodeIndices {
    pub(super) episode: u64,
    pub(super) first_frame: u64,
    pub(super) task: u64,
}

/// An episode in columns, with what is known of each feature. Videos are no columns.
pub(super) struct Frames {
    pub(super) columns: Vec<Column>,
    pub(super) stats: Vec<Stats>,
}

/// The features that these episodes have, in RLinf's order. The caller has checked the episode.
pub(super) fn features(source: &SourceEpisode<'_>, settings: &Settings) -> Vec<Feature> {
    let mut all = match settings.columns {
        ColumnNames::Rlinf => rlinf_features(source.episode),
        ColumnNames::LeRobot => lerobot_features(source),
    };
    let cameras: Vec<&str> = source.cameras.iter().map(|camera| &*camera.name).collect();
    let names = match settings.columns {
        ColumnNames::Rlinf => rlinf_cameras(&cameras),
        ColumnNames::LeRobot => cameras.into_iter().map(lerobot_camera).collect(),
    };
    all.extend(names.into_iter().zip(&source.cameras).map(|(name, camera)| match settings.images {
        ImageStorage::Png => Feature::image(name, camera.shape),
        ImageStorage::H264 => Feature::video(name, camera.shape, "h264"),
    }));
    all.extend(default_features());
    all
}

fn widths(episode: &Episode) -> [usize; 2] {
    [&episode.states, &episode.actions].map(|rows| rows.first().map_or(0, Vec::len))
}

fn rlinf_features(episode: &Episode) -> Vec<Feature> {
    let mut all = Vec::new();
    for (name, width) in ["state", "actions"].into_iter().zip(widths(episode)) {
        if width > 0 {
            all.push(Feature::numbers(name, "float32", width));
        }
    }
    for name in ["done", "is_success", INTERVENTION] {
        all.push(Feature::numbers(name, "bool", 1));
    }
    all.push(Feature::numbers("segment_id", "uint8", 1));
    all
}

/// What was recorded, under the names of lerobot's own datasets.
fn lerobot_features(source: &SourceEpisode<'_>) -> Vec<Feature> {
    let mut all = Vec::new();
    for (name, width) in ["observation.state", "action"].into_iter().zip(widths(source.episode)) {
        if width > 0 {
            let names = (0..width).map(|at| format!("{name}_{at}")).collect();
            all.push(Feature { names, ..Feature::numbers(name, "float32", width) });
        }
    }
    let mut flag = |name: &str, dtype: &str| all.push(Feature::numbers(name, dtype, 1));
    if source.has_rewards {
        flag("next.reward", "float32");
    }
    match source.success {
        KnownSuccess::Steps => flag("next.success", "bool"),
        KnownSuccess::Episode => flag("is_success", "bool"),
        KnownSuccess::Nothing => {}
    }
    if source.episode.timesteps.iter().any(|timestep| intervention(&timestep.facts).is_some()) {
        flag(INTERVENED, "bool");
    }
    ["next.done", "next.terminated", "next.truncated"].into_iter().for_each(|name| flag(name, "bool"));
    all
}

/// `observation.images.base_camera`: a name that can stand in a path.
fn lerobot_camera(name: &str) -> String {
    const PREFIX: &str = "observation.images.";
    let name = name.strip_prefix(PREFIX).unwrap_or(name);
    let plain = |sign: char| if sign.is_ascii_alphanumeric() || "_-".contains(sign) { sign } else { '_' };
    format!("{PREFIX}{}", name.chars().map(plain).collect::<String>().trim_end_matches('_'))
}

/// `image` for the main view; `wrist_image` and `extra_view_image` for the others, numbered if there are several.
fn rlinf_cameras(cameras: &[&str]) -> Vec<String> {
    let group = |at: usize, name: &str| match name {
        _ if at == 0 => "image",
        name if name.contains("wrist") || name.contains("hand") => "wrist_image",
        _ => "extra_view_image",
    };
    let groups: Vec<&str> = cameras.iter().enumerate().map(|(at, name)| group(at, name)).collect();
    let name = |(at, group): (usize, &&str)| {
        let same = |groups: &[&str]| groups.iter().filter(|other| *other == group).count();
        if same(&groups) > 1 { format!("{group}-{}", same(&groups[..at])) } else { (*group).to_owned() }
    };
    groups.iter().enumerate().map(name).collect()
}

/// All frames of an episode in columns, images encoded; a video is written to the path that `film` gives its feature.
pub(super) fn frames(
    source: &SourceEpisode<'_>,
    features: &[Feature],
    indices: EpisodeIndices,
    fps: f64,
    film: impl Fn(usize) -> PathBuf,
) -> Result<Frames, Problem> {
    let (episode, frames) = (source.episode, source.episode.len());
    let mut cameras = source.cameras.iter();
    let (mut columns, mut stats) = (Vec::new(), Vec::new());
    for (at, feature) in features.iter().enumerate() {
        let camera = if feature.is_image() || feature.is_video() { cameras.next() } else { None };
        let (values, known) = match camera {
            Some(camera) if feature.is_video() => {
                let path: &Path = &film(at);
                stats.push(film::write(path, camera, frames, fps)?);
                continue;
            }
            Some(camera) => images(camera, frames)?,
            None => {
                let values = numbers(episode, indices, fps, &feature.name);
                let known = stats::of_numbers(&values, feature.shape[0]);
                (values, known)
            }
        };
        stats.push(known);
        let depth = usize::from(!feature.is_image() && feature.shape != [1]);
        columns.push(Column::list(feature.name.clone(), depth, values));
    }
    Ok(Frames { columns, stats })
}

/// The numbers of all frames under one of RLinf's names, or of lerobot's.
fn numbers(episode: &Episode, indices: EpisodeIndices, fps: f64, name: &str) -> Values {
    let frames = episode.len();
    let count = |first: u64| Values::I64((0..frames as u64).map(|frame| (first + frame) as i64).collect());
    let same = |value: u64| Values::I64(vec![value as i64; frames]);
    let facts =
        |name: &'static str| episode.timesteps[1..].iter().map(move |timestep| fact(&timestep.facts, name));
    let after = || episode.timesteps[1..].iter();
    let flags = |of: &dyn Fn(&crate::episode::Timestep) -> bool| Values::Bool(after().map(of).collect());
    match name {
        "next.reward" => Values::F32(after().map(|timestep| timestep.reward).collect()),
        "next.success" => flags(&|timestep| timestep.success == Some(true)),
        "next.terminated" => flags(&|timestep| timestep.end == End::Terminated),
        "next.truncated" => flags(&|timestep| timestep.end == End::Truncated),
        "state" | "observation.state" => Values::F32(episode.states[..frames].concat()),
        "actions" | "action" => Values::F32(episode.actions.concat()),
        "done" | "next.done" => Values::Bool((1..=frames).map(|frame| frame == frames).collect()),
        "is_success" => Values::Bool(vec![episode.success; frames]),
        INTERVENTION | INTERVENED => flags(&|timestep| intervention(&timestep.facts) == Some(true)),
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

/// Images as PNG files, some at a time: encoded together, asked for in order.
fn images(camera: &SourceCamera<'_>, frames: usize) -> Result<(Values, Stats), Problem> {
    let mut encoded = Vec::with_capacity(frames);
    let mut counts = ImageCounts::new(camera.shape.channels);
    for first in (0..frames).step_by(IMAGES_AT_ONCE) {
        let some = (first..frames.min(first + IMAGES_AT_ONCE)).map(|at| camera.at(at));
        let some = some.collect::<Result<Vec<_>, Problem>>()?;
        some.iter().for_each(|image| counts.add(image));
        let shape = camera.shape;
        let png = |image: &Cow<'_, [u8]>| encode_png(shape, image).map(ByteArray::from);
        let files: Option<Vec<ByteArray>> = some.par_iter().map(png).collect();
        encoded.extend(files.ok_or_else(|| {
            Problem::Episode(format!("camera `{}` of shape {:?} is not an image", camera.name, camera.shape))
        })?);
    }
    let names =
        (0..frames).map(|frame| ByteArray::from(format!("frame-{frame:06}.png").into_bytes())).collect();
    Ok((Values::Images(encoded, names), counts.stats()))
}

/// Episodes are plain data that anyone may fill in: everything has its length.
pub(super) fn check(source: &SourceEpisode<'_>, storage: ImageStorage) -> Result<(), Problem> {
    let episode = source.episode;
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
    for camera in &source.cameras {
        if camera.shape.bytes() == 0 {
            return fail(format!("camera `{}` of shape {:?} is not an image", camera.name, camera.shape));
        }
        if storage == ImageStorage::H264 {
            film::check(camera)?;
        }
    }
    Ok(())
}

/// No two features have one name.
pub(super) fn check_names(features: &[Feature]) -> Result<(), Problem> {
    let twice =
        |(at, feature): &(usize, &Feature)| features[..*at].iter().any(|other| other.name == feature.name);
    match features.iter().enumerate().find(twice) {
        Some((_, feature)) => Err(Problem::Episode(format!("two cameras are called `{}`", feature.name))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cameras_get_the_names_rlinf_gives_them() {
        assert_eq!(rlinf_cameras(&["main"]), ["image"]);
        assert_eq!(rlinf_cameras(&["main", "wrist", "side"]), ["image", "wrist_image", "extra_view_image"]);
        assert_eq!(
            rlinf_cameras(&["wrist_1", "wrist_2", "wrist_3"]),
            ["image", "wrist_image-0", "wrist_image-1"]
        );
        assert_eq!(
            rlinf_cameras(&["image", "wrist_image-0", "wrist_image-1"])[1..],
            ["wrist_image-0", "wrist_image-1"]
        );
    }

    #[test]
    fn lerobot_names_can_stand_in_a_path() {
        for (name, expected) in [
            ("base_camera", "observation.images.base_camera"),
            ("observation.images.top", "observation.images.top"),
            ("extra_view_images[1]", "observation.images.extra_view_images_1"),
            ("../../etc", "observation.images.______etc"),
        ] {
            assert_eq!(lerobot_camera(name), expected);
        }
    }
}
