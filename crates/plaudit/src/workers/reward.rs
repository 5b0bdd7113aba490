//! The worker of a reward model.

use std::sync::atomic::Ordering;

use plaudit_cluster::Component;
use plaudit_cluster::worker::{RewardWorker, ServedModel};

use super::{WorkerContext, stopped};
use crate::build;
use crate::failure::Failure;
use crate::run::interrupted;

/// Frames that go through the model at once, at most.
const MAX_FRAMES: usize = 256;
/// Questions that go through it at once, at most: the model makes batches of its own.
const MAX_QUESTIONS: usize = 64;

/// Scores frames for everybody, or answers questions about windows.
pub(super) fn work(context: &WorkerContext<'_>) -> Result<(), Failure> {
    let served = build::served_reward(&context.loaded)?;
    let (model, max_batch) = match &served {
        build::ServedReward::Frames(frames) => (ServedModel::Frames(frames), MAX_FRAMES),
        build::ServedReward::Judge(judge) => (ServedModel::Questions(judge), MAX_QUESTIONS),
    };
    let mut clients = context.peers(Component::Env);
    clients.extend(context.peers(Component::Actor));
    let worker = RewardWorker {
        endpoint: context.endpoint.clone(),
        clients,
        model,
        max_batch,
        should_stop: &interrupted,
        on_batch: Box::new(|requests, _| {
            context.status.done.fetch_add(requests as u64, Ordering::Relaxed);
        }),
    };
    let outcome = worker.run();
    context.status.stop();
    outcome.or_else(stopped)
}
