//! How a judge is asked: as it was tuned, whatever a request brings.
//!
//! A judge that learned videos of two cameras makes nothing of ten images. So frames that come as single images are put back
//! together, the words go where they stood, and videos have the rate and the sampling of the judge's card.

use std::borrow::Cow;

use plaudit_data::convert::window_prompt;
use plaudit_nn::qwen3_vl::{FrameSampling, PromptLayout};
use plaudit_reward::sft::DEFAULT_FPS;
use plaudit_reward::trend::{self, AnswerPlace, Conversation, JudgeCard, Video};
use plaudit_serve::{ApiError, Chat, ChatMessage, ContentPart, FrameBlock, Image, Role};

/// How a judge is asked.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct AskedAs {
    /// How many cameras the images of a chat are of, each a video; not set: images are images.
    cameras: Option<usize>,
    /// Where the words stand; not set: where the request has them.
    layout: Option<PromptLayout>,
    sampling: FrameSampling,
    fps: f64,
    /// What is asked about windows of frames.
    question: WindowQuestion,
}

/// What is asked about windows of frames.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum WindowQuestion {
    /// Whether they get a task further.
    Task(String),
    /// What the judge was tuned with.
    Tuned(String),
    /// Nobody said.
    Unknown,
}

impl AskedAs {
    /// By a judge's card, with what the user adds to it.
    pub(super) fn new(card: Option<&JudgeCard>, cameras: Option<usize>, task: Option<&str>) -> Self {
        let window = card.and_then(|card| card.window);
        let question = match (task, card.map(|card| card.questions.as_slice())) {
            (Some(task), _) => WindowQuestion::Task(task.into()),
            (None, Some([only])) => WindowQuestion::Tuned(only.clone()),
            (None, _) => WindowQuestion::Unknown,
        };
        Self {
            cameras: cameras.or(window.map(|window| window.cameras)),
            layout: card.and_then(|card| card.prompt_layout),
            sampling: window.map_or_else(FrameSampling::default, |window| window.sampling),
            fps: window.map_or(DEFAULT_FPS, |window| window.fps),
            question,
        }
    }

    pub(super) fn question(&self) -> &WindowQuestion {
        &self.question
    }

    /// A chat as the model takes it: one question, perhaps with words before it.
    pub(super) fn conversation<'a>(&self, chat: &'a Chat) -> Result<Conversation<'a>, ApiError> {
        let (system, asked) = match chat.messages.as_slice() {
            [asked] => (None, asked),
            [system, asked] if system.role == Role::System => (Some(system), asked),
            _ => return Err(ApiError::invalid("one question at a time, with one system message at most")),
        };
        if asked.role != Role::User {
            return Err(ApiError::invalid("the last message must be the user's"));
        }
        let sampling = match chat.options.samples_frames {
            Some(true) => FrameSampling::Sampled,
            Some(false) => FrameSampling::All,
            None => self.sampling,
        };
        let system: Option<Cow<'_, str>> = system.map(|message| words(message).into());
        let has_videos = asked.parts.iter().any(|part| matches!(part, ContentPart::Video(_)));
        let images: Vec<&Image> = asked.parts.iter().filter_map(image_of).collect();
        let answer = match chat.options.continues_question {
            true => AnswerPlace::SameTurn,
            false => AnswerPlace::NextTurn,
        };
        let in_order =
            || Conversation { system: system.clone(), parts: self.in_order(asked, sampling), answer };
        let parts = match self.cameras {
            _ if answer == AnswerPlace::SameTurn && has_videos => return Ok(in_order()),
            Some(cameras) if !has_videos && !images.is_empty() => {
                self.regrouped(&images, cameras, sampling)?
            }
            _ if has_videos && self.layout.is_some() => {
                asked.parts.iter().filter_map(|part| self.shown(part, sampling)).collect()
            }
            _ => return Ok(in_order()),
        };
        let parts = match answer {
            // Words that the answer finishes stand last.
            AnswerPlace::SameTurn => [parts, vec![trend::ContentPart::Text(words(asked))]].concat(),
            AnswerPlace::NextTurn => self.with_words(parts, words(asked)),
        };
        Ok(Conversation { system, parts, answer })
    }

    /// Images as the videos of cameras: all frames of the first, then all of the next.
    fn regrouped<'a>(
        &self,
        images: &[&'a Image],
        cameras: usize,
        sampling: FrameSampling,
    ) -> Result<Vec<trend::ContentPart<'a>>, ApiError> {
        if !images.len().is_multiple_of(cameras) {
            let count = images.len();
            return Err(ApiError::invalid(format!(
                "{count} images for a judge of {cameras} cameras: send as many of each, all of the first camera, \
                 then all of the next"
            )));
        }
        let video = |frames: &[&'a Image]| {
            let size = |image: &Image| (image.height, image.width);
            if frames.iter().any(|frame| size(frame) != size(frames[0])) {
                return Err(ApiError::invalid("images of different sizes in one video"));
            }
            let frames = frames.iter().map(|frame| rgb_image(frame)).collect();
            Ok(trend::ContentPart::Video(Video { frames, fps: self.fps, sampling }))
        };
        images.chunks(images.len() / cameras).map(video).collect()
    }

    /// What is shown by a part, without its words.
    fn shown<'a>(&self, part: &'a ContentPart, sampling: FrameSampling) -> Option<trend::ContentPart<'a>> {
        match part {
            ContentPart::Text(_) => None,
            ContentPart::Image(image) => Some(trend::ContentPart::Image(rgb_image(image))),
            ContentPart::Video(video) => {
                let frames = video.frames.iter().map(rgb_image).collect();
                let fps = video.fps.unwrap_or(self.fps);
                Some(trend::ContentPart::Video(Video { frames, fps, sampling }))
            }
        }
    }

    fn in_order<'a>(&self, asked: &'a ChatMessage, sampling: FrameSampling) -> Vec<trend::ContentPart<'a>> {
        let part = |part: &'a ContentPart| match part {
            ContentPart::Text(text) => Some(trend::ContentPart::Text(text.clone())),
            other => self.shown(other, sampling),
        };
        asked.parts.iter().filter_map(part).collect()
    }

    /// The parts with the words where the judge is used to them.
    fn with_words<'a>(
        &self,
        mut parts: Vec<trend::ContentPart<'a>>,
        words: String,
    ) -> Vec<trend::ContentPart<'a>> {
        let place = match self.layout.unwrap_or_default() {
            PromptLayout::SharedPrefix => 0,
            PromptLayout::VideosFirst => parts.len(),
        };
        parts.insert(place, trend::ContentPart::Text(words));
        parts
    }

    /// Windows, cameras and frames of a block.
    pub(super) fn windows(&self, block: &FrameBlock) -> Result<[usize; 3], ApiError> {
        if self.question == WindowQuestion::Unknown {
            return Err(ApiError::invalid("this server has no task (--task): ask in a chat"));
        }
        match block.leading.as_slice() {
            [views, frames] => Ok([1, *views, *frames]),
            [windows, views, frames] => Ok([*windows, *views, *frames]),
            _ => Err(ApiError::invalid("send windows of shape N,V,T,H,W,3: windows, cameras, frames")),
        }
    }

    /// The questions about the windows of a block.
    pub(super) fn block<'a>(&self, block: &'a FrameBlock) -> Result<Vec<Conversation<'a>>, ApiError> {
        let [_, views, frames] = self.windows(block)?;
        let (height, width) = (block.height, block.width);
        let images: Vec<trend::RgbImage<'_>> = block
            .pixels
            .chunks_exact(height * width * 3)
            .map(|pixels| trend::RgbImage { height, width, pixels: Cow::Borrowed(pixels) })
            .collect();
        let question = match &self.question {
            WindowQuestion::Tuned(question) => question.clone(),
            WindowQuestion::Task(task) => window_prompt(task, frames, views.saturating_sub(1)),
            WindowQuestion::Unknown => String::new(),
        };
        let asked = |window: &[trend::RgbImage<'a>]| {
            let videos = window.chunks(frames).map(|frames| {
                let (fps, sampling) = (self.fps, self.sampling);
                trend::ContentPart::Video(Video { frames: frames.to_vec(), fps, sampling })
            });
            let parts = self.with_words(videos.collect(), question.clone());
            Conversation { system: None, parts, answer: AnswerPlace::NextTurn }
        };
        Ok(images.chunks(views * frames).map(asked).collect())
    }
}

fn image_of(part: &ContentPart) -> Option<&Image> {
    match part {
        ContentPart::Image(image) => Some(image),
        ContentPart::Text(_) | ContentPart::Video(_) => None,
    }
}

fn words(message: &ChatMessage) -> String {
    let texts = message.parts.iter().filter_map(|part| match part {
        ContentPart::Text(text) => Some(text.as_str()),
        ContentPart::Image(_) | ContentPart::Video(_) => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

fn rgb_image(image: &Image) -> trend::RgbImage<'_> {
    trend::RgbImage { height: image.height, width: image.width, pixels: Cow::Borrowed(&image.pixels) }
}

#[cfg(test)]
mod tests {
    use plaudit_reward::trend::WindowFormat;
    use plaudit_serve::ChatOptions;

    use super::*;

    fn image(level: u8) -> Image {
        Image { height: 1, width: 1, pixels: vec![level; 3] }
    }

    fn chat(parts: Vec<ContentPart>) -> Chat {
        Chat { messages: vec![ChatMessage { role: Role::User, parts }], options: ChatOptions::default() }
    }

    /// What is shown, in short.
    fn told(asked: &Conversation<'_>) -> Vec<String> {
        let part = |part: &trend::ContentPart<'_>| match part {
            trend::ContentPart::Text(text) => text.clone(),
            trend::ContentPart::Image(image) => format!("image {}", image.pixels[0]),
            trend::ContentPart::Video(Video { frames, fps, sampling }) => {
                let levels: Vec<_> = frames.iter().map(|frame| frame.pixels[0]).collect();
                format!("video {levels:?} at {fps}, {sampling:?}")
            }
        };
        asked.parts.iter().map(part).collect()
    }

    #[test]
    fn images_become_the_videos_that_a_judge_was_tuned_with() {
        let window =
            WindowFormat { cameras: 2, frames: 2, size: [1, 1], sampling: FrameSampling::All, fps: 20.0 };
        let card = |layout| JudgeCard {
            prompt_layout: Some(layout),
            window: Some(window),
            questions: vec!["Better?".into()],
            ..JudgeCard::default()
        };
        let words = || ContentPart::Text("Well?".into());
        let images = |count: u8| (0..count).map(|level| ContentPart::Image(image(level)));
        let asked = chat(images(4).chain([words()]).collect());
        let videos = ["video [0, 1] at 20, All", "video [2, 3] at 20, All"].map(String::from);
        let tuned = AskedAs::new(Some(&card(PromptLayout::VideosFirst)), None, None);
        assert_eq!(told(&tuned.conversation(&asked).unwrap()), [&videos[..], &["Well?".into()]].concat());
        let tuned = AskedAs::new(Some(&card(PromptLayout::SharedPrefix)), None, None);
        assert_eq!(told(&tuned.conversation(&asked).unwrap()), [&["Well?".into()], &videos[..]].concat());
        let error = tuned.conversation(&chat(images(3).collect())).unwrap_err();
        assert!(error.to_string().contains("3 images for a judge of 2 cameras"), "{error}");

        // Videos keep their rate; the processor's choice may be the client's.
        let video = plaudit_serve::Video { frames: vec![image(7), image(8)], fps: Some(5.0) };
        let mut asked = chat(vec![ContentPart::Video(video), words()]);
        asked.options.samples_frames = Some(true);
        assert_eq!(told(&tuned.conversation(&asked).unwrap()), ["Well?", "video [7, 8] at 5, Sampled"]);

        // A statement that the answer finishes stands last, whatever the judge is used to.
        asked.options.continues_question = true;
        let open = tuned.conversation(&asked).unwrap();
        assert_eq!((told(&open)[1].as_str(), open.answer), ("Well?", AnswerPlace::SameTurn));

        // Frames as bytes are asked about as in the tuning, too.
        let block = FrameBlock { leading: vec![1, 2, 2], height: 1, width: 1, pixels: (0..12).collect() };
        let found = tuned.block(&block).unwrap();
        assert_eq!(told(&found[0]), ["Better?", "video [0, 3] at 20, All", "video [6, 9] at 20, All"]);
    }

    #[test]
    fn without_a_card_a_chat_is_as_it_came() {
        let plain = AskedAs::new(None, None, None);
        let parts = || {
            vec![
                ContentPart::Text("Look:".into()),
                ContentPart::Image(image(1)),
                ContentPart::Image(image(2)),
                ContentPart::Text("Well?".into()),
            ]
        };
        assert_eq!(
            told(&plain.conversation(&chat(parts())).unwrap()),
            ["Look:", "image 1", "image 2", "Well?"]
        );
        let one_camera = AskedAs::new(None, Some(1), Some("Lift it."));
        let found = one_camera.conversation(&chat(parts())).map(|asked| told(&asked)).unwrap();
        assert_eq!(found, ["video [1, 2] at 24, Sampled", "Look:\nWell?"]);
        let block = FrameBlock { leading: vec![2], height: 1, width: 1, pixels: vec![0; 6] };
        assert!(plain.windows(&block).unwrap_err().to_string().contains("no task"));
    }
}
