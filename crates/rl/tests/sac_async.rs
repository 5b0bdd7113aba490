//! Asynchronous training, and soft actor-critic resumed from a checkpoint.

#![allow(clippy::unwrap_used)] // a test that cannot go on says so by stopping

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use plaudit_core::{
    ActionHistory, ActionSpace, End, Env, EnvError, EnvReward, EnvSpec, FramesNeeded, Intervention, Obs,
    Reward, RewardColumn, RewardError, Schedule, Seed, Segment, Step, Term,
};
use plaudit_nn::dense::AdamSettings;
use plaudit_rl::replay::{Amount, RelabelSettings, ReplaySettings};
use plaudit_rl::sac::{
    Agg, EncoderLoss, Optim, Sac, SacSettings, SoftNetworkSettings, TemperatureKind, TemperatureSettings,
};
use plaudit_rl::{
    AsyncPlan, AsyncTraining, Bootstrap, Learner, NoCallback, RolloutState, Training, TrainingError,
    TrainingPlan,
};

/// A point on a line that is rewarded for being near the middle; episodes last ten steps.
struct Line {
    spec: EnvSpec,
    at: Vec<f32>,
    steps: usize,
}

impl Line {
    fn new(rows: usize) -> Self {
        let spec = EnvSpec {
            id: "line".into(),
            num_envs: rows,
            state_width: 1,
            state_parts: vec![],
            actions: ActionSpace::Continuous { low: vec![-1.0], high: vec![1.0] },
            cameras: vec![],
            max_episode_steps: Some(10),
            control_hz: 1.0,
        };
        Self { spec, at: Vec::new(), steps: 0 }
    }

    fn place(&mut self) {
        self.at = (0..self.spec.num_envs).map(|row| if row % 2 == 0 { 2.0 } else { -2.0 }).collect();
        self.steps = 0;
    }
}

impl Env for Line {
    fn spec(&self) -> &EnvSpec {
        &self.spec
    }

    fn reset(&mut self, _: Seed) -> Result<Obs, EnvError> {
        self.place();
        Ok(Obs::from_state(self.at.len(), self.at.clone()).unwrap())
    }

    fn step(&mut self, actions: &[f32]) -> Result<Step, EnvError> {
        self.steps += 1;
        self.at.iter_mut().zip(actions).for_each(|(at, action)| *at = (*at + action).clamp(-3.0, 3.0));
        let reward = self.at.iter().map(|at| -at.abs()).collect();
        let success = self.at.iter().map(|at| at.abs() < 0.3).collect();
        let ended = self.steps == 10;
        let end = vec![if ended { End::Truncated } else { End::No }; self.at.len()];
        let mut last = Vec::new();
        if ended {
            let seen = |(row, at): (usize, &f32)| (row, Obs::from_state(1, vec![*at]).unwrap());
            last = self.at.iter().enumerate().map(seen).collect();
            self.place();
        }
        let obs = Obs::from_state(self.at.len(), self.at.clone()).unwrap();
        Ok(Step { obs, reward, end, success, last, facts: vec![], interventions: vec![] })
    }

    fn set_frames_needed(&mut self, _: FramesNeeded) {}

    fn fast_forward(&mut self, seed: Seed, past: &[ActionHistory]) -> Result<Option<Obs>, EnvError> {
        let mut obs = self.reset(seed)?;
        for step in 0..past[0].actions.len() {
            obs = self.step(&past.iter().map(|past| past.actions[step]).collect::<Vec<_>>())?.obs;
        }
        Ok(Some(obs))
    }
}

fn learner() -> Sac {
    let line = Line::new(1);
    let size = Amount::Rollouts(200);
    let replay = ReplaySettings {
        keep: size,
        window: size,
        chunk: 1,
        cameras: Vec::new(),
        relabel: RelabelSettings::default(),
    };
    let optim = Optim { schedule: Schedule::constant(3e-3), adam: AdamSettings::default(), clip_grad: 10.0 };
    let settings = SacSettings {
        networks: SoftNetworkSettings {
            policy_hidden: vec![16; 2],
            critic_hidden: vec![16; 2],
            ..SoftNetworkSettings::mlp(1, line.spec.actions.clone(), 1, 2)
        },
        gamma: 0.9,
        bootstrap: Bootstrap::Standard,
        agg_q: Agg::Min,
        actor_agg_q: Agg::Min,
        critic_subsample: None,
        backup_entropy: true,
        target_range: None,
        scale_states: false,
        average_policy: false,
        encoder_loss: EncoderLoss::Critics,
        bc_regularizer: None,
        tau: 0.02,
        target_update_freq: 1,
        critic_actor_ratio: 1,
        train_actor_steps: 0,
        shift: None,
        temperature: TemperatureSettings {
            kind: TemperatureKind::Softplus,
            initial: 0.1,
            target_entropy: -1.0,
            lr: 3e-3,
            clip_grad: 10.0,
        },
        policy_optim: optim,
        critic_optim: optim,
        batch_size: 64,
        updates: 4,
        replay,
        min_replay: Amount::Rollouts(2),
        demos: None,
    };
    Sac::new(settings, Vec::new(), Seed::new(1)).unwrap()
}

const PLAN: TrainingPlan = TrainingPlan { steps: 5, rollouts: 1 };

/// The mean distance from the middle over the last half of an episode, acting greedily.
fn distance(learner: &dyn Learner) -> f32 {
    let mut line = Line::new(2);
    let mut rollout = plaudit_rl::Rollout::start(&mut line, Seed::new(1), 0).unwrap();
    let played = rollout.play(learner.greedy().as_mut(), 9).unwrap();
    let late = &played.segment.env_reward[10..];
    -late.iter().sum::<f32>() / late.len() as f32
}

#[test]
fn it_learns_and_goes_on_exactly_where_it_was_saved() {
    let (mut line, mut sac) = (Line::new(4), learner());
    let before = distance(&sac);
    let (mut training, _) = Training::start(&mut line, &EnvReward, PLAN, Seed::new(3), None).unwrap();
    let mut learn = |sac: &mut Sac, steps: usize| {
        for _ in 0..steps {
            training.step::<TrainingError>(sac, |_| Ok(())).unwrap();
        }
    };
    learn(&mut sac, 150);
    let folder = tempfile::tempdir().unwrap();
    sac.save(folder.path()).unwrap();
    let mut restored = learner();
    restored.restore(folder.path()).unwrap();
    for _ in 0..5 {
        assert_eq!(sac.improve().unwrap(), restored.improve().unwrap());
    }
    assert_eq!(sac.weights(), restored.weights());
    learn(&mut sac, 50);
    let after = distance(&sac);
    assert!(before > 1.0 && after < 0.5, "{before} before, {after} after");
}

/// Gives the environment's reward to the first `left` rollouts, and fails after that.
struct FailsAfter {
    left: AtomicU64,
}

impl Reward for FailsAfter {
    fn label(&self, segment: &Segment) -> Result<RewardColumn, RewardError> {
        let left = self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        left.map_err(|_| RewardError::Backend("the server is gone".into()))?;
        EnvReward.label(segment)
    }
}

#[test]
fn a_reward_that_fails_within_a_step_costs_nothing_but_that_step() {
    let plan = TrainingPlan { steps: 7, rollouts: 3 };
    let steps = |sac: &mut Sac, reward: &dyn Reward, from: Option<RolloutState>, steps: usize| {
        let (mut line, resumes) = (Line::new(4), from.is_some());
        let (mut training, restored) = Training::start(&mut line, reward, plan, Seed::new(3), from).unwrap();
        assert_eq!(restored, resumes);
        let done = (0..steps).map_while(|_| training.step::<TrainingError>(sac, |_| Ok(())).ok()).count();
        (done, training.rollout_state())
    };
    let mut whole = learner();
    steps(&mut whole, &EnvReward, None, 6);
    for labelled in [6, 7, 8] {
        let mut stopped = learner();
        let reward = FailsAfter { left: AtomicU64::new(labelled) };
        let (done, state) = steps(&mut stopped, &reward, None, 6);
        assert_eq!(done, 2, "the third step fails");
        let folder = tempfile::tempdir().unwrap();
        stopped.save(folder.path()).unwrap();
        state.write(folder.path()).unwrap();
        let mut resumed = learner();
        resumed.restore(folder.path()).unwrap();
        let state = RolloutState::read(folder.path()).unwrap();
        steps(&mut resumed, &EnvReward, state, 4);
        let replayed = |sac: &Sac| (sac.replay().all().actions, sac.replay().all().rewards);
        assert_eq!(replayed(&resumed), replayed(&whole), "after {labelled} rollouts");
        assert_eq!(resumed.weights(), whole.weights(), "after {labelled} rollouts");
    }
}

#[test]
fn environments_go_on_while_the_learner_learns() {
    let mut sac = learner();
    let plan = AsyncPlan { rollouts: PLAN, weight_sync_interval: 1, staleness_threshold: Some(2) };
    let line = Box::new(Line::new(4));
    let mut training =
        AsyncTraining::start(line, Arc::new(EnvReward), plan, Seed::new(3), None, &sac, Box::new(NoCallback));
    let mut arrived = 0.0;
    for _ in 0..50 {
        let metrics = training.step(&mut sac, || false).unwrap().unwrap();
        arrived += metrics.get("train/replay_channel_qsize").unwrap();
        if let Some(stalest) = metrics.get("train/async/staleness_max") {
            assert!(
                stalest <= 3.0,
                "bounded, but for a version sent between the check and the act: {stalest}"
            );
        }
    }
    let rollout_state = training.finish(&mut sac).unwrap().pop().unwrap();
    assert!(arrived >= 2.0 && rollout_state.steps >= 5 * arrived as u64);
    assert!(sac.replay().rollouts() as f64 >= arrived.min(200.0));
}

/// Its reward at every step is its version, which is `written` elsewhere and read by `refresh`.
struct Rewritten {
    written: AtomicU64,
    read: AtomicU64,
}

impl Reward for Rewritten {
    fn label(&self, segment: &Segment) -> Result<RewardColumn, RewardError> {
        let version = self.version();
        let values = vec![version as f32; segment.end.len()];
        RewardColumn::of_terms(vec![Term { name: "version".into(), weight: 1.0, values }], version)
    }

    fn version(&self) -> u64 {
        self.read.load(Ordering::SeqCst)
    }

    fn refresh(&self) -> Result<bool, RewardError> {
        let written = self.written.load(Ordering::SeqCst);
        Ok(self.read.swap(written, Ordering::SeqCst) != written)
    }
}

#[test]
fn a_reward_that_changes_relabels_what_is_kept_and_what_is_on_its_way() {
    let mut sac = learner();
    let reward = Arc::new(Rewritten { written: AtomicU64::new(1), read: AtomicU64::new(1) });
    let plan = AsyncPlan { rollouts: PLAN, weight_sync_interval: 1, staleness_threshold: None };
    let line = Box::new(Line::new(4));
    let mut training =
        AsyncTraining::start(line, reward.clone(), plan, Seed::new(3), None, &sac, Box::new(NoCallback));
    let mut relabelled = 0.0;
    for version in 2..6 {
        for _ in 0..5 {
            training.step(&mut sac, || false).unwrap().unwrap();
        }
        // On a busy machine the environments may not have come to their first rollout yet.
        while sac.replay().all().rewards.is_empty() {
            training.step(&mut sac, || false).unwrap().unwrap();
        }
        reward.written.store(version, Ordering::SeqCst);
        let metrics = training.step(&mut sac, || false).unwrap().unwrap();
        // None are left to relabel where the environments refilled the replay between the change and this step.
        relabelled += metrics.get("train/replay_buffer/relabelled").unwrap();
        assert_eq!(
            sac.replay().labelled_by_others(version),
            0,
            "every transition is labelled by version {version}"
        );
        assert!(sac.replay().all().rewards.iter().all(|&reward| reward == version as f32));
    }
    assert!(relabelled > 0.0);
}

#[test]
fn the_callback_gets_every_labelled_segment() {
    let mut sac = learner();
    let plan = AsyncPlan { rollouts: PLAN, weight_sync_interval: 1, staleness_threshold: None };
    let line = Box::new(Line::new(4));
    let mut training =
        AsyncTraining::start(line, Arc::new(EnvReward), plan, Seed::new(3), None, &sac, Box::new(NoCallback));
    let calls = Arc::new(AtomicU64::new(0));
    let counts = calls.clone();
    training.on_labelled(Box::new(move |segment, column| {
        assert_eq!(column.total.len(), segment.end.len());
        counts.fetch_add(1, Ordering::SeqCst);
    }));
    let mut arrived = 0.0;
    for _ in 0..10 {
        let metrics = training.step(&mut sac, || false).unwrap().unwrap();
        arrived += metrics.get("train/replay_channel_qsize").unwrap();
    }
    assert!(arrived > 0.0);
    assert_eq!(calls.load(Ordering::SeqCst) as f64, arrived, "each that arrived, once");
}

#[test]
fn rlpd_without_demonstrations_is_refused_before_the_first_step() {
    let settings = SacSettings {
        demos: Some(plaudit_rl::sac::DemoSettings {
            replay: learner().settings().replay.clone(),
            min: Amount::Rollouts(1),
            self_imitation_min_reward: None,
        }),
        ..learner().settings().clone()
    };
    let Err(error) = Sac::new(settings, Vec::new(), Seed::new(1)) else {
        panic!("there are no demonstrations")
    };
    assert!(error.to_string().contains("there are 0 where 1 are needed"), "{error}");
}

#[test]
fn what_a_person_does_is_kept_as_a_demonstration_too() {
    /// A person holds every second row still from the third step of an episode on.
    struct Helped(Line);
    impl Env for Helped {
        fn spec(&self) -> &EnvSpec {
            self.0.spec()
        }
        fn reset(&mut self, seed: Seed) -> Result<Obs, EnvError> {
            self.0.reset(seed)
        }
        fn step(&mut self, actions: &[f32]) -> Result<Step, EnvError> {
            let helps = |row: usize, steps: usize| row % 2 == 1 && steps >= 3;
            let (rows, steps) = (self.0.at.len(), self.0.steps + 1);
            let done: Vec<f32> =
                (0..rows).map(|row| if helps(row, steps) { 0.0 } else { actions[row] }).collect();
            let helped = (0..rows).filter(|row| helps(*row, steps));
            let interventions =
                helped.map(|row| Intervention { row, action: vec![0.0], by_person: true }).collect();
            Ok(Step { interventions, ..self.0.step(&done)? })
        }
        fn set_frames_needed(&mut self, _: FramesNeeded) {}
    }
    let settings = learner().settings().clone();
    let demos = Some(plaudit_rl::sac::DemoSettings {
        replay: settings.replay.clone(),
        min: Amount::Rollouts(1),
        self_imitation_min_reward: None,
    });
    let demo = {
        let mut line = Line::new(1);
        let mut rollout = plaudit_rl::Rollout::start(&mut line, Seed::new(1), 0).unwrap();
        let segment = rollout.play(learner().greedy().as_mut(), 10).unwrap().segment;
        let RewardColumn { total: reward, version, .. } = EnvReward.label(&segment).unwrap();
        plaudit_rl::replay::NewRollout {
            segment,
            starts_chunk: Vec::new(),
            invalid: Vec::new(),
            reward,
            version,
        }
    };
    let mut sac = Sac::new(SacSettings { demos, ..settings }, vec![demo], Seed::new(1)).unwrap();
    let mut env = Helped(Line::new(4));
    let (mut training, _) = Training::start(&mut env, &EnvReward, PLAN, Seed::new(3), None).unwrap();
    let mut logged = Vec::new();
    for _ in 0..4 {
        let metrics = training.step::<TrainingError>(&mut sac, |_| Ok(())).unwrap();
        logged.extend(metrics.get("train/demo_buffer/total_samples"));
    }
    // Steps 3 to 10 of two episodes, of two of four rows, beside the ten to start from; learning begins with the second
    // rollout of five steps.
    assert_eq!(logged, [10.0 + 16.0, 10.0 + 22.0, 10.0 + 32.0]);
    let kept = sac.replay().all();
    let held = kept.actions.iter().filter(|&&action| action == 0.0).count();
    assert_eq!(held, 32, "the replay holds what was done, not what the policy wanted");
}

#[test]
fn own_successes_are_demonstrations_too_and_never_evict_those_that_were_given() {
    let given = learner_from_demonstration();
    let demos = given.settings().demos.clone().map(|demos| plaudit_rl::sac::DemoSettings {
        replay: ReplaySettings { keep: Amount::Rollouts(3), window: Amount::Rollouts(3), ..demos.replay },
        self_imitation_min_reward: Some(-100.0),
        ..demos
    });
    let learner = || {
        let settings = SacSettings { demos: demos.clone(), ..given.settings().clone() };
        Sac::new(settings, vec![demonstration()], Seed::new(1)).unwrap()
    };
    let mut sac = learner();
    let mut env = Line::new(4);
    let (mut training, _) = Training::start(&mut env, &EnvReward, PLAN, Seed::new(3), None).unwrap();
    let mut metrics = plaudit_rl::Metrics::default();
    for _ in 0..6 {
        metrics = training.step::<TrainingError>(&mut sac, |_| Ok(())).unwrap();
    }
    // Three episodes of four rows have ended, and three are kept beside the one that was given.
    assert_eq!(metrics.get("train/demo_buffer/own_successes"), Some(3.0));
    assert_eq!(metrics.get("train/demo_buffer/num_trajectories"), Some(4.0));

    let folder = tempfile::tempdir().unwrap();
    sac.save(folder.path()).unwrap();
    let mut restored = learner();
    restored.restore(folder.path()).unwrap();
    let [ours, expected] = [&mut restored, &mut sac].map(|sac| sac.improve().unwrap());
    assert_eq!(ours.get("train/demo_buffer/own_successes"), Some(3.0));
    assert_eq!(ours, expected, "it goes on with the same batches");
}

/// A line as a robot: every second episode breaks at its fourth step, and a person acts from the third step of every
/// episode on. After `waits_at` steps it waits until it is told to stop.
struct Robot {
    line: Line,
    episodes: u64,
    taken: u64,
    waits_at: u64,
    stop: Arc<AtomicBool>,
}

impl Robot {
    fn new(waits_at: u64) -> Self {
        Self { line: Line::new(1), episodes: 0, taken: 0, waits_at, stop: Arc::default() }
    }
}

impl Env for Robot {
    fn spec(&self) -> &EnvSpec {
        self.line.spec()
    }

    fn reset(&mut self, seed: Seed) -> Result<Obs, EnvError> {
        self.line.reset(seed)
    }

    fn step(&mut self, actions: &[f32]) -> Result<Step, EnvError> {
        self.taken += 1;
        while self.taken > self.waits_at && !self.stop.load(Ordering::SeqCst) {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let mut step = self.line.step(actions)?;
        let number = if step.end[0].is_end() { 10 } else { self.line.steps };
        if number >= 3 {
            step.interventions = vec![Intervention { row: 0, action: actions.to_vec(), by_person: true }];
        }
        if self.episodes % 2 == 1 && number == 4 {
            step.end = vec![End::Truncated];
            step.last = vec![(0, Obs::from_state(1, vec![self.line.at[0]]).unwrap())];
            step.facts = vec![(plaudit_core::INVALID_FACT.into(), vec![1.0])];
            self.line.place();
            step.obs = Obs::from_state(1, self.line.at.clone()).unwrap();
        }
        self.episodes += u64::from(step.end[0].is_end());
        Ok(step)
    }

    fn set_frames_needed(&mut self, _: FramesNeeded) {}

    fn may_break(&self) -> bool {
        true
    }

    fn stopper(&self) -> Option<Arc<dyn Fn() + Send + Sync>> {
        let stop = self.stop.clone();
        Some(Arc::new(move || stop.store(true, Ordering::SeqCst)))
    }
}

/// A learner with a demonstration of ten steps.
fn learner_from_demonstration() -> Sac {
    let settings = learner().settings().clone();
    let demos = Some(plaudit_rl::sac::DemoSettings {
        replay: settings.replay.clone(),
        min: Amount::Rollouts(1),
        self_imitation_min_reward: None,
    });
    Sac::new(SacSettings { demos, ..settings }, vec![demonstration()], Seed::new(1)).unwrap()
}

/// A demonstration of ten steps.
fn demonstration() -> plaudit_rl::replay::NewRollout {
    let mut line = Line::new(1);
    let mut rollout = plaudit_rl::Rollout::start(&mut line, Seed::new(1), 0).unwrap();
    let segment = rollout.play(learner().greedy().as_mut(), 10).unwrap().segment;
    let RewardColumn { total: reward, version, .. } = EnvReward.label(&segment).unwrap();
    let (starts_chunk, invalid) = (Vec::new(), Vec::new());
    plaudit_rl::replay::NewRollout { segment, starts_chunk, invalid, reward, version }
}

/// Learns beside a robot that waits after 200 steps, until all its episodes before that have arrived; returns the sums of
/// all metrics, and the last ones.
fn learn_beside_robot(sac: &mut Sac, reward: Arc<dyn Reward>) -> (f64, f64, plaudit_rl::Metrics) {
    let plan = AsyncPlan { rollouts: PLAN, weight_sync_interval: 1, staleness_threshold: None };
    let robot = Box::new(Robot::new(200));
    let mut training =
        AsyncTraining::start(robot, reward, plan, Seed::new(3), None, sac, Box::new(NoCallback));
    let (mut sound, mut retries) = (0.0, 0.0);
    let began = std::time::Instant::now();
    loop {
        let metrics = training.step(sac, || false).unwrap().unwrap();
        sound += metrics.get("env/num_trajectories").unwrap();
        retries += metrics.get("reward/retries").unwrap_or(0.0);
        // A sound episode of ten steps and a broken one of four: 14 such pairs, and the beginning of the next.
        if metrics.get("env/total_steps") == Some(196.0) {
            return (sound, retries, metrics);
        }
        assert!(began.elapsed() < std::time::Duration::from_secs(60), "{metrics:?}");
    }
}

#[test]
fn what_a_robot_breaks_off_is_never_learned_from() {
    let mut sac = learner_from_demonstration();
    let (sound, retries, last) = learn_beside_robot(&mut sac, Arc::new(EnvReward));
    assert_eq!((sound, retries), (14.0, 0.0));
    assert_eq!(sac.replay().transitions(), 140, "whole episodes of ten steps, although a rollout has five");
    assert_eq!(last.get("train/demo_buffer/total_samples"), Some(10.0 + 14.0 * 8.0));
    assert!(last.get("env/invalid_episodes").is_some());
}

#[test]
fn a_robot_waits_for_a_reward_that_is_gone() {
    /// Works once, fails twice, and works again.
    struct GoneForAWhile(AtomicU64);
    impl Reward for GoneForAWhile {
        fn label(&self, segment: &Segment) -> Result<RewardColumn, RewardError> {
            match self.0.fetch_add(1, Ordering::SeqCst) {
                1 | 2 => Err(RewardError::Backend("the server is gone".into())),
                _ => EnvReward.label(segment),
            }
        }
    }
    let mut sac = learner_from_demonstration();
    let (sound, retries, _) = learn_beside_robot(&mut sac, Arc::new(GoneForAWhile(AtomicU64::new(0))));
    assert_eq!((sound, retries), (14.0, 2.0));
    assert_eq!(sac.replay().transitions(), 140, "no episode is lost");
}

#[test]
fn a_reward_that_never_worked_ends_the_training_of_a_robot_too() {
    let mut sac = learner_from_demonstration();
    let plan = AsyncPlan { rollouts: PLAN, weight_sync_interval: 1, staleness_threshold: None };
    let reward = Arc::new(FailsAfter { left: AtomicU64::new(0) });
    let robot = Box::new(Robot::new(u64::MAX));
    let mut training =
        AsyncTraining::start(robot, reward, plan, Seed::new(3), None, &sac, Box::new(NoCallback));
    let error = loop {
        match training.step(&mut sac, || false) {
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    assert!(error.to_string().contains("the server is gone"), "{error}");
}
