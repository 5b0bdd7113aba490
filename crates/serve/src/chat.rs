//! Requests of the OpenAI chat protocol.

use serde_json::Value;

use crate::chat_options::{self, Delivery};
use crate::error::ApiError;
use crate::image::EncodedImage;
use crate::limits::Limits;
use crate::model::{Chat, ChatMessage, ChatOptions, ContentPart, Role, Video};

/// A chat request whose images are still encoded.
#[derive(Debug)]
pub struct ChatRequest {
    /// The model that is asked for.
    pub(crate) model: String,
    /// How the answer is to be sent.
    pub(crate) delivery: Delivery,
    messages: Vec<(Role, Vec<EncodedPart>)>,
    options: ChatOptions,
}

#[derive(Debug)]
enum EncodedPart {
    Text(String),
    Image(EncodedImage, String),
    Video(Vec<EncodedImage>, Option<f64>, String),
}

/// What is wrong at a place of the request.
pub(crate) fn wrong(place: &str, why: impl std::fmt::Display) -> ApiError {
    ApiError::invalid(format!("{place}: {why}"))
}

/// The most values in the JSON of a request. Each takes many times its bytes once it is parsed; 64 images are some 400.
const MAX_VALUES: usize = 1 << 17;

/// Refuses a body of very many values before they are parsed: `[0,0,…]` of 64 MiB would take gigabytes.
fn check_values(body: &[u8]) -> Result<(), ApiError> {
    let (mut values, mut in_text, mut is_escaped) = (0, false, false);
    for byte in body {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if in_text => is_escaped = true,
            b'"' => in_text = !in_text,
            b',' | b':' | b'[' | b'{' if !in_text => values += 1,
            _ => {}
        }
    }
    if values <= MAX_VALUES {
        return Ok(());
    }
    Err(ApiError::too_large(format!("the body has {values} values, where {MAX_VALUES} are allowed")))
}

/// A request as it came; of images only the size is read.
///
/// # Errors
/// What is wrong with it, and where.
pub fn parse(body: &[u8], limits: &Limits) -> Result<ChatRequest, ApiError> {
    check_values(body)?;
    let request: Value = serde_json::from_slice(body)
        .map_err(|error| ApiError::invalid(format!("the body is not JSON: {error}")))?;
    let Value::Object(request) = request else {
        return Err(ApiError::invalid("the body is not a JSON object"));
    };
    let get = |key: &str| request.get(key).unwrap_or(&Value::Null);
    let model = get("model").as_str().ok_or_else(|| wrong("model", "must be a string"))?;
    let messages = get("messages").as_array().filter(|messages| !messages.is_empty());
    let messages = messages.ok_or_else(|| wrong("messages", "must be a list that is not empty"))?;
    let mut parser = MessageParser { limits, images: 0 };
    let messages = messages.iter().enumerate().map(|(at, message)| parser.message(at, message));
    let messages = messages.collect::<Result<Vec<_>, _>>()?;
    if !messages.iter().any(|(role, _)| *role == Role::User) {
        return Err(wrong("messages", "there is no message of the user"));
    }
    let (options, delivery) = chat_options::parse(&request)?;
    Ok(ChatRequest { model: model.into(), delivery, messages, options })
}

struct MessageParser<'a> {
    limits: &'a Limits,
    images: usize,
}

impl MessageParser<'_> {
    fn message(&mut self, at: usize, message: &Value) -> Result<(Role, Vec<EncodedPart>), ApiError> {
        let place = format!("messages[{at}]");
        let role = match message["role"].as_str() {
            Some("user") => Role::User,
            Some("system" | "developer") => Role::System,
            Some("assistant") => Role::Assistant,
            _ => return Err(wrong(&format!("{place}.role"), "must be user, system or assistant")),
        };
        let parts = match &message["content"] {
            Value::String(text) => vec![EncodedPart::Text(text.clone())],
            Value::Null if role == Role::Assistant => Vec::new(),
            Value::Array(parts) => {
                let part = |(number, part)| self.part(&format!("{place}.content[{number}]"), part);
                parts.iter().enumerate().map(part).collect::<Result<_, _>>()?
            }
            _ => return Err(wrong(&format!("{place}.content"), "must be a string or a list of parts")),
        };
        Ok((role, parts))
    }

    fn part(&mut self, place: &str, part: &Value) -> Result<EncodedPart, ApiError> {
        match part["type"].as_str() {
            Some("text") => {
                let text = part["text"].as_str();
                let text = text.ok_or_else(|| wrong(&format!("{place}.text"), "must be a string"))?;
                Ok(EncodedPart::Text(text.into()))
            }
            Some(kind @ ("image_url" | "video_url")) => {
                let url = part[kind]["url"].as_str().or(part[kind].as_str());
                let place = format!("{place}.{kind}.url");
                let url = url.ok_or_else(|| wrong(&place, "must be a string"))?;
                if kind == "video_url" {
                    return self.video(url, &part[kind]["fps"], place);
                }
                self.count(1)?;
                let encoded = EncodedImage::from_url(url).map_err(|why| wrong(&place, why))?;
                self.check_pixels(&encoded, &place)?;
                Ok(EncodedPart::Image(encoded, place))
            }
            Some(other) => {
                let known = "text, image_url and video_url are understood";
                let other: String = other.chars().take(40).collect();
                Err(wrong(&format!("{place}.type"), format_args!("`{other}` is not; {known}")))
            }
            None => Err(wrong(&format!("{place}.type"), "must be text, image_url or video_url")),
        }
    }

    fn video(&mut self, url: &str, fps: &Value, place: String) -> Result<EncodedPart, ApiError> {
        self.count(url.matches(',').count())?;
        let fps = match fps {
            Value::Null => None,
            fps => {
                let rate = fps.as_f64().filter(|fps| *fps > 0.0 && *fps <= 1000.0);
                let expected = || wrong(&place.replace(".url", ".fps"), "must be above 0, and at most 1000");
                Some(rate.ok_or_else(expected)?)
            }
        };
        let frames = EncodedImage::frames_from_url(url).map_err(|why| wrong(&place, why))?;
        frames.iter().try_for_each(|frame| self.check_pixels(frame, &place))?;
        Ok(EncodedPart::Video(frames, fps, place))
    }

    fn check_pixels(&self, image: &EncodedImage, place: &str) -> Result<(), ApiError> {
        let checked = image.check_pixels(self.limits.image_pixels);
        checked.map_err(|why| ApiError::too_large(format!("{place}: {why}")))
    }

    fn count(&mut self, images: usize) -> Result<(), ApiError> {
        self.images += images;
        if self.images > self.limits.images {
            let most = self.limits.images;
            return Err(ApiError::too_large(format!("more than {most} images in one request")));
        }
        Ok(())
    }
}

impl EncodedPart {
    fn decoded_bytes(&self) -> usize {
        match self {
            Self::Text(_) => 0,
            Self::Image(encoded, _) => encoded.decoded_bytes(),
            Self::Video(frames, ..) => frames.iter().map(EncodedImage::decoded_bytes).sum(),
        }
    }

    fn decode(self) -> Result<ContentPart, ApiError> {
        match self {
            Self::Text(text) => Ok(ContentPart::Text(text)),
            Self::Image(encoded, place) => {
                encoded.decode().map(ContentPart::Image).map_err(|why| wrong(&place, why))
            }
            Self::Video(frames, fps, place) => {
                let frames = frames.into_iter().enumerate().map(|(at, frame)| {
                    frame.decode().map_err(|why| wrong(&place, format_args!("frame {at}: {why}")))
                });
                Ok(ContentPart::Video(Video { frames: frames.collect::<Result<_, _>>()?, fps }))
            }
        }
    }
}

impl ChatRequest {
    /// Bytes that the images will have as pixels.
    pub(crate) fn decoded_bytes(&self) -> usize {
        self.messages.iter().flat_map(|(_, parts)| parts).map(EncodedPart::decoded_bytes).sum()
    }

    /// The chat, with its images decoded.
    pub(crate) fn decode(self) -> Result<Chat, ApiError> {
        let message = |(role, parts): (Role, Vec<EncodedPart>)| {
            let parts = parts.into_iter().map(EncodedPart::decode).collect::<Result<_, _>>()?;
            Ok(ChatMessage { role, parts })
        };
        let messages = self.messages.into_iter().map(message).collect::<Result<_, ApiError>>()?;
        Ok(Chat { messages, options: self.options })
    }
}
