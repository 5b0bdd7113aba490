//! Answers in words: one token after another.

use plaudit_core::Seed;

use super::body::{Body, Padding};
#[cfg(feature = "cuda-judge")]
use super::cache::ScoreCache;
use super::error::VlmError;
#[cfg(feature = "cuda-judge")]
use super::gpu::{Judge, Share};
use super::layers::Attend;
use super::model::{Inner, Place, QwenVl};
use super::pass::Pass;
use super::processor::Inputs;
use super::serve::Frozen;
use super::text::{self, Batch, Memory, Wanted};
use crate::classifier::download;

/// How an answer is chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Generate {
    /// Tokens at most.
    pub max_new_tokens: usize,
    /// Which token follows.
    pub choice: Choice,
}

/// Which token follows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Choice {
    /// The most likely one.
    Greedy,
    /// One drawn by its probability at this temperature.
    Sampled {
        /// Above zero; small ones favour likely tokens.
        temperature: f64,
        /// What decides the draws.
        seed: u64,
    },
}

impl QwenVl {
    /// The tokens of each prompt's answer, up to and without the token that ends it.
    ///
    /// # Errors
    /// When a prompt is empty, or the temperature is not above zero.
    pub fn generate(&self, inputs: &[Inputs], options: &Generate) -> Result<Vec<Vec<u32>>, VlmError> {
        if let Choice::Sampled { temperature, .. } = options.choice
            && (temperature <= 0.0 || !temperature.is_finite())
        {
            return Err(VlmError::Input(format!("a temperature of {temperature}; give one above zero")));
        }
        if inputs.is_empty() || options.max_new_tokens == 0 {
            return Ok(vec![Vec::new(); inputs.len()]);
        }
        let Inner { body, place } = &*self.inner;
        match place {
            Place::Burn(frozen) => body.generate(frozen, inputs, options),
            #[cfg(feature = "cuda-judge")]
            Place::Gpu(judge) => generate_on_gpu(judge, body, inputs, options),
        }
    }

    /// The answer to each prompt as text.
    ///
    /// # Errors
    /// As [`generate`](Self::generate).
    pub fn answer(&self, inputs: &[Inputs], options: &Generate) -> Result<Vec<String>, VlmError> {
        let tokenizer = self.processor().tokenizer();
        self.generate(inputs, options)?.iter().map(|tokens| tokenizer.decode(tokens)).collect()
    }
}

/// What pairs of frames may take while an answer is made on a GPU.
#[cfg(feature = "cuda-judge")]
const SEEN_BYTES: usize = 1 << 30;

/// Tokens of answers from a GPU, which remembers of a prompt only what it saw: its words are read again for each token.
/// Answers are a few words.
#[cfg(feature = "cuda-judge")]
fn generate_on_gpu(
    judge: &Judge,
    body: &Body,
    inputs: &[Inputs],
    options: &Generate,
) -> Result<Vec<Vec<u32>>, VlmError> {
    let special = body.processor.tokenizer().special();
    let vocabulary: Vec<u32> = (0..body.config.text.vocab as u32).collect();
    let mut answers: Vec<Vec<u32>> = vec![Vec::new(); inputs.len()];
    let (mut under_way, mut prompts): (Vec<usize>, Vec<Inputs>) = inputs.iter().cloned().enumerate().unzip();
    let mut seen = ScoreCache::of_bytes(SEEN_BYTES);
    for step in 0..options.max_new_tokens {
        let logits = judge.score(body, &prompts, &vocabulary, Share::Alike(&mut seen))?;
        let (mut still, mut longer) = (Vec::new(), Vec::new());
        for ((b, mut prompt), logits) in under_way.into_iter().zip(prompts).zip(logits) {
            let token = options.choice.of(&logits, b, step);
            if [special.turn_end, special.end_of_text].contains(&token) {
                continue;
            }
            answers[b].push(token);
            prompt.ids.push(token);
            prompt.positions.axes.push([prompt.positions.next; 3]);
            prompt.positions.next += 1;
            still.push(b);
            longer.push(prompt);
        }
        (under_way, prompts) = (still, longer);
        if prompts.is_empty() {
            break;
        }
    }
    Ok(answers)
}

impl Body {
    fn generate(
        &self,
        frozen: &Frozen,
        inputs: &[Inputs],
        options: &Generate,
    ) -> Result<Vec<Vec<u32>>, VlmError> {
        let special = self.processor.tokenizer().special();
        let batch = self.batch(frozen, inputs, Padding::Left)?;
        let mut lengths: Vec<usize> = inputs.iter().map(Inputs::len).collect();
        let mut memory = Memory::default();
        let last = vec![batch.tokens - 1; batch.size];
        let mut hidden = self.read(frozen, &batch, Some(&mut memory), Wanted::LastOf(&last));
        let mut answers: Vec<Vec<u32>> = vec![Vec::new(); inputs.len()];
        let mut ended = vec![false; inputs.len()];
        for step in 0..options.max_new_tokens {
            let logits = download(frozen.linear(&self.network.text.head, hidden));
            let rows = logits.chunks_exact(self.config.text.vocab).enumerate();
            let next: Vec<u32> = rows.map(|(b, row)| options.choice.of(row, b, step)).collect();
            for (b, token) in next.iter().enumerate() {
                ended[b] |= [special.turn_end, special.end_of_text].contains(token);
                if !ended[b] {
                    answers[b].push(*token);
                }
            }
            if ended.iter().all(|ended| *ended) || step + 1 == options.max_new_tokens {
                break;
            }
            lengths.iter_mut().for_each(|length| *length += 1);
            let one = self.one_more(inputs, &lengths, next, step, memory.tokens() + 1);
            hidden = self.read(frozen, &one, Some(&mut memory), Wanted::All);
        }
        Ok(answers)
    }

    /// A batch of one more token for each sequence.
    fn one_more(
        &self,
        inputs: &[Inputs],
        lengths: &[usize],
        ids: Vec<u32>,
        step: usize,
        tokens: usize,
    ) -> Batch {
        let places: Vec<[i32; 3]> =
            inputs.iter().map(|input| [input.positions.next + step as i32; 3]).collect();
        let rope = text::rope(&self.config.text, &places, inputs.len(), self.dtype, &self.device);
        let attend = match lengths.iter().all(|length| *length == tokens) {
            true => Attend::All,
            false => Attend::Masked(Box::new(self.mask(lengths, 1, tokens))),
        };
        Batch { size: inputs.len(), tokens: 1, ids, rope, attend, seen: None }
    }
}

impl Choice {
    /// The next token of sequence `row` at `step`.
    fn of(self, logits: &[f32], row: usize, step: usize) -> u32 {
        let Self::Sampled { temperature, seed } = self else { return largest(logits) };
        let most = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let share = |logit: &f32| (f64::from(logit - most) / temperature).exp();
        let total: f64 = logits.iter().map(share).sum();
        let seed = Seed::new(seed).purpose("answer").index(row as u64).index(step as u64);
        let mut left = seed.rng().unit() * total;
        for (token, logit) in logits.iter().enumerate() {
            left -= share(logit);
            if left < 0.0 {
                return token as u32;
            }
        }
        largest(logits) // all shares were spent by rounding
    }
}

/// The first of the largest.
fn largest(logits: &[f32]) -> u32 {
    let best = logits.iter().enumerate().fold((0, f32::NEG_INFINITY), |best, (token, logit)| {
        if *logit > best.1 { (token, *logit) } else { best }
    });
    best.0 as u32
}
