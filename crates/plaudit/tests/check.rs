//! The linter: every rule fires where it should, and nowhere else.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::process::Command;
use std::sync::OnceLock;

use plaudit::config;
use plaudit::lint::{Severity, examine, lint};
use plaudit_compose::parse_yaml;
use plaudit_nn::classifier::{AdamW, ClassifierSettings, Trainer};
use plaudit_reward::audit::{AlarmFrames, AuditRule, Guarantee};
use plaudit_reward::card::ModelCard;

/// A policy rewarded by an image classifier, with nothing to object to.
const SOUND: &str = "
runner: {task_type: embodied}
env:
  train: {total_num_envs: 8, max_episode_steps: 50, max_steps_per_rollout_epoch: 50, auto_reset: true, init_params: {id: PickCube-v1, obs_mode: rgb}}
reward:
  use_reward_model: true
  reward_mode: terminal
  reward_threshold: 0.5
  model: {model_type: resnet, model_path: best_model, image_size: [3, 128, 128]}
algorithm: {loss_type: actor_critic, gamma: 0.97}
actor: {global_batch_size: 400, micro_batch_size: 400}
";

/// What a judge of two videos needs.
const TWO_CAMERAS: (&str, &str) = ("obs_mode: rgb", "obs_mode: rgb, sensor_configs: {hand_camera: {}}");

/// Changes to the sound config, and the codes they bring.
type Case = (&'static [(&'static str, &'static str)], &'static [&'static str]);
const CASES: &[Case] = &[
    (&[], &[]),
    (&[("model_path: best_model, ", "")], &["no-model"]),
    (&[("gamma: 0.97", "gamma: 0.8")], &["terminal-reward-vanishes"]),
    (
        &[
            ("gamma: 0.97", "gamma: 0.8"),
            ("reward_mode: terminal", "reward_mode: per_step"),
            ("auto_reset: true", "auto_reset: true, ignore_terminations: true"),
        ],
        &[],
    ),
    (&[("reward_threshold: 0.5", "combine_mode: add")], &["env-reward-beside-model"]),
    (&[("reward_threshold: 0.5", "env_reward_weight: 0.5")], &["env-reward-beside-model"]),
    (&[("use_reward_model: true", "use_reward_model: false")], &["threshold-unapplied"]),
    (&[("actor: {", "actor: {fsdp_config: {strategy: fsdp}, ")], &["threshold-unapplied", "unused-key"]),
    (&[("reward_threshold: 0.5", "standalone_realworld: true")], &["success-by-equality"]),
    (&[("reward_threshold: 0.5", "standalone_realworld: true\n  reward_type: binary")], &[]),
    (&[("[3, 128, 128]", "[3, 224, 224]")], &["checkpoint-differs"]),
    (
        &[("best_model, image_size: [3, 128, 128]", "no_such_model, image_size: [3, 224, 224]")],
        &["image-size-differs", "checkpoint-unreadable"],
    ),
    (&[("obs_mode: rgb", "obs_mode: rgb, sensor_configs: {width: 64, height: 64}")], &["image-size-differs"]),
    (&[("model_path: best_model", "model_path: best_model, hidden_dim: 64")], &["checkpoint-differs"]),
    (
        &[("model_path: best_model", "model_path: best_model, arch: resnet34, normalize: false")],
        &["checkpoint-differs", "checkpoint-differs"],
    ),
    (
        &[("model_path: best_model", "model_path: best_model, image_keys: [wrist_images]")],
        &["checkpoint-differs"],
    ),
    (&[("model_path: best_model", "model_path: best_model, hidden_dim: 256, arch: resnet18")], &[]),
    (&[("model_path: best_model", "model_path: no_such_model")], &["checkpoint-unreadable"]),
    (&[("model_path: best_model", "model_path: best_model/actor/model_state_dict/full_weights.pt")], &[]),
    (
        &[(
            "model_path: best_model",
            "model_path: best_model/actor/model_state_dict/full_weights.pt, hidden_dim: 64",
        )],
        &["checkpoint-differs"],
    ),
    (
        &[(
            "reward_threshold: 0.5",
            "reward_threshold: 0.5\n  terms: {near: {reward_mode: terminal, model: {model_path: no_such_model}}}",
        )],
        &["checkpoint-unreadable"],
    ),
    (
        &[
            ("global_batch_size: 400", "global_batch_size: 300"),
            ("micro_batch_size: 400", "micro_batch_size: 300"),
        ],
        &["uneven-batches"],
    ),
    (&[("auto_reset: true", "auto_reset: true, show_goal: false")], &["goal-not-visible"]),
    (&[("PickCube-v1", "PickCub-v1")], &["unknown-env"]),
    (&[("PickCube-v1", "OpenCabinetDrawer-v1")], &[]),
    (
        &[("{id: PickCube-v1", "{id: PickCube-v1, control_mode: pd_joint_detla_pos")],
        &["unknown-control-mode"],
    ),
    (
        &[
            ("{id: PickCube-v1", "{id: PickCube-v1, control_mode: pd_joint_detla_pos"),
            ("actor: {", "actor: {model: {policy_setup: panda-qpos}, "),
        ],
        &["unknown-control-mode"],
    ),
    (
        &[
            ("{id: PickCube-v1", "{id: PickCube-v1, control_mode: pd_joint_pos"),
            ("actor: {", "actor: {model: {policy_setup: panda-qpos}, "),
        ],
        &["control-mode-overruled"],
    ),
    (&[("loss_type: actor_critic", "loss_type: embodied_dagger")], &["unknown-learner"]),
    (&[("gamma: 0.97", "gamma: 0.97, adv_type: reinpp")], &["unknown-learner"]),
    (&[("runner: {", "cluster: {num_nodes: 2}\nrunner: {")], &["other-machines"]),
    (
        &[("max_episode_steps: 50, max_steps", "ignore_terminations: true, max_steps")],
        &["episodes-never-end"],
    ),
    (
        &[(
            "max_steps_per_rollout_epoch: 50, auto_reset: true",
            "max_steps_per_rollout_epoch: 25, auto_reset: false",
        )],
        &["episodes-never-end", "uneven-batches"],
    ),
    (&[("reward_mode: terminal\n  reward_threshold: 0.5", "reward_mode: per_step")], &["rewards-hovering"]),
    (
        &[
            ("reward_mode: terminal\n  reward_threshold: 0.5", "reward_mode: per_step"),
            ("auto_reset: true", "auto_reset: true, ignore_terminations: true"),
        ],
        &[],
    ),
    (
        &[("auto_reset: true", "auto_reset: true, data_collection: {enabled: true, only_success: true}")],
        &["no-failures-kept"],
    ),
    (
        &[(
            "auto_reset: true",
            "auto_reset: true, ignore_terminations: true, data_collection: {enabled: true, only_success: true}",
        )],
        &["only-success-without-ends", "no-failures-kept"],
    ),
    (&[("{model_type: resnet", "{model_type: resnet, gt_success_bonus: 20.0")], &["ground-truth-in-reward"]),
    (
        &[
            (
                "{model_type: resnet, model_path: best_model",
                "{model_type: history_vlm, model_path: tiny_judge, history_buffers: {w: {history_size: 5, history_keys: [main_images]}}",
            ),
            ("reward_mode: terminal\n  reward_threshold: 0.5", "reward_mode: history_buffer"),
            TWO_CAMERAS,
        ],
        &["rewards-dithering"],
    ),
    // A judge that is not there, and a folder that holds another model.
    (
        &[
            (
                "{model_type: resnet, model_path: best_model",
                "{model_type: history_vlm, model_path: no_such_judge, history_buffers: {w: {history_size: 5, history_keys: [main_images]}}",
            ),
            ("reward_mode: terminal\n  reward_threshold: 0.5", "reward_mode: history_buffer"),
            TWO_CAMERAS,
        ],
        &["rewards-dithering", "checkpoint-unreadable"],
    ),
    (
        &[
            (
                "{model_type: resnet, model_path: best_model",
                "{model_type: history_vlm, model_path: best_model, history_buffers: {w: {history_size: 5, history_keys: [main_images]}}",
            ),
            ("reward_mode: terminal\n  reward_threshold: 0.5", "reward_mode: history_buffer"),
            TWO_CAMERAS,
        ],
        &["rewards-dithering", "checkpoint-unreadable"],
    ),
    (
        &[
            (
                "{model_type: resnet, model_path: best_model",
                "{model_type: history_vlm, model_path: tiny_judge, lora_path: no_such_adapters, history_buffers: {w: {history_size: 5, history_keys: [main_images]}}",
            ),
            ("reward_mode: terminal\n  reward_threshold: 0.5", "reward_mode: history_buffer"),
            TWO_CAMERAS,
        ],
        &["rewards-dithering", "checkpoint-unreadable"],
    ),
    (
        &[
            (
                "{model_type: resnet, model_path: best_model",
                "{model_type: history_vlm, model_path: tiny_judge, reward_parser_params: {negative_reward: -1.0}, history_buffers: {w: {history_size: 5, history_keys: [main_images]}}",
            ),
            ("reward_mode: terminal", "reward_mode: history_buffer"),
            TWO_CAMERAS,
        ],
        &["threshold-unapplied"],
    ),
    (
        &[(
            "{model_type: resnet",
            "{model_type: resnet, history_buffers: {w: {history_size: 5, history_keys: [main_images]}}",
        )],
        &["windows-unused"],
    ),
];

/// Traps, each beside the nearest config that has none: what is changed, the codes that brings, and what is changed instead.
type Trap = (
    &'static [(&'static str, &'static str)],
    &'static [&'static str],
    &'static [(&'static str, &'static str)],
);
const TRAPS: &[Trap] = &[
    // Every score is a success, or none is.
    (
        &[("reward_threshold: 0.5", "reward_type: binary\n  reward_threshold: 0.0")],
        &["constant-reward"],
        &[("reward_threshold: 0.5", "reward_type: binary\n  reward_threshold: 0.5")],
    ),
    (
        &[("reward_threshold: 0.5", "reward_threshold: 1.0")],
        &["constant-reward"],
        &[("reward_threshold: 0.5", "reward_threshold: 0.999")],
    ),
    (
        &[("reward_threshold: 0.5", "hysteresis: {enter: 1.0, leave: 0.3}")],
        &["constant-reward"],
        &[("reward_threshold: 0.5", "hysteresis: {enter: 0.9, leave: 0.3}")],
    ),
    // Factors and amounts.
    (
        &[("reward_threshold: 0.5", "reward_threshold: 0.5\n  reward_weight: 0.0")],
        &["constant-reward"],
        &[("reward_threshold: 0.5", "reward_threshold: 0.5\n  reward_weight: 0.1")],
    ),
    (
        &[("reward_threshold: 0.5", "reward_threshold: 0.5\n  reward_weight: -1.0")],
        &["success-penalized"],
        &[("reward_threshold: 0.5", "reward_threshold: 0.5\n  reward_weight: 10.0")],
    ),
    (
        &[("reward_threshold: 0.5", "reward_type: binary\n  success_reward: 0.0\n  fail_reward: 1.0")],
        &["success-penalized"],
        &[("reward_threshold: 0.5", "reward_type: binary\n  success_reward: 0.0\n  fail_reward: -1.0")],
    ),
    (
        &[("reward_threshold: 0.5", "reward_type: binary\n  success_reward: 0.0")],
        &["constant-reward"],
        &[("reward_threshold: 0.5", "reward_type: binary\n  success_reward: 0.5")],
    ),
    // Beside the environment's own reward the model adds nothing.
    (
        &[("reward_threshold: 0.5", "combine_mode: add\n  reward_weight: 0.0")],
        &["constant-reward", "env-reward-beside-model"],
        &[("reward_threshold: 0.5", "combine_mode: add\n  reward_weight: 0.5")],
    ),
    // For how long.
    (
        &[
            ("reward_threshold: 0.5", "reward_threshold: 0.5\n  hold_steps: 60"),
            ("auto_reset: true", "auto_reset: true, ignore_terminations: true"),
        ],
        &["constant-reward"],
        &[
            ("reward_threshold: 0.5", "reward_threshold: 0.5\n  hold_steps: 6"),
            ("auto_reset: true", "auto_reset: true, ignore_terminations: true"),
        ],
    ),
    (
        &[("reward_threshold: 0.5", "reward_threshold: 0.5\n  hold_steps: 6")],
        &["success-unrewarded"],
        &[
            ("reward_threshold: 0.5", "reward_threshold: 0.5\n  hold_steps: 6"),
            ("auto_reset: true", "auto_reset: true, ignore_terminations: true"),
        ],
    ),
    (
        &[(
            "reward_mode: terminal\n  reward_threshold: 0.5\n  model: {model_type: resnet",
            "reward_mode: history_buffer\n  model: {model_type: resnet, history_buffers: {w: {history_size: 60, history_keys: [main_images]}}",
        )],
        &["constant-reward"],
        &[
            (
                "reward_mode: terminal\n  reward_threshold: 0.5\n  model: {model_type: resnet",
                "reward_mode: history_buffer\n  model: {model_type: resnet, history_buffers: {w: {history_size: 5, history_keys: [main_images]}}",
            ),
            ("auto_reset: true", "auto_reset: true, ignore_terminations: true"),
        ],
    ),
    (
        &[
            (
                "reward_mode: terminal\n  reward_threshold: 0.5\n  model: {model_type: resnet",
                "reward_mode: history_buffer\n  reward_threshold: 0.5\n  model: {model_type: resnet, history_buffers: {w: {history_size: 60, input_interval: 1, history_keys: [main_images]}}",
            ),
            ("auto_reset: true", "auto_reset: true, ignore_terminations: true"),
        ],
        &["window-never-full"],
        &[
            (
                "reward_mode: terminal\n  reward_threshold: 0.5\n  model: {model_type: resnet",
                "reward_mode: history_buffer\n  reward_threshold: 0.5\n  model: {model_type: resnet, history_buffers: {w: {history_size: 6, input_interval: 1, history_keys: [main_images]}}",
            ),
            ("auto_reset: true", "auto_reset: true, ignore_terminations: true"),
        ],
    ),
    // Success ends what every step before it earns.
    (
        &[("reward_mode: terminal", "reward_mode: per_step")],
        &["rewards-hovering"],
        &[
            ("reward_mode: terminal", "reward_mode: per_step"),
            ("auto_reset: true", "auto_reset: true, ignore_terminations: true"),
        ],
    ),
    (
        &[(
            "reward_mode: terminal\n  reward_threshold: 0.5",
            "reward_mode: per_step\n  reward_type: binary\n  reward_threshold: 0.5",
        )],
        &["rewards-hovering"],
        &[(
            "reward_mode: terminal\n  reward_threshold: 0.5",
            "reward_mode: per_step\n  reward_type: binary\n  reward_threshold: 0.5\n  success_reward: 0\n  fail_reward: -1",
        )],
    ),
    // Nothing to shape.
    (
        &[("reward_mode: terminal\n  reward_threshold: 0.5", "reward_mode: potential")],
        &["potential-alone"],
        &[(
            "reward_mode: terminal\n  reward_threshold: 0.5",
            "reward_mode: potential\n  terms: {done: {reward_mode: terminal, reward_threshold: 0.5, model: {model_path: best_model}}}",
        )],
    ),
    // Truth in the reward, beside the environment's own.
    (
        &[
            ("reward_threshold: 0.5", "env_reward_weight: 1.0"),
            ("{model_type: resnet", "{model_type: resnet, gt_success_bonus: 5.0"),
        ],
        &["env-reward-beside-model", "ground-truth-in-reward"],
        &[("reward_threshold: 0.5", "env_reward_weight: 1.0")],
    ),
    // Bounds of the return.
    (
        &[
            (
                "algorithm: {loss_type: actor_critic",
                "algorithm: {loss_type: embodied_sac, target_range: [0, 1]",
            ),
            ("reward_mode: terminal", "reward_mode: per_step"),
            ("auto_reset: true", "auto_reset: true, ignore_terminations: true"),
        ],
        &["target-range-clips"],
        &[
            (
                "algorithm: {loss_type: actor_critic",
                "algorithm: {loss_type: embodied_sac, target_range: [0, 1]",
            ),
            ("reward_mode: terminal", "reward_mode: per_step\n  reward_weight: 0.03"),
            ("auto_reset: true", "auto_reset: true, ignore_terminations: true"),
        ],
    ),
    // What the environment does not have, or never is.
    (
        &[("best_model, image_size", "two_cameras, image_size")],
        &["unknown-camera"],
        &[("best_model, image_size", "two_cameras, image_size"), TWO_CAMERAS],
    ),
    (
        &[("reward_threshold: 0.5", "reward_threshold: 0.5\n  guards: [\"tcp_pose.z > 5\"]")],
        &["guard-never-holds"],
        &[("reward_threshold: 0.5", "reward_threshold: 0.5\n  guards: [\"tcp_pose.z < 5\"]")],
    ),
    (
        &[(
            "reward_threshold: 0.5",
            "reward_threshold: 0.5\n  guards: [\"gripper open\", \"gripper closed\"]",
        )],
        &["guard-never-holds"],
        &[("reward_threshold: 0.5", "reward_threshold: 0.5\n  guards: [\"gripper closed\"]")],
    ),
    (
        &[("reward_threshold: 0.5", "reward_threshold: 0.5\n  guards: [\"height > 5\"]")],
        &["guard-unreadable"],
        &[("reward_threshold: 0.5", "reward_threshold: 0.5\n  guards: [\"state[0] < 5\"]")],
    ),
    // A monitor that never looks.
    (
        &[
            ("runner: {", "runner: {max_epochs: 20, "),
            ("reward_threshold: 0.5", "reward_threshold: 0.5\n  hacking_monitor: {every: 50}"),
        ],
        &["monitor-never-checks"],
        &[
            ("runner: {", "runner: {max_epochs: 20, "),
            ("reward_threshold: 0.5", "reward_threshold: 0.5\n  hacking_monitor: {every: 5}"),
        ],
    ),
    // A model that never learns.
    (
        &[
            ("runner: {", "runner: {max_epochs: 20, "),
            ("reward_threshold: 0.5", "reward_threshold: 0.5\n  online: {every: 50}"),
        ],
        &["online-never-learns"],
        &[
            ("runner: {", "runner: {max_epochs: 20, "),
            ("reward_threshold: 0.5", "reward_threshold: 0.5\n  online: {every: 5}"),
        ],
    ),
];

/// An untrained model as `reward train` leaves it, made once.
fn best_model() -> &'static str {
    static MODEL: OnceLock<(tempfile::TempDir, String)> = OnceLock::new();
    &MODEL.get_or_init(|| model_of(&["main_images"], None)).1
}

/// The same with two cameras.
fn two_cameras() -> &'static str {
    static MODEL: OnceLock<(tempfile::TempDir, String)> = OnceLock::new();
    &MODEL.get_or_init(|| model_of(&["main_images", "extra_view_images"], None)).1
}

/// The same with a threshold of its own, as an audit leaves it.
fn audited_model() -> &'static str {
    static MODEL: OnceLock<(tempfile::TempDir, String)> = OnceLock::new();
    &MODEL.get_or_init(|| model_of(&["main_images"], Some(0.8))).1
}

fn model_of(image_keys: &[&str], threshold: Option<f64>) -> (tempfile::TempDir, String) {
    let image_keys = image_keys.iter().map(ToString::to_string).collect();
    model_with(|card| ModelCard {
        threshold,
        settings: ClassifierSettings { image_keys, ..card.settings },
        ..card
    })
}

fn model_with(change: impl FnOnce(ModelCard) -> ModelCard) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let settings =
        ClassifierSettings { hidden_dim: Some(256), image_size: [3, 128, 128], ..Default::default() };
    let card = change(ModelCard::of(settings));
    let trainer = Trainer::new(&card.settings, AdamW::default(), 1).unwrap();
    card.write(&trainer.weights().unwrap(), folder.path()).unwrap();
    let path = folder.path().to_str().unwrap().to_string();
    (folder, path)
}

fn read(yaml: &str) -> config::LoadedConfig {
    let judge = concat!(env!("CARGO_MANIFEST_DIR"), "/../nn/tests/qwen3_vl/model");
    let mut yaml = yaml.replace("tiny_judge", judge);
    let models = [
        ("best_model", best_model as fn() -> &'static str),
        ("two_cameras", two_cameras),
        ("audited_model", audited_model),
    ];
    for (name, path) in models {
        if yaml.contains(name) {
            yaml = yaml.replace(name, path());
        }
    }
    config::read(parse_yaml("test.yaml", &yaml).unwrap(), "test").unwrap()
}

fn codes(yaml: &str) -> Vec<&'static str> {
    let loaded = read(yaml);
    lint(&loaded).iter().map(|finding| finding.code).collect()
}

fn changed(changes: &[(&str, &str)]) -> String {
    let mut yaml = SOUND.to_string();
    for (from, to) in changes {
        assert!(yaml.contains(from), "no `{from}` to change");
        yaml = yaml.replacen(from, to, 1);
    }
    yaml
}

#[test]
fn every_rule_fires_where_it_should_and_nowhere_else() {
    for (changes, expected) in CASES {
        let mut found = codes(&changed(changes));
        found.sort_unstable();
        let mut expected = expected.to_vec();
        expected.sort_unstable();
        assert_eq!(found, expected, "after {changes:?}");
    }
}

#[test]
fn traps_are_found_and_what_is_nearly_one_is_not_blamed() {
    for (trap, expected, sound) in TRAPS {
        let mut found = codes(&changed(trap));
        found.sort_unstable();
        assert_eq!(found, *expected, "the trap {trap:?}");
        let found = codes(&changed(sound));
        let new: Vec<_> = found.iter().filter(|code| **code != "env-reward-beside-model").collect();
        assert!(new.is_empty(), "{new:?} without a trap: {sound:?}");
    }
}

/// Where the threshold is the checkpoint's own, scores below it earn nothing, and those above it are rarely wrong.
#[test]
fn a_threshold_of_the_checkpoint_is_no_reason_for_a_warning() {
    let per_step = ("reward_mode: terminal\n  reward_threshold: 0.5", "reward_mode: per_step");
    let severity = |model: (&'static str, &'static str)| {
        let found = lint(&read(&changed(&[per_step, model])));
        let [finding] = &found[..] else { panic!("one finding, not {found:?}") };
        assert_eq!(finding.code, "rewards-hovering");
        finding.severity
    };
    assert_eq!(severity(("best_model, image_size", "best_model, image_size")), Severity::Warning);
    assert_eq!(severity(("best_model, image_size", "audited_model, image_size")), Severity::Note);
}

#[test]
fn a_guarantee_is_about_the_rule_that_it_was_calibrated_through() {
    let rule = AuditRule { hold: NonZeroUsize::new(3).unwrap(), ..AuditRule::DEFAULT };
    let guarantee = Guarantee {
        threshold: 0.8,
        max_rate: 0.05,
        confidence: 0.95,
        episodes: 100,
        alarms: 1,
        rule: Some(rule),
    };
    let codes_with = |rule: AuditRule, reward: &str| {
        let (_folder, model) = model_with(|card| ModelCard {
            threshold: Some(0.8),
            guarantee: Some(Guarantee { rule: Some(rule), ..guarantee }),
            ..card
        });
        let on_and_on = ("auto_reset: true", "auto_reset: true, ignore_terminations: true");
        codes(&changed(&[on_and_on, ("reward_threshold: 0.5", reward)]).replace("best_model", &model))
    };
    assert_eq!(codes_with(rule, "hold_steps: 2"), ["guarantee-of-another-rule"]);
    assert_eq!(codes_with(rule, "hold_steps: 4"), [""; 0]);
    let last = AuditRule { alarm: AlarmFrames::LastFrame, ..AuditRule::DEFAULT };
    assert_eq!(codes_with(last, "hold_steps: 1"), [""; 0], "terminal it is");
    let per_step = codes_with(last, "hold_steps: 1\n  terms: {s: {model: {model_path: best_model}}}");
    assert_eq!(per_step, ["guarantee-of-another-rule"], "a term that rewards every step");
    let left = AuditRule { leave: Some(0.4), ..AuditRule::DEFAULT };
    assert_eq!(codes_with(left, "hysteresis: {enter: 0.8, leave: 0.3}"), ["guarantee-of-another-rule"]);
    assert_eq!(codes_with(left, "hysteresis: {enter: 0.8, leave: 0.4}"), [""; 0]);
}

/// What each policy earns is what the rules of training give it: computed here by hand.
#[test]
fn the_table_has_what_each_policy_would_earn() {
    let earnings = |changes: &[(&str, &str)]| {
        let page = serde_json::to_value(examine(&read(&changed(changes)))).unwrap();
        let rows = page["earnings"]["policies"].as_array().unwrap().clone();
        rows.into_iter()
            .map(|row| (row["policy"].as_str().unwrap().to_string(), row))
            .collect::<BTreeMap<_, _>>()
    };
    let binary = ("reward_threshold: 0.5", "reward_type: binary\n  reward_threshold: 0.5");
    let terminal = earnings(&[binary]);
    let sum = |rows: &BTreeMap<String, serde_json::Value>, policy: &str, key: &str| {
        rows[policy][key].as_f64().unwrap()
    };
    // A quarter of 50 steps is 12; success ends the episode, and its reward comes there.
    assert_eq!(sum(&terminal, "succeeds_and_stays", "steps"), 12.0);
    assert_eq!(sum(&terminal, "succeeds_and_stays", "reward"), 1.0);
    assert!((sum(&terminal, "succeeds_and_stays", "discounted") - 0.97f64.powi(11)).abs() < 1e-6);
    assert_eq!((sum(&terminal, "never", "steps"), sum(&terminal, "never", "reward")), (50.0, 0.0));
    assert_eq!(sum(&terminal, "hovers_above", "reward"), 1.0, "the model sees success where there is none");
    let on_and_on = ("auto_reset: true", "auto_reset: true, ignore_terminations: true");
    let per_step = earnings(&[binary, on_and_on, ("reward_mode: terminal", "reward_mode: per_step")]);
    assert_eq!(sum(&per_step, "succeeds_and_stays", "reward"), 39.0, "from step 12 to step 50");
    assert_eq!(sum(&per_step, "succeeds_once", "reward"), 1.0);
    assert_eq!(sum(&per_step, "hovers_below", "reward"), 0.0);
    let hold = ("reward_threshold: 0.5", "reward_type: binary\n  reward_threshold: 0.5\n  hold_steps: 5");
    let held = earnings(&[hold, on_and_on, ("reward_mode: terminal", "reward_mode: per_step")]);
    assert_eq!(sum(&held, "succeeds_and_stays", "reward"), 35.0, "from step 16 to step 50");
    assert_eq!(sum(&held, "succeeds_once", "reward"), 1.0, "five steps are enough for one reward");
}

/// A robot's images are of the size that it says itself.
#[test]
fn a_robots_images_are_as_large_as_it_says() {
    let robot = |side: u64| {
        let env = format!(
            "env_type: realworld, override_cfg: {{image_side: {side}}}, init_params: {{id: FrankaEnv-v1}}"
        );
        codes(&SOUND.replace("init_params: {id: PickCube-v1, obs_mode: rgb}", &env))
    };
    assert_eq!(robot(128), [""; 0]);
    assert_eq!(robot(64), ["image-size-differs"]);
}

#[test]
fn what_is_trained_on_is_not_validated_on() {
    let config = |val: &str| {
        format!(
            "runner: {{task_type: sft}}\nactor: {{model: {{model_type: resnet}}}}\ndata: {{train_data_paths: [a.pt, b.pt], val_data_paths: {val}}}\n"
        )
    };
    assert_eq!(codes(&config("b.pt")), ["same-train-and-val"]);
    assert_eq!(codes(&config("./c.pt")), [""; 0]);
    assert_eq!(codes(&config("b.pt, data_path: episodes")), [""; 0], "which is used instead");
}

#[test]
fn a_finding_says_where_why_and_what_to_do() {
    let yaml = SOUND.replace("gamma: 0.97", "gamma: 0.8");
    let loaded = read(&yaml);
    let found = lint(&loaded);
    let [finding] = &found[..] else { panic!("one finding, not {found:?}") };
    assert_eq!(finding.severity, Severity::Warning);
    assert_eq!(finding.place.as_deref(), Some("test.yaml:10:45"));
    assert!(finding.what.contains("1.8e-5"), "{}", finding.what);
    assert!(finding.fix.contains("0.95"), "{}", finding.fix);
}

#[test]
fn every_code_is_explained() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/check.md")).unwrap();
    let codes =
        CASES.iter().flat_map(|(_, codes)| *codes).chain(TRAPS.iter().flat_map(|(_, codes, _)| *codes));
    for code in codes.chain([&"same-train-and-val", &"guarantee-of-another-rule"]) {
        assert!(page.contains(&format!("`{code}`")), "docs/check.md does not explain {code}");
    }
}

#[test]
fn exit_codes_tell_a_script_what_was_found() {
    let check = |words: &[&str]| {
        let out = Command::new(env!("CARGO_BIN_EXE_plaudit")).arg("check").args(words).output().unwrap();
        (out.status.code(), String::from_utf8(out.stdout).unwrap())
    };
    assert_eq!(check(&["pickcube_scripted"]), (Some(0), "nothing found\n".into()));
    let (code, page) = check(&["maniskill_ppo_mlp_vlm_trend_reward", "--json"]);
    let found: serde_json::Value = serde_json::from_str(&page).unwrap();
    assert_eq!(code, Some(1));
    assert!(
        found["findings"].as_array().unwrap().iter().any(|finding| finding["code"] == "rewards-dithering"),
        "{page}"
    );
    assert_eq!(found["earnings"]["policies"].as_array().unwrap().len(), 7, "{page}");
    let allowed =
        ["no-model", "rewards-dithering", "ground-truth-in-reward"].map(|code| ["--allow", code]).concat();
    let (code, page) = check(&[&["maniskill_ppo_mlp_vlm_trend_reward"][..], &allowed].concat());
    assert!(code == Some(0) && page.ends_with("\nnothing found\n"), "{page}");
    assert!(page.starts_with("what a policy would earn in an episode of 50 steps"), "{page}");
    assert_eq!(check(&["no_such_recipe"]).0, Some(2));
}

/// Run under a clock: a pipe that is waited for never ends.
#[cfg(unix)]
#[test]
fn a_named_pipe_or_a_device_is_no_config_and_what_a_shell_pipes_in_is() {
    let folder = tempfile::tempdir().unwrap();
    assert!(Command::new("mkfifo").arg(folder.path().join("mine.yaml")).status().unwrap().success());
    let says = |script: &str| {
        let script = format!("timeout 20 \"$0\" {script}");
        let mut command = Command::new("bash");
        command.args(["-c", &script, env!("CARGO_BIN_EXE_plaudit")]).current_dir(folder.path());
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    for name in ["mine.yaml", "./mine.yaml", "/dev/zero", "/dev/tty"] {
        let (code, said) = says(&format!("check {name}"));
        assert_eq!(code, Some(2), "{name}: {said}");
        assert!(said.contains(&format!("{name} is not a regular file")), "{said}");
    }
    for piped in [
        "config show <(printf 'a: 1')",
        "config show - < <(printf 'a: 1')",
        "config show /dev/stdin <<< 'a: 1'",
    ] {
        let (_, said) = says(piped);
        assert!(said.contains("unknown key") && !said.contains("regular file"), "{piped}: {said}");
    }
}

#[test]
fn a_width_that_a_policy_does_not_have_is_named() {
    let notices = |model: &str| {
        let yaml = SOUND.replace("actor: {", &format!("actor: {{model: {{{model}}}, "));
        read(&yaml).notices.into_iter().map(|notice| notice.text).collect::<Vec<_>>().join("\n")
    };
    assert!(notices("model_type: mlp_policy, hidden_dim: 8").contains("actor.model.hidden_sizes"));
    assert!(!notices("model_type: mlp_policy, hidden_sizes: [8]").contains("hidden_dim"));
}
