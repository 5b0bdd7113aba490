//! Soft actor-critic and RLPD as a person meets them: runs, kills, demonstrations, and what goes wrong.

use std::path::Path;

use crate::runs::{curve, refused, succeeds, survives_a_kill, weights};
use plaudit_nn::Weights;

/// A run of a second or so.
const SMALL: [&str; 8] = [
    "env.train.total_num_envs=2",
    "env.train.max_steps_per_rollout_epoch=5",
    "env.eval.total_num_envs=2",
    "env.eval.max_episode_steps=20",
    "actor.model.hidden_sizes=[16,16]",
    "actor.global_batch_size=16",
    "actor.micro_batch_size=16",
    "algorithm.replay_buffer.min_buffer_size=20",
];

/// `plaudit train pendulum_sac` on a small scale, with more words.
fn train<'a>(more: &[&'a str]) -> Vec<&'a str> {
    ["-q", "train", "pendulum_sac"].into_iter().chain(SMALL).chain(more.iter().copied()).collect()
}

/// Demonstrations on the pendulum: random ones will do.
fn demonstrations(at: &Path, config: &str, to: &str) {
    let save = format!("env.eval.data_collection.save_dir={to}");
    let words = ["-q", "collect", config, "--episodes", "3", &save, "env.eval.max_episode_steps=15"];
    succeeds(at, &words);
}

#[test]
fn a_run_leaves_curves_and_a_policy_that_can_be_evaluated() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let words = train(&[
        "runner.logger.log_path=run",
        "runner.max_epochs=6",
        "runner.val_check_interval=6",
        "--json",
    ]);
    let result: serde_json::Value = serde_json::from_str(&succeeds(at, &words)).unwrap();
    for name in [
        "train/sac/critic_loss",
        "train/sac/actor_loss",
        "train/sac/alpha",
        "train/actor/entropy",
        "train/critic/q_data",
        "train/replay_buffer/total_samples",
        "reward/env",
        "eval/return",
    ] {
        assert!(result[name].is_number(), "{name} is missing in {result}");
    }
    assert_eq!(result["train/replay_buffer/total_samples"], 60.0);
    let names: Vec<String> = weights(&at.join("run"), 6).names().map(String::from).collect();
    for name in ["backbone.0.weight", "actor_mean.weight", "actor_logstd.bias", "q_head.qs.1.net.0.weight"] {
        assert!(names.iter().any(|other| other == name), "{name} is missing in {names:?}");
    }
    let evaluated = |key: &str| {
        let words: Vec<&str> =
            ["-q", "eval", "pendulum_sac", "--json", key].into_iter().chain(SMALL).collect();
        serde_json::from_str::<serde_json::Value>(&succeeds(at, &words)).unwrap()["eval/return"].clone()
    };
    Weights::read(at.join("run/checkpoints/global_step_6"))
        .unwrap()
        .write_pt(at.join("full_weights.pt"))
        .unwrap();
    assert_eq!(
        evaluated("runner.ckpt_path=run/checkpoints/global_step_6"),
        evaluated("runner.ckpt_path=full_weights.pt")
    );
}

#[test]
fn a_run_that_is_killed_and_resumed_has_the_curve_of_one_that_was_not() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    demonstrations(at, "pendulum_random", "demos");
    let length = [
        "runner.max_epochs=30",
        "runner.save_interval=5",
        "runner.val_check_interval=10",
        "algorithm.replay_buffer.cache_size=60", // so that what is dropped is the same as well
        "algorithm.demo_buffer.load_path=demos",
    ];
    survives_a_kill(at, 10, 30, |into| train(&[&[into], &length[..]].concat()));
}

#[test]
fn acting_and_learning_go_side_by_side() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let more = [
        "runner.logger.log_path=run",
        "runner.asynchronous=true",
        "runner.max_epochs=40",
        "runner.save_interval=40",
        "algorithm.staleness_threshold=2",
        "env.train.max_episode_steps=10",
        "env.train.data_collection.enabled=true",
        "env.train.data_collection.save_dir=kept",
    ];
    succeeds(at, &train(&more));
    let curve = curve(&at.join("run"));
    let logged = |name: &str| -> Vec<f64> {
        curve
            .iter()
            .filter(|((_, other), _)| other == name)
            .map(|(_, value)| f64::from_bits(*value))
            .collect()
    };
    assert_eq!(logged("train/sac/critic_loss").len(), 40, "every step learned");
    assert!(logged("train/replay_channel_qsize").iter().sum::<f64>() >= 2.0);
    let stalest = logged("train/async/staleness_max").into_iter().fold(0.0, f64::max);
    assert!(stalest <= 3.0, "bounded, but for a version sent between the look and the act: {stalest}");
    assert!(std::fs::read_dir(at.join("kept")).unwrap().count() > 0, "episodes are kept on the way");
    // Another run goes on from there.
    let more = ["runner.resume_dir=run", "runner.max_epochs=45", "runner.asynchronous=true"];
    let more = [&more[..], &["runner.save_interval=40", "algorithm.staleness_threshold=2"]].concat();
    let more =
        [&more[..], &["env.train.max_episode_steps=10", "env.train.data_collection.enabled=true"]].concat();
    succeeds(at, &train(&[&more[..], &["env.train.data_collection.save_dir=kept"]].concat()));
}

#[test]
fn what_cannot_be_is_refused_before_the_first_step() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    demonstrations(at, "pendulum_random", "demos");
    demonstrations(at, "acrobot_random", "acrobot");
    std::fs::create_dir(at.join("empty")).unwrap();
    let check = |more: &[&str], says: &[&str]| {
        let words = train(&[&["runner.logger.log_path=never"], more].concat());
        let said = refused(at, &words, 2);
        for expected in says {
            assert!(said.contains(expected), "`{expected}` is not in: {said}");
        }
        assert!(!at.join("never").exists(), "a refused run leaves nothing behind");
    };
    let load = "algorithm.demo_buffer.load_path";
    check(&["algorithm.demo_buffer.cache_size=5"], &[load, "none are named"]);
    check(&["algorithm.demo_buffer.load_path=empty"], &[load, "no episodes in empty"]);
    check(&["algorithm.demo_buffer.load_path=nowhere"], &[load, "nowhere"]);
    let wider = ["algorithm.demo_buffer.load_path=acrobot"];
    check(&wider, &[load, "its states have 6 numbers, and those of Pendulum-v1 have 3"]);
    let more = ["algorithm.demo_buffer.load_path=demos", "algorithm.demo_buffer.min_buffer_size=9"];
    check(&more, &["there are 3 where 9 are needed"]);
    check(
        &["algorithm.replay_buffer.cache_size=1000000000000", "runner.max_epochs=-1"],
        &["algorithm.replay_buffer.cache_size", "bytes, but", "are free"],
    );
    check(
        &["algorithm.replay_buffer.auto_save=true"],
        &["algorithm.replay_buffer.auto_save", "in every checkpoint"],
    );
    check(&["algorithm.adv_type=gae"], &["algorithm.adv_type", "transitions"]);
    check(&["algorithm.enable_drq=true"], &["algorithm.enable_drq", "images"]);
    check(&["algorithm.critic_actor_ratio=0"], &["algorithm.critic_actor_ratio: 0 is too small"]);
    check(&["actor.model.action_dim=4"], &["actor.model.action_dim", "Pendulum-v1 has 1 where this says 4"]);
    let discrete = ["env.train.init_params.id=CartPole-v1", "env.eval.init_params.id=CartPole-v1"];
    check(&discrete, &["continuous actions", "PPO"]);
    let words = ["-q", "train", "cartpole_ppo", "runner.asynchronous=true", "runner.logger.log_path=never"];
    let said = refused(at, &words, 2);
    assert!(said.contains("runner.asynchronous") && said.contains("only SAC"), "{said}");
}

#[test]
fn a_run_that_diverges_names_the_step_and_the_last_good_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let more = [
        "runner.logger.log_path=run",
        "runner.max_epochs=50",
        "runner.save_interval=1",
        "actor.optim.lr=1e38",
    ];
    let said = refused(at, &train(&more), 1);
    assert!(said.contains("step ") && said.contains(" is NaN") || said.contains(" is inf"), "{said}");
    assert!(said.contains("the last good checkpoint is") || said.contains("nothing was saved"), "{said}");
}
