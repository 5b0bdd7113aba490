//! The seat of a judge: another may take it while training goes on, and every answer knows who gave it.

use std::sync::{Arc, PoisonError, RwLock};

use super::{FrameJudge, JudgeError};

/// Where the judge of a reward sits. Shared by threads; whoever is judging when another takes the seat finishes.
pub struct Seat {
    now: RwLock<Arc<Seated>>,
    source: Option<Box<dyn JudgeSource>>,
}

/// A judge and its version.
pub struct Seated {
    /// The judge.
    pub judge: Box<dyn FrameJudge>,
    /// Grows from judge to judge.
    pub version: u64,
}

/// Where newer judges come from, such as a file that a training run overwrites.
pub trait JudgeSource: Send + Sync {
    /// A judge that is newer than the last one given, if there is one.
    fn newer(&self) -> Result<Option<Newer>, JudgeError>;
}

/// A judge that is newer than the one that sits.
pub struct Newer {
    /// The judge.
    pub judge: Box<dyn FrameJudge>,
    /// Its version, as far as its source knows one. The seat makes it larger if the last one was as large.
    pub version: u64,
}

impl Seat {
    /// For one judge for good.
    pub fn of(judge: Box<dyn FrameJudge>) -> Self {
        Self::following(Newer { judge, version: 0 }, None)
    }

    /// For `first`, until `source` has a newer one.
    pub fn following(first: Newer, source: Option<Box<dyn JudgeSource>>) -> Self {
        let Newer { judge, version } = first;
        Self { now: RwLock::new(Arc::new(Seated { judge, version })), source }
    }

    /// Who sits there now.
    pub fn current(&self) -> Arc<Seated> {
        self.now.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Gives the seat to a newer judge, if its source has one. A source that fails changes nothing.
    pub fn refresh(&self) -> Result<bool, JudgeError> {
        let Some(source) = &self.source else { return Ok(false) };
        let Some(newer) = source.newer()? else { return Ok(false) };
        let mut now = self.now.write().unwrap_or_else(PoisonError::into_inner);
        let version = newer.version.max(now.version + 1);
        *now = Arc::new(Seated { judge: newer.judge, version });
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::judge::StateAlone;

    /// Gives what it is told, one after the other.
    struct Queue(Mutex<Vec<Result<Option<u64>, &'static str>>>);

    impl JudgeSource for Queue {
        fn newer(&self) -> Result<Option<Newer>, JudgeError> {
            let next = self.0.lock().unwrap().remove(0);
            let next = next.map_err(|words| JudgeError::Backend(words.into()))?;
            Ok(next.map(|version| Newer { judge: Box::new(StateAlone), version }))
        }
    }

    #[test]
    fn versions_grow_and_a_failed_look_changes_nothing() {
        let source =
            Queue(Mutex::new(vec![Ok(None), Ok(Some(5)), Ok(Some(9)), Err("half a file"), Ok(Some(12))]));
        let seat = Seat::following(Newer { judge: Box::new(StateAlone), version: 7 }, Some(Box::new(source)));
        let old = seat.current();
        let mut seen = Vec::new();
        for _ in 0..5 {
            let refreshed = seat.refresh().ok();
            seen.push((refreshed, seat.current().version));
        }
        assert_eq!(seen, [(Some(false), 7), (Some(true), 8), (Some(true), 9), (None, 9), (Some(true), 12)]);
        assert_eq!(old.version, 7, "who was asked before answers for itself");
        assert!(!Seat::of(Box::new(StateAlone)).refresh().unwrap());
    }
}
