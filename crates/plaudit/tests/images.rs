//! Policies on images as a person meets them: runs by both learners, their weights, and what goes wrong.

use std::collections::BTreeMap;
use std::path::Path;

use crate::runs::{curve, refused, succeeds, weights};
use plaudit_nn::classifier::{AdamW, Arch, ClassifierSettings, Trainer};
use serde_json::Value;

/// Two tables, small images, few steps.
const SMALL: [&str; 10] = [
    "env.train.total_num_envs=2",
    "env.train.max_steps_per_rollout_epoch=4",
    "env.eval.total_num_envs=2",
    "env.eval.max_episode_steps=5",
    "env.train.init_params.sensor_configs={width: 32, height: 32, hand_camera: {}}",
    "env.eval.init_params.sensor_configs={width: 32, height: 32, hand_camera: {}}",
    "actor.model.image_keys=[base_camera,hand_camera]",
    "actor.model.image_size=[3,32,32]",
    "actor.global_batch_size=4",
    "actor.micro_batch_size=4",
];

fn words<'a>(command: &'a str, recipe: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    ["-q", command, recipe].into_iter().chain(SMALL).chain(more.iter().copied()).collect()
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// A trunk as it could come from elsewhere.
fn write_trunk(to: &Path) {
    let settings = ClassifierSettings { arch: Arch::Resnet10, ..ClassifierSettings::default() };
    let trainer = Trainer::new(&settings, AdamW::default(), 3).unwrap();
    trainer.weights().unwrap().write_safetensors(to, &BTreeMap::new()).unwrap();
}

/// Two cameras, and every kind of encoder: the run goes on where it was left, and its weights are all that acting needs.
#[test]
fn ppo_learns_from_images_and_goes_on_where_it_was() {
    for (backbone, encoder) in [
        ("actor.model.backbone=conv", ["encoders.0.conv.0.weight", "encoders.1.conv.6.bias"]),
        ("actor.model.backbone=keypoints", ["encoders.0.conv.4.bias", "encoders.1.conv.6.weight"]),
        (
            "actor.model.backbone=resnet",
            ["encoders.0.resnet_backbone.layer4.0.conv2.weight", "encoders.1.pooling_layer.kernel"],
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path();
        write_trunk(&at.join("trunk.safetensors"));
        let trunk = "actor.model.encoder_config.ckpt_path=trunk.safetensors";
        let train = |path: &str, more: &[&str]| {
            let path = format!("runner.logger.log_path={path}");
            let quiet = ["runner.val_check_interval=2", "runner.save_interval=1", trunk, backbone, &path];
            succeeds(at, &words("train", "maniskill_ppo_cnn", &[&quiet, more].concat()));
        };
        train("whole", &["runner.max_epochs=2"]);
        train("half", &["runner.max_epochs=1"]);
        train("half", &["runner.max_epochs=2", "runner.resume_dir=half"]);
        let (whole, half) = (curve(&at.join("whole")), curve(&at.join("half")));
        let learned = whole.iter().filter(|((step, name), _)| *step == 2 && name.starts_with("train/"));
        assert!(learned.clone().count() > 10);
        for (key, value) in learned {
            assert_eq!(half.get(key), Some(value), "{backbone}: {key:?}");
        }

        // Without the file of the trunk, if there was one.
        std::fs::remove_file(at.join("trunk.safetensors")).unwrap();
        let checkpoint = "runner.ckpt_path=whole/checkpoints/global_step_2";
        let evaluated =
            json(&succeeds(at, &words("eval", "maniskill_ppo_cnn", &["--json", checkpoint, backbone])));
        let logged = whole.get(&(2, "eval/return".into())).map(|bits| f64::from_bits(*bits));
        assert_eq!(evaluated["eval/return"].as_f64(), logged, "{backbone}");
        let names: Vec<String> = weights(&at.join("whole"), 2).names().map(String::from).collect();
        for name in
            ["encoders.1.mlp.1.bias", "state_proj.0.weight", "mix_proj.4.weight", "value_head.mlp.6.weight"]
                .into_iter()
                .chain(encoder)
        {
            assert!(names.iter().any(|other| other == name), "{name} is missing in {names:?}");
        }
    }
}

#[test]
fn rlpd_learns_from_images_and_demonstrations() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    write_trunk(&at.join("trunk.safetensors"));
    let scripted = ["actor.model.model_type=scripted", "env.train.use_full_state=true", "--episodes", "2"];
    let place = ["runner.logger.log_path=demos"];
    succeeds(at, &words("collect", "pickcube_rlpd_cnn", &[&scripted[..], &place].concat()));
    let common = [
        "algorithm.demo_buffer.load_path=demos/data",
        "algorithm.replay_buffer.min_buffer_size=8",
        "algorithm.update_epoch=2",
        "algorithm.cloning.steps=4",
        "env.train.max_steps_per_rollout_epoch=4",
        "runner.max_epochs=3",
        "runner.val_check_interval=3",
        "--json",
    ];
    let trunk = "actor.model.encoder_config.ckpt_path=trunk.safetensors";
    // Weights leave as those of networks on plain states, which takes a rounding where states were scaled.
    for (path, rounding, more) in [
        ("conv", 1e-5, vec!["algorithm.enable_drq=true", "algorithm.drq_shift=2"]),
        ("keypoints", 1e-5, vec![]),
        ("resnet", 0.0, vec!["algorithm.scale_states=false", trunk]),
    ] {
        let log = format!("runner.logger.log_path={path}");
        let backbone = format!("actor.model.backbone={path}");
        let more = [&common[..], &more, &[&log, &backbone]].concat();
        let result = json(&succeeds(at, &words("train", "pickcube_rlpd_cnn", &more)));
        for name in ["train/sac/critic_loss", "train/demo_buffer/total_samples", "eval/success_once"] {
            assert!(result[name].is_number(), "{path}: {name} is missing in {result}");
        }
        let checkpoint = format!("runner.ckpt_path={path}/checkpoints/global_step_3");
        let evaluated =
            succeeds(at, &words("eval", "pickcube_rlpd_cnn", &["--json", &checkpoint, &backbone]));
        let [evaluated, logged] =
            [&json(&evaluated), &result].map(|page| page["eval/return"].as_f64().unwrap());
        assert!((evaluated - logged).abs() <= rounding * logged.abs(), "{path}: {evaluated} and {logged}");
    }
}

#[test]
fn what_cannot_be_seen_is_refused_before_the_first_step() {
    let folder = tempfile::tempdir().unwrap();
    let check = |words: &[&str], parts: &[&str]| {
        let said = refused(folder.path(), words, 2);
        assert!(parts.iter().all(|part| said.contains(part)), "{parts:?} in {said}");
    };
    for (more, said) in [
        (vec!["env.train.init_params.obs_mode=state"], vec!["obs_mode", "states only", "rgb"]),
        (vec!["actor.model.image_keys=[wrist]"], vec!["`wrist`", "base_camera", "hand_camera"]),
        (vec!["actor.model.image_size=[3,48,48]"], vec!["base_camera", "32x32", "image_size"]),
        (vec!["actor.model.backbone=resnet"], vec!["no file is named", "ckpt_path", "conv"]),
        (
            vec!["actor.model.backbone=resnet", "actor.model.encoder_config.ckpt_path=none.pt"],
            vec!["none.pt", "encoder_config"],
        ),
        (vec!["actor.model.state_dim=42"], vec!["state_dim", "29", "42"]),
        // No GPU of this number anywhere.
        (vec!["actor.model.device=cuda:9999"], vec!["actor.model.device", "plaudit device"]),
        (vec!["actor.model.device=tpu"], vec!["actor.model.device", "give auto, cpu, cuda or cuda:N"]),
    ] {
        check(&words("train", "maniskill_ppo_cnn", &more), &said);
    }
    let full = ["algorithm.replay_buffer.cache_size=4000000000", "runner.max_epochs=-1"];
    check(&words("train", "pickcube_rlpd_cnn", &full), &["cache_size", "bytes", "free"]);
}
