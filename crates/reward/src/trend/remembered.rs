//! A model that is not asked the same question twice.
//!
//! A potential looks back on the votes of a whole episode, and a segment may begin in the middle of one: the windows before
//! it were judged with the segment before. They are the same pictures and the same words, so the answer is the same.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use sha2::{Digest, Sha256};

use super::conversation::{Conversation, Part, Picture};
use super::model::{Answer, Ask, TrendModel};
use crate::judge::JudgeError;

/// Answers from memory where it can.
pub struct Remembered {
    model: Arc<dyn TrendModel>,
    memory: Mutex<Memory>,
}

type Key = [u8; 32];

/// The newest answers, in two halves: when the younger is full, it becomes the older.
struct Memory {
    /// The version of the model that gave them.
    version: u64,
    half: usize,
    young: HashMap<Key, Answer>,
    old: HashMap<Key, Answer>,
}

impl Remembered {
    /// `model`, whose newest `answers` answers at least are remembered.
    pub fn new(model: Arc<dyn TrendModel>, answers: usize) -> Self {
        let memory = Memory { version: 0, half: answers.max(1), young: HashMap::new(), old: HashMap::new() };
        Self { model, memory: Mutex::new(memory) }
    }
}

impl Memory {
    fn forget_other_versions(&mut self, version: u64) {
        if self.version != version {
            self.version = version;
            self.young.clear();
            self.old.clear();
        }
    }

    fn get(&mut self, key: &Key) -> Option<Answer> {
        let found = self.young.get(key).or_else(|| self.old.get(key)).cloned()?;
        self.put(*key, found.clone());
        Some(found)
    }

    fn put(&mut self, key: Key, answer: Answer) {
        if self.young.len() >= self.half && !self.young.contains_key(&key) {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, answer);
    }
}

impl TrendModel for Remembered {
    fn answer(&self, conversations: &[Conversation<'_>], ask: &Ask) -> Result<Vec<Answer>, JudgeError> {
        let keys: Vec<Key> = conversations.iter().map(|conversation| key(conversation, ask)).collect();
        let mut answers: Vec<Option<Answer>> = {
            let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
            memory.forget_other_versions(self.model.version());
            keys.iter().map(|key| memory.get(key)).collect()
        };
        let new: Vec<usize> = (0..keys.len()).filter(|at| answers[*at].is_none()).collect();
        let asked: Vec<_> = new.iter().map(|at| conversations[*at].clone()).collect();
        let given = if asked.is_empty() { Vec::new() } else { self.model.answer(&asked, ask)? };
        if given.len() != asked.len() {
            return Err(JudgeError::Answers { asked: asked.len(), answers: given.len() });
        }
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        for (at, answer) in new.into_iter().zip(given) {
            if answer != Answer::Missing {
                memory.put(keys[at], answer.clone());
            }
            answers[at] = Some(answer);
        }
        Ok(answers.into_iter().flatten().collect())
    }

    fn version(&self) -> u64 {
        self.model.version()
    }
}

fn key(conversation: &Conversation<'_>, ask: &Ask) -> Key {
    let mut hash = Sha256::new();
    hash.update(format!("{ask:?}"));
    hash.update(fingerprint(conversation));
    hash.finalize().into()
}

/// What tells a question from every other.
pub(super) fn fingerprint(conversation: &Conversation<'_>) -> Key {
    let mut hash = Sha256::new();
    hash.update(format!("{:?}", conversation.system));
    let picture = |hash: &mut Sha256, picture: &Picture<'_>| {
        hash.update(format!("image {} {}", picture.height, picture.width));
        hash.update(&picture.pixels);
    };
    for part in &conversation.parts {
        match part {
            Part::Text(text) => hash.update(format!("text {} {text}", text.len())),
            Part::Image(image) => picture(&mut hash, image),
            Part::Video(video) => {
                hash.update(format!("video {} {}", video.frames.len(), video.fps));
                video.frames.iter().for_each(|frame| picture(&mut hash, frame));
            }
        }
    }
    hash.finalize().into()
}
