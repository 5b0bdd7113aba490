//! PegInsertionSide as a user meets it.
#![allow(clippy::unwrap_used)] // a test fails by panicking

mod table_tasks;

use plaudit_core::{Env, FramesNeeded, Policy, Seed};
use plaudit_env::{
    CameraName, CameraSettings, ControlMode, EnvId, EnvSettings, ObsMode, PegInsertionExpert,
    PegInsertionSettings, PickCubeSettings, RewardMode, make,
};
use table_tasks::MODES;

fn tables(num_envs: usize, settings: PegInsertionSettings) -> Box<dyn Env> {
    let plain = EnvSettings::new(EnvId::PegInsertionSideV1, num_envs);
    make(&EnvSettings { peg_insertion: Some(settings), ..plain }).unwrap()
}

/// How many of `num_envs` first episodes the expert solves.
fn solved(control_mode: ControlMode, noise: f64, num_envs: usize) -> usize {
    let mut env = tables(num_envs, PegInsertionSettings { control_mode, ..PegInsertionSettings::default() });
    let mut expert = PegInsertionExpert::new(control_mode).unwrap().with_noise(noise);
    table_tasks::solved(env.as_mut(), &mut expert, 21, 100)
}

#[test]
fn the_expert_solves_nearly_every_start() {
    let solved = solved(ControlMode::PdJointDeltaPos, 0.0, 100);
    assert!(solved >= 95, "{solved} of 100");
}

#[test]
fn the_expert_knows_every_control_mode_that_can_turn_the_hand() {
    for mode in [ControlMode::PdJointPos, ControlMode::PdEeDeltaPose] {
        let solved = solved(mode, 0.0, 24);
        assert!(solved >= 22, "{mode:?}: {solved} of 24");
    }
    let refused = PegInsertionExpert::new(ControlMode::PdEeDeltaPos).unwrap_err().to_string();
    assert!(refused.starts_with("the expert turns the peg towards the hole"), "{refused}");
}

#[test]
fn noise_makes_the_expert_fail() {
    let solved = solved(ControlMode::PdJointDeltaPos, 0.3, 24);
    assert!(solved <= 3, "{solved} of 24");
}

#[test]
fn the_state_is_in_maniskills_order() {
    let mut env = tables(64, PegInsertionSettings::default());
    let obs = env.reset(Seed::new(1)).unwrap();
    for row in 0..64 {
        let state = obs.row(row).state;
        assert_eq!(state.len(), 43);
        let rest = [0.0, 0.125, 0.0, -0.625, 0.0, 0.75, -0.25].map(|turn| turn * std::f32::consts::PI);
        assert!(state[..7].iter().zip(rest).all(|(q, rest)| (q - rest).abs() < 0.1), "qpos");
        assert_eq!(state[7..9], [0.04, 0.04], "fingers");
        assert!(state[9..18].iter().all(|v| *v == 0.0), "qvel");
        let (tool, peg, half) = (&state[18..25], &state[25..32], &state[32..35]);
        assert!((tool[2] - 0.17).abs() < 0.12, "tcp_pose: {tool:?}");
        assert!(peg[0].abs() <= 0.1 && (-0.3..=0.0).contains(&peg[1]) && peg[2] == half[1], "{peg:?}");
        // The peg's x axis, from its quaternion (w, 0, 0, z), points away from the robot's right.
        let yaw = 2.0 * peg[6].atan2(peg[3]);
        assert!((0.523..2.619).contains(&yaw), "between 30 and 150 degrees: {yaw}");
        assert!((0.085..=0.125).contains(&half[0]) && (0.015..=0.025).contains(&half[1]));
        assert_eq!(half[1], half[2], "square");
        let (hole, radius) = (&state[35..42], state[42]);
        assert!((radius - half[1] - 0.003).abs() < 1e-6, "3 mm on each side");
        assert!((hole[2] - half[0]).abs() <= 0.5 * (half[0] - half[1]) + 1e-6, "hole height");
        assert!((1.178..1.964).contains(&(2.0 * hole[6].atan2(hole[3]))), "hole: {hole:?}");
    }
    let sizes: std::collections::HashSet<_> = (0..64).map(|row| obs.row(row).state[32].to_bits()).collect();
    assert_eq!(sizes.len(), 64, "each row has its own peg");
}

#[test]
fn facts_are_named_and_success_follows_from_them() {
    let mut env = tables(8, PegInsertionSettings::default());
    let mut expert = PegInsertionExpert::new(ControlMode::PdJointDeltaPos).unwrap();
    let mut obs = env.reset(Seed::new(4)).unwrap();
    let mut successes = 0;
    for _ in 0..80 {
        let radii: Vec<f32> = (0..8).map(|row| obs.row(row).state[42]).collect();
        let step = env.step(&expert.act(&obs, Seed::new(0)).unwrap().actions).unwrap();
        let [grasped, lined_up, x, y, z] = &step.facts[..] else { panic!("{:?}", step.facts) };
        assert_eq!((&*grasped.0, &*lined_up.0), ("is_grasped", "is_lined_up"));
        assert_eq!(&*x.0, "peg_head_pos_at_hole_x");
        for (row, radius) in radii.into_iter().enumerate() {
            let inserted = x.1[row] >= -0.015 && y.1[row].abs() <= radius && z.1[row].abs() <= radius;
            assert_eq!(step.success[row], inserted);
            assert_eq!(step.reward[row] == 1.0, inserted, "only success gives the full reward");
            successes += usize::from(inserted);
        }
        obs = step.obs;
    }
    assert!(successes >= 6, "{successes}");
}

#[test]
fn rewards_rise_as_the_task_goes_on() {
    let settings = |use_rel_reward| PegInsertionSettings {
        use_rel_reward,
        reward_mode: RewardMode::Dense,
        ..PegInsertionSettings::default()
    };
    let run = |use_rel_reward| {
        let mut env = tables(1, settings(use_rel_reward));
        let mut expert = PegInsertionExpert::new(ControlMode::PdJointDeltaPos).unwrap();
        let mut obs = env.reset(Seed::new(4)).unwrap();
        let mut rewards = Vec::new();
        loop {
            let step = env.step(&expert.act(&obs, Seed::new(0)).unwrap().actions).unwrap();
            rewards.push(step.reward[0]);
            if step.end[0].is_end() {
                return rewards;
            }
            obs = step.obs;
        }
    };
    let (plain, relative) = (run(false), run(true));
    assert_eq!((plain[plain.len() - 1], plain.len()), (10.0, relative.len()), "solved");
    let thirds: Vec<f32> = plain.chunks(plain.len() / 3).map(|third| third[third.len() / 2]).collect();
    assert!(thirds[0] < thirds[1] && thirds[1] < thirds[2], "{thirds:?}");
    assert!((relative.iter().sum::<f32>() - 10.0).abs() < 1e-3);
}

#[test]
fn wild_actions_break_nothing() {
    for control_mode in MODES {
        let settings = PegInsertionSettings { control_mode, ..PegInsertionSettings::default() };
        table_tasks::endures_wild_actions(tables(8, settings).as_mut(), 20.0);
    }
}

#[test]
fn images_show_peg_and_hole() {
    let names = [CameraName::BaseCamera, CameraName::ThirdViewCamera, CameraName::RenderCamera];
    let cameras = names.map(|name| CameraSettings { name, width: 160, height: 120 }).to_vec();
    let mut env =
        tables(2, PegInsertionSettings { cameras: Some(cameras), ..PegInsertionSettings::default() });
    env.set_frames_needed(FramesNeeded::Everything);
    let obs = env.reset(Seed::new(9)).unwrap();
    for (name, frames) in &obs.cameras {
        let orange = |pixel: &[u8]| {
            let [r, g, b] = [pixel[0], pixel[1], pixel[2]].map(i32::from);
            r > 100 && r > 2 * g && g > b
        };
        let count = frames.image(0).chunks_exact(3).filter(|pixel| orange(pixel)).count();
        assert!((20..4000).contains(&count), "{name}: {count} orange pixels");
        assert!(frames.image(0) != frames.image(1), "each row has its own peg and box");
    }
}

#[test]
fn defaults_are_maniskills() {
    let mut env = make(&EnvSettings::new(EnvId::PegInsertionSideV1, 1)).unwrap();
    let spec = env.spec();
    let cameras: Vec<&str> = spec.cameras.iter().map(|(name, _)| &**name).collect();
    assert_eq!(cameras, ["base_camera", "hand_camera"]);
    assert_eq!((spec.state_width, spec.actions.width(), spec.max_episode_steps), (43, 8, Some(100)));
    let obs = env.reset(Seed::new(1)).unwrap();
    assert_eq!(obs.row(0).task(), Some("pick up the peg and insert its orange end into the hole"));

    let mut env =
        tables(1, PegInsertionSettings { obs_mode: ObsMode::Rgb, ..PegInsertionSettings::default() });
    let obs = env.reset(Seed::new(1)).unwrap();
    assert_eq!((obs.cameras.len(), obs.state_width()), (2, 25));
    let error = PegInsertionExpert::new(ControlMode::default()).unwrap().act(&obs, Seed::new(1)).unwrap_err();
    assert!(error.to_string().contains("PegInsertionSide's full state of 43 numbers"), "{error}");

    let pick_cube = Some(PickCubeSettings::default());
    let wrong = EnvSettings { pick_cube, ..EnvSettings::new(EnvId::PegInsertionSideV1, 1) };
    let refused = make(&wrong).err().unwrap().to_string();
    assert!(refused.starts_with("`pick_cube` settings were given, but the environment is `PegInsertion"));
}
