//! `plaudit serve` as its users meet it, and `worker_type: api` against it.

use crate::runs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::runs::{command, ctrl_c, fresh_classifier, plaudit, refused};
use plaudit::build::{self, EnvBlock};
use plaudit::cli::ConfigArgs;
use plaudit::config;
use plaudit::load::RequestedConfig;
use plaudit_core::Seed;
use plaudit_nn::Weights;
use plaudit_nn::classifier::{Device, Scorer};
use plaudit_nn::images::{ImageBatch, ImageLayout, Pixels, ViewPixels};
use plaudit_reward::card::ModelCard;
use serde_json::{Value, json};

/// A model with fresh weights.
fn model(folder: &Path) -> PathBuf {
    model_of(folder, &["main_images"])
}

/// One that looks at these views.
pub(crate) fn model_of(folder: &Path, views: &[&str]) -> PathBuf {
    fresh_classifier(folder.join("best_model"), views, Some(0.5), 1)
}

/// The tiny vision-language model of the fixtures.
pub(crate) fn tiny_vlm() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../nn/tests/qwen3_vl/model")
}

/// `plaudit serve` while it runs.
pub(crate) struct Serving {
    child: Child,
    pub(crate) address: String,
}

impl Serving {
    pub(crate) fn start(folder: &Path, words: &[&str]) -> Self {
        Self::start_with(folder, words, None)
    }

    fn start_with(folder: &Path, words: &[&str], token: Option<&str>) -> Self {
        Self::start_at("0", folder, words, token)
    }

    /// Started again, where it was.
    fn start_again(address: &str, folder: &Path, words: &[&str]) -> Self {
        let (_, port) = address.rsplit_once(':').unwrap();
        Self::start_at(port, folder, words, None)
    }

    fn start_at(port: &str, folder: &Path, words: &[&str], token: Option<&str>) -> Self {
        let words: Vec<&str> =
            ["serve"].into_iter().chain(words.iter().copied()).chain(["--port", port]).collect();
        let mut command = command(folder, &words);
        command.env_remove("PLAUDIT_TOKEN").stdout(Stdio::piped()).stderr(Stdio::null());
        if let Some(token) = token {
            command.env("PLAUDIT_TOKEN", token);
        }
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening on http://").unwrap_or_else(|| panic!("{line}"));
        Self { address: address.into(), child }
    }

    pub(crate) fn send(&self, method: &str, path: &str, headers: &str, body: &[u8]) -> (u16, Vec<u8>) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let length = body.len();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{headers}Content-Length: {length}\r\n\r\n"
        );
        stream.write_all(&[head.as_bytes(), body].concat()).unwrap();
        let mut reply = Vec::new();
        stream.read_to_end(&mut reply).unwrap();
        let end = reply.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
        let status = std::str::from_utf8(&reply[9..12]).unwrap().parse().unwrap();
        (status, reply.split_off(end))
    }

    pub(crate) fn score(&self, shape: &str, body: &[u8]) -> (u16, Value) {
        let headers = format!("Content-Type: application/octet-stream\r\nX-Plaudit-Shape: {shape}\r\n");
        let (status, body) = self.send("POST", "/v1/score", &headers, body);
        (status, serde_json::from_slice(&body).unwrap())
    }

    pub(crate) fn chat(&self, request: &Value) -> (u16, Value) {
        let headers = "Content-Type: application/json\r\n";
        let (status, body) =
            self.send("POST", "/v1/chat/completions", headers, request.to_string().as_bytes());
        (status, serde_json::from_slice(&body).unwrap())
    }

    /// Ctrl-C, and how it ends.
    fn interrupt(mut self) -> std::process::ExitStatus {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([ctrl_c(), &pid]).status().unwrap().success());
        let began = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(began.elapsed() < Duration::from_secs(30), "it does not stop");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Frames of 32 x 32 that are not all the same.
pub(crate) fn frames(count: usize) -> Vec<u8> {
    (0..count * 32 * 32 * 3).map(|at| ((at * 7919 + at / 3072 * 131) % 251) as u8).collect()
}

pub(crate) fn url(frame: &[u8], side: u32) -> String {
    use std::fmt::Write as _;
    let shape = plaudit_core::FrameShape::rgb(side as usize, side as usize);
    let png = plaudit_reward::images::Png::of(shape, frame).bytes;
    // Base64 by hand: three bytes are four signs.
    const SIGNS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::from("data:image/png;base64,");
    for three in png.chunks(3) {
        let bits =
            three.iter().fold(0u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - three.len()));
        for at in 0..4 {
            let sign = SIGNS[(bits >> (18 - 6 * at) & 63) as usize] as char;
            let _ = write!(text, "{}", if at > three.len() { '=' } else { sign });
        }
    }
    text
}

#[test]
fn a_classifier_answers_frames_and_chats_with_its_own_scores() {
    let folder = tempfile::tempdir().unwrap();
    let path = model(folder.path());
    let serving = Serving::start(folder.path(), &["best_model", "--name", "judge"]);
    let pixels = frames(3);
    let weights = Weights::read(&path).unwrap();
    let card = ModelCard::from_header(weights.metadata()).unwrap().unwrap();
    let scorer = Scorer::new(&card.settings, &weights, Device::Cpu).unwrap();
    let view = ViewPixels {
        key: "main_images",
        pixels: Pixels::U8(&pixels),
        layout: ImageLayout::Hwc,
        count: 3,
        height: 32,
        width: 32,
        channels: 3,
    };
    let expected = scorer.probabilities(&ImageBatch::new(vec![view]).unwrap()).unwrap();

    let (status, body) = serving.score("3,32,32,3", &pixels);
    assert_eq!(status, 200, "{body}");
    let scores: Vec<f32> = serde_json::from_value(body["scores"].clone()).unwrap();
    for (found, expected) in scores.iter().zip(&expected) {
        assert!((found - expected).abs() < 1e-6, "{found} {expected}");
    }
    let urls: Vec<Value> = pixels
        .chunks(32 * 32 * 3)
        .map(|frame| json!({"type": "image_url", "image_url": {"url": url(frame, 32)}}))
        .collect();
    let ask = |words: &str| {
        let content: Vec<Value> =
            urls.iter().cloned().chain([json!({"type": "text", "text": words})]).collect();
        let request = json!({"model": "judge", "messages": [{"role": "user", "content": content}]});
        let (status, body) = serving.chat(&request);
        assert_eq!(status, 200, "{body}");
        body["choices"][0]["message"]["content"].as_str().unwrap().to_string()
    };
    let score: f32 = ask("How good is it?").parse().unwrap();
    assert!((score - expected[2]).abs() < 1e-4, "the last moment's");
    let trend = ask("Answer with exactly one word: positive, negative, or unclear.");
    let change = expected[2] - expected[0];
    let word = if change > 0.05 {
        "positive"
    } else if change < -0.05 {
        "negative"
    } else {
        "unclear"
    };
    assert_eq!(trend, word);

    let (status, body) = serving.score("1,3,32,32,3", &pixels);
    assert_eq!(status, 400);
    assert!(body["error"]["message"].as_str().unwrap().contains("send frames of shape N,H,W,3"), "{body}");
    assert!(serving.interrupt().success(), "Ctrl-C is a way to end it");
}

#[test]
fn a_classifier_that_looks_back_finds_its_past_in_a_chat() {
    let folder = tempfile::tempdir().unwrap();
    model_of(folder.path(), &["main_images", "main_images@-1"]);
    let serving = Serving::start(folder.path(), &["best_model", "--name", "judge"]);
    let pixels = frames(3);
    let frame = |at: usize| &pixels[at * 32 * 32 * 3..(at + 1) * 32 * 32 * 3];
    let (status, body) = serving.score("2,2,32,32,3", &[frame(2), frame(1), frame(0), frame(0)].concat());
    assert_eq!(status, 200, "{body}");
    let scores: Vec<f32> = serde_json::from_value(body["scores"].clone()).unwrap();
    assert!((scores[0] - scores[1]).abs() > 2e-4, "{scores:?} are too close");
    for (shown, expected) in [(&[0, 1, 2][..], scores[0]), (&[0], scores[1])] {
        let images =
            shown.iter().map(|at| json!({"type": "image_url", "image_url": {"url": url(frame(*at), 32)}}));
        let content: Vec<Value> = images.chain([json!({"type": "text", "text": "Good?"})]).collect();
        let (status, body) =
            serving.chat(&json!({"model": "judge", "messages": [{"role": "user", "content": content}]}));
        assert_eq!(status, 200, "{body}");
        let said: f32 = body["choices"][0]["message"]["content"].as_str().unwrap().parse().unwrap();
        assert!((said - expected).abs() < 1e-4, "{shown:?}: {said} and {expected}");
    }
}

#[test]
fn what_cannot_be_served_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    model(folder.path());
    let path = folder.path();
    let refuses = |words: &[&str], code: i32, expected: &str| {
        let words: Vec<&str> = ["serve"].into_iter().chain(words.iter().copied()).collect();
        let said = refused(path, &words, code);
        assert!(said.contains(expected), "{words:?}: {said}");
    };
    refuses(&["gone"], 2, "give a run, a checkpoint folder, or a file");
    refuses(&["best_model", "--host", "0.0.0.0"], 2, "can be reached by others, and no token");
    refuses(&["best_model", "--token-file", "gone"], 2, "cannot read gone");
    std::fs::write(path.join("empty"), "\n").unwrap();
    refuses(&["best_model", "--token-file", "empty"], 2, "holds no token");
    refuses(&["best_model", "--task", "x"], 2, "--task means nothing for an image classifier");
    refuses(&["best_model", "--image-size", "3", "64", "64"], 2, "was made with image_size: [3, 32, 32]");
    refuses(&["best_model", "--image-size", "32", "32", "--port", "0"], 2, "3 values required");
    refuses(&["best_model", "--cameras", "2"], 2, "--cameras means nothing for an image classifier");
    refuses(&["best_model", "--max-body", "256"], 2, "give --max-memory 2048 or more");
    refuses(&["best_model", "--threshold", "1.5"], 2, "give a number from 0 to 1");
    refuses(&["best_model", "--host", "localhost:80"], 2, "invalid value");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    refuses(&["best_model", "--port", &port], 1, "cannot listen on");
}

#[test]
fn a_token_from_the_environment_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    model(folder.path());
    let serving = Serving::start_with(folder.path(), &["best_model"], Some("s3cret"));
    assert_eq!(serving.send("GET", "/v1/models", "", b"").0, 401);
    assert_eq!(serving.send("GET", "/v1/models", "Authorization: Bearer s3cret\r\n", b"").0, 200);
    assert_eq!(serving.send("GET", "/healthz", "", b"").0, 200);
}

/// CartPole has no cameras; PickCube at 32 pixels, rewarded by a server.
const REWARD_SERVER_CONFIG: &str = "
env:
  train:
    env_type: embedded
    total_num_envs: 2
    max_episode_steps: 6
    max_steps_per_rollout_epoch: 8
    init_params: {id: PickCube-v1, sensor_configs: {width: 32, height: 32}}
actor:
  micro_batch_size: 16
  global_batch_size: 16
  model: {model_type: mlp_policy, add_value_head: true, obs_dim: 42, action_dim: 8}
algorithm: {loss_type: actor_critic, adv_type: gae, gamma: 0.9, update_epoch: 1}
runner: {max_epochs: 3, save_interval: 1, val_check_interval: -1, logger: {log_path: run}}
reward:
  use_reward_model: true
  worker_type: api
  reward_mode: history_buffer
  model:
    model_type: history_vlm
    soft_reward: false
    input_builder_name: qwentrend_input_builder
    input_builder_params: {video_keys: [main_images], default_task_description: Pick up the cube.}
    reward_parser_name: qwentrend_reward_parser
    history_buffers:
      history_window: {history_size: 3, min_history_size: 3, input_interval: 1, history_keys: [main_images]}
  api: {model: judge, give_up_secs: 1, timeout_secs: 30}
";

#[test]
fn a_policy_is_rewarded_by_a_server_and_a_server_that_dies_leaves_the_last_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    model(folder.path());
    std::fs::write(folder.path().join("mine.yaml"), REWARD_SERVER_CONFIG).unwrap();
    let serving = Serving::start(folder.path(), &["best_model", "--name", "judge"]);
    let base = format!("reward.api.api_base=http://{}/v1", serving.address);
    for (mode, name) in [("history_buffer", "windows"), ("potential", "votes")] {
        let output = plaudit(
            folder.path(),
            &[
                "train",
                "mine.yaml",
                &base,
                &format!("reward.reward_mode={mode}"),
                &format!("runner.logger.log_path={name}"),
                "--json",
            ],
        );
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let numbers: Value = serde_json::from_slice(&output.stdout).unwrap();
        let said: f64 = ["positive", "negative", "unclear"]
            .iter()
            .map(|word| numbers[format!("reward/model/{word}")].as_f64().unwrap())
            .sum();
        assert!(said > 0.3, "{numbers}");
        assert_eq!(numbers["reward/model/invalid"].as_f64(), Some(0.0), "{numbers}");
    }
    // The server dies between steps, in a run that saves nothing by itself.
    let words = ["train", "mine.yaml", &base, "runner.max_epochs=100000", "runner.save_interval=-1"];
    let mut child =
        command(folder.path(), &words).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let events = folder.path().join("run/events.jsonl");
    runs::wait_for(&events);
    let began = Instant::now();
    while !std::fs::read_to_string(&events).unwrap().contains("\"metrics\"") {
        assert!(began.elapsed() < Duration::from_secs(60), "no step is taken");
        std::thread::sleep(Duration::from_millis(5));
    }
    drop(serving);
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1), "{said}");
    assert!(said.contains("does not answer") && said.contains("trying again for up to 1 s"), "{said}");
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("gave no answer in"), "{said}");
    assert!(said.contains("the last good checkpoint is"), "{said}");
    let saved = std::fs::read_dir(folder.path().join("run/checkpoints")).unwrap();
    assert!(saved.count() > 0, "what was learned is saved before it leaves");
}

/// PickCube at 32 pixels, rewarded by an image classifier.
pub(crate) const FRAME_REWARD_CONFIG: &str = "
env:
  train:
    env_type: embedded
    total_num_envs: 3
    max_episode_steps: 6
    max_steps_per_rollout_epoch: 8
    init_params: {id: PickCube-v1, sensor_configs: {width: 32, height: 32}}
actor:
  micro_batch_size: 24
  global_batch_size: 24
  model: {model_type: mlp_policy, add_value_head: true, obs_dim: 42, action_dim: 8}
algorithm: {loss_type: actor_critic, adv_type: gae, gamma: 0.9, update_epoch: 1}
runner: {max_epochs: 6, save_interval: -1, val_check_interval: -1, logger: {log_path: run}}
reward: {use_reward_model: true, use_reward_prob: true}
";

/// What rewards a policy: the model itself, or the server that has it.
pub(crate) fn rewarded_by(source: &str) -> [String; 2] {
    match source.contains("://") {
        true => ["reward.worker_type=api".into(), format!("reward.api.api_base={source}")],
        false => ["reward.worker_type=local".into(), format!("reward.model.model_path={source}")],
    }
}

/// The reward columns of two rollouts, the second of which begins in the middle of an episode.
pub(crate) fn columns(folder: &Path, source: &str, words: &[&str]) -> Vec<plaudit_core::RewardColumn> {
    let file = folder.join("mine.yaml").to_str().unwrap().to_string();
    let further = words.iter().map(ToString::to_string);
    let words = [file].into_iter().chain(rewarded_by(source)).chain(further).collect();
    let asked = RequestedConfig::from_args(&ConfigArgs { words, ..ConfigArgs::default() }).unwrap();
    let loaded = config::load(&asked.disk, &asked.request).unwrap();
    let mut env = build::env(&loaded, EnvBlock::Train).unwrap();
    let reward = build::reward(&loaded, env.spec()).unwrap().reward;
    env.set_frames_needed(build::frames_needed(&loaded, EnvBlock::Train, &*reward, false));
    let mut policy = plaudit_env::RandomPolicy::new(env.spec().actions.clone());
    let mut rollout = plaudit_rl::Rollout::start(&mut *env, Seed::new(1), reward.context()).unwrap();
    let mut column = |steps| reward.label(&rollout.play(&mut policy, steps).unwrap().segment).unwrap();
    vec![column(8), column(40)]
}

#[test]
fn a_served_classifier_gives_the_same_reward_column_as_a_local_one() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("mine.yaml"), FRAME_REWARD_CONFIG).unwrap();
    for views in [&["main_images"][..], &["main_images", "main_images@-2"]] {
        let local = model_of(folder.path(), views);
        let serving = Serving::start(folder.path(), &["best_model", "--max-batch", "7"]);
        for words in [
            &["reward.reward_mode=per_step"][..],
            &["reward.reward_mode=terminal", "reward.reward_type=binary"],
            &["reward.reward_mode=potential", "reward.reward_threshold=0"],
        ] {
            let [local, served] = [local.to_str().unwrap(), &format!("http://{}/v1", serving.address)]
                .map(|source| columns(folder.path(), source, words));
            for (local, served) in local.iter().zip(&served) {
                let bits =
                    |numbers: &[f32]| numbers.iter().map(|number| number.to_bits()).collect::<Vec<_>>();
                assert_eq!(bits(&local.total), bits(&served.total), "{views:?} {words:?}");
                assert_eq!((&local.success, &local.terms), (&served.success, &served.terms));
            }
        }
    }
}

/// The newest step that a run has logged.
fn logged_steps(run: &Path) -> usize {
    let events = std::fs::read_to_string(run.join("events.jsonl")).unwrap_or_default();
    events.lines().filter(|line| line.contains("\"metrics\"")).count()
}

fn wait_for_step(run: &Path) {
    let began = Instant::now();
    while logged_steps(run) == 0 {
        assert!(began.elapsed() < Duration::from_secs(60), "no step is taken");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_server_that_comes_back_loses_no_rollout_and_one_that_stays_away_leaves_a_run_to_resume() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    std::fs::write(here.join("mine.yaml"), FRAME_REWARD_CONFIG).unwrap();
    let local = model(here);
    let train = |words: &[&str]| {
        let words: Vec<&str> = ["train", "mine.yaml"].into_iter().chain(words.iter().copied()).collect();
        command(here, &words).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let ends = |mut child: Child| {
        let mut said = String::new();
        child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        let code = child.wait().unwrap().code();
        (code, said.replace(['│', '×'], " ").split_whitespace().collect::<Vec<_>>().join(" "))
    };
    let [_, path] = rewarded_by(local.to_str().unwrap());
    let rewarded_locally = |name: &str, steps: usize| {
        let [name, steps] = [format!("runner.logger.log_path={name}"), format!("runner.max_epochs={steps}")];
        let (code, said) = ends(train(&[&path, &name, &steps]));
        assert_eq!(code, Some(0), "{said}");
    };
    let same = |name: &str, other: &str, steps: usize| {
        assert_eq!(runs::curve(&here.join(name)), runs::curve(&here.join(other)), "{name} as {other}");
        let weights = |run: &str| runs::weights(&here.join(run), steps as u64);
        assert_eq!(weights(name), weights(other), "{name} as {other}");
    };

    // Killed in the middle, and started again.
    let serving = Serving::start(here, &["best_model"]);
    let address = serving.address.clone();
    let api = rewarded_by(&format!("http://{address}"));
    let child = train(&[&api[0], &api[1], "runner.logger.log_path=served", "runner.max_epochs=40"]);
    wait_for_step(&here.join("served"));
    drop(serving);
    std::thread::sleep(Duration::from_millis(700));
    let serving = Serving::start_again(&address, here, &["best_model"]);
    let (code, said) = ends(child);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("does not answer") && said.contains("answers again"), "{said}");
    rewarded_locally("local", 40);
    same("served", "local", 40);

    // Killed for good.
    let words = [&api[0], &api[1], "reward.api.give_up_secs=1", "runner.max_epochs=100000"];
    let child = train(&words);
    wait_for_step(&here.join("run"));
    drop(serving);
    let (code, said) = ends(child);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("gave no answer in") && said.contains("the last good checkpoint is"), "{said}");
    let (_, resume) = said.split_once("to go on: plaudit train mine.yaml ").unwrap();
    assert!(resume.contains("runner.resume_dir=run"), "{said}");
    let before = logged_steps(&here.join("run"));

    // Started again, the run goes on from there, and ends where one ends that never stopped.
    let steps = before + 4;
    let resumed = format!("runner.max_epochs={steps}");
    let words = [&api[0], &api[1], "reward.api.give_up_secs=1", resumed.as_str(), "runner.resume_dir=run"];
    let serving = Serving::start_again(&address, here, &["best_model"]);
    let (code, said) = ends(train(&words));
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(logged_steps(&here.join("run")), steps);
    drop(serving);
    rewarded_locally("uninterrupted", steps);
    same("run", "uninterrupted", steps);
}

#[test]
fn a_server_that_comes_back_with_another_model_stops_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    std::fs::write(here.join("mine.yaml"), FRAME_REWARD_CONFIG).unwrap();
    model(here);
    let serving = Serving::start(here, &["best_model"]);
    let address = serving.address.clone();
    let api = rewarded_by(&format!("http://{address}"));
    let words = ["train", "mine.yaml", &api[0], &api[1], "runner.max_epochs=100000"];
    let child = command(here, &words).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for_step(&here.join("run"));
    drop(serving);
    let changed = ["best_model", "--threshold", "0.25"];
    let _serving = Serving::start_again(&address, here, &changed);
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let said = said.replace(['│', '×'], " ").split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("was started again with another model"), "{said}");
    assert!(said.contains("the last good checkpoint is"), "{said}");
}

/// Run by hand, or wherever `PLAUDIT_OPENAI_PYTHON` names an interpreter that has the `openai` package.
#[test]
fn the_real_openai_client_is_understood() {
    let Some(python) = std::env::var_os("PLAUDIT_OPENAI_PYTHON") else {
        eprintln!("skipped: PLAUDIT_OPENAI_PYTHON names no interpreter with the openai package");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    model(folder.path());
    let serving = Serving::start_with(folder.path(), &["best_model", "--name", "judge"], Some("s3cret"));
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/serve/openai_client.py");
    let output = Command::new(python).arg(script).args([&serving.address, "s3cret"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "all understood");
}
