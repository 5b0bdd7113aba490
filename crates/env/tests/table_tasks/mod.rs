//! What the tests of all table tasks ask of them.
#![allow(dead_code)] // each test file uses its part

use plaudit_core::{End, Env, Policy, Seed};
use plaudit_env::{ControlMode, RandomPolicy};

pub(crate) const MODES: [ControlMode; 4] = [
    ControlMode::PdJointDeltaPos,
    ControlMode::PdJointPos,
    ControlMode::PdEeDeltaPos,
    ControlMode::PdEeDeltaPose,
];

/// How many of the first episodes a policy solves within so many steps; `seed` and the next one are sampled from.
pub(crate) fn solved(env: &mut dyn Env, policy: &mut dyn Policy, seed: u64, steps: u64) -> usize {
    let mut obs = env.reset(Seed::new(seed)).unwrap();
    let mut outcome = vec![None; obs.batch()];
    for t in 0..steps {
        let actions = policy.act(&obs, Seed::new(seed + 1).index(t)).unwrap().actions;
        let step = env.step(&actions).unwrap();
        for (row, outcome) in outcome.iter_mut().enumerate() {
            if step.end[row].is_end() && outcome.is_none() {
                *outcome = Some(step.success[row]);
                assert_eq!(step.end[row] == End::Terminated, step.success[row]);
            }
        }
        obs = step.obs;
    }
    outcome.into_iter().filter(|success| *success == Some(true)).count()
}

/// Actions a million times too large leave the joints' speeds below `fastest`, and every number a number.
pub(crate) fn endures_wild_actions(env: &mut dyn Env, fastest: f32) {
    let mut policy = RandomPolicy::new(env.spec().actions.clone());
    let mut obs = env.reset(Seed::new(4)).unwrap();
    for t in 0..150 {
        let mut actions = policy.act(&obs, Seed::new(5).index(t / 10)).unwrap().actions;
        actions.iter_mut().for_each(|action| *action *= if t % 50 < 25 { 1.0 } else { 1e6 });
        obs = env.step(&actions).unwrap().obs;
        assert!(obs.state.iter().all(|value| value.is_finite()), "{t}");
        for row in 0..obs.batch() {
            let speeds = &obs.row(row).state[9..18];
            assert!(speeds.iter().all(|speed| speed.abs() < fastest), "{t}: {speeds:?}");
        }
    }
}
