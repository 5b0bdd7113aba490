//! Synchronous and asynchronous training: acting and learning alternate, or run in parallel.

use std::sync::{Arc, Mutex};

use plaudit_cluster::worker::RolloutCallback;
use plaudit_core::{Level, Obs, Reward, Seed};
use plaudit_rl::{
    AsyncPlan, AsyncTraining, Learner, Metrics, OnLabelled, RolloutState, StepCallback, TakenStep, Training,
    TrainingError, TrainingPlan,
};

use super::{TrainEnvs, notify};
use crate::episode_recorder::EpisodeRecorder;
use crate::failure::Failure;
use crate::hints;
use crate::run::{Run, interrupted, notify_soon};

/// Whether acting and learning alternate or run in parallel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrainMode {
    /// A rollout, then learning, then a rollout.
    Sync(TrainingPlan),
    /// Environments on a thread of their own, which never wait.
    Async(AsyncPlan),
}

/// Why a step of learning failed.
pub(super) enum StepError {
    /// The reward of a rollout failed, or environments elsewhere: the learner is as the step before left it.
    RewardFailed(Failure),
    /// Anything else.
    Other(Failure),
}

/// Running environments, and the recorder of their episodes.
pub(super) enum ActiveTraining<'a> {
    Sync { training: Box<Training<'a>>, episode_recorder: Option<Box<EpisodeRecorder>> },
    SyncElsewhere { training: Box<Training<'a>>, episode_recorder: Option<SharedEpisodeRecorder> },
    Async { training: Box<AsyncTraining>, episode_recorder: Option<SharedEpisodeRecorder> },
}

/// The recorder of episodes, which works on the environments' thread and is closed on this one.
pub(super) type SharedEpisodeRecorder = Arc<Mutex<EpisodeRecorder>>;

/// What a rollout needs: environments, reward, seed, callbacks.
pub(super) struct RolloutSetup<'a> {
    pub(super) envs: &'a mut TrainEnvs,
    pub(super) reward: &'a Arc<dyn Reward>,
    pub(super) seed: Seed,
    /// The rollout states of an earlier run: one, or one of each process.
    pub(super) resume_states: Vec<RolloutState>,
    pub(super) episode_recorder: Option<EpisodeRecorder>,
    /// Callback for labelled segments.
    pub(super) on_labelled: Option<OnLabelled<'static>>,
    /// What environments elsewhere must know.
    pub(super) remote: RemoteSetup,
}

/// What environments elsewhere must know.
#[derive(Debug, Clone, Copy)]
pub(super) struct RemoteSetup {
    /// Whether anything needs the frames of a rollout.
    pub(super) keep_frames: bool,
    /// Steps of learning done.
    pub(super) step: u64,
}

impl<'a> ActiveTraining<'a> {
    pub(super) fn start(
        mode: TrainMode,
        setup: RolloutSetup<'a>,
        learner: &dyn Learner,
        run: &mut Run,
    ) -> Result<Self, Failure> {
        let RolloutSetup { envs, reward, seed, resume_states, episode_recorder, on_labelled, remote } = setup;
        let several = resume_states.len() > 1;
        if several && !matches!((mode, &*envs), (TrainMode::Async(_), TrainEnvs::Elsewhere(_))) {
            let text = "the saved environments were at paces of their own: they start anew";
            notify(run, Level::Warning, text);
        }
        let resume_state = if several { None } else { resume_states.first().cloned() };
        match (mode, envs) {
            (TrainMode::Sync(plan), TrainEnvs::Elsewhere(actor)) => {
                let next_segment = remote.step * plan.rollouts as u64;
                let episode_recorder = episode_recorder.map(shared);
                let on_rollout = episode_recorder.clone().map(on_rollout);
                let environments =
                    actor.environments(reward, remote.keep_frames, next_segment, on_rollout)?;
                let mut training =
                    Training::start_remote(Box::new(environments), actor.envs(), plan, resume_state);
                if let Some(on_labelled) = on_labelled {
                    training.on_labelled(on_labelled);
                }
                Ok(Self::SyncElsewhere { training: Box::new(training), episode_recorder })
            }
            (TrainMode::Sync(plan), TrainEnvs::Here(env)) => {
                let Some(env) = env.as_deref_mut() else { return Err(envs_in_use()) };
                let resumed = resume_state.is_some();
                let started = Training::start(env, reward.as_ref(), plan, seed, resume_state);
                let (mut training, went_back) = started.map_err(|error| Failure::caused_by(&error))?;
                if resumed && !went_back {
                    let text = "these environments cannot be restored to their saved state: they start anew";
                    notify(run, Level::Warning, text);
                }
                if let Some(on_labelled) = on_labelled {
                    training.on_labelled(on_labelled);
                }
                let mut episode_recorder = episode_recorder.map(Box::new);
                if let (Some(episode_recorder), Some(obs)) = (&mut episode_recorder, training.obs()) {
                    episode_recorder.reset(obs);
                }
                Ok(Self::Sync { training: Box::new(training), episode_recorder })
            }
            (TrainMode::Async(plan), TrainEnvs::Elsewhere(actor)) => {
                let states = actor.states_of_processes(resume_states);
                let episode_recorder = episode_recorder.map(shared);
                let on_rollout = episode_recorder.clone().map(on_rollout);
                let collector = actor.async_environments(remote.keep_frames, &states, on_rollout)?;
                let started =
                    AsyncTraining::start_remote(Box::new(collector), states, reward.clone(), plan, learner);
                let mut training = started.map_err(|error| Failure::caused_by(&error))?;
                if let Some(on_labelled) = on_labelled {
                    training.on_labelled(on_labelled);
                }
                Ok(Self::Async { training: Box::new(training), episode_recorder })
            }
            (TrainMode::Async(plan), TrainEnvs::Here(env)) => {
                let Some(env) = env.take() else { return Err(envs_in_use()) };
                let episode_recorder = episode_recorder.map(shared);
                let callback = Box::new(RunCallback { episode_recorder: episode_recorder.clone() });
                let mut training =
                    AsyncTraining::start(env, reward.clone(), plan, seed, resume_state, learner, callback);
                if let Some(on_labelled) = on_labelled {
                    training.on_labelled(on_labelled);
                }
                Ok(Self::Async { training: Box::new(training), episode_recorder })
            }
        }
    }

    /// One step of learning; nothing if the user asked to stop before there was anything to learn from.
    pub(super) fn learn(
        &mut self,
        learner: &mut dyn Learner,
        step: u64,
    ) -> Result<Option<Metrics>, StepError> {
        let learned = match self {
            Self::Sync { training, episode_recorder } => {
                let record_step = |taken: &TakenStep| {
                    episode_recorder
                        .as_mut()
                        .map_or(Ok(()), |episode_recorder| record_step(episode_recorder, taken))
                };
                training.step(learner, record_step).map(Some)
            }
            Self::SyncElsewhere { training, .. } => {
                training.step(learner, |_: &TakenStep| Ok::<(), TrainingError>(())).map(Some)
            }
            Self::Async { training, .. } => training.step(learner, interrupted),
        };
        learned.map_err(|error| match error {
            TrainingError::Callback(error) => StepError::Other(match error.downcast::<Failure>() {
                Ok(failure) => *failure,
                Err(error) => Failure::runtime(error, None),
            }),
            error => {
                let failure = Failure::runtime(format!("step {step}: {error}"), hints::about(&error));
                match error {
                    TrainingError::Reward(_) | TrainingError::Remote(_) => StepError::RewardFailed(failure),
                    _ => StepError::Other(failure),
                }
            }
        })
    }

    /// The rollout state, as far as is known: in asynchronous training, that of the last rollout that arrived.
    pub(super) fn rollout_states(&self) -> Vec<RolloutState> {
        match self {
            Self::Sync { training, .. } | Self::SyncElsewhere { training, .. } => {
                vec![training.rollout_state()]
            }
            Self::Async { training, .. } => training.rollout_states(),
        }
    }

    /// Stops the environments, and gives back the recorder of their episodes.
    pub(super) fn stop(self) -> Option<EpisodeRecorder> {
        match self {
            Self::Sync { episode_recorder, .. } => episode_recorder.map(|episode_recorder| *episode_recorder),
            Self::SyncElsewhere { training, episode_recorder } => {
                drop(training); // whose callback holds the other half of the recorder
                Arc::into_inner(episode_recorder?)?.into_inner().ok()
            }
            Self::Async { training, episode_recorder } => {
                drop(training); // waits for the thread, which holds the other half of the recorder
                Arc::into_inner(episode_recorder?)?.into_inner().ok()
            }
        }
    }
}

pub(super) fn envs_in_use() -> Failure {
    Failure::runtime("the environments are in use already", None)
}

fn shared(episode_recorder: EpisodeRecorder) -> SharedEpisodeRecorder {
    Arc::new(Mutex::new(episode_recorder))
}

/// Records the episodes of other processes as their rollouts are counted.
fn on_rollout(episode_recorder: SharedEpisodeRecorder) -> RolloutCallback {
    Box::new(move |rollout| match episode_recorder.lock() {
        Ok(mut episode_recorder) => episode_recorder.rollout(&rollout).map_err(|failure| failure.to_string()),
        Err(_) => Ok(()), // another thread panicked, and ends the run
    })
}

fn record_step(episode_recorder: &mut EpisodeRecorder, taken: &TakenStep) -> Result<(), TrainingError> {
    episode_recorder.step(taken, u64::MAX).map_err(|failure| TrainingError::Callback(Box::new(failure)))
}

/// Records episodes on the environments' thread, and tells what a robot waits for.
struct RunCallback {
    episode_recorder: Option<SharedEpisodeRecorder>,
}

impl StepCallback for RunCallback {
    fn begin(&mut self, obs: &Obs) {
        if let Some(Ok(mut episode_recorder)) = self.episode_recorder.as_ref().map(|shared| shared.lock()) {
            episode_recorder.reset(obs);
        }
    }

    fn step(&mut self, taken: &TakenStep) -> Result<(), TrainingError> {
        match self.episode_recorder.as_ref().map(|shared| shared.lock()) {
            Some(Ok(mut episode_recorder)) => record_step(&mut episode_recorder, taken),
            _ => Ok(()),
        }
    }

    fn on_reward_trouble(&self) -> Box<dyn Fn(&str) + Send> {
        Box::new(|why| notify_soon(&format!("{why}; the episode waits for its reward, and learning goes on")))
    }
}
