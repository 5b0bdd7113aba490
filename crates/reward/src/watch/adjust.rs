//! A reward that can be made stricter while a policy learns by it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};

use plaudit_core::{Reward, RewardColumn, RewardError, Segment, Watch};

use crate::judge::Seated;
use crate::pay::{FrameReward, Latch, When};

/// How a reward is made stricter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Adjustment {
    /// Pays at the ends of episodes only.
    AtEnds,
    /// Asks for scores above this.
    Threshold(f32),
}

/// Pays as its term does, until it is adjusted. Each adjustment is a new version, so that what was paid before is paid
/// anew.
pub struct Adjustable {
    term: RwLock<FrameReward>,
    adjustments: AtomicU64,
    /// Whether it was adjusted and nobody asked since.
    is_new: AtomicBool,
}

impl Adjustable {
    /// As the term, so far.
    #[must_use]
    pub fn new(term: FrameReward) -> Self {
        Self { term: RwLock::new(term), adjustments: AtomicU64::new(0), is_new: AtomicBool::new(false) }
    }

    /// Makes it stricter; says whether that changed anything.
    pub fn adjust(&self, adjustment: Adjustment) -> bool {
        let mut term = self.term.write().unwrap_or_else(PoisonError::into_inner);
        let changed = match adjustment {
            Adjustment::AtEnds => term.when != When::AtEnds,
            Adjustment::Threshold(threshold) => {
                matches!(term.rule.latch, Latch::Threshold(_)) && self.threshold_of(&term) < Some(threshold)
            }
        };
        if changed {
            match adjustment {
                Adjustment::AtEnds => term.when = When::AtEnds,
                Adjustment::Threshold(threshold) => term.rule.latch = Latch::Threshold(Some(threshold)),
            }
            self.adjustments.fetch_add(1, Ordering::Relaxed);
            self.is_new.store(true, Ordering::Relaxed);
        }
        changed
    }

    /// The score above which it sees success, if it has one such.
    pub fn threshold(&self) -> Option<f32> {
        self.threshold_of(&self.read())
    }

    /// Who judges now.
    pub fn judge(&self) -> std::sync::Arc<Seated> {
        self.read().seat.current()
    }

    fn threshold_of(&self, term: &FrameReward) -> Option<f32> {
        match term.rule.latch {
            Latch::Threshold(Some(threshold)) => Some(threshold),
            Latch::Threshold(None) => term.seat.current().judge.threshold(),
            Latch::Hysteresis { .. } => None,
        }
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, FrameReward> {
        self.term.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reward for Adjustable {
    fn label(&self, segment: &Segment) -> Result<RewardColumn, RewardError> {
        let term = self.read(); // held, so that the version is that of the term which paid
        let column = term.label(segment)?;
        let version = column.version + self.adjustments.load(Ordering::Relaxed);
        Ok(RewardColumn { version, ..column })
    }

    fn context(&self) -> usize {
        self.read().context()
    }

    fn watch(&self) -> Watch {
        self.read().watch()
    }

    fn version(&self) -> u64 {
        self.read().version() + self.adjustments.load(Ordering::Relaxed)
    }

    fn refresh(&self) -> Result<bool, RewardError> {
        let adjusted = self.is_new.swap(false, Ordering::Relaxed);
        Ok(self.read().refresh()? || adjusted)
    }
}
