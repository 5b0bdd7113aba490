//! Loggers in Python get the events of a run: with stand-ins for their packages, which write down what they
//! are given.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::runs::{command, curve, fresh_classifier, on_one_line};

/// What stands for wandb: it writes every call into `calls.jsonl`, in the folder where the run was started.
const WANDB: &str = r#"
import json, os

def note(what, **more):
    with open("calls.jsonl", "a") as file:
        file.write(json.dumps({"what": what, **more}) + "\n")

class Summary:
    def update(self, numbers):
        note("summary", numbers=numbers)

class Run:
    id = "the-run"
    summary = Summary()
    def save(self, path, base_path, policy):
        note("save", file=os.path.relpath(path, base_path))
    def log(self, values, step):
        note("log", values={name: repr(value) for name, value in values.items()}, step=step)
        if os.environ.get("DIES_AT") == str(step):
            os._exit(7)
    def finish(self, exit_code):
        note("finish", exit_code=exit_code)

def init(project, name, id, resume, dir, config):
    if os.environ.get("NO_LOGIN"):
        raise RuntimeError("no API key: log in")
    note("init", project=project, name=name, id=id, seed=config["actor"]["seed"])
    return Run()

def Histogram(values):
    return len(values)

def Image(path):
    return path

def Video(path, format):
    return os.path.basename(path) + " as " + format

def Table(columns, data):
    return columns + [row[0] for row in data]
"#;

const TRAIN: [&str; 7] = [
    "train",
    "cartpole_ppo",
    "runner.max_epochs=3",
    "env.train.total_num_envs=8",
    "env.eval.total_num_envs=4",
    "runner.logger.logger_backends=[tensorboard,wandb]",
    "runner.logger.project_name=mine",
];

fn has_python() -> bool {
    let found = Command::new("python3").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    found.is_ok_and(|status| status.success())
}

/// A training in a folder with the stand-in.
fn train(folder: &Path, words: &[&str], variable: Option<(&str, &str)>) -> (Option<i32>, String) {
    std::fs::create_dir_all(folder.join("packages")).unwrap();
    std::fs::write(folder.join("packages/wandb.py"), WANDB).unwrap();
    let mut command = command(folder, &[&TRAIN, words].concat());
    command.env("PYTHONPATH", "packages").envs(variable);
    let output = command.output().unwrap();
    (output.status.code(), on_one_line(&output.stderr))
}

fn calls(folder: &Path) -> Vec<serde_json::Value> {
    let text = std::fs::read_to_string(folder.join("calls.jsonl")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_logger_gets_every_number_and_the_end() {
    if !has_python() {
        return println!("skipped: there is no python3");
    }
    let folder = tempfile::tempdir().unwrap();
    let (code, said) = train(folder.path(), &["runner.logger.log_path=run"], None);
    assert_eq!(code, Some(0), "{said}");
    let calls_made = calls(folder.path());
    assert_eq!(calls_made[0]["project"], "mine");
    assert_eq!((&calls_made[0]["name"], &calls_made[0]["id"]), (&"run".into(), &serde_json::Value::Null));
    assert_eq!(calls_made[0]["seed"], 1234);
    assert_eq!(calls_made.last().unwrap(), &serde_json::json!({"what": "finish", "exit_code": 0}));
    let curve = curve(&folder.path().join("run"));
    assert!(curve.len() > 30);
    for ((step, name), bits) in &curve {
        let value = f64::from_bits(*bits);
        let is_there = calls_made.iter().any(|call| {
            call["step"] == *step
                && call["values"][name].as_str().is_some_and(|text| text.parse::<f64>() == Ok(value))
        });
        assert!(is_there, "{name} at {step}: {value}");
    }
    goes_on(folder.path());
}

/// A run that goes on is the same run there, and what was sent is not sent again.
fn goes_on(folder: &Path) {
    let before = calls(folder).len();
    let words = ["runner.max_epochs=5", "runner.resume_dir=run"];
    let (code, said) = train(folder, &words, None);
    assert_eq!(code, Some(0), "{said}");
    let new = &calls(folder)[before..];
    assert_eq!(new[0]["id"], "the-run");
    let steps: Vec<u64> = new.iter().filter_map(|call| call["step"].as_u64()).collect();
    assert!(steps.iter().all(|step| *step > 3) && steps.contains(&5), "{steps:?}");
}

#[test]
fn a_logger_that_is_missing_or_cannot_begin_is_refused_and_one_that_dies_stops_no_run() {
    if !has_python() {
        return println!("skipped: there is no python3");
    }
    let folder = tempfile::tempdir().unwrap();
    let words = ["runner.logger.logger_backends=[mlflow]", "runner.logger.log_path=run"];
    let (code, said) = train(folder.path(), &[&words[..], &["runner.logger.python=nopython"]].concat(), None);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("cannot start nopython") && said.contains("runner.logger.python"), "{said}");
    assert!(!folder.path().join("run").exists(), "nothing is made");

    let (code, said) = train(folder.path(), &["runner.logger.log_path=a"], Some(("NO_LOGIN", "1")));
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("no API key: log in") && said.contains("WANDB_MODE=offline"), "{said}");

    let (code, said) = train(folder.path(), &["runner.logger.log_path=b"], Some(("DIES_AT", "2")));
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("wandb") && said.contains("b/loggers/wandb.txt"), "{said}");
    assert!(curve(&folder.path().join("b")).keys().any(|(step, _)| *step == 3));
}

/// An audit as one leaves it beside a model.
const AUDIT: &str = r#"{
    "passed": true, "episodes": 40, "auc": {"value": 0.98}, "operating": {"threshold": 0.75, "alarms": {"bound": 0.04}},
    "verdict": {"findings": [{"severity": "note", "code": "a", "what": "b", "hint": "c"}]}
}"#;

#[test]
fn a_logger_gets_videos_and_the_audit_of_the_model_that_rewards() {
    if !has_python() {
        return println!("skipped: there is no python3");
    }
    let folder = tempfile::tempdir().unwrap();
    let model = folder.path().join("model");
    fresh_classifier(model.clone(), &["main_images"], Some(0.5), 1);
    std::fs::write(model.join("model.audit.json"), AUDIT).unwrap();
    std::fs::create_dir_all(folder.path().join("packages")).unwrap();
    std::fs::write(folder.path().join("packages/wandb.py"), WANDB).unwrap();
    let words = [
        "train",
        "pickcube_ppo",
        "reward.use_reward_model=true",
        "reward.model.model_path=model",
        "reward.model.image_size=[3,32,32]",
        "runner.max_epochs=1",
        "runner.val_check_interval=1",
        "env.train.total_num_envs=2",
        "env.eval.total_num_envs=1",
        "env.eval.video_cfg.save_video=true",
        "actor.global_batch_size=10",
        "actor.micro_batch_size=10",
        "algorithm.update_epoch=1",
        "runner.logger.logger_backends=[wandb]",
        "runner.logger.log_path=run",
    ];
    let output = command(folder.path(), &words).env("PYTHONPATH", "packages").output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", on_one_line(&output.stderr));
    let calls = calls(folder.path());
    let numbers = calls.iter().find(|call| call["what"] == "summary").map(|call| &call["numbers"]).unwrap();
    assert_eq!((&numbers["audit/passed"], &numbers["audit/threshold"]), (&1.0.into(), &0.75.into()));
    assert!(calls.iter().any(|call| call["file"] == "model.audit.json"));
    let logged = |name: &str| calls.iter().any(|call| call["values"].to_string().contains(name));
    assert!(logged("audit/findings") && logged(".mp4 as mp4"), "{calls:?}");
    assert_eq!(calls.last().unwrap()["what"], "finish");
}
