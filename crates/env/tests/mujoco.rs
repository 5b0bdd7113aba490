//! PickCube on MuJoCo is the task that it is on Rapier.
#![cfg(feature = "mujoco")]
#![allow(clippy::unwrap_used)] // a test fails by panicking

mod table_tasks;

use plaudit_core::{Env, FramesNeeded, Obs, Policy, Seed};
use plaudit_env::{
    ControlMode, Engine, EnvId, EnvSettings, PickCubeExpert, PickCubeSettings, RandomPolicy, make,
};
use table_tasks::MODES;

fn tables(engine: Engine, control_mode: ControlMode, first_row: u64, num_envs: usize) -> Box<dyn Env> {
    let own = PickCubeSettings { engine, control_mode, ..PickCubeSettings::default() };
    let settings = EnvSettings::new(EnvId::PickCubeV1, num_envs);
    make(&EnvSettings { first_row, pick_cube: Some(own), ..settings }).unwrap()
}

/// Which first episodes the expert solves, and in how many steps each row held the cube.
fn expert(engine: Engine, mode: ControlMode, rows: usize) -> (Vec<bool>, Vec<f32>) {
    let mut env = tables(engine, mode, 0, rows);
    let mut expert = PickCubeExpert::new(mode);
    let mut obs = env.reset(Seed::new(11)).unwrap();
    let (mut solved, mut held, mut ended) = (vec![false; rows], vec![0.0; rows], vec![false; rows]);
    for t in 0..50 {
        let step = env.step(&expert.act(&obs, Seed::new(12).index(t)).unwrap().actions).unwrap();
        for row in (0..rows).filter(|row| !ended[*row]).collect::<Vec<_>>() {
            held[row] += step.facts[0].1[row];
            (solved[row], ended[row]) = (step.success[row], step.end[row].is_end());
        }
        obs = step.obs;
    }
    (solved, held)
}

#[test]
fn engines_agree_on_what_the_expert_solves() {
    const ROWS: usize = 50;
    let ((here, held), (there, _)) = (
        expert(Engine::Mujoco, ControlMode::PdJointDeltaPos, ROWS),
        expert(Engine::Rapier, ControlMode::PdJointDeltaPos, ROWS),
    );
    let count = |solved: &[bool]| solved.iter().filter(|solved| **solved).count();
    let differ = here.iter().zip(&there).filter(|(here, there)| here != there).count();
    println!("of {ROWS}: {} on MuJoCo, {} on Rapier, {differ} differ", count(&here), count(&there));
    // All of them at the time of writing. Contacts are chaotic: one start in fifty may turn out otherwise.
    assert!(count(&here) >= ROWS - 1 && count(&there) >= ROWS - 1, "{here:?} {there:?}");
    assert!(differ <= 2, "{differ}");
    // Whatever was solved was carried, but for goals that begin near the cube.
    let carried = held.iter().filter(|steps| **steps >= 3.0).count();
    assert!(carried >= ROWS - 5, "{held:?}");
}

#[test]
fn the_expert_knows_every_control_mode_here_too() {
    for mode in MODES {
        let solved = expert(Engine::Mujoco, mode, 24).0.iter().filter(|solved| **solved).count();
        assert!(solved >= 23, "{mode:?}: {solved} of 24");
    }
}

#[test]
fn episodes_start_alike_in_images_and_in_states() {
    let first = |engine| {
        let mut env = tables(engine, ControlMode::PdJointDeltaPos, 0, 16);
        env.set_frames_needed(FramesNeeded::Everything);
        env.reset(Seed::new(3)).unwrap()
    };
    let (here, there): (Obs, Obs) = (first(Engine::Mujoco), first(Engine::Rapier));
    assert_eq!(here.state_width(), 42);
    let apart = here.state.iter().zip(&there.state).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(apart < 1e-6, "{apart}"); // Rapier counts in f32
    let (here, there) = (&here.cameras[0].1.pixels, &there.cameras[0].1.pixels);
    let other = here.iter().zip(there).filter(|(a, b)| a.abs_diff(**b) > 2).count();
    assert!(other < here.len() / 10_000, "{other} of {}", here.len());
}

/// Every number of rows `first..first + rows` under random actions, as bits.
fn trajectory(first: usize, rows: usize) -> Vec<Vec<u32>> {
    let mut env = tables(Engine::Mujoco, ControlMode::PdJointDeltaPos, first as u64, rows);
    let mut policy = RandomPolicy::new(env.spec().actions.clone());
    let whole = Obs::from_state(first + rows, vec![0.0; first + rows]).unwrap();
    let mut seen = vec![Vec::new(); rows];
    let mut obs = env.reset(Seed::new(5)).unwrap();
    for t in 0..110 {
        for (row, seen) in seen.iter_mut().enumerate() {
            seen.extend(obs.row(row).state.iter().map(|value| value.to_bits()));
        }
        let actions = policy.act(&whole, Seed::new(6).index(t)).unwrap().actions;
        obs = env.step(&actions[first * 8..]).unwrap().obs;
    }
    seen
}

#[test]
fn neither_threads_nor_batches_matter() {
    let with = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| trajectory(0, 7))
    };
    let alone = with(1);
    assert!(alone == with(3));
    assert!(alone[4..] == trajectory(4, 3)[..]);
}

#[test]
fn wild_actions_break_nothing() {
    for mode in MODES {
        table_tasks::endures_wild_actions(tables(Engine::Mujoco, mode, 0, 8).as_mut(), 30.0);
    }
}
