//! Answers in words: how tokens are chosen, and what is told of them.

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

/// An answer while it is found.
pub(super) struct AnswerUnderWay<'a> {
    options: &'a CompletionOptions,
    seed: Seed,
    ids: Vec<u32>,
    tokens: Vec<CompletionToken>,
    text: String,
    /// Bytes of the text that were told.
    told: usize,
    is_ended: bool,
}

impl<'a> AnswerUnderWay<'a> {
    pub(super) fn new(options: &'a CompletionOptions, seed: u64) -> Self {
        let seed = Seed::new(options.seed.unwrap_or(seed)).purpose("answer").index(0);
        let (ids, tokens, text) = (Vec::new(), Vec::new(), String::new());
        Self { options, seed, ids, tokens, text, told: 0, is_ended: false }
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
        if let Some(top) = self.options.top_logprobs {
            self.tokens.push(described(tokenizer, &changed, token, top)?);
        }
        self.text = tokenizer.decode(&self.ids)?;
        if let Some(at) = self.options.stop.iter().filter_map(|stop| self.text.find(stop.as_str())).min() {
            self.text.truncate(at);
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
            for (at, token) in self.ids.iter().enumerate() {
                let logit = &mut changed[*token as usize];
                let is_first = !self.ids[..at].contains(token);
                *logit -= (frequency_penalty + if is_first { presence_penalty } else { 0.0 }) as f32;
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

    /// How much of the text stays, whatever follows: whole characters that begin no stop text.
    fn settled(&self) -> usize {
        let whole = self.text.trim_end_matches(char::REPLACEMENT_CHARACTER);
        let begins = |end: &usize| {
            let rest = &whole[*end..];
            !rest.is_empty() && self.options.stop.iter().any(|stop| stop.starts_with(rest))
        };
        let ends = whole.char_indices().map(|(at, _)| at);
        ends.filter(begins).min().unwrap_or(whole.len())
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
