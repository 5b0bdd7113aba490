//! Replays episodes that Gymnasium ran (`tests/gymnasium/make_fixtures.py`) and compares every number.
//!
//! With glibc, which Gymnasium used too, states and observations are bit-exact. Rewards are within
//! 2e-15 (Pendulum squares with `pow`). Another libm may round `sin` and `cos` differently in the last bit;
//! the chaotic Acrobot makes the most of it, hence the wider tolerance there.

use plaudit_core::End;
use serde::Deserialize;

use super::{Acrobot, CartPole, MountainCarContinuous, Pendulum};
use crate::batch::{Row, Task};

#[derive(Deserialize)]
struct Fixtures {
    episodes: Vec<Episode>,
}

#[derive(Deserialize)]
struct Episode {
    id: String,
    start: Vec<f64>,
    single: bool,
    actions: Vec<f32>,
    obs: Vec<Vec<f32>>,
    reward: Vec<f64>,
    #[serde(rename = "final")]
    state: Vec<f64>,
    terminated: bool,
    truncated: bool,
}

/// How far a replay was from Gymnasium.
#[derive(Debug, Default)]
struct Distance {
    obs: f32,
    reward: f64,
    state: f64,
}

#[test]
fn every_step_is_gymnasiums() {
    let text = include_str!("../../tests/gymnasium/fixtures.json");
    let fixtures: Fixtures = serde_json::from_str(text).unwrap();
    assert_eq!(fixtures.episodes.len(), 19);
    for (at, episode) in fixtures.episodes.iter().enumerate() {
        let distance = replay(episode);
        let allowed = if cfg!(target_env = "gnu") { 0.0 } else { 1e-4 };
        let equal = f64::from(distance.obs) <= allowed && distance.state <= allowed;
        assert!(equal && distance.reward <= allowed + 2e-15, "episode {at}, {}: {distance:?}", episode.id);
    }
}

fn replay(episode: &Episode) -> Distance {
    let start = &episode.start;
    match episode.id.as_str() {
        "CartPole-v0" | "CartPole-v1" => {
            let task = CartPole { state: start[..].try_into().unwrap(), fallen: false };
            compare(episode, task, |task| task.state.to_vec())
        }
        "Pendulum-v1" => {
            compare(episode, Pendulum { state: start[..].try_into().unwrap() }, |task| task.state.to_vec())
        }
        "Acrobot-v1" => {
            compare(episode, Acrobot { state: start[..].try_into().unwrap() }, |task| task.state.to_vec())
        }
        "MountainCarContinuous-v0" => {
            let task = MountainCarContinuous { state: start[..].try_into().unwrap(), single: episode.single };
            compare(episode, task, |task| task.state.to_vec())
        }
        other => panic!("no replay for {other}"),
    }
}

fn compare<T: Task>(episode: &Episode, task: T, state: impl Fn(&T) -> Vec<f64>) -> Distance {
    let limit = episode.id.parse::<crate::EnvId>().unwrap().max_episode_steps();
    let mut row = Row::at(task);
    let mut distance = Distance::default();
    let mut seen = vec![0.0; episode.obs[0].len()];
    for (t, action) in episode.actions.iter().enumerate() {
        let (result, end) = row.step(&[*action], limit, false);
        row.task.observe(&mut seen);
        for (ours, theirs) in seen.iter().zip(&episode.obs[t]) {
            distance.obs = distance.obs.max((ours - theirs).abs());
        }
        distance.reward = distance.reward.max((result.reward - episode.reward[t]).abs());
        let expected = match (t + 1 == episode.actions.len(), episode.terminated, episode.truncated) {
            (true, true, _) => End::Terminated,
            (true, false, true) => End::Truncated,
            _ => End::No,
        };
        assert_eq!(end, expected, "step {t} of {}", episode.id);
    }
    for (ours, theirs) in state(&row.task).iter().zip(&episode.state) {
        distance.state = distance.state.max((ours - theirs).abs());
    }
    distance
}
