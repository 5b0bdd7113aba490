//! When a model learns, and how what it learned comes to reward.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use plaudit_core::{RewardColumn, Segment};
use plaudit_nn::Weights;

use super::hardening::{Hardening, RoundOutcome, RoundResult};
use super::policy_frames::{PolicyFrame, PolicyFrames};
use super::{OnlineError, saved};
use crate::card::ModelCard;
use crate::models::{FrameRewardModel, LoadedModel, RewardModelError, RewardModelSource};

/// Makes the model that scores of weights and a threshold.
pub type BuildModel =
    Box<dyn Fn(&Weights, f64) -> Result<Box<dyn FrameRewardModel>, RewardModelError> + Send>;

/// The model that a run begins with.
pub struct ModelInUse {
    /// How its successors are made.
    pub build: BuildModel,
    /// What it says about itself.
    pub card: ModelCard,
    /// Its version.
    pub version: u64,
}

/// A model that was accepted and is not in use yet.
type Waiting = Arc<Mutex<Option<LoadedModel>>>;

/// Where the reward finds models that were accepted.
pub struct OnlineSource(Waiting);

impl RewardModelSource for OnlineSource {
    fn newer(&self) -> Result<Option<LoadedModel>, RewardModelError> {
        Ok(self.0.lock().unwrap_or_else(PoisonError::into_inner).take())
    }
}

/// The online training of a run's reward model.
pub struct OnlineTraining {
    frames: Arc<Mutex<PolicyFrames>>,
    waiting: Waiting,
    work: Work,
    /// Rounds run on a thread of their own, beside the rollouts.
    background: bool,
    every: u64,
    min_frames: usize,
    build: BuildModel,
    card: ModelCard,
    /// The version of the model in use, or of the one that waits.
    pub(super) version: u64,
}

/// Where the model is that learns.
enum Work {
    Here(Box<Hardening>),
    /// On a thread, since a round began.
    Beside(JoinHandle<(Box<Hardening>, Result<RoundResult, OnlineError>)>),
    /// Nowhere: the thread stopped.
    Lost,
}

impl OnlineTraining {
    /// Nothing learned yet.
    #[must_use]
    pub fn new(hardening: Hardening, frames: PolicyFrames, background: bool, in_use: ModelInUse) -> Self {
        let ModelInUse { build, card, version } = in_use;
        let (every, min_frames) = (hardening.settings().every, hardening.settings().min_frames);
        Self {
            frames: Arc::new(Mutex::new(frames)),
            waiting: Waiting::default(),
            work: Work::Here(Box::new(hardening)),
            background,
            every,
            min_frames,
            build,
            card,
            version,
        }
    }

    /// Where the reward finds what was accepted.
    #[must_use]
    pub fn source(&self) -> OnlineSource {
        OnlineSource(self.waiting.clone())
    }

    /// The callback for every labelled segment, for a training loop.
    pub fn on_labelled(&self) -> impl FnMut(&Segment, &RewardColumn) + Send + 'static {
        let frames = self.frames.clone();
        move |segment, column| frames.lock().unwrap_or_else(PoisonError::into_inner).add(segment, column)
    }

    /// After so many updates of the policy: begins a round if it is time to, and says what came of one that is done.
    ///
    /// # Errors
    /// When the policy's frames do not fit the model.
    pub fn after_update(&mut self, step: u64) -> Result<Option<RoundResult>, OnlineError> {
        let enough = {
            let mut frames = self.frames.lock().unwrap_or_else(PoisonError::into_inner);
            frames.commit()?;
            frames.len() >= self.min_frames
        };
        let is_due = enough && step.is_multiple_of(self.every.max(1));
        if !self.background {
            return if is_due { self.round_here().map(Some) } else { Ok(None) };
        }
        let done = match &self.work {
            Work::Beside(thread) if thread.is_finished() => Some(self.join()?),
            _ => None,
        };
        if is_due {
            self.begin();
        }
        done.transpose()
    }

    fn round_here(&mut self) -> Result<RoundResult, OnlineError> {
        let frames = self.snapshot();
        let Work::Here(hardening) = &mut self.work else { return Err(OnlineError::Thread) };
        let result = hardening.round(&frames)?;
        self.take(&result)?;
        Ok(result)
    }

    /// Begins a round beside the rollouts, unless one is under way.
    fn begin(&mut self) {
        let frames = self.snapshot();
        self.work = match std::mem::replace(&mut self.work, Work::Lost) {
            Work::Here(mut hardening) => Work::Beside(std::thread::spawn(move || {
                let result = hardening.round(&frames);
                (hardening, result)
            })),
            other => other,
        };
    }

    /// Waits for the round under way.
    fn join(&mut self) -> Result<Result<RoundResult, OnlineError>, OnlineError> {
        let Work::Beside(thread) = std::mem::replace(&mut self.work, Work::Lost) else {
            return Err(OnlineError::Thread);
        };
        let (hardening, result) = thread.join().map_err(|_| OnlineError::Thread)?;
        self.work = Work::Here(hardening);
        if let Ok(result) = &result {
            self.take(result)?;
        }
        Ok(result)
    }

    /// Lets an accepted model wait for the reward to ask.
    fn take(&mut self, result: &RoundResult) -> Result<(), OnlineError> {
        if matches!(result.outcome, RoundOutcome::Accepted { .. }) {
            self.version += 1;
            self.publish()?;
        }
        Ok(())
    }

    fn publish(&mut self) -> Result<(), OnlineError> {
        let Work::Here(hardening) = &self.work else { return Err(OnlineError::Thread) };
        let model = (self.build)(&hardening.weights(), hardening.threshold)?;
        let loaded = LoadedModel { model, version: self.version };
        *self.waiting.lock().unwrap_or_else(PoisonError::into_inner) = Some(loaded);
        Ok(())
    }

    /// What the model in use says about itself. What an audit found of the first one does not hold for those that learned.
    fn card_of(&self, hardening: &Hardening) -> ModelCard {
        match hardening.rounds {
            0 => self.card.clone(),
            _ => ModelCard {
                threshold: Some(hardening.threshold),
                temperature: None,
                guarantee: None,
                success_features: None,
                metrics: None,
                step: hardening.rounds * hardening.settings().steps + self.card.step,
                ..self.card.clone()
            },
        }
    }

    fn snapshot(&self) -> Vec<PolicyFrame> {
        self.frames.lock().unwrap_or_else(PoisonError::into_inner).snapshot()
    }

    /// Writes the model in use, and all that a later [`restore`](Self::restore) needs, into an empty folder. Waits for a round under way.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn save(&mut self, folder: &Path) -> Result<Option<RoundResult>, OnlineError> {
        let done = match &self.work {
            Work::Beside(_) => Some(self.join()??),
            _ => None,
        };
        let Work::Here(hardening) = &self.work else { return Err(OnlineError::Thread) };
        let frames = self.frames.lock().unwrap_or_else(PoisonError::into_inner);
        saved::write(folder, hardening, &frames, self.version)?;
        self.card_of(hardening).write(&hardening.weights(), folder)?;
        Ok(done)
    }

    /// Becomes what was saved; the model that was in use then is used from now on.
    ///
    /// # Errors
    /// When it was saved by a run with another model or other images.
    pub fn restore(&mut self, folder: &Path) -> Result<(), OnlineError> {
        let Work::Here(hardening) = &mut self.work else { return Err(OnlineError::Thread) };
        let mut frames = self.frames.lock().unwrap_or_else(PoisonError::into_inner);
        self.version = saved::read(folder, hardening, &mut frames)?;
        drop(frames);
        let learned = matches!(&self.work, Work::Here(hardening) if hardening.rounds > 0);
        if learned { self.publish() } else { Ok(()) }
    }
}
