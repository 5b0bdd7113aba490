//! Errors point at the place, name the key and end in a hint.
#![allow(clippy::unwrap_used, reason = "a test may stop at a surprise")]

use plaudit_compose::{MemorySources, Request, compose};

fn sources() -> MemorySources {
    MemorySources::new()
        .file("conf/env/pick_cube.yaml", "size: 1\nseed: 0\n")
        .file("conf/env/push_cube.yaml", "size: 2\n")
        .file("conf/loop_a.yaml", "defaults: [loop_b]\n")
        .file("conf/loop_b.yaml", "defaults: [loop_a]\n")
}

/// The message, and the line it points at.
fn check(config: &str, overrides: &[&str], expected: &str, line: &str) {
    let sources = sources().file("conf/train.yaml", config);
    let request = Request::new("conf", "train").with_overrides(overrides.iter().copied());
    let error = compose(&sources, &request).and_then(|made| made.resolve(&sources)).unwrap_err();
    assert_eq!(error.to_string(), expected, "{config} {overrides:?}");
    assert_eq!(error.line_text().unwrap_or("-"), line, "{config} {overrides:?}");
}

#[test]
fn files() {
    check("a: 1\nb: [1, 2\n", &[], "conf/train.yaml:2:4: not valid YAML: unclosed bracket '['", "b: [1, 2");
    check(
        "a: 1\nb: 2\na: 3\n",
        &[],
        "conf/train.yaml:3:1: a: the key `a` is written twice; the first is at conf/train.yaml:1:1",
        "a: 3",
    );
    check("5", &[], "conf/train.yaml:1:1: expected a mapping at the top of the file, found an integer", "5");
    check("~: 1", &[], "conf/train.yaml:1:1: null cannot be a key", "~: 1");
    check(
        "a: ${b\n",
        &[],
        "conf/train.yaml:1:4: a: cannot read the interpolation `${b`: expected a key, `}` or `:` at character 4",
        "a: ${b",
    );
}

#[test]
fn defaults() {
    check(
        "defaults:\n  - env: pick_cub\n",
        &[],
        "conf/train.yaml:2:10: cannot find the config `env/pick_cub`; searched: conf\nhint: did you mean `pick_cube`?",
        "  - env: pick_cub",
    );
    check(
        "defaults:\n  - env: ???\n",
        &[],
        "conf/train.yaml:2:10: you must choose a config for the group `env`; options: pick_cube, push_cube\n\
         hint: write env=<option>",
        "  - env: ???",
    );
    check(
        "defaults:\n  - loop_a\n",
        &[],
        "conf/loop_b.yaml:1:12: defaults lists form a cycle: loop_a -> loop_b -> loop_a",
        "defaults: [loop_a]",
    );
    check(
        "defaults:\n  - env: pick_cube\n",
        &["envv=push_cube"],
        "command line: envv: could not override `envv`: no such key\n\
         hint: did you mean `env`? To add a new key, write +envv=push_cube",
        "envv=push_cube",
    );
    check(
        "defaults:\n  - env@train: pick_cube\n",
        &["env=push_cube"],
        "command line: env: could not override the group `env`: no defaults list mentions it\n\
         hint: did you mean env@train?",
        "env=push_cube",
    );
    check(
        "defaults:\n  - 5\n",
        &[],
        "conf/train.yaml:2:5: bad defaults list: an entry is a string or a `group: name`, found an integer",
        "  - 5",
    );
}

#[test]
fn overrides() {
    let config = "model: {hidden: 64, layers: [1, 2]}\nlr: 0.1\n";
    check(
        config,
        &["lr=1", "model.hiden=3"],
        "command line: model.hiden: could not override `model.hiden`: no such key\n\
         hint: did you mean `model.hidden`? To add a new key, write +model.hiden=3",
        "model.hiden=3",
    );
    check(
        config,
        &["+lr=3"],
        "command line: lr: could not add `lr`: it already has a value\nhint: to change it, write lr=3 or ++lr=3",
        "+lr=3",
    );
    check(
        config,
        &["lr=a=b"],
        "command line: cannot read the override `lr=a=b`: \
         expected the end; put the value in quotes if this belongs to it at character 5",
        "lr=a=b",
    );
    check(
        config,
        &["lr=1,2"],
        "command line: `lr=1,2` is a sweep: it stands for several values, and a run has one\n\
         hint: for a list write [a,b]; for text with a comma put it in quotes inside the argument; for several values \
         run a sweep",
        "lr=1,2",
    );
    check(
        config,
        &["lr=sort(3,1)"],
        "command line: `lr=sort(3,1)` is a sweep: it stands for several values, and a run has one\n\
         hint: to sort a list, put it in brackets: sort([b,a])",
        "lr=sort(3,1)",
    );
    check(
        config,
        &["lr=range(1,4)"],
        "command line: `lr=range(1,4)` is a sweep: it stands for several values, and a run has one\n\
         hint: it stands for several values: give one here",
        "lr=range(1,4)",
    );
    check(config, &["~nope"], "command line: nope: could not delete `nope`: it does not exist", "~nope");
    check(config, &["model=[1]"], "command line: model: cannot merge a list into a mapping", "model=[1]");
}

#[test]
fn interpolations() {
    check(
        "model: {hidden: 64}\na:\n  b: ${model.hiden}\n",
        &[],
        "conf/train.yaml:3:6: a.b: interpolation key `model.hiden` not found\nhint: did you mean `model.hidden`?",
        "  b: ${model.hiden}",
    );
    check(
        "a: ${b}\nb: x${c.d}\nc:\n  d: ${a}\n",
        &[],
        "conf/train.yaml:1:4: a: interpolation loop: a -> b -> c.d -> a",
        "a: ${b}",
    );
    check(
        "a: ${oc.env:DATA_DIR}/x\n",
        &[],
        "conf/train.yaml:1:4: a: the environment variable `DATA_DIR` is not set\n\
         hint: set it, or give a default: `${oc.env:DATA_DIR,default}`",
        "a: ${oc.env:DATA_DIR}/x",
    );
    check(
        "a: ${multiplyy:1,2}\n",
        &[],
        "conf/train.yaml:1:4: a: unknown resolver `multiplyy`; known: hydra, int_div, multiply, not, now, \
         oc.create, oc.decode, oc.deprecated, oc.dict.keys, oc.dict.values, oc.env, oc.select, subtract, \
         torch.dtype\nhint: did you mean `multiply`?",
        "a: ${multiplyy:1,2}",
    );
    check(
        "a: ???\nb: ${a}\n",
        &[],
        "conf/train.yaml:2:4: b: interpolation to `a`, which is `???`: it has to be given",
        "b: ${a}",
    );
    check(
        "a: ${torch.dtype:float33}\n",
        &[],
        "conf/train.yaml:1:4: a: the resolver `torch.dtype` failed: torch has no dtype `float33`\n\
         hint: did you mean `float32`?",
        "a: ${torch.dtype:float33}",
    );
}

#[test]
fn what_was_read_and_ignored_is_listed() {
    let config = "defaults:\n  - env: pick_cube\n  - _self_\n  - override hydra/job_logging: stdout\n\
                  hydra: {output_subdir: null, searchpath: [nowhere]}\n";
    let sources = sources().file("conf/train.yaml", config);
    let request =
        Request::new("conf", "train").with_overrides(["hydra.job.chdir=false", "env.seed=${env.size}"]);
    let made = compose(&sources, &request).unwrap();
    assert_eq!(made.files, ["conf/train.yaml", "conf/env/pick_cube.yaml"]);
    assert_eq!(made.ignored, ["hydra.job.chdir", "hydra.output_subdir", "hydra/job_logging"]);
    assert_eq!(made.choices, [("env".to_owned(), Some("pick_cube".to_owned()))]);
    assert_eq!(made.warnings, ["the search path `nowhere` does not exist"]);
    let resolved = made.resolve(&sources).unwrap();
    let seed = resolved.get("env.seed").unwrap();
    assert_eq!(seed.as_int(), Some(1));
    assert_eq!(seed.origin.to_string(), "command line:2:10");
    assert_eq!(resolved.get("env.size").unwrap().origin.to_string(), "conf/env/pick_cube.yaml:1:7");
}
