//! Warns once when a judge gets a prompt that it was not tuned with.
//!
//! A large model may not mind. A small one answers something all the same, and nothing shows in its answers that it did not
//! understand the question.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::conversation::Conversation;
use super::model::{Answer, AnswerMode, TrendModel};
use crate::models::RewardModelError;

/// Compares prompts with those that the model was tuned with.
pub struct PromptCheck {
    model: Arc<dyn TrendModel>,
    questions: Vec<String>,
    warn: Arc<dyn Fn(&UnknownPrompt) + Send + Sync>,
    warned: AtomicBool,
}

/// A prompt that a judge was not tuned with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownPrompt {
    /// What it is asked.
    pub asked: String,
    /// What it was tuned with.
    pub known: String,
}

impl fmt::Display for UnknownPrompt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { asked, known } = self;
        write!(f, "the judge is asked `{asked}`, and was tuned with `{known}`: its answers may mean nothing")
    }
}

impl PromptCheck {
    /// `model`, which was tuned with these questions; `warn` is called with the first other one.
    pub fn new(
        model: Arc<dyn TrendModel>,
        questions: Vec<String>,
        warn: Arc<dyn Fn(&UnknownPrompt) + Send + Sync>,
    ) -> Self {
        Self { model, questions, warn, warned: AtomicBool::new(false) }
    }
}

impl TrendModel for PromptCheck {
    fn answer(
        &self,
        conversations: &[Conversation<'_>],
        ask: &AnswerMode,
    ) -> Result<Vec<Answer>, RewardModelError> {
        let unknown =
            conversations.iter().map(Conversation::text).find(|text| !self.questions.contains(text));
        if let (Some(asked), Some(known)) = (unknown, self.questions.first())
            && !self.warned.swap(true, Ordering::Relaxed)
        {
            (self.warn)(&UnknownPrompt { asked, known: known.clone() });
        }
        self.model.answer(conversations, ask)
    }

    fn version(&self) -> u64 {
        self.model.version()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::super::conversation::{AnswerPlace, ContentPart};
    use super::super::model::GenerationConfig;
    use super::*;

    struct Silent;

    impl TrendModel for Silent {
        fn answer(
            &self,
            conversations: &[Conversation<'_>],
            _: &AnswerMode,
        ) -> Result<Vec<Answer>, RewardModelError> {
            Ok(vec![Answer::Missing; conversations.len()])
        }
    }

    #[test]
    fn an_unknown_prompt_is_reported_once() {
        let warnings = Arc::new(Mutex::new(Vec::new()));
        let sink = warnings.clone();
        let warn = Arc::new(move |unknown: &UnknownPrompt| sink.lock().unwrap().push(unknown.clone()));
        let check = PromptCheck::new(Arc::new(Silent), vec!["Better?".into()], warn);
        let ask = |words: &str| {
            let parts = vec![ContentPart::Text(words.into())];
            let asked = Conversation { system: None, parts, answer: AnswerPlace::NextTurn };
            let generation = GenerationConfig { max_new_tokens: 1, temperature: 0.0 };
            check.answer(&[asked], &AnswerMode::Labels(generation)).unwrap();
            warnings.lock().unwrap().len()
        };
        assert_eq!([ask("Better?"), ask("Worse?"), ask("Worse?"), ask("Better?")], [0, 1, 1, 1]);
        let expected = UnknownPrompt { asked: "Worse?".into(), known: "Better?".into() };
        assert_eq!(warnings.lock().unwrap()[0], expected);
    }
}
