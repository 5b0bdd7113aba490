//! The worker of some environments.

use std::sync::Arc;

use plaudit_cluster::Component;
use plaudit_cluster::worker::{
    EnvWorker, LocalPolicy, PolicySource, RemotePolicy, RemotePolicySettings, ScoreClient,
};
use plaudit_core::{EnvSpec, Reward, Seed};

use super::{WorkerContext, WorkerModels, status, stopped, teleop};
use crate::build::{self, EnvBlock};
use crate::console;
use crate::failure::Failure;
use crate::robot::ask_in;
use crate::run::interrupted;

/// Plays what the actor asks for.
pub(super) fn work(context: &WorkerContext<'_>) -> Result<(), Failure> {
    // A process of dora has no terminal.
    ask_in(&status::folder(context.plan, context.process));
    if !context.plan.learns() {
        return teleop::work(context);
    }
    let loaded = &context.loaded;
    let (first, end) = context.process.envs;
    let mut env = build::env_rows(loaded, EnvBlock::Train, first..end)?;
    let models = models(context)?;
    let build::BuiltReward { reward, notices, .. } = build::reward_from(loaded, env.spec(), &models)?;
    console::notices(&notices, context.verbosity);
    let uses_images = build::policy_uses_images(loaded);
    env.set_frames_needed(build::frames_needed(loaded, EnvBlock::Train, reward.as_ref(), uses_images));
    let mut policy = WorkerPolicy::build(context, env.spec())?;
    let actors = context.peers(Component::Actor);
    let Some(actor) = actors.first() else {
        return Err(Failure::usage("nobody learns from these environments: the plan has no actor", None));
    };
    let worker = EnvWorker {
        endpoint: context.endpoint.clone(),
        actor: actor.clone(),
        env: env.as_mut(),
        reward: &CountedReward { reward: reward.as_ref(), context },
        policy: policy.source(),
        seed: Seed::new(loaded.config.env.train.seed).purpose("train"),
        first_row: first as u64,
        should_stop: &interrupted,
    };
    let outcome = worker.run();
    if outcome.is_ok() {
        // Whoever comes after a process that failed needs them still.
        policy.finish();
        if let WorkerModels::Worker(client) = &models {
            client.finish();
        }
    }
    context.status.stop();
    outcome.map(drop).or_else(stopped)
}

/// What chooses the actions: networks of this process, or a rollout worker.
enum WorkerPolicy {
    Here(LocalPolicy),
    Elsewhere(Box<RemotePolicy>),
}

impl WorkerPolicy {
    fn build(context: &WorkerContext<'_>, spec: &EnvSpec) -> Result<Self, Failure> {
        let loaded = &context.loaded;
        let Some(rollout) = context.peers(Component::Rollout).first().cloned() else {
            return Ok(Self::Here(LocalPolicy::new(build::explorer_networks(loaded, spec)?)));
        };
        let settings = RemotePolicySettings {
            rollout,
            spec: spec.clone(),
            cameras: build::policy_cameras(loaded, spec)?,
            give_up_after: context.give_up_after(),
            should_stop: Box::new(interrupted),
        };
        Ok(Self::Elsewhere(Box::new(RemotePolicy::new(context.endpoint.clone(), settings))))
    }

    fn source(&mut self) -> &mut dyn PolicySource {
        match self {
            Self::Here(policy) => policy,
            Self::Elsewhere(policy) => policy.as_mut(),
        }
    }

    fn finish(&self) {
        match self {
            Self::Here(_) => {}
            Self::Elsewhere(policy) => policy.finish(),
        }
    }
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
