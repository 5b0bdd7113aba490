//! `plaudit reward train` and `plaudit reward eval` as a person meets them, on images small enough to learn in seconds.

use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::Arc;

use crate::runs::{on_one_line, plaudit};
use plaudit_core::Seed;
use plaudit_nn::Weights;
use plaudit_pyfiles::{self as pyfiles, Array, ObjectArray, PyValue, Storages};
use plaudit_reward::card::ModelCard;
use serde_json::Value;

const SIDE: usize = 16;

/// The smallest network, a few steps, deterministic.
const SMALL: [&str; 9] = [
    "actor.model.arch=resnet10",
    "actor.model.image_size=[3,32,32]",
    "actor.model.hidden_dim=16",
    "actor.micro_batch_size=8",
    "actor.global_batch_size=8",
    "actor.optim.lr=1e-3",
    "actor.optim.lr_warmup_steps=0",
    "runner.val_check_interval=4",
    "runner.save_interval=4",
];

fn said(output: &Output) -> String {
    on_one_line(&[&output.stdout[..], &output.stderr[..]].concat())
}

fn train(folder: &Path, words: &[&str]) -> Output {
    plaudit(folder, &[&["reward", "train"], words, &SMALL[..]].concat())
}

fn done(output: &Output) -> String {
    let said = said(output);
    assert!(output.status.success(), "{said}");
    said
}

/// A refusal with this exit code that says all of this, and does not panic.
fn refused(output: &Output, code: i32, says: &[&str]) {
    let said = said(output);
    assert_eq!(output.status.code(), Some(code), "{said}");
    for words in says {
        assert!(said.contains(words), "`{words}` is not in: {said}");
    }
    assert!(!said.contains("panicked"), "{said}");
}

/// Noise, with a bright square on the left for success and on the right for failure.
fn image_pixels(success: bool, number: usize) -> Vec<u8> {
    let mut rng = Seed::new(4).index(number as u64).rng();
    let mut pixels: Vec<u8> = (0..SIDE * SIDE * 3).map(|_| rng.below(90) as u8).collect();
    let left = if success { 1 } else { 10 };
    for row in 5..10 {
        pixels[(row * SIDE + left) * 3..][..15].fill(240);
    }
    pixels
}

fn write_pt(path: &Path, labels: impl Iterator<Item = bool>) {
    let labels: Vec<bool> = labels.collect();
    let image = |(number, success): (usize, &bool)| {
        PyValue::Tensor(Arc::new(
            Array::from_slice(&[SIDE, SIDE, 3], &image_pixels(*success, number)).unwrap(),
        ))
    };
    let data = PyValue::dict([
        ("images", PyValue::list(labels.iter().enumerate().map(image))),
        ("labels", PyValue::list(labels.iter().map(|label| PyValue::Int((*label).into())))),
    ]);
    pyfiles::write_pt(path, &data, Storages::Shared).unwrap();
}

fn thirds(count: usize) -> impl Iterator<Item = bool> {
    (0..count).map(|at| at % 3 == 0)
}

/// A folder with train.pt and val.pt.
fn dataset() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    write_pt(&folder.path().join("train.pt"), thirds(48));
    write_pt(&folder.path().join("val.pt"), thirds(18));
    folder
}

fn card(model: &Path) -> ModelCard {
    ModelCard::from_header(Weights::read(model).unwrap().metadata()).unwrap().unwrap()
}

#[test]
fn a_model_is_trained_from_images_measured_and_kept_for_everybody() {
    let folder = dataset();
    let here = folder.path();
    let words = [
        "reward_training",
        "data.train_data_paths=train.pt",
        "data.val_data_paths=val.pt",
        "runner.max_steps=16",
        "runner.logger.log_path=run",
        "data.debug_save_dir=debug",
        "data.augment.shift=0.05",
        "--output-checkpoint",
        "out/model.pt",
    ];
    let said = done(&train(here, &words));
    for expected in
        ["AUC", "average precision", "model.safetensors", "full_weights.pt", "plaudit reward eval"]
    {
        assert!(said.contains(expected), "`{expected}` is not in: {said}");
    }
    let best = here.join("run/checkpoints/best_model");
    let card = card(&best);
    assert!(card.metrics.unwrap().auc.unwrap() > 0.9, "{card:?}");
    assert_eq!(card.dataset.as_ref().unwrap().train.balance.successes, 16);
    let same = Weights::read(here.join("out/model.pt")).unwrap();
    assert!(
        same.iter().eq(Weights::read(best.join("actor/model_state_dict/full_weights.pt")).unwrap().iter())
    );
    for file in ["debug/train/success/train_00000.png", "debug/val/fail/val_00001.png", "run/config.yaml"] {
        assert!(here.join(file).is_file(), "{file}");
    }
    let log = std::fs::read_to_string(here.join("run/events.jsonl")).unwrap();
    for name in ["train/loss", "train/grad_norm", "eval/val_loss", "eval/auc", "data/augment"] {
        assert!(log.contains(name), "{name}");
    }

    let words = ["reward", "eval", "run", "val.pt", "--output-dir", "measured", "--json"];
    let output = plaudit(here, &words);
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let close = |a: Option<f64>, b: Option<f64>| (a.unwrap() - b.unwrap()).abs() < 1e-9;
    assert!(close(found["metrics"]["auc"].as_f64(), card.metrics.unwrap().auc));
    let table = std::fs::read_to_string(here.join("measured/scores.csv")).unwrap();
    assert_eq!(table.lines().count(), 19);
    assert!(table.starts_with("episode,frame,score,success\nval,0,"), "{table}");
    assert!(here.join("measured/curves.png").is_file());
    assert!(String::from_utf8_lossy(&output.stderr).contains("images are 16x16; the model takes 32x32"));
    let said =
        done(&plaudit(here, &["reward", "eval", "out/model.pt", "val.pt", "--image-size", "3", "32", "32"]));
    assert!(said.contains("AUC"), "weights without a card are taken for what they look like: {said}");
}

#[test]
fn a_resumed_training_ends_with_the_same_bits() {
    let folder = dataset();
    let words = |log: &'static str, steps: &'static str| {
        // A rate that falls over the whole run would fall faster over half of it.
        [
            "reward_training",
            "data.data_path=.",
            "actor.optim.lr_scheduler=constant",
            "actor.seed=7",
            log,
            steps,
        ]
    };
    done(&train(folder.path(), &words("runner.logger.log_path=whole", "runner.max_steps=8")));
    done(&train(folder.path(), &words("runner.logger.log_path=halves", "runner.max_steps=4")));
    done(&train(folder.path(), &words("runner.resume_dir=halves", "runner.max_steps=8")));
    let state = |run: &str| {
        std::fs::read(folder.path().join(run).join("checkpoints/global_step_8/actor/trainer.safetensors"))
            .unwrap()
    };
    assert!(state("whole") == state("halves"));
    assert!(!folder.path().join("halves/checkpoints/global_step_4/actor/trainer.safetensors").exists());

    write_pt(&folder.path().join("train.pt"), thirds(45));
    let output = train(folder.path(), &words("runner.resume_dir=halves", "runner.max_steps=12"));
    refused(&output, 2, &["not what this run was trained on", "actor.model.model_path"]);
}

/// A trajectory of four frames; the last two are labelled.
fn write_npy(path: &Path, success: bool, number: usize) {
    write_npy_of(&["base_camera"], path, success, number);
}

/// The same through these cameras, which all see the same.
fn write_npy_of(cameras: &[&str], path: &Path, success: bool, number: usize) {
    let mut images = Vec::new();
    for frame in 0..4 {
        let pixels = image_pixels(success && frame > 1, number * 4 + frame);
        for channel in 0..3 {
            images.extend(pixels[channel..].iter().step_by(3).map(|byte| f32::from(*byte) / 255.0));
        }
    }
    let labels = [0.0, 0.0, 1.0, 1.0].map(|label: f32| if success { label } else { 0.0 });
    let array = |array: Array| PyValue::Array(Arc::new(array));
    let images = array(Array::from_slice(&[4, 3, SIDE, SIDE], &images).unwrap());
    let cameras = cameras.iter().map(|camera| (*camera, images.clone()));
    let content = PyValue::dict([
        ("images", PyValue::dict(cameras)),
        ("labels", array(Array::from_slice(&[4], &labels).unwrap())),
    ]);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    pyfiles::write_npy(path, &PyValue::ObjectArray(Arc::new(ObjectArray::around(content)))).unwrap();
}

#[test]
fn the_flags_of_the_oldest_script_train_its_classifier() {
    let folder = tempfile::tempdir().unwrap();
    for number in 0..6 {
        write_npy(&folder.path().join(format!("positive/{number:06}.npy")), true, number);
        write_npy(&folder.path().join(format!("negative/{number:06}.npy")), false, 6 + number);
    }
    let words = [
        "reward",
        "train",
        "--positive-dir",
        "positive",
        "--negative-dir",
        "negative",
        "--output-checkpoint",
        "checkpoints/reward_model.pt",
        "--image-size",
        "3",
        "32",
        "32",
        "--epochs",
        "2",
        "--lr",
        "1e-3",
        "--batch-size",
        "16",
        "--hidden-dim",
        "16",
        "--num-spatial-blocks",
        "2",
        "--visualize-positive",
        "--vis-output-dir",
        "show",
        "runner.logger.log_path=run",
    ];
    done(&plaudit(folder.path(), &words));
    let weights = Weights::read(folder.path().join("checkpoints/reward_model.pt")).unwrap();
    let kernel = weights.get("encoders.base_camera.pooling_layer.kernel").unwrap();
    assert_eq!(kernel.shape(), [512, 1, 1, 2]);
    let images = std::fs::read_dir(folder.path().join("show")).unwrap();
    let names: Vec<String> = images.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert!(names.iter().all(|name| name.starts_with("positive_00000")), "{names:?}");
    assert!(names.iter().any(|name| name.ends_with("_frame003.png")), "{names:?}");
    let output = plaudit(folder.path(), &["reward", "eval", "checkpoints/reward_model.pt", "."]);
    assert!(done(&output).contains("12 episodes"));
}

#[test]
fn a_model_is_trained_from_collected_episodes_and_a_second_camera() {
    let folder = tempfile::tempdir().unwrap();
    let words = [
        "-q",
        "collect",
        "pickcube_scripted",
        "--episodes",
        "6",
        "env.eval.total_num_envs=6",
        "env.eval.ignore_terminations=true",
        "env.eval.init_params.id=PickCube3View-v1",
        "env.eval.init_params.sensor_configs={width: 32, height: 32}",
        "env.eval.data_collection.save_dir=episodes",
    ];
    done(&plaudit(folder.path(), &words));
    let words = [
        "--data",
        "episodes",
        "runner.max_steps=3",
        "runner.logger.log_path=run",
        "actor.model.image_keys=[main_images,extra_view_images,main_images@-3]",
        "data.num_samples_per_episode=10",
        "--json",
    ];
    let output = train(folder.path(), &words);
    let said = done(&output);
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found["steps"], 3, "{said}");
    let card = card(&folder.path().join("run"));
    assert_eq!(card.settings.image_keys, ["main_images", "extra_view_images", "main_images@-3"]);
    let val = card.dataset.unwrap().val.unwrap();
    assert_eq!((val.episodes, val.views.len(), val.views[0].1), (1, 3, [32, 32, 3]));
    let output = plaudit(folder.path(), &["reward", "eval", "run", "episodes", "--output-dir", "measured"]);
    assert!(done(&output).contains("6 episodes"));
    let mistakes = found["mistakes"]["sheet"].as_str();
    assert!(mistakes.is_none_or(|path| folder.path().join(path).is_file()));
}

#[test]
fn bad_data_is_refused_before_anything_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    write_pt(&here.join("failures.pt"), [false; 6].into_iter());
    write_pt(&here.join("both.pt"), thirds(6));
    write_npy(&here.join("positive/0.npy"), true, 0);
    std::fs::create_dir(here.join("negative")).unwrap();
    std::fs::create_dir(here.join("empty")).unwrap();
    let check = |words: &[&str], says: &[&str]| refused(&train(here, words), 2, says);
    check(
        &["data.train_data_paths=failures.pt", "data.val_data_paths=both.pt"],
        &["all 6 training frames are labelled failure", "collect episodes with both"],
    );
    check(&["--data", "both.pt"], &["data.data_path", "1 usable episode", "at least 2"]);
    check(&["--data", "empty"], &["no episodes in empty"]);
    check(&["--data", "nowhere"], &["nowhere does not exist"]);
    check(&["data.train_data_paths=null"], &["nothing to train on", "--data"]);
    check(&["data.train_data_paths=gone.pt"], &["gone.pt does not exist"]);
    check(&["--positive-dir", "positive", "--negative-dir", "negative"], &["no .npy trajectory in negative"]);
    check(
        &[
            "data.train_data_paths=both.pt",
            "data.val_data_paths=null",
            "actor.model.image_keys=[main_images,wrist_images]",
        ],
        &["wrist_images", "name a camera that is there"],
    );
    check(&["data.train_data_paths=both.pt", "actor.model.image_keys=[a@b]"], &["`a@b` names no view"]);
    check(&["maniskill_ppo_mlp"], &["runner.task_type", "reinforcement learning", "reward_training"]);
    check(
        &["data.train_data_paths=both.pt", "data.val_data_paths=null", "actor.model.pretrained=true"],
        &["nothing is downloaded"],
    );
    assert!(!here.join("logs").exists(), "a refused training leaves nothing behind");
}

#[test]
fn a_loss_that_is_no_number_stops_and_keeps_the_last_good_checkpoint() {
    let folder = dataset();
    let here = folder.path();
    let words = ["data.data_path=.", "runner.logger.log_path=run", "runner.max_steps=4"];
    done(&train(here, &words));
    let best = std::fs::read(here.join("run/checkpoints/best_model/model.safetensors")).unwrap();
    let words = [
        "data.data_path=.",
        "runner.logger.log_path=wild",
        "runner.max_steps=40",
        "actor.model.model_path=run",
        "actor.optim.clip_grad=0",
    ];
    let output =
        plaudit(here, &[&["reward", "train"], &words[..], &SMALL[..], &["actor.optim.lr=1e20"]].concat());
    refused(&output, 1, &["train ", "and 2 more", "Lower the learning rate (now "]);
    assert!(std::fs::read(here.join("run/checkpoints/best_model/model.safetensors")).unwrap() == best);
    let log = std::fs::read_to_string(here.join("wild/events.jsonl")).unwrap();
    assert!(log.contains("\"failed\""), "the log says how it ended");
}

#[test]
fn checkpoints_of_other_networks_and_places_that_cannot_be_written_are_named() {
    let folder = dataset();
    let here = folder.path();
    done(&train(here, &["data.data_path=.", "runner.logger.log_path=run", "runner.max_steps=1"]));
    let with = |words: &[&str]| {
        plaudit(here, &[&["reward", "train", "data.data_path=."], &SMALL[..], words].concat())
    };
    refused(
        &with(&["actor.model.model_path=run", "actor.model.arch=resnet18"]),
        2,
        &["actor.model.model_path", "does not fit the model", "Set `arch: resnet10`"],
    );
    refused(&with(&["actor.model.model_path=run", "actor.model.hidden_dim=32"]), 2, &["hidden_dim: 16"]);
    refused(&with(&["actor.model.model_path=train.pt"]), 2, &["train.pt", "no weights in it"]);
    refused(&with(&["runner.logger.log_path=/proc/run"]), 2, &["/proc/run"]);
    refused(&with(&["--output-checkpoint", "/proc/model.pt"]), 2, &["cannot write /proc/model.pt"]);
    let eval = |words: &[&str]| plaudit(here, &[&["reward", "eval"], words].concat());
    refused(&eval(&["train.pt", "val.pt"]), 2, &["train.pt", "no weights in it"]);
    refused(&eval(&["nowhere", "val.pt"]), 2, &["nowhere"]);
    refused(&eval(&["run", "nowhere.pt"]), 2, &["nowhere.pt does not exist"]);
    refused(
        &eval(&["run", "val.pt", "--output-dir", "/proc/measured"]),
        2,
        &["/proc/measured", "--output-dir"],
    );

    let model = here.join("run/checkpoints/best_model/model.safetensors");
    let weights = Weights::read(&model).unwrap();
    let mut wrong = card(&model);
    wrong.settings.arch = plaudit_nn::classifier::Arch::Resnet18;
    let changed: PathBuf = here.join("changed.safetensors");
    weights.write_safetensors(&changed, &wrong.header()).unwrap();
    refused(
        &eval(&["changed.safetensors", "val.pt"]),
        2,
        &["does not fit the model", "another architecture"],
    );
}

/// Frames that a person sorted are learned from beside the old ones, from the old weights, with the old network.
#[test]
fn a_model_goes_on_with_a_few_more_frames() {
    let folder = dataset();
    let here = folder.path();
    let words = ["reward_training", "data.data_path=.", "runner.max_steps=8", "runner.logger.log_path=first"];
    done(&train(here, &words));
    for (place, success, number) in
        [("success", true, 900), ("failure", false, 901), ("failure", false, 902), ("unsorted", true, 903)]
    {
        let path = here.join(format!("added/{place}/{number}.png"));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let shape = plaudit_core::FrameShape::rgb(SIDE, SIDE);
        plaudit_reward::images::Png::of(shape, &image_pixels(success, number)).write(&path).unwrap();
    }
    // Without a word about network or data: both are the first model's.
    let words = ["reward", "train", "--from", "first", "--add", "added", "runner.max_steps=2"];
    let said = done(&plaudit(here, &[&words[..], &["runner.logger.log_path=second"]].concat()));
    assert!(said.contains("on 60 frames"), "48 and three that are a fifth of all: {said}");
    let [first, second] = ["first", "second"].map(|run| card(&here.join(run).join("checkpoints/best_model")));
    assert_eq!(first.settings, second.settings);
    assert!(second.dataset.unwrap().train.paths.iter().any(|path| path.ends_with("added")));
    let said = done(&plaudit(here, &["reward", "eval", "second", "added"]));
    assert!(said.contains("frames 3 (1 successes)"), "what is not sorted is left alone: {said}");
    let words = ["reward", "train", "--from", "second", "--add", "added", "runner.max_steps=1"];
    let said = done(&plaudit(here, &[&words[..], &["runner.logger.log_path=third"]].concat()));
    assert!(said.contains("on 60 frames"), "what was added before is not taken for a recording: {said}");
    let add = |folder: &str| plaudit(here, &["reward", "train", "--from", "first", "--add", folder]);
    refused(&add("nowhere"), 2, &["nowhere does not exist", "success/ and failure/"]);
    std::fs::create_dir(here.join("empty")).unwrap();
    refused(&add("empty"), 2, &["no episodes in empty", "success/ and failure/"]);
    std::fs::create_dir(here.join("waiting")).unwrap();
    std::fs::rename(here.join("added/unsorted"), here.join("waiting/unsorted")).unwrap();
    refused(&add("waiting"), 2, &["1 images in waiting/unsorted wait to be sorted"]);
    let other = here.join("other/success");
    std::fs::create_dir_all(&other).unwrap();
    let small = plaudit_core::FrameShape::rgb(4, 4);
    plaudit_reward::images::Png::of(small, &[0; 48]).write(&other.join("1.png")).unwrap();
    refused(&add("other"), 2, &["4x4x3 in other", "sensor_configs"]);
    std::fs::write(other.join("2.png"), "no picture").unwrap();
    refused(&add("other"), 2, &["other/success/2.png", "take this image out"]);
}

/// RLinf's state dicts do not name cameras: `--image-keys` does, and scores are those of the checkpoint that names them itself.
#[test]
fn a_state_dict_of_two_cameras_is_measured_through_the_keys_that_are_given() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    for number in 0..4 {
        let file = here.join(format!("episodes/positive/{number:06}.npy"));
        write_npy_of(&["base_camera", "hand_camera"], &file, true, number);
        let file = here.join(format!("episodes/negative/{number:06}.npy"));
        write_npy_of(&["base_camera", "hand_camera"], &file, false, 4 + number);
    }
    let views = ["main_images", "extra_view_images"];
    crate::runs::fresh_classifier(here.join("model"), &views, Some(0.5), 3);
    let eval = |model: &str, output: &str, more: &[&str]| {
        let words = ["reward", "eval", model, "episodes", "--output-dir", output];
        plaudit(here, &[&words[..], more].concat())
    };
    done(&eval("model", "named", &[]));
    let dict = "model/actor/model_state_dict/full_weights.pt";
    let size = ["--image-size", "3", "32", "32", "--normalize", "true"];
    let keys = ["--image-keys", "main_images,extra_view_images"];
    done(&eval(dict, "given", &[&size[..], &keys[..]].concat()));
    let scores = |output: &str| std::fs::read_to_string(here.join(output).join("scores.csv")).unwrap();
    assert_eq!(scores("given"), scores("named"));
    assert_eq!(scores("given").lines().count(), 1 + 8 * 4);
    let other = eval(dict, "other", &[&size[..], &["--image-keys", "main_images,nowhere"]].concat());
    assert_eq!(other.status.code(), Some(2), "{}", said(&other));
    assert!(said(&other).contains("nowhere"), "{}", said(&other));
}

/// What a model is chosen by must not be what it learned from.
#[test]
fn training_and_validation_on_the_same_file_is_refused() {
    let folder = dataset();
    let words = [
        "reward_training",
        "data.train_data_paths=train.pt",
        "data.val_data_paths=train.pt",
        "runner.max_steps=4",
    ];
    refused(
        &train(folder.path(), &words),
        2,
        &["data.val_data_paths", "train.pt is trained on as well", "data.data_path"],
    );
    assert!(!folder.path().join("logs").exists(), "nothing was written");
}

/// A folder with a run of another config is not gone on with in silence, and the run in it stays as it is.
#[test]
fn a_log_path_that_another_config_used_is_refused() {
    let folder = dataset();
    let words = |seed: &'static str| {
        ["reward_training", "data.data_path=.", "runner.max_steps=4", "runner.logger.log_path=run", seed]
    };
    done(&train(folder.path(), &words("actor.seed=7")));
    let before = std::fs::read(folder.path().join("run/config.yaml")).unwrap();
    let output = train(folder.path(), &words("actor.seed=8"));
    assert!(!output.status.success(), "{}", said(&output));
    refused(&output, 2, &["run"]);
    assert_eq!(std::fs::read(folder.path().join("run/config.yaml")).unwrap(), before);
}

/// The recipe leaves a second model for the hacking monitor, which is another network that learned from the same frames.
#[test]
fn a_second_model_is_trained_beside_the_first() {
    let folder = dataset();
    let here = folder.path();
    let words = ["reward_training", "data.data_path=.", "runner.max_steps=4", "runner.logger.log_path=run"];
    done(&train(here, &words));
    let (first, second) =
        (card(&here.join("run/checkpoints/best_model")), card(&here.join("run/checkpoints/second_model")));
    assert_eq!(first.dataset, second.dataset);
    assert!(second.threshold.is_some());
    let weights = |name: &str| Weights::read(here.join("run/checkpoints").join(name)).unwrap();
    assert!(!weights("best_model").iter().eq(weights("second_model").iter()));
    assert!(!here.join("run/checkpoints/.second_model").exists());
    let words = [&words[..], &["runner.second_model=false", "runner.logger.log_path=alone"]].concat();
    done(&train(here, &words));
    assert!(!here.join("alone/checkpoints/second_model").exists());
}

/// A model that leaves a condition on the state to the robot learns from states in which it holds, says so, and is measured by it.
#[test]
fn a_model_for_some_states_learns_from_those_and_carries_the_condition() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let words = [
        "-q",
        "collect",
        "pickcube_scripted",
        "--episodes",
        "6",
        "env.eval.total_num_envs=6",
        "env.eval.ignore_terminations=true",
        "env.eval.init_params.sensor_configs={width: 32, height: 32}",
        "env.eval.data_collection.save_dir=episodes",
    ];
    done(&plaudit(here, &words));
    let train = |guard: &'static str, run: &'static str| {
        let words = [
            "--data",
            "episodes",
            "runner.max_steps=3",
            "data.num_samples_per_episode=0",
            "data.fail_success_ratio=0",
        ];
        train(here, &[&words[..], &[guard, run]].concat())
    };
    done(&train("data.guards=[]", "runner.logger.log_path=any"));
    done(&train("data.guards=[\"abs(state[9:16])<=0.2\"]", "runner.logger.log_path=still"));
    let (any, still) = (card(&here.join("any")), card(&here.join("still")));
    assert_eq!(any.conditions, None);
    let conditions = still.conditions.clone().unwrap();
    assert_eq!(
        (&conditions.guards[..], conditions.state_width),
        (&["abs(state[9:16])<=0.2".to_string()][..], 42)
    );
    let (any, still) = (any.class_balance.unwrap(), still.class_balance.unwrap());
    assert!(still.failures < any.failures && still.successes > 0, "{any:?} {still:?}");

    done(&plaudit(here, &["reward", "eval", "still", "episodes", "--output-dir", "measured"]));
    let scores = std::fs::read_to_string(here.join("measured/scores.csv")).unwrap();
    let zeros = scores.lines().filter(|line| line.contains(",0.000000,")).count();
    assert!(zeros > 0 && zeros < scores.lines().count() - 1, "{zeros} frames of a moving robot");

    let moving = train("data.guards=[\"state[0]>1000\"]", "runner.logger.log_path=never");
    refused(&moving, 2, &["data.guards", "holds in no frame"]);
    let unknown = train("data.guards=[\"qvel<1\"]", "runner.logger.log_path=unknown");
    refused(&unknown, 2, &["data.guards", "qvel", "42"]);
    write_pt(&here.join("train.pt"), thirds(48));
    write_pt(&here.join("val.pt"), thirds(18));
    let images =
        [&["reward", "train", "data.data_path=.", "data.guards=[\"state[0]<1\"]"], &SMALL[..]].concat();
    refused(&plaudit(here, &images), 2, &["data.guards", "images alone"]);
}
