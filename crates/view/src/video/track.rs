//! The curves under a video: how each recorded environment fared, step by step.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::write_atomically;

/// The curves under a video. It is kept beside the video, as `3.json` beside `3.mp4`, so that a page can draw curves that run
/// in step with it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VideoTrack {
    /// The name of the video's file, in the same folder.
    pub video: String,
    /// The step of the run at which it was made: 0 is before training.
    pub step: u64,
    /// How long the video runs, in seconds.
    pub secs: f64,
    /// The score above which the reward model reports success, if it scored the frames and has a threshold.
    pub threshold: Option<f32>,
    /// The first episode of each recorded environment, in the video's order.
    pub episodes: Vec<TrackedEpisode>,
}

/// One episode of a video: columns of equal length, one number for each step.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrackedEpisode {
    /// When what each step led to is shown, in seconds from the start of the video.
    pub at_secs: Vec<f64>,
    /// The environment's own reward.
    pub env_reward: Vec<f32>,
    /// Whether the task is solved at that moment, by ground truth.
    pub success: Vec<bool>,
    /// The reward model's score of the frame; empty if no model scored the frames.
    pub score: Vec<f32>,
}

impl TrackedEpisode {
    /// Whether the task was solved at some step.
    #[must_use]
    pub fn succeeded(&self) -> bool {
        self.success.contains(&true)
    }
}

/// A track that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read {}: {why}", .path.display())]
pub struct TrackError {
    /// The file.
    pub path: PathBuf,
    /// Why.
    pub why: String,
}

impl VideoTrack {
    /// Where the track of a video is kept.
    #[must_use]
    pub fn beside(video: &Path) -> PathBuf {
        video.with_extension("json")
    }

    /// Writes it beside its video.
    ///
    /// # Errors
    /// [`crate::RunError::Write`] when it cannot be written.
    pub fn write(&self, video: &Path) -> Result<(), crate::RunError> {
        let text = serde_json::to_string(self).unwrap_or_default();
        write_atomically(&Self::beside(video), text.as_bytes())
    }

    /// Reads a track.
    ///
    /// # Errors
    /// [`TrackError`] when there is none, when it is no track, or when its columns differ in length.
    pub fn read(path: &Path) -> Result<Self, TrackError> {
        let cannot = |why: String| TrackError { path: path.into(), why };
        let text = std::fs::read_to_string(path).map_err(|error| cannot(error.to_string()))?;
        let track: Self = serde_json::from_str(&text).map_err(|error| cannot(error.to_string()))?;
        for (number, episode) in track.episodes.iter().enumerate() {
            let steps = episode.at_secs.len();
            let lengths = [episode.env_reward.len(), episode.success.len()];
            if lengths != [steps; 2] || ![0, steps].contains(&episode.score.len()) {
                return Err(cannot(format!("the columns of episode {number} differ in length")));
            }
        }
        Ok(track)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_track_comes_back_and_one_that_is_none_is_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let video = folder.path().join("0.mp4");
        let episode = TrackedEpisode {
            at_secs: vec![0.05, 0.1],
            env_reward: vec![0.0, 1.0],
            success: vec![false, true],
            score: vec![0.25, 0.75],
        };
        let track = VideoTrack {
            video: "0.mp4".into(),
            step: 40,
            secs: 1.1,
            threshold: Some(0.5),
            episodes: vec![episode],
        };
        track.write(&video).unwrap();
        let path = folder.path().join("0.json");
        assert_eq!(VideoTrack::read(&path).unwrap(), track);
        for (text, why) in [
            ("{", "EOF"),
            (
                "{\"video\":\"0.mp4\",\"step\":0,\"secs\":1,\"threshold\":null,\"episodes\":[{\"at_secs\":[1],\"env_reward\":[],\"success\":[],\"score\":[]}]}",
                "episode 0 differ in length",
            ),
        ] {
            std::fs::write(&path, text).unwrap();
            let error = VideoTrack::read(&path).unwrap_err().to_string();
            assert!(error.contains("0.json") && error.contains(why), "{error}");
        }
    }
}
