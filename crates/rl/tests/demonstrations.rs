//! Recorded episodes as segments that a reward can label and a replay can keep.

#![allow(clippy::unwrap_used)] // a test that cannot go on says so by stopping

use std::sync::Arc;

use plaudit_core::{ActionSpace, End, EnvReward, EnvSpec, FrameShape, FramesNeeded, Reward};
use plaudit_data::episode::{CameraTrack, Episode, Timestep};
use plaudit_rl::replay::{Amount, NewRollout, RelabelSettings, Replay, ReplaySettings};
use plaudit_rl::{DemoConverter, DemoError};

fn spec() -> EnvSpec {
    EnvSpec {
        id: "reach".into(),
        num_envs: 4,
        state_width: 2,
        state_parts: vec![],
        actions: ActionSpace::Continuous { low: vec![-1.0], high: vec![1.0] },
        cameras: vec![("base_camera".into(), FrameShape::rgb(1, 1))],
        max_episode_steps: Some(10),
        control_hz: 1.0,
    }
}

/// Three steps; the last solves the task.
fn episode() -> Episode {
    let timestep = |at: usize| Timestep {
        reward: at as f32,
        end: if at == 3 { End::Terminated } else { End::No },
        success: (at > 0).then_some(at == 3),
        facts: vec![],
    };
    Episode {
        row: 0,
        number: 0,
        batch_step: 3,
        success: true,
        task: Some("reach it".into()),
        cameras: vec![CameraTrack {
            name: "main_images".into(),
            shape: FrameShape::rgb(1, 1),
            pixels: (0..12).collect::<Vec<_>>().into(),
        }],
        states: (0..4).map(|at| vec![at as f32, 0.5]).collect(),
        actions: vec![vec![0.25], vec![-3.0], vec![2.0]],
        timesteps: (0..4).map(timestep).collect(),
    }
}

fn main_is_base(name: &str) -> Option<Arc<str>> {
    (name == "main_images").then(|| "base_camera".into())
}

#[test]
fn an_episode_is_kept_as_it_happened() {
    let spec = spec();
    let fit = DemoConverter {
        spec: &spec,
        camera: &main_is_base,
        frames_needed: FramesNeeded::Ends,
        full_state: None,
        ends_at_success: false,
        rewards_success_only: false,
    };
    let segment = fit.segment(&episode()).unwrap();
    assert_eq!(
        segment.actions,
        [[0.25], [-1.0], [1.0]],
        "within the bounds, as the environment would have it"
    );
    assert_eq!(segment.env_reward, [1.0, 2.0, 3.0]);
    assert_eq!(segment.end, [End::No, End::No, End::Terminated]);
    assert_eq!(segment.success, [false, false, true]);
    assert_eq!(segment.outcome(2, 0).image("base_camera").unwrap().1, [9, 10, 11]);
    assert!(segment.outcome(1, 0).image("base_camera").is_none(), "only the frames that the reward needs");
    let RewardCheck { rewards, states } = RewardCheck::of(segment);
    assert_eq!(rewards, [1.0, 2.0, 3.0]);
    assert_eq!(states, [0.0, 0.5, 1.0, 0.5, 2.0, 0.5]);
}

#[test]
fn success_ends_an_episode_where_it_ends_one_of_the_environments() {
    let spec = spec();
    let mut recorded = episode();
    recorded.timesteps[2].success = Some(true);
    recorded.timesteps[3] =
        Timestep { end: End::Truncated, success: Some(false), ..recorded.timesteps[3].clone() };
    let segment = |ends_at_success, rewards_success_only| {
        let fit = DemoConverter {
            spec: &spec,
            camera: &main_is_base,
            frames_needed: FramesNeeded::Ends,
            full_state: None,
            ends_at_success,
            rewards_success_only,
        };
        fit.segment(&recorded).unwrap()
    };
    let whole = segment(false, true);
    assert_eq!(whole.end, [End::No, End::No, End::Truncated]);
    assert_eq!(whole.env_reward, [0.0, 1.0, 0.0]);
    let ended = segment(true, false);
    assert_eq!(ended.end, [End::No, End::Terminated]);
    assert_eq!(ended.env_reward, [1.0, 2.0], "as it was recorded");
    assert_eq!(
        ended.outcome(1, 0).image("base_camera").unwrap().1,
        [6, 7, 8],
        "the frame of success is kept"
    );
    assert_eq!(RewardCheck::of(segment(true, true)).rewards, [0.0, 1.0]);
}

/// What a replay makes of it.
struct RewardCheck {
    rewards: Vec<f32>,
    states: Vec<f32>,
}

impl RewardCheck {
    fn of(segment: plaudit_core::Segment) -> Self {
        let size = Amount::Rollouts(1);
        let settings = ReplaySettings {
            keep: size,
            window: size,
            chunk: 1,
            cameras: vec![],
            relabel: RelabelSettings::default(),
        };
        let mut replay = Replay::new(settings);
        let reward = EnvReward.label(&segment).unwrap().total;
        replay
            .add(NewRollout { segment, starts_chunk: vec![], invalid: vec![], reward, version: 0 }, None)
            .unwrap();
        let all = replay.all();
        Self { rewards: all.rewards, states: all.obs.states }
    }
}

#[test]
fn what_does_not_fit_is_named() {
    let spec = spec();
    let refused = |change: &dyn Fn(&mut Episode)| {
        let mut episode = episode();
        change(&mut episode);
        let fit = DemoConverter {
            spec: &spec,
            camera: &main_is_base,
            frames_needed: FramesNeeded::Everything,
            full_state: None,
            ends_at_success: false,
            rewards_success_only: false,
        };
        fit.segment(&episode).unwrap_err()
    };
    assert_eq!(refused(&|episode| episode.actions.clear()), DemoError::Empty);
    for (change, says) in [
        (
            (|episode| episode.states[1].push(0.0)) as fn(&mut Episode),
            "its states have 3 numbers, and those of reach have 2",
        ),
        (|episode| episode.actions[0].push(0.0), "its actions have 2 numbers, and those of reach have 1"),
        (|episode| episode.actions[1][0] = f32::NAN, "its actions hold NaN at step 1"),
        (
            |episode| episode.cameras[0].shape = FrameShape::rgb(1, 2),
            "its camera `base_camera` shows 1x2, and that of the environment 1x1",
        ),
        (
            |episode| drop(episode.timesteps.pop()),
            "its parts do not fit together: 3 actions, 4 states and 3 timesteps",
        ),
    ] {
        assert_eq!(refused(&change).to_string(), says);
    }
}
