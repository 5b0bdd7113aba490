//! Every command in README and docs/ runs: top to bottom, in an empty folder for each document, in the order in which a
//! reader would paste them.
//!
//! * `plaudit` is the binary under test. Sizes are reduced as `smaller.rs` says, and as nothing else says.
//! * What cannot run in a test is listed in `not_run.rs` with its reason. A command that is neither run nor listed fails.
//! * A ```` ```text ```` block right after a ```` ```bash ```` block is its output: the same lines with other numbers (`shape.rs`).
//! * A ```` ```yaml ```` block is part of a config, which must resolve.

// A test that cannot go on says so by stopping; what was run is printed for whoever reads a failure.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod markdown;
mod not_run;
mod session;
mod shape;
mod shell;
mod smaller;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use markdown::{Language, blocks};

/// One test for each document, so that one can be run alone and two run at a time. A document that begins where
/// another one ends is run with it.
macro_rules! documents {
    ($($name:ident: $path:literal $(then $next:literal)*,)*) => {
        const DOCUMENTS: &[&str] = &[$($path, $($next,)*)*];
        $(
            #[test]
            fn $name() {
                session::run(&[$path, $($next,)*]);
            }
        )*
    };
}

documents! {
    readme: "README.md",
    audit: "docs/audit.md",
    check: "docs/check.md",
    cluster: "docs/cluster.md",
    collecting: "docs/collecting.md",
    data_parallel: "docs/data-parallel.md",
    features: "docs/features.md",
    from_rlinf: "docs/from-rlinf.md",
    gpu: "docs/gpu.md",
    guide: "docs/guide.md" then "docs/method/rlpd.md",
    image_policies: "docs/image-policies.md",
    labels: "docs/labels.md",
    loggers: "docs/loggers.md",
    mujoco: "docs/mujoco.md",
    own_models: "docs/own-models.md",
    reward_model: "docs/reward-model.md",
    python: "docs/python.md",
    rewards: "docs/rewards.md",
    robot: "docs/robot.md",
    scaling: "docs/scaling.md",
    serve: "docs/serve.md",
    simulator: "docs/simulator.md",
    start_gymnasium: "docs/start/gymnasium.md",
    start_images: "docs/start/images.md",
    start_lerobot: "docs/start/lerobot.md",
    start_robot: "docs/start/robot.md",
    store: "docs/store.md",
    studio: "docs/studio.md",
    sweep: "docs/sweep.md",
    trend: "docs/trend.md",
    trend_sft: "docs/trend-sft.md",
    hacking_monitor: "docs/hacking-monitor.md",
    method: "docs/method/README.md",
    method_binary_reward_classifier: "docs/method/binary-reward-classifier.md",
    method_cloning: "docs/method/cloning.md",
    method_online_reward: "docs/method/online-reward.md",
    method_ppo: "docs/method/ppo.md",
    method_progress: "docs/method/progress.md",
    method_resnet_classifier: "docs/method/resnet-classifier.md",
    method_sac: "docs/method/sac.md",
    method_temporal: "docs/method/temporal.md",
    method_threshold: "docs/method/threshold.md",
}

/// Generated from the keys themselves, without commands; `structure.rs` keeps it fresh.
const GENERATED: &str = "docs/config.md";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn read(document: &str) -> String {
    let path = root().join(document);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn no_document_is_left_out() {
    let mut there = BTreeSet::from(["README.md".to_string()]);
    for folder in ["docs", "docs/method", "docs/start"] {
        for entry in std::fs::read_dir(root().join(folder)).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            there.extend(name.ends_with(".md").then(|| format!("{folder}/{name}")));
        }
    }
    there.remove(GENERATED);
    let listed: BTreeSet<String> = DOCUMENTS.iter().map(ToString::to_string).collect();
    assert_eq!(listed, there, "give each document a line in documents!");
}

#[test]
fn every_block_says_what_it_is() {
    for document in DOCUMENTS {
        for block in blocks(document, &read(document)) {
            let place = format!("{document}:{}", block.line);
            assert_ne!(
                block.language,
                Language::Unknown,
                "{place}: fence it as bash, text, yaml, python or json"
            );
            let is_pasted = matches!(block.language, Language::Bash | Language::Python | Language::Yaml);
            assert!(!(is_pasted && block.text.contains('…')), "{place}: … cannot be pasted; give the name");
        }
    }
}

#[test]
fn what_is_not_run_is_in_a_document() {
    for listed in not_run::NOT_RUN {
        let found = blocks(listed.document, &read(listed.document)).into_iter().any(|block| {
            block.language == Language::Bash
                && shell::commands(&block).iter().any(|command| command.text().starts_with(listed.command))
        });
        assert!(
            found,
            "{}: no command begins with `{}`; take it off the list",
            listed.document, listed.command
        );
    }
}
