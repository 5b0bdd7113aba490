//! The worker of a policy that acts in environments of other processes.

use std::sync::atomic::Ordering;

use plaudit_cluster::Component;
use plaudit_cluster::worker::RolloutWorker;

use super::{WorkerContext, stopped};
use crate::build;
use crate::failure::Failure;
use crate::run::interrupted;

/// Chooses actions for some environments' processes.
pub(super) fn work(context: &WorkerContext<'_>) -> Result<(), Failure> {
    let worker = RolloutWorker {
        endpoint: context.endpoint.clone(),
        clients: context.peers(Component::Env),
        networks: Box::new(|spec| {
            build::explorer_networks(&context.loaded, spec).map_err(|error| error.to_string())
        }),
        should_stop: &interrupted,
        on_batch: Box::new(|requests, version| {
            context.status.version.store(version, Ordering::Relaxed);
            context.status.done.fetch_add(requests as u64, Ordering::Relaxed);
        }),
    };
    let outcome = worker.run();
    context.status.stop();
    outcome.or_else(stopped)
}
