//! PPO in a real environment: it learns, and a resumed run continues as if it had never stopped.
#![allow(clippy::unwrap_used)] // a test fails by panicking

use std::path::Path;

use plaudit_core::{Env, EnvReward, Seed};
use plaudit_env::{EnvId, EnvSettings, make};
use plaudit_nn::Weights;
use plaudit_rl::ppo::{Ppo, PpoSettings};
use plaudit_rl::{ActorCriticSettings, LearnError, Learner, Metrics, RolloutState, Training, TrainingPlan};

fn settings_of_networks(env: &dyn Env, chunk: usize, hidden: usize) -> ActorCriticSettings {
    let settings = ActorCriticSettings::on_states(env.spec(), &[hidden, hidden]);
    ActorCriticSettings { chunk, values: chunk, ..settings }
}

fn learner(env: &dyn Env, chunk: usize, hidden: usize, seed: u64) -> Ppo {
    Ppo::new(&settings_of_networks(env, chunk, hidden), PpoSettings::default(), Seed::new(seed)).unwrap()
}

fn envs(id: EnvId) -> Box<dyn Env> {
    make(&EnvSettings { max_episode_steps: Some(90), ..EnvSettings::new(id, 16) }).unwrap()
}

/// Numbers that depend on what happened, not on how long it took.
fn without_times(metrics: &Metrics) -> Vec<(String, u64)> {
    let logged = metrics.iter().filter(|(name, _)| !name.starts_with("time/"));
    logged.map(|(name, value)| (name.to_string(), value.to_bits())).collect()
}

/// Steps `from..to` of a run, saved at its end; the metrics of each step.
fn run(
    id: EnvId,
    chunk: usize,
    from: Option<&Path>,
    steps: usize,
    save: Option<&Path>,
) -> Vec<Vec<(String, u64)>> {
    let mut env = envs(id);
    let mut ppo = learner(env.as_ref(), chunk, 16, 1);
    let resume_from = from.map(|folder| {
        ppo.restore(folder).unwrap();
        RolloutState::read(folder).unwrap().unwrap()
    });
    let plan = TrainingPlan { steps: 32, rollouts: 2 };
    let (mut training, restored) =
        Training::start(env.as_mut(), &EnvReward, plan, Seed::new(2), resume_from).unwrap();
    assert_eq!(restored, from.is_some());
    let logged =
        (0..steps).map(|_| training.step(&mut ppo, |_| Ok::<_, plaudit_rl::TrainingError>(())).unwrap());
    let logged = logged.map(|metrics| without_times(&metrics)).collect();
    if let Some(folder) = save {
        ppo.save(folder).unwrap();
        training.rollout_state().write(folder).unwrap();
    }
    logged
}

#[test]
fn a_run_that_was_left_goes_on_as_if_it_had_not_been() {
    for (id, chunk) in [(EnvId::CartPoleV1, 1), (EnvId::PendulumV1, 1), (EnvId::CartPoleV1, 4)] {
        let folder = tempfile::tempdir().unwrap();
        let whole = run(id, chunk, None, 5, None);
        let first = run(id, chunk, None, 2, Some(folder.path()));
        let rest = run(id, chunk, Some(folder.path()), 3, None);
        assert_eq!(whole, [first, rest].concat(), "{id} in chunks of {chunk}");
    }
}

#[test]
fn a_pole_is_balanced_longer_and_longer() {
    let mut env = envs(EnvId::CartPoleV1);
    let mut ppo = learner(env.as_ref(), 1, 32, 1);
    let plan = TrainingPlan { steps: 64, rollouts: 1 };
    let (mut training, _) = Training::start(env.as_mut(), &EnvReward, plan, Seed::new(3), None).unwrap();
    let mut returns = Vec::new();
    for _ in 0..15 {
        let metrics = training.step(&mut ppo, |_| Ok::<_, plaudit_rl::TrainingError>(())).unwrap();
        returns.extend(metrics.get("env/return"));
    }
    // A random policy holds it for about 22 steps; the clock stops at 90.
    assert!(returns[0] < 35.0 && *returns.last().unwrap() > 80.0, "{returns:?}");
}

#[test]
fn the_critic_may_learn_first() {
    let mut env = envs(EnvId::CartPoleV1);
    let networks = settings_of_networks(env.as_ref(), 1, 16);
    let settings = PpoSettings { critic_warmup: 1, ..PpoSettings::default() };
    let mut ppo = Ppo::new(&networks, settings, Seed::new(1)).unwrap();
    let plan = TrainingPlan { steps: 32, rollouts: 1 };
    let (mut training, _) = Training::start(env.as_mut(), &EnvReward, plan, Seed::new(2), None).unwrap();
    let changed = |before: &Weights, after: &Weights, start: &str| {
        let named: Vec<&str> = before.names().filter(|name| name.starts_with(start)).collect();
        assert!(!named.is_empty());
        named.iter().any(|name| before.get(name) != after.get(name))
    };
    let first = ppo.weights();
    training.step(&mut ppo, |_| Ok::<_, plaudit_rl::TrainingError>(())).unwrap();
    let second = ppo.weights();
    assert!(!changed(&first, &second, "backbone.") && changed(&first, &second, "value_head."));
    training.step(&mut ppo, |_| Ok::<_, plaudit_rl::TrainingError>(())).unwrap();
    assert!(changed(&second, &ppo.weights(), "backbone."));
}

#[test]
fn a_checkpoint_of_another_network_is_refused_and_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let env = envs(EnvId::CartPoleV1);
    learner(env.as_ref(), 1, 16, 1).save(folder.path()).unwrap();
    let mut other = learner(env.as_ref(), 1, 32, 1);
    let before = other.weights();
    let error = other.restore(folder.path()).unwrap_err();
    let LearnError::Checkpoint { problem, .. } = &error else { panic!("{error}") };
    assert_eq!(
        problem,
        "`backbone.0.weight` is [16, 4] where this network has [32, 4]; it was written by another network"
    );
    assert_eq!(other.weights(), before);
}

#[test]
fn rewards_that_are_too_large_stop_it_before_the_weights_are_lost() {
    let mut env = envs(EnvId::CartPoleV1);
    let mut ppo = learner(env.as_ref(), 1, 16, 1);
    let plan = TrainingPlan { steps: 8, rollouts: 1 };
    let (mut training, _) = Training::start(env.as_mut(), &Huge, plan, Seed::new(2), None).unwrap();
    let before = ppo.weights();
    let error = training.step(&mut ppo, |_| Ok::<_, plaudit_rl::TrainingError>(())).unwrap_err().to_string();
    assert!(error.starts_with("the gradient is "), "{error}");
    assert_eq!(ppo.weights(), before);
}

/// Finite rewards whose squares are not.
struct Huge;

impl plaudit_core::Reward for Huge {
    fn label(
        &self,
        segment: &plaudit_core::Segment,
    ) -> Result<plaudit_core::RewardColumn, plaudit_core::RewardError> {
        let values = vec![f32::MAX / 2.0; segment.end.len()];
        let term = plaudit_core::Term { name: "huge".into(), weight: 1.0, values };
        plaudit_core::RewardColumn::of_terms(vec![term], 0)
    }
}
