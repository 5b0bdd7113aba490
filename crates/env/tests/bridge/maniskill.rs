//! ManiSkill tasks: against a stand-in that speaks its tensors, and against the real one where there is one.

use std::path::PathBuf;

use plaudit_core::{Env, FrameShape, FramesNeeded, Seed};
use plaudit_env::{BridgeSettings, Seeding};
use serde_json::{Value, json};

use super::{arguments, beside, python, start};

fn fake(python: PathBuf, num_envs: usize, init_params: Value) -> BridgeSettings {
    BridgeSettings {
        python,
        import: vec![beside("fake_maniskill.py")],
        facts: vec!["is_grasped".into()],
        start_timeout_secs: 60.0,
        ..BridgeSettings::maniskill(arguments(init_params), num_envs)
    }
}

#[test]
fn a_batch_of_tensors_is_stepped_and_reset_by_rows() {
    let Some(python) = python() else { return };
    let mut env = start(fake(python, 3, json!({"id": "FakeCube-v1", "sim_backend": "gpu"})));
    assert_eq!((env.spec().max_episode_steps, env.spec().control_hz), (Some(4), 20.0));
    let first = env.reset(Seed::new(1)).unwrap();
    let step = env.step(&[0.5, 0.5, 1.0, 1.0, 0.0, 0.0]).unwrap();
    assert_eq!(step.reward, [1.0, 2.0, 0.0]);
    assert_eq!(step.end.map_ends(), [0, 1, 0]);
    assert_eq!(step.success, [false, true, false]);
    assert_eq!(step.last[0].1.state, [first.state[2], 1.0]);
    assert_eq!(step.obs.row(1).state[1], 0.0);
    assert_ne!(step.obs.row(1).state[0], first.state[2], "another start");
    let steps: Vec<_> = (0..3).map(|_| env.step(&[0.0; 6]).unwrap()).collect();
    assert_eq!(steps[2].end.map_ends(), [2, 0, 2], "each row has its own clock");
    assert_eq!(steps[0].facts[0].1, [1.0, 0.0, 1.0]);
}

#[test]
fn rows_have_episodes_of_their_own_in_any_batch() {
    let Some(python) = python() else { return };
    let states = |num_envs, first_row, backend: &str, seeding| {
        let params = json!({"id": "FakeCube-v1", "sim_backend": backend});
        let mut env = start(BridgeSettings { first_row, seeding, ..fake(python.clone(), num_envs, params) });
        let mut seen = env.reset(Seed::new(1)).unwrap().state;
        for _ in 0..4 {
            seen = env.step(&vec![0.0; 2 * num_envs]).unwrap().obs.state;
        }
        seen
    };
    let whole = states(3, 0, "gpu", Seeding::EveryEpisode);
    assert_eq!(whole[4..], states(1, 2, "gpu", Seeding::EveryEpisode));
    assert_eq!(whole, states(3, 0, "physx_cpu", Seeding::EveryEpisode), "one by one on the CPU");
    assert_ne!(whole, states(3, 0, "gpu", Seeding::FirstEpisode));
}

#[test]
fn cameras_have_their_sensors_names_and_see_the_goal() {
    let Some(python) = python() else { return };
    let params = json!({"id": "FakeCube-v1", "obs_mode": "rgb", "render_mode": "rgb_array"});
    let chosen = BridgeSettings {
        cameras: Some(vec!["base_camera".into()]),
        render: Some("render".into()),
        ..fake(python, 2, params)
    };
    let mut env = start(chosen);
    let cameras: Vec<_> = env.spec().cameras.iter().map(|(name, shape)| (&**name, *shape)).collect();
    assert_eq!(cameras, [("base_camera", FrameShape::rgb(8, 8)), ("render", FrameShape::rgb(5, 5))]);
    assert_eq!(env.spec().state_width, 3, "no camera matrix among the states");
    env.set_frames_needed(FramesNeeded::Everything);
    env.reset(Seed::new(1)).unwrap();
    let obs = env.step(&[0.0; 4]).unwrap().obs;
    assert_eq!(obs.row(1).state[1..], [1.0, 1.0], "in the order of the dictionary");
    let (_, pixels) = obs.row(1).image("base_camera").unwrap();
    assert_eq!(pixels[..4], [200, 1, 1, 1], "the goal is shown");
    assert_eq!(obs.row(1).image("render").unwrap().1[0], 1);
}

/// Needs an interpreter with ManiSkill, and something to draw with.
#[test]
fn the_real_pick_cube() {
    let Some(python) = std::env::var_os("PLAUDIT_MANISKILL_PYTHON") else {
        println!("skipped: PLAUDIT_MANISKILL_PYTHON names no Python with mani_skill");
        return;
    };
    let params = json!({
        "id": "PickCube-v1", "obs_mode": "rgb", "control_mode": "pd_joint_delta_pos", "sim_backend": "physx_cpu",
        "render_backend": "cpu", "max_episode_steps": 6, "sim_config": {"sim_freq": 100, "control_freq": 20},
        "sensor_configs": {"shader_pack": "default", "width": 64, "height": 64}, "render_mode": "rgb_array",
    });
    let settings = BridgeSettings {
        python: python.into(),
        facts: vec!["is_grasped".into()],
        ..BridgeSettings::maniskill(arguments(params), 2)
    };
    let mut env = start(settings);
    assert_eq!((env.spec().state_width, env.spec().actions.width()), (29, 8));
    assert_eq!(env.spec().cameras, [("base_camera".into(), FrameShape::rgb(64, 64))]);
    assert_eq!((env.spec().max_episode_steps, env.spec().control_hz), (Some(6), 20.0));
    let mut run = || {
        let mut seen = vec![env.reset(Seed::new(4)).unwrap()];
        let steps: Vec<_> = (0..7).map(|_| env.step(&[0.3; 16]).unwrap()).collect();
        assert_eq!(steps[5].end.map_ends(), [2, 2]);
        assert!(steps[5].last[0].1.cameras[0].1.pixels.iter().any(|pixel| *pixel > 30));
        seen.extend(steps.into_iter().map(|step| step.obs));
        seen
    };
    let (first, second) = (run(), run());
    assert_ne!(first[0].row(0).state, first[6].row(0).state, "another episode, another start");
    for (t, (first, second)) in first.iter().zip(&second).enumerate() {
        let apart = first.state.iter().zip(&second.state).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(apart < 1e-5, "step {t} is {apart} apart");
    }
}

/// Ends as the bridge writes them.
trait Ends {
    fn map_ends(&self) -> Vec<u8>;
}

impl Ends for Vec<plaudit_core::End> {
    fn map_ends(&self) -> Vec<u8> {
        self.iter().map(|end| *end as u8).collect()
    }
}
