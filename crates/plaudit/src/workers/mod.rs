//! One process of a cluster's plan: an actor, some environments, a policy, or a reward model, and its links to the others.

mod actor;
mod connect;
mod env;
mod judge;
mod ledger_file;
mod outcome;
mod own_robot;
mod reward;
mod rollout;
mod score;
mod status;
mod teleop;

pub(crate) use actor::RemoteActor;
pub use judge::ServedJudge;
pub(crate) use judge::WorkerJudge;
pub(crate) use ledger_file::LedgerFile;
pub(crate) use score::WorkerModel;
pub use score::{ServedFrames, WorkerModels};

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use plaudit_cluster::link::Endpoint;
use plaudit_cluster::worker::WorkerError;
use plaudit_cluster::{Component, Plan, Process};
use serde_json::json;

use crate::cli::{ConfigArgs, Verbosity};
use crate::config::{self, LoadedConfig};
use crate::failure::Failure;
use crate::load::RequestedConfig;
use crate::run::{interrupted, listen_for_interrupts};

/// The version that every process of a run must have.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Be one process of a plan; dora starts it
#[derive(Debug, Args)]
#[command(after_help = "Example:
  plaudit cluster worker --plan logs/my_run/plan.json --component env --rank 0")]
pub struct WorkerCommand {
    /// The plan that the process belongs to
    #[arg(long, value_name = "FILE")]
    plan: PathBuf,
    /// What it does: actor, env, rollout or reward
    #[arg(long, value_name = "COMPONENT", value_parser = component)]
    component: Component,
    /// Its rank among the processes that do the same
    #[arg(long, value_name = "RANK")]
    rank: usize,
}

fn component(name: &str) -> Result<Component, String> {
    let found = Component::ALL.into_iter().find(|component| component.name() == name);
    found.ok_or_else(|| format!("there is no component `{name}`"))
}

impl WorkerCommand {
    /// Works until the run is over.
    pub fn run(self, verbosity: Verbosity) -> Result<(), Failure> {
        let plan = Plan::read(&self.plan, VERSION).map_err(|error| Failure::caused_by(&error))?;
        let Some(process) = plan.process(self.component, self.rank) else {
            let name = self.component.name();
            let message = format!("{} plans no {name} of rank {}", self.plan.display(), self.rank);
            return Err(Failure::usage(message, None));
        };
        listen_for_interrupts();
        if plan.directory.is_dir() {
            let moved = std::env::set_current_dir(&plan.directory);
            moved.map_err(|error| {
                Failure::runtime(format!("cannot go to {}: {error}", plan.directory.display()), None)
            })?;
        }
        let worked = WorkerContext::start(&plan, process, verbosity).and_then(|context| self.work(context));
        if let Err(failure @ (Failure::Config(_) | Failure::Usage { .. })) = &worked {
            // Another start would fail the same way: the run ends, and says what must be changed.
            let outcome = json!({"outcome": "stopped", "reason": failure.to_string()});
            outcome::OutcomeFile::keep_room(&plan, process).write(&outcome)?;
        }
        worked
    }

    fn work(&self, context: WorkerContext<'_>) -> Result<(), Failure> {
        match self.component {
            Component::Actor => actor::work(context),
            Component::Env => env::work(&context),
            Component::Reward => reward::work(&context),
            Component::Rollout => rollout::work(&context),
        }
    }
}

/// What every worker begins with.
pub(crate) struct WorkerContext<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) process: &'a Process,
    pub(crate) loaded: LoadedConfig,
    pub(crate) endpoint: Endpoint,
    pub(crate) status: Arc<status::Status>,
    pub(crate) verbosity: Verbosity,
}

impl<'a> WorkerContext<'a> {
    fn start(plan: &'a Plan, process: &'a Process, verbosity: Verbosity) -> Result<Self, Failure> {
        let mut loaded = load(&plan.run_dir.join(&plan.config), &[])?;
        own_robot::adopt(&mut loaded, process);
        let endpoint = connect::endpoint(plan, process)?;
        let status = status::Status::start(plan, process, endpoint.clone())?;
        Ok(Self { plan, process, loaded, endpoint, status, verbosity })
    }

    /// The processes of a component that this one is linked with.
    pub(crate) fn peers(&self, component: Component) -> Vec<Arc<str>> {
        let is_one = |name: &str| {
            let found = self.plan.processes.iter().find(|process| process.id == name);
            found.is_some_and(|process| process.components.first() == Some(&component))
        };
        let peers = self.plan.outputs(&self.process.id).map(|edge| edge.to.as_str());
        peers.filter(|peer| is_one(peer)).map(Arc::from).collect()
    }

    pub(crate) fn give_up_after(&self) -> Duration {
        Duration::from_secs_f64(self.plan.link.give_up_secs)
    }
}

/// The resolved config of a run, with overrides.
fn load(path: &Path, overrides: &[String]) -> Result<LoadedConfig, Failure> {
    let mut words = vec![path.display().to_string()];
    words.extend_from_slice(overrides);
    let asked = RequestedConfig::from_args(&ConfigArgs { words, ..ConfigArgs::default() })?;
    Ok(config::load(&asked.disk, &asked.request)?)
}

/// A worker that stopped: by itself, or because somebody asked.
fn stopped(error: WorkerError) -> Result<(), Failure> {
    match error {
        WorkerError::Stopped if interrupted() => Ok(()),
        error => Err(Failure::caused_by(&error)),
    }
}
