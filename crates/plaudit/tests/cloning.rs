//! A policy that first does as demonstrations do, then learns by reward.

use std::path::Path;

use crate::runs::{curve, refused, succeeds, weights};

/// Small networks in few environments.
const SMALL: [&str; 7] = [
    "actor.model.hidden_sizes=[64,64]",
    "env.train.total_num_envs=4",
    "env.eval.total_num_envs=16",
    "runner.max_epochs=2",
    "runner.save_interval=1",
    "env.train.init_params.obs_mode=state",
    "algorithm.cloning.load_path=demos",
];

fn train<'a>(recipe: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    ["train", recipe].into_iter().chain(SMALL).chain(more.iter().copied()).collect()
}

/// A script shows how PickCube is done.
fn demonstrations(at: &Path) {
    let words = [
        "-q",
        "collect",
        "pickcube_demos",
        "--episodes",
        "40",
        "env.eval.init_params.obs_mode=state",
        "env.eval.data_collection.save_dir=demos",
        "env.eval.data_collection.target_success=40",
    ];
    succeeds(at, &words);
}

/// What the policy earned before it learned by reward.
fn first_return(run: &Path) -> f64 {
    let found = curve(run).into_iter().find(|((step, name), _)| *step == 0 && name == "eval/return");
    f64::from_bits(found.unwrap().1)
}

#[test]
fn what_was_shown_is_done_before_anything_is_learned_and_cloned_once() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    demonstrations(at);
    let ppo = ["actor.micro_batch_size=100", "actor.global_batch_size=100"];
    let rlpd = ["algorithm.demo_buffer.load_path=demos", "actor.model.num_q_heads=2"];
    for (recipe, own) in [("pickcube_ppo", ppo), ("pickcube_rlpd_env_reward", rlpd)] {
        let run = |name: &str, steps: &str| {
            let (log, steps) =
                (format!("runner.logger.log_path={name}"), format!("algorithm.cloning.steps={steps}"));
            succeeds(at, &train(recipe, &[&own[..], &[&log, &steps]].concat()));
            first_return(&at.join(name))
        };
        let (cloned, untaught) = (format!("{recipe}_cloned"), format!("{recipe}_untaught"));
        let (after, before) = (run(&cloned, "2000"), run(&untaught, "0"));
        assert!(after > before + 4.0, "{recipe}: {before} before, {after} after");

        let resume = format!("runner.resume_dir={cloned}");
        let trained = weights(&at.join(&cloned), 2);
        let words = train(recipe, &[&own[..], &[&resume, "algorithm.cloning.steps=2000"]].concat());
        succeeds(at, &words);
        assert_eq!(weights(&at.join(&cloned), 2), trained, "a finished run has nothing left to do");
    }
}

#[test]
fn what_cannot_be_cloned_is_refused_before_the_first_step() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    demonstrations(at);
    let refuses = |more: &[&str], expected: &str| {
        let stderr =
            refused(at, &train("pickcube_ppo", &[more, &["runner.logger.log_path=made"]].concat()), 2);
        assert!(stderr.contains(expected), "{stderr}");
        assert!(!at.join("made").exists(), "nothing is made");
    };
    refuses(&["algorithm.cloning.load_path=null"], "there is nothing to clone");
    refuses(&["algorithm.cloning.load_path=nowhere"], "nowhere");
    refuses(&["algorithm.cloning.batch_size=0"], "batch_size");
    let joints = ["actor.model.policy_setup=panda-qpos", "actor.model.action_dim=8"];
    refuses(&joints, "its actions have 4 numbers");
}
