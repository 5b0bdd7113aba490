//! Soft actor-critic beside environments of other workers, each at its own pace.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use plaudit_cluster::link::threads::Switchboard;
use plaudit_cluster::link::{Endpoint, Identity, StreamSettings};
use plaudit_cluster::worker::{
    ActorSettings, AsyncEnvironments, EnvWorker, LedgerLine, LocalPolicy, PolicySource, WorkerError,
    finish_envs, verify, wait_for_envs,
};
use plaudit_core::{Env, EnvReward, Schedule, Seed};
use plaudit_nn::dense::AdamSettings;
use plaudit_rl::replay::{Amount, RelabelSettings, ReplaySettings};
use plaudit_rl::sac::{
    Agg, EncoderLoss, Optim, Sac, SacSettings, SoftNetworkSettings, SoftNetworks, TemperatureKind,
    TemperatureSettings,
};
use plaudit_rl::{
    AsyncPlan, AsyncTraining, Bootstrap, ExplorerNetworks, RemoteEnvs, RolloutState, TrainingPlan,
};

use super::point::Points;
use super::rollouts_apart::{Compared, Served, remote_policy, serve_rollouts};

fn networks() -> SoftNetworkSettings {
    let actions = Points::new(0, 1, false).spec().actions.clone();
    SoftNetworkSettings {
        policy_hidden: vec![16; 2],
        critic_hidden: vec![16; 2],
        ..SoftNetworkSettings::mlp(2, actions, 1, 2)
    }
}

fn learner() -> Sac {
    let size = Amount::Rollouts(2000);
    let relabel = RelabelSettings::default();
    let replay = ReplaySettings { keep: size, window: size, chunk: 1, cameras: Vec::new(), relabel };
    let optim = Optim { schedule: Schedule::constant(3e-3), adam: AdamSettings::default(), clip_grad: 10.0 };
    let settings = SacSettings {
        networks: networks(),
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
        batch_size: 32,
        updates: 1,
        replay,
        min_replay: Amount::Rollouts(2),
        demos: None,
    };
    Sac::new(settings, Vec::new(), Seed::new(1)).unwrap()
}

fn explorers() -> ExplorerNetworks {
    ExplorerNetworks::Soft(Arc::new(SoftNetworks::new(&networks()).unwrap()))
}

const ROWS: [usize; 2] = [2, 1];
const BOUND: u64 = 3;

fn connect(board: &Switchboard, name: &str, peers: &[Arc<str>]) -> Endpoint {
    let (sender, receiver) = board.connect(name);
    let settings = StreamSettings { resend_after: Duration::from_millis(40), ..StreamSettings::default() };
    let identity = Identity { version: "1".into(), peers: peers.to_vec(), settings };
    Endpoint::start(&identity, sender, receiver).unwrap()
}

/// A worker that dies after so many steps, again and again, and is started again. Where actions are chosen elsewhere, they are
/// compared with what would be chosen here.
fn serve(board: &Switchboard, rank: usize, life: u64, rollout: Option<&str>, done: &AtomicBool) {
    let first_row = ROWS[..rank].iter().sum::<usize>();
    while !done.load(Ordering::Relaxed) {
        let left = Arc::new(AtomicU64::new(life));
        let dying = left.clone();
        let on_step = Box::new(move || {
            let _ = dying.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        });
        let mut env = Points::new(first_row, ROWS[rank], false).with(Duration::from_millis(1), on_step);
        let peers: Vec<Arc<str>> = std::iter::once("actor-0").chain(rollout).map(Arc::from).collect();
        let endpoint = connect(board, &format!("env-{rank}"), &peers);
        let mut local = LocalPolicy::new(explorers());
        let mut compared;
        let policy: &mut dyn PolicySource = match rollout {
            Some(rollout) => {
                let dying = left.clone();
                let is_dying = move || dying.load(Ordering::Relaxed) == 0;
                let remote = remote_policy(endpoint.clone(), rollout, env.spec().clone(), is_dying);
                compared = Compared { local, remote, version: None };
                &mut compared
            }
            None => &mut local,
        };
        let worker = EnvWorker {
            endpoint,
            actor: "actor-0".into(),
            env: &mut env,
            reward: &EnvReward,
            policy,
            seed: Seed::new(4),
            first_row: first_row as u64,
            should_stop: &|| done.load(Ordering::Relaxed) || left.load(Ordering::Relaxed) == 0,
        };
        match worker.run() {
            Ok(_) => return,
            Err(WorkerError::Stopped) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

/// What a stretch of learning left: where the environments are, and how stale experience was at most.
struct Left {
    states: Vec<RolloutState>,
    staleness: f64,
    env_steps: u64,
}

fn learn(
    board: &Switchboard,
    sac: &mut Sac,
    from: Option<(Vec<RolloutState>, Vec<u64>)>,
    steps: usize,
    ledger: &Arc<Mutex<Vec<LedgerLine>>>,
) -> Left {
    let names: Vec<Arc<str>> = (0..ROWS.len()).map(|rank| format!("env-{rank}").into()).collect();
    let endpoint = connect(board, "actor-0", &names);
    let (spec, context, peers) =
        wait_for_envs(&endpoint, &names, Duration::from_secs(20), &|| false).unwrap();
    assert_eq!(spec.num_envs, 3);
    let (states, next_segment) = match from {
        Some((states, next)) => (states.into_iter().map(Some).collect(), next),
        None => (vec![None; 2], vec![0; 2]),
    };
    let lines = ledger.clone();
    let settings = ActorSettings {
        keep_frames: false,
        give_up_after: Duration::from_secs(20),
        next_segment,
        on_notice: Box::new(|_| {}),
        on_rollout: None,
        on_ledger: Box::new(move |line| {
            lines.lock().unwrap().push(line.clone());
            Ok(())
        }),
        should_stop: Box::new(|| false),
    };
    let envs = |rows: usize| RemoteEnvs { num_envs: rows, action_width: 1, context };
    let processes = ROWS.iter().zip(states).map(|(rows, state)| (envs(*rows), state)).collect();
    let collector = AsyncEnvironments::new(endpoint.clone(), peers, settings).unwrap();
    let plan = AsyncPlan {
        rollouts: TrainingPlan { steps: 5, rollouts: 1 },
        weight_sync_interval: 1,
        staleness_threshold: Some(BOUND),
    };
    let reward = Arc::new(EnvReward);
    let mut training =
        AsyncTraining::start_remote(Box::new(collector), processes, reward, plan, sac).unwrap();
    let mut staleness = 0.0f64;
    for _ in 0..steps {
        let metrics = training.step(sac, || false).unwrap().unwrap();
        staleness = staleness.max(metrics.get("train/async/staleness_max").unwrap_or(0.0));
    }
    let states = training.rollout_states();
    let env_steps = states.iter().zip(ROWS).map(|(state, rows)| state.steps * rows as u64).sum();
    Left { states, staleness, env_steps }
}

/// Learns, is killed, and learns on; environments' workers and, where there is one, the rollouts' die on the way.
fn learn_twice(rollout: Option<&str>, rollout_lives: &[u64]) -> Served {
    let (board, done, served) = (Switchboard::default(), AtomicBool::new(false), Served::default());
    let ledger = Arc::new(Mutex::new(Vec::new()));
    let names: [Arc<str>; 2] = ["env-0".into(), "env-1".into()];
    std::thread::scope(|scope| {
        scope.spawn(|| serve(&board, 0, 60, rollout, &done));
        scope.spawn(|| serve(&board, 1, u64::MAX, rollout, &done));
        if let Some(rollout) = rollout {
            let (board, names, served, done) = (&board, &names, &served, &done);
            scope.spawn(move || {
                let connect = || connect(board, rollout, names);
                serve_rollouts(&connect, names, &explorers, rollout_lives, (served, done));
            });
        }
        let mut sac = learner();
        let first = learn(&board, &mut sac, None, 60, &ledger);
        // The learner is killed, and another goes on from what it had saved.
        let next = verify(&ledger.lock().unwrap()).unwrap();
        let second = learn(&board, &mut sac, Some((first.states, next)), 60, &ledger);
        let segments = verify(&ledger.lock().unwrap()).unwrap();
        for (state, segments) in second.states.iter().zip(&segments) {
            assert_eq!(state.steps, segments * 5, "no step is lost or counted twice");
        }
        let transitions = sac.replay().transitions() as u64;
        assert_eq!(transitions, second.env_steps, "the replay holds each step once");
        assert!(first.staleness <= BOUND as f64 && second.staleness <= BOUND as f64);
        let endpoint = connect(&board, "actor-0", &names);
        finish_envs(&endpoint, &names);
        done.store(true, Ordering::Relaxed);
    });
    served
}

#[test]
fn side_by_side_every_segment_is_learned_from_once_and_none_is_too_stale() {
    learn_twice(None, &[]);
}

#[test]
fn side_by_side_actions_chosen_elsewhere_are_those_chosen_here() {
    let served = learn_twice(Some("rollout-0"), &[40, 3, 100]);
    assert!(served.requests.into_inner() > 143, "it was killed three times");
}
