//! Words that an answer may be, as tokens: where they part.
//!
//! Most words part at their first token, so that one look at the model tells how likely each is. `1` and `10` do not: there, the
//! model is asked a second time, after `1`, whether the answer ends or goes on.

use plaudit_nn::qwen3_vl::{Tokenizer, VlmError};

/// A place where words part, or where one of them ends and others go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fork {
    /// The tokens that these words begin with alike.
    pub(super) said: Vec<u32>,
    /// Each token that may follow, and the words that go on with it.
    pub(super) next: Vec<(u32, Vec<usize>)>,
}

/// Every place that tells some words apart, the beginning of the answer first. The probability of a word is the product of those
/// of its tokens there.
///
/// # Errors
/// When a word has no tokens or one with a meaning of its own, or two words have the same.
pub(super) fn forks(tokenizer: &Tokenizer, words: &[&str]) -> Result<Vec<Fork>, VlmError> {
    let mut tokens: Vec<Vec<u32>> = Vec::with_capacity(words.len());
    for word in words {
        let own = answer_tokens(tokenizer, word)?;
        if let Some(twin) = tokens.iter().position(|other| *other == own) {
            let what = format!("words `{}` and `{word}` are the same tokens", words[twin]);
            return Err(VlmError::Input(format!("{what}; use other words")));
        }
        tokens.push(own);
    }
    let mut forks = Vec::new();
    let mut open: Vec<(Vec<u32>, Vec<usize>)> = vec![(Vec::new(), (0..words.len()).collect())];
    while let Some((said, among)) = open.pop() {
        let mut next: Vec<(u32, Vec<usize>)> = Vec::new();
        for word in among {
            // Every word has a token here: the last of each is the end of the answer, where no two go on together.
            let token = tokens[word][said.len()];
            match next.iter_mut().find(|(other, _)| *other == token) {
                Some((_, together)) => together.push(word),
                None => next.push((token, vec![word])),
            }
        }
        let alike = next.iter().filter(|(_, together)| together.len() > 1);
        open.extend(alike.map(|(token, together)| ([&said[..], &[*token]].concat(), together.clone())));
        forks.push(Fork { said, next });
    }
    Ok(forks)
}

/// The tokens of a word that is the whole answer.
fn answer_tokens(tokenizer: &Tokenizer, word: &str) -> Result<Vec<u32>, VlmError> {
    let special = tokenizer.special();
    let mut tokens = tokenizer.encode(word)?;
    if tokens.is_empty() {
        return Err(VlmError::Input(format!("word `{word}` has no tokens")));
    }
    let reserved = [special.turn_end, special.end_of_text, special.image, special.video];
    if tokens.iter().any(|token| reserved.contains(token)) {
        return Err(VlmError::Input(format!("word `{word}` has a token with a meaning of its own")));
    }
    tokens.push(special.turn_end);
    Ok(tokens)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn tokenizer() -> Tokenizer {
        let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("../nn/tests/qwen3_vl/model");
        Tokenizer::read(&model.join("tokenizer.json")).unwrap()
    }

    #[test]
    fn words_part_at_their_first_token_or_where_they_differ() {
        let tokenizer = tokenizer();
        let token = |word: &str| tokenizer.encode(word).unwrap()[0];
        let found = forks(&tokenizer, &["yes", "no"]).unwrap();
        assert_eq!(
            found,
            [Fork { said: vec![], next: vec![(token("yes"), vec![0]), (token("no"), vec![1])] }]
        );
        let found = forks(&tokenizer, &["1", "2", "10"]).unwrap();
        let end = tokenizer.special().turn_end;
        assert_eq!(
            found,
            [
                Fork { said: vec![], next: vec![(token("1"), vec![0, 2]), (token("2"), vec![1])] },
                Fork { said: vec![token("1")], next: vec![(end, vec![0]), (token("0"), vec![2])] },
            ]
        );
        // A word that stands alone is told by its first token.
        assert_eq!(forks(&tokenizer, &["10"]).unwrap().len(), 1);
    }

    #[test]
    fn words_that_cannot_be_told_apart_are_refused() {
        for (words, expected) in [
            (&["yes", "yes"][..], "words `yes` and `yes` are the same tokens"),
            (&["yes", ""], "word `` has no tokens"),
            (&["<|image_pad|>"], "a token with a meaning of its own"),
            (&["a<|im_end|>", "a"], "a token with a meaning of its own"),
        ] {
            let error = forks(&tokenizer(), words).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
