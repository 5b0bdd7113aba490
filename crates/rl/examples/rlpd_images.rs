//! RLPD on images in PickCube with one setting changed at a time: what holds it at its clone's success?
//!
//! ```text
//! rlpd_images name=base seed=1 minutes=4 device=cuda:0 demos=50 noise=0 clone=2000 updates=100 batch=64 lr=3e-5 demo_weight=20 \
//!     std=0.05 heads=5 subsample=0 actor_every=2 wait=100 self_imitation=1 shift=0 gamma=0.97 average=0
//! ```
//!
//! Demonstrations are the script's; with `noise` it is pushed off its way, and what is imitated is how it would go on from there.
//! Prints success by the simulator's ground truth over `episodes` episodes of the greedy policy, as it goes.

#![allow(clippy::unwrap_used, clippy::print_stdout)] // a program for the terminal, which stops where something is wrong

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::time::Instant;

use plaudit_core::{
    Env, EnvReward, FrameShape, FramesNeeded, Obs, Policy, Reward, Schedule, Seed, Segment, StepRow,
};
use plaudit_env::{
    CameraName, CameraSettings, ControlMode, EnvId, EnvSettings, ObsMode, PickCubeExpert, PickCubeSettings,
    RewardMode, make,
};
use plaudit_nn::dense::AdamSettings;
use plaudit_nn::dense::gpu::GpuKernels;
use plaudit_rl::replay::{Amount, NewRollout, RelabelSettings, ReplaySettings};
use plaudit_rl::sac::{
    Agg, BcRegularizer, DemoSettings, Optim, Sac, SacSettings, SoftNetworkSettings, TemperatureKind,
    TemperatureSettings,
};
use plaudit_rl::vision_encoder::{EncoderKind, VisionEncoderSettings};
use plaudit_rl::{Bootstrap, Cloning, Experience, Learner, Rollout};

/// Settings by name, from the command line.
struct Words(HashMap<String, String>);

impl Words {
    fn number(&self, name: &str, default: f64) -> f64 {
        self.0.get(name).map_or(default, |text| text.parse().unwrap())
    }

    fn count(&self, name: &str, default: usize) -> usize {
        self.number(name, default as f64) as usize
    }
}

fn main() {
    let words = std::env::args().skip(1).map(|word| {
        let (name, value) = word.split_once('=').unwrap();
        (name.to_owned(), value.to_owned())
    });
    let words = Words(words.collect());
    let name = words.0.get("name").cloned().unwrap_or_default();
    let began = Instant::now();
    let seed = Seed::new(words.count("seed", 1) as u64);
    let side = words.count("side", 64);
    let demos = demonstrations(&words, seed.purpose("demos"), side);
    let mut sac = learner(&words, &demos, seed.purpose("learner"), side);
    if let Some(index) = words.0.get("device").and_then(|device| device.strip_prefix("cuda:")) {
        sac.use_gpu(GpuKernels::open(index.parse().unwrap()).unwrap()).unwrap();
    }
    let say = |step: usize, sac: &Sac, more: &str| {
        let (once, at_end) = success(&words, sac, side);
        let secs = began.elapsed().as_secs_f64();
        println!(
            "{name} seed {} {secs:6.1} s step {step:4} success {once:.3} at end {at_end:.3} {more}",
            words.count("seed", 1)
        );
    };
    let actions = 4;
    let cloning = Cloning {
        demos: demos.iter().map(|demo| demo.imitated.clone()).collect(),
        steps: words.count("clone", 2000) as u64,
        batch: words.count("clone_batch", 64),
        lr: words.number("clone_lr", 1e-3),
        std: vec![words.number("std", 0.05) as f32; actions],
    };
    sac.imitate(&cloning, &mut |_, _| ControlFlow::Continue(())).unwrap();
    say(0, &sac, "the clone");
    let mut env = make(&env_settings(64, side, ObsMode::Rgb, false)).unwrap();
    env.set_frames_needed(FramesNeeded::Everything);
    let mut rollout = Rollout::start(env.as_mut(), seed.purpose("rollout"), 0).unwrap();
    let (limit, every) = (words.number("minutes", 4.0) * 60.0, words.count("every", 10));
    for step in 1.. {
        let acting = Instant::now();
        let played = rollout.play(sac.explorer().as_mut(), 50).unwrap();
        let reward = EnvReward.label(&played.segment).unwrap();
        let explored = played.segment.success.iter().filter(|success| **success).count();
        sac.add_experience(Experience { segment: played.segment, decisions: played.decisions, reward })
            .unwrap();
        let acted = acting.elapsed().as_secs_f64();
        let learning = Instant::now();
        let metrics = sac.improve().unwrap();
        let is_over = began.elapsed().as_secs_f64() > limit;
        if step % every == 0 || is_over {
            let of = |name: &str| metrics.get(name).unwrap_or(f64::NAN);
            let more = format!(
                "q {:.3} q_pi {:.3} bc {:.4} alpha {:.5} explored {explored} acting {acted:.2} s learning {:.2} s",
                of("train/critic/q_data"),
                of("train/actor/q_pi"),
                of("train/actor/bc_loss"),
                of("train/sac/alpha"),
                learning.elapsed().as_secs_f64(),
            );
            say(step, &sac, &more);
        }
        if is_over {
            break;
        }
    }
}

fn env_settings(rows: usize, side: usize, obs_mode: ObsMode, to_the_end: bool) -> EnvSettings {
    let camera = |name| CameraSettings { name, width: side, height: side };
    let pick_cube = PickCubeSettings {
        control_mode: ControlMode::PdEeDeltaPos,
        reward_mode: RewardMode::OnlySuccess,
        obs_mode,
        cameras: Some(vec![camera(CameraName::BaseCamera), camera(CameraName::HandCamera)]),
        ..PickCubeSettings::default()
    };
    EnvSettings {
        ignore_terminations: to_the_end,
        pick_cube: Some(pick_cube),
        ..EnvSettings::new(EnvId::PickCubeV1, rows)
    }
}

/// An episode of the script: what was done, and what is to be imitated.
struct Demonstration {
    done: Segment,
    imitated: Segment,
}

/// Numbers of the full state that a policy on images sees.
const SEEN: usize = 29;

fn seen(obs: &Obs, row: usize) -> Obs {
    let state = obs.row(row).state[..SEEN].to_vec();
    let mut one = Obs::from_state(1, state).unwrap();
    for (name, frames) in &obs.cameras {
        let bytes = frames.shape.bytes();
        let pixels = frames.pixels[row * bytes..(row + 1) * bytes].to_vec();
        one =
            one.with_camera(name.clone(), plaudit_core::Frames::new(frames.shape, pixels).unwrap()).unwrap();
    }
    one
}

/// Episodes of the script that succeed, as many as are asked for.
fn demonstrations(words: &Words, seed: Seed, side: usize) -> Vec<Demonstration> {
    let (wanted, noise) = (words.count("demos", 50), words.number("noise", 0.0));
    let rows = wanted + wanted / 2;
    let mut env = make(&env_settings(rows, side, ObsMode::State, false)).unwrap();
    env.set_frames_needed(FramesNeeded::Everything);
    let (mut pushed, mut clean) = (
        PickCubeExpert::new(ControlMode::PdEeDeltaPos).with_noise(noise),
        PickCubeExpert::new(ControlMode::PdEeDeltaPos),
    );
    let mut obs = env.reset(seed).unwrap();
    let start = |row: usize| Segment::continuing(seen(&obs, row), Vec::new(), vec![0]);
    let mut episodes: Vec<Option<[Segment; 2]>> =
        (0..rows).map(|row| Some([start(row), start(row)])).collect();
    let mut found = Vec::new();
    for step in 0..50 {
        let seed = seed.purpose("script").index(step);
        let done = pushed.act(&obs, seed).unwrap().actions;
        let imitated = clean.act(&obs, seed).unwrap().actions;
        let next = env.step(&done).unwrap();
        for (row, episode) in episodes.iter_mut().enumerate() {
            let Some(both) = episode else { continue };
            for (segment, actions) in both.iter_mut().zip([&done, &imitated]) {
                let taken = StepRow {
                    actions: actions[row * 4..(row + 1) * 4].to_vec(),
                    env_reward: vec![next.reward[row]],
                    end: vec![next.end[row]],
                    success: vec![next.success[row]],
                };
                let last =
                    next.last.iter().filter(|(ended, _)| *ended == row).map(|(_, obs)| (0, seen(obs, 0)));
                segment.push(taken, seen(&next.obs, row), last.collect()).unwrap();
            }
            if next.end[row].is_end() {
                let [done, imitated] = episode.take().unwrap();
                if next.success[row] && found.len() < wanted {
                    found.push(Demonstration { done, imitated });
                }
            }
        }
        obs = next.obs;
    }
    assert_eq!(found.len(), wanted, "the script solved too few");
    found
}

/// The shares of episodes that are solved at some step, and at their last.
fn success(words: &Words, sac: &Sac, side: usize) -> (f64, f64) {
    let rows = words.count("episodes", 128);
    let mut env = make(&env_settings(rows, side, ObsMode::Rgb, true)).unwrap();
    env.set_frames_needed(FramesNeeded::Everything);
    let seed = Seed::new(77).purpose("evaluation");
    let mut policy = sac.greedy();
    let mut obs = env.reset(seed).unwrap();
    let (mut once, mut last) = (vec![false; rows], vec![false; rows]);
    for step in 0..50 {
        let decision = policy.act(&obs, seed.index(step)).unwrap();
        let next = env.step(&decision.actions).unwrap();
        once.iter_mut().zip(&next.success).for_each(|(once, now)| *once |= now);
        last.clone_from(&next.success);
        obs = next.obs;
    }
    let share = |solved: &[bool]| solved.iter().filter(|solved| **solved).count() as f64 / rows as f64;
    (share(&once), share(&last))
}

fn learner(words: &Words, demos: &[Demonstration], seed: Seed, side: usize) -> Sac {
    let frame = FrameShape { height: side, width: side, channels: 3 };
    let cameras = || vec!["base_camera".into(), "hand_camera".into()];
    let vision_encoder = VisionEncoderSettings::new(cameras(), SEEN, EncoderKind::keypoints(frame));
    let env = make(&env_settings(1, side, ObsMode::Rgb, false)).unwrap();
    let actions = env.spec().actions.clone();
    let replay = |keep| ReplaySettings {
        keep,
        window: keep,
        chunk: 1,
        cameras: cameras(),
        relabel: RelabelSettings::default(),
    };
    let optim = |lr: f64| Optim {
        schedule: Schedule::constant(lr),
        adam: AdamSettings::default(),
        clip_grad: words.number("clip", 1000.0) as f32,
    };
    let std = vec![words.number("std", 0.05) as f32; 4];
    let lr = words.number("lr", 3e-5);
    let demo_weight = words.number("demo_weight", 20.0) as f32;
    let imitates_self = words.number("self_imitation", 1.0) > 0.0;
    let settings = SacSettings {
        networks: SoftNetworkSettings::cnn(vision_encoder, actions, 1, words.count("heads", 5)),
        gamma: words.number("gamma", 0.97) as f32,
        bootstrap: Bootstrap::Standard,
        agg_q: Agg::Min,
        actor_agg_q: if words.number("mean_actor", 0.0) > 0.0 { Agg::Mean } else { Agg::Min },
        critic_subsample: Some(words.count("subsample", 0)).filter(|count| *count > 0),
        backup_entropy: false,
        target_range: Some([0.0, 1.0]),
        scale_states: true,
        average_policy: words.number("average", 0.0) > 0.0,
        bc_regularizer: (demo_weight > 0.0).then_some(BcRegularizer { weight: demo_weight, std: Some(std) }),
        tau: words.number("tau", 0.01) as f32,
        target_update_freq: 1,
        critic_actor_ratio: words.count("actor_every", 2) as u64,
        train_actor_steps: words.count("wait", 100) as u64,
        shift: Some(words.count("shift", 0)).filter(|pixels| *pixels > 0),
        temperature: TemperatureSettings {
            kind: TemperatureKind::Softplus,
            initial: 0.001,
            target_entropy: words.number("entropy", -10.0),
            lr: 3e-4,
            clip_grad: 10.0,
        },
        policy_optim: optim(lr),
        critic_optim: optim(words.number("critic_lr", lr)),
        batch_size: words.count("batch", 64),
        updates: words.count("updates", 100) as u64,
        replay: replay(Amount::Transitions(words.count("replay", 40_000))),
        min_replay: Amount::Transitions(800),
        demos: Some(DemoSettings {
            replay: replay(Amount::Rollouts(1000)),
            min: Amount::Rollouts(1),
            self_imitation_min_reward: imitates_self.then_some(0.5),
        }),
    };
    let demos = demos.iter().map(|demo| NewRollout {
        reward: EnvReward.label(&demo.done).unwrap().total,
        segment: demo.done.clone(),
        starts_chunk: Vec::new(),
        invalid: Vec::new(),
        version: 0,
    });
    Sac::new(settings, demos.collect(), seed).unwrap()
}
