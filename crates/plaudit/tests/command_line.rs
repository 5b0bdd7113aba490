//! The program as a person meets it: what it prints, what it says when something is wrong, its exit codes.

use crate::runs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::runs::{command, on_one_line, plaudit};

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Shows a config made of `files` (the first is asked for) and expects a refusal that says all of `says`.
fn refused(files: &[(&str, &str)], overrides: &[&str], says: &[&str]) {
    let directory = tempfile::tempdir().unwrap();
    for (name, content) in files {
        std::fs::write(directory.path().join(name), content).unwrap();
    }
    let mut words = vec!["config", "show", files[0].0];
    words.extend(overrides);
    let began = Instant::now();
    let output = plaudit(directory.path(), &words);
    let message = on_one_line(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{message}");
    for expected in says {
        assert!(message.contains(expected), "`{expected}` is not in: {message}");
    }
    assert!(output.stdout.is_empty());
    assert!(!message.contains("panicked"), "{message}");
    assert!(began.elapsed() < Duration::from_secs(10));
}

#[test]
fn mistakes_in_a_config_are_named_with_file_line_column_and_key() {
    let yaml = "runner:\n  max_epoch: 3\n";
    refused(&[("a.yaml", yaml)], &[], &["a.yaml:2:", "runner.max_epoch", "did you mean `max_epochs`"]);
    let yaml = "runner:\n  max_epochs: many\n";
    refused(&[("a.yaml", yaml)], &[], &["a.yaml:2:15", "runner.max_epochs", "many"]);
    let yaml = "reward:\n  reward_mode: perstep\n";
    refused(&[("a.yaml", yaml)], &[], &["a.yaml:2:16", "reward.reward_mode", "`per_step`", "perstep"]);
    let yaml = "runner:\n  max_epochs: ${runer.max_steps}\n  max_steps: 4\n";
    refused(&[("a.yaml", yaml)], &[], &["a.yaml:2:15", "runer.max_steps", "runner"]);
    let yaml = "runner:\n  max_epochs: ${runner.max_steps}\n  max_steps: ${runner.max_epochs}\n";
    refused(&[("a.yaml", yaml)], &[], &["a.yaml:", "loop", "runner.max_epochs", "runner.max_steps"]);
    let yaml = "runner:\n  resume_dir: ${oc.env:NO_SUCH_VARIABLE}/x\n";
    refused(&[("a.yaml", yaml)], &[], &["a.yaml:2:15", "NO_SUCH_VARIABLE", "not set"]);
    refused(&[("a.yaml", "- 1\n- 2\n")], &[], &["a.yaml:1:1", "mapping"]);
    let yaml = "runner:\n  max_epochs: 1\n  max_epochs: 2\n";
    refused(&[("a.yaml", yaml)], &[], &["a.yaml:3:3", "max_epochs", "twice", "a.yaml:2:3"]);
    refused(&[("a.yaml", "runner: [1, 2\n")], &[], &["a.yaml:", "not valid YAML"]);
    let yaml = "defaults:\n  - model/mlp_polcy@actor.model\n";
    refused(&[("a.yaml", yaml)], &[], &["a.yaml:2:", "model/mlp_polcy", "mlp_policy"]);
}

#[test]
fn bad_overrides_are_named() {
    let file = [("a.yaml", "runner:\n  max_epochs: 1\n")];
    refused(&file, &["runner.max_epochs"], &["runner.max_epochs"]);
    refused(&file, &["runner.max_epochs=[1,2"], &["runner.max_epochs=[1,2"]);
    refused(&file, &["runner.max_epohs=2"], &["runner.max_epohs", "max_epochs"]);
    refused(&file, &["runner.max_epochs=1,2"], &["runner.max_epochs=1,2", "sweep"]);
    refused(&file, &["+runner.max_epochs=2"], &["runner.max_epochs", "++"]);
    refused(&file, &["algorithm.gamma=1.5"], &["algorithm.gamma", "1.5", "0 to 1"]);
}

#[test]
fn a_bomb_of_anchors_is_refused_quickly() {
    let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x]\n");
    for level in 1..12 {
        let before = format!("*a{}", level - 1);
        bomb.push_str(&format!("a{level}: &a{level} [{}]\n", vec![before; 9].join(", ")));
    }
    refused(&[("bomb.yaml", &bomb)], &[], &["bomb.yaml"]);
    let deep = format!("a: {}{}\n", "[".repeat(100_000), "]".repeat(100_000));
    refused(&[("deep.yaml", &deep)], &[], &["deep.yaml"]);
}

#[test]
fn wrong_use_is_refused_with_advice() {
    let directory = tempfile::tempdir().unwrap();
    let check = |words: &[&str], says: &[&str]| {
        let output = plaudit(directory.path(), words);
        let message = on_one_line(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {message}");
        for expected in says {
            assert!(message.contains(expected), "{words:?}: `{expected}` is not in: {message}");
        }
    };
    check(&["config", "show"], &["which config?", "plaudit config list"]);
    check(&["config", "show", "maniskill_ppo_mpl"], &["maniskill_ppo_mpl", "maniskill_ppo_mlp"]);
    check(&["config", "show", "no/such.yaml"], &["no"]);
    check(&["config", "shw"], &["shw", "show"]);
    check(&["eval", "cartpole_random", "env.eval.init_params.id=CartPol-v1"], &["CartPole-v1"]);
    check(&["eval", "cartpole_random", "actor.model.model_type=mlp_policy"], &["mlp_policy", "random"]);
    check(
        &["eval", "cartpole_random", "env.eval.total_num_envs=0"],
        &["env.eval.total_num_envs", "from 1 to 1000000"],
    );
    check(&["config", "list", "--config-path", "nowhere"], &["nowhere"]);
    assert!(!directory.path().join("logs").exists(), "a refused run leaves nothing behind");
}

#[test]
fn every_command_has_help_with_an_example() {
    let directory = tempfile::tempdir().unwrap();
    for words in
        [&["--help"][..], &["config", "show", "--help"], &["config", "list", "--help"], &["eval", "--help"]]
    {
        let output = plaudit(directory.path(), words);
        assert_eq!(output.status.code(), Some(0));
        assert!(text(&output.stdout).contains("Examples:\n  plaudit "), "{words:?}");
    }
    for shell in ["bash", "zsh", "fish"] {
        let output = plaudit(directory.path(), &["completions", shell]);
        assert!(output.status.success() && text(&output.stdout).contains("plaudit"), "{shell}");
    }
}

/// Whatever this machine has: the CPU, every library with its version or why it cannot be used, GPUs or why there are none.
#[test]
fn device_says_what_models_can_compute_on() {
    let directory = tempfile::tempdir().unwrap();
    let output = plaudit(directory.path(), &["device", "--json", "--no-test"]);
    assert_eq!(output.status.code(), Some(0));
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(found["cpu"]["threads"].as_u64().unwrap() > 0 && found["cpu"]["fp32"].is_string());
    let libraries = found["libraries"].as_array().unwrap();
    let names: Vec<_> = libraries.iter().map(|library| library["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["libcuda", "libnvrtc", "libcublasLt"]);
    assert!(libraries.iter().all(|library| library["problem"].is_string() != library["version"].is_string()));
    assert!(!found["gpus"].as_array().unwrap().is_empty() || found["problem"].is_string());
    let page = plaudit(directory.path(), &["device", "--no-test"]);
    assert!(text(&page.stdout).starts_with("CPU") && text(&page.stdout).contains("libnvrtc"));
}

#[test]
fn hydras_own_words_work() {
    let directory = tempfile::tempdir().unwrap();
    let conf = directory.path().join("conf");
    std::fs::create_dir(&conf).unwrap();
    std::fs::write(conf.join("train.yaml"), "lr: 0.1\nname: run_${lr}\n").unwrap();
    let words =
        ["config", "show", "--config-path", "conf", "--config-name", "train", "lr=1e-3", "--composed"];
    let output = plaudit(directory.path(), &words);
    assert_eq!(text(&output.stdout), "lr: 0.001\nname: run_0.001\n", "{}", text(&output.stderr));
}

#[test]
fn notices_are_said_once_and_not_at_all_when_quiet() {
    let directory = tempfile::tempdir().unwrap();
    let yaml = "reward:\n  checkpoint_path: m.pt\nactor:\n  fsdp_config:\n    strategy: fsdp\nweight_syncer:\n  type: patch\n";
    std::fs::write(directory.path().join("a.yaml"), yaml).unwrap();
    let output = plaudit(directory.path(), &["config", "show", "a.yaml"]);
    let said = text(&output.stderr);
    assert_eq!(said.matches("reward.checkpoint_path → reward.model.model_path").count(), 1, "{said}");
    assert_eq!(said.matches("note: keys of RLinf").count(), 1, "{said}");
    assert!(text(&output.stdout).contains("model_path: m.pt"));
    let quiet = plaudit(directory.path(), &["-q", "config", "show", "a.yaml"]);
    assert!(quiet.stderr.is_empty());
    assert_eq!(quiet.stdout, output.stdout);
}

#[test]
fn a_value_says_where_it_comes_from() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("a.yaml"), "runner:\n  max_epochs: 3\n").unwrap();
    let words = ["config", "show", "a.yaml", "runner.max_steps=7", "--origins"];
    let shown = text(&plaudit(directory.path(), &words).stdout);
    let line = |key: &str| on_one_line(shown.lines().find(|line| line.contains(key)).unwrap().as_bytes());
    assert!(line("max_epochs").ends_with("# ./a.yaml:2"), "{shown}");
    assert!(line("max_steps").contains("# command line"), "{shown}");
    assert!(line("save_interval").ends_with("# default"), "{shown}");
}

/// The only run in a folder's `logs`.
fn run_directory(directory: &Path) -> std::path::PathBuf {
    let mut runs: Vec<_> =
        std::fs::read_dir(directory.join("logs")).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(runs.len(), 1);
    runs.remove(0)
}

#[test]
fn an_evaluation_leaves_a_run_directory_behind() {
    let directory = tempfile::tempdir().unwrap();
    let output = plaudit(directory.path(), &["eval", "cartpole_random", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let result: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(result["eval/num_trajectories"], 128.0);
    let mean = result["eval/return"].as_f64().unwrap();
    assert!((15.0..35.0).contains(&mean), "a random policy balances a pole for about 22 steps, not {mean}");
    assert_eq!(result["eval/success_once"], 0.0);
    let run = run_directory(directory.path());
    for file in ["config.yaml", "events.jsonl", "metrics.log", "checkpoints/eval.json"] {
        assert!(run.join(file).is_file(), "{file}");
    }
    assert!(std::fs::read_dir(run.join("tensorboard")).unwrap().count() == 1);
    let plain = text(&output.stderr);
    assert!(!plain.contains('\x1b'), "no colours and no cursor tricks where nobody watches: {plain}");
}

#[test]
fn a_stopped_evaluation_resumes_to_the_same_result() {
    let directory = tempfile::tempdir().unwrap();
    let words =
        ["eval", "cartpole_random", "env.eval.total_num_envs=64", "env.eval.rollout_epoch=4000", "--json"];
    let mut child =
        command(directory.path(), &words).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let saved = || {
        std::fs::read_dir(directory.path().join("logs"))
            .ok()?
            .next()?
            .ok()
            .filter(|run| run.path().join("checkpoints/eval.json").exists())
    };
    let began = Instant::now();
    while saved().is_none() && began.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(5));
    }
    let stopped = Command::new("kill").args([runs::ctrl_c(), &child.id().to_string()]).status().unwrap();
    assert!(stopped.success());
    assert_eq!(child.wait().unwrap().code(), Some(1));
    let run = run_directory(directory.path());
    let state = std::fs::read_to_string(run.join("checkpoints/eval.json")).unwrap();
    let state: serde_json::Value = serde_json::from_str(&state).unwrap();
    let done = state["step"].as_u64().unwrap();
    assert!((1..4000).contains(&done), "{done}");

    let more = format!("env.eval.rollout_epoch={}", done + 3);
    let resume = format!("runner.resume_dir={}", run.strip_prefix(directory.path()).unwrap().display());
    let mut words = vec!["eval", "cartpole_random", "env.eval.total_num_envs=64", &more, "--json"];
    let fresh = plaudit(tempfile::tempdir().unwrap().path(), &words);
    words.push(&resume);
    let resumed = plaudit(directory.path(), &words);
    assert!(resumed.status.success(), "{}", text(&resumed.stderr));
    assert_eq!(text(&resumed.stdout), text(&fresh.stdout));

    let other = plaudit(directory.path(), &["eval", "cartpole_random", "env.eval.seed=5", &more, &resume]);
    assert_eq!(other.status.code(), Some(2));
    assert!(on_one_line(&other.stderr).contains("another config"), "{}", text(&other.stderr));
}
