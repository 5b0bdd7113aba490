//! Terms of a reward: each named, weighted and logged, and their sum.

use std::sync::Arc;

use plaudit_core::{FramesNeeded, Reward, RewardColumn, RewardError, Segment, Term};

/// How a learned term appears in the log.
#[derive(Debug, Clone, PartialEq)]
pub struct TermSettings {
    /// Its name.
    pub name: Arc<str>,
    /// Bonus where the environment says success. Not 0: truth leaks into the reward.
    pub true_success_bonus: f32,
    /// Log the raw scores too, as a term of weight 0.
    pub log_scores: bool,
}

impl TermSettings {
    /// A term of this name, with nothing on top.
    pub fn named(name: impl Into<Arc<str>>) -> Self {
        Self { name: name.into(), true_success_bonus: 0.0, log_scores: false }
    }

    pub(crate) fn bonus(&self, true_success: bool) -> f32 {
        if true_success { self.true_success_bonus } else { 0.0 }
    }

    /// The column of a term, and how often each of `words` was said, as terms of weight 0.
    pub(crate) fn column(
        &self,
        columns: TermColumns,
        words: &[&'static str],
        version: u64,
    ) -> Result<RewardColumn, RewardError> {
        let mut terms = vec![Term { name: self.name.clone(), weight: 1.0, values: columns.reward }];
        if self.true_success_bonus != 0.0 {
            let name = format!("{}/true_success", self.name).into();
            terms.push(Term { name, weight: 1.0, values: columns.bonus });
        }
        if self.log_scores {
            let name = format!("{}/probability", self.name).into();
            terms.push(Term { name, weight: 0.0, values: columns.scores });
        }
        for word in words {
            let said = |at: &Option<&'static str>| if *at == Some(*word) { 1.0 } else { 0.0 };
            let (name, values) =
                (format!("{}/{word}", self.name).into(), columns.words.iter().map(said).collect());
            terms.push(Term { name, weight: 0.0, values });
        }
        RewardColumn::of_terms(terms, version)
    }
}

/// What a learned term knows of each step, `[T, B]`.
pub(crate) struct TermColumns {
    pub(crate) reward: Vec<f32>,
    /// The bonus for the environment's ground truth.
    pub(crate) bonus: Vec<f32>,
    /// Raw scores; 0 where nothing was scored.
    pub(crate) scores: Vec<f32>,
    pub(crate) success: Vec<bool>,
    /// What was said, if anything was.
    words: Vec<Option<&'static str>>,
}

impl TermColumns {
    /// Columns of `length` numbers, with reward `reward` so far.
    pub(crate) fn new(length: usize, reward: f32) -> Self {
        Self {
            reward: vec![reward; length],
            bonus: vec![0.0; length],
            scores: vec![0.0; length],
            success: vec![false; length],
            words: vec![None; length],
        }
    }

    /// Sets the answer of a step.
    pub(crate) fn set_word(&mut self, at: usize, word: Option<&'static str>) {
        self.words[at] = word;
    }
}

/// Several rewards at once, each with its weight. The first of them that predicts success decides for all.
#[derive(Default)]
pub struct WeightedSum {
    parts: Vec<(f32, Box<dyn Reward>)>,
}

impl WeightedSum {
    /// The same with one more reward, multiplied with `weight`. One of weight 0 is only logged.
    pub fn plus(mut self, weight: f32, reward: Box<dyn Reward>) -> Self {
        self.parts.push((weight, reward));
        self
    }

    fn rewards(&self) -> impl Iterator<Item = &dyn Reward> {
        self.parts.iter().map(|(_, reward)| &**reward)
    }
}

impl Reward for WeightedSum {
    fn label(&self, segment: &Segment) -> Result<RewardColumn, RewardError> {
        let (mut terms, mut success, mut version) = (Vec::new(), None, 0);
        for (weight, reward) in &self.parts {
            let column = reward.label(segment)?;
            let weighted = |term: Term| Term { weight: term.weight * weight, ..term };
            terms.extend(column.terms.into_iter().map(weighted));
            success = success.or(column.success);
            version += column.version;
        }
        RewardColumn { success, ..RewardColumn::of_terms(terms, version)? }.finite(segment.batch())
    }

    fn context(&self) -> usize {
        self.rewards().map(Reward::context).max().unwrap_or(0)
    }

    fn frames_needed(&self) -> FramesNeeded {
        self.rewards().map(Reward::frames_needed).max().unwrap_or_default()
    }

    fn version(&self) -> u64 {
        self.rewards().map(Reward::version).sum()
    }

    fn refresh(&self) -> Result<bool, RewardError> {
        let mut changed = false;
        for reward in self.rewards() {
            changed |= reward.refresh()?;
        }
        Ok(changed)
    }
}
