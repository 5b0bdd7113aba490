//! Through the bridge is as without it.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use plaudit_core::{End, Env, Policy, Seed, Step};
use plaudit_env::{BridgeSettings, EnvId, EnvSettings, RandomPolicy, Vectorization, make};
use serde_json::{Value, json};

use super::{Make, beside, python, settings, start};

fn bits(values: &[f32]) -> Value {
    json!(values.iter().map(|value| value.to_bits()).collect::<Vec<_>>())
}

/// What `direct.py` does with the same seeds and actions.
fn directly(python: &Path, task: &Value) -> Value {
    let mut child = Command::new(python)
        .arg(beside("direct.py"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(task.to_string().as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Seeds of episodes are this branch of the seed of a reset, cut to 31 bits.
fn seeds(seed: Seed, row: u64) -> Vec<u32> {
    let row = seed.purpose("episodes").index(row);
    (0..60).map(|episode| row.index(episode).rng().u32() >> 1).collect()
}

fn check(settings: BridgeSettings, steps: usize) {
    let (python, rows) = (settings.python.clone(), settings.num_envs);
    let mut env = start(settings);
    let (seed, spec) = (Seed::new(11), env.spec().clone());
    let mut policy = RandomPolicy::new(spec.actions.clone());
    let mut obs = env.reset(seed).unwrap();
    let first: Vec<_> = (0..rows).map(|row| bits(obs.row(row).state)).collect();
    let (mut actions, mut trajectory, mut ends) = (Vec::new(), Vec::new(), 0);
    for t in 0..steps as u64 {
        let chosen = policy.act(&obs, Seed::new(5).index(t)).unwrap().actions;
        let step = env.step(&chosen).unwrap();
        let row_steps = (0..rows).map(|row| {
            let last = step.last.iter().find(|(ended, _)| *ended == row).map(|(_, obs)| bits(&obs.state));
            ends += usize::from(last.is_some());
            json!({"reward": bits(&step.reward[row..=row]), "end": step.end[row] as u8, "last": last,
                   "now": bits(step.obs.row(row).state)})
        });
        trajectory.push(row_steps.collect::<Vec<_>>());
        actions.push(chosen.chunks(spec.actions.width()).map(<[f32]>::to_vec).collect::<Vec<_>>());
        obs = step.obs;
    }
    assert!(ends > rows, "{ends} ends test too little");
    let seeds: Vec<_> = (0..rows as u64).map(|row| seeds(seed, row)).collect();
    let direct = directly(&python, &json!({"id": &*spec.id, "seeds": seeds, "actions": actions}));
    assert_eq!(direct["start"], json!(first));
    for (t, (direct, bridged)) in direct["steps"].as_array().unwrap().iter().zip(&trajectory).enumerate() {
        assert_eq!(*direct, json!(bridged), "step {t}");
    }
}

#[test]
fn classic_control_is_bit_exact_with_gymnasium() {
    let Some(python) = python() else { return };
    check(settings(python.clone(), "CartPole-v1", 4), 120);
    check(settings(python.clone(), "Pendulum-v1", 2), 450);
    check(settings(python, "MountainCar-v0", 1), 450);
}

#[test]
fn our_own_cart_pole_falls_as_the_one_in_python() {
    let Some(python) = python() else { return };
    let mut ours = make(&EnvSettings::new(EnvId::CartPoleV1, 1)).unwrap();
    let first = ours.reset(Seed::new(2)).unwrap();
    let placed = super::with(settings(python, "odd/PlacedCartPole-v0", 1), json!({"start": first.state}));
    let mut theirs = start(placed);
    assert_eq!(theirs.reset(Seed::new(9)).unwrap().state, first.state);
    for t in 0..500 {
        let action = [f32::from(t % 7 < 4)];
        let (ours, theirs) = (ours.step(&action).unwrap(), theirs.step(&action).unwrap());
        assert_eq!((&ours.reward, &ours.end), (&theirs.reward, &theirs.end), "step {t}");
        let ended = ours.end[0].is_end();
        let state = |step: &Step| if ended { step.last[0].1.state.clone() } else { step.obs.state.clone() };
        for (ours, theirs) in state(&ours).iter().zip(state(&theirs)) {
            // Python starts from the rounded state, and a falling pole magnifies that.
            assert!((ours - theirs).abs() < 1e-5, "step {t}: {ours} {theirs}");
        }
        if ended {
            return;
        }
    }
    panic!("the pole never fell");
}

#[test]
fn processes_of_their_own_step_the_same() {
    let Some(python) = python() else { return };
    let mut settings = settings(python, "CartPole-v1", 3);
    let Make::Gymnasium { vectorization, .. } = &mut settings.make else { unreachable!() };
    *vectorization = Vectorization::Async;
    check(settings, 120);
}

#[test]
fn an_episode_depends_on_seed_row_and_number_alone() {
    let Some(python) = python() else { return };
    let run = |first_row: u64, num_envs: usize| {
        let settings = BridgeSettings { first_row, ..settings(python.clone(), "odd/Counter-v0", num_envs) };
        let mut env = start(settings);
        let mut seen = vec![env.reset(Seed::new(3)).unwrap().state];
        for _ in 0..7 {
            seen.push(env.step(&vec![1.0; num_envs]).unwrap().obs.state);
        }
        assert_eq!(env.reset(Seed::new(3)).unwrap().state, seen[0]);
        seen
    };
    let (whole, part) = (run(0, 4), run(2, 2));
    for (whole, part) in whole.iter().zip(&part) {
        assert_eq!(whole[4..], part[..]);
    }
    assert_ne!(whole[0][0], whole[3][0], "the next episode starts elsewhere");
}

#[test]
fn vector_environments_that_reset_themselves_keep_the_contract() {
    let Some(python) = python() else { return };
    for mode in ["NextStep", "SameStep"] {
        let mut settings = settings(python.clone(), "odd/CounterVector-v0", 2);
        settings = super::with(settings, json!({"mode": mode}));
        let Make::Gymnasium { vectorization, .. } = &mut settings.make else { unreachable!() };
        *vectorization = Vectorization::Vector;
        let mut env = start(settings);
        env.reset(Seed::new(1)).unwrap();
        let steps: Vec<_> = (0..4).map(|_| env.step(&[2.0, 0.0]).unwrap()).collect();
        // Row 0 counts to 2. In next-step mode its end is reported one step later, with the reset.
        let end_step = if mode == "NextStep" { 2 } else { 1 };
        let ends: Vec<_> = steps.iter().map(|step| step.end[0] == End::Terminated).collect();
        assert_eq!(ends.iter().position(|end| *end), Some(end_step), "{mode} {ends:?}");
        let end = &steps[end_step];
        assert_eq!(end.last[0].1.state[1], 2.0, "{mode}: the last real observation");
        assert_eq!(end.obs.row(0).state[1], 0.0, "{mode}: the next episode's first");
        assert!(end.success[0] && !end.success[1], "{mode}");
        assert_eq!(steps.iter().map(|step| step.reward[0]).take(end_step + 1).sum::<f32>(), 4.0, "{mode}");
    }
}
