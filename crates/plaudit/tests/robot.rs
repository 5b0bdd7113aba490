//! Robots as a person uses them: the simulated one, and what is refused by name before anything moves.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use plaudit_pyfiles as pyfiles;
use serde_json::Value;

use crate::runs::{fresh_classifier, on_one_line};

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
        (&["env.eval.override_cfg.server_url=http://127.0.0.1:1"], "no camera is named for the main view"),
        (&["env.eval.override_cfg.server_url=https://robot"], "robot servers speak plain http"),
        (
            &["env.eval.override_cfg.robot_ip=sim", "env.eval.override_cfg.pilot=terminal"],
            "the pilot's terminal cannot be read: standard input is no terminal",
        ),
        (
            &[
                "env.eval.override_cfg.robot_ip=sim",
                "env.eval.override_cfg.pilot=gamepad",
                "env.eval.override_cfg.pilot_device=/dev/input/event-none",
            ],
            "the pilot's gamepad cannot be read: /dev/input/event-none is not there",
        ),
        (
            &["env.eval.override_cfg.robot_ip=sim", "env.eval.override_cfg.dead_man=true"],
            "nobody can hold the dead-man's switch: the pilot is `script`",
        ),
        (&["env.eval.override_cfg.camera_serials=[rtsp://cam]"], "`rtsp` is not spoken here"),
        (
            &[
                "env.eval.override_cfg.robot_ip=sim",
                "++env.eval.override_cfg.camera_crop_regions.top=[0,0,1,1]",
            ],
            "it names `top`, and there is wrist_1, wrist_2",
        ),
        (&["env.eval.override_cfg.camera_type=zed"], "ZED cameras show both eyes"),
        (
            &[
                "env.eval.override_cfg.robot_ip=sim",
                "++env.eval.override_cfg.camera_urls.wrist_1=replay:no/such/folder",
            ],
            "camera `wrist_1` at no/such/folder",
        ),
        (
            &["env.eval.override_cfg.ee_pose_limit_max=[1,1,1,0,0,0]", "env.eval.override_cfg.robot_ip=sim"],
            "one of its two corners",
        ),
        (&["env.eval.override_cfg.robot_ip=sim", "env.eval.total_num_envs=2"], "a robot is one environment"),
        (
            &["env.eval.keyboard_reward_wrapper=eval_control"],
            "single_stage, multi_stage and start_end are there, and this one is not",
        ),
        (
            &["env.eval.override_cfg.robot_ip=sim", "env.eval.keyboard_reward_wrapper=single_stage"],
            "nobody can press its keys",
        ),
        (&["env.eval.override_cfg.manual_episode_control_only=true"], "no key would end an episode"),
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
        let text = on_one_line(&output.stderr);
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

/// A model that looks at these views.
fn model(folder: &Path, views: &[&str]) -> PathBuf {
    fresh_classifier(folder.join(format!("model-of-{}", views.join("-"))), views, Some(0.5), 1)
}

/// `plaudit robot teleop` on the simulated peg.
fn teleop(directory: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_plaudit"));
    command.args(["robot", "teleop", "realworld_teleop", "env.eval.override_cfg.robot_ip=sim"]);
    command.args([
        "env.eval.init_params.id=PegInsertionEnv-v1",
        "~reward.model.arch",
        "~reward.model.image_size",
    ]);
    command.args(words).current_dir(directory).stdin(Stdio::null());
    command
}

fn summary(output: &Output) -> Value {
    assert!(output.status.success(), "{}", stderr(output));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// `plaudit serve` while it runs.
struct Serving {
    child: Child,
    address: String,
}

impl Serving {
    fn start(directory: &Path, model: &Path) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_plaudit"));
        command.arg("serve").arg(model).args(["--port", "0"]).current_dir(directory);
        let mut child =
            command.env_remove("PLAUDIT_TOKEN").stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening on ").unwrap_or_else(|| panic!("{line}"));
        Self { address: address.into(), child }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

#[test]
fn the_model_ends_episodes_of_teleoperation_here_and_on_a_server() {
    let directory = tempfile::tempdir().unwrap();
    let place = model(directory.path(), &["main_images"]);
    let here = format!("reward.model.model_path={}", place.display());
    let sure = ["--episodes", "2", "--json", "reward.reward_threshold=0.001", "reward.hold_steps=3"];

    let words = [&["--local", &here][..], &sure].concat();
    let local = summary(&teleop(directory.path(), &words).output().unwrap());
    let serving = Serving::start(directory.path(), &place);
    let base = format!("reward.api.api_base={}", serving.address);
    let words = [&["reward.worker_type=api", &base][..], &sure].concat();
    let remote = summary(&teleop(directory.path(), &words).output().unwrap());
    for summary in [&local, &remote] {
        let episodes = summary["episodes"].as_array().unwrap();
        assert_eq!(episodes.len(), 2, "{summary}");
        for episode in episodes {
            assert_eq!((&episode["end"], &episode["streak"]), (&"model".into(), &3.into()), "{summary}");
            let probability = episode["probability"].as_f64().unwrap();
            assert!(probability > 0.001 && probability < 1.0, "{summary}");
        }
        assert!(summary["scores"].as_u64().unwrap() >= 6, "{summary}");
        assert!(summary["moved_steps"].as_u64().unwrap() > 0, "the script moves the arm: {summary}");
    }

    // A model that is never sure ends nothing, and without a terminal there is a line each second.
    let unsure = [
        "--local",
        &here,
        "--episodes",
        "1",
        "reward.reward_threshold=0.999",
        "env.eval.max_episode_steps=25",
    ];
    let output = teleop(directory.path(), &unsure).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(text.contains("threshold 0.999  held 0/1  frame ") && !text.contains('\r'), "{text}");
    assert!(text.contains("episode 1: over after 25 steps, after "), "{text}");
    assert!(text.contains("episodes   1 (ended: 1 at the step limit)") && text.contains("scores "), "{text}");
}

/// The server of the model dies: the command waits as long as it may, then says so, and the arm holds.
#[test]
fn a_reward_server_that_dies_ends_teleoperation() {
    let directory = tempfile::tempdir().unwrap();
    let serving = Serving::start(directory.path(), &model(directory.path(), &["main_images"]));
    let base = format!("reward.api.api_base={}", serving.address);
    let words =
        ["reward.worker_type=api", &base, "reward.api.give_up_secs=1", "reward.reward_threshold=0.999"];
    let mut child =
        teleop(directory.path(), &words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("threshold 0.999")), "it never scored");
    drop(serving);
    let begun = Instant::now();
    let output = child.wait_with_output().unwrap();
    let text = on_one_line(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(begun.elapsed() < Duration::from_secs(60), "{text}");
    assert!(text.contains("the arm holds") && text.contains(serving_address(&base)), "{text}");
}

fn serving_address(base: &str) -> &str {
    base.split_once("http://").unwrap().1
}

/// A window of frames, for models that score those.
const WINDOW: &str = "+reward.model.history_buffers.window={history_size: 2, history_keys: [main_images]}";

#[test]
fn what_teleoperation_lacks_is_named_before_anything_moves() {
    let directory = tempfile::tempdir().unwrap();
    let other = format!("reward.model.model_path={}", model(directory.path(), &["side_camera"]).display());
    let here = format!("reward.model.model_path={}", model(directory.path(), &["main_images"]).display());
    for (words, named) in [
        (&[here.as_str()][..], "`plaudit serve` runs it on another, with reward.worker_type=api"),
        (&["--local"], "a learned reward without weights"),
        (&["--local", &other], "no camera for `side_camera`; it has wrist_1, wrist_2"),
        (&["--local", &here, "reward.reward_threshold=0"], "every score would be one"),
        (
            &["--local", &here, "reward.reward_mode=history_buffer", WINDOW],
            "frames are to be scored as they come",
        ),
        (
            &["--local", &here, "env.eval.keyboard_reward_wrapper=multi_stage"],
            "this command has keys of its own: c, a and q",
        ),
        (&["reward.worker_type=api"], "its address is not set"),
    ] {
        let output = teleop(directory.path(), words).output().unwrap();
        let text = on_one_line(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {text}");
        assert!(text.contains(named), "{words:?}: {text}");
    }
    let output = plaudit(directory.path(), &["robot", "teleop", "cartpole_random"]);
    assert!(stderr(&output).contains("describes no robot"), "{}", stderr(&output));
}
