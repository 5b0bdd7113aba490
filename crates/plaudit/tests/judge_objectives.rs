//! Judges that are tuned for progress, success and preference: windows of each kind, one judge of all, and what it is asked later.

use std::path::Path;

use crate::runs::{plaudit, refused, succeeds};
use serde_json::{Value, json};

/// A model small enough to learn in seconds.
const SMALL: &str = "
defaults: [pickcube_trend_sft, _self_]
runner: {max_steps: 4, val_check_interval: 4, save_interval: -1}
actor:
  micro_batch_size: 4
  global_batch_size: 8
  model:
    text_config: {hidden_size: 32, num_hidden_layers: 1, num_attention_heads: 1, num_key_value_heads: 1, intermediate_size: 64}
    vision_config: {hidden_size: 32, depth: 1, num_heads: 1, intermediate_size: 64, num_position_embeddings: 16}
  optim: {lr_warmup_steps: 1}
";

/// PickCube, rewarded by how far a judge says it is.
const REWARDED: &str = "
env:
  train:
    env_type: embedded
    total_num_envs: 2
    max_episode_steps: 8
    max_steps_per_rollout_epoch: 8
    init_params: {id: PickCube-v1, sensor_configs: {width: 32, height: 32}}
actor:
  micro_batch_size: 16
  global_batch_size: 16
  model: {model_type: mlp_policy, add_value_head: true, obs_dim: 42, action_dim: 8}
algorithm: {loss_type: actor_critic, adv_type: gae, gamma: 0.9, update_epoch: 1}
runner: {max_epochs: 1, save_interval: -1, val_check_interval: -1, logger: {log_path: rewarded}}
reward:
  use_reward_model: true
  reward_mode: history_buffer
  model:
    model_type: buffered_vlm
    model_path: judge
    readout: progress
    input_builder_params: {video_keys: [main_images]}
    history_buffers:
      history_window: {history_size: 50, min_history_size: 2, input_interval: 1, history_keys: [main_images]}
";

fn lines(manifest: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(manifest).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Windows of every kind, from twelve episodes of which some are solved.
fn windows(at: &Path) {
    let collect = [
        "collect",
        "pickcube_scripted",
        "-q",
        "--episodes",
        "12",
        "env.eval.total_num_envs=12",
        "actor.model.noise=0.2",
        "env.eval.init_params.sensor_configs={width:32,height:32}",
        "env.eval.data_collection.save_dir=episodes",
    ];
    succeeds(at, &collect);
    for objective in ["progress", "success", "preference", "trend"] {
        let words = [
            "dataset",
            "windows",
            "-q",
            "--raw-data-path",
            "episodes",
            "--output-dir",
            objective,
            "--objective",
            objective,
            "--window-size",
            "4",
            "--stride",
            "3",
            "--extra-views",
            "none",
            "--val-split",
            "0.25",
        ];
        succeeds(at, &words);
    }
}

#[test]
fn a_judge_learns_progress_success_and_preference_together() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    windows(at);
    let row = |objective: &str| lines(&at.join(objective).join("train/segments.jsonl"))[0].clone();
    assert_eq!(row("trend")["objective"], Value::Null, "RLinf's lines are as they were");
    for (objective, asks) in
        [("progress", "exactly one digit"), ("success", "yes or no"), ("preference", "first or second")]
    {
        let row = row(objective);
        assert_eq!(
            (&row["objective"], &row["segment_metadata"]["window_size"]),
            (&json!(objective), &json!(4))
        );
        assert!(row["prompt"].as_str().unwrap().contains(asks), "{row}");
    }
    // The digit grows with the share of the way to success.
    let mut digits: Vec<(u64, u64)> = lines(&at.join("progress/train/segments.jsonl"))
        .iter()
        .map(|row| {
            (
                row["segment_metadata"]["end_step"].as_u64().unwrap(),
                row["answer"].as_str().unwrap().parse().unwrap(),
            )
        })
        .collect();
    digits.sort_unstable();
    assert!(digits.first().unwrap().1 <= 2 && digits.last().unwrap().1 == 9, "{digits:?}");

    std::fs::write(at.join("small.yaml"), SMALL).unwrap();
    let manifests = |part: &str| {
        let all = ["progress", "success", "preference"].map(|name| format!("{name}/{part}/segments.jsonl"));
        format!("[{}]", all.join(","))
    };
    let learned: Value = serde_json::from_str(&succeeds(
        at,
        &[
            "reward",
            "sft",
            "small.yaml",
            "--json",
            "-q",
            "runner.logger.log_path=judge",
            "data.dataset_name=simple_vlm_trend_reward_sft",
            &format!("data.train_data_paths={}", manifests("train")),
            &format!("data.val_data_paths={}", manifests("eval")),
        ],
    ))
    .unwrap();
    let objectives = learned["metrics"]["objectives"].as_array().unwrap();
    let names: Vec<&str> = objectives.iter().map(|found| found["objective"].as_str().unwrap()).collect();
    assert_eq!(names, ["progress", "success", "preference"]);
    assert_eq!(objectives[0]["confusion"].as_array().unwrap().len(), 10);
    assert!((0.0..=1.0).contains(&objectives[0]["mean_error"].as_f64().unwrap()), "{learned}");
    let card = at.join("judge/checkpoints/best_model/plaudit_judge.json");
    let card: Value = serde_json::from_slice(&std::fs::read(card).unwrap()).unwrap();
    assert_eq!(card["objectives"], json!(names));
    assert_eq!((&card["window"]["frames"], &card["window"]["cameras"]), (&json!(4), &json!(1)));

    // It is asked so ever after.
    let task = "Pick up the red cube and move it to the green goal.";
    for readout in ["progress", "success"] {
        let words = [
            "reward",
            "eval",
            "judge",
            "episodes",
            "--json",
            "-q",
            "--task",
            task,
            "--points",
            "3",
            "--readout",
            readout,
        ];
        let found: Value = serde_json::from_str(&succeeds(at, &words)).unwrap();
        assert_eq!((&found["episodes"], &found["unread"]), (&json!(12), &json!(0)), "{found}");
        assert!(found["progress"]["voc"]["value"].is_number(), "{found}");
    }
    let words =
        ["reward", "eval", "judge", "episodes", "--json", "-q", "--task", task, "--readout", "preference"];
    let found: Value = serde_json::from_str(&succeeds(at, &words)).unwrap();
    assert!((0.0..=1.0).contains(&found["prefers_solved"]["value"].as_f64().unwrap()), "{found}");
    std::fs::write(at.join("mine.yaml"), REWARDED).unwrap();
    let numbers: Value =
        serde_json::from_str(&succeeds(at, &["train", "mine.yaml", "--json", "-q"])).unwrap();
    let reward = numbers["reward/model"].as_f64().unwrap();
    assert!(reward > 0.0 && reward < 1.0, "{numbers}");
}

#[test]
fn what_cannot_be_asked_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let collect = |noise: &str, into: &str| {
        let words = [
            "collect",
            "pickcube_scripted",
            "-q",
            "--episodes",
            "4",
            "env.eval.total_num_envs=4",
            noise,
            "env.eval.init_params.sensor_configs={width:32,height:32}",
            into,
        ];
        succeeds(at, &words);
    };
    collect("actor.model.noise=3", "env.eval.data_collection.save_dir=failures");
    let cut = |objective: &str, more: &[&str]| {
        let words = [
            "dataset",
            "windows",
            "--raw-data-path",
            "failures",
            "--output-dir",
            "w",
            "--objective",
            objective,
        ];
        [&words[..], more].concat().iter().map(ToString::to_string).collect::<Vec<String>>()
    };
    let refuses = |words: Vec<String>, code: i32, expected: &str| {
        let said = refused(at, &words.iter().map(String::as_str).collect::<Vec<_>>(), code);
        assert!(said.contains(expected), "{said}");
    };
    refuses(cut("progress", &["--extra-views", "none"]), 1, "no question about progress can be asked");
    refuses(cut("preference", &[]), 2, "compared by the main view alone");
    let output = plaudit(at, &["dataset", "windows", "--raw-data-path", "failures", "--objective", "mood"]);
    assert_eq!(output.status.code(), Some(2));
    // Windows of one kind are no windows of another.
    succeeds(
        at,
        &cut("trend", &["-q", "--extra-views", "none", "--val-split", "0.25"])
            .iter()
            .map(String::as_str)
            .collect::<Vec<_>>(),
    );
    let manifest = at.join("w/eval/segments.jsonl");
    let changed = std::fs::read_to_string(&manifest)
        .unwrap()
        .replace("\"task\"", "\"objective\": \"success\", \"task\"");
    std::fs::write(&manifest, changed).unwrap();
    let vlm = Path::new(env!("CARGO_MANIFEST_DIR")).join("../nn/tests/qwen3_vl/model");
    let said = crate::runs::on_one_line(
        &plaudit(at, &["reward", "eval", vlm.to_str().unwrap(), "w", "--main-view"]).stderr,
    );
    assert!(said.contains("asks for success, where windows for trend are needed"), "{said}");
}
