//! A reward that can be made stricter while a policy learns by it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};

use plaudit_core::{FramesNeeded, Reward, RewardColumn, RewardError, Segment};

use crate::models::VersionedModel;
use crate::shaping::{FrameReward, Latch, RewardTiming, SuccessThreshold};

/// How a reward is made stricter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Adjustment {
    /// Rewards the ends of episodes only.
    Terminal,
    /// Asks for scores above this.
    Threshold(f32),
}

/// Rewards as its term does, until it is adjusted. Each adjustment is a new version, so that earlier rewards are
/// relabelled.
pub struct AdjustableReward {
    term: RwLock<FrameReward>,
    adjustments: AtomicU64,
    /// Whether it was adjusted and nobody asked since.
    is_new: AtomicBool,
}

impl AdjustableReward {
    /// As the term, so far.
    #[must_use]
    pub fn new(term: FrameReward) -> Self {
        Self { term: RwLock::new(term), adjustments: AtomicU64::new(0), is_new: AtomicBool::new(false) }
    }

    /// Makes it stricter; says whether that changed anything.
    pub fn adjust(&self, adjustment: Adjustment) -> bool {
        let mut term = self.term.write().unwrap_or_else(PoisonError::into_inner);
        let changed = match adjustment {
            Adjustment::Terminal => term.timing != RewardTiming::Terminal,
            Adjustment::Threshold(threshold) => {
                matches!(term.rule.latch, Latch::Threshold(_)) && self.threshold_of(&term) < Some(threshold)
            }
        };
        if changed {
            match adjustment {
                Adjustment::Terminal => term.timing = RewardTiming::Terminal,
                Adjustment::Threshold(threshold) => {
                    term.rule.latch = Latch::Threshold(SuccessThreshold::At(threshold.into()))
                }
            }
            self.adjustments.fetch_add(1, Ordering::Relaxed);
            self.is_new.store(true, Ordering::Relaxed);
        }
        changed
    }

    /// Whether only the ends of episodes are rewarded.
    pub fn rewards_ends_only(&self) -> bool {
        self.read().timing == RewardTiming::Terminal
    }

    /// The score above which it sees success, if it has one such.
    pub fn threshold(&self) -> Option<f32> {
        self.threshold_of(&self.read())
    }

    /// The model in use.
    pub fn model(&self) -> std::sync::Arc<VersionedModel> {
        self.read().model.current()
    }

    fn threshold_of(&self, term: &FrameReward) -> Option<f32> {
        match term.rule.latch {
            Latch::Threshold(SuccessThreshold::At(threshold)) => Some(threshold as f32),
            Latch::Threshold(SuccessThreshold::NoFilter) => Some(0.0),
            Latch::Threshold(SuccessThreshold::Checkpoint) => term.model.current().model.threshold(),
            Latch::Hysteresis { .. } => None,
        }
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, FrameReward> {
        self.term.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reward for AdjustableReward {
    fn label(&self, segment: &Segment) -> Result<RewardColumn, RewardError> {
        let term = self.read(); // held, so that the version is that of the term which rewarded
        let column = term.label(segment)?;
        let version = column.version + self.adjustments.load(Ordering::Relaxed);
        Ok(RewardColumn { version, ..column })
    }

    fn context(&self) -> usize {
        self.read().context()
    }

    fn frames_needed(&self) -> FramesNeeded {
        self.read().frames_needed()
    }

    fn version(&self) -> u64 {
        self.read().version() + self.adjustments.load(Ordering::Relaxed)
    }

    fn refresh(&self) -> Result<bool, RewardError> {
        let adjusted = self.is_new.swap(false, Ordering::Relaxed);
        Ok(self.read().refresh()? || adjusted)
    }
}
