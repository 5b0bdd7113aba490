//! The worker of a reward model.

use std::sync::atomic::Ordering;

use plaudit_cluster::Component;
use plaudit_cluster::worker::RewardWorker;

use super::{WorkerContext, stopped};
use crate::build;
use crate::failure::Failure;
use crate::run::interrupted;

/// Frames that go through the model at once, at most.
const MAX_BATCH: usize = 256;

/// Scores frames for everybody.
pub(super) fn work(context: &WorkerContext<'_>) -> Result<(), Failure> {
    let scorer = build::served_frames(&context.loaded)?;
    let mut clients = context.peers(Component::Env);
    clients.extend(context.peers(Component::Actor));
    let worker = RewardWorker {
        endpoint: context.endpoint.clone(),
        clients,
        scorer: &scorer,
        max_batch: MAX_BATCH,
        should_stop: &interrupted,
        on_batch: Box::new(|requests, _| {
            context.status.done.fetch_add(requests as u64, Ordering::Relaxed);
        }),
    };
    let outcome = worker.run();
    context.status.stop();
    outcome.or_else(stopped)
}
