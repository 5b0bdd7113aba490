//! Processes of a cluster as threads: rewards and robots with the reward model in a worker, beside the same in one process.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use plaudit::build::{self, EnvBlock};
use plaudit::cli::{ConfigArgs, Verbosity};
use plaudit::commands::robot::teleop::{Display, TeleopSetup, teleoperate};
use plaudit::config::{self, LoadedConfig};
use plaudit::load::RequestedConfig;
use plaudit::workers::WorkerModels;
use plaudit_cluster::link::threads::Switchboard;
use plaudit_cluster::link::{Endpoint, Identity, StreamSettings};
use plaudit_cluster::worker::messages::ModelFacts;
use plaudit_cluster::worker::{FrameScorer, RewardWorker, ScoreClient, ServedModel, WorkerError};
use plaudit_core::{FrameShape, RewardColumn, Seed};
use plaudit_rl::Rollout;

fn load(words: &[&str]) -> LoadedConfig {
    let words = words.iter().map(|word| word.to_string()).collect();
    let asked = RequestedConfig::from_args(&ConfigArgs { words, ..ConfigArgs::default() }).unwrap();
    config::load(&asked.disk, &asked.request).unwrap()
}

fn connect(board: &Switchboard, name: &str, peers: &[&str]) -> Endpoint {
    let (sender, receiver) = board.connect(name);
    let peers = peers.iter().map(|peer| Arc::from(*peer)).collect();
    let identity = Identity { version: "1".into(), peers, settings: StreamSettings::default() };
    Endpoint::start(&identity, sender, receiver).unwrap()
}

/// PickCube at 32 pixels, rewarded by the tiny vision-language model of the fixtures on windows of three frames.
fn loaded(folder: &Path, more: &str) -> LoadedConfig {
    let model = concat!(env!("CARGO_MANIFEST_DIR"), "/../nn/tests/qwen3_vl/model");
    let text = format!(
            "
env:
  train:
    env_type: embedded
    total_num_envs: 3
    max_episode_steps: 6
    init_params: {{id: PickCube-v1, sensor_configs: {{width: 32, height: 32}}}}
actor: {{model: {{model_type: random}}}}
reward:
  use_reward_model: true
  reward_mode: history_buffer
  model:
    model_type: buffered_vlm
    model_path: {model}
    input_builder_name: vlm_trend_reward_input_builder
    input_builder_params: {{video_keys: [main_images]}}
    reward_parser_name: vlm_trend_reward_parser
    history_buffers: {{history_window: {{history_size: 3, min_history_size: 3, input_interval: 1, history_keys: [main_images]}}}}
    max_new_tokens: 2
    {more}
"
        );
    let file = folder.join("mine.yaml");
    std::fs::write(&file, text).unwrap();
    load(&[file.to_str().unwrap()])
}

/// The rewards of a few steps with a model that is here, or in a worker.
fn rewards(loaded: &LoadedConfig, models: &WorkerModels) -> Vec<RewardColumn> {
    let mut env = build::env(loaded, EnvBlock::Train).unwrap();
    let reward = build::reward_from(loaded, env.spec(), models).unwrap().reward;
    env.set_frames_needed(reward.frames_needed());
    let mut policy = plaudit_env::RandomPolicy::new(env.spec().actions.clone());
    let mut rollout = Rollout::start(env.as_mut(), Seed::new(1), reward.context()).unwrap();
    [5, 4].map(|steps| reward.label(&rollout.play(&mut policy, steps).unwrap().segment).unwrap()).into()
}

#[test]
fn a_judge_in_a_reward_worker_gives_the_rewards_of_one_here() {
    let folder = tempfile::tempdir().unwrap();
    for more in ["soft_reward: true", "readout: text"] {
        let loaded = loaded(folder.path(), more);
        let here = rewards(&loaded, &WorkerModels::Here);
        let (board, clients) = (Switchboard::default(), ["env-0", "env-1"]);
        let (mut passes, mut requests) = (0, 0);
        std::thread::scope(|scope| {
            for client in clients {
                let (board, loaded, here) = (&board, &loaded, &here);
                scope.spawn(move || {
                    let endpoint = connect(board, client, &["reward-0"]);
                    let workers = vec!["reward-0".into()];
                    let patience = Duration::from_secs(60);
                    let asked = ScoreClient::connect(endpoint, workers, patience, &|| false).unwrap();
                    let models = WorkerModels::Worker(Arc::new(asked));
                    assert_eq!(rewards(loaded, &models), *here, "{client}, {more}");
                    let WorkerModels::Worker(client) = &models else { unreachable!() };
                    client.finish();
                });
            }
            let build::ServedReward::Judge(judge) = build::served_reward(&loaded).unwrap() else {
                panic!("a vision-language model answers questions");
            };
            let worker = RewardWorker {
                endpoint: connect(&board, "reward-0", &clients),
                clients: clients.map(Arc::from).into(),
                model: ServedModel::Questions(&judge),
                max_batch: 64,
                should_stop: &|| false,
                on_batch: Box::new(|asked, _| {
                    passes += 1;
                    requests += asked;
                }),
            };
            worker.run().unwrap();
        });
        assert!(passes > 0 && passes <= requests, "{passes} passes for {requests} requests");
    }
}

/// A model that has seen it all.
struct Certain;

impl FrameScorer for Certain {
    fn facts(&self) -> ModelFacts {
        ModelFacts { image_keys: vec!["main_images".into()], ..ModelFacts::default() }
    }

    fn scores(&self, _: &[u8], count: usize, _: FrameShape) -> Result<(Vec<f32>, u64), String> {
        Ok((vec![0.125; count], 0))
    }
}

/// A reward worker, until somebody ends it.
fn serve(board: &Switchboard, is_over: &dyn Fn() -> bool) {
    let worker = RewardWorker {
        endpoint: connect(board, "reward-0", &["env-0"]),
        clients: vec!["env-0".into()],
        model: ServedModel::Frames(&Certain),
        max_batch: 64,
        should_stop: is_over,
        on_batch: Box::new(|_, _| {}),
    };
    assert!(matches!(worker.run(), Err(WorkerError::Stopped)));
}

#[test]
fn the_arm_holds_while_the_reward_worker_is_away() {
    let folder = tempfile::tempdir().unwrap();
    let words = [
        "realworld_teleop",
        "env.eval.override_cfg.robot_ip=sim",
        "env.eval.no_gripper=false",
        "env.eval.max_episode_steps=100",
    ];
    let loaded = load(&words);
    let log = folder.path().join("teleop.log");
    let (board, steps) = (Switchboard::default(), Arc::new(AtomicU64::new(0)));
    let taken = || steps.load(Ordering::Relaxed);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let teleoperated = scope.spawn(|| {
            let endpoint = connect(&board, "env-0", &["reward-0"]);
            let patience = Duration::from_secs(60);
            let client = ScoreClient::connect(endpoint, vec!["reward-0".into()], patience, &|| false);
            let counted = steps.clone();
            let setup = TeleopSetup {
                display: Display::to_file(File::create(&log).unwrap()),
                models: WorkerModels::Worker(Arc::new(client.unwrap())),
                episodes: Some(1), // which the clock ends: the model is below its threshold
                seconds: Some(120.0),
                on_step: Box::new(move || {
                    counted.fetch_add(1, Ordering::Relaxed);
                }),
            };
            let quiet = Verbosity { quiet: true, verbose: false };
            let summary = teleoperate(&loaded, setup, quiet).map(|summary| summary.to_string());
            done.store(true, Ordering::Relaxed);
            summary
        });
        serve(&board, &|| taken() >= 10 || done.load(Ordering::Relaxed));
        std::thread::sleep(Duration::from_millis(3500));
        let held = taken();
        std::thread::sleep(Duration::from_millis(1000));
        assert_eq!(taken(), held, "nobody moves the arm");
        assert!(!done.load(Ordering::Relaxed));
        serve(&board, &|| taken() >= held + 10 || done.load(Ordering::Relaxed));
        assert!(taken() >= held + 10, "it goes on");
        serve(&board, &|| done.load(Ordering::Relaxed));
        teleoperated.join().unwrap().unwrap();
    });
    let text = std::fs::read_to_string(&log).unwrap();
    let line = |words: &str| text.lines().position(|line| line.contains(words));
    let (holds, goes_on) = (line("does not answer: the arm holds"), line("answers again: the arm goes on"));
    assert!(line("p 0.125").is_some(), "{text}");
    assert!(holds.is_some() && holds < goes_on, "{text}");
}
