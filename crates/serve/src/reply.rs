//! Answers as the protocols have them.

use serde_json::{Map, Value, json};

use crate::model::{ChatAnswer, ModelInfo, Scores, TokenLogprob};

/// The id of an answer: when it was given, in seconds since 1970, and its number.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CompletionId {
    pub(crate) seconds: u64,
    pub(crate) number: u64,
}

impl CompletionId {
    fn id(self) -> String {
        format!("chatcmpl-{:x}-{:x}", self.seconds, self.number)
    }
}

/// The model, as the only one there is.
pub(crate) fn models(info: &ModelInfo) -> String {
    let mut model = Map::new();
    model.insert("id".into(), info.name.clone().into());
    model.insert("object".into(), "model".into());
    model.insert("created".into(), 0.into());
    model.insert("owned_by".into(), "plaudit".into());
    model.extend(info.details.clone());
    json!({"object": "list", "data": [model]}).to_string()
}

/// An answer to a chat, all at once.
pub(crate) fn completion(answer: &ChatAnswer, model: &str, completion_id: CompletionId) -> String {
    let message = json!({"role": "assistant", "content": answer.text, "refusal": null});
    let choice = json!({
        "index": 0,
        "message": message,
        "logprobs": logprobs(answer),
        "finish_reason": finish(answer),
    });
    json!({
        "id": completion_id.id(),
        "object": "chat.completion",
        "created": completion_id.seconds,
        "model": model,
        "choices": [choice],
        "usage": usage(answer),
    })
    .to_string()
}

/// The same as a stream of events: the words, that they end, and the end of the stream.
pub(crate) fn events(answer: &ChatAnswer, model: &str, completion_id: CompletionId) -> String {
    let chunk = |delta: Value, logprobs: Value, finish: Value| {
        let choice = json!({"index": 0, "delta": delta, "logprobs": logprobs, "finish_reason": finish});
        json!({
            "id": completion_id.id(),
            "object": "chat.completion.chunk",
            "created": completion_id.seconds,
            "model": model,
            "choices": [choice],
        })
    };
    let words = chunk(json!({"role": "assistant", "content": answer.text}), logprobs(answer), Value::Null);
    let mut end = chunk(json!({}), Value::Null, finish(answer).into());
    end["usage"] = usage(answer);
    format!("data: {words}\n\ndata: {end}\n\ndata: [DONE]\n\n")
}

fn finish(answer: &ChatAnswer) -> &'static str {
    if answer.is_truncated { "length" } else { "stop" }
}

fn usage(answer: &ChatAnswer) -> Value {
    let ChatAnswer { prompt_tokens, completion_tokens, .. } = answer;
    let total = prompt_tokens + completion_tokens;
    json!({"prompt_tokens": prompt_tokens, "completion_tokens": completion_tokens, "total_tokens": total})
}

fn logprobs(answer: &ChatAnswer) -> Value {
    let token = |token: &str, logprob: f32| {
        // JSON has no minus infinity; this is what servers write for it.
        let logprob = if logprob.is_finite() { logprob } else { -9999.0 };
        json!({"token": token, "logprob": logprob, "bytes": token.as_bytes()})
    };
    let place = |token_logprob: &TokenLogprob| {
        let mut place = token(&token_logprob.token, token_logprob.logprob);
        place["top_logprobs"] =
            token_logprob.top.iter().map(|(text, logprob)| token(text, *logprob)).collect();
        place
    };
    match &answer.tokens {
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
