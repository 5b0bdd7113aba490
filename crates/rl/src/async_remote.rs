//! Asynchronous training with environments in other processes, each at its own pace.

use std::time::Duration;

use crate::async_training::{AsyncPlan, RolloutReport};
use crate::rollout_stats::RolloutStats;
use crate::training::RemoteTracker;
use crate::{ExplorerParams, RemoteEnvs, RemoteRollout, RolloutState, TrainingError, TrainingPlan};

/// Environments of other processes that never wait for the learner.
pub trait RemoteCollector: Send {
    /// A newer policy, for all rollouts that begin from now on.
    fn publish(&mut self, version: u64, params: ExplorerParams) -> Result<(), TrainingError>;

    /// The next rollout of any process that arrives in time. `state` says where the environments of a process are: one that
    /// was started again begins there.
    fn collect(
        &mut self,
        plan: TrainingPlan,
        timeout: Duration,
        state: &dyn Fn(usize) -> RolloutState,
    ) -> Result<Option<CollectedRollout>, TrainingError>;

    /// The oldest version of the policy that a rollout under way is played with.
    fn oldest_version(&self) -> Option<u64>;
}

/// A rollout of one process.
#[derive(Debug)]
pub struct CollectedRollout {
    /// Which process.
    pub rank: usize,
    /// What it played.
    pub rollout: RemoteRollout,
    /// The version of the policy it was played with.
    pub version: u64,
    /// How long it took.
    pub took: Duration,
}

/// Where asynchronous rollouts of other processes come from.
pub(crate) struct AsyncRemoteSource {
    collector: Box<dyn RemoteCollector>,
    trackers: Vec<RemoteTracker>,
    plan: AsyncPlan,
    version: u64,
}

impl AsyncRemoteSource {
    pub(crate) fn start(
        mut collector: Box<dyn RemoteCollector>,
        processes: Vec<(RemoteEnvs, Option<RolloutState>)>,
        plan: AsyncPlan,
        params: ExplorerParams,
    ) -> Result<Self, TrainingError> {
        collector.publish(1, params)?;
        let trackers = processes.into_iter().map(|(envs, state)| RemoteTracker::new(envs, state)).collect();
        Ok(Self { collector, trackers, plan, version: 1 })
    }

    pub(crate) fn rollout_states(&self) -> Vec<RolloutState> {
        self.trackers.iter().map(RemoteTracker::rollout_state).collect()
    }

    /// Whether another version would leave a rollout under way further behind than it may be.
    pub(crate) fn must_wait(&self) -> bool {
        let oldest = self.collector.oldest_version().unwrap_or(self.version);
        self.plan.staleness_threshold.is_some_and(|bound| self.version + 1 - oldest.min(self.version) > bound)
    }

    pub(crate) fn publish(&mut self, params: ExplorerParams) -> Result<(), TrainingError> {
        self.version += 1;
        self.collector.publish(self.version, params)
    }

    pub(crate) fn next(&mut self, timeout: Duration) -> Result<Option<RolloutReport>, TrainingError> {
        let trackers = &self.trackers;
        let state = |rank: usize| trackers[rank].rollout_state();
        let Some(collected) = self.collector.collect(self.plan.rollouts, timeout, &state)? else {
            return Ok(None);
        };
        let CollectedRollout { rank, rollout, version, took } = collected;
        let mut stats = RolloutStats::default();
        let experience = self.trackers[rank].take(rollout, &mut stats);
        let staleness = self.version.saturating_sub(version);
        Ok(Some(RolloutReport { experience, stats, rollout_state: None, staleness, took }))
    }
}
