//! Answers in words: one token after another.

use plaudit_core::Seed;

use super::cache::ScoreCache;
use super::error::VlmError;
use super::forward::{Architecture, Padding};
use super::gpu::{GpuModel, Reuse};
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
        let Inner { architecture, backend } = &*self.inner;
        match backend {
            Backend::Cpu(frozen) => architecture.generate(frozen, inputs, options),
            Backend::Gpu(gpu_model) => generate_on_gpu(gpu_model, architecture, inputs, options),
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

/// Bytes that cached frame pairs may take while a GPU generates an answer.
const FRAME_CACHE_BYTES: usize = 1 << 30;

/// Tokens of answers from a GPU, which caches only the visual embeddings of a prompt: its text is computed again for each token.
/// Answers are a few words.
fn generate_on_gpu(
    gpu_model: &GpuModel,
    architecture: &Architecture,
    inputs: &[Inputs],
    options: &GenerateOptions,
) -> Result<Vec<Vec<u32>>, VlmError> {
    let special = architecture.processor.tokenizer().special();
    let vocabulary: Vec<u32> = (0..architecture.config.text.vocab as u32).collect();
    let mut answers: Vec<Vec<u32>> = vec![Vec::new(); inputs.len()];
    let (mut under_way, mut prompts): (Vec<usize>, Vec<Inputs>) = inputs.iter().cloned().enumerate().unzip();
    let mut cache = ScoreCache::of_bytes(FRAME_CACHE_BYTES);
    for step in 0..options.max_new_tokens {
        let logits = gpu_model.score(architecture, &prompts, &vocabulary, Reuse::Cached(&mut cache))?;
        let (mut still, mut longer) = (Vec::new(), Vec::new());
        for ((b, mut prompt), logits) in under_way.into_iter().zip(prompts).zip(logits) {
            let token = options.decoding.of(&logits, b, step);
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

impl Architecture {
    fn generate(
        &self,
        frozen: &FrozenParams,
        inputs: &[Inputs],
        options: &GenerateOptions,
    ) -> Result<Vec<Vec<u32>>, VlmError> {
        let special = self.processor.tokenizer().special();
        let batch = self.batch(frozen, inputs, Padding::Left)?;
        let mut lengths: Vec<usize> = inputs.iter().map(Inputs::len).collect();
        let mut kv_cache = KvCache::default();
        let last = vec![batch.tokens - 1; batch.size];
        let mut hidden =
            self.text_forward(frozen, &batch, Some(&mut kv_cache), TokenSelection::LastOf(&last));
        let mut answers: Vec<Vec<u32>> = vec![Vec::new(); inputs.len()];
        let mut ended = vec![false; inputs.len()];
        for step in 0..options.max_new_tokens {
            let logits = frozen.linear(&self.network.text.head, hidden);
            let rows = logits.numbers().chunks_exact(self.config.text.vocab).enumerate();
            let next: Vec<u32> = rows.map(|(b, row)| options.decoding.of(row, b, step)).collect();
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
            let one = self.one_more(inputs, &lengths, next, step, kv_cache.tokens() + 1);
            hidden = self.text_forward(frozen, &one, Some(&mut kv_cache), TokenSelection::All);
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
        let Self::Sampled { temperature, seed } = self else { return largest(logits) };
        let most = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let weight = |logit: &f32| (f64::from(logit - most) / temperature).exp();
        let total: f64 = logits.iter().map(weight).sum();
        let seed = Seed::new(seed).purpose("answer").index(row as u64).index(step as u64);
        let mut left = seed.rng().unit() * total;
        for (token, logit) in logits.iter().enumerate() {
            left -= weight(logit);
            if left < 0.0 {
                return token as u32;
            }
        }
        largest(logits) // rounding used up the whole mass
    }
}

/// The first of the largest.
fn largest(logits: &[f32]) -> u32 {
    let best = logits.iter().enumerate().fold((0, f32::NEG_INFINITY), |best, (token, logit)| {
        if *logit > best.1 { (token, *logit) } else { best }
    });
    best.0 as u32
}
