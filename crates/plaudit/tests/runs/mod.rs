//! Runs of `plaudit` as tests start, kill and read them.

#![allow(dead_code)] // not every test needs all of it

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use plaudit_nn::Weights;
use plaudit_nn::classifier::{AdamW, Arch, ClassifierSettings, Trainer};
use plaudit_reward::card::ModelCard;

pub(crate) fn command(directory: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_plaudit"));
    command.args(words).current_dir(directory).stdin(Stdio::null());
    command
}

pub(crate) fn plaudit(directory: &Path, words: &[&str]) -> Output {
    command(directory, words).output().unwrap()
}

pub(crate) fn succeeds(directory: &Path, words: &[&str]) -> String {
    let output = plaudit(directory, words);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

/// What was said, without the line breaks and bars that the width of a terminal puts in.
pub(crate) fn on_one_line(said: &[u8]) -> String {
    let text = String::from_utf8_lossy(said).replace(['│', '×'], " ");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// What a refused command says, on one line.
pub(crate) fn refused(directory: &Path, words: &[&str], code: i32) -> String {
    let output = plaudit(directory, words);
    let said = on_one_line(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{said}");
    assert!(!said.contains("panicked"), "{said}");
    said
}

/// Every number of a run by step and name, but for times and memory. A step that was run twice must have logged the same.
pub(crate) fn curve(run: &Path) -> BTreeMap<(u64, String), u64> {
    let mut curve = BTreeMap::new();
    for line in std::fs::read_to_string(run.join("events.jsonl")).unwrap().lines() {
        let event: serde_json::Value = serde_json::from_str(line).unwrap();
        if event["event"] != "metrics" {
            continue;
        }
        let step = event["step"].as_u64().unwrap();
        for pair in event["values"].as_array().unwrap() {
            let (name, value) = (pair[0].as_str().unwrap(), pair[1].as_f64().unwrap().to_bits());
            if !name.starts_with("time/") && !name.starts_with("memory/") {
                let before = curve.insert((step, name.to_string()), value);
                assert!(
                    before.is_none_or(|before| before == value),
                    "{name} at step {step} is logged differently"
                );
            }
        }
    }
    curve
}

/// A classifier of 32 pixels with fresh weights, as a training run leaves it behind: its probabilities are neither 0 nor 1.
pub(crate) fn fresh_classifier(place: PathBuf, views: &[&str], threshold: Option<f64>, seed: u64) -> PathBuf {
    let settings = ClassifierSettings {
        arch: Arch::Resnet10,
        hidden_dim: Some(256),
        image_size: [3, 32, 32],
        image_keys: views.iter().map(ToString::to_string).collect(),
        ..ClassifierSettings::default()
    };
    let weights = Trainer::new(&settings, AdamW::default(), seed).unwrap().weights().unwrap();
    std::fs::create_dir_all(&place).unwrap();
    ModelCard { threshold, ..ModelCard::of(settings) }.write(&weights, &place).unwrap();
    place
}

pub(crate) fn wait_for(path: &Path) {
    let began = Instant::now();
    while !path.exists() {
        assert!(began.elapsed() < Duration::from_secs(60), "{} does not appear", path.display());
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A run that is killed once a step is saved, and resumed, leaves what one leaves that was not. `words` start it, with the
/// key that says where.
pub(crate) fn survives_a_kill<'a>(at: &Path, saved: u64, last: u64, words: impl Fn(&'a str) -> Vec<&'a str>) {
    succeeds(at, &words("runner.logger.log_path=whole"));
    let mut child = command(at, &words("runner.logger.log_path=killed")).spawn().unwrap();
    wait_for(&at.join(format!("killed/checkpoints/global_step_{saved}")));
    child.kill().unwrap(); // SIGKILL, wherever it is
    child.wait().unwrap();
    succeeds(at, &words("runner.resume_dir=killed"));
    assert_eq!(curve(&at.join("killed")), curve(&at.join("whole")));
    assert_eq!(weights(&at.join("killed"), last), weights(&at.join("whole"), last));
}

pub(crate) fn weights(run: &Path, step: u64) -> Weights {
    Weights::read(run.join(format!("checkpoints/global_step_{step}/actor/model.safetensors"))).unwrap()
}

/// How many files a folder shows: not the hidden one that says who collects there.
pub(crate) fn files_in(folder: &Path) -> usize {
    let entries = std::fs::read_dir(folder).unwrap();
    entries.filter(|entry| !entry.as_ref().unwrap().file_name().to_string_lossy().starts_with('.')).count()
}

/// What Ctrl-C sends. A shell starts its background jobs deaf to it, and what they start inherits that: then, and only
/// then, it is the signal that asks for the same.
pub(crate) fn ctrl_c() -> &'static str {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    if mask & 0b10 == 0 { "-INT" } else { "-TERM" }
}
