//! The shape of the project, as a test: who may know whom, who may print, and that what is generated is fresh.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// For each crate, the crates of ours it may depend on.
const MAY_USE: &[(&str, &[&str])] = &[
    ("core", &[]),
    ("compose", &[]),
    ("pyfiles", &[]),
    ("pyprocess", &[]),
    ("mp4", &[]),
    ("draw", &["core"]),
    ("data", &["core", "draw", "mp4", "pyfiles"]),
    ("nn", &["core", "pyfiles"]),
    ("reward", &["core", "data", "draw", "nn", "pyfiles", "pyprocess"]),
    ("rl", &["core", "data", "nn", "pyfiles"]),
    ("env", &["core", "pyprocess"]),
    ("cluster", &["core", "rl"]),
    ("robot", &["core"]),
    ("serve", &[]),
    ("view", &["core", "draw", "mp4", "pyfiles"]),
    ("studio", &["core", "data", "draw", "mp4", "reward", "serve", "view"]),
    (
        "plaudit",
        &[
            "core", "compose", "data", "draw", "nn", "pyfiles", "reward", "rl", "env", "cluster", "robot",
            "serve", "studio", "view",
        ],
    ),
];

/// Words that once stood here for what the field has a word for, and that word.
const FIELD_WORDS: &[(&str, &str)] = &[
    ("slopes", "gradients"),
    ("repay", "relabel"),
    ("repaid", "relabelled"),
    ("Whereabouts", "RolloutState"),
    ("whereabouts", "rollout state"),
    ("Musing", "InferenceBuffers"),
    ("Pupil", "Trainable"),
    ("Seat", "ReloadableModel"),
    ("Gallery", "FrameDump"),
    ("Familiar", "PromptCheck"),
    ("Remembered", "CachedModel"),
    ("Reusing", "CachingAllocator"),
    ("is_processor", "is_cpu"),
    ("near_demos", "bc_regularizer"),
    ("keeper", "episode_recorder"),
    ("watcher", "hacking_monitor"),
    ("by chance", "at random"),
    ("to the same bits", "bit-exact"),
    ("looks at the present alone", "single-frame"),
    ("simulator's truth", "simulator ground truth"),
    ("is certain at", "95 % lower confidence bound"),
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
        let tensor_library = manifest.lines().find(|line| line.starts_with("burn"));
        assert!(tensor_library.is_none(), "{name}: tensors are those of nn");
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

/// What an audit computes is the library's business: bounds, intervals, fits and verdicts. Most of it is private there.
#[test]
fn the_binary_computes_no_statistics_of_audits() {
    let statistics = [
        "bootstrap_over",
        "bootstrap_interval",
        "false_alarm_bound",
        "guaranteed_threshold",
        "fit_temperature",
        "fit_label_temperature",
        "calibrate(",
        "calibrate_labels",
        "spearman",
        "StressTest",
        "suspected_labels(",
        "binomial",
        "verdict.add",
        "SuccessComparison",
        "Signals::of",
    ];
    for file in rust_files(&root().join("crates/plaudit/src")) {
        let code = code(&file);
        for word in statistics {
            assert!(!code.contains(word), "{} computes {word}: crates/reward/src/audit does", file.display());
        }
    }
}

/// The string literals of a text, as they are written. Comments after code are left out.
fn literals(code: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = code;
    while let Some(at) = rest.find(['"', '\'', '/']) {
        let (before, from) = rest.split_at(at);
        if from.starts_with("//") {
            rest = from.split_once('\n').map_or("", |(_, rest)| rest);
        } else if let Some(text) = from.strip_prefix('"') {
            let hashes = before.len() - before.trim_end_matches('#').len();
            let is_raw = before[..before.len() - hashes].ends_with('r');
            let end =
                if is_raw { text.find(&format!("\"{}", "#".repeat(hashes))) } else { end_of_text(text) };
            let end = end.unwrap_or(text.len());
            found.push(text[..end].to_string());
            rest = text.get(end + 1..).unwrap_or("");
        } else {
            // A character may be a quotation mark; a lifetime has no second apostrophe that soon.
            let is_quote = from.starts_with("'\"'") || from.starts_with("'\\\"'");
            rest =
                if is_quote { from[1..].split_once('\'').map_or("", |(_, rest)| rest) } else { &from[1..] };
        }
    }
    found
}

/// Where a text in quotation marks ends.
fn end_of_text(text: &str) -> Option<usize> {
    let mut escaped = false;
    text.char_indices().find_map(|(at, letter)| {
        let ends = letter == '"' && !escaped;
        escaped = letter == '\\' && !escaped;
        ends.then_some(at)
    })
}

/// Whether a text names a flag: `--word` where a word could begin.
fn names_flag(text: &str) -> bool {
    text.match_indices("--").any(|(at, _)| {
        let begins =
            text[..at].chars().next_back().is_none_or(|before| before == ' ' || "`(".contains(before));
        begins && text[at + 2..].starts_with(|letter: char| letter.is_ascii_lowercase())
    })
}

/// Every key with a dot in it, and every block inside a block, as docs/config.md lists them.
fn dotted_keys() -> Vec<String> {
    let (page, mut block, mut keys) = (plaudit::config::docs::page(), String::new(), Vec::new());
    for line in page.lines() {
        if let Some(heading) = line.strip_prefix("### `").and_then(|rest| rest.strip_suffix('`')) {
            block = heading.to_string();
            keys.push(block.clone());
        } else if let Some((key, _)) = line.strip_prefix("| `").and_then(|rest| rest.split_once("` |")) {
            keys.push(format!("{block}.{key}"));
        }
    }
    let eval = keys.iter().filter_map(|key| Some(format!("env.eval{}", key.strip_prefix("env.train")?)));
    let eval: Vec<String> = eval.collect();
    keys.extend(eval);
    keys.retain(|key| key.contains('.') && !key.contains(['<', '[', ' ']));
    keys
}

/// Whether a file is about the command lines of dora, ssh and what else starts processes of a cluster.
fn drives_dora(file: &Path) -> bool {
    let source = root().join("crates/cluster/src");
    file.starts_with(source.join("dora")) || file.starts_with(source.join("machine"))
}

/// What is asked for by flags and keys is the binary's business: an error below it carries data, and the binary adds what to do.
#[test]
fn nothing_below_the_binary_names_a_flag_a_key_or_a_command() {
    let keys = dotted_keys();
    assert!(keys.len() > 300 && keys.iter().any(|key| key == "reward.api.api_base"), "{}", keys.len());
    for (name, path) in crates().into_iter().filter(|(name, _)| name != "plaudit") {
        for file in rust_files(&path.join("src")) {
            for text in literals(&code(&file)) {
                let place = format!("{name}: {}: \"{text}\"", file.display());
                // Options of other programs: NVIDIA's compiler; dora and what can start it.
                let compilers = ["--gpu-architecture=", "--split-compile="];
                let is_others = compilers.iter().any(|option| text.starts_with(option)) || drives_dora(&file);
                assert!(!names_flag(&text) || is_others, "{place} names a flag");
                assert!(!text.contains("`plaudit "), "{place} names a command");
                let key = keys.iter().find(|key| has_word(&text, key));
                assert!(key.is_none(), "{place} names the key {key:?}");
            }
        }
    }
}

#[test]
fn literals_flags_and_keys_are_found() {
    let code = "say(\"a \\\" b\", '\"', r#\"c \"d\"\"#); // \"no\"\nfn f<'a>() { \"e\" }";
    assert_eq!(literals(code), ["a \\\" b", "c \"d\"", "e"]);
    for (text, is_flag) in
        [("lower --val-split", true), ("--seed", true), ("`--chw`", true), ("a -- b", false), ("x--y", false)]
    {
        assert_eq!(names_flag(text), is_flag, "{text}");
    }
    assert!(has_word("correct reward.api.api_base", "reward.api.api_base"));
}

/// Choices of a config that offer less than the type of the library has: these are written out, arm by arm.
const PARTIAL_CHOICES: &[&str] = &["Activation", "EpisodeSource", "Monitor"];

/// `One::Name => Other::Name,`: the type on the left, if both sides have the same name.
fn mirrored(line: &str) -> Option<&str> {
    let (pattern, value) = line.trim().strip_suffix(',')?.split_once(" => ")?;
    let (of, name) = pattern.rsplit_once("::")?;
    let (_, same) = value.rsplit_once("::")?;
    let is_type = of.chars().all(|letter| letter.is_alphanumeric() || "_:".contains(letter));
    (is_type && name == same).then(|| of.rsplit("::").next().unwrap_or(of))
}

/// A choice that means the same in the config and in a library is the library's type, with words: see `choice!`.
#[test]
fn no_choice_is_declared_twice() {
    let source = root().join("crates/plaudit/src");
    let files = rust_files(&source.join("build")).into_iter();
    for file in files.chain([source.join("build.rs"), source.join("hacking_monitor.rs")]) {
        let code = code(&file);
        let lines: Vec<Option<&str>> = code.lines().map(mirrored).collect();
        for pair in lines.windows(2) {
            if let [Some(one), Some(next)] = pair
                && one == next
            {
                let place = file.display();
                assert!(
                    PARTIAL_CHOICES.contains(one),
                    "{place} repeats {one} arm by arm: let it be one type"
                );
            }
        }
    }
}

#[test]
fn every_example_is_declared_and_runs_in_ci() {
    let manifest = read(&root().join("crates/plaudit/Cargo.toml"));
    let examples = rust_files(&root().join("examples"));
    assert!(!examples.is_empty());
    for file in examples {
        let name = file.file_name().unwrap().to_str().unwrap();
        assert!(manifest.contains(&format!("path = \"../../examples/{name}\"")), "{name} is not declared");
        assert!(read(&file).starts_with("//!"), "{name} does not say what it shows");
    }
    assert!(read(&root().join(".ci/run")).contains("examples/*.rs"));
}

/// Where models are read, and who may do it: `reward`'s one door, and the modules that it is made of.
const DOOR: &str = "crates/reward/src/open";

/// Where tests are one binary, cargo looks for no others.
#[test]
fn every_file_of_tests_is_compiled() {
    for folder in
        crates().values().map(|path| path.join("tests")).filter(|path| path.join("main.rs").exists())
    {
        let main = read(&folder.join("main.rs"));
        for path in fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()) {
            let name = path.file_stem().unwrap().to_str().unwrap();
            let is_module =
                path.extension().is_some_and(|extension| extension == "rs") || path.join("mod.rs").exists();
            let declared = main.lines().any(|line| line == format!("mod {name};"));
            assert!(!is_module || name == "main" || declared, "{} is in no `mod`", path.display());
        }
    }
}

#[test]
fn reward_models_have_one_door() {
    let openers = [
        "Scorer::new(",
        "ModelCard::from_header(",
        "LocalVlm::open(",
        "JudgeFolder::find(",
        "ChatEndpoint::open(",
    ];
    let files = ["reward", "plaudit"].map(|name| rust_files(&root().join("crates").join(name).join("src")));
    for file in files.concat().into_iter().filter(|file| !file.starts_with(root().join(DOOR))) {
        for opener in openers {
            assert!(!code(&file).contains(opener), "{}: {opener}…) belongs to {DOOR}", file.display());
        }
    }
}

/// The kinds of reward models: enums whose every `match` the compiler must complain about when a kind is added.
const KINDS: &[&str] =
    &["RewardModelType::", "Arch::", "ModelLocation::", "RewardModel::", "ServerModel::", "ModelInput::"];

/// Whether a line has one of the kinds: `Arch::` and `classifier::Arch::`, but not `SearchArch::`.
fn names_kind(line: &str) -> bool {
    let is_whole =
        |at: usize| !line[..at].ends_with(|before: char| before.is_alphanumeric() || before == '_');
    KINDS.iter().any(|kind| line.match_indices(kind).any(|(at, _)| is_whole(at)))
}

#[test]
fn a_new_kind_of_model_is_shown_by_the_compiler() {
    for file in crates().values().flat_map(|path| rust_files(&path.join("src"))) {
        let code = code(&file);
        let lines: Vec<&str> = code.lines().collect();
        let indent = |line: &str| line.len() - line.trim_start().len();
        for (at, line) in lines.iter().enumerate().filter(|(_, line)| names_kind(line)) {
            let place = format!("{}: `{}`", file.display(), line.trim());
            let compares = KINDS
                .iter()
                .any(|kind| ["== ", "!= "].iter().any(|sign| line.contains(&format!("{sign}{kind}"))));
            assert!(!compares && !line.contains("matches!("), "{place} does not see a new kind");
            // The other arms of the same match stand at the same depth, up to the brace that closes it.
            let pattern = line.split_once("=>").map(|(pattern, _)| pattern.trim_start());
            let is_arm = pattern.is_some_and(names_kind);
            let arms = lines[at + 1..].iter().take_while(|other| indent(other) >= indent(line));
            let mut arms = arms.filter(|other| indent(other) == indent(line));
            let catches_all = arms.any(|arm| arm.trim_start().starts_with("_ =>"));
            assert!(!is_arm || !catches_all, "{place} stands beside an arm for everything else");
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

/// Whether a text has a word, or words in a row, as such and not as a part of others.
fn has_word(text: &str, word: &str) -> bool {
    let is_inside =
        |letter: Option<char>| letter.is_some_and(|letter| letter.is_alphanumeric() || letter == '_');
    text.match_indices(word).any(|(at, _)| {
        !is_inside(text[..at].chars().next_back()) && !is_inside(text[at + word.len()..].chars().next())
    })
}

#[test]
fn words_are_those_of_the_field() {
    let folders = ["src", "tests", "examples", "benches"];
    let code = crates().into_values().flat_map(|path| folders.map(|folder| path.join(folder)));
    let code = code.flat_map(|folder| rust_files(&folder)).filter(|file| !file.ends_with("structure.rs"));
    let pages =
        ["docs", "docs/method", "docs/start"].map(|folder| fs::read_dir(root().join(folder)).unwrap());
    let pages = pages.into_iter().flatten().map(|entry| entry.unwrap().path());
    let pages = pages.filter(|path| path.extension().is_some_and(|extension| extension == "md"));
    for file in code.chain(pages).chain([root().join("README.md"), root().join("ARCHITECTURE.md")]) {
        let text = read(&file);
        for (word, instead) in FIELD_WORDS {
            assert!(!has_word(&text, word), "{}: `{word}`; the field says `{instead}`", file.display());
        }
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
