//! What `reward train`, `reward eval`, `reward audit`, `serve` and `train` say when they are used wrongly: each answer names

//! what is wrong and something that can be done.

use std::path::Path;

use crate::runs::plaudit;
use plaudit_nn::classifier::{AdamW, Arch, ClassifierSettings, Trainer};
use plaudit_reward::card::ModelCard;

/// Words, what the answer must say, and what it must not say.
type Case = (&'static str, &'static [&'static str], &'static [&'static str]);

fn fixture(name: &str) -> String {
    format!("{}/../nn/tests/qwen3_vl/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// `own.safetensors` and `full_weights.pt` of 32 pixels, a folder `empty`, and `episodes` through one camera.
fn place(here: &Path) {
    let settings = ClassifierSettings {
        arch: Arch::Resnet10,
        hidden_dim: Some(16),
        image_size: [3, 32, 32],
        ..ClassifierSettings::default()
    };
    let weights = Trainer::new(&settings, AdamW::default(), 3).unwrap().weights().unwrap();
    weights.write_safetensors(here.join("own.safetensors"), &ModelCard::of(settings).header()).unwrap();
    weights.write_pt(here.join("full_weights.pt")).unwrap();
    std::fs::create_dir(here.join("empty")).unwrap();
    let words = "-q collect pickcube_scripted --episodes 2 env.eval.total_num_envs=2 env.eval.max_episode_steps=4 \
                 env.eval.init_params.sensor_configs={width:32,height:32} env.eval.data_collection.save_dir=episodes";
    let output = plaudit(here, &words.split_whitespace().collect::<Vec<_>>());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

const CASES: &[Case] = &[
    // Advice that can be followed by the command that gives it.
    (
        "reward eval own.safetensors empty",
        &["no episodes in empty", "give the folder that holds"],
        &["--raw-data-path"],
    ),
    ("reward audit own.safetensors empty", &["no episodes in empty"], &["--raw-data-path"]),
    ("reward train --data empty", &["no episodes in empty", "data.data_path"], &["--raw-data-path"]),
    ("reward train --data empty --lr 1e-3 --epochs 2", &["no episodes in empty"], &["--positive-dir"]),
    // The key that leaves nothing to train on.
    (
        "reward train --data episodes data.val_split=1",
        &["data.val_split:", "leave none to train on", "lower data.val_split"],
        &["data.data_path:"],
    ),
    // The order of a size.
    (
        "reward train --data episodes actor.model.image_size=[64,64,3]",
        &["actor.model.image_size", "channels come first", "[3, 64, 64] was probably meant"],
        &[],
    ),
    (
        "train pickcube_ppo_resnet_reward reward.model.model_path=own.safetensors reward.model.image_size=[64,64,3]",
        &["reward.model.image_size", "[3, 64, 64] was probably meant"],
        &[],
    ),
    (
        "reward eval full_weights.pt episodes --image-size 32 32 3",
        &["channels come first", "3 32 32 was probably meant"],
        &[],
    ),
    (
        "reward audit full_weights.pt episodes --image-size 1 32 32",
        &["1 channels", "3 32 32 was probably meant"],
        &[],
    ),
    ("reward eval full_weights.pt episodes --image-size 0 32 32", &["such as --image-size 3 224 224"], &[]),
    ("serve full_weights.pt --image-size 32 32 --port 0", &["3 values required", "<C> <H> <W>"], &[]),
    // Cameras.
    (
        "reward train --data episodes actor.model.image_keys=[hand_camera]",
        &["actor.model.image_keys", "hand_camera", "main_images"],
        &["data.data_path:", "--image-key"],
    ),
    (
        "reward train --data episodes actor.model.image_keys=[main_images@4]",
        &["actor.model.image_keys", "names no view"],
        &["data.data_path:"],
    ),
    // A checkpoint and a recipe.
    (
        "train pickcube_ppo_resnet_reward reward.model.model_path=own.safetensors",
        &[
            "was made with image_size: [3, 32, 32]",
            "reward.model.image_size=[3,32,32] reward.model.image_keys=[main_images]",
        ],
        &["leave the key out"],
    ),
    (
        "train maniskill_ppo_mlp_resnet_reward reward.model.model_path=full_weights.pt",
        &["was made with arch: resnet10", "reward.model.arch=resnet10 reward.model.hidden_dim=16"],
        &["leave the key out"],
    ),
    (
        "reward eval own.safetensors episodes --normalize false",
        &["was made with normalize: true", "leave --normalize out"],
        &[],
    ),
    // Flags of other scripts.
    ("reward train --learning-rate 1e-3", &["actor.optim.lr="], &[]),
    ("reward train --num_epochs 3", &["runner.max_epochs="], &[]),
    ("reward sft --lora-rank 3", &["actor.model.lora_rank="], &[]),
    ("reward eval --model own.safetensors --data episodes", &["MODEL"], &[]),
    ("reward audit own.safetensors episodes --reward-threshold 0.5", &["--threshold"], &[]),
    // Numbers.
    ("reward eval own.safetensors episodes --threshold 1.5", &["give a number from 0 to 1"], &[]),
    ("reward eval own.safetensors episodes --threshold nan", &["give a number from 0 to 1"], &[]),
    ("reward audit own.safetensors episodes --threshold 1.5", &["--threshold is 1.5", "from 0 to 1"], &[]),
    ("reward audit own.safetensors episodes --max-fpr 0", &["--max-fpr is 0", "above 0 and below 1"], &[]),
    (
        "reward audit own.safetensors episodes --confidence 1",
        &["--confidence is 1", "above 0 and below 1"],
        &[],
    ),
    ("reward audit own.safetensors episodes --stress-frames 0", &["--stress-frames", "0 is not in 1.."], &[]),
    ("reward audit own.safetensors episodes --normalize maybe", &["--normalize", "true, false"], &[]),
    ("serve own.safetensors --threshold -1", &["--threshold", "give a number from 0 to 1"], &[]),
];

#[test]
fn wrong_uses_are_answered_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    place(folder.path());
    for (words, says, does_not) in CASES {
        check(folder.path(), &words.split_whitespace().collect::<Vec<_>>(), says, does_not);
    }
}

fn check(here: &Path, words: &[&str], says: &[&str], does_not: &[&str]) {
    let output = plaudit(here, words);
    let said = String::from_utf8_lossy(&output.stderr).replace(['│', '×'], " ");
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(output.status.code(), Some(2), "{words:?}: {said}");
    for expected in says {
        assert!(said.contains(expected), "{words:?}: `{expected}` is not in: {said}");
    }
    for unwanted in does_not {
        assert!(!said.contains(unwanted), "{words:?}: `{unwanted}` is in: {said}");
    }
}

/// A GPU that is not there is refused, with what to do: by flags, by their older spelling, for both kinds of model.
#[test]
fn a_gpu_that_is_not_there_is_refused_with_advice_that_can_be_followed() {
    let folder = tempfile::tempdir().unwrap();
    let model = fixture("model");
    for device in [["--device", "cuda:9999"], ["--gpu", "9999"]] {
        check(
            folder.path(),
            &[&["serve", &model, "--port", "0"][..], &device].concat(),
            &["plaudit device", "--device cpu"],
            &["set the device", "give the folder of a Qwen3-VL"],
        );
    }
    check(folder.path(), &["serve", &model, "--device", "gpu"], &["cuda:N"], &[]);
}
