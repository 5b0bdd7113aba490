//! Texts to tokens and back, by the model's own `tokenizer.json`.

use std::path::Path;

use super::error::VlmError;

/// The tokens of a model.
#[derive(Clone, Debug)]
pub struct Tokenizer {
    inner: tokenizers::Tokenizer,
    special: SpecialTokens,
}

/// The tokens with a meaning of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpecialTokens {
    /// `<|endoftext|>`, also the padding token.
    pub end_of_text: u32,
    /// `<|im_end|>`, which ends an answer.
    pub turn_end: u32,
    /// `<|image_pad|>`
    pub image: u32,
    /// `<|video_pad|>`
    pub video: u32,
}

impl Tokenizer {
    /// Reads `tokenizer.json`.
    ///
    /// # Errors
    /// When it cannot be read, or lacks the tokens that this family's prompts are made of.
    pub fn read(file: &Path) -> Result<Self, VlmError> {
        let bytes = std::fs::read(file).map_err(|source| VlmError::File { file: file.to_owned(), source })?;
        Self::parse(file, &bytes)
    }

    /// From the contents of `file`.
    pub(super) fn parse(file: &Path, bytes: &[u8]) -> Result<Self, VlmError> {
        let wrong = |problem| VlmError::Config { file: file.to_owned(), problem };
        let inner = tokenizers::Tokenizer::from_bytes(bytes)
            .map_err(|error| wrong(format!("is no tokenizer: {error}")))?;
        let special = |token: &str| {
            let hint = "is this the tokenizer of a Qwen3-VL model?";
            inner.token_to_id(token).ok_or_else(|| wrong(format!("has no token `{token}`; {hint}")))
        };
        let special = SpecialTokens {
            end_of_text: special("<|endoftext|>")?,
            turn_end: special("<|im_end|>")?,
            image: special("<|image_pad|>")?,
            video: special("<|video_pad|>")?,
        };
        Ok(Self { inner, special })
    }

    /// The tokens with a meaning of their own.
    #[must_use]
    pub fn special(&self) -> SpecialTokens {
        self.special
    }

    /// The tokens of a text. Names of special tokens in it become those tokens.
    ///
    /// # Errors
    /// When the tokenizer cannot express it.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, VlmError> {
        let encoding = self.inner.encode_fast(text, false);
        let encoding =
            encoding.map_err(|error| VlmError::Input(format!("a text without tokens: {error}")))?;
        Ok(encoding.get_ids().to_vec())
    }

    /// The pieces of each word of a text.
    pub(super) fn words(&self, text: &str) -> Result<Vec<Vec<String>>, VlmError> {
        let encoding = self.inner.encode(text, false);
        let encoding =
            encoding.map_err(|error| VlmError::Input(format!("a text without tokens: {error}")))?;
        let mut words: Vec<(Option<u32>, Vec<String>)> = Vec::new();
        for (piece, word) in encoding.get_tokens().iter().zip(encoding.get_word_ids()) {
            match words.last_mut() {
                Some((last, pieces)) if last == word => pieces.push(piece.clone()),
                _ => words.push((*word, vec![piece.clone()])),
            }
        }
        Ok(words.into_iter().map(|(_, pieces)| pieces).collect())
    }

    /// The text of tokens, without special ones.
    ///
    /// # Errors
    /// When a token is not in the vocabulary.
    pub fn decode(&self, tokens: &[u32]) -> Result<String, VlmError> {
        let decoded = self.inner.decode(tokens, true);
        decoded.map_err(|error| VlmError::Input(format!("tokens without a text: {error}")))
    }

    /// The text of one token, by name if it is a special one.
    ///
    /// # Errors
    /// When it is not in the vocabulary.
    pub fn piece(&self, token: u32) -> Result<String, VlmError> {
        let decoded = self.inner.decode(&[token], false);
        decoded.map_err(|error| VlmError::Input(format!("a token without a text: {error}")))
    }

    /// How many tokens there are, special ones included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.inner.get_vocab_size(true)
    }

    /// Whether there are no tokens.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The token each label begins with, by which a model's answer is read without generating it.
    ///
    /// # Errors
    /// When two labels begin with the same token, or one has none.
    pub fn first_tokens(&self, labels: &[&str]) -> Result<Vec<u32>, VlmError> {
        let mut firsts: Vec<u32> = Vec::with_capacity(labels.len());
        for label in labels {
            let first = self.encode(label)?.first().copied();
            let first = first.ok_or_else(|| VlmError::Input(format!("label `{label}` has no tokens")))?;
            if let Some(twin) = firsts.iter().position(|other| *other == first) {
                let what = format!("labels `{}` and `{label}` begin with the same token", labels[twin]);
                return Err(VlmError::Input(format!("{what}; use other words, or read the answer as text")));
            }
            firsts.push(first);
        }
        Ok(firsts)
    }
}
