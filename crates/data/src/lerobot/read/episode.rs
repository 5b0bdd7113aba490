//! Columns of a data file as an [`Episode`].

use std::ops::Range;
use std::sync::Arc;

use plaudit_core::{End, FrameShape};
use rayon::prelude::*;

use super::OpenVideos;
use super::info::Info;
use super::limits::Limits;
use super::locations::{EpisodeLocation, Tasks, VideoLocation};
use crate::episode::{CameraTrack, Episode, Timestep};
use crate::lerobot::error::{InFile, LeRobotError, Problem, Result, mismatch};
use crate::lerobot::feature::Feature;
use crate::lerobot::png_image;
use crate::lerobot::table::Table;
use crate::lerobot::{INTERVENTION, INTERVENTIONS};
use crate::video::{VideoError, VideoSegment};

/// Names of the same thing in datasets of different origin; the first that is there counts.
const STATE: [&str; 3] = ["state", "observation.state", "states"];
const ACTION: [&str; 2] = ["actions", "action"];
const REWARD: [&str; 3] = ["next.reward", "reward", "rewards"];
const EPISODE_SUCCESS: [&str; 1] = ["is_success"];
const STEP_SUCCESS: [&str; 2] = ["next.success", "success"];
const TERMINATED: [&str; 2] = ["next.terminated", "terminated"];
const TRUNCATED: [&str; 2] = ["next.truncated", "truncated"];
/// Facts, by the name that they have here.
const FACTS: [(&str, &[&str]); 2] = [(INTERVENTION, &INTERVENTIONS), ("segment_id", &["segment_id"])];

/// An episode whose videos are decoded when their frames are asked for.
#[derive(Debug)]
pub struct FilmedEpisode {
    /// The episode, with the cameras whose images are no videos.
    pub episode: Episode,
    /// Cameras whose images are videos, by name. They have a frame for each action, and none after the last.
    pub videos: Vec<(Arc<str>, VideoSegment)>,
}

/// An episode of an open file.
pub(super) struct EpisodeReader<'a> {
    pub(super) info: &'a Info,
    pub(super) limits: &'a Limits,
    pub(super) tasks: &'a Tasks,
    pub(super) videos: &'a OpenVideos,
    pub(super) table: &'a Table,
    pub(super) location: &'a EpisodeLocation,
}

impl EpisodeReader<'_> {
    /// Reads it all. The layout has no observation after the last action: that one is the last there is, again.
    pub(super) fn read(&self) -> Result<Episode> {
        self.check_size(Feature::is_video)?;
        let FilmedEpisode { mut episode, videos } = self.read_filmed()?;
        for ((name, video), location) in videos.into_iter().zip(&self.location.videos) {
            let track = decoded(name.clone(), &video).in_column(&location.file, &name)?;
            episode.cameras.push(track);
        }
        episode.cameras.sort_by_key(|track| &*track.name != "image");
        Ok(episode)
    }

    /// The same, with videos as they are.
    pub(super) fn read_filmed(&self) -> Result<FilmedEpisode> {
        self.check_size(|_| false)?;
        self.check_rows()?;
        let actions = self.vectors(&ACTION)?.ok_or_else(|| self.missing("actions"))?;
        let mut states = self.vectors(&STATE)?.unwrap_or_else(|| vec![Vec::new(); actions.len()]);
        states.extend(states.last().cloned());
        let (timesteps, success) = self.timesteps()?;
        let episode = Episode {
            row: 0,
            number: self.location.episode,
            batch_step: self.location.first_row + self.location.frames,
            success,
            task: self.task()?,
            cameras: self.cameras()?,
            states,
            actions,
            timesteps,
        };
        Ok(FilmedEpisode { episode, videos: self.videos()? })
    }

    fn rows(&self) -> Range<u64> {
        self.location.first_row..self.location.first_row + self.location.frames
    }

    /// The first of these columns that the dataset has.
    fn find(&self, names: &[&str]) -> Option<&Feature> {
        names.iter().find_map(|name| self.info.feature(name))
    }

    /// A vector per frame.
    fn vectors(&self, names: &[&str]) -> Result<Option<Vec<Vec<f32>>>> {
        let Some(feature) = self.find(names) else { return Ok(None) };
        let width = feature.width().filter(|width| *width > 0).ok_or_else(|| self.too_wide(feature))?;
        let flat = self.table.floats(&feature.name, self.rows(), width)?;
        Ok(Some(flat.chunks_exact(width).map(<[f32]>::to_vec).collect()))
    }

    /// A number per frame; nothing where the dataset has no such column.
    fn numbers(&self, names: &[&str]) -> Result<Option<Vec<f32>>> {
        self.find(names).map(|feature| self.table.floats(&feature.name, self.rows(), 1)).transpose()
    }

    /// A label per frame, 0 or 1; nothing where the dataset has no such column.
    fn labels(&self, names: &[&str]) -> Result<Option<Vec<f32>>> {
        let Some(labels) = self.numbers(names)? else { return Ok(None) };
        match labels.iter().position(|label| *label != 0.0 && *label != 1.0) {
            None => Ok(Some(labels)),
            Some(at) => {
                let column = self.find(names).map_or("", |feature| &feature.name);
                let found = format!("{} at frame {at} of episode {}", labels[at], self.location.episode);
                Err(mismatch("labels of 0 or 1", found)).in_column(self.table.path(), column)
            }
        }
    }

    /// What happened after each action, and whether the task was solved.
    fn timesteps(&self) -> Result<(Vec<Timestep>, bool)> {
        let rewards = self.numbers(&REWARD)?;
        let (episode_success, solved) = (self.labels(&EPISODE_SUCCESS)?, self.labels(&STEP_SUCCESS)?);
        let (terminated, truncated) = (self.numbers(&TERMINATED)?, self.numbers(&TRUNCATED)?);
        let mut facts = Vec::new();
        for (name, columns) in FACTS {
            facts.extend(self.numbers(columns)?.map(|values| (Arc::<str>::from(name), values)));
        }
        let any = |column: &Option<Vec<f32>>| column.iter().flatten().any(|value| *value != 0.0);
        let is = |column: &Option<Vec<f32>>, at: usize| column.as_ref().map(|values| values[at] != 0.0);
        let success = any(&solved) || any(&episode_success);
        let frames = self.location.frames as usize;
        let timestep = |at: usize| {
            let last = at + 1 == frames;
            Timestep {
                reward: rewards.as_ref().map_or(0.0, |values| values[at]),
                end: end(last, success, is(&terminated, at), is(&truncated, at)),
                success: is(&solved, at).or_else(|| (last && episode_success.is_some()).then_some(success)),
                facts: facts.iter().map(|(name, values)| (name.clone(), values[at])).collect(),
            }
        };
        let reset = Timestep { reward: 0.0, end: End::No, success: None, facts: Vec::new() };
        Ok((std::iter::once(reset).chain((0..frames).map(timestep)).collect(), success))
    }

    fn task(&self) -> Result<Option<Arc<str>>> {
        if !self.table.has("task_index") {
            return Ok(None);
        }
        let first = self.location.first_row;
        let number = self.table.integers("task_index", first..first + 1)?[0];
        let found = self.tasks.get(&number).cloned();
        let unknown =
            || mismatch("the number of a task", format!("{number}, which is not in the list of tasks"));
        found.map(Some).ok_or_else(unknown).in_column(self.table.path(), "task_index")
    }

    /// Images in the data file, the main view first.
    fn cameras(&self) -> Result<Vec<CameraTrack>> {
        let images = self.info.features.iter().filter(|feature| feature.is_image());
        let mut tracks = images.map(|feature| self.camera(feature)).collect::<Result<Vec<_>>>()?;
        tracks.sort_by_key(|track| &*track.name != "image");
        Ok(tracks)
    }

    fn camera(&self, feature: &Feature) -> Result<CameraTrack> {
        let shape = feature.frame_shape().filter(|shape| shape.bytes() > 0);
        let shape =
            shape.ok_or_else(|| mismatch("height, width and channels", format!("{:?}", feature.shape)));
        let shape = shape.in_column(self.table.path(), &feature.name)?;
        let mut pixels = Vec::new();
        self.table.bytes(&feature.name, "bytes", self.rows(), &mut |encoded| {
            let first = pixels.len() / shape.bytes();
            pixels.resize(pixels.len() + encoded.len() * shape.bytes(), 0);
            let images = pixels[first * shape.bytes()..].par_chunks_exact_mut(shape.bytes());
            images.zip(encoded).enumerate().try_for_each(|(at, (pixels, encoded))| {
                png_image::decode(encoded.data(), shape, pixels)
                    .map_err(|why| Problem::Image { frame: first + at, why })
            })
        })?;
        pixels.extend_from_within(pixels.len() - shape.bytes()..);
        Ok(CameraTrack { name: feature.name.as_str().into(), shape, pixels: pixels.into() })
    }

    fn videos(&self) -> Result<Vec<(Arc<str>, VideoSegment)>> {
        let features = self.info.features.iter().filter(|feature| feature.is_video());
        let video = |(feature, location): (&Feature, &VideoLocation)| {
            let found = self.video(feature, location).in_column(&location.file, &feature.name)?;
            Ok((feature.name.as_str().into(), found))
        };
        features.zip(&self.location.videos).map(video).collect()
    }

    /// The frames of a camera that are in a video: as many as the episode has, from the time on that its table says.
    fn video(&self, feature: &Feature, location: &VideoLocation) -> Result<VideoSegment, Problem> {
        let shape = feature.frame_shape().filter(|shape| shape.bytes() > 0);
        let shape =
            shape.ok_or_else(|| mismatch("height, width and channels", format!("{:?}", feature.shape)))?;
        let opened = match self.videos.get(&location.file) {
            Err(VideoError::Io(error)) if error.kind() == std::io::ErrorKind::NotFound => {
                let hint = "the metadata names it; was the dataset copied whole?";
                return Err(Problem::Missing { what: "the video", hint });
            }
            opened => opened?,
        };
        let video = opened.video();
        video.decoder()?;
        if video.shape() != shape {
            let sides = |shape: FrameShape| format!("{}x{}x{}", shape.height, shape.width, shape.channels);
            return Err(mismatch(format!("frames of {}", sides(shape)), sides(video.shape())));
        }
        let (episode, frames) = (self.location.episode, self.location.frames as usize);
        let first = video.nearest(location.from_secs).ok_or_else(|| {
            let expected = format!("episode {episode} from second {:.3} on", location.from_secs);
            mismatch(expected, format!("a video of {} frames, none of them then", video.len()))
        })?;
        if first.saturating_add(frames) > video.len() {
            let expected = format!("{frames} frames of episode {episode} from frame {first} on");
            return Err(mismatch(expected, format!("a video of {}", video.len())));
        }
        video.check_bytes(first..first + frames)?;
        Ok(VideoSegment { frames: opened, first, len: frames })
    }

    /// What it will take in memory, by what the dataset declares, with the videos that are decoded.
    fn check_size(&self, is_decoded: impl Fn(&Feature) -> bool) -> Result<()> {
        if self.location.frames == 0 {
            return Err(mismatch("frames in the episode", "none")).in_file(self.table.path());
        }
        let (mut bytes, limit) = (64u64, self.limits.episode_bytes);
        let is_read = |feature: &&Feature| !feature.is_video() || is_decoded(feature);
        for feature in self.info.features.iter().filter(is_read) {
            let width = feature.width().ok_or_else(|| self.too_wide(feature))? as u64;
            let each = if feature.is_image() || feature.is_video() { width } else { width.saturating_mul(4) };
            bytes = bytes.saturating_add(each);
        }
        let got = bytes.saturating_mul(self.location.frames.saturating_add(1));
        if got <= limit {
            return Ok(());
        }
        let hint = "raise the limit on episodes in memory if that is right";
        let problem = Problem::Limit { what: "bytes in one episode", got, limit, hint };
        Err(LeRobotError::new(self.table.path(), problem))
    }

    /// The rows are this episode's.
    fn check_rows(&self) -> Result<()> {
        let (path, episode) = (self.table.path(), self.location.episode);
        if self.location.first_row.saturating_add(self.location.frames) > self.table.rows() {
            let wanted = format!("rows {:?} of episode {episode}", self.rows());
            return Err(mismatch(wanted, format!("{} rows", self.table.rows()))).in_file(path);
        }
        if !self.table.has("episode_index") {
            return Ok(());
        }
        let numbers = self.table.integers("episode_index", self.rows())?;
        let other = numbers.iter().find(|number| **number != episode as i64);
        let wrong =
            |number: &i64| mismatch(format!("frames of episode {episode}"), format!("one of {number}"));
        other.map_or(Ok(()), |number| Err(wrong(number)).in_column(path, "episode_index"))
    }

    fn too_wide(&self, feature: &Feature) -> LeRobotError {
        let problem = mismatch("a shape that can be counted", format!("{:?}", feature.shape));
        LeRobotError::in_column(self.table.path(), &feature.name, problem)
    }

    fn missing(&self, what: &'static str) -> LeRobotError {
        let hint = "`actions` or `action` should be among the features";
        LeRobotError::in_column(self.table.path(), what, Problem::Missing { what: "the column", hint })
    }
}

/// Every frame of a video, and the last once more: the layout has no observation after the last action.
fn decoded(name: Arc<str>, video: &VideoSegment) -> Result<CameraTrack, Problem> {
    let (shape, frames) = (video.frames.shape(), video.len);
    let mut pixels = vec![0; shape.bytes() * (frames + 1)];
    video.frames.video().decode(video.first..video.first + frames, &mut pixels)?;
    pixels.copy_within((frames - 1) * shape.bytes()..frames * shape.bytes(), frames * shape.bytes());
    Ok(CameraTrack { name, shape, pixels: pixels.into() })
}

/// How an entry ended. Datasets that do not say: the last by success, or else by the clock.
fn end(last: bool, success: bool, terminated: Option<bool>, truncated: Option<bool>) -> End {
    match (terminated, truncated) {
        _ if !last => End::No,
        (Some(true), _) => End::Terminated,
        (_, Some(true)) => End::Truncated,
        _ if success => End::Terminated,
        _ => End::Truncated,
    }
}
