//! Observations, actions, cameras and facts of every form.

use plaudit_core::{ActionSpace, Env, EnvError, FrameShape, FramesNeeded, Seed};
use plaudit_env::BridgeSettings;

use super::{Bridge, python, settings, start};

#[test]
fn nested_observations_become_cameras_and_one_state() {
    let Some(python) = python() else { return };
    let mut env = start(settings(python, "odd/Looks-v0", 2));
    let names: Vec<_> = env.spec().cameras.iter().map(|(name, shape)| (&**name, *shape)).collect();
    let front = FrameShape::rgb(32, 40);
    assert_eq!(names, [("images.front", front), ("images.wrist", FrameShape::rgb(36, 32))]);
    assert_eq!(env.spec().actions, ActionSpace::Discrete { n: 6 });
    // In the order of the space, which Gymnasium sorts: arm.pose 4, code 12, mode 3 (one of three).
    assert_eq!(env.spec().state_width, 4 + 12 + 3);
    env.reset(Seed::new(1)).unwrap();
    let step = env.step(&[5.0, 1.0]).unwrap();
    assert_eq!(step.reward, [12.0, 1.0], "5 is (1, 2) and 1 is (0, 1)");
    assert_eq!(step.success, [true, true]);
    let row = step.obs.row(1);
    assert_eq!(row.state[..6], [2.0, 3.0, 4.0, 5.0, 0.0, 1.0]);
    assert_eq!(row.state[16..], [0.0, 1.0, 0.0], "mode 2 of 1, 2, 3");
    let (_, wrist) = row.image("images.wrist").unwrap();
    assert_eq!(wrist[..6], [11, 20, 30, 11, 20, 30], "channels come last here");
    let end = env.step(&[0.0, 0.0]).unwrap();
    assert_eq!(end.last[1].1.row(0).image("images.front").unwrap().1[0], 2);
    assert_eq!(end.obs.row(1).image("images.front").unwrap().1[0], 0);
}

#[test]
fn observations_are_chosen_by_name() {
    let Some(python) = python() else { return };
    let looks = settings(python, "odd/Looks-v0", 1);
    let names = |names: &[&str]| Some(names.iter().map(|name| name.to_string()).collect());
    let chosen = BridgeSettings {
        cameras: names(&["images.wrist", "code"]),
        state: names(&["mode", "arm"]),
        ..looks.clone()
    };
    let mut env = start(chosen);
    assert_eq!(env.spec().cameras[1].1, FrameShape::rgb(2, 2));
    let obs = env.reset(Seed::new(1)).unwrap();
    assert_eq!(obs.state, [1.0, 0.0, 0.0, 1.0, 2.0, 3.0, 4.0]);
    let refused = |settings| Bridge::start(settings).unwrap_err().to_string();
    let words = refused(BridgeSettings { cameras: names(&["image"]), ..looks.clone() });
    assert!(words.contains("no observation named 'image'; there are 'arm.pose', 'code'"), "{words}");
    let words = refused(BridgeSettings { cameras: names(&["arm"]), ..looks });
    assert!(words.contains("'arm.pose' has shape (2, 2) and type float32; a camera has bytes"), "{words}");
}

#[test]
fn rendering_is_a_camera_that_is_only_rendered_when_watched() {
    let Some(python) = python() else { return };
    let settings = BridgeSettings {
        render: Some("view".into()),
        facts: vec!["lucky.number".into(), "missing".into()],
        instruction: Some("count".into()),
        ..settings(python, "odd/Counter-v0", 2)
    };
    let mut env = start(settings);
    assert_eq!(env.spec().cameras, [("view".into(), FrameShape::rgb(4, 6))]);
    assert_eq!(env.spec().control_hz, 7.0);
    assert!(env.reset(Seed::new(1)).unwrap().cameras.is_empty(), "not watched at first");
    env.set_frames_needed(FramesNeeded::Ends);
    let steps: Vec<_> = (0..3).map(|_| env.step(&[2.0, 1.0]).unwrap()).collect();
    assert!(steps.iter().all(|step| step.obs.cameras.is_empty()));
    assert_eq!(steps[2].last[1].1.cameras[0].1.pixels[0], 3, "the last image of the old episode");
    assert_eq!(steps[2].success, [true, false]);
    assert_eq!((&*steps[0].facts[0].0, &steps[0].facts[0].1[..]), ("lucky.number", &[7.0, 7.0][..]));
    assert!(steps[0].facts[1].1[0].is_nan(), "what is not reported is NaN");
    assert_eq!(steps[0].obs.row(1).task(), Some("count"));
    env.set_frames_needed(FramesNeeded::Everything);
    assert_eq!(env.step(&[0.0, 0.0]).unwrap().obs.cameras[0].1.pixels[0], 1);
}

#[test]
fn bad_actions_are_refused_before_they_are_sent_and_far_ones_are_clipped() {
    let Some(python) = python() else { return };
    let mut env = start(settings(python.clone(), "odd/Counter-v0", 2));
    assert!(matches!(env.step(&[0.0; 2]), Err(EnvError::NotReset)));
    let before = env.reset(Seed::new(1)).unwrap();
    assert!(env.step(&[3.0, 0.0]).is_err());
    assert!(env.step(&[0.0]).is_err());
    assert_eq!(env.step(&[0.0, 0.0]).unwrap().obs.state[1], before.state[1] + 1.0, "no step was lost");

    let mut env = start(settings(python, "MountainCarContinuous-v0", 2));
    env.reset(Seed::new(1)).unwrap();
    let step = env.step(&[1.0, 5.0]).unwrap();
    assert_eq!(step.reward[0], step.reward[1], "5 is rewarded as 1");
}

#[test]
fn ignored_terminations_run_to_the_clock() {
    let Some(python) = python() else { return };
    let odd = settings(python, "odd/Counter-v0", 1);
    let endless = BridgeSettings { ignore_terminations: true, ..odd };
    let words = Bridge::start(endless.clone()).unwrap_err().to_string();
    assert!(words.contains("no episode would end; set max_episode_steps"), "{words}");
    let mut env = start(BridgeSettings { max_episode_steps: Some(5), ..endless });
    assert_eq!(env.spec().max_episode_steps, Some(5));
    env.reset(Seed::new(1)).unwrap();
    let ends: Vec<_> = (0..5).map(|_| env.step(&[2.0]).unwrap().end[0] as u8).collect();
    assert_eq!(ends, [0, 0, 0, 0, 2]);
}
