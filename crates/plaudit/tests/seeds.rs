//! Every YAML block and command that RLinf's guides print is accepted as printed there and means what it meant.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Map, Value};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/seeds")
}

fn expectations(file: &str) -> Map<String, Value> {
    let text = std::fs::read_to_string(folder().join(file)).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// What `plaudit config show` prints for a config under the case's variables and overrides.
fn show(name: &str, config: &str, case: &Value) -> Value {
    let variables = case["vars"].as_object().into_iter().flatten();
    let overrides = case["overrides"].as_array().into_iter().flatten();
    let output = Command::new(env!("CARGO_BIN_EXE_plaudit"))
        .args(["-q", "config", "show", config, "--json"])
        .args(overrides.map(|text| text.as_str().unwrap()))
        .envs(variables.map(|(variable, value)| (variable, value.as_str().unwrap())))
        .output()
        .unwrap();
    assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn check(name: &str, config: &str, case: &Value) {
    let shown = show(name, config, case);
    for (path, expected) in case["expect"].as_object().unwrap() {
        let found = path.split('.').try_fold(&shown, |node, key| match node {
            Value::Array(items) => items.get(key.parse::<usize>().ok()?),
            other => other.get(key),
        });
        assert!(same(found.unwrap_or(&Value::Null), expected), "{name}: {path} is {found:?}, not {expected}");
    }
}

/// Numbers are equal by value: 10 and 10.0 are the same setting.
fn same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(a), Value::Number(b)) => a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (a, b) => a == b,
    }
}

#[test]
fn every_block_means_what_it_meant() {
    let expected = expectations("expected.json");
    let blocks = std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path());
    let mut names: Vec<String> = blocks
        .filter(|path| path.extension().is_some_and(|extension| extension == "yaml"))
        .map(|path| path.file_name().unwrap().to_str().unwrap().to_string())
        .collect();
    names.sort();
    assert_eq!(names.len(), expected.len(), "a block without expectations, or the other way round");
    for name in names {
        check(&name, folder().join(&name).to_str().unwrap(), &expected[&name]);
    }
}

/// Text copied from a web page may lose its indentation: it is refused at the line that no longer fits.
#[test]
fn blocks_without_indentation_are_refused_with_their_line() {
    let directory = tempfile::tempdir().unwrap();
    for (name, _) in expectations("expected.json").iter().filter(|(name, _)| name.starts_with("004")) {
        let text = std::fs::read_to_string(folder().join(name)).unwrap();
        let flat: Vec<&str> = text.lines().map(str::trim_start).collect();
        let path = directory.path().join(name);
        std::fs::write(&path, flat.join("\n")).unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_plaudit"))
            .args(["-q", "config", "show", path.to_str().unwrap()])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        let at = said.split_once(&format!("{name}:")).map_or("", |(_, rest)| rest);
        let mut numbers = at.split(|c: char| !c.is_ascii_digit());
        let is_number = |text: Option<&str>| text.is_some_and(|text| !text.is_empty());
        assert!(!output.status.success(), "{name} was accepted");
        assert!(
            is_number(numbers.next()) && is_number(numbers.next()),
            "{name}: no line and column in {said}"
        );
    }
}

#[test]
fn every_command_means_what_it_meant() {
    for (name, case) in expectations("expected_commands.json") {
        check(&name, case["recipe"].as_str().unwrap(), &case);
    }
}
