//! Requests of the OpenAI chat protocol.

use serde_json::Value;

use crate::error::ApiError;
use crate::image::EncodedImage;
use crate::limits::Limits;
use crate::model::{Chat, ChatMessage, ContentPart, Role};

/// The most tokens whose log-probabilities are returned at each position.
const MOST_LOGPROBS: u64 = 20;

/// A chat request whose images are still encoded.
#[derive(Debug)]
pub struct ChatRequest {
    /// The model that is asked for.
    pub(crate) model: String,
    /// Whether the answer is to come in pieces.
    pub(crate) stream: bool,
    messages: Vec<(Role, Vec<EncodedPart>)>,
    max_tokens: Option<usize>,
    temperature: Option<f64>,
    top_logprobs: Option<usize>,
}

#[derive(Debug)]
enum EncodedPart {
    Text(String),
    Image(EncodedImage, String),
}

/// What is wrong at a place of the request.
fn wrong(place: &str, why: impl std::fmt::Display) -> ApiError {
    ApiError::invalid(format!("{place}: {why}"))
}

/// A request as it came; of images only the size is read.
///
/// # Errors
/// What is wrong with it, and where.
pub fn parse(body: &[u8], limits: &Limits) -> Result<ChatRequest, ApiError> {
    let request: Value = serde_json::from_slice(body)
        .map_err(|error| ApiError::invalid(format!("the body is not JSON: {error}")))?;
    if !request.is_object() {
        return Err(ApiError::invalid("the body is not a JSON object"));
    }
    let model = request["model"].as_str().ok_or_else(|| wrong("model", "must be a string"))?;
    let messages = request["messages"].as_array().filter(|messages| !messages.is_empty());
    let messages = messages.ok_or_else(|| wrong("messages", "must be a list that is not empty"))?;
    let mut parser = MessageParser { limits, images: 0 };
    let messages = messages.iter().enumerate().map(|(at, message)| parser.message(at, message));
    let messages = messages.collect::<Result<Vec<_>, _>>()?;
    if !messages.iter().any(|(role, _)| *role == Role::User) {
        return Err(wrong("messages", "there is no message of the user"));
    }
    match optional(&request, "n", Value::as_u64, "an integer")? {
        None | Some(1) => {}
        Some(_) => return Err(wrong("n", "only one answer is given")),
    }
    let tokens = |key| optional(&request, key, Value::as_u64, "an integer");
    let max_tokens = tokens("max_completion_tokens")?.or(tokens("max_tokens")?);
    Ok(ChatRequest {
        model: model.into(),
        stream: optional(&request, "stream", Value::as_bool, "true or false")?.unwrap_or(false),
        messages,
        max_tokens: match max_tokens {
            Some(0) => return Err(wrong("max_tokens", "an answer has at least one token")),
            other => other.map(|tokens| usize::try_from(tokens).unwrap_or(usize::MAX)),
        },
        temperature: match optional(&request, "temperature", Value::as_f64, "a number")? {
            Some(temperature) if !(0.0..=2.0).contains(&temperature) => {
                return Err(wrong("temperature", "must be from 0 to 2"));
            }
            other => other,
        },
        top_logprobs: top_logprobs(&request)?,
    })
}

fn top_logprobs(request: &Value) -> Result<Option<usize>, ApiError> {
    let wanted = optional(request, "logprobs", Value::as_bool, "true or false")?.unwrap_or(false);
    let top = optional(request, "top_logprobs", Value::as_u64, "an integer")?;
    match top {
        Some(top) if top > MOST_LOGPROBS => {
            Err(wrong("top_logprobs", format!("at most {MOST_LOGPROBS} are returned")))
        }
        top => Ok(wanted.then(|| top.unwrap_or(0) as usize)),
    }
}

/// A value that may be absent or null, but not of another type.
fn optional<'a, T>(
    request: &'a Value,
    key: &str,
    of: impl Fn(&'a Value) -> Option<T>,
    expected: &str,
) -> Result<Option<T>, ApiError> {
    match request.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => of(value).map(Some).ok_or_else(|| wrong(key, format_args!("must be {expected}"))),
    }
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
            Some("image_url") => {
                let url = part["image_url"]["url"].as_str().or(part["image_url"].as_str());
                let place = format!("{place}.image_url.url");
                let url = url.ok_or_else(|| wrong(&place, "must be a string"))?;
                self.images += 1;
                if self.images > self.limits.images {
                    let most = self.limits.images;
                    return Err(ApiError::too_large(format!("more than {most} images in one request")));
                }
                let encoded = EncodedImage::from_url(url, self.limits.image_pixels);
                Ok(EncodedPart::Image(encoded.map_err(|why| wrong(&place, why))?, place))
            }
            Some(other) => {
                let known = "text and image_url are understood; send a video as its frames";
                let other: String = other.chars().take(40).collect();
                Err(wrong(&format!("{place}.type"), format_args!("`{other}` is not; {known}")))
            }
            None => Err(wrong(&format!("{place}.type"), "must be text or image_url")),
        }
    }
}

impl ChatRequest {
    /// Bytes that the images will have as pixels.
    pub(crate) fn decoded_bytes(&self) -> usize {
        let parts = self.messages.iter().flat_map(|(_, parts)| parts);
        let bytes = parts.map(|part| match part {
            EncodedPart::Text(_) => 0,
            EncodedPart::Image(encoded, _) => encoded.decoded_bytes(),
        });
        bytes.sum()
    }

    /// The chat, with its images decoded.
    pub(crate) fn decode(self) -> Result<Chat, ApiError> {
        let part = |part| match part {
            EncodedPart::Text(text) => Ok(ContentPart::Text(text)),
            EncodedPart::Image(encoded, place) => {
                encoded.decode().map(ContentPart::Image).map_err(|why| wrong(&place, why))
            }
        };
        let message = |(role, parts): (Role, Vec<EncodedPart>)| {
            Ok(ChatMessage { role, parts: parts.into_iter().map(part).collect::<Result<_, _>>()? })
        };
        let Self { messages, max_tokens, temperature, top_logprobs, .. } = self;
        let messages = messages.into_iter().map(message).collect::<Result<_, ApiError>>()?;
        Ok(Chat { messages, max_tokens, temperature, top_logprobs })
    }
}
