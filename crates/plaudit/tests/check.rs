//! The linter: every rule fires where it should, and nowhere else.

use std::process::Command;
use std::sync::OnceLock;

use plaudit::config;
use plaudit::lint::{Severity, lint};
use plaudit_compose::parse_yaml;
use plaudit_nn::classifier::{AdamW, ClassifierSettings, Trainer};
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

/// Changes to the sound config, and the codes they bring.
type Case = (&'static [(&'static str, &'static str)], &'static [&'static str]);
const CASES: &[Case] = &[
    (&[], &[]),
    (&[("model_path: best_model, ", "")], &["no-model"]),
    (&[("gamma: 0.97", "gamma: 0.8")], &["terminal-reward-vanishes"]),
    (&[("gamma: 0.97", "gamma: 0.8"), ("reward_mode: terminal", "reward_mode: per_step")], &[]),
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
            "reward_threshold: 0.5\n  terms: {near: {model: {model_path: no_such_model}}}",
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

/// An untrained model as `reward train` leaves it, made once.
fn best_model() -> &'static str {
    static MODEL: OnceLock<(tempfile::TempDir, String)> = OnceLock::new();
    let make = || {
        let folder = tempfile::tempdir().unwrap();
        let settings =
            ClassifierSettings { hidden_dim: Some(256), image_size: [3, 128, 128], ..Default::default() };
        let trainer = Trainer::new(&settings, AdamW::default(), 1).unwrap();
        ModelCard::of(settings).write(&trainer.weights(), folder.path()).unwrap();
        let path = folder.path().to_str().unwrap().to_string();
        (folder, path)
    };
    &MODEL.get_or_init(make).1
}

fn read(yaml: &str) -> config::LoadedConfig {
    let judge = concat!(env!("CARGO_MANIFEST_DIR"), "/../nn/tests/qwen3_vl/model");
    let yaml = yaml.replace("best_model", best_model()).replace("tiny_judge", judge);
    config::read(parse_yaml("test.yaml", &yaml).unwrap(), "test").unwrap()
}

fn codes(yaml: &str) -> Vec<&'static str> {
    let loaded = read(yaml);
    lint(&loaded).iter().map(|finding| finding.code).collect()
}

#[test]
fn every_rule_fires_where_it_should_and_nowhere_else() {
    for (changes, expected) in CASES {
        let mut yaml = SOUND.to_string();
        for (from, to) in *changes {
            assert!(yaml.contains(from), "no `{from}` to change");
            yaml = yaml.replacen(from, to, 1);
        }
        let mut found = codes(&yaml);
        found.sort_unstable();
        let mut expected = expected.to_vec();
        expected.sort_unstable();
        assert_eq!(found, expected, "after {changes:?}");
    }
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
    for code in CASES.iter().flat_map(|(_, codes)| *codes) {
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
    assert!(found.as_array().unwrap().iter().any(|finding| finding["code"] == "rewards-dithering"), "{page}");
    let allowed =
        ["no-model", "rewards-dithering", "ground-truth-in-reward"].map(|code| ["--allow", code]).concat();
    let (code, page) = check(&[&["maniskill_ppo_mlp_vlm_trend_reward"][..], &allowed].concat());
    assert_eq!((code, page.as_str()), (Some(0), "nothing found\n"));
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
