//! How acting and learning go together: by turns, or side by side.

use std::sync::{Arc, Mutex};

use plaudit_core::{Env, Level, Obs, Reward, Seed};
use plaudit_rl::{
    AsyncPlan, AsyncTraining, Learner, Metrics, Nobody, OnPaid, Onlooker, Taken, Training, TrainingError,
    TrainingPlan, Whereabouts,
};

use super::tell;
use crate::failure::Failure;
use crate::keeper::Keeper;
use crate::run::{Run, interrupted};

/// How acting and learning are to go together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plan {
    /// A rollout, then learning, then a rollout.
    Turns(TrainingPlan),
    /// Environments on a thread of their own, which never wait.
    SideBySide(AsyncPlan),
}

/// Why a step of learning came to nothing.
pub(super) enum Stumble {
    /// A rollout could not be paid: the learner is as the step before left it.
    Unpaid(Failure),
    /// Anything else.
    Elsewhere(Failure),
}

/// Environments and whoever keeps their episodes, under way.
pub(super) enum Pace<'a> {
    Turns { training: Box<Training<'a>>, keeper: Option<Box<Keeper>> },
    SideBySide { training: Box<AsyncTraining>, keeper: Option<SharedKeeper> },
}

/// The keeper of episodes, who works on the environments' thread and is closed on this one.
pub(super) type SharedKeeper = Arc<Mutex<Keeper>>;

/// Who acts, and by what it is paid.
pub(super) struct Scene<'a> {
    pub(super) env: &'a mut Option<Box<dyn Env>>,
    pub(super) reward: &'a Arc<dyn Reward>,
    pub(super) seed: Seed,
    /// Where an earlier run left the environments.
    pub(super) left: Option<Whereabouts>,
    pub(super) keeper: Option<Keeper>,
    /// Who hears what segments are paid.
    pub(super) on_paid: Option<OnPaid<'static>>,
}

impl<'a> Pace<'a> {
    pub(super) fn start(
        plan: Plan,
        scene: Scene<'a>,
        learner: &dyn Learner,
        run: &mut Run,
    ) -> Result<Self, Failure> {
        let Scene { env, reward, seed, left, keeper, on_paid } = scene;
        match plan {
            Plan::Turns(plan) => {
                let Some(env) = env.as_deref_mut() else { return Err(nobody_there()) };
                let resumed = left.is_some();
                let started = Training::start(env, reward.as_ref(), plan, seed, left);
                let (mut training, went_back) = started.map_err(|error| Failure::work(error, None))?;
                if resumed && !went_back {
                    let text = "these environments cannot go back to where they were: they start anew";
                    tell(run, Level::Warning, text);
                }
                if let Some(on_paid) = on_paid {
                    training.on_paid(on_paid);
                }
                let mut keeper = keeper.map(Box::new);
                if let Some(keeper) = &mut keeper {
                    keeper.reset(training.obs());
                }
                Ok(Self::Turns { training: Box::new(training), keeper })
            }
            Plan::SideBySide(plan) => {
                let Some(env) = env.take() else { return Err(nobody_there()) };
                let keeper = keeper.map(|keeper| Arc::new(Mutex::new(keeper)));
                let onlooker: Box<dyn Onlooker> = match &keeper {
                    Some(keeper) => Box::new(Keeping(keeper.clone())),
                    None => Box::new(Nobody),
                };
                let mut training =
                    AsyncTraining::start(env, reward.clone(), plan, seed, left, learner, onlooker);
                if let Some(on_paid) = on_paid {
                    training.on_paid(on_paid);
                }
                Ok(Self::SideBySide { training: Box::new(training), keeper })
            }
        }
    }

    /// One step of learning; nothing if the user asked to stop before there was anything to learn from.
    pub(super) fn learn(&mut self, learner: &mut dyn Learner, step: u64) -> Result<Option<Metrics>, Stumble> {
        let learned = match self {
            Self::Turns { training, keeper } => {
                let keep = |taken: &Taken| keeper.as_mut().map_or(Ok(()), |keeper| keep(keeper, taken));
                training.step(learner, keep).map(Some)
            }
            Self::SideBySide { training, .. } => training.step(learner, interrupted),
        };
        learned.map_err(|error| match error {
            TrainingError::Onlooker(error) => Stumble::Elsewhere(match error.downcast::<Failure>() {
                Ok(failure) => *failure,
                Err(error) => Failure::work(error, None),
            }),
            error @ TrainingError::Reward(_) => {
                Stumble::Unpaid(Failure::work(format!("step {step}: {error}"), None))
            }
            error => Stumble::Elsewhere(Failure::work(format!("step {step}: {error}"), None)),
        })
    }

    /// Where the environments are, as far as is known: side by side, where the last rollout left them that arrived.
    pub(super) fn whereabouts(&self) -> Option<Whereabouts> {
        match self {
            Self::Turns { training, .. } => Some(training.whereabouts()),
            Self::SideBySide { training, .. } => training.whereabouts().cloned(),
        }
    }

    /// Lets the environments come to rest, and gives back whoever kept their episodes.
    pub(super) fn stop(self) -> Option<Keeper> {
        match self {
            Self::Turns { keeper, .. } => keeper.map(|keeper| *keeper),
            Self::SideBySide { training, keeper } => {
                drop(training); // waits for the thread, which holds the other half of the keeper
                Arc::into_inner(keeper?)?.into_inner().ok()
            }
        }
    }
}

fn nobody_there() -> Failure {
    Failure::work("the environments are in use already", None)
}

fn keep(keeper: &mut Keeper, taken: &Taken) -> Result<(), TrainingError> {
    keeper.step(taken, u64::MAX).map_err(|failure| TrainingError::Onlooker(Box::new(failure)))
}

/// Keeps episodes on the environments' thread.
struct Keeping(SharedKeeper);

impl Onlooker for Keeping {
    fn begin(&mut self, obs: &Obs) {
        if let Ok(mut keeper) = self.0.lock() {
            keeper.reset(obs);
        }
    }

    fn step(&mut self, taken: &Taken) -> Result<(), TrainingError> {
        self.0.lock().map_or(Ok(()), |mut keeper| keep(&mut keeper, taken))
    }
}
