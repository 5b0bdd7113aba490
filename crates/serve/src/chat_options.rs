//! The options of a chat request. Each is honoured, has no effect on an answer, or is refused by name.

use serde_json::{Map, Value};

use crate::chat::wrong;
use crate::error::ApiError;
use crate::model::ChatOptions;

/// The most tokens whose log-probabilities are returned at each position.
const MAX_LOGPROBS: u64 = 20;
/// The most answers to one question.
const MAX_CHOICES: u64 = 16;
/// The most texts that end an answer, and the longest.
const MAX_STOPS: usize = 4;
const MAX_STOP_BYTES: usize = 256;
/// The most tokens with a bias, and how far a logit is moved at most.
const MAX_BIASES: usize = 1024;
const MAX_BIAS: f64 = 100.0;
/// The most words whose logits are returned.
const MAX_LABELS: usize = 128;

/// Options with another reader.
const READ_ELSEWHERE: [&str; 2] = ["model", "messages"];
/// Options that say who asks, how the request is billed or where it is kept, and change no answer.
const WITHOUT_EFFECT: [&str; 6] =
    ["user", "metadata", "service_tier", "safety_identifier", "prompt_cache_key", "prompt_cache_retention"];

/// How an answer is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Delivery {
    /// All at once.
    Whole,
    /// Token by token.
    Stream {
        /// With a last event that counts tokens.
        counts_tokens: bool,
    },
}

/// The options of a request.
pub(crate) fn parse(request: &Map<String, Value>) -> Result<(ChatOptions, Delivery), ApiError> {
    let mut options = ChatOptions::default();
    let (mut wants_logprobs, mut top_logprobs) = (false, None);
    let (mut streams, mut counts_tokens) = (false, false);
    let mut own_turn = true;
    // The older name counts where the newer one is not given.
    let (mut older_max, mut newer_max) = (None, None);
    for (key, value) in request.iter().filter(|(_, value)| !value.is_null()) {
        let option = Opt { key, value };
        match key.as_str() {
            known if READ_ELSEWHERE.contains(&known) || WITHOUT_EFFECT.contains(&known) => {}
            "max_tokens" => older_max = Some(option.max_tokens()?),
            "max_completion_tokens" => newer_max = Some(option.max_tokens()?),
            "temperature" => options.temperature = Some(option.number(0.0, 2.0)?),
            "top_p" => options.top_p = Some(option.share()?),
            "seed" => options.seed = Some(option.seed()?),
            "stop" => options.stop = option.stops()?,
            "logit_bias" => options.logit_bias = option.biases()?,
            "presence_penalty" => options.presence_penalty = option.number(-2.0, 2.0)?,
            "frequency_penalty" => options.frequency_penalty = option.number(-2.0, 2.0)?,
            "n" => options.choices = option.whole(1, MAX_CHOICES)? as usize,
            "logprobs" => wants_logprobs = option.truth()?,
            "top_logprobs" => top_logprobs = Some(option.whole(0, MAX_LOGPROBS)? as usize),
            "label_logits" => options.label_logits = option.words()?,
            "label_logprobs" => options.label_logprobs = option.words()?,
            "mm_processor_kwargs" => options.samples_frames = option.processor_settings()?,
            "add_generation_prompt" => own_turn = option.truth()?,
            "continue_final_message" => options.continues_question = option.truth()?,
            "stream" => streams = option.truth()?,
            "stream_options" => counts_tokens = option.counts_tokens()?,
            "response_format" => option.plain_text()?,
            "tools" | "functions" => option.empty_list()?,
            "tool_choice" | "function_call" => option.one_of(&["none", "auto"])?,
            "modalities" => option.text_alone()?,
            "store" | "parallel_tool_calls" => drop(option.truth()?),
            _ => return Err(option.refused("is no option of this server")),
        }
    }
    options.max_tokens = newer_max.or(older_max);
    match top_logprobs {
        Some(1..) if !wants_logprobs => {
            return Err(wrong("top_logprobs", "needs logprobs: true"));
        }
        top => options.top_logprobs = wants_logprobs.then(|| top.unwrap_or(0)),
    }
    if own_turn == options.continues_question {
        let why = "the answer either goes on in the last message (false, with continue_final_message: true) or has a turn of its own";
        return Err(wrong("add_generation_prompt", why));
    }
    if !options.label_logits.is_empty() && !options.label_logprobs.is_empty() {
        return Err(wrong("label_logprobs", "not together with label_logits"));
    }
    let delivery = if streams { Delivery::Stream { counts_tokens } } else { Delivery::Whole };
    Ok((options, delivery))
}

/// An option as it came.
struct Opt<'a> {
    key: &'a str,
    value: &'a Value,
}

impl Opt<'_> {
    fn refused(&self, why: impl std::fmt::Display) -> ApiError {
        let key: String = self.key.chars().take(60).collect();
        wrong(&key, why)
    }

    fn truth(&self) -> Result<bool, ApiError> {
        self.value.as_bool().ok_or_else(|| self.refused("must be true or false"))
    }

    fn whole(&self, least: u64, most: u64) -> Result<u64, ApiError> {
        let number = self.value.as_u64().filter(|number| (least..=most).contains(number));
        number.ok_or_else(|| self.refused(format_args!("must be an integer from {least} to {most}")))
    }

    fn max_tokens(&self) -> Result<usize, ApiError> {
        let tokens = self.value.as_u64().filter(|tokens| *tokens > 0);
        let tokens = tokens.ok_or_else(|| self.refused("must be an integer above 0"))?;
        Ok(usize::try_from(tokens).unwrap_or(usize::MAX))
    }

    fn number(&self, least: f64, most: f64) -> Result<f64, ApiError> {
        let number = self.value.as_f64().filter(|number| (least..=most).contains(number));
        number.ok_or_else(|| self.refused(format_args!("must be a number from {least} to {most}")))
    }

    fn share(&self) -> Result<f64, ApiError> {
        let share = self.value.as_f64().filter(|share| *share > 0.0 && *share <= 1.0);
        share.ok_or_else(|| self.refused("must be a number above 0, up to 1"))
    }

    /// Clients send negative seeds, too.
    fn seed(&self) -> Result<u64, ApiError> {
        let seed = self.value.as_u64().or_else(|| self.value.as_i64().map(i64::cast_unsigned));
        seed.ok_or_else(|| self.refused("must be an integer"))
    }

    fn stops(&self) -> Result<Vec<String>, ApiError> {
        let expected =
            format!("must be a text or up to {MAX_STOPS} of them, each of 1 to {MAX_STOP_BYTES} bytes");
        let texts = match self.value {
            Value::Array(texts) if texts.len() <= MAX_STOPS => texts.as_slice(),
            one => std::slice::from_ref(one),
        };
        let text = |text: &Value| {
            let text = text.as_str().filter(|text| (1..=MAX_STOP_BYTES).contains(&text.len()));
            text.map(String::from).ok_or_else(|| self.refused(&expected))
        };
        texts.iter().map(text).collect()
    }

    fn biases(&self) -> Result<Vec<(u32, f32)>, ApiError> {
        let expected = || {
            self.refused(format_args!(
                "must give up to {MAX_BIASES} tokens, by their numbers, a bias from -{MAX_BIAS} to {MAX_BIAS}"
            ))
        };
        let biases = self.value.as_object().filter(|biases| biases.len() <= MAX_BIASES);
        let bias = |(token, bias): (&String, &Value)| {
            let bias = bias.as_f64().filter(|bias| bias.abs() <= MAX_BIAS)?;
            Some((token.parse().ok()?, bias as f32))
        };
        let biases = biases.ok_or_else(expected)?.iter().map(bias);
        biases.collect::<Option<_>>().ok_or_else(expected)
    }

    fn words(&self) -> Result<Vec<String>, ApiError> {
        let expected = || self.refused(format_args!("must be a list of 1 to {MAX_LABELS} words"));
        let words = self.value.as_array().filter(|words| (1..=MAX_LABELS).contains(&words.len()));
        let word = |word: &Value| {
            let word = word.as_str().filter(|word| (1..=MAX_STOP_BYTES).contains(&word.len()));
            word.map(String::from)
        };
        let words = words.ok_or_else(expected)?.iter().map(word);
        words.collect::<Option<_>>().ok_or_else(expected)
    }

    /// Settings of the model's processor: which frames of a video it takes.
    fn processor_settings(&self) -> Result<Option<bool>, ApiError> {
        let expected = || self.refused("only do_sample_frames: true or false is understood in it");
        let settings = self.value.as_object().ok_or_else(expected)?;
        match settings.iter().find(|(key, _)| *key != "do_sample_frames") {
            Some(_) => Err(expected()),
            None => {
                settings.get("do_sample_frames").map(|value| value.as_bool().ok_or_else(expected)).transpose()
            }
        }
    }

    fn counts_tokens(&self) -> Result<bool, ApiError> {
        let expected = || self.refused("only include_usage: true or false is understood in it");
        let settings = self.value.as_object().ok_or_else(expected)?;
        match settings.keys().find(|key| *key != "include_usage" && *key != "include_obfuscation") {
            Some(_) => Err(expected()),
            None => {
                settings.get("include_usage").map_or(Ok(false), |value| value.as_bool().ok_or_else(expected))
            }
        }
    }

    fn plain_text(&self) -> Result<(), ApiError> {
        match self.value["type"].as_str() {
            Some("text") => Ok(()),
            _ => Err(self.refused("answers are plain text here; leave it out")),
        }
    }

    fn empty_list(&self) -> Result<(), ApiError> {
        match self.value.as_array() {
            Some(list) if list.is_empty() => Ok(()),
            _ => Err(self.refused("this model calls no tools; leave it out")),
        }
    }

    fn text_alone(&self) -> Result<(), ApiError> {
        if *self.value == serde_json::json!(["text"]) {
            Ok(())
        } else {
            Err(self.refused("answers are text"))
        }
    }

    fn one_of(&self, allowed: &[&str]) -> Result<(), ApiError> {
        match self.value.as_str() {
            Some(word) if allowed.contains(&word) => Ok(()),
            _ => Err(self.refused("this model calls no tools; leave it out")),
        }
    }
}
