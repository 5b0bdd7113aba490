//! What a server answered.

use serde_json::{Map, Value};

use super::chat::{LabelReadout, Wanted};
use crate::trend::{Answer, LabelLogits, Trend};

/// The shortest beginning of a label that counts as a token of it.
const SHORTEST_TOKEN: usize = 2;
/// How much of an error message is shown.
const MESSAGE: usize = 300;

/// The answer in a reply, read as was decided.
pub(super) fn answer(body: &[u8], wanted: Wanted<'_>) -> Result<Answer, String> {
    let reply: Value =
        serde_json::from_slice(body).map_err(|error| format!("the reply is no JSON: {error}"))?;
    let choice = reply["choices"].get(0).ok_or("the reply has no choices")?;
    match wanted {
        Wanted::Text | Wanted::Labels(LabelReadout::Words) => text(choice).map(Answer::Text),
        Wanted::ToldWords(words) => {
            let told = told_numbers(&choice["label_logprobs"]).filter(|told| told.len() == words.len());
            told.map(Answer::WordLogprobs).ok_or_else(|| missing("label_logprobs"))
        }
        Wanted::LikelyWords(words) => match choice["logprobs"]["content"].get(0) {
            Some(place) => Ok(Answer::WordLogprobs(likely_words(place, words))),
            None => Err(missing("logprobs")),
        },
        Wanted::Labels(LabelReadout::Logits) => {
            told_logits(&choice["label_logits"]).map(Answer::Logits).ok_or_else(|| missing("label_logits"))
        }
        Wanted::Labels(LabelReadout::Logprobs) => match choice["logprobs"]["content"].as_array() {
            Some(tokens) if !tokens.is_empty() => match label_logits(tokens) {
                Some(logits) => Ok(Answer::Logits(logits)),
                None => text(choice).map(Answer::NoLabel),
            },
            _ => match text(choice)? {
                // Nothing was said, so that nothing can be told about it.
                empty if empty.is_empty() => Ok(Answer::NoLabel(empty)),
                _ => Err(missing("logprobs")),
            },
        },
    }
}

fn missing(what: &str) -> String {
    format!("the reply has no {what}, which the server gave at the beginning")
}

/// Whether a reply tells the log-probabilities of its tokens and of likely others.
pub(super) fn has_logprobs(body: &[u8]) -> bool {
    let reply: Value = serde_json::from_slice(body).unwrap_or_default();
    let tokens = reply["choices"][0]["logprobs"]["content"].as_array();
    tokens.is_some_and(|tokens| {
        !tokens.is_empty()
            && tokens.iter().all(|place| place["top_logprobs"].as_array().is_some_and(|top| !top.is_empty()))
    })
}

fn text(choice: &Value) -> Result<String, String> {
    match &choice["message"]["content"] {
        Value::String(text) => Ok(text.clone()),
        // A model that used up its tokens, or that refused, says nothing.
        Value::Null if choice["message"].is_object() => Ok(String::new()),
        Value::Array(parts) => Ok(parts.iter().filter_map(|part| part["text"].as_str()).collect()),
        _ => Err("the reply's first choice has no message".into()),
    }
}

/// The logits of the labels as `plaudit serve` tells them; one that is no number is null.
fn told_logits(told: &Value) -> Option<LabelLogits> {
    told_numbers(told)?.try_into().ok().map(LabelLogits)
}

fn told_numbers(told: &Value) -> Option<Vec<f32>> {
    let number = |number: &Value| number.as_f64().map_or(f32::NAN, |number| number as f32);
    Some(told.as_array()?.iter().map(number).collect())
}

/// How likely a token may be that begins several words, where words are read from likely tokens. Beyond that, nobody can tell.
const MAX_UNDECIDED: f64 = 0.01;

/// How likely words are at a place, by the likely tokens there: those that are a word, or begin one and no other. A word that is
/// not among them has minus infinity. Where a likely token begins several words, they are no numbers.
fn likely_words(place: &Value, words: &[String]) -> Vec<f32> {
    let (mut likely, mut undecided) = (vec![0.0; words.len()], 0.0);
    for token in place["top_logprobs"].as_array().into_iter().flatten() {
        let (Some(text), Some(logprob)) = (token["token"].as_str(), token["logprob"].as_f64()) else {
            continue;
        };
        match words_of(text, words).as_slice() {
            [] => {}
            [word] => likely[*word] += logprob.exp(),
            _ => undecided += logprob.exp(),
        }
    }
    let is_decided = undecided <= MAX_UNDECIDED;
    likely.into_iter().map(|share: f64| if is_decided { share.ln() as f32 } else { f32::NAN }).collect()
}

/// The word that a token is, or all that it begins.
fn words_of(token: &str, words: &[String]) -> Vec<usize> {
    let token = plain(token);
    let places = |is_meant: &dyn Fn(&str) -> bool| -> Vec<usize> {
        (0..words.len()).filter(|at| is_meant(&plain(&words[*at]))).collect()
    };
    let exact = places(&|word: &str| word == token);
    let begins = |word: &str| token.len() >= SHORTEST_TOKEN && word.starts_with(&token);
    if exact.is_empty() { places(&begins) } else { exact }
}

/// Without what words and tokens may differ in.
fn plain(text: &str) -> String {
    text.trim().to_lowercase()
}

/// A word that another begins with, so that a token cannot tell which it is; with that other.
pub(super) fn word_that_begins_another(words: &[String]) -> Option<(&str, &str)> {
    let begins = |word: &String, other: &String| plain(other).starts_with(&plain(word));
    let pair = |(at, word): (usize, &String)| {
        let mut others = words.iter().enumerate().filter(|(place, _)| *place != at);
        others.find(|(_, other)| begins(word, other)).map(|(_, other)| (at, other))
    };
    let (at, other) = words.iter().enumerate().find_map(pair)?;
    Some((&words[at], other))
}

/// How likely each label is at the first place where one of them was said, or else could have been.
fn label_logits(tokens: &[Value]) -> Option<LabelLogits> {
    let said = tokens.iter().filter(|place| label_of(&place["token"]).is_some());
    said.chain(tokens).find_map(likely_labels)
}

/// How likely each label is at a place, if any is among the likely tokens.
fn likely_labels(place: &Value) -> Option<LabelLogits> {
    let mut likely = [0.0; 3];
    for token in place["top_logprobs"].as_array().into_iter().flatten() {
        if let (Some(label), Some(logprob)) = (label_of(&token["token"]), token["logprob"].as_f64()) {
            likely[label] += logprob.exp();
        }
    }
    let logits = likely.map(|share: f64| share.ln() as f32);
    logits.iter().any(|logit| logit.is_finite()).then_some(LabelLogits(logits))
}

/// Which label a token begins, by its place in [`Trend::LABELS`].
fn label_of(token: &Value) -> Option<usize> {
    let token = token.as_str()?.trim_matches(|character: char| !character.is_alphabetic()).to_lowercase();
    let begins = |label: &Trend| token.len() >= SHORTEST_TOKEN && label.word().starts_with(&token);
    Trend::LABELS.iter().position(begins)
}

/// A model of a server.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct ServedModel {
    pub(super) name: String,
    /// Everything the server says about it.
    pub(super) details: Map<String, Value>,
}

/// The models of a server; none if it does not say.
pub(super) fn models(body: &[u8]) -> Vec<ServedModel> {
    let reply: Value = serde_json::from_slice(body).unwrap_or_default();
    let models = reply["data"].as_array().into_iter().flatten();
    let model = |model: &Value| {
        let details = model.as_object()?.clone();
        Some(ServedModel { name: model["id"].as_str()?.into(), details })
    };
    models.filter_map(model).collect()
}

/// What a server says about an error, shortened.
pub(super) fn error_message(body: &[u8]) -> String {
    let reply: Value = serde_json::from_slice(body).unwrap_or_default();
    let places = [&reply["error"]["message"], &reply["message"], &reply["detail"], &reply["error"]];
    let message = places.into_iter().find_map(Value::as_str).map(String::from);
    let message = message.unwrap_or_else(|| String::from_utf8_lossy(body).into_owned());
    let line = message.split_whitespace().collect::<Vec<_>>().join(" ");
    line.chars().take(MESSAGE).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(reply: &Value, readout: LabelReadout) -> Result<Answer, String> {
        answer(reply.to_string().as_bytes(), Wanted::Labels(readout))
    }

    fn says(content: &Value) -> Value {
        json!({"choices": [{"message": {"role": "assistant", "content": content}}]})
    }

    fn token(token: &str, top: &[(&str, f64)]) -> Value {
        let top: Vec<_> = top.iter().map(|(token, p)| json!({"token": token, "logprob": p.ln()})).collect();
        json!({"token": token, "logprob": -0.1, "top_logprobs": top})
    }

    #[test]
    fn words_are_found_in_all_their_forms() {
        assert_eq!(read(&says(&json!("positive")), LabelReadout::Words), Ok(Answer::Text("positive".into())));
        let parts = json!([{"type": "text", "text": "neg"}, {"type": "text", "text": "ative"}]);
        assert_eq!(read(&says(&parts), LabelReadout::Words), Ok(Answer::Text("negative".into())));
        assert_eq!(read(&says(&Value::Null), LabelReadout::Words), Ok(Answer::Text(String::new())));
    }

    #[test]
    fn probabilities_are_those_where_a_label_is_said_first() {
        let mut reply = says(&json!(r#"{"trend": "unclear"}"#));
        let top = [("unc", 0.5), ("positive", 0.2), (" Positive", 0.1), ("negative", 0.1), ("maybe", 0.1)];
        reply["choices"][0]["logprobs"]["content"] = json!([
            token("{\"", &[]),
            token("trend", &[("trend", 0.99)]),
            token("unc", &top),
            token("lear", &[])
        ]);
        let Ok(Answer::Logits(LabelLogits(logits))) = read(&reply, LabelReadout::Logprobs) else {
            panic!("logits")
        };
        for (logit, share) in logits.into_iter().zip([0.3f32, 0.1, 0.5]) {
            assert!((logit.exp() - share).abs() < 1e-6, "{logit} {share}");
        }
        assert!(matches!(read(&reply, LabelReadout::Words), Ok(Answer::Text(_))), "not asked for");
    }

    #[test]
    fn probabilities_are_never_swapped_for_words() {
        let mut reply = says(&json!("negative"));
        for logprobs in [json!(null), json!({"content": []}), json!({})] {
            reply["choices"][0]["logprobs"] = logprobs;
            let error = read(&reply, LabelReadout::Logprobs).unwrap_err();
            assert!(error.contains("no logprobs, which the server gave at the beginning"), "{error}");
        }
        assert!(read(&reply, LabelReadout::Logits).unwrap_err().contains("no label_logits"));
        reply["choices"][0]["label_logits"] = json!([1.5, null, -2]);
        let Ok(Answer::Logits(LabelLogits(logits))) = read(&reply, LabelReadout::Logits) else {
            panic!("logits")
        };
        assert!(logits[0] == 1.5 && logits[1].is_nan() && logits[2] == -2.0);
        // Another word was said, and a label was likely, too; or none was.
        let mut reply = says(&json!("maybe"));
        reply["choices"][0]["logprobs"]["content"] =
            json!([token("maybe", &[("maybe", 0.6), ("unclear", 0.4)])]);
        assert!(matches!(read(&reply, LabelReadout::Logprobs), Ok(Answer::Logits(_))));
        reply["choices"][0]["logprobs"]["content"] = json!([token("maybe", &[("maybe", 0.6)])]);
        assert_eq!(read(&reply, LabelReadout::Logprobs), Ok(Answer::NoLabel("maybe".into())));
    }

    #[test]
    fn a_label_that_is_not_listed_cannot_be() {
        let mut reply = says(&json!("positive"));
        reply["choices"][0]["logprobs"]["content"] = json!([token("positive", &[("positive", 0.9)])]);
        let Ok(Answer::Logits(LabelLogits(logits))) = read(&reply, LabelReadout::Logprobs) else {
            panic!("logits")
        };
        assert_eq!((logits[1], logits[2]), (f32::NEG_INFINITY, f32::NEG_INFINITY));
    }

    #[test]
    fn words_of_ones_own_are_found_among_likely_tokens() {
        let words = ["Yes", "No", "Not sure"].map(String::from);
        let mut reply = says(&json!("yes"));
        let top = [("yes", 0.5), (" YES", 0.125), ("no", 0.25), ("not", 0.0625), ("n", 0.01)];
        reply["choices"][0]["logprobs"]["content"] = json!([token("yes", &top)]);
        let read = |wanted| answer(reply.to_string().as_bytes(), wanted);
        let Ok(Answer::WordLogprobs(found)) = read(Wanted::LikelyWords(&words)) else { panic!("words") };
        for (found, share) in found.iter().zip([0.625_f32, 0.25, 0.0625]) {
            assert!((found.exp() - share).abs() < 1e-6, "{found} {share}");
        }
        assert!(read(Wanted::ToldWords(&words)).unwrap_err().contains("no label_logprobs"));

        // A likely token that may begin either of two words says nothing of either; an unlikely one does no harm.
        let words = ["Yes", "Not sure", "Not yet"].map(String::from);
        for (undecided, is_read) in [(0.3, false), (0.001, true)] {
            reply["choices"][0]["logprobs"]["content"] =
                json!([token("yes", &[("yes", 0.6), ("Not", undecided)])]);
            let found = answer(reply.to_string().as_bytes(), Wanted::LikelyWords(&words));
            let Ok(Answer::WordLogprobs(found)) = found else { panic!("words") };
            assert_eq!(found.iter().all(|logprob| !logprob.is_nan()), is_read, "{found:?}");
        }
        for (words, expected) in [
            (["1", "2", "10"], Some(("1", "10"))),
            (["Yesterday", "no", "yes"], Some(("yes", "Yesterday"))),
            (["no", "No ", "yes"], Some(("no", "No "))),
            (["yes", "no", "maybe"], None),
        ] {
            let words = words.map(String::from);
            assert_eq!(word_that_begins_another(&words), expected);
        }
    }

    #[test]
    fn nonsense_is_named() {
        for (body, expected) in [
            ("", "the reply is no JSON"),
            ("<html>", "the reply is no JSON"),
            ("{}", "the reply has no choices"),
            (r#"{"choices": []}"#, "the reply has no choices"),
            (r#"{"choices": [{}]}"#, "has no message"),
            (r#"{"choices": [{"message": {"content": 7}}]}"#, "has no message"),
            ("[1, 2]", "the reply has no choices"),
        ] {
            let error = answer(body.as_bytes(), Wanted::Text).unwrap_err();
            assert!(error.contains(expected), "{body}: {error}");
        }
        assert_eq!(error_message(br#"{"error": {"message": "too\n long"}}"#), "too long");
        assert_eq!(error_message(b"plain words"), "plain words");
        let listed = models(br#"{"data": [{"id": "a"}, {"id": 3}, {"id": "b", "kind": "c"}]}"#);
        assert_eq!(listed.iter().map(|model| model.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(listed[1].details["kind"], "c");
        assert!(models(b"nonsense").is_empty());
    }
}
