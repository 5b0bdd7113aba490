//! Answers in words: how tokens are chosen, and what is told of them.

use std::collections::BTreeMap;

use plaudit_core::Seed;
use plaudit_nn::qwen3_vl::{Tokenizer, VlmError, likeliest, sample};

/// How an answer is found, and what is told of it.
#[derive(Debug, Clone, PartialEq)]
pub struct CompletionOptions {
    /// The longest answer, in tokens.
    pub max_new_tokens: usize,
    /// Sampling temperature; 0 takes the likeliest token.
    pub temperature: f64,
    /// Tokens are sampled from the likeliest ones that have this probability together.
    pub top_p: f64,
    /// The seed of the sampling; `None`: the question itself, so that the same question gets the same answer.
    pub seed: Option<u64>,
    /// Texts that end an answer, and are no part of it.
    pub stop: Vec<String>,
    /// What is added to the logits of tokens.
    pub logit_bias: Vec<(u32, f32)>,
    /// Taken off the logits of tokens that were said.
    pub presence_penalty: f64,
    /// Taken off the logits of tokens for each time they were said.
    pub frequency_penalty: f64,
    /// How many tokens' probabilities are wanted at each position; `None`: none.
    pub top_logprobs: Option<usize>,
}

impl CompletionOptions {
    /// The likeliest tokens, or some sampled at a temperature; at most so many.
    #[must_use]
    pub fn at_temperature(temperature: f64, max_new_tokens: usize) -> Self {
        Self {
            max_new_tokens,
            temperature,
            top_p: 1.0,
            seed: None,
            stop: Vec::new(),
            logit_bias: Vec::new(),
            presence_penalty: 0.0,
            frequency_penalty: 0.0,
            top_logprobs: None,
        }
    }
}

/// A generated answer, and its token counts.
#[derive(Debug, Clone, PartialEq)]
pub struct Completion {
    /// The words.
    pub text: String,
    /// Tokens of the question.
    pub prompt_tokens: usize,
    /// Tokens of the answer.
    pub completion_tokens: usize,
    /// Whether it was cut off at the longest answer.
    pub is_truncated: bool,
    /// Its tokens with their log-probabilities, if they were asked for.
    pub tokens: Option<Vec<CompletionToken>>,
}

/// A token, its log-probability and its alternatives.
#[derive(Debug, Clone, PartialEq)]
pub struct CompletionToken {
    /// The token.
    pub text: String,
    /// The logarithm of its probability, before temperature and nucleus.
    pub logprob: f32,
    /// The likeliest tokens there, and theirs.
    pub top: Vec<(String, f32)>,
}

/// Whoever reads along.
pub trait CompletionListener {
    /// Whether the answer to a question is still wanted.
    fn is_waiting(&self, question: usize) -> bool;

    /// What a token adds to the answer of a question.
    fn piece(&self, question: usize, text: &str, token: Option<&CompletionToken>);
}

/// Nobody.
pub struct NoListener;

impl CompletionListener for NoListener {
    fn is_waiting(&self, _: usize) -> bool {
        true
    }

    fn piece(&self, _: usize, _: &str, _: Option<&CompletionToken>) {}
}

/// Tokens that a character may be spread over; text that is not whole after so many never will be.
const CHARACTER_TOKENS: usize = 16;

/// An answer while it is found. What a token costs does not depend on how many there were before.
pub(super) struct AnswerUnderWay<'a> {
    options: &'a CompletionOptions,
    seed: Seed,
    ids: Vec<u32>,
    /// How often each token was said.
    counts: BTreeMap<u32, u32>,
    tokens: Vec<CompletionToken>,
    text: String,
    /// Tokens whose text is final, and its bytes: it ends with a whole character.
    whole: (usize, usize),
    /// Bytes of the text that were told.
    told: usize,
    is_ended: bool,
}

impl<'a> AnswerUnderWay<'a> {
    pub(super) fn new(options: &'a CompletionOptions, seed: u64) -> Self {
        let seed = Seed::new(options.seed.unwrap_or(seed)).purpose("answer").index(0);
        let (ids, counts, tokens, text) = (Vec::new(), BTreeMap::new(), Vec::new(), String::new());
        Self { options, seed, ids, counts, tokens, text, whole: (0, 0), told: 0, is_ended: false }
    }

    /// The next token by its logits; `None` when the answer ends. `tell` is called with new words.
    pub(super) fn next(
        &mut self,
        tokenizer: &Tokenizer,
        logits: &[f32],
        tell: &mut dyn FnMut(&str, Option<&CompletionToken>),
    ) -> Result<Option<u32>, VlmError> {
        if self.ids.len() >= self.options.max_new_tokens {
            return Ok(None);
        }
        let changed = self.changed(logits);
        let token = self.choose(&changed);
        let special = tokenizer.special();
        if [special.turn_end, special.end_of_text].contains(&token) {
            self.is_ended = true;
            self.tell_rest(tell);
            return Ok(None);
        }
        self.ids.push(token);
        *self.counts.entry(token).or_default() += 1;
        if let Some(top) = self.options.top_logprobs {
            self.tokens.push(described(tokenizer, &changed, token, top)?);
        }
        let unsearched = self.before_stop(self.whole.1);
        self.extend_text(tokenizer)?;
        let found = |stop: &String| self.text[unsearched..].find(stop.as_str());
        if let Some(at) = self.options.stop.iter().filter_map(found).min() {
            self.text.truncate(unsearched + at);
            self.is_ended = true;
            self.tell_rest(tell);
            return Ok(None);
        }
        if self.ids.len() == self.options.max_new_tokens {
            self.tell_rest(tell);
        } else {
            self.tell_up_to(self.settled(), tell);
        }
        Ok(Some(token))
    }

    /// Logits with what the client adds to them and takes off.
    fn changed(&self, logits: &[f32]) -> Vec<f32> {
        let mut changed = logits.to_vec();
        for (token, bias) in &self.options.logit_bias {
            if let Some(logit) = changed.get_mut(*token as usize) {
                *logit += bias;
            }
        }
        let CompletionOptions { presence_penalty, frequency_penalty, .. } = *self.options;
        if presence_penalty != 0.0 || frequency_penalty != 0.0 {
            for (token, count) in &self.counts {
                changed[*token as usize] -= (frequency_penalty * f64::from(*count) + presence_penalty) as f32;
            }
        }
        changed
    }

    fn choose(&self, logits: &[f32]) -> u32 {
        let CompletionOptions { temperature, top_p, .. } = *self.options;
        if temperature <= 0.0 {
            return likeliest(logits);
        }
        let unit = self.seed.index(self.ids.len() as u64).rng().unit();
        sample(logits, temperature, top_p, unit)
    }

    /// The text with that of the newest tokens.
    fn extend_text(&mut self, tokenizer: &Tokenizer) -> Result<(), VlmError> {
        let (ids, bytes) = self.whole;
        let new = tokenizer.decode(&self.ids[ids..])?;
        self.text.truncate(bytes);
        self.text.push_str(&new);
        if !new.ends_with(char::REPLACEMENT_CHARACTER) || self.ids.len() - ids >= CHARACTER_TOKENS {
            self.whole = (self.ids.len(), self.text.len());
        }
        Ok(())
    }

    /// Where a stop text may begin that is not over before `end`.
    fn before_stop(&self, end: usize) -> usize {
        let longest = self.options.stop.iter().map(String::len).max().unwrap_or(0);
        let begins = |at: &usize| self.text.is_char_boundary(*at);
        (0..=end.saturating_sub(longest)).rev().find(begins).unwrap_or(0)
    }

    /// How much of the text stays, whatever follows: whole characters that begin no stop text.
    fn settled(&self) -> usize {
        let whole = self.text.trim_end_matches(char::REPLACEMENT_CHARACTER);
        let begins = |end: &usize| {
            let rest = &whole[*end..];
            !rest.is_empty() && self.options.stop.iter().any(|stop| stop.starts_with(rest))
        };
        let first = self.before_stop(whole.len());
        let mut ends = whole[first..].char_indices().map(|(at, _)| first + at);
        ends.find(begins).unwrap_or(whole.len())
    }

    fn tell_rest(&mut self, tell: &mut dyn FnMut(&str, Option<&CompletionToken>)) {
        self.tell_up_to(self.text.len(), tell);
    }

    fn tell_up_to(&mut self, end: usize, tell: &mut dyn FnMut(&str, Option<&CompletionToken>)) {
        // A character that was completed may have other bytes than were told of it; they are whole from then on.
        let new = self.text.get(self.told..end).unwrap_or_default();
        let token = self.tokens.last().filter(|_| !self.is_ended);
        if !new.is_empty() || token.is_some() {
            tell(new, token);
        }
        self.told = self.told.max(end);
    }

    /// The answer as far as it came.
    pub(super) fn completion(self, prompt_tokens: usize) -> Completion {
        Completion {
            text: self.text,
            prompt_tokens,
            completion_tokens: self.ids.len(),
            is_truncated: !self.is_ended,
            tokens: self.options.top_logprobs.map(|_| self.tokens),
        }
    }
}

/// The logarithm of the sum of exponentials.
pub(super) fn log_sum_exp(logits: &[f32]) -> f32 {
    let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f64 = logits.iter().map(|logit| f64::from(logit - largest).exp()).sum();
    largest + sum.ln() as f32
}

/// A token and the likeliest ones beside it.
fn described(
    tokenizer: &Tokenizer,
    logits: &[f32],
    token: u32,
    top: usize,
) -> Result<CompletionToken, VlmError> {
    let rest = log_sum_exp(logits);
    let mut order: Vec<u32> = (0..logits.len() as u32).collect();
    let by_logit = |a: &u32, b: &u32| logits[*b as usize].total_cmp(&logits[*a as usize]).then(a.cmp(b));
    if top > 0 && top < order.len() {
        order.select_nth_unstable_by(top - 1, by_logit);
    }
    order.truncate(top);
    order.sort_by(by_logit);
    let told = |token: &u32| Ok::<_, VlmError>((tokenizer.piece(*token)?, logits[*token as usize] - rest));
    let top = order.iter().map(told).collect::<Result<_, _>>()?;
    let (text, logprob) = told(&token)?;
    Ok(CompletionToken { text, logprob, top })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// The tokens of a text, answered one after another, with what was told of them.
    fn answered(text: &str, options: &CompletionOptions) -> (Completion, String) {
        let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("../nn/tests/qwen3_vl/model");
        let tokenizer = Tokenizer::read(&model.join("tokenizer.json")).unwrap();
        let (mut answer, mut told) = (AnswerUnderWay::new(options, 0), String::new());
        let mut ids = tokenizer.encode(text).unwrap();
        ids.push(tokenizer.special().turn_end);
        for id in ids {
            let mut logits = vec![0.0; tokenizer.len()];
            logits[id as usize] = 1000.0;
            let next =
                answer.next(&tokenizer, &logits, &mut |new: &str, _: Option<&CompletionToken>| told += new);
            if next.unwrap().is_none() {
                break;
            }
        }
        (answer.completion(0), told)
    }

    #[test]
    fn text_is_that_of_all_tokens_together_and_ends_before_a_stop() {
        // Characters of several tokens each, and what stops the answer spans tokens as well.
        let text = "Žluťoučký kůň 🙂🙃 and so on, 猫 STOP here";
        let options = CompletionOptions::at_temperature(0.0, 500);
        let (whole, told) = answered(text, &options);
        assert_eq!((whole.text.as_str(), told.as_str(), whole.is_truncated), (text, text, false));
        for (stop, expected) in
            [("🙃 a", "Žluťoučký kůň 🙂"), ("STOP", &text[..text.find("STOP").unwrap()]), ("nowhere", text)]
        {
            let stops = CompletionOptions { stop: vec![stop.into(), "so on!".into()], ..options.clone() };
            let (stopped, told) = answered(text, &stops);
            assert_eq!((stopped.text.as_str(), told.as_str()), (expected, expected), "{stop}");
        }
    }

    #[test]
    fn said_tokens_are_less_likely_once_and_for_each_time() {
        let options = CompletionOptions {
            presence_penalty: 1.0,
            frequency_penalty: 0.25,
            ..CompletionOptions::at_temperature(0.0, 9)
        };
        let mut answer = AnswerUnderWay::new(&options, 0);
        for token in [1, 2, 1, 1] {
            answer.ids.push(token);
            *answer.counts.entry(token).or_default() += 1;
        }
        assert_eq!(answer.changed(&[5.0; 4]), [5.0, 5.0 - 1.0 - 0.75, 5.0 - 1.0 - 0.25, 5.0]);
    }
}
