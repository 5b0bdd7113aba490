//! Checks what a policy is rewarded for, every so many updates, and answers alarms.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use plaudit_core::{RewardColumn, Seed, Segment};

use super::drift::FirstFrames;
use super::first_episodes::FirstEpisodes;
use super::rewarded_frames::{FrameFolders, SavedFrames};
use super::signals::COUNTED;
use super::{
    AdjustableReward, Adjustment, Alarm, CheckInput, EpisodeSummary, Limits, LookCount, OodCheck,
    RewardedFrame, RunEvidence, Signal, Signals, SuccessComparison, Tally,
};
use crate::images::ImageWriteError;
use crate::models::{FrameStack, ReloadableModel, RewardModelError};

/// The threshold of a reward model without one.
const DEFAULT_THRESHOLD: f32 = 0.5;

/// How a policy is monitored.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MonitorSettings {
    /// Updates between checks.
    pub every: u64,
    /// What is done about an alarm.
    pub action: AlarmAction,
    /// Rewarded frames that are checked, and kept for labelling after an alarm.
    pub frames: usize,
    /// What is too much.
    pub limits: Limits,
}

/// What is done about an alarm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AlarmAction {
    /// It is reported.
    Warn,
    /// The training is to stop.
    Pause,
    /// From then on only the ends of episodes are rewarded.
    Terminal,
    /// From then on scores must be half-way nearer to 1.
    RaiseThreshold,
}

/// What the reward model is compared with.
pub enum Reference {
    /// The environment's ground truth.
    Environment,
    /// A second model, trained on other episodes.
    Model(Arc<ReloadableModel>),
    /// A person, who sorts the rewarded frames of earlier checks.
    Person,
    /// Nothing.
    Unavailable,
}

/// Checks what a policy is rewarded for.
pub struct HackingMonitor {
    settings: MonitorSettings,
    monitored: Arc<AdjustableReward>,
    reference: Reference,
    tally: Arc<Mutex<Tally>>,
    /// A model that is asked about rewarded frames beside the reference, if there is one.
    second: Option<Arc<ReloadableModel>>,
    /// What was rewarded first.
    first_frames: FirstFrames,
    first_episodes: FirstEpisodes,
    evidence: RunEvidence,
    folders: FrameFolders,
}

/// What a check found, and what was done about it.
#[derive(Debug, Clone)]
pub struct HackingCheck {
    /// The signals.
    pub signals: Signals,
    /// [`Signal::SuccessDrop`], from the second check on.
    pub success_drop: Option<f64>,
    /// Those beyond their limits.
    pub alarms: Vec<Alarm>,
    /// What was done about alarms, if there were any.
    pub response: Option<AlarmResponse>,
    /// Rewarded frames that were written, after an alarm or for a person to sort.
    pub saved: Option<SavedFrames>,
}

/// What was done about alarms.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum AlarmResponse {
    /// Nothing but this report.
    Warned,
    /// The training should be saved and stop.
    Pause,
    /// Only the ends of episodes are rewarded.
    Terminal {
        /// Whether that is new.
        is_new: bool,
    },
    /// Scores must be above a higher threshold.
    Threshold {
        /// The threshold that was asked for.
        threshold: f32,
        /// Whether it could be raised.
        is_new: bool,
    },
}

impl AlarmResponse {
    /// Whether less is rewarded from now on.
    fn is_stricter(self) -> bool {
        matches!(self, Self::Terminal { is_new: true } | Self::Threshold { is_new: true, .. })
    }
}

/// Why a check failed.
#[derive(Debug, thiserror::Error)]
pub enum MonitorError {
    /// A model could not score frames.
    #[error(transparent)]
    Model(#[from] RewardModelError),
    /// Frames could not be written.
    #[error(transparent)]
    Write(#[from] ImageWriteError),
}

impl HackingCheck {
    /// As metrics name them.
    #[must_use]
    pub fn values(&self) -> Vec<(String, f64)> {
        let mut values = self.signals.values();
        values.extend(self.success_drop.map(|drop| ("hacking/success_drop".into(), drop)));
        values.push(("hacking/alarms".into(), self.alarms.len() as f64));
        values
    }
}

impl HackingMonitor {
    /// Of a learned reward; rewarded frames go to `folder`.
    #[must_use]
    pub fn new(
        settings: MonitorSettings,
        monitored: Arc<AdjustableReward>,
        reference: Reference,
        folder: PathBuf,
        seed: Seed,
    ) -> Self {
        let tally = Arc::new(Mutex::new(Tally::new(settings.frames, seed)));
        let folders = FrameFolders::in_folder(folder);
        Self {
            settings,
            monitored,
            reference,
            tally,
            second: None,
            first_frames: FirstFrames::default(),
            first_episodes: FirstEpisodes::default(),
            evidence: RunEvidence::new(settings.limits, &[]),
            folders,
        }
        .with_second_opinion(None)
    }

    /// The same, with a second model that is asked about rewarded frames.
    #[must_use]
    pub fn with_second_opinion(self, second: Option<Arc<ReloadableModel>>) -> Self {
        let mut monitor = Self { second, ..self };
        monitor.evidence = RunEvidence::new(monitor.settings.limits, &monitor.signals());
        monitor
    }

    /// The signals that this run can have.
    fn signals(&self) -> Vec<Signal> {
        let ends_only = self.monitored.rewards_ends_only();
        let is_single_frame = self.monitored.model().model.history_len() == 0;
        let has = |signal: &Signal| match signal {
            Signal::FalseSuccess => !matches!(self.reference, Reference::Unavailable),
            Signal::EarlySuccess | Signal::Dithering | Signal::Concentration => !ends_only,
            Signal::OodFrames | Signal::Disagreement => is_single_frame,
            Signal::SecondOpinion => self.second.is_some(),
            Signal::Drift | Signal::SuccessDrop => true,
        };
        COUNTED.into_iter().filter(has).collect()
    }

    /// The callback for every labelled segment, for a training loop.
    pub fn on_labelled(&self) -> impl FnMut(&Segment, &RewardColumn) + Send + 'static {
        let tally = self.tally.clone();
        move |segment, column| tally.lock().unwrap_or_else(PoisonError::into_inner).add(segment, column)
    }

    /// Checks, if it is time to after so many updates.
    ///
    /// # Errors
    /// When a model cannot score frames, or frames cannot be written.
    pub fn check(&mut self, step: u64) -> Result<Option<HackingCheck>, MonitorError> {
        if !step.is_multiple_of(self.settings.every.max(1)) {
            return Ok(None);
        }
        let (episodes, frames) = self.tally.lock().unwrap_or_else(PoisonError::into_inner).take();
        let compared = self.compare(&episodes, &frames)?;
        let ends_only = self.monitored.rewards_ends_only();
        let signals = Signals::of(CheckInput {
            episodes: &episodes,
            unusual: self.first_episodes.compare(&episodes),
            ood_checks: &self.ood_checks(&frames)?,
            second_opinion: self.second_opinion(&frames)?,
            compared,
            drift: self.first_frames.compare(&frames),
            ends_only,
        });
        let success_drop = self.evidence.success_drop(&signals);
        let alarms = self.evidence.check(&signals);
        // A person needs frames to sort before anything can be said.
        let wants_frames = !alarms.is_empty() || matches!(self.reference, Reference::Person);
        let saved = if wants_frames { self.save_frames(step, &frames)? } else { None };
        let response = (!alarms.is_empty()).then(|| self.respond(&alarms));
        if response.is_some_and(AlarmResponse::is_stricter) {
            self.evidence.forget_success();
        }
        Ok(Some(HackingCheck { signals, success_drop, alarms, response, saved }))
    }

    /// What the reward model calls success, against the reference; nothing where there is none.
    fn compare(
        &mut self,
        episodes: &[EpisodeSummary],
        frames: &[RewardedFrame],
    ) -> Result<Option<SuccessComparison>, MonitorError> {
        match &self.reference {
            Reference::Unavailable => Ok(None),
            Reference::Environment => Ok(Some(SuccessComparison::episodes(episodes))),
            Reference::Model(second) => {
                let LookCount { looked_at, seen } = contradicted(second, frames)?;
                Ok(Some(SuccessComparison { called: looked_at, right: looked_at - seen }))
            }
            Reference::Person => Ok(self.folders.newly_sorted()),
        }
    }

    /// What a second model says about rewarded frames.
    fn second_opinion(&self, frames: &[RewardedFrame]) -> Result<Option<LookCount>, MonitorError> {
        Ok(self.second.as_ref().map(|second| contradicted(second, frames)).transpose()?)
    }

    /// How far rewarded frames are from known successes (out of distribution); nothing from a model that was not audited.
    fn ood_checks(&self, frames: &[RewardedFrame]) -> Result<Vec<OodCheck>, MonitorError> {
        let current = self.monitored.model();
        if frames.is_empty() || current.model.history_len() > 0 {
            return Ok(Vec::new());
        }
        Ok(current.model.check_ood(&stacks(frames))?.unwrap_or_default())
    }

    /// Makes the reward stricter, if that was asked for. Where all that happened is that less is rewarded, it is strict enough.
    fn respond(&self, alarms: &[Alarm]) -> AlarmResponse {
        let is_drop_alone = alarms.iter().all(|alarm| alarm.signal == Signal::SuccessDrop);
        match self.settings.action {
            AlarmAction::Warn => AlarmResponse::Warned,
            AlarmAction::Terminal | AlarmAction::RaiseThreshold if is_drop_alone => AlarmResponse::Warned,
            AlarmAction::Pause => AlarmResponse::Pause,
            AlarmAction::Terminal => {
                AlarmResponse::Terminal { is_new: self.monitored.adjust(Adjustment::Terminal) }
            }
            AlarmAction::RaiseThreshold => {
                let threshold = (1.0 + self.monitored.threshold().unwrap_or(DEFAULT_THRESHOLD)) / 2.0;
                let is_new = self.monitored.adjust(Adjustment::Threshold(threshold));
                AlarmResponse::Threshold { threshold, is_new }
            }
        }
    }

    fn save_frames(
        &self,
        step: u64,
        frames: &[RewardedFrame],
    ) -> Result<Option<SavedFrames>, ImageWriteError> {
        let is_sorted = matches!(self.reference, Reference::Environment);
        self.folders.save(step, frames, self.monitored.model().model.cameras(), is_sorted)
    }
}

/// The frames in which a model sees no success.
fn contradicted(model: &ReloadableModel, frames: &[RewardedFrame]) -> Result<LookCount, RewardModelError> {
    let current = model.current();
    let threshold = current.model.threshold().unwrap_or(DEFAULT_THRESHOLD);
    let scores = current.model.scores(&stacks(frames))?;
    let seen = scores.iter().filter(|score| score.get() <= threshold).count();
    Ok(LookCount { looked_at: frames.len(), seen })
}

fn stacks(frames: &[RewardedFrame]) -> Vec<FrameStack<'_>> {
    frames.iter().map(|frame| FrameStack::single(frame.obs.row(0))).collect()
}
