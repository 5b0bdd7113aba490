//! From what a window shows to a question: the spec of RLinf's input builders.
//!
//! A window becomes one video for each camera, oldest frame first, and then the prompt; a single frame becomes one image for
//! each camera, and then the prompt.

use std::borrow::Cow;
use std::sync::Arc;

use plaudit_core::ObsRow;
use plaudit_data::convert::window_prompt;
use plaudit_data::windows::{Objective, evenly_spaced};
use plaudit_nn::qwen3_vl::{FrameSampling, PromptLayout};

use super::conversation::{AnswerPlace, ContentPart, Conversation, RgbImage, Video};
use crate::models::RewardModelError;
use crate::shaping::{Clip, ClipBuffer};

/// The buffer that RLinf's builders look at.
const BUFFER: &str = "history_window";
/// How a window or a frame becomes a question.
#[derive(Debug, Clone, PartialEq)]
pub struct InputBuilder {
    /// The cameras, as the environment names them; each is a video, or an image of a single frame.
    pub cameras: Vec<Arc<str>>,
    /// What is asked.
    pub prompt: Prompt,
    /// Frames of a full window, which the prompt names.
    pub window: usize,
    /// Frames of an episode so far that are shown, evenly spaced; not set: all of a window.
    pub shown: Option<usize>,
    /// The task in words, where the environment names none.
    pub default_task: Option<String>,
    /// Words before the question.
    pub system: Option<String>,
    /// Whether images or words come first.
    pub layout: PromptLayout,
    /// Where the answer stands.
    pub answer: AnswerPlace,
    /// Frames of a video per second.
    pub fps: f64,
    /// Which frames of a video the model sees.
    pub sampling: FrameSampling,
}

/// What is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Prompt {
    /// Whether things get better or worse, in RLinf's words.
    Trend,
    /// A score from 0 to 1, in RLinf's words.
    Score,
    /// What a judge can be tuned to answer.
    Objective(Objective),
    /// The user's own words; `{task}` and `{frames}` are filled in.
    Own(String),
}

impl Prompt {
    fn text(&self, task: &str, frames: usize, cameras: usize) -> String {
        match self {
            Self::Trend => window_prompt(task, frames, cameras.saturating_sub(1)),
            Self::Objective(objective) => objective.question(task, frames, cameras.saturating_sub(1)),
            Self::Score => {
                format!("Task: {task}\n\nEvaluate the task and return a reward score between 0 and 1.")
            }
            Self::Own(text) => text.replace("{task}", task).replace("{frames}", &frames.to_string()),
        }
    }
}

impl InputBuilder {
    /// The question about a window.
    pub(crate) fn of_clip<'a>(&'a self, clip: &'a Clip<'_>) -> Result<Conversation<'a>, RewardModelError> {
        let named = |buffer: &&ClipBuffer<'_>| buffer.name == BUFFER;
        let buffer = clip.buffers.iter().find(named).or(clip.buffers.last());
        let frames = buffer.map_or(&[][..], |buffer| &buffer.frames);
        let video = |camera: &Arc<str>| {
            let shown = evenly_spaced(frames.len(), self.shown.unwrap_or(frames.len()));
            let frames = shown.into_iter().map(|at| rgb_image(&frames[at].obs, camera));
            let frames = frames.collect::<Result<Vec<_>, _>>()?;
            if frames.windows(2).any(|pair| pair[0].shape() != pair[1].shape()) {
                return Err(RewardModelError::Shapes { camera: camera.clone() });
            }
            Ok(ContentPart::Video(Video { frames, fps: self.fps, sampling: self.sampling }))
        };
        let parts = self.cameras.iter().map(video).collect::<Result<Vec<_>, _>>()?;
        self.asked(parts, frames.last().and_then(|frame| frame.obs.task()))
    }

    /// The question about a frame.
    pub(crate) fn of_frame<'a>(&'a self, obs: &ObsRow<'a>) -> Result<Conversation<'a>, RewardModelError> {
        let image = |camera: &Arc<str>| Ok(ContentPart::Image(rgb_image(obs, camera)?));
        let parts = self.cameras.iter().map(image).collect::<Result<Vec<_>, RewardModelError>>()?;
        self.asked(parts, obs.task())
    }

    fn asked<'a>(
        &'a self,
        mut parts: Vec<ContentPart<'a>>,
        task: Option<&str>,
    ) -> Result<Conversation<'a>, RewardModelError> {
        let task = task.map(str::trim).filter(|task| !task.is_empty()).or(self.default_task.as_deref());
        let task = task.ok_or(RewardModelError::Task)?.trim();
        let words = ContentPart::Text(self.prompt.text(task, self.window, self.cameras.len()));
        match self.layout {
            PromptLayout::VideosFirst => parts.push(words),
            PromptLayout::SharedPrefix => parts.insert(0, words),
        }
        Ok(Conversation { system: self.system.as_deref().map(Cow::Borrowed), parts, answer: self.answer })
    }
}

fn rgb_image<'a>(obs: &ObsRow<'a>, camera: &Arc<str>) -> Result<RgbImage<'a>, RewardModelError> {
    let (shape, pixels) =
        obs.image(camera).ok_or_else(|| RewardModelError::Camera { camera: camera.clone() })?;
    RgbImage::rgb(shape, pixels)
        .ok_or_else(|| RewardModelError::Channels { camera: camera.clone(), channels: shape.channels })
}
