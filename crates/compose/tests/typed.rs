//! Typed values out of trees: what is accepted, and what errors say.
#![allow(clippy::unwrap_used, reason = "a test may stop at a surprise")]

use std::collections::BTreeMap;

use plaudit_compose::{Node, from_node, parse_yaml};
use serde::{Deserialize, Serialize};

#[derive(Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
struct Run {
    name: String,
    lr: f64,
    #[serde(default)]
    steps: u32,
    clip: Option<f32>,
    #[serde(default)]
    optim: Optim,
    #[serde(default)]
    frames: Vec<Frame>,
}

#[derive(Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
struct Optim {
    kind: Kind,
    betas: (f64, f64),
    schedule: Option<Schedule>,
}

#[derive(Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "snake_case")]
enum Kind {
    #[default]
    Adam,
    AdamW,
    Sgd {
        momentum: f64,
    },
}

#[derive(Debug, Deserialize, PartialEq)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
enum Schedule {
    Constant,
    Cosine { warmup: u32 },
}

#[derive(Debug, Deserialize, PartialEq)]
#[serde(untagged)]
enum Frame {
    Index(i64),
    Name(String),
    Range { from: i64, to: i64 },
}

fn check(text: &str, expected: &str) {
    let node = parse_yaml("run.yaml", text).unwrap();
    let shown = match from_node::<Run>(&node) {
        Ok(run) => format!("{run:?}"),
        Err(error) => error.to_string(),
    };
    assert_eq!(shown, expected, "{text}");
}

#[test]
fn blocks_read_and_refuse() {
    check(
        "name: a\nlr: 1\nclip: 0.5\noptim: {kind: {sgd: {momentum: 0.9}}, betas: [0, 1.5], schedule: {type: cosine, warmup: 5}}\nframes: [1, x, {from: 0, to: 2}]",
        "Run { name: \"a\", lr: 1.0, steps: 0, clip: Some(0.5), optim: Optim { kind: Sgd { momentum: 0.9 }, \
         betas: (0.0, 1.5), schedule: Some(Cosine { warmup: 5 }) }, frames: [Index(1), Name(\"x\"), Range { from: 0, to: 2 }] }",
    );
    check(
        "name: a\nlr: 1\nclip: null\noptim:\n  kind: adam_w\n",
        "Run { name: \"a\", lr: 1.0, steps: 0, clip: None, optim: Optim { kind: AdamW, betas: (0.0, 0.0), \
         schedule: None }, frames: [] }",
    );
    check("name: a\nlr: '1'", "run.yaml:2:5: lr: expected a number, found the text `1`");
    check("name: 1\nlr: 1", "run.yaml:1:7: name: expected text, found `1`");
    check(
        "name: a\nlr: 1\nsteps: 1.0",
        "run.yaml:3:8: steps: expected a whole number, 0 or more, found `1.0`",
    );
    check("name: a\nlr: 1\nsteps: -1", "run.yaml:3:8: steps: expected a whole number, 0 or more, found `-1`");
    check("name: a\nlr: 1\nstep: 1", "run.yaml:3:7: step: unknown key `step`\nhint: did you mean `steps`?");
    check("name: a", "run.yaml:1:1: the key `lr` is required");
    check("name: ???\nlr: 1", "run.yaml:1:7: name: the value is `???`: it has to be given");
    check(
        "name: a\nlr: 1\noptim:\n  kind: adamw\n",
        "run.yaml:4:9: optim.kind: expected one of `adam`, `adam_w`, `sgd`, found `adamw`\nhint: did you mean `adam_w`?",
    );
    check(
        "name: a\nlr: 1\noptim:\n  betas: [0.9, high]\n",
        "run.yaml:4:16: optim.betas[1]: expected a number, found the text `high`",
    );
    check(
        "name: a\nlr: 1\noptim:\n  betas: [0.9, 0.9, 0.9]\n",
        "run.yaml:4:10: optim.betas: expected fewer items, found a list of 3",
    );
    check("name: a\nlr: 1\noptim: 5", "run.yaml:3:8: optim: expected a block of keys, found `5`");
    check("name: a\nlr: 1\noptim:\n- 5", "run.yaml:3:1: optim: expected a block of keys, found a list");
    check(
        "name: a\nlr: 1\noptim:\n  kind:\n    sgd: {momentum: x}\n",
        "run.yaml:5:21: optim.kind.sgd.momentum: expected a number, found the text `x`",
    );
}

#[test]
fn maps_take_keys_that_are_not_text() {
    let node = parse_yaml("a.yaml", "1: a\n2: b").unwrap();
    let map: BTreeMap<i64, String> = from_node(&node).unwrap();
    assert_eq!(map[&2], "b");
    let node = parse_yaml("a.yaml", "true: a\nfalse: b").unwrap();
    let map: BTreeMap<bool, String> = from_node(&node).unwrap();
    assert_eq!(map[&false], "b");
}

#[test]
fn a_node_field_keeps_its_places() {
    #[derive(Deserialize)]
    struct Free {
        rest: Node,
        maybe: Option<Node>,
    }
    let node = parse_yaml("a.yaml", "rest: {a: [1, 2.5]}\nmaybe:\n  b: x\n").unwrap();
    let free: Free = from_node(&node).unwrap();
    assert_eq!(free.rest.get("a[1]").unwrap().origin.to_string(), "a.yaml:1:15");
    assert_eq!(free.maybe.unwrap().get("b").unwrap().as_str(), Some("x"));
}

#[test]
fn trees_serialize_as_plain_values() {
    #[derive(Serialize)]
    struct Wrapper<'n> {
        node: &'n Node,
    }
    let node = parse_yaml("a.yaml", "a: 1\nb: [1.0, null, true, x]\n3: {}\n").unwrap();
    let json = serde_json::to_string(&Wrapper { node: &node }).unwrap();
    assert_eq!(json, r#"{"node":{"a":1,"b":[1.0,null,true,"x"],"3":{}}}"#);
    let back: Node = serde_json::from_str(&json).unwrap();
    assert_eq!(back.get("node.b.0").unwrap().as_f64(), Some(1.0));
}
