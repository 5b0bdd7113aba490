//! Every format of episodes under every command that reads some, as a table: what works, and what is refused in which words.

use std::path::Path;

use crate::runs::{plaudit, refused, succeeds};

/// What a command does with a format.
#[derive(Clone, Copy)]
enum Outcome {
    Works,
    /// It is refused for a reason that lies in the format, in these words.
    Refused(&'static str),
}
use Outcome::{Refused, Works};

const NO_ACTIONS: Outcome = Refused("it holds no actions");
/// Where success alone is rewarded, what never says what succeeded has no reward.
const NO_REWARDS: Outcome = Refused("gets any reward");
const NO_LAST_FRAME: Outcome = Refused("the one after the last action");
/// RLinf's replay buffers never say what succeeded.
const NO_SUCCESS: Outcome = Refused("does not say which frames show success");
/// Neither trajectories nor LeRobot's datasets have rewards: windows of them go by success, if that is asked for.
const NO_SCORES: Outcome = Refused("it holds no rewards");
/// Images that a person sorted have no order of time.
const NO_ORDER: Outcome = Refused("without an order of time");

/// A format, where it lies, and how it fares: inspect, images, windows, windows by success, reward train, reward eval, reward
/// audit, cloning, RLPD.
type Row = (&'static str, [Outcome; 9]);
const TABLE: &[Row] = &[
    ("pickle", [Works; 9]),
    ("frames", [Works, Works, Works, Works, Works, Works, Works, NO_LAST_FRAME, NO_LAST_FRAME]),
    ("npy", [Works, Works, NO_SCORES, Works, Works, Works, Works, NO_ACTIONS, NO_ACTIONS]),
    ("lerobot", [Works, Works, NO_SCORES, Works, Works, Works, Works, Works, Works]),
    (
        "replay_buffer",
        [Works, NO_SUCCESS, Works, NO_SUCCESS, NO_SUCCESS, NO_SUCCESS, NO_SUCCESS, Works, NO_REWARDS],
    ),
    ("store", [Works; 9]),
    ("sorted", [Works, Works, NO_ORDER, NO_ORDER, Works, Works, Works, NO_ACTIONS, NO_ACTIONS]),
];

/// The same six episodes in every format that `collect` writes.
fn collect(at: &Path, format: &str) {
    let export = format!("env.eval.data_collection.export_format={format}");
    let folder = format!("env.eval.data_collection.save_dir={format}");
    let words = [
        "collect",
        "pickcube_demos",
        "-q",
        "--episodes",
        "6",
        "env.eval.total_num_envs=6",
        "env.eval.data_collection.target_success=6",
        "env.eval.init_params.sensor_configs={width:32,height:32}",
        &export,
        &folder,
    ];
    succeeds(at, &words);
}

/// Images in folders by outcome, as a person sorts them.
fn sort_images(at: &Path) {
    for (folder, shade) in [("success", 200), ("failure", 40)] {
        let folder = at.join("sorted").join(folder);
        std::fs::create_dir_all(&folder).unwrap();
        for number in 0..8u8 {
            let pixels: Vec<u8> = (0..32 * 32 * 3).map(|at| shade + number + (at % 7) as u8).collect();
            let file = std::fs::File::create(folder.join(format!("{number:06}.png"))).unwrap();
            let mut encoder = png::Encoder::new(file, 32, 32);
            encoder.set_color(png::ColorType::Rgb);
            encoder.write_header().unwrap().write_image_data(&pixels).unwrap();
        }
    }
}

/// The commands in the order of the table.
fn commands(format: &str) -> [Vec<String>; 9] {
    let trained = ["runner.max_steps=2", "runner.val_check_interval=1", "runner.save_interval=1"];
    let small = ["env.train.total_num_envs=2", "env.eval.total_num_envs=2", "runner.max_epochs=1"];
    let batches = ["actor.global_batch_size=8", "actor.micro_batch_size=8"];
    let line = |words: &str, more: &[&str]| -> Vec<String> {
        let words = words.replace("FORMAT", format);
        words.split(' ').map(String::from).chain(more.iter().map(|word| word.to_string())).collect()
    };
    [
        line("dataset inspect FORMAT", &[]),
        line("dataset images --raw-data-path FORMAT --output-dir images/FORMAT", &[]),
        line("dataset windows --raw-data-path FORMAT --output-dir windows/FORMAT --extra-views none", &[]),
        line(
            "dataset windows --raw-data-path FORMAT --output-dir solved/FORMAT --extra-views none --score success \
             --tail-unclear-ratio 0",
            &[],
        ),
        line(
            "reward train --data FORMAT -q actor.model.arch=resnet10 actor.model.image_size=[3,32,32] \
             runner.logger.log_path=models/FORMAT",
            &[&trained[..], &batches].concat(),
        ),
        line("reward eval models/pickle FORMAT -q --output-dir eval/FORMAT", &[]),
        line(
            "reward audit models/pickle FORMAT -q --no-store --stress-frames 1 --output-dir audit/FORMAT",
            &[],
        ),
        line(
            "train pickcube_ppo -q algorithm.cloning.load_path=FORMAT algorithm.cloning.steps=2 \
             runner.logger.log_path=cloned/FORMAT",
            &[&small[..], &["actor.global_batch_size=50", "actor.micro_batch_size=50"]].concat(),
        ),
        line(
            "train pickcube_rlpd_env_reward -q algorithm.demo_buffer.load_path=FORMAT algorithm.cloning.steps=2 \
             algorithm.cloning.load_path=FORMAT runner.logger.log_path=learned/FORMAT runner.max_steps=1",
            &small,
        ),
    ]
}

#[test]
fn every_command_reads_every_format() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    for format in ["pickle", "frames", "npy", "lerobot", "replay_buffer", "store"] {
        collect(at, format);
    }
    sort_images(at);
    for (format, outcomes) in TABLE {
        for (words, outcome) in commands(format).iter().zip(outcomes) {
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let output = plaudit(at, &words);
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            let code = output.status.code();
            match outcome {
                // 3: an audit that does not pass; a model of two steps never does.
                Works => assert!(code == Some(0) || code == Some(3), "{format}, {words:?}: {said}"),
                Refused(why) => {
                    assert!(code == Some(1) || code == Some(2), "{format}, {words:?}: {code:?} {said}");
                    let said = refused(at, &words, code.unwrap());
                    assert!(said.contains(why), "{format}, {words:?}: `{why}` is not in: {said}");
                }
            }
        }
    }
}

/// A judge small enough to learn in a second.
const SMALL: &str = "
defaults: [pickcube_trend_sft, _self_]
data: {dataset_name: simple_vlm_trend_reward_sft}
runner: {max_steps: 1, val_check_interval: 1, save_interval: 1}
actor:
  micro_batch_size: 2
  global_batch_size: 2
  model:
    text_config: {hidden_size: 32, num_hidden_layers: 1, num_attention_heads: 1, num_key_value_heads: 1, intermediate_size: 64}
    vision_config: {hidden_size: 32, depth: 1, num_heads: 1, intermediate_size: 64, num_position_embeddings: 16}
";

#[test]
fn a_judge_learns_from_windows_of_every_format_of_episodes() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    std::fs::write(at.join("small.yaml"), SMALL).unwrap();
    for (format, score) in [
        ("pickle", "rewards"),
        ("frames", "rewards"),
        ("store", "rewards"),
        ("replay_buffer", "rewards"),
        ("npy", "success"),
        ("lerobot", "success"),
    ] {
        collect(at, format);
        let out = format!("windows/{format}");
        let made =
            ["dataset", "windows", "-q", "--raw-data-path", format, "--output-dir", &out, "--score", score];
        let few = ["--extra-views", "none", "--tail-unclear-ratio", "0", "--max-samples-per-label", "4"];
        succeeds(at, &[&made[..], &few].concat());
        let (root, run) =
            (format!("data.data_root={out}"), format!("runner.logger.log_path=judges/{format}"));
        succeeds(at, &["reward", "sft", "small.yaml", "-q", &root, &run]);
    }
}

/// Recordings of other programs, from the fixtures of `data`: what a person types, and what comes out.
#[test]
fn recordings_of_other_programs_are_looked_at_and_converted() {
    let dir = tempfile::tempdir().unwrap();
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../data/tests");
    for (path, format, episodes) in [
        ("rlds/arm", "an RLDS dataset", 7),
        ("zarr/push.zarr", "a replay buffer in zarr", 3),
        ("zarr/umi.zarr.zip", "a replay buffer in zarr", 3),
        ("mcap", "recordings of a robot in MCAP", 3),
    ] {
        let path = data.join(path).display().to_string();
        let report = succeeds(dir.path(), &["dataset", "inspect", &path]);
        assert!(report.contains(format) && report.contains(&format!("{episodes} episodes")), "{report}");
        succeeds(dir.path(), &["dataset", "verify", &path]);
        let images =
            ["dataset", "images", "--raw-data-path", &path, "--val-split", "0.5", "--output-dir", "out"];
        succeeds(dir.path(), &[&images[..], &["--success-last-frames", "2"]].concat());
    }
}

/// What ManiSkill recorded without images gets them, and is then a dataset like any other.
#[test]
fn trajectories_without_images_are_rendered() {
    let dir = tempfile::tempdir().unwrap();
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../data/tests/hdf5");
    let recorded = |name: &str| data.join("maniskill_recorded").join(name).display().to_string();
    for (name, cameras) in [
        ("pick_cube.none", &["base_camera"][..]),
        ("pick_cube.state", &["hand_camera", "base_camera"]),
        ("peg_insertion.state", &["base_camera"]),
    ] {
        let file = recorded(&format!("{name}.h5"));
        let mut words = vec!["dataset", "render", &file, "--output-dir", name, "--size", "32"];
        words.extend(cameras.iter().flat_map(|camera| ["--camera", camera]));
        assert_eq!(succeeds(dir.path(), &words), format!("2 episodes in {name}\n"));
        let report = succeeds(dir.path(), &["dataset", "inspect", name]);
        assert!(report.contains("2 episodes") && report.contains("32x32"), "{report}");
        assert!(cameras.iter().all(|camera| report.contains(camera)), "{report}");
        assert!(!report.contains("black"), "{report}");
        let exported = format!("{name}.lerobot");
        succeeds(dir.path(), &["dataset", "export", name, "--format", "lerobot", "--output-dir", &exported]);
        let report = succeeds(dir.path(), &["dataset", "inspect", &exported]);
        assert!(report.contains("a LeRobot dataset") && report.contains("2 episodes"), "{report}");
    }
    let file = recorded("pick_cube.none.h5");
    for (words, why) in [
        (&["--env-id", "StackCube-v1"][..], "cannot be drawn here"),
        (&["--env-id", "PegInsertionSide-v1"], "the simulator's states have no `peg`"),
        (&["--camera", "left"], "the cameras are base_camera"),
    ] {
        let words = [&["dataset", "render", &file, "--output-dir", "no"], words].concat();
        let said = refused(dir.path(), &words, 2);
        assert!(said.contains(why), "{said}");
    }
    let unplayed = data.join("maniskill_state/trajectory.state.h5").display().to_string();
    let said = refused(dir.path(), &["dataset", "render", &unplayed, "--output-dir", "no"], 1);
    assert!(said.contains("env_states"), "{said}");
}

/// What an export adds when it is asked to, and what it refuses.
#[test]
fn exports_have_poses_and_scores_where_they_are_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    collect(at, "store");
    let train =
        ["reward", "train", "--data", "store", "-q", "actor.model.arch=resnet10", "runner.max_steps=2"];
    let small = ["actor.model.image_size=[3,32,32]", "actor.global_batch_size=8", "actor.micro_batch_size=8"];
    let run = ["runner.val_check_interval=1", "runner.save_interval=1", "runner.logger.log_path=model"];
    succeeds(at, &[&train[..], &small, &run].concat());
    let export = ["dataset", "export", "store", "--format"];
    let mcap = ["mcap", "--reward-model", "model", "--pose", "tcp=19:wxyz", "--output-dir", "mcap"];
    succeeds(at, &[&export[..], &mcap].concat());
    let file = std::fs::read_dir(at.join("mcap")).unwrap().next().unwrap().unwrap().path();
    let bytes = std::fs::read(file).unwrap();
    let has = |word: &str| bytes.windows(word.len()).any(|found| found == word.as_bytes());
    for word in ["/pose/tcp", "foxglove.PoseInFrame", "/reward_model/score", "/camera/base_camera"] {
        assert!(has(word), "{word} is not in the file");
    }
    // The scores were not seen by the robot: the files are read back as they were without them.
    let report = succeeds(at, &["dataset", "inspect", "mcap"]);
    assert!(report.contains("6 episodes"), "{report}");
    succeeds(at, &[&export[..], &["maniskill", "--output-dir", "trajectories"]].concat());
    let report = succeeds(at, &["dataset", "inspect", "trajectories"]);
    assert!(report.contains("6 episodes") && report.contains("base_camera"), "{report}");
    for (words, why) in [
        (&["mcap", "--pose", "tcp=40:wxyz"][..], "numbers 40 to 46 of a state of 42"),
        (&["mcap", "--pose", "tcp=1:zyx"], "NAME=FIRST:ORDER"),
        (&["lerobot", "--pose", "tcp=19:wxyz"], "--pose is for --format mcap"),
        (&["mcap", "--env-id", "PickCube-v1"], "--env-id is for --format maniskill"),
    ] {
        let said = refused(at, &[&export[..], words, &["--output-dir", "no"]].concat(), 2);
        assert!(said.contains(why), "{said}");
        assert!(!at.join("no").exists(), "it left something behind");
    }
}

/// A damaged file among others is an error that names it and the flag, and with that is left out and listed.
#[test]
fn a_bad_file_stops_every_command_unless_it_is_to_be_skipped() {
    let dir = tempfile::tempdir().unwrap();
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../data/tests/rlds/arm/1.0.0");
    std::fs::create_dir(dir.path().join("arm")).unwrap();
    for entry in std::fs::read_dir(data).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, dir.path().join("arm").join(path.file_name().unwrap())).unwrap();
    }
    std::fs::remove_file(dir.path().join("arm/arm-train.tfrecord-00001-of-00002")).unwrap();
    let train = ["reward", "train", "--data", "arm", "runner.max_steps=1", "actor.model.arch=resnet10"];
    let size = ["actor.model.image_size=[3,32,32]", "actor.micro_batch_size=2", "actor.global_batch_size=2"];
    let train = [&train[..], &size, &["runner.logger.log_path=run"]].concat();
    let images = vec!["dataset", "images", "--raw-data-path", "arm"];
    for (words, flag, hint) in [
        (train, "data.skip_bad=true", "data.skip_bad: true leaves such files out"),
        (images, "--skip-bad", "--skip-bad leaves such files out"),
    ] {
        let output = plaudit(dir.path(), &words);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains(hint), "{said}");
        assert!(said.contains("00001-of-00002"), "{said}");
        let output = plaudit(dir.path(), &[&words[..], &[flag]].concat());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}");
        assert!(said.contains("1 file(s) were left out") && said.contains("00001-of-00002"), "{said}");
    }
}
