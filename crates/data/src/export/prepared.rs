//! An episode as exporters see it: its numbers in memory, its images where they lie.

use std::borrow::Cow;
use std::sync::Arc;

use plaudit_core::FrameShape;

use super::FrameScores;
use crate::episode::Episode;
use crate::lerobot::{KnownSuccess, SourceCamera, SourceEpisode};
use crate::recording::{AfterLast, CameraKey, FileProblem, FrameImage, MAIN, Recording, Unit};

/// An episode to be exported.
pub(super) struct Prepared {
    /// What it is called.
    pub(super) name: String,
    /// Its numbers, without images.
    pub(super) episode: Episode,
    /// Its cameras, the main view first.
    pub(super) cameras: Vec<(Arc<str>, FrameShape)>,
    pub(super) has_rewards: bool,
    pub(super) success: KnownSuccess,
    /// Whether its last action is left out.
    pub(super) lacks_last_action: bool,
    /// What a reward model says of each frame, if one was asked.
    pub(super) scores: Option<Vec<f32>>,
    recording: Recording,
}

impl Prepared {
    pub(super) fn of(name: String, recording: Recording) -> Result<Self, FileProblem> {
        if recording.unit != Unit::Episode {
            let what = "it is labelled frames or a window, and only whole episodes are exported".into();
            return Err(FileProblem::Lists { what });
        }
        if recording.actions().is_empty() {
            let what = "it holds no actions, and an exported episode has one for each frame".into();
            return Err(FileProblem::Lists { what });
        }
        let episode = recording.to_episode_without_images()?;
        let mut cameras = Vec::new();
        for camera in recording.cameras() {
            if let Some(image) = recording.frame(0, &camera)? {
                cameras.push((Arc::from(&*camera), image.shape()));
            }
        }
        cameras.sort_by_key(|(name, _): &(Arc<str>, FrameShape)| **name != *MAIN);
        let success = match (recording.labels().iter().any(Option::is_some), recording.success()) {
            (true, _) => KnownSuccess::Steps,
            (false, Some(_)) => KnownSuccess::Episode,
            (false, None) => KnownSuccess::Nothing,
        };
        let has_rewards = !recording.rewards().is_empty();
        let lacks_last_action = episode.len() < recording.actions().len();
        let scores = None;
        Ok(Self { name, episode, cameras, has_rewards, success, lacks_last_action, scores, recording })
    }

    /// Asks a reward model about each frame.
    pub(super) fn score(&mut self, scores: FrameScores<'_>) -> Result<(), String> {
        let found = scores(&self.recording)?;
        if found.len() < self.len() {
            return Err(format!("{} scores for {} frames", found.len(), self.len()));
        }
        self.scores = Some(found);
        Ok(())
    }

    /// How many frames it has: one before each action.
    pub(super) fn len(&self) -> usize {
        self.episode.len()
    }

    /// The image of a camera at a frame, HWC. After the last action it is what was seen then, or the last one again where that
    /// was not recorded.
    pub(super) fn image(&self, camera: usize, frame: usize) -> Result<Vec<u8>, String> {
        let (name, shape) = &self.cameras[camera];
        let image = match frame < self.recording.len() {
            true => self.recording.frame(frame, name),
            false => self.image_after_last(name),
        };
        let image = image.map_err(|problem| problem.to_string())?;
        let image = image.ok_or("there is none")?;
        if image.shape() != *shape {
            let (found, first) = (image.shape(), shape);
            return Err(format!(
                "{}x{} with {} channels, where the first has {}x{} with {}",
                found.width, found.height, found.channels, first.width, first.height, first.channels
            ));
        }
        image.pixels().map(Cow::into_owned).map_err(|problem| problem.to_string())
    }

    fn image_after_last(&self, camera: &str) -> Result<Option<FrameImage>, FileProblem> {
        let AfterLast::Seen(observation) = &self.recording.after_last else {
            return self.recording.frame(self.recording.len().saturating_sub(1), camera);
        };
        let location = || format!("the image of `{camera}` after the last action");
        let frame = observation.image(&CameraKey::parse(camera), location)?;
        frame.map(|frame| FrameImage::of(frame, location)).transpose()
    }

    /// As the LeRobot writer takes it.
    pub(super) fn as_source(&self) -> SourceEpisode<'_> {
        let camera = |(at, (name, shape)): (usize, &(Arc<str>, FrameShape))| SourceCamera {
            name: name.clone(),
            shape: *shape,
            image: Box::new(move |frame| self.image(at, frame).map(Cow::Owned)),
        };
        SourceEpisode {
            episode: &self.episode,
            cameras: self.cameras.iter().enumerate().map(camera).collect(),
            has_rewards: self.has_rewards,
            success: self.success,
        }
    }
}
