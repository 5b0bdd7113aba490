//! What a forward pass costs, before it is made: memory and operations, by the sizes of the network and of the question.

use super::config::{Config, TextConfig, VisionConfig};
use crate::kernels::attention::SCORES_AT_ONCE;

/// The size of a question.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuestionSize {
    /// Tokens, those of images and videos included. Timestamps of videos are counted generously.
    pub tokens: usize,
    /// Tokens of images and videos.
    pub visual_tokens: usize,
    /// Patches of images and videos.
    pub patches: usize,
    /// Patches of the largest image or pair of frames.
    pub largest_image: usize,
}

/// What a forward pass costs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ForwardCost {
    /// Bytes of memory at most, weights not counted.
    pub bytes: usize,
    /// Floating-point operations.
    pub operations: f64,
}

const FLOAT: usize = size_of::<f32>();

impl Config {
    /// What a question costs whose answer has at most so many tokens, on so many threads.
    #[must_use]
    pub fn cost(&self, size: QuestionSize, new_tokens: usize, threads: usize) -> ForwardCost {
        let (text, vision) = (&self.text, &self.vision);
        let QuestionSize { tokens, visual_tokens, patches, largest_image } = size;
        let all = tokens + new_tokens;
        // The tower is done before the language model begins; its embeddings stay.
        let tower = patches * vision.floats_per_patch();
        let embeds = 2 * visual_tokens * text.width * (1 + vision.deepstack.len());
        let language = all * text.floats_per_token() + text.vocab;
        // Scores of attention, and keys and values of a head that are packed for it.
        let longest = all.max(largest_image);
        let head = text.head_width.max(vision.width / vision.heads);
        let attention = threads * (SCORES_AT_ONCE.min(longest * longest) + 4 * longest * head);
        // Where sequences are padded, a byte says of each pair of tokens whether it may be seen.
        let mask = all * all;
        let bytes = FLOAT * (tower.max(language) + embeds + attention) + mask;
        let operations = vision.operations(patches, largest_image) + text.operations(tokens, new_tokens);
        ForwardCost { bytes, operations }
    }
}

impl TextConfig {
    /// Numbers that a layer has for each token at its busiest, and keys and values of all layers.
    fn floats_per_token(&self) -> usize {
        let (queries, keys) = (self.heads * self.head_width, self.kv_heads * self.head_width);
        4 * self.width
            + 4 * queries
            + 6 * keys
            + 4 * self.widest_inner()
            + self.head_width
            + 2 * (self.layers + 1) * keys
    }

    /// Numbers inside the feed-forward network of a token: of all experts that it goes to, if there are some.
    fn widest_inner(&self) -> usize {
        let experts = self.experts.as_ref().map_or(0, |experts| experts.per_token * experts.inner);
        let is_dense = |i: usize| self.experts_of(i).is_none();
        if (0..self.layers).any(is_dense) { self.inner.max(experts) } else { experts }
    }

    fn operations(&self, tokens: usize, new_tokens: usize) -> f64 {
        let (queries, keys) = (self.heads * self.head_width, self.kv_heads * self.head_width);
        let weights = self.width * (2 * queries + 2 * keys + 3 * self.widest_inner()) * self.layers;
        let of_token = 2.0 * weights as f64;
        let pair = 4.0 * (queries * self.layers) as f64;
        let head = 2.0 * (self.vocab * self.width) as f64;
        let (tokens, new) = (tokens as f64, new_tokens as f64);
        tokens * of_token + pair * tokens * tokens / 2.0 + new * (of_token + pair * (tokens + new) + head)
    }
}

impl VisionConfig {
    /// Numbers that a block has for each patch at its busiest.
    fn floats_per_patch(&self) -> usize {
        let gated = if self.windows.is_some() { self.inner } else { 0 };
        2 * self.patch_len() + 14 * self.width + 3 * self.inner + gated
    }

    fn operations(&self, patches: usize, largest_image: usize) -> f64 {
        let products = if self.windows.is_some() { 3 } else { 2 };
        let block = self.width * (4 * self.width + products * self.inner);
        let weights = block * self.depth + self.patch_len() * self.width;
        let mergers = (1 + self.deepstack.len()) * self.merged() * self.width * self.width;
        let pairs = 4.0 * (self.width * self.depth) as f64 * patches as f64 * largest_image as f64;
        2.0 * patches as f64 * (weights + mergers) as f64 + pairs
    }
}
