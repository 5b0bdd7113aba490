//! Answers as the protocols have them.

use serde_json::{Map, Value, json};

use crate::model::{About, Likely, Said, Scores};

/// When an answer was given, in seconds since 1970, and its number.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stamp {
    pub(crate) seconds: u64,
    pub(crate) number: u64,
}

impl Stamp {
    fn id(self) -> String {
        format!("chatcmpl-{:x}-{:x}", self.seconds, self.number)
    }
}

/// The model, as the only one there is.
pub(crate) fn models(about: &About) -> String {
    let mut model = Map::new();
    model.insert("id".into(), about.name.clone().into());
    model.insert("object".into(), "model".into());
    model.insert("created".into(), 0.into());
    model.insert("owned_by".into(), "plaudit".into());
    model.extend(about.details.clone());
    json!({"object": "list", "data": [model]}).to_string()
}

/// An answer to a chat, all at once.
pub(crate) fn completion(said: &Said, model: &str, stamp: Stamp) -> String {
    let message = json!({"role": "assistant", "content": said.text, "refusal": null});
    let choice = json!({
        "index": 0,
        "message": message,
        "logprobs": logprobs(said),
        "finish_reason": finish(said),
    });
    json!({
        "id": stamp.id(),
        "object": "chat.completion",
        "created": stamp.seconds,
        "model": model,
        "choices": [choice],
        "usage": usage(said),
    })
    .to_string()
}

/// The same as a stream of events: the words, that they end, and the end of the stream.
pub(crate) fn events(said: &Said, model: &str, stamp: Stamp) -> String {
    let chunk = |delta: Value, logprobs: Value, finish: Value| {
        let choice = json!({"index": 0, "delta": delta, "logprobs": logprobs, "finish_reason": finish});
        json!({
            "id": stamp.id(),
            "object": "chat.completion.chunk",
            "created": stamp.seconds,
            "model": model,
            "choices": [choice],
        })
    };
    let words = chunk(json!({"role": "assistant", "content": said.text}), logprobs(said), Value::Null);
    let mut end = chunk(json!({}), Value::Null, finish(said).into());
    end["usage"] = usage(said);
    format!("data: {words}\n\ndata: {end}\n\ndata: [DONE]\n\n")
}

fn finish(said: &Said) -> &'static str {
    if said.is_cut { "length" } else { "stop" }
}

fn usage(said: &Said) -> Value {
    let Said { prompt_tokens, completion_tokens, .. } = said;
    let total = prompt_tokens + completion_tokens;
    json!({"prompt_tokens": prompt_tokens, "completion_tokens": completion_tokens, "total_tokens": total})
}

fn logprobs(said: &Said) -> Value {
    let token = |token: &str, logprob: f32| {
        // JSON has no minus infinity; this is what servers write for it.
        let logprob = if logprob.is_finite() { logprob } else { -9999.0 };
        json!({"token": token, "logprob": logprob, "bytes": token.as_bytes()})
    };
    let place = |likely: &Likely| {
        let mut place = token(&likely.token, likely.logprob);
        place["top_logprobs"] = likely.top.iter().map(|(text, logprob)| token(text, *logprob)).collect();
        place
    };
    match &said.tokens {
        Some(tokens) => json!({"content": tokens.iter().map(place).collect::<Value>(), "refusal": null}),
        None => Value::Null,
    }
}

/// Scores as JSON: a list of numbers if each row is one, else a list of rows.
pub(crate) fn scores(scores: &Scores, model: &str) -> String {
    let numbers: Vec<Value> = scores.numbers.iter().map(|number| shortest(*number)).collect();
    let rows: Value = match scores.columns.len() {
        1 => numbers.into(),
        width => numbers.chunks(width.max(1)).map(|row| json!(row)).collect(),
    };
    let mut reply = json!({"model": model, "columns": scores.columns, "scores": rows});
    if let Some(success) = &scores.success {
        reply["success"] = json!(success);
    }
    reply.to_string()
}

/// A number in as few digits as tell it from every other; JSON's own numbers are twice as wide.
fn shortest(number: f32) -> Value {
    serde_json::from_str(&format!("{number:?}")).unwrap_or(Value::Null)
}

/// Scores as bytes: floats of 32 bits, little-endian, row after row.
pub(crate) fn score_bytes(scores: &Scores) -> Vec<u8> {
    scores.numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}
