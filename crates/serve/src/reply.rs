//! Answers as the protocols have them.

use serde_json::{Map, Value, json};

use crate::model::{ChatAnswer, ChatChoice, ModelInfo, Scores, TextPiece, TokenLogprob};

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

/// All models.
pub(crate) fn models<'a>(infos: impl Iterator<Item = &'a ModelInfo>) -> String {
    json!({"object": "list", "data": infos.map(model_entry).collect::<Vec<_>>()}).to_string()
}

/// One model alone.
pub(crate) fn model(info: &ModelInfo) -> String {
    Value::Object(model_entry(info)).to_string()
}

fn model_entry(info: &ModelInfo) -> Map<String, Value> {
    let mut model = Map::new();
    model.insert("id".into(), info.name.clone().into());
    model.insert("object".into(), "model".into());
    model.insert("created".into(), 0.into());
    model.insert("owned_by".into(), "plaudit".into());
    model.extend(info.details.clone());
    model
}

/// An answer to a chat, all at once.
pub(crate) fn completion(answer: &ChatAnswer, model: &str, completion_id: CompletionId) -> String {
    let choice = |(index, choice): (usize, &ChatChoice)| {
        let message = json!({"role": "assistant", "content": choice.text, "refusal": null});
        let mut value = json!({
            "index": index,
            "message": message,
            "logprobs": logprobs(choice.tokens.as_deref()),
            "finish_reason": finish(choice),
        });
        add_labels(&mut value, choice);
        value
    };
    let choices: Vec<Value> = answer.choices.iter().enumerate().map(choice).collect();
    json!({
        "id": completion_id.id(),
        "object": "chat.completion",
        "created": completion_id.seconds,
        "model": model,
        "choices": choices,
        "usage": usage(answer),
    })
    .to_string()
}

/// An answer that is sent token by token.
#[derive(Debug, Clone)]
pub(crate) struct EventStream {
    pub(crate) model: String,
    pub(crate) id: CompletionId,
    /// Whether the last event counts tokens.
    pub(crate) counts_tokens: bool,
}

impl EventStream {
    fn event(&self, choices: &Value, usage: Option<Value>) -> String {
        let mut event = json!({
            "id": self.id.id(),
            "object": "chat.completion.chunk",
            "created": self.id.seconds,
            "model": self.model,
            "choices": choices,
        });
        if self.counts_tokens {
            event["usage"] = usage.unwrap_or(Value::Null);
        }
        format!("data: {event}\n\n")
    }

    /// That an answer begins.
    pub(crate) fn begins(&self, choice: usize) -> String {
        let delta = json!({"role": "assistant", "content": ""});
        let choice = json!({"index": choice, "delta": delta, "logprobs": null, "finish_reason": null});
        self.event(&json!([choice]), None)
    }

    /// A token.
    pub(crate) fn piece(&self, choice: usize, piece: &TextPiece) -> String {
        let logprobs = logprobs(piece.token.as_ref().map(std::slice::from_ref));
        let delta = json!({"content": piece.text});
        let choice = json!({"index": choice, "delta": delta, "logprobs": logprobs, "finish_reason": null});
        self.event(&json!([choice]), None)
    }

    /// The end of an answer: why each choice ended, how many tokens there were, and that nothing follows.
    pub(crate) fn ends(&self, answer: &ChatAnswer) -> String {
        let end = |(index, choice): (usize, &ChatChoice)| {
            let mut value =
                json!({"index": index, "delta": {}, "logprobs": null, "finish_reason": finish(choice)});
            add_labels(&mut value, choice);
            self.event(&json!([value]), None)
        };
        let mut text: String = answer.choices.iter().enumerate().map(end).collect();
        if self.counts_tokens {
            text += &self.event(&json!([]), Some(usage(answer)));
        }
        text + "data: [DONE]\n\n"
    }

    /// That there is no more of an answer, and why.
    pub(crate) fn fails(&self, error: &crate::ApiError) -> String {
        format!("data: {}\n\n", error.body())
    }
}

fn add_labels(value: &mut Value, choice: &ChatChoice) {
    let labels = [("label_logits", &choice.label_logits), ("label_logprobs", &choice.label_logprobs)];
    for (key, numbers) in labels {
        if let Some(numbers) = numbers {
            value[key] = numbers.iter().map(|number| shortest(*number)).collect();
        }
    }
}

fn finish(choice: &ChatChoice) -> &'static str {
    if choice.is_truncated { "length" } else { "stop" }
}

fn usage(answer: &ChatAnswer) -> Value {
    let prompt = answer.prompt_tokens;
    let completion: usize = answer.choices.iter().map(|choice| choice.completion_tokens).sum();
    let total = prompt + completion;
    json!({"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": total})
}

fn logprobs(tokens: Option<&[TokenLogprob]>) -> Value {
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
    match tokens {
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

/// A number in as few digits as tell it from every other; JSON's own numbers are twice as wide, and it has no infinity.
fn shortest(number: f32) -> Value {
    serde_json::from_str(&format!("{number:?}")).unwrap_or(Value::Null)
}

/// Scores as bytes: floats of 32 bits, little-endian, row after row.
pub(crate) fn score_bytes(scores: &Scores) -> Vec<u8> {
    scores.numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}
