//! A question as the OpenAI chat protocol has it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use crate::images::Png;
use crate::trend::{ContentPart, Conversation, GenerationConfig, RgbImage};

/// How many tokens' probabilities are asked for at each place: as many as the protocol allows.
const TOP_LOGPROBS: u32 = 20;

/// The body of a request. Videos become images, as the protocol has no videos: all frames of the first camera, oldest
/// first, then all of the next.
pub(super) fn body(
    conversation: &Conversation<'_>,
    model: &str,
    sampling_params: &Map<String, Value>,
    generation: GenerationConfig,
    labels: bool,
) -> Vec<u8> {
    let mut messages = Vec::new();
    if let Some(system) = &conversation.system {
        messages.push(json!({"role": "system", "content": system}));
    }
    let content: Vec<Value> = conversation.parts.iter().flat_map(content).collect();
    messages.push(json!({"role": "user", "content": content}));
    let mut body = Map::new();
    body.insert("model".into(), model.into());
    body.insert("messages".into(), messages.into());
    body.insert("max_tokens".into(), generation.max_new_tokens.into());
    body.insert("temperature".into(), generation.temperature.into());
    if labels {
        body.insert("logprobs".into(), true.into());
        body.insert("top_logprobs".into(), TOP_LOGPROBS.into());
    }
    for (key, value) in sampling_params {
        body.insert(key.clone(), value.clone());
    }
    Value::Object(body).to_string().into_bytes()
}

fn content(part: &ContentPart<'_>) -> Vec<Value> {
    match part {
        ContentPart::Text(text) => vec![json!({"type": "text", "text": text})],
        ContentPart::Image(rgb_image) => vec![image(rgb_image)],
        ContentPart::Video(video) => video.frames.iter().map(image).collect(),
    }
}

fn image(rgb_image: &RgbImage<'_>) -> Value {
    let png = Png::of(rgb_image.shape(), &rgb_image.pixels);
    let url = format!("data:image/png;base64,{}", STANDARD.encode(&png.bytes));
    json!({"type": "image_url", "image_url": {"url": url}})
}
