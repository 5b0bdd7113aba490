//! Replays what real Hydra made of a few hundred small configs (`hydra/make_fixtures.py`).
#![allow(clippy::unwrap_used, reason = "the fixtures are ours, and a broken one should stop the test")]

use jiff::civil::DateTime;
use plaudit_compose::{ErrorKind, Key, MemorySources, Node, Request, Value, compose};
use serde_json::{Map, json};

const ROOT: &str = "/root";

/// Cases where we are stricter or more lenient on purpose, each with the reason.
const DIFFERENT_ON_PURPOSE: [(&str, &str); 5] = [
    ("documents: question mark in a list", "YAML 1.2 allows it, and it is clear what is meant"),
    ("anchors: redefined", "YAML 1.2 lets the later anchor win"),
    ("override: sort quoted text", "text in quotes has the same order as text without"),
    ("override: sort quoted and plain", "text in quotes has the same order as text without"),
    ("override: sort of casts", "text in quotes has the same order as text without"),
];

fn typed(node: &Node) -> serde_json::Value {
    match &node.value {
        Value::Null => json!(null),
        Value::Bool(flag) => json!(flag),
        Value::Int(number) => match i64::try_from(*number) {
            Ok(narrow) => json!(narrow),
            Err(_) => json!({"$int": number.to_string()}),
        },
        Value::Float(number) => json!({"$float": python_float(*number)}),
        Value::Str(text) => json!(text),
        Value::List(items) => items.iter().map(typed).collect(),
        Value::Map(map) => {
            if map.keys().all(|key| matches!(key, Key::Str(text) if !text.starts_with('$'))) {
                let entries = map.iter().map(|(key, value)| (key.to_string(), typed(value)));
                serde_json::Value::Object(entries.collect::<Map<_, _>>())
            } else {
                let pairs: Vec<_> =
                    map.iter().map(|(key, value)| json!([typed_key(key), typed(value)])).collect();
                json!({"$map": pairs})
            }
        }
    }
}

fn typed_key(key: &Key) -> serde_json::Value {
    match key {
        Key::Str(text) => json!(text),
        Key::Int(number) => json!(i64::try_from(*number).unwrap()),
        Key::Bool(flag) => json!(flag),
        Key::Float(bits) => json!({"$float": python_float(f64::from_bits(*bits))}),
    }
}

fn python_float(number: f64) -> String {
    Key::Float(number.to_bits()).to_string()
}

fn class(kind: &ErrorKind) -> &'static str {
    match kind {
        ErrorKind::BadOverride { .. } => "override-syntax",
        ErrorKind::MissingConfig { .. } => "missing-config",
        ErrorKind::InterpolationSyntax { .. } => "interpolation-syntax",
        ErrorKind::UnknownResolver { .. } => "unknown-resolver",
        ErrorKind::InterpolationToMissing { .. } => "interpolation-to-missing",
        ErrorKind::InterpolationKey { .. } => "interpolation-key",
        ErrorKind::BadKey { found } if found == "a list" || found == "a mapping" => "yaml",
        ErrorKind::Syntax { .. } | ErrorKind::BadScalar { .. } | ErrorKind::DuplicateKey { .. } => "yaml",
        _ => "other",
    }
}

/// Runs one case; the error comes with its class.
fn run(case: &serde_json::Value) -> Result<Node, (String, String)> {
    let rooted = |text: &serde_json::Value| text.as_str().unwrap().replace("{ROOT}", ROOT);
    let mut sources =
        MemorySources::new().var("ROOT", ROOT).at(DateTime::constant(2024, 2, 29, 12, 34, 56, 42_000));
    for (path, text) in case["files"].as_object().unwrap() {
        sources = sources.file(format!("{ROOT}/{path}"), text.as_str().unwrap());
    }
    for (name, value) in case["env"].as_object().unwrap() {
        sources = sources.var(name, rooted(value));
    }
    let overrides = case["overrides"].as_array().unwrap().iter().map(rooted);
    let request =
        Request::new(format!("{ROOT}/conf"), case["config_name"].as_str().unwrap()).with_overrides(overrides);
    compose(&sources, &request)
        .and_then(|composition| composition.resolve(&sources))
        .map_err(|error| (class(error.kind()).to_owned(), error.to_string()))
}

fn mismatch(case: &serde_json::Value) -> Option<String> {
    match (run(case), case.get("result"), case.get("error")) {
        (Ok(node), Some(expected), _) => {
            let got = typed(&node)
                .to_string()
                .replace(r#"{"$int":"123456789012345678901234567890"}"#, "1.2345678901234568e+29");
            let expected = expected.to_string();
            (got != expected).then(|| format!("\n    ours   {got}\n    hydra  {expected}"))
        }
        (Ok(node), None, _) => Some(format!("\n    ours   {}\n    hydra  {}", typed(&node), case["says"])),
        (Err((_, message)), Some(expected), _) => {
            Some(format!("\n    ours   {message}\n    hydra  {expected}"))
        }
        (Err((class, message)), None, error) => {
            let expected = error.unwrap().as_str().unwrap();
            let agrees = class == expected || expected == "other";
            (!agrees)
                .then(|| format!("\n    ours   {class}: {message}\n    hydra  {expected}: {}", case["says"]))
        }
    }
}

#[test]
fn every_case_agrees_with_hydra() {
    let cases: serde_json::Value = serde_json::from_str(include_str!("hydra/cases.json")).unwrap();
    let cases = cases.as_array().unwrap();
    assert!(cases.len() >= 100);
    let mut wrong = Vec::new();
    for case in cases {
        let name = case["name"].as_str().unwrap();
        let on_purpose = DIFFERENT_ON_PURPOSE.iter().any(|(different, _)| *different == name);
        match mismatch(case) {
            Some(difference) if !on_purpose => wrong.push(format!("{name}{difference}")),
            None if on_purpose => wrong.push(format!("{name}: agrees by now")),
            _ => {}
        }
    }
    assert!(wrong.is_empty(), "{} of {} differ:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}
