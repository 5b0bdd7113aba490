//! The shape of the project, as a test: who may know whom, who may print, and that what is generated is fresh.

#![allow(clippy::unwrap_used)] // a test that cannot go on says so by stopping

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// For each crate, the crates of ours it may depend on.
const MAY_USE: &[(&str, &[&str])] = &[
    ("core", &[]),
    ("compose", &[]),
    ("data", &["core"]),
    ("nn", &["core", "data"]),
    ("reward", &["core", "data", "nn"]),
    ("rl", &["core", "data", "nn"]),
    ("env", &["core"]),
    ("cluster", &["core"]),
    ("serve", &[]),
    ("view", &["core"]),
    ("plaudit", &["core", "compose", "data", "nn", "reward", "rl", "env", "cluster", "serve", "view"]),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Every crate by its folder's name.
fn crates() -> BTreeMap<String, PathBuf> {
    let entries = fs::read_dir(root().join("crates")).unwrap();
    entries.map(|entry| entry.unwrap()).map(|e| (e.file_name().into_string().unwrap(), e.path())).collect()
}

fn rust_files(directory: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let Ok(entries) = fs::read_dir(directory) else { return files };
    for path in entries.map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files
}

/// Whether a file is a module of tests, declared as such by the file above it.
fn is_test_module(path: &Path) -> bool {
    let stem = path.file_stem().unwrap().to_str().unwrap();
    let folder = path.parent().unwrap();
    let above =
        ["mod.rs", "lib.rs"].map(|name| folder.join(name)).into_iter().chain([folder.with_extension("rs")]);
    let declaration = format!("#[cfg(test)]\nmod {stem};");
    above.filter(|path| path.exists()).any(|path| read(&path).contains(&declaration))
}

/// The code of a source file: neither its tests nor its comments.
fn code(path: &Path) -> String {
    if is_test_module(path) {
        return String::new();
    }
    let text = read(path);
    let before_tests = text.split("#[cfg(test)]").next().unwrap_or("").to_string();
    before_tests.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

#[test]
fn crates_know_only_whom_they_may() {
    for (name, path) in crates() {
        let manifest = read(&path.join("Cargo.toml"));
        let allowed = MAY_USE.iter().find(|(crate_name, _)| *crate_name == name);
        let (_, allowed) =
            allowed.unwrap_or_else(|| panic!("{name} has no place in the design; give it one here"));
        let normal = manifest.split("[dev-dependencies]").next().unwrap();
        for line in normal.lines().filter_map(|line| line.strip_prefix("plaudit-")) {
            let used = line.split(['.', ' ', '=']).next().unwrap();
            assert!(allowed.contains(&used), "{name} may not depend on {used}");
        }
        assert!(
            name == "nn" || !normal.lines().any(|line| line.starts_with("burn")),
            "only nn names Burn, not {name}"
        );
        assert!(
            manifest.contains("[lints]\nworkspace = true"),
            "{name} does not follow the workspace's lints"
        );
        let package = if name == "plaudit" { name.clone() } else { format!("plaudit-{name}") };
        assert!(manifest.contains(&format!("name = \"{package}\"")), "{name} should be called {package}");
    }
}

#[test]
fn nothing_below_the_binary_prints_or_reads_the_users_world() {
    let forbidden = ["println!", "eprintln!", "print!(", "eprint!(", "env::var", "env::args", "dbg!"];
    for (name, path) in crates().into_iter().filter(|(name, _)| name != "plaudit") {
        for file in rust_files(&path.join("src")) {
            for word in forbidden {
                assert!(!code(&file).contains(word), "{name}: {} uses {word}", file.display());
            }
        }
    }
}

#[test]
fn only_one_file_turns_choices_into_objects() {
    for file in rust_files(&root().join("crates/plaudit/src")) {
        if !file.ends_with("src/build.rs") {
            let code = code(&file);
            for word in ["plaudit_env::make", "RandomPolicy::new"] {
                assert!(!code.contains(word), "{} builds what src/build.rs should", file.display());
            }
        }
    }
}

#[test]
fn names_say_something_and_crates_open_with_an_essay() {
    let empty_words = ["utils", "util", "common", "base", "manager", "helper", "helpers", "misc"];
    for (name, path) in crates() {
        for file in rust_files(&path.join("src")) {
            let stem = file.file_stem().unwrap().to_str().unwrap();
            assert!(!empty_words.contains(&stem), "{}: what is in it?", file.display());
            assert!(read(&file).starts_with("//!"), "{} does not say what it is for", file.display());
        }
        assert!(path.join("src/lib.rs").exists(), "{name} has no library");
    }
}

#[test]
fn unsafe_code_stands_beside_its_reason() {
    for file in crates().values().flat_map(|path| rust_files(&path.join("src"))) {
        let text = read(&file);
        let lines: Vec<&str> = text.lines().collect();
        for (at, line) in lines.iter().enumerate() {
            let opens =
                line.contains("unsafe {") || line.contains("unsafe impl") || line.contains("unsafe fn");
            if opens && !line.trim_start().starts_with("//") {
                let around = lines[at.saturating_sub(6)..at].join("\n");
                // A block says why it may; a function may instead say, in its documentation, what callers must promise.
                let promised = line.contains("unsafe fn") && around.contains("# Safety");
                let reasoned = around.contains("SAFETY:") || promised;
                assert!(reasoned, "{}:{}: unsafe without a reason", file.display(), at + 1);
            }
        }
    }
}

#[test]
fn generated_docs_are_fresh() {
    let page = read(&root().join("docs/config.md"));
    assert!(page == plaudit::config::docs::page(), "docs/config.md is stale: run `cargo run -- config docs`");
}

#[test]
fn the_map_is_short_and_names_every_crate() {
    let map = read(&root().join("ARCHITECTURE.md"));
    assert!(map.lines().count() <= 150, "ARCHITECTURE.md has {} lines", map.lines().count());
    for name in crates().keys() {
        assert!(map.contains(&format!("crates/{name}")), "ARCHITECTURE.md does not mention crates/{name}");
    }
}
