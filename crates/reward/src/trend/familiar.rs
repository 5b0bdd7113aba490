//! A judge that is asked in words it was not tuned with says so, once.
//!
//! A large model may not mind. A small one answers something all the same, and nothing shows in its answers that it did not
//! understand the question.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::conversation::Conversation;
use super::model::{Answer, Ask, TrendModel};
use crate::judge::JudgeError;

/// Watches what a model is asked.
pub struct Familiar {
    model: Arc<dyn TrendModel>,
    questions: Vec<String>,
    tell: Arc<dyn Fn(&str) + Send + Sync>,
    told: AtomicBool,
}

impl Familiar {
    /// `model`, which was tuned with these questions; `tell` hears of the first other one.
    pub fn new(
        model: Arc<dyn TrendModel>,
        questions: Vec<String>,
        tell: Arc<dyn Fn(&str) + Send + Sync>,
    ) -> Self {
        Self { model, questions, tell, told: AtomicBool::new(false) }
    }
}

impl TrendModel for Familiar {
    fn answer(&self, conversations: &[Conversation<'_>], ask: &Ask) -> Result<Vec<Answer>, JudgeError> {
        let strange =
            conversations.iter().map(Conversation::text).find(|text| !self.questions.contains(text));
        if let (Some(asked), Some(known)) = (strange, self.questions.first())
            && !self.told.swap(true, Ordering::Relaxed)
        {
            (self.tell)(&format!(
                "the judge is asked `{asked}`, and was tuned with `{known}`: its answers may mean nothing; make windows with \
                 the task in the environment's words, or set reward.model.input_builder_params.prompt"
            ));
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

    use super::super::conversation::Part;
    use super::super::model::Generation;
    use super::*;

    struct Silent;

    impl TrendModel for Silent {
        fn answer(&self, conversations: &[Conversation<'_>], _: &Ask) -> Result<Vec<Answer>, JudgeError> {
            Ok(vec![Answer::Missing; conversations.len()])
        }
    }

    #[test]
    fn other_words_are_told_once() {
        let heard = Arc::new(Mutex::new(Vec::new()));
        let hears = heard.clone();
        let tell = Arc::new(move |text: &str| hears.lock().unwrap().push(text.to_string()));
        let familiar = Familiar::new(Arc::new(Silent), vec!["Better?".into()], tell);
        let ask = |words: &str| {
            let asked = Conversation { system: None, parts: vec![Part::Text(words.into())] };
            let generation = Generation { max_new_tokens: 1, temperature: 0.0 };
            familiar.answer(&[asked], &Ask::Labels(generation)).unwrap();
            heard.lock().unwrap().len()
        };
        assert_eq!([ask("Better?"), ask("Worse?"), ask("Worse?"), ask("Better?")], [0, 1, 1, 1]);
        assert!(heard.lock().unwrap()[0].contains("`Worse?`, and was tuned with `Better?`"));
    }
}
