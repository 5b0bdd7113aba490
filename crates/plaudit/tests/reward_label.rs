//! `plaudit reward label` as a person and a bench meet it, with models whose weights are fresh.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Output;

use plaudit_core::Seed;
use plaudit_pyfiles::{Array, PickleStyle, PyValue, write_pickle};
use serde_json::Value;

use crate::runs::{fresh_classifier, on_one_line, plaudit, refused, succeeds};

const SIDE: usize = 16;
const EPISODES: usize = 6;
const LENGTH: usize = 20;
const MAIN: &[&str] = &["main_images"];

/// Episodes that end in success: noise with a bright square, on the left before and on the right after.
fn write_episodes(folder: &Path, cameras: &[&str], has_labels: bool) {
    std::fs::create_dir_all(folder).unwrap();
    for episode in 0..EPISODES {
        let success = |at: usize| at >= 12;
        let seen = |at: usize| {
            let image = |camera: usize| {
                let mut rng = Seed::new(4).index((episode * LENGTH + at) as u64).index(camera as u64).rng();
                let mut pixels: Vec<u8> = (0..SIDE * SIDE * 3).map(|_| rng.below(90) as u8).collect();
                let left = if success(at) { 10 } else { 1 };
                (5..10).for_each(|row| pixels[(row * SIDE + left) * 3..][..15].fill(240));
                Array::from_slice(&[SIDE, SIDE, 3], &pixels).unwrap().into()
            };
            PyValue::dict(cameras.iter().enumerate().map(|(camera, name)| (*name, image(camera))))
        };
        let info = |at: usize| match has_labels {
            true => PyValue::dict([("success", success(at).into())]),
            false => PyValue::dict::<&str>([]),
        };
        let value = PyValue::dict([
            ("observations", PyValue::list((0..LENGTH).map(seen))),
            ("infos", PyValue::list((0..LENGTH).map(info))),
        ]);
        write_pickle(folder.join(format!("episode_{episode}.pkl")), &value, PickleStyle::default()).unwrap();
    }
}

/// A folder with `run`, which has a second model, and the episodes `play`.
fn bench(cameras: &[&str]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    write_episodes(&folder.path().join("play"), cameras, true);
    let checkpoints = folder.path().join("run/checkpoints");
    fresh_classifier(checkpoints.join("best_model"), cameras, Some(0.5), 1);
    fresh_classifier(checkpoints.join("second_model"), cameras, Some(0.5), 2);
    folder
}

fn label(here: &Path, words: &[&str]) -> Output {
    plaudit(here, &[&["reward", "label"], words].concat())
}

fn result(output: &Output) -> Value {
    assert!(output.status.success(), "{}", on_one_line(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn names(folder: &Path) -> BTreeSet<String> {
    let files = std::fs::read_dir(folder).unwrap();
    files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect()
}

/// Every answer that stands in a journal: its purpose and its frame.
fn journal(folder: &Path) -> Vec<(String, u64)> {
    let text = std::fs::read_to_string(folder.join("answers.jsonl")).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let answer = |line: Value| {
        let answer = line.get("answer")?;
        Some((answer["purpose"].as_str()?.to_string(), answer["frame"].as_u64()?))
    };
    lines.filter_map(answer).collect()
}

#[test]
fn recorded_labels_answer_stop_at_the_count_and_are_gone_on_with() {
    let folder = bench(MAIN);
    let here = folder.path();
    let words = ["run", "play", "--annotator", "recorded", "--output-dir", "labels", "--json", "--count"];
    let first = result(&label(here, &[&words[..], &["10"]].concat()));
    assert_eq!(first["ended"], "count");
    assert_eq!(first["second_model"], "run/checkpoints/second_model");
    let labels = &first["labels"];
    assert_eq!(labels["successes"].as_u64().unwrap() + labels["failures"].as_u64().unwrap(), 10);
    assert_eq!(labels["checks"], 5 - 1, "every third question, and the last is a label");
    let whole = tempfile::tempdir().unwrap();
    let elsewhere = whole.path().to_str().unwrap();
    let again = result(&label(here, &[&words[..], &["24"]].concat()));
    let words =
        ["run", "play", "--annotator", "recorded", "--output-dir", elsewhere, "--json", "--count", "24"];
    let at_once = result(&label(here, &words));
    assert_eq!(again["labels"], at_once["labels"], "in two pieces as in one");
    assert_eq!(journal(&here.join("labels")), journal(whole.path()));
    let images: BTreeSet<String> =
        ["success", "failure"].into_iter().flat_map(|name| names(&here.join("labels").join(name))).collect();
    let of = |purpose: &str| -> BTreeSet<String> {
        let asked = journal(&here.join("labels")).into_iter().filter(|(what, _)| what == purpose);
        asked.map(|(_, frame)| format!("{frame:06}.png")).collect()
    };
    assert_eq!((images.len(), &images), (24, &of("train")));
    assert!(images.is_disjoint(&of("check")), "checks never train");
    let text = succeeds(
        here,
        &["reward", "label", "run", "play", "--annotator", "recorded", "-o", "labels", "--count", "24"],
    );
    for said in ["of frames like these, with confidence 0.95", "plaudit reward train --from run --add labels"]
    {
        assert!(text.contains(said), "`{said}` is not in: {text}");
    }
}

/// The labelled folder is training data as it is, also of two cameras, and the new model goes on in the same folder.
#[test]
fn a_model_learns_from_labels_and_goes_on() {
    let cameras = ["main_images", "extra_view_images"];
    let folder = bench(&cameras);
    let here = folder.path();
    let small = [
        "data.data_path=play",
        "runner.max_steps=2",
        "runner.val_check_interval=1",
        "actor.micro_batch_size=8",
        "actor.global_batch_size=8",
    ];
    let words = ["run", "play", "--annotator", "recorded", "-o", "labels", "--json", "--count", "25"];
    let found = result(&label(here, &[&words[..], &["--retrain-every", "12"], &small].concat()));
    assert_eq!(found["model"], "labels/models/after_24");
    assert_eq!(found["second_model"], "labels/models/after_24/checkpoints/second_model");
    assert_eq!(names(&here.join("labels/models")), ["after_12", "after_24"].map(String::from).into());
    assert!(names(&here.join("labels/success")).iter().any(|name| name.ends_with("@extra_view_images.png")));
    // The same by commands.
    let train = ["reward", "train", "--from", "run", "--add", "labels", "runner.logger.log_path=better"];
    succeeds(here, &[&train[..], &small].concat());
    let words = ["better", "play", "--annotator", "recorded", "-o", "labels", "--json", "--count", "30"];
    let found = result(&label(here, &words));
    assert_eq!(found["second_model"], "better/checkpoints/second_model");
    assert!(found["labels"]["checks"].as_u64().unwrap() > 10);
}

#[test]
fn labelling_ends_when_the_model_is_wrong_rarely_enough() {
    let folder = bench(MAIN);
    let words = ["run", "play", "--annotator", "recorded", "-o", "labels", "--json", "--max-error", "0.9"];
    let found = result(&label(folder.path(), &words));
    assert_eq!(found["ended"], "bound_met");
    assert!(found["labels"]["error_bound"].as_f64().unwrap() <= 0.9);
    let words = ["run", "play", "--annotator", "recorded", "-o", "all", "--json", "--max-error", "0.000001"];
    assert_eq!(result(&label(folder.path(), &words))["ended"], "all_asked");
}

#[test]
fn without_a_second_model_the_threshold_alone_counts() {
    let folder = bench(MAIN);
    std::fs::remove_dir_all(folder.path().join("run/checkpoints/second_model")).unwrap();
    let words = ["run", "play", "--annotator", "recorded", "-o", "labels", "--json", "--count", "3"];
    let output = label(folder.path(), &words);
    assert_eq!(result(&output)["second_model"], Value::Null);
    let said = on_one_line(&output.stderr);
    assert!(said.contains("no second model lies beside run") && said.contains("--second MODEL"), "{said}");
}

#[test]
fn what_cannot_be_labelled_is_refused_with_what_to_do() {
    let folder = bench(MAIN);
    let here = folder.path();
    write_episodes(&here.join("unlabelled"), MAIN, false);
    write_episodes(&here.join("fewer"), MAIN, true);
    std::fs::remove_file(here.join("fewer/episode_0.pkl")).unwrap();
    fresh_classifier(here.join("stack"), &["main_images", "main_images@-2"], None, 3);
    fresh_classifier(here.join("two"), &["main_images", "extra_view_images"], None, 3);
    let begun = ["run", "play", "--annotator", "recorded", "-o", "begun", "-q", "--count", "2"];
    assert!(label(here, &begun).status.success());
    let recorded = ["--annotator", "recorded", "-o", "labels"];
    let cases: &[(&[&str], &[&str])] = &[
        (&["run", "play"], &["asked for in a terminal", "--annotator recorded"]),
        (&["none", "play", "--annotator", "recorded"], &["none"]),
        (&["run", "nowhere", "--annotator", "recorded"], &["nowhere does not exist"]),
        (&["run", "play", "--second", "none", "--annotator", "recorded"], &["none"]),
        (
            &["run", "play", "--second", "run", "--annotator", "recorded"],
            &["never disagrees with itself", "--second"],
        ),
        (
            &["run", "play", "--second", "two", "--annotator", "recorded"],
            &["extra_view_images", "same cameras"],
        ),
        (&["run", "unlabelled", "--annotator", "recorded"], &["does not say which frames show success"]),
        (&["two", "play", "--annotator", "recorded"], &["extra_view_images", "no observation has an image"]),
        (&["stack", "play", "--annotator", "recorded"], &["stacks past frames", "single-frame"]),
        (&["http://127.0.0.1:1", "play", "--annotator", "recorded"], &["is a server"]),
        (&["run", "play", "--annotator", "recorded", "--confidence", "1"], &["--confidence is 1"]),
        (
            &["run", "play", "--annotator", "recorded", "--check-every", "1"],
            &["leaves no question to train on"],
        ),
        (
            &["run", "play", "other", "--annotator", "recorded", "--retrain-every", "2"],
            &["`other` is no setting"],
        ),
        (
            &["run", "fewer", "--annotator", "recorded", "-o", "begun"],
            &[
                "answers to other questions",
                "play (120 frames) there, fewer (100 frames) here",
                "--output-dir",
            ],
        ),
        (
            &["run", "play", "--annotator", "recorded", "-o", "begun", "--seed", "7"],
            &["seed: 1 there, 7 here"],
        ),
    ];
    for (words, expected) in cases {
        let own: &[&str] = if words.contains(&"-o") { &[] } else { &recorded[2..] };
        let said = refused(here, &[&["reward", "label"], *words, own].concat(), 2);
        for words_said in *expected {
            assert!(said.contains(words_said), "{words:?}: `{words_said}` is not in: {said}");
        }
    }
}

/// A person at a pseudo-terminal: frames appear, keys answer, and an answer can be taken back. The data has no labels.
#[cfg(unix)]
#[test]
fn a_person_answers_by_keys() {
    use std::fs::File;
    use std::io::{Read, Write};
    use std::process::Stdio;
    use std::sync::{Arc, Mutex};
    use std::time::{Duration, Instant};

    use crate::runs::command;

    let folder = bench(MAIN);
    let here = folder.path();
    write_episodes(&here.join("unlabelled"), MAIN, false);
    let size = nix::pty::Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
    let terminal = nix::pty::openpty(&size, None).unwrap();
    let mut person = File::from(terminal.master);
    let screen = Arc::new(Mutex::new(Vec::new()));
    let child = command(here, &["reward", "label", "run", "unlabelled", "-o", "labels", "--count", "9"])
        .stdin(Stdio::from(terminal.slave.try_clone().unwrap()))
        .stderr(Stdio::from(terminal.slave))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut shown, kept) = (person.try_clone().unwrap(), screen.clone());
    std::thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(count @ 1..) = shown.read(&mut bytes) {
            kept.lock().unwrap().extend_from_slice(&bytes[..count]);
        }
    });
    let text = || String::from_utf8_lossy(&screen.lock().unwrap()).into_owned();
    let wait_for = |questions: usize| {
        let began = Instant::now();
        while text().matches("q enough").count() < questions {
            assert!(began.elapsed() < Duration::from_secs(60), "no question {questions}: {}", text());
            std::thread::sleep(Duration::from_millis(10));
        }
    };
    // A slip is taken back; then success, failure, a check, a skipped question, a key that means nothing, success.
    for (at, key) in ["a", "u", "c", "a", "a", " ", "x", "c"].iter().enumerate() {
        wait_for(if at < 7 { at + 1 } else { at });
        person.write_all(key.as_bytes()).unwrap();
    }
    wait_for(8);
    person.write_all(b"q").unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", text());
    let (said, result) = (text(), on_one_line(&output.stdout));
    assert!(said.contains("▀") && said.contains("\x1b[38;2;"), "frames are shown");
    assert!(said.contains("second model 0.") && said.contains("never trained on"), "{said}");
    assert!(result.contains("3: 2 success, 1 failure, 1 skipped"), "{result}");
    assert!(result.contains("stopped; the same command goes on"), "{result}");
    let answers = journal(&here.join("labels"));
    assert_eq!(answers[0].1, answers[1].1, "the question whose answer was taken back is asked again");
    assert_eq!(["success", "failure"].map(|name| names(&here.join("labels").join(name)).len()), [2, 1]);
}
