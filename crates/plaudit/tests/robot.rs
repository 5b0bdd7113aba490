//! Robots as a person uses them: the simulated one, and what is refused by name before anything moves.

#![allow(clippy::unwrap_used)] // a test that cannot go on says so by stopping

use std::path::Path;
use std::process::{Command, Output};

use plaudit_pyfiles as pyfiles;

fn plaudit(directory: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_plaudit"));
    command.args(words).current_dir(directory).output().unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn episodes_are_collected_from_a_simulated_robot() {
    let directory = tempfile::tempdir().unwrap();
    let words = [
        "collect",
        "realworld_collect_data",
        "--episodes",
        "1",
        "env.eval.override_cfg.robot_ip=sim",
        "env.eval.override_cfg.success_hold_steps=5",
        "env.eval.max_episode_steps=300",
        "env.eval.data_collection.save_dir=kept",
    ];
    let output = plaudit(directory.path(), &words);
    assert!(output.status.success(), "{}", stderr(&output));
    let kept: Vec<_> = std::fs::read_dir(directory.path().join("kept")).unwrap().collect();
    let pickle = kept.iter().map(|entry| entry.as_ref().unwrap().path());
    let pickle = pickle.filter(|path| path.extension().is_some_and(|e| e == "pkl")).collect::<Vec<_>>();
    assert_eq!(pickle.len(), 1);
    let episode = pyfiles::read(&pickle[0]).unwrap();
    assert_eq!(episode.get("success").and_then(|success| success.to_bool()), Some(true));
    let seen = episode.get("observations").and_then(|list| list.as_items()).unwrap();
    let image = seen[0].get("main_images").and_then(|image| image.as_array()).unwrap();
    assert_eq!(image.shape(), [128, 128, 3]);
    assert!(seen.len() > 6, "a person takes some steps: {}", seen.len());
}

#[test]
fn what_a_robot_lacks_is_named_before_anything_moves() {
    let directory = tempfile::tempdir().unwrap();
    let given = ["env.eval.override_cfg.target_ee_pose=[0.5,0,0.1,-3.14,0,0]"];
    for (words, named) in [
        (&[][..], "no robot server is named"),
        (&["env.eval.override_cfg.server_url=http://127.0.0.1:1"], "no stream is named for the main view"),
        (&["env.eval.override_cfg.server_url=https://robot"], "robot servers speak plain http"),
        (
            &["env.eval.override_cfg.robot_ip=sim", "env.eval.override_cfg.pilot=spacemouse"],
            "SpaceMouse cannot be read yet",
        ),
        (&["env.eval.override_cfg.robot_ip=sim", "env.eval.total_num_envs=2"], "a robot is one environment"),
        (&["env.eval.keyboard_reward_wrapper=single_stage"], "labels by key are not there yet"),
        (
            &[
                "env.eval.override_cfg.robot_ip=sim",
                "++env.eval.override_cfg.compliance_param.translational_stiffness=9000",
            ],
            "the controller takes 0 to 6000",
        ),
    ] {
        let all = [&["collect", "realworld_collect_data"], &given[..], words].concat();
        let output = plaudit(directory.path(), &all);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {}", stderr(&output));
        // Long messages are wrapped.
        let text = stderr(&output).replace(['│', '\n'], " ").split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains(named), "{words:?}: {text}");
    }
}

#[test]
fn a_simulated_robot_listens_and_ends() {
    let directory = tempfile::tempdir().unwrap();
    let output =
        plaudit(directory.path(), &["robot", "simulate", "pick-cube", "--port", "0", "--seconds", "0.2"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.starts_with("a simulated robot listens at http://127.0.0.1:"), "{text}");
    assert!(text.contains("/camera/hand_camera") && text.contains("target_ee_pose  ["), "{text}");
    let output = plaudit(directory.path(), &["robot", "simulate", "--speed", "0"]);
    assert!(stderr(&output).contains("a number from 0.01 to 100"), "{}", stderr(&output));
}
