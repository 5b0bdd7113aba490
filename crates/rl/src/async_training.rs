//! Acting and learning side by side: environments never wait for the learner.
//!
//! ```text
//! environments (a thread)    newest policy → rollout → paid → queue
//! learner (the caller)       queue → remember → improve → newer policy
//! ```
//!
//! The policy in the environments is exchanged at the start of every rollout, and in the middle of one where it has
//! fallen too many versions behind. How far behind the experience was is told with every step of learning.
//!
//! A reward that changes is noticed by the learner's side, which pays anew what the old one had paid; so is what was
//! still on its way when it changed.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use plaudit_core::{Decision, Env, Obs, Policy, PolicyError, Reward, Seed};

use crate::training::Told;
use crate::{
    Experience, Learner, Metrics, OnPaid, Taken, Training, TrainingError, TrainingPlan, Whereabouts,
};

/// How long the learner waits for experience before it looks around again.
const PATIENCE: Duration = Duration::from_millis(20);

/// How acting and learning keep in touch.
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
    post: Arc<Post>,
    queue: Receiver<Report>,
    thread: Option<JoinHandle<Result<(), TrainingError>>>,
    whereabouts: Option<Whereabouts>,
    /// Steps of learning since the start.
    steps: u64,
    num_envs: usize,
    on_paid: Option<OnPaid<'static>>,
}

/// Somebody who looks at each step of the environments, on their thread.
pub trait Onlooker: Send {
    /// What the environments show before the first step.
    fn begin(&mut self, obs: &Obs);

    /// A step was taken. An error ends the training.
    fn step(&mut self, taken: &Taken) -> Result<(), TrainingError>;
}

/// Nobody looks.
#[derive(Debug, Clone, Copy, Default)]
pub struct Nobody;

impl Onlooker for Nobody {
    fn begin(&mut self, _: &Obs) {}

    fn step(&mut self, _: &Taken) -> Result<(), TrainingError> {
        Ok(())
    }
}

/// Where the newest policy waits to be fetched.
struct Post {
    policy: Mutex<Option<Box<dyn Policy>>>,
    version: AtomicU64,
    stop: AtomicBool,
}

/// What the environments' side tells of a rollout.
struct Report {
    experience: Experience,
    told: Told,
    whereabouts: Whereabouts,
    /// The most versions that the policy was behind when it acted.
    staleness: u64,
    took: Duration,
}

impl AsyncTraining {
    /// Sends environments and reward to a thread of their own, with the learner's first policy.
    pub fn start(
        env: Box<dyn Env>,
        reward: Arc<dyn Reward>,
        plan: AsyncPlan,
        seed: Seed,
        left: Option<Whereabouts>,
        learner: &dyn Learner,
        onlooker: Box<dyn Onlooker>,
    ) -> Self {
        let (send, queue) = channel();
        let post = Arc::new(Post {
            policy: Mutex::new(Some(learner.explorer())),
            version: AtomicU64::new(1),
            stop: AtomicBool::new(false),
        });
        let num_envs = env.spec().num_envs;
        let side = Side { env, reward: reward.clone(), plan, seed, left, post: post.clone(), onlooker };
        let thread = std::thread::spawn(move || side.act(&send));
        let (thread, whereabouts, on_paid) = (Some(thread), None, None);
        Self { plan, reward, post, queue, thread, whereabouts, steps: 0, num_envs, on_paid }
    }

    /// Tells somebody of every segment from now on, once, when it arrives at the learner.
    pub fn on_paid(&mut self, on_paid: OnPaid<'static>) {
        self.on_paid = Some(on_paid);
    }

    /// Where the environments were after the last rollout that arrived, for a later [`Self::start`].
    pub fn whereabouts(&self) -> Option<&Whereabouts> {
        self.whereabouts.as_ref()
    }

    /// One step of learning, from whatever has arrived. Waits only while there is too little to learn from, and asks
    /// `is_over` meanwhile; returns nothing when it is.
    pub fn step(
        &mut self,
        learner: &mut dyn Learner,
        is_over: impl Fn() -> bool,
    ) -> Result<Option<Metrics>, TrainingError> {
        let began = Instant::now();
        // A model that cannot be read just now is being written: the old one goes on judging.
        let has_changed = self.reward.refresh().unwrap_or(false);
        let mut arrived = Arrived { is_paid_by_another: has_changed, ..Arrived::default() };
        let learned = loop {
            self.receive(learner, &mut arrived)?;
            if std::mem::take(&mut arrived.is_paid_by_another) {
                *arrived.repaid.get_or_insert(0) += learner.repay(self.reward.as_ref())?;
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
            self.post.send(learner.explorer());
        }
        Ok(Some(self.metrics(arrived, learned, began.elapsed())))
    }

    /// Lets the environments finish their rollout, and takes in what is still in the queue.
    pub fn finish(mut self, learner: &mut dyn Learner) -> Result<Option<Whereabouts>, TrainingError> {
        self.post.stop.store(true, Ordering::Relaxed);
        self.join()?;
        self.receive(learner, &mut Arrived::default())?;
        Ok(self.whereabouts.take())
    }

    /// Takes in all that has arrived.
    fn receive(&mut self, learner: &mut dyn Learner, arrived: &mut Arrived) -> Result<(), TrainingError> {
        loop {
            match self.queue.try_recv() {
                Ok(report) => self.take(report, learner, arrived)?,
                Err(TryRecvError::Empty) => return Ok(()),
                Err(TryRecvError::Disconnected) => return self.join(),
            }
        }
    }

    /// Waits a little for something to arrive.
    fn wait(&mut self, learner: &mut dyn Learner, arrived: &mut Arrived) -> Result<(), TrainingError> {
        match self.queue.recv_timeout(PATIENCE) {
            Ok(report) => self.take(report, learner, arrived),
            Err(RecvTimeoutError::Timeout) => Ok(()),
            Err(RecvTimeoutError::Disconnected) => self.join(),
        }
    }

    fn take(
        &mut self,
        report: Report,
        learner: &mut dyn Learner,
        arrived: &mut Arrived,
    ) -> Result<(), TrainingError> {
        let Report { experience, told, whereabouts, staleness, took } = report;
        arrived.told.merge(told);
        arrived.rollouts += 1;
        arrived.staleness += staleness;
        arrived.stalest = arrived.stalest.max(staleness);
        arrived.acting += took;
        arrived.is_paid_by_another |= experience.reward.version != self.reward.version();
        self.whereabouts = Some(whereabouts);
        if let Some(on_paid) = &mut self.on_paid {
            on_paid(&experience.segment, &experience.reward);
        }
        Ok(learner.remember(experience)?)
    }

    /// Why the environments' side stopped, if it failed.
    fn join(&mut self) -> Result<(), TrainingError> {
        match self.thread.take().map(JoinHandle::join) {
            None | Some(Ok(Ok(()))) => Ok(()),
            Some(Ok(Err(error))) => Err(error),
            Some(Err(panic)) => std::panic::resume_unwind(panic),
        }
    }

    fn metrics(&self, arrived: Arrived, learned: Metrics, whole: Duration) -> Metrics {
        let mut metrics = Metrics::default();
        arrived.told.tell(&mut metrics);
        metrics.extend(learned);
        let rollouts = arrived.rollouts as f64;
        metrics.push("train/replay_channel_qsize", rollouts);
        if let Some(repaid) = arrived.repaid {
            metrics.push("train/replay_buffer/repaid", repaid as f64);
        }
        if arrived.rollouts > 0 {
            metrics.push("train/async/staleness", arrived.staleness as f64 / rollouts);
            metrics.push("train/async/staleness_max", arrived.stalest as f64);
            let steps = (self.plan.rollouts.steps * self.num_envs) as f64 * rollouts;
            metrics.push("time/env_steps_per_second", steps / arrived.acting.as_secs_f64());
        }
        metrics.push("time/step", whole.as_secs_f64());
        metrics
    }
}

impl Drop for AsyncTraining {
    fn drop(&mut self) {
        self.post.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // Whoever drops it unfinished has an error of their own to tell.
            let _ = thread.join();
        }
    }
}

/// What arrived during one step of learning.
#[derive(Default)]
struct Arrived {
    told: Told,
    rollouts: u64,
    staleness: u64,
    stalest: u64,
    acting: Duration,
    /// Whether some experience was paid by another version of the reward than the one in use.
    is_paid_by_another: bool,
    /// Steps that were paid anew, if any had to be.
    repaid: Option<usize>,
}

impl Post {
    fn send(&self, policy: Box<dyn Policy>) {
        if let Ok(mut newest) = self.policy.lock() {
            *newest = Some(policy);
            self.version.fetch_add(1, Ordering::Release);
        }
    }

    fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }
}

/// The environments' side.
struct Side {
    env: Box<dyn Env>,
    reward: Arc<dyn Reward>,
    plan: AsyncPlan,
    seed: Seed,
    left: Option<Whereabouts>,
    post: Arc<Post>,
    onlooker: Box<dyn Onlooker>,
}

impl Side {
    /// Acts until it is told to stop, or nobody listens any more.
    fn act(mut self, queue: &Sender<Report>) -> Result<(), TrainingError> {
        let plan = self.plan.rollouts;
        let (mut training, _) =
            Training::start(self.env.as_mut(), self.reward.as_ref(), plan, self.seed, self.left)?;
        let onlooker = &mut self.onlooker;
        onlooker.begin(training.obs());
        let mut policy = Fetched::new(self.post.clone(), self.plan.staleness_threshold);
        while !self.post.stop.load(Ordering::Relaxed) {
            let (began, mut told) = (Instant::now(), Told::default());
            policy.begin();
            let experience =
                training.play(&mut policy, &mut |taken: &Taken| onlooker.step(taken), &mut told)?;
            let report = Report {
                experience,
                told,
                whereabouts: training.whereabouts(),
                staleness: policy.staleness,
                took: began.elapsed(),
            };
            if queue.send(report).is_err() {
                return Ok(());
            }
        }
        Ok(())
    }
}

/// The newest policy there is, or nearly.
struct Fetched {
    post: Arc<Post>,
    bound: Option<u64>,
    policy: Option<Box<dyn Policy>>,
    version: u64,
    /// The most versions it was behind when it acted in this rollout.
    staleness: u64,
}

impl Fetched {
    fn new(post: Arc<Post>, bound: Option<u64>) -> Self {
        Self { post, bound, policy: None, version: 0, staleness: 0 }
    }

    /// A rollout begins.
    fn begin(&mut self) {
        self.fetch();
        self.staleness = 0;
    }

    fn fetch(&mut self) {
        let Ok(mut newest) = self.post.policy.lock() else { return };
        if let Some(policy) = newest.take() {
            self.policy = Some(policy);
            self.version = self.post.version();
        }
    }

    fn behind(&self) -> u64 {
        self.post.version() - self.version
    }
}

impl Policy for Fetched {
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
