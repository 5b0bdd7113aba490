//! RLPD on images on a GPU against the same on the CPU: cloning, demonstrations, shifts, two cameras, keypoints.

#![allow(clippy::unwrap_used)] // a test that cannot go on says so by stopping
#![allow(unsafe_code, clippy::print_stderr)] // the emulator of a GPU is a library of C++

#[path = "../../nn/tests/emulator/mod.rs"]
mod emulator;

use std::ops::ControlFlow;

use plaudit_core::{
    ActionSpace, End, EnvReward, FrameShape, Frames, Obs, Reward, Rng, Schedule, Seed, Segment, StepRow,
};
use plaudit_nn::Weights;
use plaudit_nn::dense::AdamSettings;
use plaudit_nn::dense::encoder::{ConvLayer, ConvReadout};
use plaudit_rl::replay::{Amount, NewRollout, RelabelSettings, ReplaySettings};
use plaudit_rl::sac::{
    Agg, BcRegularizer, DemoSettings, EncoderLoss, Optim, Sac, SacSettings, SoftNetworkSettings,
    TemperatureKind, TemperatureSettings,
};
use plaudit_rl::vision_encoder::{EncoderKind, VisionEncoderSettings};
use plaudit_rl::{Bootstrap, Cloning, Learner};

const FRAME: FrameShape = FrameShape { height: 15, width: 13, channels: 3 };
const STATES: usize = 3;

fn obs(rng: &mut Rng, rows: usize) -> Obs {
    let state = (0..rows * STATES).map(|_| rng.normal() as f32).collect();
    let mut obs = Obs::from_state(rows, state).unwrap();
    for camera in ["main", "wrist"] {
        let pixels: Vec<u8> = (0..rows * FRAME.bytes()).map(|_| rng.below(256) as u8).collect();
        obs = obs.with_camera(camera, Frames::new(FRAME, pixels).unwrap()).unwrap();
    }
    obs
}

/// Two episodes of so many steps.
fn segment(seed: u64, steps: usize) -> Segment {
    let (mut rng, rows) = (Seed::new(seed).rng(), 2);
    let mut segment = Segment::continuing(obs(&mut rng, rows), Vec::new(), vec![0; rows]);
    for step in 1..=steps {
        let is_over = step == steps;
        let row = StepRow {
            actions: (0..rows * 2).map(|_| 0.5 * rng.normal() as f32).collect(),
            env_reward: vec![f32::from(u8::from(is_over)); rows],
            end: vec![if is_over { End::Terminated } else { End::No }; rows],
            success: vec![is_over; rows],
        };
        let last = if is_over { vec![(0, obs(&mut rng, 1)), (1, obs(&mut rng, 1))] } else { Vec::new() };
        let next = obs(&mut rng, rows);
        segment.push(row, next, last).unwrap();
    }
    segment
}

fn rollout(seed: u64, steps: usize) -> NewRollout {
    let segment = segment(seed, steps);
    let reward = segment.env_reward.clone();
    NewRollout { segment, starts_chunk: Vec::new(), invalid: Vec::new(), reward, version: 0 }
}

fn settings(encoder_loss: EncoderLoss) -> SacSettings {
    let layer = |channels, stride| ConvLayer { channels, kernel: 3, stride };
    let vision_encoder = VisionEncoderSettings {
        cameras: vec!["main".into(), "wrist".into()],
        encoder_kind: EncoderKind::Learned {
            frame: FRAME,
            layers: vec![layer(6, 2), layer(8, 1)],
            readout: ConvReadout::Keypoints,
        },
        outputs: 10,
        states: STATES,
        state_outputs: 5,
        mix: vec![12, 11],
    };
    let actions = ActionSpace::Continuous { low: vec![-1.0, -2.0], high: vec![1.0, 2.0] };
    let replay = ReplaySettings {
        keep: Amount::Rollouts(9),
        window: Amount::Rollouts(9),
        chunk: 1,
        cameras: vec!["main".into(), "wrist".into()],
        relabel: RelabelSettings::default(),
    };
    let optim = Optim { schedule: Schedule::constant(1e-3), adam: AdamSettings::default(), clip_grad: 5.0 };
    SacSettings {
        networks: SoftNetworkSettings {
            critic_hidden: vec![14, 9],
            ..SoftNetworkSettings::cnn(vision_encoder, actions, 1, 3)
        },
        gamma: 0.9,
        bootstrap: Bootstrap::Standard,
        agg_q: Agg::Min,
        actor_agg_q: Agg::Mean,
        critic_subsample: Some(2),
        backup_entropy: true,
        target_range: Some([0.0, 1.0]),
        scale_states: true,
        average_policy: true,
        encoder_loss,
        bc_regularizer: Some(BcRegularizer { weight: 2.0, std: Some(vec![0.1, 0.2]) }),
        tau: 0.1,
        target_update_freq: 1,
        critic_actor_ratio: 2,
        train_actor_steps: 0,
        shift: Some(2),
        temperature: TemperatureSettings {
            kind: TemperatureKind::Exp,
            initial: 0.1,
            target_entropy: -2.0,
            lr: 1e-3,
            clip_grad: 1.0,
        },
        policy_optim: optim,
        critic_optim: optim,
        batch_size: 10,
        updates: 3,
        replay: replay.clone(),
        min_replay: Amount::Rollouts(1),
        demos: Some(DemoSettings { replay, min: Amount::Rollouts(1), self_imitation_min_reward: None }),
    }
}

fn learner(encoder_loss: EncoderLoss) -> Sac {
    let mut sac = Sac::new(settings(encoder_loss), vec![rollout(1, 6)], Seed::new(3)).unwrap();
    sac.add_demos(vec![rollout(2, 4)]).unwrap();
    sac
}

fn checkpoint(sac: &Sac) -> Weights {
    let folder = tempfile::tempdir().unwrap();
    sac.save(folder.path()).unwrap();
    Weights::read(folder.path().join("learner.safetensors")).unwrap()
}

/// Both sides round in other orders. Adam divides gradients by their size, so that those near zero carry their rounding into the
/// weights: up to a fifth of a step of 1e-3.
fn compare(what: &str, ours: &Weights, expected: &Weights, relative: f32, absolute: f32) {
    assert!(ours.names().count() > 20 && ours.names().eq(expected.names()), "{what}");
    for (name, tensor) in expected.iter() {
        let (ours, expected) = (ours.f32(name).unwrap(), tensor.to_f32().unwrap());
        for (a, b) in ours.iter().zip(&expected) {
            assert!((a - b).abs() <= relative * b.abs() + absolute, "{what}, {name}: {a} and {b}");
        }
    }
}

#[test]
fn rlpd_on_a_gpu_learns_what_it_learns_on_the_cpu() {
    for encoder_loss in [EncoderLoss::Critics, EncoderLoss::Policy] {
        compare_learners(encoder_loss);
    }
}

fn compare_learners(encoder_loss: EncoderLoss) {
    let Some(kernels) = emulator::emulated() else { return };
    let learner = || learner(encoder_loss);
    let (mut cpu, mut gpu) = (learner(), learner());
    assert_eq!(gpu.use_gpu(kernels).unwrap(), "an emulated GPU");
    // More at once than the batches of updates have.
    let cloning = Cloning { demos: vec![segment(1, 6)], steps: 4, batch: 12, lr: 1e-3, std: vec![0.1, 0.2] };
    for sac in [&mut cpu, &mut gpu] {
        let mut losses = Vec::new();
        let callback = &mut |_, loss| {
            losses.push(loss);
            ControlFlow::Continue(())
        };
        sac.imitate(&cloning, callback).unwrap();
        assert!(losses.len() == 4 && losses[3] < losses[0], "{losses:?}");
    }
    compare("a clone", &checkpoint(&gpu), &checkpoint(&cpu), 1e-4, 2e-5);
    for step in 0..2 {
        for sac in [&mut cpu, &mut gpu] {
            let rollout = rollout(10 + step, 3);
            sac.add_experience(experience(rollout)).unwrap();
            let metrics = sac.improve().unwrap();
            assert!(metrics.get("train/actor/bc_loss").is_some());
        }
        let what = format!("{encoder_loss:?}, after {} updates", 3 * (step + 1));
        compare(&what, &checkpoint(&gpu), &checkpoint(&cpu), 1e-4, 2e-4);
    }
    // What is saved goes on where it was, on either.
    let folder = tempfile::tempdir().unwrap();
    gpu.save(folder.path()).unwrap();
    let mut resumed = learner();
    resumed.use_gpu(emulator::emulated().unwrap()).unwrap();
    resumed.restore(folder.path()).unwrap();
    for sac in [&mut gpu, &mut resumed] {
        sac.improve().unwrap();
    }
    assert_eq!(checkpoint(&gpu), checkpoint(&resumed), "the same calls give the same bits");
}

fn experience(rollout: NewRollout) -> plaudit_rl::Experience {
    let steps = rollout.reward.len();
    plaudit_rl::Experience {
        reward: EnvReward.label(&rollout.segment).unwrap(),
        decisions: plaudit_rl::Decisions { starts_chunk: vec![true; steps], ..Default::default() },
        segment: rollout.segment,
    }
}
