//! The same training in one process and by workers, with the workers' fates.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use plaudit_cluster::link::threads::Switchboard;
use plaudit_cluster::link::{Endpoint, Identity, StreamSettings};
use plaudit_cluster::worker::{
    ActorSettings, CountedRollout, EnvWorker, LedgerLine, LocalPolicy, PolicySource, RemoteEnvironments,
    WorkerError, finish_envs, wait_for_envs,
};
use plaudit_core::{End, Env, Facts, Obs, Reward, RewardColumn, RewardError, Seed, Segment, Term};
use plaudit_rl::ppo::{Ppo, PpoSettings};
use plaudit_rl::{
    ActorCritic, ActorCriticSettings, ExplorerNetworks, Inputs, Learner, RemoteEnvs, RolloutState, StdKind,
    TakenStep, Training, TrainingError, TrainingPlan,
};

use super::lossy::Loss;
use super::point::Points;
use super::rollouts_apart::{Served, remote_policy, serve_rollouts};

const ENVS: usize = 6;

/// What is learned, and for how long.
#[derive(Clone, Copy)]
pub(crate) struct Task {
    is_discrete: bool,
    steps: u64,
    plan: TrainingPlan,
    /// How long a step of the workers' environments takes at least.
    pause: Duration,
}

/// When workers are killed.
#[derive(Clone, Default)]
pub(crate) struct Fates {
    /// For each environments' worker: after how many steps each of its processes dies; the next lives on.
    pub(crate) env_lives: Vec<Vec<u64>>,
    /// How long each of the actor's processes lives.
    pub(crate) actor_lives: Vec<Duration>,
    /// Rollouts in processes of their own; none: environments choose their actions themselves.
    pub(crate) rollouts: usize,
    /// For each of them: after how many passes through a policy each of its processes dies; the next lives on.
    pub(crate) rollout_lives: Vec<Vec<u64>>,
}

/// What came of a training, but for times.
pub(crate) struct Trained {
    pub(crate) weights: Vec<u32>,
    pub(crate) metrics: Vec<Vec<(String, u64)>>,
    pub(crate) ledger: Vec<LedgerLine>,
    pub(crate) restarts: usize,
    pub(crate) rollout_requests: usize,
    pub(crate) rollout_batches: usize,
    /// Every step, as whoever records episodes sees it.
    pub(crate) records: Vec<Vec<u32>>,
}

impl Trained {
    fn new(weights: Vec<u32>, metrics: Vec<Vec<(String, u64)>>) -> Self {
        Self {
            weights,
            metrics,
            ledger: vec![],
            restarts: 0,
            rollout_requests: 0,
            rollout_batches: 0,
            records: vec![],
        }
    }
}

impl Task {
    /// Points that are pushed left or right.
    pub(crate) fn choices(steps: u64) -> Self {
        let plan = TrainingPlan { steps: 16, rollouts: 2 };
        Self { is_discrete: true, steps, plan, pause: Duration::ZERO }
    }

    /// Points that are pushed as hard as one likes.
    pub(crate) fn numbers(steps: u64) -> Self {
        Self { is_discrete: false, ..Self::choices(steps) }
    }

    /// Slow enough to be killed.
    pub(crate) fn slow(self) -> Self {
        Self { pause: Duration::from_millis(4), ..self }
    }

    pub(crate) fn segments(&self) -> u64 {
        self.steps * self.plan.rollouts as u64
    }

    fn env(&self, first_row: usize, rows: usize) -> Points {
        Points::new(first_row, rows, self.is_discrete)
    }

    fn networks(&self) -> ActorCriticSettings {
        let env = self.env(0, 1);
        ActorCriticSettings {
            inputs: Inputs::States(env.spec().state_width),
            actions: env.spec().actions.clone(),
            chunk: 1,
            hidden: vec![16, 16],
            std_kind: StdKind::Independent,
            values: 1,
        }
    }

    fn explorers(&self) -> ExplorerNetworks {
        ExplorerNetworks::ActorCritic(Arc::new(ActorCritic::new(&self.networks())))
    }

    fn learner(&self) -> Ppo {
        Ppo::new(&self.networks(), PpoSettings { batch: 32, ..PpoSettings::default() }, Seed::new(5)).unwrap()
    }

    fn seed() -> Seed {
        Seed::new(11).purpose("train")
    }

    pub(crate) fn train_here(&self) -> Trained {
        let (mut env, reward, mut learner) = (self.env(0, ENVS), Smooth, self.learner());
        let (mut training, _) = Training::start(&mut env, &reward, self.plan, Self::seed(), None).unwrap();
        let mut records = Vec::new();
        let metrics = (0..self.steps).map(|_| {
            let callback = |taken: &TakenStep| {
                let TakenStep { actions, step, .. } = taken;
                records.push(record_of(actions, &step.obs, &step.reward, &step.end, &step.facts));
                Ok::<(), TrainingError>(())
            };
            compared(&training.step(&mut learner, callback).unwrap())
        });
        let metrics = metrics.collect();
        Trained { records, ..Trained::new(bits(&learner), metrics) }
    }

    pub(crate) fn train_by_workers(&self, rows: &[usize], loss: Loss, fates: Fates) -> Trained {
        assert_eq!(rows.iter().sum::<usize>(), ENVS);
        let (board, links) = (Switchboard::default(), AtomicU64::new(0));
        let names: Vec<Arc<str>> = (0..rows.len()).map(|rank| format!("env-{rank}").into()).collect();
        let connect = |name: &str, peers: &[Arc<str>]| {
            let (sender, receiver) = board.connect(name);
            let sender = loss.around(sender, links.fetch_add(1, Ordering::Relaxed));
            let settings = StreamSettings {
                resend_after: Duration::from_millis(40),
                dead_after: Duration::from_secs(2),
                window: 4,
            };
            let identity = Identity { version: "1.2.3".into(), peers: peers.to_vec(), settings };
            Endpoint::start(&identity, sender, receiver).unwrap()
        };
        let (done, served) = (AtomicBool::new(false), Served::default());
        let rollout_of = |rank: usize| match fates.rollouts {
            0 => None,
            rollouts => Some(format!("rollout-{}", rank * rollouts / rows.len())),
        };
        std::thread::scope(|scope| {
            for rollout in 0..fates.rollouts {
                let name = format!("rollout-{rollout}");
                let own = |rank: &usize| rollout_of(*rank).as_ref() == Some(&name);
                let clients: Vec<Arc<str>> =
                    (0..rows.len()).filter(own).map(|rank| names[rank].clone()).collect();
                let lives = fates.rollout_lives.get(rollout).cloned().unwrap_or_default();
                let (connect, served, done) = (&connect, &served, &done);
                scope.spawn(move || {
                    let connect = || connect(&name, &clients);
                    serve_rollouts(&connect, &clients, &|| self.explorers(), &lives, (served, done));
                });
            }
            let mut first_row = 0;
            for (rank, rows) in rows.iter().enumerate() {
                let lives = fates.env_lives.get(rank).cloned().unwrap_or_default();
                let (name, connect, done, first) = (names[rank].clone(), &connect, &done, first_row);
                let rollout = rollout_of(rank);
                scope.spawn(move || {
                    let peers: Vec<Arc<str>> =
                        std::iter::once("actor-0").chain(rollout.as_deref()).map(Arc::from).collect();
                    let connect = || connect(&name, &peers);
                    self.serve_envs(&connect, rollout.as_deref(), first..first + *rows, &lives, done);
                });
                first_row += rows;
            }
            let env_restarts = fates.env_lives.iter().map(Vec::len).sum::<usize>();
            let mut trained = self.act(&|| connect("actor-0", &names), &names, &fates.actor_lives);
            done.store(true, Ordering::Relaxed);
            trained.restarts += env_restarts;
            trained.rollout_requests = served.requests.load(Ordering::Relaxed);
            trained.rollout_batches = served.batches.load(Ordering::Relaxed);
            trained
        })
    }

    /// One environments' worker, in as many processes as it takes.
    fn serve_envs(
        &self,
        connect: &dyn Fn() -> Endpoint,
        rollout: Option<&str>,
        rows: Range<usize>,
        lives: &[u64],
        done: &AtomicBool,
    ) {
        let first_row = rows.start;
        for life in lives.iter().copied().map(Some).chain(std::iter::repeat(None)) {
            let left = Arc::new(AtomicU64::new(life.unwrap_or(u64::MAX)));
            let dying = left.clone();
            let on_step = Box::new(move || {
                let less = |left: u64| left.checked_sub(1);
                let _ = dying.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
            });
            let mut env = self.env(first_row, rows.len()).with(self.pause, on_step);
            let should_stop = || done.load(Ordering::Relaxed) || left.load(Ordering::Relaxed) == 0;
            let endpoint = connect();
            let mut local = LocalPolicy::new(self.explorers());
            // A killed process does not wait for its rollout either.
            let dying = left.clone();
            let is_dying = move || dying.load(Ordering::Relaxed) == 0;
            let spec = env.spec().clone();
            let mut remote = rollout.map(|rollout| remote_policy(endpoint.clone(), rollout, spec, is_dying));
            let policy: &mut dyn PolicySource = match &mut remote {
                Some(remote) => remote,
                None => &mut local,
            };
            let worker = EnvWorker {
                endpoint,
                actor: "actor-0".into(),
                env: &mut env,
                reward: &Smooth,
                policy,
                seed: Self::seed(),
                first_row: first_row as u64,
                should_stop: &should_stop,
            };
            let outcome = worker.run();
            if let (Ok(_), Some(remote)) = (&outcome, &remote) {
                remote.finish();
            }
            match outcome {
                Ok(_) => return,
                Err(WorkerError::Stopped) if done.load(Ordering::Relaxed) => return,
                Err(WorkerError::Stopped) => {}
                Err(error) => panic!("env from row {first_row}: {error}"),
            }
        }
    }

    /// The learner, in as many processes as it takes; each saves every second step.
    fn act(&self, connect: &dyn Fn() -> Endpoint, names: &[Arc<str>], lives: &[Duration]) -> Trained {
        let folder = tempfile::tempdir().unwrap();
        let ledger = Arc::new(Mutex::new(Vec::new()));
        let records = Arc::new(Mutex::new(Vec::new()));
        let mut trained = Trained::new(vec![], vec![]);
        let mut saved: Option<u64> = None;
        let lives = lives.iter().copied().map(Some).chain(std::iter::repeat(None));
        for (number, life) in lives.enumerate() {
            let endpoint = connect();
            let (mut learner, began) = (self.learner(), Instant::now());
            let at = |step: u64| folder.path().join(step.to_string());
            let mut state = None;
            if let Some(step) = saved {
                learner.restore(&at(step)).unwrap();
                state = RolloutState::read(&at(step)).unwrap();
            }
            let step = saved.unwrap_or(0);
            trained.metrics.truncate(step as usize);
            let should_stop = move || life.is_some_and(|life| began.elapsed() > life);
            let found = wait_for_envs(&endpoint, names, Duration::from_secs(20), &|| false).unwrap();
            let (lines, recorded) = (ledger.clone(), records.clone());
            let settings = ActorSettings {
                keep_frames: true,
                give_up_after: Duration::from_secs(20),
                next_segment: vec![step * self.plan.rollouts as u64; names.len()],
                on_notice: Box::new(|_| {}),
                on_rollout: Some(Box::new(move |rollout| {
                    record(rollout, &mut recorded.lock().unwrap());
                    Ok(())
                })),
                on_ledger: Box::new(move |line| {
                    lines.lock().unwrap().push(line.clone());
                    Ok(())
                }),
                should_stop: Box::new(should_stop),
            };
            let (spec, context, peers) = found;
            let envs = RemoteEnvs { num_envs: spec.num_envs, action_width: spec.actions.width(), context };
            let remote = RemoteEnvironments::new(
                endpoint.clone(),
                (&spec, context, peers),
                Arc::new(Smooth),
                settings,
            );
            let mut training = Training::start_remote(Box::new(remote.unwrap()), envs, self.plan, state);
            let mut died = false;
            for step in step + 1..=self.steps {
                let callback = |_: &TakenStep| Ok::<(), TrainingError>(());
                match training.step(&mut learner, callback) {
                    Ok(metrics) => trained.metrics.push(compared(&metrics)),
                    Err(TrainingError::Remote(error)) if error.to_string() == "stopped" => {
                        died = true;
                        break;
                    }
                    Err(error) => panic!("{error}"),
                }
                if step % 2 == 0 {
                    std::fs::create_dir_all(at(step)).unwrap();
                    learner.save(&at(step)).unwrap();
                    training.rollout_state().write(&at(step)).unwrap();
                    saved = Some(step);
                }
            }
            if !died {
                finish_envs(&endpoint, names);
                trained.weights = bits(&learner);
                trained.ledger = ledger.lock().unwrap().clone();
                trained.records = records.lock().unwrap().clone();
                trained.restarts = number;
                return trained;
            }
        }
        unreachable!("the last life does not end")
    }
}

/// The steps of a rollout, each as [`record_of`] writes it.
fn record(rollout: CountedRollout<'_>, records: &mut Vec<Vec<u32>>) {
    let segment = &rollout.experience.segment;
    assert_eq!(rollout.facts.len(), segment.steps());
    let batch = segment.batch();
    for (t, facts) in rollout.facts.iter().enumerate() {
        let cells = t * batch..(t + 1) * batch;
        let (reward, end) = (&segment.env_reward[cells.clone()], &segment.end[cells]);
        records.push(record_of(&segment.actions[t], &segment.obs[t + 1], reward, end, facts));
    }
}

/// All that a step did, in bits.
fn record_of(actions: &[f32], obs: &Obs, reward: &[f32], end: &[End], facts: &Facts) -> Vec<u32> {
    let facts = facts.iter().flat_map(|(name, values)| {
        assert_eq!(&**name, "place");
        values
    });
    let floats = actions.iter().chain(&obs.state).chain(reward).chain(facts).map(|value| value.to_bits());
    let pixels = obs.cameras.iter().flat_map(|(_, frames)| &frames.pixels).map(|pixel| u32::from(*pixel));
    floats.chain(pixels).chain(end.iter().map(|end| u32::from(end.is_end()))).collect()
}

fn compared(metrics: &plaudit_rl::Metrics) -> Vec<(String, u64)> {
    let kept = metrics.iter().filter(|(name, _)| !name.starts_with("time/"));
    kept.map(|(name, value)| (name.to_string(), value.to_bits())).collect()
}

fn bits(learner: &dyn Learner) -> Vec<u32> {
    let weights = learner.weights();
    let values = weights.iter().flat_map(|(_, array)| array.to_f32().unwrap());
    values.map(f32::to_bits).collect()
}

/// The environment's reward, and the mean of the last observations of the episode, which reach back before the segment.
struct Smooth;

const WINDOW: usize = 3;

impl Reward for Smooth {
    fn label(&self, segment: &Segment) -> Result<RewardColumn, RewardError> {
        let mut means = Vec::new();
        for t in 0..segment.steps() {
            for b in 0..segment.batch() {
                let seen = seen_before(segment, t, b);
                means.push(seen.iter().sum::<f32>() / seen.len() as f32);
            }
        }
        let success: Vec<bool> = means.iter().map(|mean| *mean > 0.02).collect();
        let terms = vec![
            Term { name: "env".into(), weight: 1.0, values: segment.env_reward.clone() },
            Term { name: "smooth".into(), weight: 0.5, values: means },
        ];
        Ok(RewardColumn { success: Some(success), ..RewardColumn::of_terms(terms, 0)? })
    }

    fn context(&self) -> usize {
        WINDOW - 1
    }
}

/// The first state of the last observations of row `b`'s episode up to step `t`.
fn seen_before(segment: &Segment, t: usize, b: usize) -> Vec<f32> {
    let mut states = Vec::new();
    for at in (0..=t).rev() {
        states.push(segment.obs[at].row(b).state[0]);
        if states.len() == WINDOW || (at > 0 && segment.end[segment.at(at - 1, b)].is_end()) {
            return states;
        }
    }
    let newest = segment.context.iter().rev().take(segment.context_rows(b));
    states.extend(newest.map(|obs| obs.row(b).state[0]));
    states.truncate(WINDOW);
    states
}
