//! A reward model that can be reloaded during training; every answer has the version of the model that gave it.

use std::sync::{Arc, PoisonError, RwLock};

use super::{FrameRewardModel, RewardModelError};

/// The current model of a reward. Shared by threads; a model that is scoring while it is replaced finishes.
pub struct ReloadableModel {
    now: RwLock<Arc<VersionedModel>>,
    source: Option<Box<dyn RewardModelSource>>,
}

/// A model and its version.
pub struct VersionedModel {
    /// The model.
    pub model: Box<dyn FrameRewardModel>,
    /// Grows from model to model.
    pub version: u64,
}

/// Where newer models come from, such as a file that a training run overwrites.
pub trait RewardModelSource: Send + Sync {
    /// A model that is newer than the last one given, if there is one.
    fn newer(&self) -> Result<Option<LoadedModel>, RewardModelError>;
}

/// A model as it was loaded.
pub struct LoadedModel {
    /// The model.
    pub model: Box<dyn FrameRewardModel>,
    /// Its version, as far as its source knows one. It is made larger if the last one was as large.
    pub version: u64,
}

impl ReloadableModel {
    /// One model that never changes.
    pub fn fixed(model: Box<dyn FrameRewardModel>) -> Self {
        Self::with_source(LoadedModel { model, version: 0 }, None)
    }

    /// `first`, until `source` has a newer one.
    pub fn with_source(first: LoadedModel, source: Option<Box<dyn RewardModelSource>>) -> Self {
        let LoadedModel { model, version } = first;
        Self { now: RwLock::new(Arc::new(VersionedModel { model, version })), source }
    }

    /// The model in use.
    pub fn current(&self) -> Arc<VersionedModel> {
        self.now.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces the model with a newer one, if its source has one. A source that fails changes nothing.
    pub fn refresh(&self) -> Result<bool, RewardModelError> {
        let Some(source) = &self.source else { return Ok(false) };
        let Some(newer) = source.newer()? else { return Ok(false) };
        let mut now = self.now.write().unwrap_or_else(PoisonError::into_inner);
        let version = newer.version.max(now.version + 1);
        *now = Arc::new(VersionedModel { model: newer.model, version });
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::models::StateOnlyModel;

    /// Gives its entries, one after the other.
    struct Queue(Mutex<Vec<Result<Option<u64>, &'static str>>>);

    impl RewardModelSource for Queue {
        fn newer(&self) -> Result<Option<LoadedModel>, RewardModelError> {
            let next = self.0.lock().unwrap().remove(0);
            let next = next.map_err(|words| RewardModelError::Backend(words.into()))?;
            Ok(next.map(|version| LoadedModel { model: Box::new(StateOnlyModel), version }))
        }
    }

    #[test]
    fn versions_grow_and_a_failed_reload_changes_nothing() {
        let source =
            Queue(Mutex::new(vec![Ok(None), Ok(Some(5)), Ok(Some(9)), Err("half a file"), Ok(Some(12))]));
        let model = ReloadableModel::with_source(
            LoadedModel { model: Box::new(StateOnlyModel), version: 7 },
            Some(Box::new(source)),
        );
        let old = model.current();
        let mut seen = Vec::new();
        for _ in 0..5 {
            let refreshed = model.refresh().ok();
            seen.push((refreshed, model.current().version));
        }
        assert_eq!(seen, [(Some(false), 7), (Some(true), 8), (Some(true), 9), (None, 9), (Some(true), 12)]);
        assert_eq!(old.version, 7, "a model that was taken before keeps its version");
        assert!(!ReloadableModel::fixed(Box::new(StateOnlyModel)).refresh().unwrap());
    }
}
