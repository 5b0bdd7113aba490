//! PickCube as a user meets it.
#![allow(clippy::unwrap_used)] // a test fails by panicking

mod table_tasks;

use plaudit_core::{Env, FramesNeeded, Policy, Seed, WRENCH_FACTS};
use plaudit_env::{
    CameraName, CameraSettings, ControlMode, EnvId, EnvSettings, ObsMode, PickCubeExpert, PickCubeMoment,
    PickCubeSettings, PixelLabel, RewardMode, make, render_pick_cube,
};
use table_tasks::MODES;

fn tables(num_envs: usize, settings: PickCubeSettings) -> Box<dyn Env> {
    make(&EnvSettings { pick_cube: Some(settings), ..EnvSettings::new(EnvId::PickCubeV1, num_envs) }).unwrap()
}

/// How many of `num_envs` first episodes the expert solves.
fn solved(control_mode: ControlMode, noise: f64, num_envs: usize) -> usize {
    let mut env = tables(num_envs, PickCubeSettings { control_mode, ..PickCubeSettings::default() });
    let mut expert = PickCubeExpert::new(control_mode).with_noise(noise);
    table_tasks::solved(env.as_mut(), &mut expert, 11, 50)
}

#[test]
fn the_expert_solves_nearly_every_start() {
    let solved = solved(ControlMode::PdJointDeltaPos, 0.0, 100);
    assert!(solved >= 98, "{solved} of 100");
}

#[test]
fn the_expert_knows_every_control_mode() {
    for mode in [ControlMode::PdJointPos, ControlMode::PdEeDeltaPos, ControlMode::PdEeDeltaPose] {
        let solved = solved(mode, 0.0, 24);
        assert!(solved >= 23, "{mode:?}: {solved} of 24");
    }
}

#[test]
fn noise_makes_the_expert_fail() {
    let solved = solved(ControlMode::PdJointDeltaPos, 0.5, 24);
    assert!(solved <= 4, "{solved} of 24");
}

/// Failures that stand still, half of them with the cube in the hand: what a model of success must have seen.
#[test]
fn the_expert_misses_on_purpose_and_stands_still() {
    let mode = ControlMode::PdEeDeltaPos;
    let play = |misses: f64| {
        let settings = PickCubeSettings { control_mode: mode, ..PickCubeSettings::default() };
        let mut env = tables(64, settings);
        let mut expert = PickCubeExpert::new(mode).with_misses(misses);
        let mut obs = env.reset(Seed::new(5)).unwrap();
        for t in 0..49 {
            let actions = expert.act(&obs, Seed::new(6).index(t)).unwrap().actions;
            obs = env.step(&actions).unwrap().obs;
        }
        obs
    };
    let obs = play(1.0);
    let states = || (0..64).map(|row| obs.row(row).state);
    let at_rest = states().filter(|state| state[9..16].iter().all(|speed| speed.abs() <= 0.2)).count();
    assert!(at_rest >= 58, "{at_rest} of 64 at rest");
    let held = states().filter(|state| state[18] > 0.5).count();
    assert!((20..44).contains(&held), "{held} of 64 hold the cube");
    let from_goal =
        |state: &[f32]| (0..3).map(|k| (state[29 + k] - state[26 + k]).powi(2)).sum::<f32>().sqrt();
    let near = states().filter(|state| from_goal(state) < 0.025).count();
    assert_eq!(near, 0, "cubes at the goal");
    let settings = PickCubeSettings { control_mode: mode, ..PickCubeSettings::default() };
    let (mut env, mut expert) = (tables(64, settings), PickCubeExpert::new(mode).with_misses(0.5));
    let solved = table_tasks::solved(env.as_mut(), &mut expert, 11, 50);
    assert!((20..45).contains(&solved), "{solved} of 64 with half of them missed");
}

#[test]
fn the_expert_refuses_what_it_cannot_read() {
    let mut env = tables(1, PickCubeSettings { obs_mode: ObsMode::Rgb, ..PickCubeSettings::default() });
    let obs = env.reset(Seed::new(1)).unwrap();
    assert_eq!(obs.cameras.len(), 1, "images without being asked");
    let error = PickCubeExpert::new(ControlMode::PdJointDeltaPos).act(&obs, Seed::new(1)).unwrap_err();
    let words = "the policy expects PickCube's full state of 42 numbers, the environment gives 29 numbers";
    assert_eq!(error.to_string(), words);
}

#[test]
fn the_state_is_in_maniskills_order() {
    let mut env = tables(64, PickCubeSettings::default());
    let obs = env.reset(Seed::new(1)).unwrap();
    for row in 0..64 {
        let state = obs.row(row).state;
        assert_eq!(state.len(), 42);
        let rest = [0.0, 0.125, 0.0, -0.625, 0.0, 0.75, 0.25].map(|turn| turn * std::f32::consts::PI);
        assert!(state[..7].iter().zip(rest).all(|(q, rest)| (q - rest).abs() < 0.1), "qpos");
        assert_eq!(state[7..9], [0.04, 0.04], "fingers");
        assert!(state[9..19].iter().all(|v| *v == 0.0), "qvel and is_grasped");
        let (tool, goal, cube) = (&state[19..26], &state[26..29], &state[29..36]);
        assert!((tool[2] - 0.17).abs() < 0.12 && tool[4] > 0.9, "the hand points down: {tool:?}");
        assert!(goal[0].abs() <= 0.1 && goal[1].abs() <= 0.1 && (0.02..=0.32).contains(&goal[2]));
        assert!(cube[0].abs() <= 0.1 && cube[1].abs() <= 0.1 && cube[2] == 0.02);
        assert_eq!(cube[4..6], [0.0, 0.0], "the cube lies flat");
        for axis in 0..3 {
            assert!((state[36 + axis] - (cube[axis] - tool[axis])).abs() < 1e-6, "tcp_to_obj_pos");
            assert!((state[39 + axis] - (goal[axis] - cube[axis])).abs() < 1e-6, "obj_to_goal_pos");
        }
    }
}

#[test]
fn every_number_of_the_state_has_a_name() {
    let mut env = tables(1, PickCubeSettings::default());
    let state = env.reset(Seed::new(5)).unwrap().state;
    let of = |name: &str| {
        let part = env.spec().state_parts.iter().find(|part| &*part.name == name).unwrap();
        state[part.range.clone()].to_vec()
    };
    assert_eq!(of("gripper"), [0.04, 0.04], "open at the start");
    for xyz in 0..3 {
        let (tool, cube) = (of("tcp_pose")[xyz], of("obj_pose")[xyz]);
        assert!((of("tcp_to_obj_pos")[xyz] - (cube - tool)).abs() < 1e-6);
        assert!((of("obj_to_goal_pos")[xyz] - (of("goal_pos")[xyz] - cube)).abs() < 1e-6);
    }
    let named: usize = env.spec().state_parts.iter().map(|part| part.range.len()).sum();
    assert_eq!(named, 42 + 2, "all once, and the fingers twice");
    let seen = tables(1, PickCubeSettings { obs_mode: ObsMode::Rgb, ..PickCubeSettings::default() });
    assert_eq!(seen.spec().state_parts.last().unwrap().name.as_ref(), "goal_pos");
}

#[test]
fn relative_rewards_add_up_to_the_reward_itself() {
    let run = |use_rel_reward| {
        let settings = PickCubeSettings {
            use_rel_reward,
            reward_mode: RewardMode::Dense,
            ..PickCubeSettings::default()
        };
        let mut env = tables(2, settings);
        let mut expert = PickCubeExpert::new(ControlMode::PdJointDeltaPos);
        let mut obs = env.reset(Seed::new(4)).unwrap();
        let mut rewards = Vec::new();
        for _ in 0..10 {
            let step = env.step(&expert.act(&obs, Seed::new(0)).unwrap().actions).unwrap();
            rewards.push(step.reward[1]);
            obs = step.obs;
        }
        rewards
    };
    let (plain, relative) = (run(false), run(true));
    assert_eq!(plain[0], relative[0]);
    assert!((relative.iter().sum::<f32>() - plain[9]).abs() < 1e-4);
}

#[test]
fn wild_actions_break_nothing() {
    for control_mode in MODES {
        let settings = PickCubeSettings { control_mode, ..PickCubeSettings::default() };
        table_tasks::endures_wild_actions(tables(8, settings).as_mut(), 20.0);
    }
}

#[test]
fn facts_are_named_and_success_follows_from_them() {
    let mut env = tables(8, PickCubeSettings::default());
    let mut expert = PickCubeExpert::new(ControlMode::PdJointDeltaPos);
    let mut obs = env.reset(Seed::new(4)).unwrap();
    let mut grasped = 0.0;
    for _ in 0..50 {
        let step = env.step(&expert.act(&obs, Seed::new(0)).unwrap().actions).unwrap();
        let names: Vec<&str> = step.facts.iter().map(|(name, _)| &**name).collect();
        assert_eq!(names, ["is_grasped", "is_obj_placed", "is_robot_static"]);
        for row in 0..8 {
            let success = step.facts[1].1[row] == 1.0 && step.facts[2].1[row] == 1.0;
            assert_eq!(step.success[row], success);
            assert_eq!(step.reward[row] == 1.0, success, "only success gives the full reward");
        }
        grasped += step.facts[0].1.iter().sum::<f32>();
        obs = step.obs;
    }
    assert!(grasped > 40.0, "{grasped}");
}

fn watched(id: EnvId, num_envs: usize, first_row: u64, settings: PickCubeSettings) -> Vec<Vec<u8>> {
    let settings = EnvSettings { first_row, pick_cube: Some(settings), ..EnvSettings::new(id, num_envs) };
    let mut env = make(&settings).unwrap();
    env.set_frames_needed(FramesNeeded::Everything);
    env.reset(Seed::new(9)).unwrap();
    let step = env.step(&vec![0.3; num_envs * 8]).unwrap();
    step.obs.cameras.into_iter().map(|(_, frames)| frames.pixels).collect()
}

#[test]
fn images_are_the_same_in_any_batch_and_on_any_number_of_threads() {
    let whole = watched(EnvId::PickCube3ViewV1, 4, 0, PickCubeSettings::default());
    assert_eq!(whole.len(), 2);
    assert_eq!(whole[0].len(), 4 * 128 * 128 * 3);
    let half = watched(EnvId::PickCube3ViewV1, 2, 2, PickCubeSettings::default());
    for (whole, half) in whole.iter().zip(&half) {
        assert!(whole[whole.len() / 2..] == half[..]);
    }
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    let alone = pool.install(|| watched(EnvId::PickCube3ViewV1, 4, 0, PickCubeSettings::default()));
    assert!(alone == whole);
}

#[test]
fn images_show_the_cube_and_the_goal_only_if_asked() {
    let count = |show_goal, name| {
        let cameras = Some(vec![CameraSettings { name, width: 160, height: 120 }]);
        let settings = PickCubeSettings { show_goal, cameras, ..PickCubeSettings::default() };
        let frame = watched(EnvId::PickCubeV1, 1, 0, settings).remove(0);
        assert_eq!(frame.len(), 160 * 120 * 3);
        let (mut red, mut green) = (0, 0);
        for pixel in frame.chunks_exact(3) {
            let [r, g, b] = [pixel[0], pixel[1], pixel[2]].map(i32::from);
            red += i32::from(r > 3 * g + 20 && r > 3 * b);
            green += i32::from(g > 3 * r + 20 && g > 3 * b);
        }
        (red, green)
    };
    let (red, green) = count(true, CameraName::ThirdViewCamera);
    assert!((10..400).contains(&red) && (10..600).contains(&green), "{red} red, {green} green");
    assert_eq!(count(false, CameraName::ThirdViewCamera), (red, 0));
    assert_eq!(count(false, CameraName::RenderCamera), (red, green), "people always see the goal");
}

#[test]
fn impossible_cameras_are_refused() {
    let refused = |id, cameras: Vec<CameraSettings>| {
        let pick_cube = Some(PickCubeSettings { cameras: Some(cameras), ..PickCubeSettings::default() });
        make(&EnvSettings { pick_cube, ..EnvSettings::new(id, 1) }).err().unwrap().to_string()
    };
    let base = CameraSettings::new(CameraName::BaseCamera);
    assert_eq!(
        refused(EnvId::PickCubeV1, vec![CameraSettings { width: 0, ..base }]),
        "camera `base_camera` cannot be 0 x 128 pixels; each side has 1 to 4096"
    );
    assert_eq!(refused(EnvId::PickCubeV1, vec![base, base]), "camera `base_camera` is listed twice");
    assert_eq!(
        refused(EnvId::CartPoleV1, vec![]),
        "`pick_cube` settings were given, but the environment is `CartPole-v1`; leave them out"
    );
}

/// Whoever needs no forces pays nothing for them, and sees the same states bit for bit.
#[test]
fn what_touches_the_arm_is_told_only_if_asked() {
    let episode = |needed: bool| {
        let mut env = tables(2, PickCubeSettings::default());
        env.set_wrench_needed(needed);
        let mut expert = PickCubeExpert::new(ControlMode::PdJointDeltaPos);
        let mut obs = env.reset(Seed::new(3)).unwrap();
        let (mut states, mut most) = (Vec::new(), 0.0_f32);
        for t in 0..60 {
            let step = env.step(&expert.act(&obs, Seed::new(t)).unwrap().actions).unwrap();
            let told = WRENCH_FACTS.map(|name| step.facts.iter().find(|(known, _)| &**known == name));
            assert!(told.iter().all(|fact| fact.is_some() == needed), "also after an episode has ended");
            let up =
                told[2].map_or(0.0, |(_, newtons)| newtons.iter().fold(0.0, |most: f32, n| most.min(*n)));
            most = most.min(up);
            states.extend(step.obs.state.clone());
            obs = step.obs;
        }
        (states, most)
    };
    let ((asked, weight), (unasked, nothing)) = (episode(true), episode(false));
    assert_eq!(asked, unasked);
    assert!((-3.0..-0.6).contains(&weight), "the cube hangs in the gripper: {weight} N");
    assert_eq!(nothing, 0.0);
}

/// Rendering a recorded state gives the recorded image, and every pixel has a label.
#[test]
fn an_image_is_rendered_again_from_its_state() {
    let camera = CameraSettings { name: CameraName::BaseCamera, width: 64, height: 64 };
    let mut env = tables(3, PickCubeSettings { cameras: Some(vec![camera]), ..PickCubeSettings::default() });
    env.set_frames_needed(FramesNeeded::Everything);
    let mut expert = PickCubeExpert::new(ControlMode::PdJointDeltaPos);
    let mut obs = env.reset(Seed::new(3)).unwrap();
    for t in 0..12 {
        for row in 0..3 {
            let seen = obs.row(row);
            let (_, pixels) = seen.image("base_camera").unwrap();
            let rendered = render_pick_cube(seen.state, CameraName::BaseCamera, (64, 64), true).unwrap();
            let apart = rendered.pixels.iter().zip(pixels).filter(|(a, b)| a.abs_diff(**b) > 2).count();
            assert!(apart < 60, "{apart} of {} bytes differ: more than edges", pixels.len());
            let goal = [&seen.state[26..29], &[1.0, 0.0, 0.0, 0.0]].concat();
            let (joints, cube) = (&seen.state[..9], &seen.state[29..36]);
            let moment = PickCubeMoment { joints, cube, goal: Some(&goal) };
            assert!(moment.draw(camera).unwrap() == rendered.pixels, "from joints and poses as well");
            assert_eq!(PickCubeMoment { joints: &joints[1..], ..moment }.draw(camera), None);
            for label in [PixelLabel::Background, PixelLabel::Shadow, PixelLabel::Arm, PixelLabel::Gripper] {
                assert!(rendered.labels.contains(&label), "{label:?} is nowhere");
            }
            let red = |at: usize| pixels[3 * at] > 2 * pixels[3 * at + 1].max(pixels[3 * at + 2]).max(20);
            let cube: Vec<usize> =
                (0..64 * 64).filter(|at| rendered.labels[*at] == PixelLabel::Object).collect();
            let reddish = cube.iter().filter(|at| red(**at)).count();
            assert!(2 * reddish >= cube.len(), "{reddish} of {} pixels of the cube are red", cube.len());
        }
        obs = env.step(&expert.act(&obs, Seed::new(4).index(t)).unwrap().actions).unwrap().obs;
    }
    assert_eq!(render_pick_cube(&[0.0; 29], CameraName::BaseCamera, (8, 8), true), None);
}
