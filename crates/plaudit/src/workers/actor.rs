//! The worker that learns: `plaudit train`, with its environments elsewhere.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use plaudit_cluster::Component;
use plaudit_cluster::link::Endpoint;
use plaudit_cluster::worker::{
    ActorSettings, AsyncEnvironments, EnvPeer, LedgerLine, RemoteEnvironments, finish_envs, wait_for_envs,
};
use plaudit_core::{EnvSpec, Reward};
use plaudit_rl::{RemoteEnvs, RolloutState};
use plaudit_view::{RunDir, write_atomically};
use serde_json::json;

use super::status::{self, Status};
use super::{WorkerContext, WorkerModels, load};
use crate::checkpoint;
use crate::commands::train;
use crate::failure::Failure;
use crate::run::{interrupted, notify_soon};

/// The ledger's file in the run directory.
const LEDGER: &str = "ledger.jsonl";

/// Environments elsewhere, as the training command needs them.
pub(crate) struct RemoteActor {
    endpoint: Endpoint,
    /// What they are like, all together.
    pub(crate) spec: EnvSpec,
    context: usize,
    peers: Vec<EnvPeer>,
    /// Where the reward's model is.
    pub(crate) models: WorkerModels,
    give_up_after: Duration,
    ledger: PathBuf,
    status: Arc<Status>,
    /// A checkpoint of another run to start from.
    pub(crate) from: Option<PathBuf>,
}

impl RemoteActor {
    /// What the training loop must know of them.
    pub(crate) fn envs(&self) -> RemoteEnvs {
        let (num_envs, action_width) = (self.spec.num_envs, self.spec.actions.width());
        RemoteEnvs { num_envs, action_width, context: self.context }
    }

    /// The environments in step, whose next segment is this one.
    pub(crate) fn environments(
        &self,
        reward: &Arc<dyn Reward>,
        keep_frames: bool,
        next_segment: u64,
    ) -> Result<RemoteEnvironments, Failure> {
        let settings = self.settings(keep_frames, vec![next_segment; self.peers.len()])?;
        let found = (&self.spec, self.context, self.peers.clone());
        RemoteEnvironments::new(self.endpoint.clone(), found, reward.clone(), settings)
            .map_err(|error| Failure::caused_by(&error))
    }

    /// What each process has, and where it was: from the states of all of them, or from one of all rows.
    pub(crate) fn states_of_processes(
        &self,
        states: Vec<RolloutState>,
    ) -> Vec<(RemoteEnvs, Option<RolloutState>)> {
        let fits = states.len() == self.peers.len()
            && states.iter().zip(&self.peers).all(|(state, peer)| state.past.len() == peer.rows.len());
        let of = |(rank, peer): (usize, &EnvPeer)| {
            let envs = RemoteEnvs { num_envs: peer.rows.len(), ..self.envs() };
            let state = match (fits, &states[..]) {
                (true, states) => states.get(rank).cloned(),
                (false, [all]) => Some(all.rows(peer.rows.clone())),
                (false, _) => None,
            };
            (envs, state)
        };
        self.peers.iter().enumerate().map(of).collect()
    }

    /// The environments at their own pace, where they were.
    pub(crate) fn async_environments(
        &self,
        keep_frames: bool,
        states: &[(RemoteEnvs, Option<RolloutState>)],
    ) -> Result<AsyncEnvironments, Failure> {
        let lines = self.ledger_lines()?;
        let next = states.iter().enumerate().map(|(rank, (_, state))| {
            next_segment(&lines, rank, state.as_ref().map_or(0, |state| state.steps))
        });
        let settings = self.settings(keep_frames, next.collect())?;
        AsyncEnvironments::new(self.endpoint.clone(), self.peers.clone(), settings)
            .map_err(|error| Failure::caused_by(&error))
    }

    /// What earlier processes of the actor recorded; a line that was cut off by a kill is none.
    fn ledger_lines(&self) -> Result<Vec<LedgerLine>, Failure> {
        match std::fs::read_to_string(&self.ledger) {
            Ok(text) => Ok(text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(Failure::runtime(format!("cannot read {LEDGER}: {error}"), None)),
        }
    }

    fn settings(&self, keep_frames: bool, next_segment: Vec<u64>) -> Result<ActorSettings, Failure> {
        let path = self.ledger.clone();
        let cannot =
            |error: std::io::Error| Failure::runtime(format!("cannot write {LEDGER}: {error}"), None);
        let mut file = OpenOptions::new().create(true).append(true).open(&path).map_err(cannot)?;
        let status = self.status.clone();
        let on_ledger = move |line: &LedgerLine| {
            if let LedgerLine::Segment { version, .. } = line {
                status.version.store(*version, Ordering::Relaxed);
                status.done.fetch_add(1, Ordering::Relaxed);
            }
            let line = serde_json::to_string(line).map_err(|error| error.to_string())?;
            file.write_all(format!("{line}\n").as_bytes()).map_err(|error| error.to_string())
        };
        Ok(ActorSettings {
            keep_frames,
            give_up_after: self.give_up_after,
            next_segment,
            on_notice: Box::new(notify_soon),
            on_ledger: Box::new(on_ledger),
            should_stop: Box::new(|| false), // the step is finished first
        })
    }
}

/// The segment of a worker that begins at this step of its rollout, by what was recorded of the ones before.
fn next_segment(lines: &[LedgerLine], rank: usize, at: u64) -> u64 {
    let ends_here = |line: &LedgerLine| match line {
        LedgerLine::Segment { rank: of, segment, start, steps, .. } if *of == rank && start + steps == at => {
            Some(segment + 1)
        }
        _ => None,
    };
    lines.iter().rev().find_map(ends_here).unwrap_or(0)
}

/// Learns until the run is over, and says how it ended.
pub(super) fn work(context: WorkerContext<'_>) -> Result<(), Failure> {
    let names = context.peers(Component::Env);
    if names.is_empty() {
        return Err(Failure::usage("there is nobody to learn from: the plan has no environments", None));
    }
    let found = wait_for_envs(&context.endpoint, &names, context.give_up_after(), &interrupted);
    let (spec, reward_context, peers) = found.map_err(|error| Failure::caused_by(&error))?;
    let models = super::env::models(&context)?;
    let run_dir = &context.plan.run_dir;
    let resume = format!("runner.resume_dir={}", run_dir.display());
    let started_from = context.loaded.config.runner.resume_dir.as_ref().map(PathBuf::from);
    if RunDir::open(run_dir).is_err() {
        // The driver made it on its own machine.
        let made = RunDir::at(run_dir).map(drop);
        made.map_err(|error| Failure::runtime(error, None))?;
    }
    let loaded = load(&run_dir.join(&context.plan.config), &[resume])?;
    let remote = RemoteActor {
        endpoint: context.endpoint.clone(),
        spec,
        context: reward_context,
        peers,
        models: models.clone(),
        give_up_after: context.give_up_after(),
        ledger: run_dir.join(LEDGER),
        status: context.status.clone(),
        from: started_from.filter(|path| checkpoint::step_of(path).is_some()),
    };
    let trained = train::train_elsewhere(&loaded, Arc::new(remote), context.verbosity);
    let outcome = outcome(&trained);
    if let Some(outcome) = &outcome {
        let path = status::folder(context.plan, context.process).join("outcome.json");
        let written = write_atomically(&path, outcome.to_string().as_bytes());
        written.map_err(|error| Failure::runtime(error, None))?;
        finish_envs(&context.endpoint, &names);
        if let WorkerModels::Worker(client) = &models {
            client.finish();
        }
    }
    context.status.stop();
    match outcome {
        Some(_) => Ok(()),
        None => trained,
    }
}

/// How the run ended, if it did. What another start may cure is no end.
fn outcome(trained: &Result<(), Failure>) -> Option<serde_json::Value> {
    match trained {
        Ok(()) => Some(json!({"outcome": "done"})),
        Err(Failure::Stopped) => Some(json!({"outcome": "stopped", "reason": "it was asked to stop"})),
        Err(
            error @ (Failure::Config(_)
            | Failure::Usage { .. }
            | Failure::Runtime { .. }
            | Failure::OtherRank { .. }),
        ) => Some(json!({"outcome": "stopped", "reason": error.to_string()})),
        Err(Failure::AuditNotPassed | Failure::FoundProblems) => None,
    }
}
