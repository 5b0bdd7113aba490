//! The worker that learns: `plaudit train`, with its environments elsewhere.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use plaudit_cluster::Component;
use plaudit_cluster::link::Endpoint;
use plaudit_cluster::worker::{
    ActorSettings, AsyncEnvironments, EnvPeer, LedgerLine, RemoteEnvironments, RolloutCallback, finish_envs,
    wait_for_envs,
};
use plaudit_core::{EnvSpec, Reward};
use plaudit_rl::{RemoteEnvs, RolloutState};
use plaudit_view::RunDir;
use serde_json::json;

use super::ledger_file::LedgerFile;
use super::outcome::OutcomeFile;
use super::status::Status;
use super::{WorkerContext, WorkerModels, load};
use crate::checkpoint;
use crate::commands::train;
use crate::config::blocks::collection::Collection;
use crate::failure::Failure;
use crate::run::{interrupted, notify_soon};

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
    ledger: LedgerFile,
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
        on_rollout: Option<RolloutCallback>,
    ) -> Result<RemoteEnvironments, Failure> {
        let settings = self.settings(keep_frames, vec![next_segment; self.peers.len()], on_rollout)?;
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
        on_rollout: Option<RolloutCallback>,
    ) -> Result<AsyncEnvironments, Failure> {
        let lines = self.ledger.lines();
        let lines =
            lines.map_err(|error| Failure::runtime(format!("cannot read the ledger: {error}"), None))?;
        let next = states.iter().enumerate().map(|(rank, (_, state))| {
            next_segment(&lines, rank, state.as_ref().map_or(0, |state| state.steps))
        });
        let settings = self.settings(keep_frames, next.collect(), on_rollout)?;
        AsyncEnvironments::new(self.endpoint.clone(), self.peers.clone(), settings)
            .map_err(|error| Failure::caused_by(&error))
    }

    fn settings(
        &self,
        keep_frames: bool,
        next_segment: Vec<u64>,
        on_rollout: Option<RolloutCallback>,
    ) -> Result<ActorSettings, Failure> {
        let cannot = |error| Failure::runtime(format!("cannot write the ledger: {error}"), None);
        let mut file = self.ledger.open().map_err(cannot)?;
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
            on_rollout,
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
    let outcome_file = OutcomeFile::keep_room(context.plan, context.process);
    let found = wait_for_envs(&context.endpoint, &names, context.give_up_after(), &interrupted);
    let (spec, reward_context, peers) = found.map_err(|error| Failure::caused_by(&error))?;
    let models = super::env::models(&context)?;
    let trained = learn(&context, (spec, reward_context, peers), models.clone());
    // A link that was stopped under way is no end of the run: whoever stopped it knows what comes next.
    let outcome = if context.endpoint.is_stopped() { None } else { outcome(&trained) };
    if let Some(outcome) = &outcome {
        outcome_file.write(outcome)?;
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

fn learn(
    context: &WorkerContext<'_>,
    (spec, reward_context, peers): (EnvSpec, usize, Vec<EnvPeer>),
    models: WorkerModels,
) -> Result<(), Failure> {
    let run_dir = &context.plan.run_dir;
    let resume = format!("runner.resume_dir={}", run_dir.display());
    let started_from = context.loaded.config.runner.resume_dir.as_ref().map(PathBuf::from);
    if RunDir::open(run_dir).is_err() {
        // The driver made it on its own machine.
        let made = RunDir::at(run_dir).map(drop);
        made.map_err(|error| Failure::runtime(error, None))?;
    }
    let mut loaded = load(&run_dir.join(&context.plan.config), &[resume])?;
    record_in(run_dir, &mut loaded.config.env.train.data_collection);
    let remote = RemoteActor {
        endpoint: context.endpoint.clone(),
        spec,
        context: reward_context,
        peers,
        models,
        give_up_after: context.give_up_after(),
        ledger: LedgerFile::in_run(run_dir),
        status: context.status.clone(),
        from: started_from.filter(|path| checkpoint::step_of(path).is_some()),
    };
    train::train_elsewhere(&loaded, Arc::new(remote), context.verbosity)
}

/// Episodes that are recorded lie in the run directory, unless their folder is named with its whole path: a process that dora
/// starts is in no folder that anybody chose.
fn record_in(run_dir: &Path, collection: &mut Collection) {
    for folder in [&mut collection.save_dir, &mut collection.positive_dir, &mut collection.negative_dir] {
        if let Some(folder) = folder.as_mut().filter(|folder| Path::new(folder).is_relative()) {
            *folder = run_dir.join(&*folder).display().to_string();
        }
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
