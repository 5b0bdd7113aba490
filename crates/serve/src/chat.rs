//! Requests of the OpenAI chat protocol.

use serde_json::Value;

use crate::limits::Limits;
use crate::model::{Chat, Part, Role, Turn};
use crate::picture::Packed;
use crate::refusal::Refusal;

/// The most tokens whose probabilities are told at each place.
const MOST_LOGPROBS: u64 = 20;

/// A chat request whose pictures are still packed.
#[derive(Debug)]
pub struct ChatRequest {
    /// The model that is asked for.
    pub(crate) model: String,
    /// Whether the answer is to come in pieces.
    pub(crate) stream: bool,
    turns: Vec<(Role, Vec<PackedPart>)>,
    max_tokens: Option<usize>,
    temperature: Option<f64>,
    top_logprobs: Option<usize>,
}

#[derive(Debug)]
enum PackedPart {
    Text(String),
    Picture(Packed, String),
}

/// What is wrong at a place of the request.
fn wrong(place: &str, why: impl std::fmt::Display) -> Refusal {
    Refusal::invalid(format!("{place}: {why}"))
}

/// A request as it came; pictures are looked at no further than their size.
///
/// # Errors
/// What is wrong with it, and where.
pub fn read(body: &[u8], limits: &Limits) -> Result<ChatRequest, Refusal> {
    let request: Value = serde_json::from_slice(body)
        .map_err(|error| Refusal::invalid(format!("the body is no JSON: {error}")))?;
    if !request.is_object() {
        return Err(Refusal::invalid("the body is no JSON object"));
    }
    let model = request["model"].as_str().ok_or_else(|| wrong("model", "it must be a text"))?;
    let messages = request["messages"].as_array().filter(|messages| !messages.is_empty());
    let messages = messages.ok_or_else(|| wrong("messages", "it must be a list that is not empty"))?;
    let mut reader = Reader { limits, pictures: 0 };
    let turns = messages.iter().enumerate().map(|(at, message)| reader.turn(at, message));
    let turns = turns.collect::<Result<Vec<_>, _>>()?;
    if !turns.iter().any(|(role, _)| *role == Role::User) {
        return Err(wrong("messages", "nobody asks anything: there is no message of the user"));
    }
    match optional(&request, "n", Value::as_u64, "a whole number")? {
        None | Some(1) => {}
        Some(_) => return Err(wrong("n", "only one answer is given")),
    }
    let tokens = |key| optional(&request, key, Value::as_u64, "a whole number");
    let max_tokens = tokens("max_completion_tokens")?.or(tokens("max_tokens")?);
    Ok(ChatRequest {
        model: model.into(),
        stream: optional(&request, "stream", Value::as_bool, "true or false")?.unwrap_or(false),
        turns,
        max_tokens: match max_tokens {
            Some(0) => return Err(wrong("max_tokens", "an answer has at least one token")),
            other => other.map(|tokens| usize::try_from(tokens).unwrap_or(usize::MAX)),
        },
        temperature: match optional(&request, "temperature", Value::as_f64, "a number")? {
            Some(temperature) if !(0.0..=2.0).contains(&temperature) => {
                return Err(wrong("temperature", "it must be from 0 to 2"));
            }
            other => other,
        },
        top_logprobs: top_logprobs(&request)?,
    })
}

fn top_logprobs(request: &Value) -> Result<Option<usize>, Refusal> {
    let wanted = optional(request, "logprobs", Value::as_bool, "true or false")?.unwrap_or(false);
    let top = optional(request, "top_logprobs", Value::as_u64, "a whole number")?;
    match top {
        Some(top) if top > MOST_LOGPROBS => {
            Err(wrong("top_logprobs", format!("at most {MOST_LOGPROBS} are told")))
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
) -> Result<Option<T>, Refusal> {
    match request.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => of(value).map(Some).ok_or_else(|| wrong(key, format_args!("it must be {expected}"))),
    }
}

struct Reader<'a> {
    limits: &'a Limits,
    pictures: usize,
}

impl Reader<'_> {
    fn turn(&mut self, at: usize, message: &Value) -> Result<(Role, Vec<PackedPart>), Refusal> {
        let place = format!("messages[{at}]");
        let role = match message["role"].as_str() {
            Some("user") => Role::User,
            Some("system" | "developer") => Role::System,
            Some("assistant") => Role::Assistant,
            _ => return Err(wrong(&format!("{place}.role"), "it must be user, system or assistant")),
        };
        let parts = match &message["content"] {
            Value::String(text) => vec![PackedPart::Text(text.clone())],
            Value::Null if role == Role::Assistant => Vec::new(),
            Value::Array(parts) => {
                let part = |(number, part)| self.part(&format!("{place}.content[{number}]"), part);
                parts.iter().enumerate().map(part).collect::<Result<_, _>>()?
            }
            _ => return Err(wrong(&format!("{place}.content"), "it must be a text or a list of parts")),
        };
        Ok((role, parts))
    }

    fn part(&mut self, place: &str, part: &Value) -> Result<PackedPart, Refusal> {
        match part["type"].as_str() {
            Some("text") => {
                let text = part["text"].as_str();
                let text = text.ok_or_else(|| wrong(&format!("{place}.text"), "it must be a text"))?;
                Ok(PackedPart::Text(text.into()))
            }
            Some("image_url") => {
                let url = part["image_url"]["url"].as_str().or(part["image_url"].as_str());
                let place = format!("{place}.image_url.url");
                let url = url.ok_or_else(|| wrong(&place, "it must be a text"))?;
                self.pictures += 1;
                if self.pictures > self.limits.pictures {
                    let most = self.limits.pictures;
                    return Err(Refusal::too_large(format!("more than {most} pictures in one request")));
                }
                let packed = Packed::from_url(url, self.limits.picture_pixels);
                Ok(PackedPart::Picture(packed.map_err(|why| wrong(&place, why))?, place))
            }
            Some(other) => {
                let known = "text and image_url are understood; send a video as its frames";
                let other: String = other.chars().take(40).collect();
                Err(wrong(&format!("{place}.type"), format_args!("`{other}` is not; {known}")))
            }
            None => Err(wrong(&format!("{place}.type"), "it must be text or image_url")),
        }
    }
}

impl ChatRequest {
    /// Bytes that the pictures will have as pixels.
    pub(crate) fn unpacked_bytes(&self) -> usize {
        let parts = self.turns.iter().flat_map(|(_, parts)| parts);
        let bytes = parts.map(|part| match part {
            PackedPart::Text(_) => 0,
            PackedPart::Picture(packed, _) => packed.unpacked_bytes(),
        });
        bytes.sum()
    }

    /// The chat, with its pictures decoded.
    pub(crate) fn unpack(self) -> Result<Chat, Refusal> {
        let part = |part| match part {
            PackedPart::Text(text) => Ok(Part::Text(text)),
            PackedPart::Picture(packed, place) => {
                packed.unpack().map(Part::Picture).map_err(|why| wrong(&place, why))
            }
        };
        let turn = |(role, parts): (Role, Vec<PackedPart>)| {
            Ok(Turn { role, parts: parts.into_iter().map(part).collect::<Result<_, _>>()? })
        };
        let Self { turns, max_tokens, temperature, top_logprobs, .. } = self;
        let turns = turns.into_iter().map(turn).collect::<Result<_, Refusal>>()?;
        Ok(Chat { turns, max_tokens, temperature, top_logprobs })
    }
}
