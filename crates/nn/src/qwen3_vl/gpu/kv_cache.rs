//! Keys and values of sequences whose answers are under way (KV cache), in the GPU's memory.

use cudarc::driver::CudaSlice;

use super::super::config::TextConfig;
use super::lists::{List, Lists};
use crate::gpu::{Address, Gpu, GpuError};

/// Sequences that are answered together. Logits of all tokens are computed for each, and copied to the host.
const MAX_SEQUENCES: usize = 256;

/// Keys and values of sequences, and of the tokens that were appended to them.
pub(super) struct KvCache {
    /// `[layers, rows, keys and values]`
    memory: CudaSlice<u16>,
    places: Places,
}

/// Rows of a KV cache that keys and values of some tokens go to.
#[derive(Clone, Copy)]
pub(super) struct CacheRows {
    /// The first layer's.
    pub(super) at: Address,
    /// Rows of a layer.
    pub(super) per_layer: usize,
    /// The row of each token.
    pub(super) to: List,
}

/// The next token of a sequence, and its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct NextToken {
    pub(in super::super) sequence: usize,
    pub(in super::super) id: u32,
    pub(in super::super) position: i32,
}

/// Where sequences lie: one after another, each with room for its answer.
#[derive(Debug, PartialEq, Eq)]
struct Places {
    /// The first row of each sequence, and of what would come after the last.
    starts: Vec<usize>,
    /// Tokens of each sequence so far.
    lengths: Vec<usize>,
}

/// The lists of one more token for some sequences.
#[derive(Debug)]
pub(super) struct DecodeStep {
    pub(super) lists: Lists,
    pub(super) tokens: usize,
    /// Tokens of the longest sequence, the new one among them.
    pub(super) longest: usize,
    /// Of each token its row in the embedding table.
    pub(super) sources: List,
    /// Of each token time, row and column.
    pub(super) positions: List,
    /// Of each token the row of its keys and values.
    pub(super) rows: List,
    /// Of each token's sequence the first row of its keys, and how many there are.
    pub(super) starts: List,
    pub(super) lengths: List,
}

/// Rows that a prompt and its longest answer take: the last token of an answer needs none.
fn rows_of(prompt: usize, max_new_tokens: usize) -> usize {
    prompt.saturating_add(max_new_tokens.saturating_sub(1))
}

/// Bytes of a token's keys and values in all layers.
fn bytes_per_token(config: &TextConfig) -> usize {
    config.layers * kv_width(config) * size_of::<u16>()
}

/// Numbers of a token's keys and values in one layer.
pub(super) fn kv_width(config: &TextConfig) -> usize {
    2 * config.kv_heads * config.head_width
}

/// How many prompts of these lengths, from the first on, are answered together: as many as three quarters of the free memory hold. The rest is
/// for activations.
pub(super) fn sequences_at_once(
    config: &TextConfig,
    prompts: impl Iterator<Item = usize>,
    max_new_tokens: usize,
    (free, total): (usize, usize),
) -> Result<usize, GpuError> {
    let (each, available) = (bytes_per_token(config), free / 4 * 3);
    let most_rows = (available / each).min(i32::MAX as usize); // kernels count rows in 32 bits
    let (mut rows, mut count) = (0usize, 0);
    for prompt in prompts.take(MAX_SEQUENCES) {
        let tokens = rows_of(prompt, max_new_tokens);
        rows = rows.saturating_add(tokens);
        if rows > most_rows && count == 0 {
            let needed = tokens.saturating_mul(each);
            return Err(GpuError::KvCache { tokens, needed, available, total });
        }
        if rows > most_rows {
            break;
        }
        count += 1;
    }
    Ok(count)
}

impl KvCache {
    /// Room for prompts of these lengths and their answers.
    pub(super) fn new(
        gpu: &Gpu,
        config: &TextConfig,
        prompts: &[usize],
        max_new_tokens: usize,
    ) -> Result<Self, GpuError> {
        let places = Places::new(prompts, max_new_tokens);
        let memory = gpu.alloc(config.layers * places.rows() * kv_width(config))?;
        Ok(Self { memory, places })
    }

    /// How many sequences there are.
    pub(super) fn sequences(&self) -> usize {
        self.places.lengths.len()
    }

    /// Where keys and values of tokens go, if those are their rows.
    pub(super) fn at_rows(&self, gpu: &Gpu, to: List) -> CacheRows {
        CacheRows { at: gpu.address(&self.memory), per_layer: self.places.rows(), to }
    }

    /// The rows of all tokens of these sequences' prompts.
    pub(super) fn prompt_rows(&self, sequences: std::ops::Range<usize>) -> impl Iterator<Item = usize> {
        let Places { starts, lengths } = &self.places;
        sequences.flat_map(|i| starts[i]..starts[i] + lengths[i])
    }

    /// Appends a token to some sequences.
    pub(super) fn append(&mut self, next: &[NextToken]) -> DecodeStep {
        self.places.append(next)
    }
}

impl Places {
    fn new(prompts: &[usize], max_new_tokens: usize) -> Self {
        let mut starts = vec![0];
        let mut end = 0;
        for prompt in prompts {
            end += rows_of(*prompt, max_new_tokens);
            starts.push(end);
        }
        Self { starts, lengths: prompts.to_vec() }
    }

    /// All rows.
    fn rows(&self) -> usize {
        self.starts.last().copied().unwrap_or(0)
    }

    fn append(&mut self, next: &[NextToken]) -> DecodeStep {
        let Self { starts, lengths } = self;
        let mut lists = Lists::default();
        let of_next = |list: &[usize]| next.iter().map(|token| list[token.sequence]).collect::<Vec<_>>();
        let (first, before) = (of_next(starts), of_next(lengths));
        for token in next {
            lengths[token.sequence] += 1;
            assert!(
                starts[token.sequence] + lengths[token.sequence] <= starts[token.sequence + 1],
                "answers are no longer than there was room made for"
            );
        }
        DecodeStep {
            tokens: next.len(),
            longest: before.iter().max().map_or(0, |longest| longest + 1),
            sources: lists.add(next.iter().map(|token| token.id as usize)),
            positions: lists.add_ints(next.iter().flat_map(|token| [token.position; 3])),
            rows: lists.add(first.iter().zip(&before).map(|(first, before)| first + before)),
            starts: lists.add(first),
            lengths: lists.add(before.iter().map(|before| before + 1)),
            lists,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::config::Config;
    use super::*;

    /// Four layers with two heads of 32 keys: 1,024 bytes a token.
    fn config() -> TextConfig {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/qwen3_vl/model/config.json");
        Config::read(std::path::Path::new(file)).unwrap().text
    }

    #[test]
    fn as_many_prompts_are_answered_together_as_memory_holds() {
        let config = config();
        assert_eq!(bytes_per_token(&config), 1024);
        let at_once = |prompts: &[usize], max_new_tokens, free_tokens: usize| {
            let free = free_tokens * 1024 / 3 * 4 + 4;
            sequences_at_once(&config, prompts.iter().copied(), max_new_tokens, (free, 1 << 30))
        };
        // The last token of an answer has no keys.
        assert_eq!(at_once(&[90, 90, 90], 11, 300).unwrap(), 3);
        assert_eq!(at_once(&[90, 90, 90], 11, 299).unwrap(), 2);
        assert_eq!(at_once(&[90, 90, 90], 11, 100).unwrap(), 1);
        assert_eq!(at_once(&[10, 1000], 1, 500).unwrap(), 1, "the second waits for its turn");
        assert_eq!(at_once(&[1; 1000], 1, 5000).unwrap(), MAX_SEQUENCES);
        assert_eq!(at_once(&[], 1, 5000).unwrap(), 0);
    }

    #[test]
    fn an_answer_that_no_memory_holds_is_refused_with_the_numbers() {
        let config = config();
        let refused = |prompt, max_new_tokens| {
            sequences_at_once(&config, [prompt].into_iter(), max_new_tokens, (4 << 20, 16 << 30)).unwrap_err()
        };
        let error = refused(1000, 4097);
        assert!(
            matches!(error, GpuError::KvCache { tokens: 5096, needed, available, .. }
                if needed == 5096 * 1024 && available == 3 << 20),
            "{error}"
        );
        let error = error.to_string();
        assert!(error.contains("5096 tokens"), "{error}");
        assert!(error.contains("take 5 MiB") && error.contains("3 MiB"), "{error}");
        assert!(error.contains("max_tokens"), "{error}");
        // Numbers beyond all memory are refused as well.
        assert!(matches!(refused(1000, usize::MAX), GpuError::KvCache { tokens: usize::MAX, .. }));
        let plenty = (usize::MAX, usize::MAX);
        assert!(sequences_at_once(&config, [1].into_iter(), 1 << 32, plenty).is_err(), "32 bits");
    }

    #[test]
    fn tokens_are_appended_after_those_of_their_sequence() {
        let mut places = Places::new(&[3, 5, 2], 4);
        assert_eq!(places.starts, [0, 6, 14, 19]);
        let token = |sequence, id, position| NextToken { sequence, id, position };
        let step = places.append(&[token(0, 7, 30), token(1, 8, 50), token(2, 9, 20)]);
        let list = |list: List| list.of(&step.lists).to_vec();
        assert_eq!((step.tokens, step.longest), (3, 6));
        assert_eq!(list(step.sources), [7, 8, 9]);
        assert_eq!(list(step.positions), [30, 30, 30, 50, 50, 50, 20, 20, 20]);
        assert_eq!(list(step.rows), [3, 11, 16]);
        assert_eq!((list(step.starts), list(step.lengths)), (vec![0, 6, 14], vec![4, 6, 3]));
        // The second has ended.
        let step = places.append(&[token(0, 7, 31), token(2, 9, 21)]);
        let list = |list: List| list.of(&step.lists).to_vec();
        assert_eq!((step.tokens, step.longest), (2, 5));
        assert_eq!(list(step.rows), [4, 17]);
        assert_eq!((list(step.starts), list(step.lengths)), (vec![0, 14], vec![5, 4]));
    }
}
