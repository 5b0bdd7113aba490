//! What an answer in words says.

use plaudit_core::Score;
use serde_json::{Map, Value};

use super::vocabulary::Trend;

/// The label of an answer, by RLinf's rules: `trend` of a JSON object if that is a label, else the last of the three words
/// that stands alone.
#[must_use]
pub fn parse_trend(text: &str) -> Trend {
    let text = text.trim().to_lowercase();
    object(&text).and_then(|object| label_in(&object)).or_else(|| last_word(&text)).unwrap_or(Trend::Invalid)
}

fn label_in(object: &Map<String, Value>) -> Option<Trend> {
    Trend::from_word(object.get("trend")?.as_str()?.trim())
}

/// The text as an object, or what stands between its first and its last brace.
fn object(text: &str) -> Option<Map<String, Value>> {
    let whole = serde_json::from_str(text).ok();
    whole.or_else(|| {
        let (start, end) = (text.find('{')?, text.rfind('}')?);
        serde_json::from_str(text.get(start..=end)?).ok()
    })
}

fn last_word(text: &str) -> Option<Trend> {
    let part_of_word = |character: char| character.is_alphanumeric() || character == '_';
    text.split(|character| !part_of_word(character)).rev().find_map(Trend::from_word)
}

/// The score of an answer: the last number from 0 to 1 that stands in it. `None` if there is none.
#[must_use]
pub fn parse_score(text: &str) -> Option<Score> {
    let part_of_number = |character: char| character.is_ascii_digit() || matches!(character, '.' | '-' | '+');
    let number = |word: &str| word.trim_end_matches('.').parse().ok().and_then(Score::new);
    text.split(|character| !part_of_number(character)).rev().find_map(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_found_where_rlinf_finds_them() {
        for (text, trend) in [
            ("positive", Trend::Positive),
            ("  Negative.\n", Trend::Negative),
            ("UNCLEAR", Trend::Unclear),
            ("first negative, then positive", Trend::Positive),
            ("positive or negative? unclear!", Trend::Unclear),
            (r#"{"trend": "negative"}"#, Trend::Negative),
            (r#"{"trend": " Positive "}"#, Trend::Positive),
            (r#"positive, I mean {"trend": "negative"} positive"#, Trend::Negative),
            (r#"{"trend": "sideways", "why": "it is unclear"}"#, Trend::Unclear),
            (r#"{"trend": ["positive"]}"#, Trend::Positive),
            (r#"```json {"trend": "positive"} ``` or negative"#, Trend::Positive),
            (r#"{"trend": "positive""#, Trend::Positive),
            ("nonnegative", Trend::Invalid),
            ("positive_trend", Trend::Invalid),
            ("positively", Trend::Invalid),
            ("", Trend::Invalid),
            ("{}", Trend::Invalid),
            ("}{", Trend::Invalid),
            ("ünclear negative-ish", Trend::Negative),
        ] {
            assert_eq!(parse_trend(text), trend, "{text:?}");
        }
    }

    #[test]
    fn scores_are_the_last_number_that_is_one() {
        let score = |text| parse_score(text).map(Score::get);
        for (text, expected) in [
            ("0.75", Some(0.75)),
            ("The score is 0.3.", Some(0.3)),
            ("1", Some(1.0)),
            ("step 7 of 12: 0.25", Some(0.25)),
            ("0.5, out of 10", Some(0.5)),
            ("-0.5", None),
            ("seven", None),
            ("", None),
            ("..-", None),
        ] {
            assert_eq!(score(text), expected, "{text:?}");
        }
    }
}
