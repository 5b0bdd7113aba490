//! A question as the OpenAI chat protocol has it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use plaudit_nn::qwen3_vl::FrameSampling;
use serde_json::{Map, Value, json};

use super::chat::{LabelReadout, Wanted};
use crate::images::Png;
use crate::trend::{AnswerPlace, ContentPart, Conversation, GenerationConfig, RgbImage, Trend, Video};

/// How many tokens' probabilities are asked for at each place: as many as the protocol allows.
const TOP_LOGPROBS: u32 = 20;

/// How videos are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ImageParts {
    /// As images, as the protocol has no videos: all frames of the first camera, oldest first, then all of the next.
    Images,
    /// As `video_url`, which `plaudit serve` understands: frames joined by commas, with their rate.
    Videos,
}

/// One request.
pub(super) struct RequestBody<'a> {
    pub(super) conversation: &'a Conversation<'a>,
    pub(super) model: &'a str,
    /// The user's own settings, which count before all others.
    pub(super) sampling_params: &'a Map<String, Value>,
    pub(super) generation: GenerationConfig,
    /// How the answer will be read.
    pub(super) wanted: Wanted<'a>,
    pub(super) images: ImageParts,
}

impl RequestBody<'_> {
    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut messages = Vec::new();
        if let Some(system) = &self.conversation.system {
            messages.push(json!({"role": "system", "content": system}));
        }
        let content = self.conversation.parts.iter().flat_map(|part| self.content(part));
        messages.push(json!({"role": "user", "content": content.collect::<Vec<Value>>()}));
        let mut body = Map::new();
        body.insert("model".into(), self.model.into());
        body.insert("messages".into(), messages.into());
        body.insert("max_tokens".into(), self.generation.max_new_tokens.into());
        body.insert("temperature".into(), self.generation.temperature.into());
        match self.wanted {
            Wanted::ToldWords(words) => {
                body.insert("label_logprobs".into(), json!(words));
            }
            Wanted::Labels(LabelReadout::Logits) => {
                body.insert("label_logits".into(), json!(Trend::LABELS.map(Trend::word)));
            }
            Wanted::Labels(LabelReadout::Logprobs) | Wanted::LikelyWords(_) => {
                body.insert("logprobs".into(), true.into());
                body.insert("top_logprobs".into(), TOP_LOGPROBS.into());
            }
            Wanted::Labels(LabelReadout::Words) | Wanted::Text => {}
        }
        if self.conversation.answer == AnswerPlace::SameTurn {
            // No option of OpenAI's; vLLM, SGLang and `plaudit serve` have it, others refuse it.
            body.insert("add_generation_prompt".into(), false.into());
            body.insert("continue_final_message".into(), true.into());
        }
        if self.images == ImageParts::Videos {
            body.extend(self.frame_sampling().map(|settings| ("mm_processor_kwargs".into(), settings)));
        }
        for (key, value) in self.sampling_params {
            body.insert(key.clone(), value.clone());
        }
        Value::Object(body).to_string().into_bytes()
    }

    /// Whether the processor chooses among the frames of videos.
    fn frame_sampling(&self) -> Option<Value> {
        self.conversation.parts.iter().find_map(|part| match part {
            ContentPart::Video(video) => {
                Some(json!({"do_sample_frames": video.sampling == FrameSampling::Sampled}))
            }
            ContentPart::Text(_) | ContentPart::Image(_) => None,
        })
    }

    fn content(&self, part: &ContentPart<'_>) -> Vec<Value> {
        match part {
            ContentPart::Text(text) => vec![json!({"type": "text", "text": text})],
            ContentPart::Image(rgb_image) => vec![image(rgb_image)],
            ContentPart::Video(shown) if self.images == ImageParts::Videos => vec![video(shown)],
            ContentPart::Video(video) => video.frames.iter().map(image).collect(),
        }
    }
}

fn image(rgb_image: &RgbImage<'_>) -> Value {
    let url = format!("data:image/png;base64,{}", png(rgb_image));
    json!({"type": "image_url", "image_url": {"url": url}})
}

fn video(video: &Video<'_>) -> Value {
    let frames: Vec<String> = video.frames.iter().map(png).collect();
    let url = format!("data:video/png;base64,{}", frames.join(","));
    json!({"type": "video_url", "video_url": {"url": url, "fps": video.fps}})
}

fn png(rgb_image: &RgbImage<'_>) -> String {
    STANDARD.encode(&Png::of(rgb_image.shape(), &rgb_image.pixels).bytes)
}
