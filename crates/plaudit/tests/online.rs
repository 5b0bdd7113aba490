//! Reward models that learn while a policy does, and models of progress, as a person meets them.

use std::path::Path;
use std::process::Stdio;

use crate::runs::{command, curve, plaudit, refused, succeeds, wait_for};

/// Scripted episodes of 32 pixels, some of which succeed, and a model that learned from them.
fn model(here: &Path, kind: &str) {
    episodes(here);
    model_of_episodes(here, kind, "model", "data.guards=[]");
}

fn episodes(here: &Path) {
    succeeds(
        here,
        &[
            "collect",
            "pickcube_demos",
            "--episodes",
            "10",
            "env.eval.total_num_envs=10",
            "env.eval.data_collection.only_success=false",
            "env.eval.data_collection.save_dir=episodes",
            "env.eval.init_params.sensor_configs={width: 32, height: 32}",
            "actor.model.noise=0.05",
        ],
    );
}

fn model_of_episodes(here: &Path, kind: &str, run: &str, guards: &str) {
    let run = format!("runner.logger.log_path={run}");
    let (recipe, steps) = match kind {
        "progress" => ("reward_training_progress", "runner.max_steps=80"),
        _ => ("reward_training", "runner.max_steps=30"),
    };
    succeeds(
        here,
        &[
            "reward",
            "train",
            recipe,
            "data.data_path=episodes",
            "data.num_samples_per_episode=0",
            "data.augment={shift: 0, crop: 0, brightness: 0, contrast: 0}",
            "actor.model.arch=resnet10",
            "actor.model.hidden_dim=16",
            "actor.model.image_size=[3,32,32]",
            "actor.optim.lr=3e-3",
            steps,
            "runner.val_check_interval=15",
            guards,
            &run,
        ],
    );
}

/// A short run whose model learns after every update.
fn learning<'a>(more: &[&'a str]) -> Vec<&'a str> {
    let words = [
        "train",
        "pickcube_ppo",
        "env.train.total_num_envs=12",
        "env.train.max_episode_steps=6",
        "env.train.max_steps_per_rollout_epoch=12",
        "env.train.ignore_terminations=true",
        "env.train.init_params.sensor_configs={width: 32, height: 32}",
        "runner.max_epochs=4",
        "runner.max_steps=-1",
        "runner.val_check_interval=-1",
        "runner.save_interval=1",
        "actor.model.hidden_sizes=[16,16]",
        "actor.micro_batch_size=36",
        "actor.global_batch_size=36",
        "reward.use_reward_model=true",
        "reward.reward_mode=terminal",
        "reward.model.model_path=model",
        "reward.online.every=1",
        "reward.online.steps=2",
        "reward.online.batch_size=4",
        "reward.online.min_frames=12",
        "reward.online.auc_margin=0.5",
        "data.num_samples_per_episode=0",
    ];
    words.into_iter().chain(more.iter().copied()).collect()
}

/// Killed without warning after its first checkpoint, the run goes on to the same policy and the same reward model.
#[test]
fn a_killed_run_goes_on_to_the_same_policy_and_the_same_model() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    model(here, "resnet");
    let output = plaudit(here, &learning(&["runner.logger.log_path=whole"]));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    assert!(said.contains("of the reward model, on") && said.contains("rewards from now on"), "{said}");

    let mut child = command(here, &learning(&["runner.logger.log_path=killed"]))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_for(&here.join("killed/checkpoints/global_step_1"));
    child.kill().unwrap();
    child.wait().unwrap();
    succeeds(here, &learning(&["runner.resume_dir=killed"]));
    assert_eq!(curve(&here.join("killed")), curve(&here.join("whole")));
    for file in ["actor/model.safetensors", "reward_model/training.safetensors"] {
        let read =
            |run: &str| std::fs::read(here.join(run).join("checkpoints/global_step_4").join(file)).unwrap();
        assert!(read("whole") == read("killed"), "{file}");
    }
    // What it became can be measured like any other model.
    let page =
        succeeds(here, &["reward", "eval", "whole/checkpoints/global_step_4/reward_model", "episodes"]);
    assert!(page.contains("value-order correlation"), "{page}");
}

/// A model that leaves conditions to the state learns from the policy's frames in which they hold, and from no others.
#[test]
fn a_model_with_conditions_learns_from_frames_in_which_they_hold() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    episodes(here);
    // Nothing moves so fast; and no cube is lifted within six steps.
    model_of_episodes(here, "resnet", "slow", "data.guards=[\"abs(state[9:16])<=100\"]");
    model_of_episodes(here, "resnet", "lifted", "data.guards=[\"state[31]>0.05\"]");
    let learned_from = |model: &str| -> (Vec<usize>, String) {
        let (path, run) =
            (format!("reward.model.model_path={model}"), format!("runner.logger.log_path={model}_run"));
        let more = ["runner.max_epochs=2", "env.train.use_full_state=true", &path, &run];
        let output = plaudit(here, &learning(&more));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}");
        let frames =
            said.lines().filter_map(|line| line.split_once(" of the reward model, on ")?.1.split(' ').next());
        (frames.map(|count| count.parse().unwrap()).collect(), said)
    };
    let (slow, said) = learned_from("slow");
    assert_eq!(slow, [24, 48], "the last frames of 12 environments, two episodes each: {said}");
    let (lifted, said) = learned_from("lifted");
    assert!(lifted.is_empty(), "no frame is its concern: {said}");
}

/// A model of progress learns from demonstrations, says how well it orders frames, and can be a potential or a term.
#[test]
fn a_model_of_progress_is_trained_measured_and_used() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    model(here, "progress");
    let said = succeeds(here, &["reward", "eval", "model", "episodes", "--json"]);
    let said: serde_json::Value = serde_json::from_str(&said).unwrap();
    let voc = said["progress"]["voc"].as_f64().unwrap();
    assert!(voc > 0.5, "even a small one knows early from late: {voc}");
    let audit = plaudit(here, &["reward", "audit", "model", "episodes", "--no-store", "--json"]);
    let audit: serde_json::Value = serde_json::from_slice(&audit.stdout).unwrap();
    assert!(audit["progress"]["kendall"].is_number() && audit["calibration"]["temperature"].is_null());

    let as_potential =
        ["reward.model.model_type=progress", "reward.reward_mode=potential", "reward.model.caution=1"];
    let more = ["runner.max_epochs=1", "reward.online.every=0", "runner.logger.log_path=run"];
    succeeds(here, &learning(&[&as_potential[..], &more].concat()));
    let said = refused(here, &learning(&["runner.logger.log_path=other"]), 2);
    assert!(said.contains("is a progress model") && said.contains("set it to progress"), "{said}");
}

#[test]
fn what_cannot_learn_online_is_refused_before_anything_runs() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let cases: [(&[&str], &[&str]); 5] = [
        (&["reward.reload_model=true"], &["reward.reload_model", "cannot follow its file"]),
        (&["reward.worker_type=api"], &["reward.online.every", "on a server"]),
        (&["reward.model.model_type=vlm"], &["reward.online.every", "vision-language"]),
        (&["reward.online.min_frames=2000"], &["reward.online.min_frames", "no round would begin"]),
        (&["reward.online.policy_frames=positive"], &["reward.online.policy_frames", "unlabelled"]),
    ];
    for (more, expected) in cases {
        let said = refused(here, &learning(more), 2);
        assert!(expected.iter().all(|words| said.contains(words)), "{more:?}: {said}");
    }
}
