//! Answers in words: one token after another.

use plaudit_core::Seed;

use super::error::VlmError;
use super::forward::{Architecture, Padding};
use super::gpu::{GpuModel, NextToken};
use super::inference::FrozenParams;
use super::layers::AttentionMask;
use super::model::{Backend, Inner, QwenVl};
use super::param_source::ParamSource;
use super::processor::Inputs;
use super::text::{self, Batch, KvCache, TokenSelection};

/// How an answer is generated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GenerateOptions {
    /// Tokens at most.
    pub max_new_tokens: usize,
    /// How the next token is chosen.
    pub decoding: Decoding,
}

/// How the next token is chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Decoding {
    /// The most likely one.
    Greedy,
    /// One sampled from the distribution at this temperature.
    Sampled {
        /// Above zero; small ones favour likely tokens.
        temperature: f64,
        /// The seed of the sampling.
        seed: u64,
    },
}

/// Chooses the next token of a sequence from the logits of all tokens; `None` ends it. The first number is that of the sequence.
pub type ChooseToken<'a> = dyn FnMut(usize, &[f32]) -> Option<u32> + 'a;

impl QwenVl {
    /// The tokens of each prompt's answer, up to and without the token that ends it.
    ///
    /// # Errors
    /// When a prompt is empty, or the temperature is not above zero.
    pub fn generate(&self, inputs: &[Inputs], options: &GenerateOptions) -> Result<Vec<Vec<u32>>, VlmError> {
        if let Decoding::Sampled { temperature, .. } = options.decoding
            && (temperature <= 0.0 || !temperature.is_finite())
        {
            return Err(VlmError::Input(format!("a temperature of {temperature}; give one above zero")));
        }
        if inputs.is_empty() || options.max_new_tokens == 0 {
            return Ok(vec![Vec::new(); inputs.len()]);
        }
        let special = self.processor().tokenizer().special();
        let mut answers: Vec<Vec<u32>> = vec![Vec::new(); inputs.len()];
        let mut choose = |row: usize, logits: &[f32]| {
            let token = options.decoding.of(logits, row, answers[row].len());
            let is_end = [special.turn_end, special.end_of_text].contains(&token);
            (!is_end).then(|| {
                answers[row].push(token);
                token
            })
        };
        self.generate_by(inputs, options.max_new_tokens, &mut choose)?;
        Ok(answers)
    }

    /// Asks `choose` for the tokens of each prompt's answer, one after another, at most so many of each.
    ///
    /// # Errors
    /// When a prompt is empty, a token is chosen that is not in the vocabulary, or a GPU has too little memory for the keys and
    /// values of a prompt and its longest answer.
    pub fn generate_by(
        &self,
        inputs: &[Inputs],
        max_new_tokens: usize,
        choose: &mut ChooseToken<'_>,
    ) -> Result<(), VlmError> {
        if inputs.is_empty() || max_new_tokens == 0 {
            return Ok(());
        }
        let Inner { architecture, backend } = &*self.inner;
        let (vocab, mut unknown) = (architecture.config.text.vocab, None);
        let mut choose_known = |row: usize, logits: &[f32]| {
            let token = choose(row, logits)?;
            unknown = unknown.or(Some(token).filter(|token| *token as usize >= vocab));
            Some(token).filter(|_| unknown.is_none())
        };
        match backend {
            Backend::Cpu(frozen) => {
                architecture.generate(frozen, inputs, max_new_tokens, &mut choose_known)?;
            }
            Backend::Gpu(gpu_model) => {
                generate_on_gpu(gpu_model, architecture, inputs, max_new_tokens, &mut choose_known)?;
            }
        }
        match unknown {
            Some(token) => {
                Err(VlmError::Input(format!("token {token} was chosen, and the model has {vocab}")))
            }
            None => Ok(()),
        }
    }

    /// The answer to each prompt as text.
    ///
    /// # Errors
    /// As [`generate`](Self::generate).
    pub fn answer(&self, inputs: &[Inputs], options: &GenerateOptions) -> Result<Vec<String>, VlmError> {
        let tokenizer = self.processor().tokenizer();
        self.generate(inputs, options)?.iter().map(|tokens| tokenizer.decode(tokens)).collect()
    }
}

/// Tokens of answers from a GPU: prompts go through it once, then each token by itself, with keys and values of all before it kept. As many
/// prompts are answered together as memory holds.
fn generate_on_gpu(
    gpu_model: &GpuModel,
    architecture: &Architecture,
    inputs: &[Inputs],
    max_new_tokens: usize,
    choose: &mut ChooseToken<'_>,
) -> Result<(), VlmError> {
    let mut first = 0;
    while first < inputs.len() {
        let prompts = &inputs[first..];
        let (mut answers, mut logits) = gpu_model.begin_answers(architecture, prompts, max_new_tokens)?;
        let mut under_way: Vec<usize> = (0..answers.len()).collect();
        for step in 0..max_new_tokens {
            let next_token = |(b, logits): (&usize, &Vec<f32>)| {
                let id = choose(first + b, logits)?;
                Some(NextToken { sequence: *b, id, position: prompts[*b].positions.next + step as i32 })
            };
            let next: Vec<NextToken> = under_way.iter().zip(&logits).filter_map(next_token).collect();
            if next.is_empty() || step + 1 == max_new_tokens {
                break;
            }
            logits = gpu_model.next_logits(&mut answers, &next)?;
            under_way = next.iter().map(|token| token.sequence).collect();
        }
        first += answers.len();
    }
    Ok(())
}

impl Architecture {
    fn generate(
        &self,
        frozen: &FrozenParams,
        inputs: &[Inputs],
        max_new_tokens: usize,
        choose: &mut ChooseToken<'_>,
    ) -> Result<(), VlmError> {
        let filler = self.processor.tokenizer().special().end_of_text;
        let batch = self.batch(frozen, inputs, Padding::Left)?;
        let mut lengths: Vec<usize> = inputs.iter().map(Inputs::len).collect();
        let mut kv_cache = KvCache::default();
        let last = vec![batch.tokens - 1; batch.size];
        let mut hidden =
            self.text_forward(frozen, &batch, Some(&mut kv_cache), TokenSelection::LastOf(&last));
        let mut ended = vec![false; inputs.len()];
        for step in 0..max_new_tokens {
            let logits = frozen.linear(&self.network.text.head, hidden);
            let rows = logits.numbers().chunks_exact(self.config.text.vocab).enumerate();
            let mut token = |b: usize, row: &[f32]| {
                let chosen = if ended[b] { None } else { choose(b, row) };
                ended[b] = chosen.is_none();
                chosen.unwrap_or(filler)
            };
            let next: Vec<u32> = rows.map(|(b, row)| token(b, row)).collect();
            if ended.iter().all(|ended| *ended) || step + 1 == max_new_tokens {
                break;
            }
            lengths.iter_mut().for_each(|length| *length += 1);
            let one = self.one_more(inputs, &lengths, next, step, kv_cache.tokens() + 1);
            hidden = self.text_forward(frozen, &one, Some(&mut kv_cache), TokenSelection::All);
        }
        Ok(())
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
        let positions: Vec<[i32; 3]> =
            inputs.iter().map(|input| [input.positions.next + step as i32; 3]).collect();
        let rope = text::rope(&self.config.text, &positions);
        let attend = match lengths.iter().all(|length| *length == tokens) {
            true => AttentionMask::All,
            false => AttentionMask::left_padded(lengths, 1, tokens),
        };
        Batch { size: inputs.len(), tokens: 1, ids, rope, attend, visual_embeds: None }
    }
}

impl Decoding {
    /// The next token of sequence `row` at `step`.
    fn of(self, logits: &[f32], row: usize, step: usize) -> u32 {
        let Self::Sampled { temperature, seed } = self else { return likeliest(logits) };
        let seed = Seed::new(seed).purpose("answer").index(row as u64).index(step as u64);
        sample(logits, temperature, 1.0, seed.rng().unit())
    }
}

/// A token sampled at a temperature above zero from the likeliest ones that have a probability of `top_p` together; `unit` is
/// the random number from 0 to 1.
#[must_use]
pub fn sample(logits: &[f32], temperature: f64, top_p: f64, unit: f64) -> u32 {
    let most = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let weight = |logit: f32| (f64::from(logit - most) / temperature).exp();
    let total: f64 = logits.iter().map(|logit| weight(*logit)).sum();
    if top_p >= 1.0 {
        let tokens = logits.iter().enumerate().map(|(token, logit)| (token as u32, weight(*logit)));
        return at_share(tokens, unit * total).unwrap_or_else(|| likeliest(logits));
    }
    let mut order: Vec<u32> = (0..logits.len() as u32).collect();
    order.sort_by(|a, b| logits[*b as usize].total_cmp(&logits[*a as usize]));
    let mut nucleus = 0.0;
    let last = order.iter().position(|token| {
        nucleus += weight(logits[*token as usize]);
        nucleus >= top_p * total
    });
    order.truncate(last.map_or(order.len(), |last| last + 1));
    let tokens = order.iter().map(|token| (*token, weight(logits[*token as usize])));
    at_share(tokens, unit * nucleus).unwrap_or_else(|| likeliest(logits))
}

/// The token where the weights so far exceed a share; `None` if rounding used up the whole mass.
fn at_share(tokens: impl Iterator<Item = (u32, f64)>, share: f64) -> Option<u32> {
    let mut left = share;
    for (token, weight) in tokens {
        left -= weight;
        if left < 0.0 {
            return Some(token);
        }
    }
    None
}

/// The most likely token; the first of several.
#[must_use]
pub fn likeliest(logits: &[f32]) -> u32 {
    let best = logits.iter().enumerate().fold((0, f32::NEG_INFINITY), |best, (token, logit)| {
        if *logit > best.1 { (token, *logit) } else { best }
    });
    best.0 as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nucleus_has_the_likeliest_tokens_that_reach_its_share() {
        // Probabilities 0.1, 0.4, 0.2, 0.3.
        let logits: Vec<f32> = [0.1_f32, 0.4, 0.2, 0.3].iter().map(|p| p.ln()).collect();
        let sampled = |top_p: f64| {
            let mut counts = [0; 4];
            for i in 0..1000 {
                counts[sample(&logits, 1.0, top_p, (f64::from(i) + 0.5) / 1000.0) as usize] += 1;
            }
            counts
        };
        let about = |found: [i32; 4], expected: [i32; 4]| {
            let close = found.iter().zip(expected).all(|(found, expected)| (found - expected).abs() <= 2);
            assert!(close, "{found:?} {expected:?}");
        };
        about(sampled(1.0), [100, 400, 200, 300]);
        about(sampled(0.69), [0, 571, 0, 429]);
        about(sampled(0.71), [0, 444, 222, 333]);
        about(sampled(0.0001), [0, 1000, 0, 0]);
        assert_eq!(sample(&logits, 0.01, 1.0, 0.5), 1, "cold");
        assert_eq!(likeliest(&[1.0, 3.0, 3.0]), 1);
    }
}
