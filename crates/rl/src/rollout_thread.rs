//! The environments' side of asynchronous training: acting with the newest policy, and labelling what came of it.
//!
//! A robot does not wait for its rewards: they are computed on a thread of their own while the next episode is played. A
//! reward that fails there is asked again until it is back. Meanwhile one more episode is played; then the arm holds.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use plaudit_core::{Decision, Env, Obs, Policy, PolicyError, Reward, Seed};

use crate::async_training::{AsyncPlan, POLL_INTERVAL, PolicyMailbox, RolloutReport, StepCallback};
use crate::real_time;
use crate::rollout_stats::RolloutStats;
use crate::training::{LocalRollouts, RewardLabeller};
use crate::{Experience, PlayedSegment, RolloutState, TakenStep, TrainingError};

/// How long a reward that failed is left alone before it is asked again.
const REWARD_RETRY: Duration = Duration::from_secs(1);
/// Episodes of a robot that may wait for their rewards.
const UNLABELLED: usize = 1;

/// What the rollout thread needs.
pub(crate) struct RolloutThread {
    pub(crate) env: Box<dyn Env>,
    pub(crate) reward: Arc<dyn Reward>,
    pub(crate) plan: AsyncPlan,
    pub(crate) seed: Seed,
    pub(crate) resume_from: Option<RolloutState>,
    pub(crate) mailbox: Arc<PolicyMailbox>,
    pub(crate) callback: Box<dyn StepCallback>,
}

impl RolloutThread {
    /// Acts until it is stopped, or nobody receives any more.
    pub(crate) fn act(mut self, queue: &Sender<RolloutReport>) -> Result<(), TrainingError> {
        let (plan, reward) = (self.plan.rollouts, self.reward.as_ref());
        let _alone = self.env.may_break().then(real_time::work_alone);
        let started = LocalRollouts::start(self.env.as_mut(), reward, plan, self.seed, self.resume_from);
        let (training, mailbox) = (started?.0, self.mailbox);
        self.callback.begin(training.obs());
        let policy = LatestPolicy::new(mailbox.clone(), self.plan.staleness_threshold);
        let mut acting = Acting { training, policy, callback: self.callback, mailbox };
        match acting.training.may_break() {
            true => acting.beside_labelling(reward, queue),
            false => acting.and_label(queue),
        }
    }
}

/// Environments, and who acts in them.
struct Acting<'a> {
    training: LocalRollouts<'a>,
    policy: LatestPolicy,
    callback: Box<dyn StepCallback>,
    mailbox: Arc<PolicyMailbox>,
}

/// A rollout that was played.
struct PlayedRollout {
    /// Nothing where it turned out to be worthless.
    played: Option<PlayedSegment>,
    stats: RolloutStats,
    rollout_state: RolloutState,
    staleness: u64,
    began: Instant,
}

impl PlayedRollout {
    /// With the rewards of what was played, which a function finds.
    fn labelled<E>(
        self,
        label: impl FnOnce(PlayedSegment, &mut RolloutStats) -> Result<Experience, E>,
    ) -> Result<RolloutReport, E> {
        let Self { played, mut stats, rollout_state, staleness, began } = self;
        let experience = played.map(|played| label(played, &mut stats)).transpose()?;
        let rollout_state = Some(rollout_state);
        Ok(RolloutReport { experience, stats, rollout_state, staleness, took: began.elapsed() })
    }
}

impl Acting<'_> {
    /// Acts, labels, acts.
    fn and_label(&mut self, queue: &Sender<RolloutReport>) -> Result<(), TrainingError> {
        while let Some(rollout) = self.next()? {
            let training = &mut self.training;
            let report = rollout.labelled(|PlayedSegment { segment, decisions }, stats| {
                let reward = training.label(&segment, stats)?;
                Ok::<_, TrainingError>(Experience { segment, decisions, reward })
            })?;
            let rollout_state = Some(self.training.rollout_state());
            if queue.send(RolloutReport { rollout_state, ..report }).is_err() {
                break;
            }
        }
        Ok(())
    }

    /// Acts, while another thread labels.
    fn beside_labelling(
        &mut self,
        reward: &dyn Reward,
        queue: &Sender<RolloutReport>,
    ) -> Result<(), TrainingError> {
        let (mailbox, on_trouble) = (self.mailbox.clone(), self.callback.on_reward_trouble());
        std::thread::scope(|scope| {
            let (send, unlabelled) = sync_channel(UNLABELLED);
            let mut labelling = Labelling { reward: RewardLabeller::new(reward, 1), mailbox, on_trouble };
            let labelling = scope.spawn(move || {
                real_time::let_others_first();
                labelling.label_all(&unlabelled, queue)
            });
            let acted = self.send_all(&send);
            drop(send);
            let labelled = labelling.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            acted.and(labelled)
        })
    }

    /// Sends rollouts until it is stopped, or nobody labels them any more.
    fn send_all(&mut self, to: &SyncSender<PlayedRollout>) -> Result<(), TrainingError> {
        while let Some(rollout) = self.next()? {
            if to.send(rollout).is_err() {
                break;
            }
        }
        Ok(())
    }

    /// One rollout; nothing if it is all over.
    fn next(&mut self) -> Result<Option<PlayedRollout>, TrainingError> {
        if self.mailbox.is_stopped() {
            return Ok(None);
        }
        let (began, mut stats) = (Instant::now(), RolloutStats::default());
        self.policy.begin();
        let (mailbox, callback) = (&self.mailbox, &mut self.callback);
        let mut on_step = |taken: &TakenStep| match mailbox.is_abandoned() {
            true => Err(PlayError::Abandoned),
            false => callback.step(taken).map_err(PlayError::Failed),
        };
        let played = match self.training.play(&mut self.policy, &mut on_step, &mut stats) {
            Ok(played) => played,
            Err(PlayError::Abandoned) => return Ok(None),
            Err(PlayError::Failed(error)) => return Err(error),
        };
        let (rollout_state, staleness) = (self.training.rollout_state(), self.policy.staleness);
        Ok(Some(PlayedRollout { played, stats, rollout_state, staleness, began }))
    }
}

/// Why a rollout was not played to its end.
enum PlayError {
    /// Nobody needs it any more.
    Abandoned,
    Failed(TrainingError),
}

impl From<TrainingError> for PlayError {
    fn from(error: TrainingError) -> Self {
        Self::Failed(error)
    }
}

/// Labels a robot's episodes.
struct Labelling<'a> {
    reward: RewardLabeller<'a>,
    mailbox: Arc<PolicyMailbox>,
    on_trouble: Box<dyn Fn(&str) + Send>,
}

impl Labelling<'_> {
    /// A reward that never worked is a mistake in the setup, and ends the training; one that worked is waited for.
    fn label_all(
        &mut self,
        unlabelled: &Receiver<PlayedRollout>,
        queue: &Sender<RolloutReport>,
    ) -> Result<(), TrainingError> {
        let mut has_worked = false;
        while let Ok(rollout) = unlabelled.recv() {
            let report = match rollout.labelled(|played, stats| self.label(played, stats, has_worked)) {
                Ok(report) => report,
                Err(LabelError::Over) => return Ok(()),
                Err(LabelError::Failed(error)) => return Err(error),
            };
            has_worked |= report.experience.is_some();
            if queue.send(report).is_err() {
                return Ok(());
            }
        }
        Ok(())
    }

    fn label(
        &mut self,
        PlayedSegment { segment, decisions }: PlayedSegment,
        stats: &mut RolloutStats,
        waits: bool,
    ) -> Result<Experience, LabelError> {
        loop {
            let error = match self.reward.label(&segment, stats) {
                Ok(reward) => return Ok(Experience { segment, decisions, reward }),
                Err(error) if waits => error,
                Err(error) => return Err(LabelError::Failed(error)),
            };
            (self.on_trouble)(&error.to_string());
            stats.add_reward_retry();
            let again = Instant::now() + REWARD_RETRY;
            while Instant::now() < again {
                if self.mailbox.is_stopped() {
                    return Err(LabelError::Over);
                }
                std::thread::sleep(POLL_INTERVAL);
            }
        }
    }
}

/// Why a rollout has no rewards.
enum LabelError {
    /// Nobody needs them any more.
    Over,
    Failed(TrainingError),
}

/// The newest policy, or one that is at most `bound` versions behind.
struct LatestPolicy {
    mailbox: Arc<PolicyMailbox>,
    bound: Option<u64>,
    policy: Option<Box<dyn Policy>>,
    version: u64,
    /// The most versions it was behind when it acted in this rollout.
    staleness: u64,
}

impl LatestPolicy {
    fn new(mailbox: Arc<PolicyMailbox>, bound: Option<u64>) -> Self {
        Self { mailbox, bound, policy: None, version: 0, staleness: 0 }
    }

    /// A rollout begins.
    fn begin(&mut self) {
        self.fetch();
        self.staleness = 0;
    }

    fn fetch(&mut self) {
        let Ok(mut newest) = self.mailbox.policy.lock() else { return };
        if let Some(policy) = newest.take() {
            self.policy = Some(policy);
            self.version = self.mailbox.version();
        }
    }

    fn behind(&self) -> u64 {
        self.mailbox.version() - self.version
    }
}

impl Policy for LatestPolicy {
    fn act(&mut self, obs: &Obs, seed: Seed) -> Result<Decision, PolicyError> {
        if self.bound.is_some_and(|bound| self.behind() > bound) {
            self.fetch();
        }
        self.staleness = self.staleness.max(self.behind());
        match &mut self.policy {
            Some(policy) => policy.act(obs, seed),
            None => Err(PolicyError::Backend("no policy has arrived".into())),
        }
    }
}
