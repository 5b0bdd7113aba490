//! Actions that a process of its own chooses: bit for bit what environments would have chosen in theirs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use plaudit_cluster::link::Endpoint;
use plaudit_cluster::worker::{
    LocalPolicy, NetworksOf, PolicySource, RemotePolicy, RemotePolicySettings, RolloutWorker, WorkerError,
};
use plaudit_core::{Decision, EnvSpec, Obs, Policy, PolicyError, Seed};
use plaudit_rl::{ExplorerNetworks, ExplorerParams};

use super::lossy::Loss;
use super::setup::{Fates, Task};

/// What a rollout worker did.
#[derive(Default)]
pub(crate) struct Served {
    pub(crate) requests: AtomicUsize,
    pub(crate) batches: AtomicUsize,
}

/// A rollout worker in as many processes as it takes: each dies after so many passes, but for the last.
pub(crate) fn serve_rollouts(
    connect: &dyn Fn() -> Endpoint,
    clients: &[Arc<str>],
    networks: &dyn Fn() -> ExplorerNetworks,
    lives: &[u64],
    (served, done): (&Served, &AtomicBool),
) {
    for life in lives.iter().copied().map(Some).chain(std::iter::repeat(None)) {
        let left = AtomicU64::new(life.unwrap_or(u64::MAX));
        let should_stop = || done.load(Ordering::Relaxed) || left.load(Ordering::Relaxed) == 0;
        let networks: Box<NetworksOf<'_>> = Box::new(|spec: &EnvSpec| {
            assert_eq!(spec.state_width, 2);
            Ok(networks())
        });
        let worker = RolloutWorker {
            endpoint: connect(),
            clients: clients.to_vec(),
            networks,
            should_stop: &should_stop,
            on_batch: Box::new(|requests, _| {
                left.fetch_sub(1, Ordering::Relaxed);
                served.requests.fetch_add(requests, Ordering::Relaxed);
                served.batches.fetch_add(1, Ordering::Relaxed);
            }),
        };
        match worker.run() {
            Ok(()) => return,
            Err(WorkerError::Stopped) if done.load(Ordering::Relaxed) => return,
            Err(WorkerError::Stopped) => {}
            Err(error) => panic!("rollout: {error}"),
        }
    }
}

pub(crate) fn remote_policy(
    endpoint: Endpoint,
    rollout: &str,
    spec: EnvSpec,
    should_stop: impl Fn() -> bool + Send + 'static,
) -> RemotePolicy {
    let settings = RemotePolicySettings {
        rollout: rollout.into(),
        spec,
        cameras: Vec::new(),
        give_up_after: Duration::from_secs(20),
        should_stop: Box::new(should_stop),
    };
    RemotePolicy::new(endpoint, settings)
}

/// Asks a policy here and one elsewhere, and compares.
pub(crate) struct Compared {
    pub(crate) local: LocalPolicy,
    pub(crate) remote: RemotePolicy,
    pub(crate) version: Option<(u64, ExplorerParams)>,
}

impl PolicySource for Compared {
    fn policy(
        &mut self,
        version: u64,
        params: Option<&ExplorerParams>,
    ) -> Result<Option<&mut dyn Policy>, String> {
        let is_here = self.local.policy(version, params)?.is_some();
        let is_there = self.remote.policy(version, params)?.is_some();
        assert_eq!(is_here, is_there);
        if let Some(params) = params {
            self.version = Some((version, params.clone()));
        }
        Ok(if is_here { Some(self) } else { None })
    }
}

impl Policy for Compared {
    fn act(&mut self, obs: &Obs, seed: Seed) -> Result<Decision, PolicyError> {
        let version = self.version.as_ref().map_or(0, |(version, _)| *version);
        let there = self.remote.act(obs, seed)?;
        let here = self.local.policy(version, None).unwrap().unwrap().act(obs, seed)?;
        let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&here.actions), bits(&there.actions));
        assert_eq!(bits(&here.log_probs), bits(&there.log_probs));
        assert_eq!(bits(&here.values), bits(&there.values));
        Ok(there)
    }
}

#[test]
fn actions_chosen_elsewhere_are_those_chosen_here() {
    let trained =
        super::check(Task::choices(4), &[2, 3, 1], Loss::NONE, Fates { rollouts: 1, ..Fates::default() });
    assert!(
        trained.rollout_batches < trained.rollout_requests,
        "rows of neighbours were chosen for together"
    );
    super::check(Task::numbers(3), &[1, 2, 1, 2], Loss::NONE, Fates { rollouts: 2, ..Fates::default() });
}

#[test]
fn killed_rollouts_are_sent_the_policy_again() {
    let loss = Loss { dropped: 0.05, repeated: 0.05, delayed: 0.05, seed: 5 };
    let rollout_lives = vec![vec![9, 1, 40], vec![25]];
    let fates = Fates { rollouts: 2, rollout_lives, ..Fates::default() };
    super::check(Task::numbers(3), &[2, 2, 2], loss, fates);
}

#[test]
fn rollouts_environments_and_learner_may_all_be_killed() {
    let fates = Fates {
        rollouts: 1,
        rollout_lives: vec![vec![30, 50]],
        env_lives: vec![vec![50, 70], vec![90]],
        actor_lives: vec![Duration::from_millis(600)],
    };
    super::check(Task::choices(4).slow(), &[2, 4], Loss::NONE, fates);
}
