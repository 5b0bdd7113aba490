//! How much smaller everything is in the test than in the documents. Nothing else differs.

use crate::documents::shell::Command;

/// What commands with such words get instead of what they, or their recipes, say. All lines that fit count, in this
/// order: the first word is the command, the others are among its words.
const SMALLER: &[(&str, &[&str])] = &[
    ("collect", &["--episodes 8", "env.eval.total_num_envs=4"]),
    ("collect pickcube_demos", &["--episodes 16", "env.eval.data_collection.target_success=16"]),
    // A robot is one, and lives in real time.
    (
        "collect realworld_collect_data",
        &["--episodes 1", "env.eval.total_num_envs=1", "env.eval.override_cfg.sim_speed=2"],
    ),
    ("collect realworld_collect_data --episodes", &["--episodes 2"]),
    // A model of few steps is sure of nothing, and of everything when hardly anything is asked of it.
    (
        "robot teleop",
        &["--episodes 1", "--seconds 60", "reward.reward_threshold=0.000001", "reward.hold_steps=15"],
    ),
    (
        "collect robot_pickcube_demos",
        &["--episodes 4", "env.eval.total_num_envs=1", "env.eval.override_cfg.sim_speed=3"],
    ),
    ("eval", &["env.eval.total_num_envs=4"]),
    (
        "train",
        &[
            "env.train.total_num_envs=4",
            "env.eval.total_num_envs=4",
            "runner.max_epochs=2",
            "algorithm.update_epoch=2",
            "actor.global_batch_size=50",
            "actor.micro_batch_size=50",
        ],
    ),
    ("sweep", &["env.train.total_num_envs=4", "env.eval.total_num_envs=4", "runner.max_epochs=2", "seeds=2"]),
    ("train cartpole_ppo", &["actor.global_batch_size=64", "actor.micro_batch_size=64"]),
    (
        "train pickcube_play",
        &["algorithm.cloning.steps=40", "env.train.total_num_envs=8", "runner.max_epochs=1"],
    ),
    ("train pickcube_ppo algorithm.cloning.load_path=demos/pickcube", &["algorithm.cloning.steps=40"]),
    ("train pickcube_ppo_resnet_reward", &["algorithm.cloning.steps=40"]),
    // docs/hacking-monitor.md: long enough for two looks, and a limit so low that each raises an alarm.
    (
        "train pickcube_ppo_resnet_reward reward.model.model_path=model",
        &["runner.max_epochs=10", "reward.hacking_monitor.concentration=0"],
    ),
    ("train pickcube_rlpd", &["algorithm.cloning.steps=40"]),
    ("train pickcube_rlpd_env_reward", &["algorithm.cloning.steps=40"]),
    ("train pickcube_rlpd_cnn", &["algorithm.cloning.steps=4"]),
    ("train pickcube_rlpd_cnn_resnet_reward", &["algorithm.cloning.steps=4"]),
    (
        "train robot_pickcube_rlpd",
        &[
            "env.train.total_num_envs=1",
            "env.train.override_cfg.sim_speed=3",
            "env.eval.total_num_envs=1",
            "algorithm.cloning.steps=4",
            "algorithm.replay_buffer.min_buffer_size=50",
            "runner.val_check_interval=-1",
        ],
    ),
    // docs/start: the same, by the names of a project.
    (
        "collect demos.yaml",
        &["--episodes 4", "env.eval.total_num_envs=1", "env.eval.override_cfg.sim_speed=3"],
    ),
    (
        "train policy.yaml",
        &[
            "env.train.total_num_envs=1",
            "env.train.override_cfg.sim_speed=3",
            "env.eval.total_num_envs=1",
            "algorithm.cloning.steps=4",
            "algorithm.replay_buffer.min_buffer_size=50",
        ],
    ),
    // A judge is slow.
    (
        "train maniskill_ppo_mlp_vlm_trend_reward",
        &[
            "runner.max_epochs=1",
            "env.train.max_steps_per_rollout_epoch=10",
            "actor.global_batch_size=40",
            "actor.micro_batch_size=40",
        ],
    ),
    // The last of fewer steps.
    ("eval pendulum_sac", &["runner.ckpt_path=pendulum/checkpoints/global_step_2"]),
    (
        "train maniskill_ppo_mlp_resnet_reward",
        &["runner.resume_dir=warm_up/checkpoints/global_step_2", "runner.max_epochs=3"],
    ),
    ("reward train", &["runner.max_steps=4", "runner.val_check_interval=2", "runner.save_interval=2"]),
    ("reward train reward_training", &["actor.model.arch=resnet10"]),
    ("reward train reward.yaml", &["actor.model.arch=resnet10", "actor.model.image_size=[3,64,64]"]),
    ("check maniskill_ppo_mlp_resnet_reward", &["reward.model.arch=resnet10"]),
    ("train maniskill_ppo_mlp_resnet_reward", &["reward.model.arch=resnet10"]),
    ("reward train --data episodes", &["actor.model.arch=resnet10", "actor.model.image_size=[3,64,64]"]),
    ("reward audit", &["--stress-frames 1"]),
    (
        "reward sft",
        &[
            "runner.max_steps=2",
            "runner.val_check_interval=1",
            "runner.save_interval=1",
            "actor.global_batch_size=4",
            "actor.micro_batch_size=4",
        ],
    ),
    // The small judge that the document has just made, instead of four billion weights.
    ("reward sft qwen3vl_sft_vlm_trend_reward", &["actor.model.model_path=judge/checkpoints/best_model"]),
    // Two documents may serve at the same time: `session.rs` gives each an address of its own.
    ("serve", &["--port 8000"]),
    ("robot simulate", &["--port 0"]),
];

/// Makes a command smaller.
pub(crate) fn reduce(command: &mut Command) {
    for (words, settings) in SMALLER {
        if command.has(words) {
            settings.iter().for_each(|setting| command.set(setting));
        }
    }
}

/// Exit codes that are an answer and no failure, where 0 is not the only one: of every document (`*`) or of one.
const ANSWERS: &[(&str, &str, &str)] = &[
    // A model of four steps is not to be trusted.
    ("*", "reward audit", "3"),
    // The mistake that it shows.
    ("README.md", "train mine.yaml", "2"),
    // They show warnings.
    ("docs/check.md", "check", "1"),
    ("README.md", "check", "1"),
    ("docs/from-rlinf.md", "check", "1"),
];

pub(crate) fn exit_codes(document: &str, command: &Command) -> &'static str {
    let fits = |(of, words, _): &&(&str, &str, &str)| [document, "*"].contains(of) && command.has(words);
    ANSWERS.iter().find(fits).map_or("0", |(_, _, codes)| codes)
}

/// The recipe that a document's YAML is added to.
pub(crate) fn recipe(document: &str) -> &'static str {
    match document {
        "docs/trend.md" => "maniskill_ppo_mlp_vlm_trend_reward",
        "docs/image-policies.md" => "maniskill_ppo_cnn",
        _ => "pickcube_ppo_resnet_reward",
    }
}
