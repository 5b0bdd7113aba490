//! A reward model of one's own making (an ONNX file, or a function in Python) where one of plaudit's own stands: in `reward eval`,
//! `reward audit`, `train`, `serve` and `check`. docs/own-models.md is about them.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::runs::{command, fresh_classifier, on_one_line, plaudit, refused, succeeds};
use crate::serve::{Serving, frames};

const ONNX_CARD: &str = r#"{"output": "logit", "output_name": "logit", "threshold": 0.5}"#;

/// Episodes to score, a classifier of plaudit's, and the same as an ONNX file of anybody's.
fn with_onnx() -> (tempfile::TempDir, PathBuf) {
    let folder = with_episodes();
    let model = fresh_classifier(folder.path().join("best_model"), &["main_images"], Some(0.5), 3);
    succeeds(
        folder.path(),
        &["reward", "export", "best_model", "--format", "onnx", "--output", "model.onnx"],
    );
    std::fs::write(folder.path().join("model.json"), ONNX_CARD).unwrap();
    (folder, model)
}

fn with_episodes() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let words = [
        "collect",
        "pickcube_scripted",
        "--episodes",
        "6",
        "env.eval.total_num_envs=3",
        "actor.model.noise=0.15",
        "env.eval.ignore_terminations=true",
        "env.eval.max_episode_steps=30",
        "env.eval.init_params.sensor_configs.width=32",
        "env.eval.init_params.sensor_configs.height=32",
        "env.eval.data_collection.save_dir=episodes",
        "runner.logger.log_path=collect",
    ];
    succeeds(folder.path(), &words);
    folder
}

/// A Python with numpy, for functions in it: `PLAUDIT_ORACLE_PYTHON`, or what is called `python3`. Without one, tests of functions end at once.
fn python() -> Option<String> {
    let pythons = std::env::var("PLAUDIT_ORACLE_PYTHON").into_iter().chain(["python3".to_string()]);
    let has_numpy = |python: &String| {
        let mut run = std::process::Command::new(python);
        run.args(["-c", "import numpy"]).output().is_ok_and(|output| output.status.success())
    };
    pythons.into_iter().find(has_numpy)
}

fn json(said: &str) -> Value {
    serde_json::from_str(said).unwrap_or_else(|error| panic!("{error}: {said}"))
}

fn card(folder: &Path, name: &str) -> Value {
    json(&std::fs::read_to_string(folder.join(name)).unwrap())
}

/// The same words for `train`: two environments, one short rollout.
fn train<'a>(model: &'a str, run: &'a str, more: &[&'a str]) -> Vec<String> {
    let words = [
        "train",
        "pickcube_ppo",
        model,
        "runner.max_epochs=1",
        "runner.val_check_interval=-1",
        "env.train.total_num_envs=2",
        "actor.global_batch_size=10",
        "actor.micro_batch_size=10",
        "algorithm.update_epoch=1",
        "reward.use_reward_model=true",
        run,
    ];
    words.iter().chain(more).map(ToString::to_string).collect()
}

fn trained(folder: &Path, words: &[String], run: &str) -> f64 {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    succeeds(folder, &words);
    let events = std::fs::read_to_string(folder.join(run).join("events.jsonl")).unwrap();
    let metrics = events.lines().map(json).filter(|event| event["event"] == "metrics");
    let mut values = metrics.flat_map(|event| event["values"].as_array().unwrap().clone());
    values.find(|pair| pair[0] == "reward/model").unwrap()[1].as_f64().unwrap()
}

#[test]
fn an_onnx_file_is_measured_and_audited_as_the_model_that_it_was() {
    let (folder, _) = with_onnx();
    let here = folder.path();
    let eval = |model: &str| {
        let said = succeeds(here, &["reward", "eval", model, "episodes", "--json", "--threshold", "0.5"]);
        json(&said)["metrics"].clone()
    };
    let (own, onnx) = (eval("best_model"), eval("model.onnx"));
    assert_eq!(own["confusion"], onnx["confusion"]);
    for number in ["log_loss", "auc"] {
        let far =
            own[number].as_f64().zip(onnx[number].as_f64()).map_or(0.0, |(own, onnx)| (own - onnx).abs());
        assert!(far < 1e-3, "{number}: {own} and {onnx}");
    }
    let words = [
        "reward",
        "audit",
        "model.onnx",
        "episodes",
        "--max-fpr",
        "0.9",
        "--stress-frames",
        "1",
        "--output",
        "audit",
    ];
    let output = plaudit(here, &words);
    assert!(matches!(output.status.code(), Some(0 | 3)), "{}", on_one_line(&output.stderr));
    let found = card(here, "audit/audit.json");
    let stored = card(here, "model.json");
    assert_eq!(stored["output_name"], "logit", "what its author wrote stays");
    assert_eq!(stored["temperature"], found["operating"]["temperature"]);
    assert!(here.join("audit/audit.html").is_file());
    // What was stored is what the next one goes by.
    let said = succeeds(here, &["reward", "eval", "model.onnx", "episodes", "--json", "--threshold", "0.5"]);
    assert_ne!(
        json(&said)["metrics"]["log_loss"],
        onnx["log_loss"],
        "at the temperature that the audit stored"
    );
}

#[test]
fn an_onnx_file_rewards_a_policy_as_the_model_that_it_was() {
    let (folder, _) = with_onnx();
    let here = folder.path();
    let own = train("reward.model.model_path=best_model", "runner.logger.log_path=own", &[]);
    let custom = train(
        "reward.model.model_path=model.onnx",
        "runner.logger.log_path=custom",
        &["reward.model.model_type=custom"],
    );
    let (own, custom) = (trained(here, &own, "own"), trained(here, &custom, "custom"));
    assert!((own - custom).abs() < 1e-3 * own.abs().max(1.0), "{own} and {custom}");
    let words = [
        "check",
        "pickcube_ppo_resnet_reward",
        "reward.model.model_type=custom",
        "reward.model.model_path=model.onnx",
    ];
    let output = plaudit(here, &words);
    assert!(!on_one_line(&output.stdout).contains("cannot be opened"), "{}", on_one_line(&output.stdout));
}

#[test]
fn an_onnx_file_is_served_as_the_model_that_it_was() {
    let (folder, _) = with_onnx();
    let pixels = frames(3);
    let scores = |model: &str| {
        let serving = Serving::start(folder.path(), &[model, "--threshold", "0.5"]);
        let (status, found) = serving.score("3,32,32,3", &pixels);
        assert_eq!(status, 200, "{found}");
        let scores = found["scores"].as_array().unwrap_or_else(|| panic!("{found}"));
        scores.iter().map(|score| score.as_f64().unwrap()).collect::<Vec<_>>()
    };
    let (own, onnx) = (scores("best_model"), scores("model.onnx"));
    assert_eq!(own.len(), 3);
    assert!(own.iter().zip(&onnx).all(|(own, onnx)| (own - onnx).abs() < 1e-4), "{own:?} and {onnx:?}");
}

/// The example of the document, and a function that can be told what to do by the first pixel.
fn with_functions(folder: &Path) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    std::fs::copy(root.join("examples/my_reward.py"), folder.join("my_reward.py")).unwrap();
    let broken = "
import os
def raises(images):
    raise RuntimeError('the lamp is out')
def dies(images):
    os._exit(7)
def nonsense(images):
    return [3.0] * len(images)
def short(images):
    return [0.5]
def nothing(images):
    return [float('nan')] * len(images)
";
    std::fs::write(folder.join("broken.py"), broken).unwrap();
}

#[test]
fn the_document_shows_the_example() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let read = |file: &str| std::fs::read_to_string(root.join(file)).unwrap();
    assert!(read("docs/own-models.md").contains(&read("examples/my_reward.py")));
}

#[test]
fn a_function_in_python_is_measured_audited_served_and_rewards() {
    let Some(python) = python() else { return };
    let folder = with_episodes();
    let here = folder.path();
    with_functions(here);
    let flags = ["--python", &python];
    let eval =
        [&["reward", "eval", "my_reward.py:score", "episodes", "--json", "--threshold", "0.5"], &flags[..]]
            .concat();
    let metrics = json(&succeeds(here, &eval))["metrics"].clone();
    assert!(metrics["auc"].is_number(), "{metrics}");
    let audit = [
        "reward",
        "audit",
        "my_reward.py:score",
        "episodes",
        "--max-fpr",
        "0.9",
        "--stress-frames",
        "1",
        "--output",
        "audit",
    ];
    let output = plaudit(here, &[&audit, &flags[..]].concat());
    assert!(matches!(output.status.code(), Some(0 | 3)), "{}", on_one_line(&output.stderr));
    assert!(card(here, "my_reward.score.json")["temperature"].is_number());
    let python_key = format!("reward.model.python={python}");
    let more = ["reward.model.model_type=custom", python_key.as_str()];
    let words = train("reward.model.model_path=my_reward.py:score", "runner.logger.log_path=run", &more);
    let reward = trained(here, &words, "run");
    assert!(reward.is_finite());
    let serving = Serving::start(here, &[&["my_reward.py:score", "--threshold", "0.5"], &flags[..]].concat());
    let mut pixels = vec![0u8; 2 * 32 * 32 * 3];
    pixels[32 * 32 * 3..].chunks_mut(3).for_each(|pixel| pixel[0] = 255);
    let (status, found) = serving.score("2,32,32,3", &pixels);
    assert_eq!(status, 200, "{found}");
    let scores = found["scores"].as_array().unwrap();
    assert!(scores[0].as_f64().unwrap() < 0.1 && scores[1].as_f64().unwrap() > 0.9, "{found}");
}

#[test]
fn what_a_function_does_wrong_is_said_and_ends_nothing_else() {
    let Some(python) = python() else { return };
    let folder = with_episodes();
    let here = folder.path();
    with_functions(here);
    for (function, code, words) in [
        ("broken.py:raises", 1, "RuntimeError: the lamp is out"),
        ("broken.py:dies", 1, "its Python process"),
        ("broken.py:nonsense", 1, "a probability lies from 0 to 1"),
        ("broken.py:short", 1, "one for each is meant"),
        ("broken.py:nothing", 1, "must be a finite number"),
        ("broken.py:absent", 2, "there is no function `absent` in it; there are raises, dies"),
        ("broken.py", 2, "name it, as in broken.py:score"),
        ("nowhere.py:score", 2, "there is no such file"),
    ] {
        let said = refused(here, &["reward", "eval", function, "episodes", "--python", &python], code);
        assert!(said.contains(words), "{function}: {said}");
    }
    let said =
        refused(here, &["reward", "eval", "my_reward.py:score", "episodes", "--python", "no-such-python"], 2);
    assert!(said.contains("choose a Python interpreter that exists"), "{said}");
}

#[test]
fn what_is_asked_of_a_model_of_another_making_and_cannot_be_is_refused() {
    let (folder, _) = with_onnx();
    let here = folder.path();
    let custom = ["reward.model.model_type=custom", "reward.model.model_path=model.onnx"];
    for (words, code, expected) in [
        (
            vec!["reward", "export", "model.onnx", "--format", "onnx", "-o", "x.onnx"],
            2,
            "an ONNX model, and none of plaudit's own",
        ),
        (
            vec!["reward", "eval", "model.onnx", "episodes", "--image-size", "3", "8", "8"],
            2,
            "--image-size means nothing for an ONNX model",
        ),
        (vec!["reward", "eval", "nowhere.onnx", "episodes"], 2, "nowhere.onnx"),
        (
            vec!["train", "pickcube_ppo_resnet_reward", "reward.model.model_path=model.onnx"],
            2,
            "set it to custom",
        ),
        (
            [&["train", "pickcube_ppo_resnet_reward", "reward.online.every=5"][..], &custom].concat(),
            2,
            "a model of one's own making is not trained here",
        ),
        (
            vec!["train", "pickcube_ppo_resnet_reward", custom[0], "reward.model.model_path=best_model"],
            2,
            "neither an ONNX file nor a function",
        ),
    ] {
        let said = refused(here, &words, code);
        assert!(said.contains(expected), "{words:?}: {said}");
    }
    // A card that leaves open what must be known, and one that is wrong.
    for (card, expected) in [
        ("{}", "write `output_name`"),
        (r#"{"output_name": "logit", "threshold": 7}"#, "`threshold` is 7"),
        (r#"{"output_name": "logit", "treshold": 0.5}"#, "unknown field `treshold`"),
    ] {
        std::fs::write(here.join("model.json"), card).unwrap();
        let said = refused(here, &["reward", "eval", "model.onnx", "episodes"], 2);
        assert!(said.contains(expected), "{card}: {said}");
    }
    // Nothing said of the numbers: assumed, and said.
    std::fs::write(here.join("model.json"), r#"{"output_name": "logit"}"#).unwrap();
    let output = command(here, &["reward", "eval", "model.onnx", "episodes"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(on_one_line(&output.stderr).contains("does not say what its numbers mean"));
}
