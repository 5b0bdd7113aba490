//! A cache of answers: a model is not asked the same question twice.
//!
//! A potential needs the votes of a whole episode, and a segment may begin in the middle of one: the windows before
//! it were judged with the segment before. They are the same images and the same words, so the answer is the same.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use sha2::{Digest, Sha256};

use super::conversation::{ContentPart, Conversation, RgbImage};
use super::model::{Answer, AnswerMode, TrendModel};
use crate::models::RewardModelError;

/// Answers from its cache where it can.
pub struct CachedModel {
    model: Arc<dyn TrendModel>,
    cache: Mutex<AnswerCache>,
}

type Key = [u8; 32];

/// The newest answers, in two halves: when the younger is full, it becomes the older.
struct AnswerCache {
    /// The version of the model that gave them.
    version: u64,
    half: usize,
    young: HashMap<Key, Answer>,
    old: HashMap<Key, Answer>,
}

impl CachedModel {
    /// `model`, whose newest `answers` answers at least are cached.
    pub fn new(model: Arc<dyn TrendModel>, answers: usize) -> Self {
        let cache =
            AnswerCache { version: 0, half: answers.max(1), young: HashMap::new(), old: HashMap::new() };
        Self { model, cache: Mutex::new(cache) }
    }
}

impl AnswerCache {
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

impl TrendModel for CachedModel {
    fn answer(
        &self,
        conversations: &[Conversation<'_>],
        ask: &AnswerMode,
    ) -> Result<Vec<Answer>, RewardModelError> {
        let keys: Vec<Key> = conversations.iter().map(|conversation| key(conversation, ask)).collect();
        let mut answers: Vec<Option<Answer>> = {
            let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
            cache.forget_other_versions(self.model.version());
            keys.iter().map(|key| cache.get(key)).collect()
        };
        let new: Vec<usize> = (0..keys.len()).filter(|at| answers[*at].is_none()).collect();
        let asked: Vec<_> = new.iter().map(|at| conversations[*at].clone()).collect();
        let given = if asked.is_empty() { Vec::new() } else { self.model.answer(&asked, ask)? };
        if given.len() != asked.len() {
            return Err(RewardModelError::Answers { asked: asked.len(), answers: given.len() });
        }
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        for (at, answer) in new.into_iter().zip(given) {
            if answer != Answer::Missing {
                cache.put(keys[at], answer.clone());
            }
            answers[at] = Some(answer);
        }
        Ok(answers.into_iter().flatten().collect())
    }

    fn version(&self) -> u64 {
        self.model.version()
    }
}

fn key(conversation: &Conversation<'_>, ask: &AnswerMode) -> Key {
    let mut hash = Sha256::new();
    hash.update(format!("{ask:?}"));
    hash.update(fingerprint(conversation));
    hash.finalize().into()
}

/// What tells a question from every other.
pub(super) fn fingerprint(conversation: &Conversation<'_>) -> Key {
    let mut hash = Sha256::new();
    hash.update(format!("{:?} {:?}", conversation.system, conversation.answer));
    let add_image = |hash: &mut Sha256, image: &RgbImage<'_>| {
        hash.update(format!("image {} {}", image.height, image.width));
        hash.update(&image.pixels);
    };
    for part in &conversation.parts {
        match part {
            ContentPart::Text(text) => hash.update(format!("text {} {text}", text.len())),
            ContentPart::Image(image) => add_image(&mut hash, image),
            ContentPart::Video(video) => {
                hash.update(format!("video {} {} {:?}", video.frames.len(), video.fps, video.sampling));
                video.frames.iter().for_each(|frame| add_image(&mut hash, frame));
            }
        }
    }
    hash.finalize().into()
}
