//! Configs as RLinf writes them (`rlinf/config`) run as they are: only sizes, and paths that users must fill in, change.

use crate::runs;
use std::path::Path;

use crate::runs::{command, files_in, refused};
use plaudit_nn::classifier::{AdamW, Arch, ClassifierSettings, Trainer};
use plaudit_reward::card::ModelCard;
use serde_json::Value;

/// One step of learning in a second.
const SMALL: &[&str] = &[
    "runner.logger.log_path=run",
    "runner.max_epochs=1",
    "runner.max_steps=1",
    "runner.val_check_interval=1",
    "env.train.total_num_envs=2",
    "env.train.max_episode_steps=5",
    "env.train.max_steps_per_rollout_epoch=5",
    "env.eval.total_num_envs=2",
    "env.eval.max_episode_steps=5",
    "env.eval.max_steps_per_rollout_epoch=5",
    "env.eval.video_cfg.save_video=false",
    "actor.micro_batch_size=10",
    "actor.global_batch_size=10",
    "algorithm.update_epoch=1",
];
/// Cameras of a size that is quick to draw.
const SMALL_IMAGES: &[&str] = &[
    "env.train.init_params.sensor_configs.width=32",
    "env.train.init_params.sensor_configs.height=32",
    "env.eval.init_params.sensor_configs.width=32",
    "env.eval.init_params.sensor_configs.height=32",
];

fn config(name: &str) -> String {
    format!("{}/tests/rlinf/config/{name}.yaml", env!("CARGO_MANIFEST_DIR"))
}

/// The metrics of `plaudit train` of a config at a small scale, and its notices.
fn train(at: &Path, name: &str, more: &[&str]) -> (Value, String) {
    let file = config(name);
    let words: Vec<&str> = ["train", "--json", &file]
        .into_iter()
        .chain(SMALL.iter().copied())
        .chain(more.iter().copied())
        .collect();
    let output = command(at, &words)
        .env("EMBODIED_PATH", format!("{}/tests/rlinf", env!("CARGO_MANIFEST_DIR")))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{name}: {said}");
    (serde_json::from_slice(&output.stdout).unwrap(), said)
}

/// An untrained classifier as `reward train` leaves it, which RLinf's training makes with dropout.
fn classifier(folder: &Path) -> String {
    let settings = ClassifierSettings {
        arch: Arch::Resnet10,
        hidden_dim: Some(256),
        image_size: [3, 32, 32],
        dropout: 0.1,
        ..ClassifierSettings::default()
    };
    let weights = Trainer::new(&settings, AdamW::default(), 1).unwrap().weights().unwrap();
    let place = folder.join("best_model");
    std::fs::create_dir_all(&place).unwrap();
    ModelCard::of(settings).write(&weights, &place).unwrap();
    place.to_str().unwrap().into()
}

#[test]
fn configs_without_a_reward_model_run() {
    for (name, metric) in [
        ("maniskill_ppo_mlp", "train/actor/policy_loss"),
        ("maniskill_sac_mlp", "train/sac/critic_loss"),
        ("maniskill_sac_mlp_async", "train/sac/critic_loss"),
        ("maniskill_crossq_mlp", "train/sac/critic_loss"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let (metrics, _) = train(folder.path(), name, &[]);
        assert!(metrics[metric].is_number(), "{name}: {metric} is not in {metrics}");
    }
}

#[test]
fn a_config_whose_evaluation_collects_keeps_episodes() {
    let folder = tempfile::tempdir().unwrap();
    train(folder.path(), "maniskill_ppo_mlp_collect", SMALL_IMAGES);
    let kept = files_in(&folder.path().join("run/collected_data"));
    assert_eq!(kept, 4, "two evaluations of two episodes");
}

#[test]
fn configs_with_an_image_classifier_run() {
    let folder = tempfile::tempdir().unwrap();
    let path = format!("reward.model.model_path={}", classifier(folder.path()));
    let more =
        [SMALL_IMAGES, &["reward.model.image_size=[3,32,32]", "reward.model.arch=resnet10", &path]].concat();
    let (metrics, _) = train(folder.path(), "maniskill_ppo_mlp_resnet_reward", &more);
    assert!(metrics["reward/model"].is_number(), "{metrics}");
    std::fs::remove_dir_all(folder.path().join("run")).unwrap();

    let (metrics, said) = train(folder.path(), "maniskill_sac_mlp_resnet_reward_async", &more);
    assert!(metrics["reward/model"].is_number(), "{metrics}");
    let overruled = "control_mode says pd_joint_delta_pos, and actor.model.policy_setup: panda-ee-dpos means pd_ee_delta_pos";
    assert!(said.contains(overruled), "{said}");
}

#[test]
fn a_config_with_a_vision_language_model_runs() {
    let folder = tempfile::tempdir().unwrap();
    let path = format!("reward.model.model_path={}/../nn/tests/qwen3_vl/model", env!("CARGO_MANIFEST_DIR"));
    let more = [SMALL_IMAGES, &["reward.model.precision=fp32", &path]].concat();
    let (metrics, _) = train(folder.path(), "maniskill_ppo_mlp_vlm_trend_reward", &more);
    assert!(metrics["reward/model"].is_number(), "{metrics}");
}

/// What a policy does is never decided by a key that RLinf overrules: without `action_dim`, nothing else would show it.
#[test]
fn policy_setup_decides_what_an_action_means() {
    let show = |words: &[&str]| {
        let folder = tempfile::tempdir().unwrap();
        let file = config("maniskill_ppo_mlp");
        let words = [&["-q", "config", "show", &file, "--json"], words].concat();
        let output = command(folder.path(), &words).env("EMBODIED_PATH", "").output().unwrap();
        let shown: Value = serde_json::from_slice(&output.stdout).unwrap();
        shown["env"]["train"]["init_params"]["control_mode"].as_str().unwrap().to_string()
    };
    let joints = "env.train.init_params.control_mode=pd_joint_pos";
    for (words, expected) in [
        (vec![], "pd_joint_delta_pos"),
        (vec![joints], "pd_joint_delta_pos"),
        (vec!["actor.model.policy_setup=panda-ee-dpos"], "pd_ee_delta_pos"),
        (vec!["actor.model.policy_setup=panda-ee-dpos", joints], "pd_ee_delta_pos"),
        (vec!["actor.model.policy_setup=panda-ee-target-dpose"], "pd_ee_target_delta_pose"),
        (vec!["~actor.model.policy_setup", joints], "pd_joint_pos"),
        (vec!["actor.model.policy_setup=widowx", joints], "pd_joint_pos"),
    ] {
        assert_eq!(show(&words), expected, "{words:?}");
    }
}

#[test]
fn no_algorithm_is_swapped_for_another() {
    let folder = tempfile::tempdir().unwrap();
    let learners = "actor_critic (PPO";
    for (recipe, words, expected) in [
        ("maniskill_ppo_mlp", ["algorithm.adv_type=reinpp"], ["algorithm.adv_type", "`reinpp`", "gae"]),
        ("maniskill_ppo_mlp", ["algorithm.adv_type=gaee"], ["algorithm.adv_type", "`gaee`", "`gae`"]),
        ("maniskill_ppo_mlp", ["algorithm.adv_type=embodied_sac"], ["algorithm.adv_type", "PPO", "gae"]),
        ("maniskill_sac_mlp", ["algorithm.adv_type=gae"], ["algorithm.adv_type", "SAC", "embodied_sac"]),
        ("maniskill_ppo_mlp", ["algorithm.loss_type=crossq"], ["algorithm.loss_type", "`crossq`", learners]),
        (
            "maniskill_ppo_mlp",
            ["algorithm.loss_type=embodied_dagger"],
            ["`embodied_dagger`", "embodied_sac", learners],
        ),
        (
            "maniskill_sac_mlp",
            ["algorithm.q_head_type=crosq"],
            ["algorithm.q_head_type", "`crosq`", "`crossq`"],
        ),
        (
            "maniskill_ppo_mlp",
            ["actor.model.model_type=openvla"],
            ["actor.model.model_type", "`openvla`", "cnn_policy"],
        ),
    ] {
        let file = config(recipe);
        let words = [&["-q", "train", &file], SMALL, &words].concat();
        let said = refused(folder.path(), &words, 2);
        for expected in expected {
            assert!(said.contains(expected), "{words:?}: `{expected}` is not in {said}");
        }
    }
}

/// RLinf asks for CrossQ in the model, where it once had no effect.
#[test]
fn crossq_is_crossq() {
    let folder = tempfile::tempdir().unwrap();
    let file = config("maniskill_crossq_mlp");
    let shown = runs::succeeds(folder.path(), &["-q", "config", "show", &file, "--json"]);
    let shown: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(shown["algorithm"]["q_head_type"], "crossq");
}

/// Keys and values of RLinf that once stopped a config.
#[test]
fn foreign_keys_are_listed_once_and_stop_nothing() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(
        folder.path().join("mine.yaml"),
        "cluster:
  tracer: {enabled: true}
  node_groups:
    - label: gpu
      node_ranks: 0
      env_configs: [{node_ranks: 0, env_vars: [{OMP_NUM_THREADS: 32, DEBUG: true, RATE: 0.5, NAME: x}]}]
actor: {num_steps: 4, num_gpus: 8}
data: {answer_separator: ':'}
",
    )
    .unwrap();
    let output = command(folder.path(), &["-v", "config", "show", "mine.yaml", "--json"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let notices = said.lines().filter(|line| line.starts_with("note:")).count();
    assert_eq!(notices, 1, "{said}");
    for key in ["cluster.tracer", "actor.num_steps", "actor.num_gpus", "data.answer_separator"] {
        assert!(said.contains(key), "{key} is not in {said}");
    }
    let shown: Value = serde_json::from_slice(&output.stdout).unwrap();
    let variables = &shown["cluster"]["node_groups"][0]["env_configs"][0]["env_vars"][0];
    assert_eq!(variables["OMP_NUM_THREADS"], 32);
}

#[test]
fn other_machines_are_refused_unless_everything_may_run_here() {
    let folder = tempfile::tempdir().unwrap();
    let base =
        ["cartpole_ppo", "runner.max_epochs=1", "env.train.total_num_envs=2", "runner.logger.log_path=run"];
    for (words, expected) in [
        ("cluster.num_nodes=2", "2 machines"),
        ("cluster.node_groups=[{label: a, node_ranks: 0-3}]", "rank 3"),
        ("cluster.component_placement={actor: {node_group: b, placement: 0}}", "`b`"),
        ("cluster.component_placement={actor: {node_group: node, placement: 1}}", "rank 1"),
    ] {
        let words = [&["-q", "train"], &base[..], &[words]].concat();
        let said = refused(folder.path(), &words, 2);
        assert!(said.contains(expected) && said.contains("--local"), "{said}");
    }
    let words = [&["train", "--local"], &base[..], &["cluster.num_nodes=2"]].concat();
    let output = command(folder.path(), &words).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(
        said.contains("cluster.num_nodes: 2 machines are asked for, and everything runs on this machine"),
        "{said}"
    );
}

#[test]
fn counts_below_minus_one_mean_nothing() {
    let folder = tempfile::tempdir().unwrap();
    for key in [
        "runner.max_steps",
        "runner.max_epochs",
        "runner.val_check_interval",
        "runner.save_interval",
        "actor.optim.lr_warmup_steps",
        "actor.optim.total_training_steps",
        "actor.critic_optim.lr_warmup_steps",
    ] {
        let written = format!("{key}=-5");
        let said = refused(folder.path(), &["-q", "config", "show", "cartpole_ppo", &written], 2);
        assert!(said.contains(key) && said.contains("-5") && said.contains("or -1"), "{said}");
        let written = format!("{key}=-1");
        runs::succeeds(folder.path(), &["-q", "config", "show", "cartpole_ppo", &written]);
    }
}

/// Keys and names of earlier generations of RLinf's files, as they stood beside each other.
#[test]
fn earlier_generations_resolve() {
    let folder = tempfile::tempdir().unwrap();
    let policy = "defaults: [pickcube_rlpd_cnn]\nrollout:\n  precision: ${actor.model.precision}\nactor:\n  extra_config:\n    \
                  pretrained_ckpt_path: ./resnet10_pretrained.pt\n  model:\n    model_name: cnn-policy\n";
    let reward = "reward_training:\n  enabled: true\n  only: true\n  data_path: data\n  epochs: 7\n  \
                  lr: 1.0e-4\n  weight_decay: 1.0e-5\n  clip_grad: 1.0\n  num_workers: 0\n  save_interval: 10\n";
    for (text, expected) in [
        (policy, &["model_type: cnn_policy", "ckpt_path: \"./resnet10_pretrained.pt\""][..]),
        (reward, &["max_epochs: 7", "weight_decay: 1e-5", "clip_grad: 1.0", "save_interval: 10"][..]),
    ] {
        std::fs::write(folder.path().join("older.yaml"), text).unwrap();
        let shown = runs::succeeds(folder.path(), &["config", "show", "older.yaml"]);
        for line in expected {
            assert!(shown.contains(line), "`{line}` is not in:\n{shown}");
        }
    }
}
