//! A row is the same row in any batch, on any number of threads.
#![allow(clippy::unwrap_used)] // a test fails by panicking

use plaudit_core::{ActionHistory, Obs, Policy, Seed, Step};
use plaudit_env::{EnvId, EnvSettings, RandomPolicy, make};
use proptest::prelude::*;

/// The trajectory of row `row` of the whole batch, as bits.
type Trajectory = Vec<Vec<u32>>;

/// Runs rows `first..first + rows` for `steps`, with actions that depend only on the row's own number.
fn run(id: EnvId, first: usize, rows: usize, steps: u64) -> Vec<Trajectory> {
    let settings = EnvSettings { first_row: first as u64, ..EnvSettings::new(id, rows) };
    let mut env = make(&settings).unwrap();
    let mut policy = RandomPolicy::new(env.spec().actions.clone());
    let mut trajectories = vec![Trajectory::new(); rows];
    let obs = env.reset(Seed::new(5)).unwrap();
    note_obs(&mut trajectories, &obs);
    let whole = Obs::from_state(first + rows, vec![0.0; first + rows]).unwrap();
    for t in 0..steps {
        let actions = policy.act(&whole, Seed::new(6).index(t)).unwrap().actions;
        let step = env.step(&actions[first * env.spec().actions.width()..]).unwrap();
        note_step(&mut trajectories, &step);
    }
    trajectories
}

fn note_obs(trajectories: &mut [Trajectory], obs: &Obs) {
    for (row, trajectory) in trajectories.iter_mut().enumerate() {
        trajectory.push(obs.row(row).state.iter().map(|value| value.to_bits()).collect());
    }
}

fn note_step(trajectories: &mut [Trajectory], step: &Step) {
    note_obs(trajectories, &step.obs);
    for (row, trajectory) in trajectories.iter_mut().enumerate() {
        let outcome = [step.reward[row].to_bits(), step.end[row] as u32, u32::from(step.success[row])];
        trajectory.push(outcome.to_vec());
    }
    for (row, last) in &step.last {
        trajectories[*row].push(last.state.iter().map(|value| value.to_bits()).collect());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_split_is_the_whole(which in 0usize..EnvId::ALL.len(), left in 1usize..6, right in 1usize..6) {
        let id = EnvId::ALL[which];
        let whole = run(id, 0, left + right, 60);
        prop_assert_eq!(&whole[..left], &run(id, 0, left, 60)[..]);
        prop_assert_eq!(&whole[left..], &run(id, left, right, 60)[..]);
    }
}

#[test]
fn groups_start_alike_however_rows_are_split() {
    for id in EnvId::ALL {
        let start = |first_row, num_envs| {
            let settings = EnvSettings { group_size: 3, first_row, ..EnvSettings::new(id, num_envs) };
            make(&settings).unwrap().reset(Seed::new(7)).unwrap()
        };
        let whole = start(0, 7);
        let states: Vec<&[f32]> = (0..7).map(|row| whole.row(row).state).collect();
        assert!(states[0] == states[2] && states[3] == states[5], "{id}");
        assert!(states[2] != states[3] && states[5] != states[6], "{id}");
        let part = start(2, 3);
        assert!((0..3).all(|row| part.row(row).state == states[row + 2]), "{id}");
    }
}

#[test]
fn threads_do_not_matter() {
    let with = |threads, id, rows, steps| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| run(id, 0, rows, steps))
    };
    for (id, rows, steps) in
        [(EnvId::CartPoleV1, 5000, 40), (EnvId::PickCubeV1, 7, 110), (EnvId::PegInsertionSideV1, 5, 110)]
    {
        assert!(with(1, id, rows, steps) == with(3, id, rows, steps), "{id}");
    }
}

#[test]
fn a_reset_starts_the_same_trajectory_again() {
    let mut env = make(&EnvSettings::new(EnvId::PendulumV1, 3)).unwrap();
    let first = env.reset(Seed::new(1)).unwrap();
    env.step(&[0.5; 3]).unwrap();
    assert_eq!(env.reset(Seed::new(1)).unwrap(), first);
    assert_ne!(env.reset(Seed::new(2)).unwrap(), first);
}

#[test]
fn rows_go_on_where_they_were() {
    for id in EnvId::ALL {
        let (rows, before) = (4, 70);
        let settings = EnvSettings { max_episode_steps: Some(25), ..EnvSettings::new(id, rows) };
        let mut env = make(&settings).unwrap();
        let width = env.spec().actions.width();
        let mut policy = RandomPolicy::new(env.spec().actions.clone());
        let mut obs = env.reset(Seed::new(5)).unwrap();
        let mut past = vec![ActionHistory::default(); rows];
        let mut act = |obs: &Obs, t| policy.act(obs, Seed::new(6).index(t)).unwrap().actions;
        for t in 0..before {
            let actions = act(&obs, t);
            let step = env.step(&actions).unwrap();
            for (row, past) in past.iter_mut().enumerate() {
                past.actions.extend_from_slice(&actions[row * width..(row + 1) * width]);
                if step.end[row].is_end() {
                    *past = ActionHistory { episode: past.episode + 1, actions: vec![] };
                }
            }
            obs = step.obs;
        }
        let mut again = make(&settings).unwrap();
        assert!(again.fast_forward(Seed::new(5), &past[1..]).is_err());
        assert_eq!(again.fast_forward(Seed::new(5), &past).unwrap().unwrap(), obs, "{id}");
        for t in before..before + 40 {
            let actions = act(&obs, t);
            let (step, same) = (env.step(&actions).unwrap(), again.step(&actions).unwrap());
            assert_eq!((&step.obs, &step.reward, &step.end), (&same.obs, &same.reward, &same.end), "{id}");
            obs = step.obs;
        }
    }
}

#[test]
fn resets_are_spread_as_gymnasium_spreads_them() {
    let check = |id, bounds: &[(f32, f32)]| {
        let obs = make(&EnvSettings::new(id, 2000)).unwrap().reset(Seed::new(3)).unwrap();
        for (at, (low, high)) in bounds.iter().enumerate() {
            let values: Vec<f32> = (0..2000).map(|row| obs.row(row).state[at]).collect();
            let least = values.iter().copied().fold(f32::INFINITY, f32::min);
            let most = values.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let edge = (high - low) * 0.01;
            assert!((*low..low + edge).contains(&least), "{id} {at}: {least}");
            assert!((high - edge..=*high).contains(&most), "{id} {at}: {most}");
        }
    };
    check(EnvId::CartPoleV1, &[(-0.05, 0.05); 4]);
    check(EnvId::PendulumV1, &[(-1.0, 1.0); 3]);
    check(EnvId::MountainCarContinuousV0, &[(-0.6, -0.4)]);
}

#[test]
fn impossible_batches_are_refused_before_they_are_built() {
    let refused = |id, num_envs| make(&EnvSettings::new(id, num_envs)).err().unwrap().to_string();
    assert_eq!(refused(EnvId::AcrobotV1, 0), "num_envs is 0; a batch has at least one environment");
    let words = refused(EnvId::CartPoleV1, 1 << 45);
    assert!(words.starts_with("35184372088832 environments of about"), "{words}");
}
