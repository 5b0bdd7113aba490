//! Pages opened in a browser: everything on them loads, and they look as they should.
//!
//! These tests need Chromium on the path (Debian: `apt-get install chromium`) and say so when it is not there.
#![allow(clippy::unwrap_used, clippy::print_stderr)]

use std::path::Path;
use std::process::Command;

fn plaudit(directory: &Path, words: &[&str]) {
    let out =
        Command::new(env!("CARGO_BIN_EXE_plaudit")).current_dir(directory).args(words).output().unwrap();
    assert!(out.status.success(), "{words:?}: {}", String::from_utf8_lossy(&out.stderr));
}

/// What the browser made of a page: its elements after loading, and what it complained about.
fn opened(page: &Path) -> Option<(String, String)> {
    let profile = tempfile::tempdir().unwrap();
    let out = Command::new("chromium")
        .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--dump-dom"])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg(format!("file://{}", page.display()))
        .output();
    match out {
        Ok(out) => {
            Some((String::from_utf8(out.stdout).unwrap(), String::from_utf8_lossy(&out.stderr).into()))
        }
        Err(error) => {
            eprintln!("skipped: no chromium here ({error})");
            None
        }
    }
}

#[test]
fn a_report_opens_in_a_browser_with_nothing_missing() {
    let directory = tempfile::tempdir().unwrap();
    let run = directory.path().join("run");
    let log_path = format!("runner.logger.log_path={}", run.display());
    plaudit(directory.path(), &["eval", "cartpole_random", &log_path, "env.eval.video_cfg.save_video=false"]);
    let run = find_run(&run);
    plaudit(directory.path(), &["report", run.to_str().unwrap()]);
    let page = run.join("report.html");
    is_whole(&page, &["<h1>", "<svg"]);
    let picture = run.join("report.png");
    if pictured(&page, &picture).is_some() {
        let [width, height] = image_size(&picture);
        assert_eq!([width, height], [1200, 860]);
        assert!(std::fs::metadata(&picture).unwrap().len() > 10_000, "the page is not blank");
    }
}

/// Width and height in a PNG's header.
fn image_size(picture: &Path) -> [u32; 2] {
    let bytes = std::fs::read(picture).unwrap();
    [16, 20].map(|at| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap()))
}

/// A picture of the top of a page, as a browser shows it. Nothing where there is no browser.
fn pictured(page: &Path, picture: &Path) -> Option<()> {
    let profile = tempfile::tempdir().unwrap();
    let out = Command::new("chromium")
        .args([
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
            "--window-size=1200,860",
        ])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg(format!("--screenshot={}", picture.display()))
        .arg(format!("file://{}", page.display()))
        .output()
        .ok()?;
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    Some(())
}

/// The picture that README begins with: the report of a demo. Four minutes in a release build:
/// `cargo test --release --workspace --test pages -- --ignored`.
#[test]
#[ignore = "runs the whole demo"]
fn the_picture_in_the_readme() {
    let directory = tempfile::tempdir().unwrap();
    plaudit(directory.path(), &["demo"]);
    let page = directory.path().join("plaudit-demo/report.html");
    is_whole(&page, &["Success, by truth and by the model", "as it was audited"]);
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    pictured(&page, &root.join("docs/pictures/demo_report.png")).unwrap();
}

/// The run directory under a log path.
fn find_run(root: &Path) -> std::path::PathBuf {
    if root.join("events.jsonl").is_file() {
        return root.to_path_buf();
    }
    let entries = std::fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path());
    entries.into_iter().filter(|path| path.is_dir()).map(|path| find_run(&path)).next().unwrap()
}

/// Pages that reach for nothing outside themselves and that a browser shows without complaint.
fn is_whole(page: &Path, shows: &[&str]) {
    let text = std::fs::read_to_string(page).unwrap();
    for outside in ["src=\"http", "href=\"http", "url(http", "<script", "src=\"/", "@import"] {
        assert!(!text.contains(outside), "the page reaches outside itself: {outside}");
    }
    let Some((elements, complaints)) = opened(page) else { return };
    for shown in shows {
        assert!(elements.contains(shown), "{shown} is not on the page");
    }
    for complaint in ["ERR_FILE_NOT_FOUND", "Failed to load", "CONSOLE"] {
        assert!(!complaints.contains(complaint), "{complaints}");
    }
}

const SMALL: &str = "env.eval.init_params.sensor_configs={width: 32, height: 32}";

fn collected(here: &Path, name: &str, seed: u64, episodes: u64) {
    let (folder, seed) =
        (format!("env.eval.data_collection.save_dir={name}"), format!("env.eval.seed={seed}"));
    let episodes = episodes.to_string();
    plaudit(
        here,
        &[
            "-q",
            "collect",
            "pickcube_scripted",
            "--episodes",
            &episodes,
            "actor.model.noise=0.1",
            "env.eval.ignore_terminations=true",
            &folder,
            &seed,
            SMALL,
        ],
    );
}

fn audit(here: &Path, words: &[&str]) -> (Option<i32>, String) {
    let all = [&["-q", "reward", "audit", "run", "held", "--stress-frames", "6"], words].concat();
    let out = Command::new(env!("CARGO_BIN_EXE_plaudit")).current_dir(here).args(all).output().unwrap();
    let text = [out.stdout, out.stderr].concat();
    (out.status.code(), String::from_utf8(text).unwrap())
}

/// From episodes to a page: a model that hardly learned is not passed, its checkpoint gets temperature and threshold and
/// keeps its weights, and what is measured with it afterwards goes by them.
#[test]
fn an_audit_is_a_page_json_an_exit_code_and_a_threshold_in_the_checkpoint() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    collected(here, "train", 1, 8);
    collected(here, "held", 2, 24);
    let small = ["actor.model.arch=resnet10", "actor.model.image_size=[3,32,32]", "runner.max_steps=6"];
    let words = ["-q", "reward", "train", "--data", "train", "runner.logger.log_path=run"];
    plaudit(here, &[&words[..], &small[..]].concat());
    let model = here.join("run/checkpoints/best_model/model.safetensors");
    let before = plaudit_nn::Weights::read(&model).unwrap();

    let (code, said) = audit(here, &["--max-fpr", "0.3", "--confidence", "0.9", "--output", "audit"]);
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("NOT PASSED") && said.contains("audit.html"), "{said}");
    is_whole(
        &here.join("audit/audit.html"),
        &["<h1>Audit: not passed", "<svg", "data:image/png", "cube covered"],
    );
    let json: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(here.join("audit/audit.json")).unwrap()).unwrap();
    assert_eq!(json["regions_known_by"], "simulator", "the scene was drawn again from its states");
    assert_eq!(json["episodes"], 24);
    assert_eq!(json["latency"].as_array().unwrap().len(), 2);

    let after = plaudit_nn::Weights::read(&model).unwrap();
    let tensors = |weights: &plaudit_nn::Weights| -> Vec<(String, Vec<u8>)> {
        weights.iter().map(|(name, tensor)| (name.to_string(), tensor.bytes().to_vec())).collect()
    };
    assert!(tensors(&before) == tensors(&after), "weights changed");
    let card = plaudit_reward::card::ModelCard::from_header(after.metadata()).unwrap().unwrap();
    assert_eq!(card.threshold, json["operating"]["threshold"].as_f64());
    assert_eq!(card.temperature, json["calibration"]["temperature"].as_f64());
    let guarantee = card.guarantee.unwrap();
    assert_eq!((guarantee.max_rate, guarantee.episodes), (0.3, 24));

    let words = ["-q", "reward", "eval", "run", "held", "--json", "--output-dir", "eval"];
    let out = Command::new(env!("CARGO_BIN_EXE_plaudit")).current_dir(here).args(words).output().unwrap();
    let eval: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(eval["metrics"]["threshold"].as_f64(), card.threshold);
    let [measured, audited] =
        [&eval["metrics"]["brier"], &json["metrics"]["brier"]].map(|one| one.as_f64().unwrap());
    assert!((measured - audited).abs() < 1e-6, "the same scores: {measured} and {audited}");

    // What cannot be promised is not, and data that was learned from is refused its say.
    let (code, said) = audit(here, &["--output", "strict", "--no-store"]);
    assert_eq!(code, Some(3));
    assert!(said.contains("24 episodes are too few to show a false-alarm rate of 0.01"), "{said}");
    let words = ["-q", "reward", "audit", "run", "train", "--output", "leak", "--stress-frames", "4"];
    let out = Command::new(env!("CARGO_BIN_EXE_plaudit")).current_dir(here).args(words).output().unwrap();
    assert_eq!(out.status.code(), Some(3));
    assert!(String::from_utf8(out.stdout).unwrap().contains("cannot be believed"));
    assert_eq!(audit(here, &["--max-fpr", "1.5"]).0, Some(2));
}
