//! Asynchronous training: environments never wait for the learner.
//!
//! ```text
//! environments (a thread)    newest policy → rollout → rewards → queue
//! a robot's (two threads)    newest policy → episode → (its own thread) rewards → queue
//! learner (the caller)       queue → replay → update → newer policy
//! ```
//!
//! The policy in the environments is exchanged at the start of every rollout, and in the middle of one where it has
//! fallen too many versions behind. Every step of learning logs how stale its experience was.
//!
//! The learner notices when the reward changes, and relabels stored experience; experience that was
//! still in the queue is relabelled when it arrives.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use plaudit_core::{Env, Obs, Policy, Reward, Seed};

use crate::async_remote::AsyncRemoteSource;
use crate::real_time;
use crate::rollout_stats::RolloutStats;
use crate::rollout_thread::RolloutThread;
use crate::{
    Experience, Learner, Metrics, OnLabelled, RemoteCollector, RemoteEnvs, RolloutState, TakenStep,
    TrainingError, TrainingPlan,
};

/// How long the learner waits for experience before it checks again whether to stop.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// How acting and learning are synchronised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AsyncPlan {
    /// What a rollout is.
    pub rollouts: TrainingPlan,
    /// Steps of learning between versions of the policy that are sent out.
    pub weight_sync_interval: u64,
    /// Versions that the policy may be behind when it acts: beyond that it is exchanged within a rollout. Without a
    /// bound it is exchanged between rollouts alone.
    pub staleness_threshold: Option<u64>,
}

/// A learner beside its environments.
pub struct AsyncTraining {
    plan: AsyncPlan,
    reward: Arc<dyn Reward>,
    source: Source,
    /// Steps of learning since the start.
    steps: u64,
    on_labelled: Option<OnLabelled<'static>>,
}

/// Where rollouts come from.
enum Source {
    Thread(ThreadSource),
    Remote(AsyncRemoteSource),
}

/// Environments on a thread of their own.
struct ThreadSource {
    mailbox: Arc<PolicyMailbox>,
    queue: Receiver<RolloutReport>,
    thread: Option<JoinHandle<Result<(), TrainingError>>>,
    rollout_state: Option<RolloutState>,
    /// Ends a step that waits for a robot.
    stopper: Option<Arc<dyn Fn() + Send + Sync>>,
}

/// A callback for each step of the environments, on their thread.
pub trait StepCallback: Send {
    /// What the environments show before the first step.
    fn begin(&mut self, obs: &Obs);

    /// A step was taken. An error ends the training.
    fn step(&mut self, taken: &TakenStep) -> Result<(), TrainingError>;

    /// What is called, from any thread, when a reward fails and is waited for.
    fn on_reward_trouble(&self) -> Box<dyn Fn(&str) + Send> {
        Box::new(|_| {})
    }
}

/// Does nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoCallback;

impl StepCallback for NoCallback {
    fn begin(&mut self, _: &Obs) {}

    fn step(&mut self, _: &TakenStep) -> Result<(), TrainingError> {
        Ok(())
    }
}

/// Where the rollout thread fetches the newest policy.
pub(crate) struct PolicyMailbox {
    pub(crate) policy: Mutex<Option<Box<dyn Policy>>>,
    version: AtomicU64,
    /// No further rollout begins.
    stop: AtomicBool,
    /// The rollout that is under way is not needed, either.
    abandon: AtomicBool,
}

/// A finished rollout, as the rollout thread sends it.
pub(crate) struct RolloutReport {
    /// Nothing where the rollout turned out to be worthless.
    pub(crate) experience: Option<Experience>,
    pub(crate) stats: RolloutStats,
    /// Where the environments are, if whoever sends it keeps no account of that.
    pub(crate) rollout_state: Option<RolloutState>,
    /// The most versions that the policy was behind when it acted.
    pub(crate) staleness: u64,
    pub(crate) took: Duration,
}

impl AsyncTraining {
    /// Sends environments and reward to a thread of their own, with the learner's first policy.
    pub fn start(
        env: Box<dyn Env>,
        reward: Arc<dyn Reward>,
        plan: AsyncPlan,
        seed: Seed,
        resume_from: Option<RolloutState>,
        learner: &dyn Learner,
        callback: Box<dyn StepCallback>,
    ) -> Self {
        let (send, queue) = channel();
        let mailbox = Arc::new(PolicyMailbox {
            policy: Mutex::new(Some(learner.explorer())),
            version: AtomicU64::new(1),
            stop: AtomicBool::new(false),
            abandon: AtomicBool::new(false),
        });
        let stopper = env.stopper();
        let rollout_thread = RolloutThread {
            env,
            reward: reward.clone(),
            plan,
            seed,
            resume_from,
            mailbox: mailbox.clone(),
            callback,
        };
        let has_deadlines = rollout_thread.env.may_break();
        let thread = std::thread::spawn(move || rollout_thread.act(&send));
        if has_deadlines {
            // After the robot's threads were started: threads inherit.
            real_time::let_others_first();
        }
        let source = ThreadSource { mailbox, queue, thread: Some(thread), rollout_state: None, stopper };
        Self { plan, reward, source: Source::Thread(source), steps: 0, on_labelled: None }
    }

    /// Learns beside environments of other processes, which have their first policy from the learner.
    pub fn start_remote(
        collector: Box<dyn RemoteCollector>,
        processes: Vec<(RemoteEnvs, Option<RolloutState>)>,
        reward: Arc<dyn Reward>,
        plan: AsyncPlan,
        learner: &dyn Learner,
    ) -> Result<Self, TrainingError> {
        let source = AsyncRemoteSource::start(collector, processes, plan, learner.explorer_params())?;
        Ok(Self { plan, reward, source: Source::Remote(source), steps: 0, on_labelled: None })
    }

    /// Calls `on_labelled` for every segment from now on, once, when it arrives at the learner.
    pub fn on_labelled(&mut self, on_labelled: OnLabelled<'static>) {
        self.on_labelled = Some(on_labelled);
    }

    /// Where the environments were after the last rollout that arrived, for a later [`Self::start`]; of other processes,
    /// one after the other.
    pub fn rollout_states(&self) -> Vec<RolloutState> {
        match &self.source {
            Source::Thread(source) => source.rollout_state.iter().cloned().collect(),
            Source::Remote(source) => source.rollout_states(),
        }
    }

    /// One step of learning, from whatever has arrived. Waits only while there is too little to learn from, and asks
    /// `is_over` meanwhile; returns nothing when it is.
    pub fn step(
        &mut self,
        learner: &mut dyn Learner,
        is_over: impl Fn() -> bool,
    ) -> Result<Option<Metrics>, TrainingError> {
        let began = Instant::now();
        // A model that cannot be read just now is being written: the old one stays in use.
        let has_changed = self.reward.refresh().unwrap_or(false);
        let mut arrived = ArrivedRollouts { has_other_version: has_changed, ..ArrivedRollouts::default() };
        let learned = loop {
            self.receive(learner, &mut arrived)?;
            if std::mem::take(&mut arrived.has_other_version) {
                *arrived.relabelled.get_or_insert(0) += learner.relabel(self.reward.as_ref())?;
            }
            let learned = learner.improve()?;
            if !learned.is_empty() {
                break learned;
            }
            if is_over() {
                return Ok(None);
            }
            self.wait(learner, &mut arrived)?;
        };
        self.steps += 1;
        if self.steps.is_multiple_of(self.plan.weight_sync_interval.max(1)) {
            self.publish(learner, &mut arrived, &is_over)?;
        }
        Ok(Some(self.metrics(arrived, learned, began.elapsed())))
    }

    /// Sends a newer policy out. Environments elsewhere that are about to be further behind than they may be are waited for.
    fn publish(
        &mut self,
        learner: &mut dyn Learner,
        arrived: &mut ArrivedRollouts,
        is_over: &impl Fn() -> bool,
    ) -> Result<(), TrainingError> {
        while matches!(&self.source, Source::Remote(source) if source.must_wait()) && !is_over() {
            self.wait(learner, arrived)?;
        }
        match &mut self.source {
            Source::Thread(source) => source.mailbox.send(learner.explorer()),
            Source::Remote(source) => source.publish(learner.explorer_params())?,
        }
        Ok(())
    }

    /// Lets the environments finish their rollout, and takes in what is still in the queue.
    pub fn finish(mut self, learner: &mut dyn Learner) -> Result<Vec<RolloutState>, TrainingError> {
        if let Source::Thread(source) = &mut self.source {
            source.mailbox.stop.store(true, Ordering::Relaxed);
            source.join()?;
        }
        self.receive(learner, &mut ArrivedRollouts::default())?;
        Ok(self.rollout_states())
    }

    /// Takes in all that has arrived.
    fn receive(
        &mut self,
        learner: &mut dyn Learner,
        arrived: &mut ArrivedRollouts,
    ) -> Result<(), TrainingError> {
        while let Some(report) = self.source.next(Duration::ZERO)? {
            self.take(report, learner, arrived)?;
        }
        Ok(())
    }

    /// Waits a little for something to arrive.
    fn wait(
        &mut self,
        learner: &mut dyn Learner,
        arrived: &mut ArrivedRollouts,
    ) -> Result<(), TrainingError> {
        match self.source.next(POLL_INTERVAL)? {
            Some(report) => self.take(report, learner, arrived),
            None => Ok(()),
        }
    }

    fn take(
        &mut self,
        report: RolloutReport,
        learner: &mut dyn Learner,
        arrived: &mut ArrivedRollouts,
    ) -> Result<(), TrainingError> {
        let RolloutReport { experience, stats, rollout_state, staleness, took } = report;
        arrived.stats.merge(stats);
        arrived.rollouts += 1;
        arrived.staleness += staleness;
        arrived.max_staleness = arrived.max_staleness.max(staleness);
        arrived.acting += took;
        if let (Source::Thread(source), Some(rollout_state)) = (&mut self.source, rollout_state) {
            source.rollout_state = Some(rollout_state);
        }
        let Some(experience) = experience else { return Ok(()) };
        arrived.has_other_version |= experience.reward.version != self.reward.version();
        if let Some(on_labelled) = &mut self.on_labelled {
            on_labelled(&experience.segment, &experience.reward);
        }
        Ok(learner.add_experience(experience)?)
    }

    fn metrics(&self, arrived: ArrivedRollouts, learned: Metrics, whole: Duration) -> Metrics {
        let mut metrics = Metrics::default();
        arrived.stats.push_to(&mut metrics);
        metrics.extend(learned);
        let rollouts = arrived.rollouts as f64;
        metrics.push("train/replay_channel_qsize", rollouts);
        if let Some(relabelled) = arrived.relabelled {
            metrics.push("train/replay_buffer/relabelled", relabelled as f64);
        }
        if arrived.rollouts > 0 {
            metrics.push("train/async/staleness", arrived.staleness as f64 / rollouts);
            metrics.push("train/async/staleness_max", arrived.max_staleness as f64);
            let steps = arrived.stats.env_steps() as f64;
            metrics.push("time/env_steps_per_second", steps / arrived.acting.as_secs_f64());
        }
        metrics.push("time/step", whole.as_secs_f64());
        metrics
    }
}

impl Source {
    /// The next rollout that arrives in time.
    fn next(&mut self, timeout: Duration) -> Result<Option<RolloutReport>, TrainingError> {
        match self {
            Self::Thread(source) => source.next(timeout),
            Self::Remote(source) => source.next(timeout),
        }
    }
}

impl ThreadSource {
    fn next(&mut self, timeout: Duration) -> Result<Option<RolloutReport>, TrainingError> {
        match self.queue.recv_timeout(timeout) {
            Ok(report) => Ok(Some(report)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => self.join().map(|()| None),
        }
    }

    /// Why the rollout thread stopped, if it failed.
    fn join(&mut self) -> Result<(), TrainingError> {
        match self.thread.take().map(JoinHandle::join) {
            None | Some(Ok(Ok(()))) => Ok(()),
            Some(Ok(Err(error))) => Err(error),
            Some(Err(panic)) => std::panic::resume_unwind(panic),
        }
    }
}

impl Drop for ThreadSource {
    fn drop(&mut self) {
        self.mailbox.stop.store(true, Ordering::Relaxed);
        self.mailbox.abandon.store(true, Ordering::Relaxed);
        if let Some(stop) = &self.stopper {
            stop();
        }
        if let Some(thread) = self.thread.take() {
            // Whoever drops it unfinished has an error of their own to report.
            let _ = thread.join();
        }
    }
}

/// What arrived during one step of learning.
#[derive(Default)]
struct ArrivedRollouts {
    stats: RolloutStats,
    rollouts: u64,
    staleness: u64,
    max_staleness: u64,
    acting: Duration,
    /// Whether some experience was labelled by another version of the reward than the one in use.
    has_other_version: bool,
    /// Steps that were relabelled, if any had to be.
    relabelled: Option<usize>,
}

impl PolicyMailbox {
    fn send(&self, policy: Box<dyn Policy>) {
        if let Ok(mut newest) = self.policy.lock() {
            *newest = Some(policy);
            self.version.fetch_add(1, Ordering::Release);
        }
    }

    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    pub(crate) fn is_abandoned(&self) -> bool {
        self.abandon.load(Ordering::Relaxed)
    }
}
