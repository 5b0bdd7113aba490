//! The worker of some environments.

use std::sync::Arc;

use plaudit_cluster::Component;
use plaudit_cluster::worker::{EnvWorker, LocalPolicy, ScoreClient};
use plaudit_core::{Reward, Seed};

use super::{WorkerContext, WorkerModels, stopped};
use crate::build::{self, EnvBlock};
use crate::console;
use crate::failure::Failure;
use crate::run::interrupted;

/// Plays what the actor asks for.
pub(super) fn work(context: &WorkerContext<'_>) -> Result<(), Failure> {
    let loaded = &context.loaded;
    let (first, end) = context.process.envs;
    let mut env = build::env_rows(loaded, EnvBlock::Train, first..end)?;
    let models = models(context)?;
    let build::BuiltReward { reward, notices, .. } = build::reward_from(loaded, env.spec(), &models)?;
    console::notices(&notices, context.verbosity);
    let uses_images = build::policy_uses_images(loaded);
    env.set_frames_needed(build::frames_needed(loaded, EnvBlock::Train, reward.as_ref(), uses_images));
    let networks = build::explorer_networks(loaded, env.spec())?;
    let actors = context.peers(Component::Actor);
    let Some(actor) = actors.first() else {
        return Err(Failure::usage("nobody learns from these environments: the plan has no actor", None));
    };
    let worker = EnvWorker {
        endpoint: context.endpoint.clone(),
        actor: actor.clone(),
        env: env.as_mut(),
        reward: &CountedReward { reward: reward.as_ref(), context },
        policy: &mut LocalPolicy::new(networks),
        seed: Seed::new(loaded.config.env.train.seed).purpose("train"),
        first_row: first as u64,
        should_stop: &interrupted,
    };
    let outcome = worker.run();
    if let WorkerModels::Worker(client) = &models {
        client.finish();
    }
    context.status.stop();
    outcome.map(drop).or_else(stopped)
}

/// Where the main model is: in a reward worker, where the plan has one.
pub(super) fn models(context: &WorkerContext<'_>) -> Result<WorkerModels, Failure> {
    let workers = context.peers(Component::Reward);
    if workers.is_empty() || !context.loaded.config.reward.use_reward_model {
        return Ok(WorkerModels::Here);
    }
    let (endpoint, give_up_after) = (context.endpoint.clone(), context.give_up_after());
    let client = ScoreClient::connect(endpoint, workers, give_up_after, &interrupted);
    Ok(WorkerModels::Worker(Arc::new(client.map_err(|error| Failure::caused_by(&error))?)))
}

/// Counts segments as they are labelled.
struct CountedReward<'a> {
    reward: &'a dyn Reward,
    context: &'a WorkerContext<'a>,
}

impl Reward for CountedReward<'_> {
    fn label(
        &self,
        segment: &plaudit_core::Segment,
    ) -> Result<plaudit_core::RewardColumn, plaudit_core::RewardError> {
        let labelled = self.reward.label(segment);
        self.context.status.done.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        labelled
    }

    fn context(&self) -> usize {
        self.reward.context()
    }

    fn frames_needed(&self) -> plaudit_core::FramesNeeded {
        self.reward.frames_needed()
    }

    fn version(&self) -> u64 {
        self.reward.version()
    }

    fn refresh(&self) -> Result<bool, plaudit_core::RewardError> {
        self.reward.refresh()
    }
}
