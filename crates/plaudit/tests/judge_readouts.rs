//! Vision-language models that are read in ways of one's own: on episodes, and as rewards.

use std::path::{Path, PathBuf};

use crate::runs::{plaudit, refused, succeeds};
use serde_json::Value;

/// The tiny vision-language model of the fixtures; its weights are random.
fn tiny_vlm() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../nn/tests/qwen3_vl/model")
}

const TASK: &str = "Pick up the red cube.";

#[test]
fn episodes_are_measured_by_every_readout() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    succeeds(
        at,
        &[
            "collect",
            "pickcube_scripted",
            "-q",
            "--episodes",
            "8",
            "env.eval.total_num_envs=8",
            "actor.model.noise=0.25",
            "env.eval.init_params.sensor_configs={width:32,height:32}",
            "env.eval.data_collection.save_dir=episodes",
        ],
    );
    let vlm = tiny_vlm();
    let eval = |words: &[&str]| -> Value {
        let words = [
            &["reward", "eval", vlm.to_str().unwrap(), "episodes", "--json", "-q", "--task", TASK][..],
            words,
        ]
        .concat();
        serde_json::from_str(&succeeds(at, &words)).unwrap()
    };
    let prompt = "Is this done: {task} Answer yes or no.";
    let yes_no = ["--readout", "words", "--prompt", prompt, "--words", "yes,no"];
    for (name, words) in [
        ("topreward", &["--readout", "topreward", "--points", "4"][..]),
        ("words", &[&yes_no[..], &["--points", "4", "--max-frames", "4"]].concat()),
        ("odds", &[&yes_no[..], &["--word-measure", "log-odds", "--points", "3"]].concat()),
        (
            "score",
            &[&yes_no[..], &["--word-measure", "expected-score", "--word-values", "10,-10", "--points", "3"]]
                .concat(),
        ),
        ("trend", &["--readout", "trend"]),
    ] {
        let found = eval(&[words, &["-o", name]].concat());
        assert_eq!((&found["episodes"], &found["unread"]), (&8.into(), &0.into()), "{name}: {found}");
        assert!(found["seconds_per_question"].as_f64().unwrap() > 0.0);
        let table = std::fs::read_to_string(at.join(name).join("episodes.csv")).unwrap();
        let values: Vec<f64> =
            table.lines().skip(1).map(|line| line.split(',').nth(2).unwrap().parse().unwrap()).collect();
        assert!(values.len() >= 8 && values.iter().any(|value| *value != values[0]), "{name}: {table}");
        let within: fn(f64) -> bool = match name {
            "topreward" => |value| value < 0.0,
            "words" => |value| (0.0..=1.0).contains(&value),
            "score" => |value| (-10.0..=10.0).contains(&value),
            _ => f64::is_finite,
        };
        assert!(values.iter().all(|value| within(*value)), "{name}: {values:?}");
        // Some are solved: correlations exist, and lie in their intervals.
        let voc = &found["progress"]["voc"];
        let number = |key: &str| voc[key].as_f64().unwrap();
        assert!(number("low") <= number("value") && number("value") <= number("high"), "{found}");
    }
    // A random model says no percentages; that is counted, and no number is made up.
    let found = eval(&["--readout", "gvl", "--points", "2"]);
    assert_eq!(found["unread"], 16, "{found}");
    assert!(found["progress"]["voc"].is_null());
    let found = eval(&["--readout", "preference", "--max-frames", "2"]);
    assert!(found["pairs"].as_u64().unwrap() >= 4, "{found}");
    let share = found["prefers_solved"]["value"].as_f64().unwrap();
    assert!((0.0..=1.0).contains(&share));
    let page = succeeds(
        at,
        &[
            "reward",
            "eval",
            vlm.to_str().unwrap(),
            "episodes",
            "-q",
            "--task",
            TASK,
            "--readout",
            "topreward",
        ],
    );
    assert!(page.contains("value order (VOC)") && page.contains("ms per question"), "{page}");

    // All of them in one table; each number is that of the readout alone.
    let all = eval(
        &[&["--readout", "all", "--points", "2", "--max-frames", "2", "-o", "all"][..], &yes_no[2..]]
            .concat(),
    );
    let readouts = all["readouts"].as_array().unwrap();
    let names: Vec<&str> = readouts.iter().map(|one| one["readout"].as_str().unwrap()).collect();
    assert_eq!(names, ["trend", "progress", "success", "preference", "words", "topreward", "gvl"]);
    for one in readouts {
        let name = one["readout"].as_str().unwrap();
        assert!(at.join("all").join(name).join("episodes.csv").is_file(), "{name}");
        if ["words", "topreward", "preference"].contains(&name) {
            let words: &[&str] = if name == "words" { &yes_no } else { &["--readout", name] };
            let alone = eval(&[words, &["--points", "2", "--max-frames", "2"]].concat());
            assert_eq!(
                (&alone["progress"], &alone["prefers_solved"]),
                (&one["progress"], &one["prefers_solved"])
            );
        }
    }
    let two = ["reward", "eval", vlm.to_str().unwrap(), "episodes", "-q", "--task", TASK, "--readout"];
    let page = succeeds(at, &[&two[..], &["success,topreward", "--points", "2"]].concat());
    let rows: Vec<&str> = page.lines().map(|line| line.split_whitespace().next().unwrap()).collect();
    assert_eq!(rows, ["8", "readout", "success", "topreward", "written"], "{page}");

    let refuses = |words: &[&str], expected: &str| {
        let words = [&["reward", "eval", vlm.to_str().unwrap(), "episodes"][..], words].concat();
        let said = refused(at, &words, 2);
        assert!(said.contains(expected), "{words:?}: {said}");
    };
    refuses(&["--readout", "topreward"], "nobody says which");
    refuses(&["--readout", "words", "--task", TASK], "needs --prompt and --words");
    refuses(&["--readout", "gvl", "--task", TASK, "--words", "a,b"], "are for --readout words");
    refuses(
        &["--readout", "words", "--task", TASK, "--prompt", "x", "--words", "yes"],
        "1 words are too few",
    );
    let score = [
        "--readout",
        "words",
        "--task",
        TASK,
        "--prompt",
        "x",
        "--words",
        "yes,no",
        "--word-measure",
        "expected-score",
    ];
    refuses(&score, "0 values for 2 words");
}

#[test]
fn words_of_ones_own_reward_a_policy() {
    let folder = tempfile::tempdir().unwrap();
    let config = format!(
        "
env:
  train:
    env_type: embedded
    total_num_envs: 2
    max_episode_steps: 6
    max_steps_per_rollout_epoch: 6
    init_params: {{id: PickCube-v1, sensor_configs: {{width: 32, height: 32}}}}
actor:
  micro_batch_size: 12
  global_batch_size: 12
  model: {{model_type: mlp_policy, add_value_head: true, obs_dim: 42, action_dim: 8}}
algorithm: {{loss_type: actor_critic, adv_type: gae, gamma: 0.9, update_epoch: 1}}
runner: {{max_epochs: 1, save_interval: -1, val_check_interval: -1, logger: {{log_path: run}}}}
reward:
  use_reward_model: true
  reward_mode: history_buffer
  model:
    model_type: buffered_vlm
    model_path: {}
    input_builder_params: {{video_keys: [main_images], default_task_description: Pick up the cube.}}
    history_buffers:
      history_window: {{history_size: 6, min_history_size: 2, input_interval: 1, history_keys: [main_images]}}
",
        tiny_vlm().display()
    );
    std::fs::write(folder.path().join("mine.yaml"), config).unwrap();
    let reward = |name: &str, words: &[&str]| {
        let run = format!("runner.logger.log_path={name}");
        let words = [&["train", "mine.yaml", "--json", "-q", &run][..], words].concat();
        let numbers: Value = serde_json::from_str(&succeeds(folder.path(), &words)).unwrap();
        numbers["reward/model"].as_f64().unwrap_or_else(|| panic!("{numbers}"))
    };
    let asks = [
        "reward.model.readout=words",
        "reward.model.input_builder_params.prompt='Is it done: {task} Answer yes or no.'",
        "reward.model.words=[yes,no]",
    ];
    let probability = reward("probability", &asks);
    assert!((0.0..1.0).contains(&probability), "{probability}");
    let odds = reward("odds", &[&asks[..], &["reward.model.word_measure=log_odds"]].concat());
    assert!(odds != probability);
    let topreward = reward("topreward", &["reward.model.readout=topreward"]);
    assert!(topreward < 0.0, "{topreward}");
    reward("potential", &["reward.model.readout=topreward", "reward.reward_mode=potential"]);
    let refuses = |words: &[&str], expected: &str| {
        let output = plaudit(folder.path(), &[&["train", "mine.yaml"], words].concat());
        let said = crate::runs::on_one_line(&output.stderr);
        assert!(!output.status.success() && said.contains(expected), "{said}");
    };
    refuses(&["reward.model.words=[yes,no]"], "answers are not read by them");
    refuses(&["reward.model.readout=words", "reward.model.words=[yes,no]"], "nobody asks for them");
    refuses(&[asks[0], asks[1], "reward.model.words=[yes]"], "1 words are too few");
    refuses(&[asks[0], asks[1], asks[2], "reward.model.word_measure=expected_score"], "0 values for 2 words");
}
