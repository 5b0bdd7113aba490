//! Training as a person meets it: runs, checkpoints, kills, and what goes wrong.

use crate::runs::{curve, files_in, refused, succeeds, survives_a_kill, weights};

/// A run of a second or so.
const SMALL: [&str; 6] = [
    "env.train.total_num_envs=8",
    "env.train.max_steps_per_rollout_epoch=32",
    "env.eval.total_num_envs=4",
    "env.eval.max_episode_steps=50",
    "actor.model.hidden_sizes=[16,16]",
    "algorithm.update_epoch=2",
];

/// `plaudit train cartpole_ppo` on a small scale, into `into`.
fn train<'a>(into: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    ["-q", "train", "cartpole_ppo"]
        .into_iter()
        .chain(SMALL)
        .chain([into])
        .chain(more.iter().copied())
        .collect()
}

#[test]
fn a_run_leaves_curves_and_checkpoints_that_can_be_evaluated_and_collected_with() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let words = train(
        "runner.logger.log_path=run",
        &["runner.max_epochs=4", "runner.save_interval=2", "runner.val_check_interval=2", "--json"],
    );
    let result: serde_json::Value = serde_json::from_str(&succeeds(at, &words)).unwrap();
    assert_eq!(result["step"], 4);
    for name in [
        "env/return",
        "rollout/rewards",
        "reward/env",
        "train/actor/policy_loss",
        "train/critic/value_loss",
        "eval/return",
        "time/step",
    ] {
        assert!(result[name].is_number(), "{name} is missing in {result}");
    }
    let run = at.join("run");
    let logged_steps: Vec<u64> =
        curve(&run).keys().filter(|(_, name)| name == "eval/return").map(|(step, _)| *step).collect();
    assert_eq!(logged_steps, [0, 2, 4], "before the first step, every second one, and the last");
    let names: Vec<String> = weights(&run, 4).names().map(String::from).collect();
    for name in [
        "backbone.0.weight",
        "backbone.2.bias",
        "actor_mean.weight",
        "value_head.mlp.0.weight",
        "value_head.mlp.4.weight",
    ] {
        assert!(names.iter().any(|other| other == name), "{name} is missing in {names:?}");
    }

    // The same policy from its folder, from its file, and from RLinf's kind of file.
    let rlinf = at.join("full_weights.pt");
    weights(&run, 4).write_pt(&rlinf).unwrap();
    let evaluated = |key: &str| {
        let words: Vec<&str> =
            ["-q", "eval", "cartpole_ppo", "--json", key].into_iter().chain(SMALL).collect();
        serde_json::from_str::<serde_json::Value>(&succeeds(at, &words)).unwrap()["eval/return"].clone()
    };
    let by_folder = evaluated("runner.ckpt_path=run/checkpoints/global_step_4");
    assert_eq!(
        evaluated("actor.model.model_path=run/checkpoints/global_step_4/actor/model.safetensors"),
        by_folder
    );
    assert_eq!(evaluated("runner.ckpt_path=full_weights.pt"), by_folder);
    assert_eq!(evaluated("runner.resume_dir=run/checkpoints/global_step_4"), by_folder);

    let words = [
        "-q",
        "collect",
        "cartpole_ppo",
        "--episodes",
        "5",
        "runner.ckpt_path=run/checkpoints/global_step_4",
        "env.train.data_collection.save_dir=kept",
    ];
    succeeds(at, &words.into_iter().chain(SMALL).collect::<Vec<_>>());
    assert_eq!(files_in(&at.join("kept")), 5);
}

#[test]
fn a_run_that_is_killed_and_resumed_has_the_curve_of_one_that_was_not() {
    let folder = tempfile::tempdir().unwrap();
    let length = ["runner.max_epochs=12", "runner.save_interval=2", "runner.val_check_interval=4"];
    survives_a_kill(folder.path(), 4, 12, |into| train(into, &length));
}

#[test]
fn a_checkpoint_starts_a_run_of_its_own_with_another_config() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    succeeds(at, &train("runner.logger.log_path=warm", &["runner.max_epochs=2"]));
    let more =
        ["runner.max_epochs=3", "runner.resume_dir=warm/checkpoints/global_step_2", "algorithm.gamma=0.9"];
    succeeds(at, &train("runner.logger.log_path=next", &more));
    let steps: Vec<u64> = curve(&at.join("next")).keys().map(|(step, _)| *step).collect();
    assert!(steps.iter().all(|&step| step == 3), "{steps:?}");
    assert_ne!(weights(&at.join("next"), 3), weights(&at.join("warm"), 2));
    let said =
        refused(at, &train("runner.resume_dir=warm", &["runner.max_epochs=3", "algorithm.gamma=0.9"]), 2);
    assert!(said.contains("was run with another config: `gamma: 0.98` there, `gamma: 0.9` now"), "{said}");
}

#[test]
fn what_cannot_be_is_refused_before_the_first_step() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    succeeds(at, &train("runner.logger.log_path=warm", &["runner.max_epochs=1"]));
    let check = |more: &[&str], says: &[&str]| {
        let words: Vec<&str> = train("runner.logger.log_path=never", more);
        let said = refused(at, &words, 2);
        for expected in says {
            assert!(said.contains(expected), "`{expected}` is not in: {said}");
        }
        assert!(!at.join("never").exists(), "a refused run leaves nothing behind");
    };
    let resume = "runner.resume_dir=warm/checkpoints/global_step_1";
    check(
        &[resume, "actor.model.hidden_sizes=[32,32]"],
        &["backbone.0.weight", "[16, 4]", "[32, 4]", "another network"],
    );
    check(&["runner.resume_dir=warm/checkpoints/global_step_9"], &["runner.resume_dir", "global_step_9"]);
    // A file without its end is named as such; the algorithm has nothing to do with it.
    let file = at.join("warm/checkpoints/global_step_1/actor/learner.safetensors");
    let whole = std::fs::read(&file).unwrap();
    for length in [whole.len() - 1, 100, 0] {
        std::fs::write(&file, &whole[..length]).unwrap();
        check(&[resume], &["actor/learner.safetensors: the file is cut short", "an earlier checkpoint"]);
        let said = refused(at, &train(resume, &["runner.max_epochs=3"]), 2);
        assert!(!said.contains("algorithm"), "{said}");
    }
    check(&["runner.ckpt_path=nowhere.pt"], &["runner.ckpt_path", "nowhere.pt"]);
    check(&["actor.model.obs_dim=42"], &["actor.model.obs_dim", "CartPole-v1 has 4 where this says 42"]);
    check(&["actor.model.num_action_chunks=5"], &["max_steps_per_rollout_epoch", "chunks of 5"]);
    check(
        &["actor.optim.lr_scheduler=linear", "runner.max_epochs=-1"],
        &["actor.optim.lr_scheduler", "runner.max_epochs"],
    );
    check(&["algorithm.logprob_type=chunk_level"], &["reward_type"]);
    check(&["runner.task_type=sft", "actor.model.model_type=resnet"], &["runner.task_type", "reward model"]);
}

#[test]
fn a_run_that_diverges_names_the_step_and_the_last_good_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let more = [
        "runner.max_epochs=50",
        "runner.save_interval=1",
        "actor.optim.lr=1e38",
        "actor.optim.value_lr=1e38",
        "actor.optim.weight_decay=1.0",
        "actor.optim.lr_scheduler=constant",
    ];
    let said = refused(at, &train("runner.logger.log_path=run", &more), 1);
    assert!(said.contains("step ") && said.contains(" is NaN"), "{said}");
    assert!(said.contains("the last good checkpoint is") || said.contains("nothing was saved"), "{said}");
}

#[test]
fn episodes_are_kept_while_a_policy_learns() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let more = [
        "runner.max_epochs=3",
        "env.train.data_collection.enabled=true",
        "env.train.data_collection.save_dir=kept",
        "env.eval.data_collection.enabled=true",
        "env.eval.data_collection.save_dir=evaluated",
        "runner.val_check_interval=3",
    ];
    succeeds(at, &train("runner.logger.log_path=run", &more));
    let files = |name: &str| files_in(&at.join(name));
    let finished: f64 = curve(&at.join("run"))
        .iter()
        .filter(|((_, name), _)| name == "env/num_trajectories")
        .map(|(_, value)| f64::from_bits(*value))
        .sum();
    assert!(finished > 10.0);
    assert_eq!(files("kept"), finished as usize);
    assert_eq!(files("evaluated"), 2 * 4, "two evaluations of four environments");
}

#[test]
fn only_eval_evaluates_and_trains_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    succeeds(at, &train("runner.logger.log_path=warm", &["runner.max_epochs=1"]));
    let more = ["runner.only_eval=true", "runner.ckpt_path=warm/checkpoints/global_step_1"];
    succeeds(at, &train("runner.logger.log_path=evaluated", &more));
    let names: Vec<String> = curve(&at.join("evaluated")).into_keys().map(|(_, name)| name).collect();
    assert!(!names.is_empty() && names.iter().all(|name| name.starts_with("eval/")), "{names:?}");
}
