//! A vision-language model behind `plaudit serve`: how it is asked, what it costs, and what its options do.

use std::time::{Duration, Instant};

use crate::serve::{Serving, columns, frames, tiny_vlm, url};
use serde_json::{Value, json};

#[test]
fn a_vision_language_model_answers_in_words_and_by_label() {
    let folder = tempfile::tempdir().unwrap();
    let vlm = tiny_vlm();
    let task = "Pick up the red cube.";
    let serving = Serving::start(folder.path(), &[vlm.to_str().unwrap(), "--name", "tiny", "--task", task]);
    let frames: Vec<u8> = (0..2 * 4 * 64 * 64 * 3).map(|at| (at * 31 % 256) as u8).collect();
    let (status, body) = serving.score("1,2,4,64,64,3", &frames);
    assert_eq!((status, &body["columns"]), (200, &json!(["positive", "negative", "unclear"])), "{body}");
    let sum: f64 = body["scores"][0].as_array().unwrap().iter().map(|p| p.as_f64().unwrap()).sum();
    assert!((sum - 1.0).abs() < 1e-5, "{body}");

    let content = json!([
        {"type": "image_url", "image_url": {"url": url(&frames[..64 * 64 * 3], 64)}},
        {"type": "text", "text": "positive or negative?"},
    ]);
    let request = json!({
        "model": "tiny",
        "messages": [{"role": "user", "content": content}],
        "max_tokens": 3,
        "logprobs": true,
        "top_logprobs": 5,
    });
    let (status, body) = serving.chat(&request);
    assert_eq!(status, 200, "{body}");
    let usage = &body["usage"];
    assert!(
        usage["prompt_tokens"].as_u64().unwrap() > 5 && usage["completion_tokens"].as_u64().unwrap() <= 3
    );
    let top = body["choices"][0]["logprobs"]["content"][0]["top_logprobs"].as_array().unwrap();
    let logprobs: Vec<f64> = top.iter().map(|token| token["logprob"].as_f64().unwrap()).collect();
    assert_eq!(logprobs.len(), 5);
    assert!(logprobs.windows(2).all(|pair| pair[0] >= pair[1]) && logprobs[0] < 0.0, "{logprobs:?}");
    let (status, body) = serving.score("3,32,32,3", &frames[..3 * 32 * 32 * 3]);
    assert_eq!((status, body["error"]["code"].as_str()), (400, Some("invalid_request")), "{body}");
}

#[test]
fn options_of_a_chat_are_honoured() {
    let folder = tempfile::tempdir().unwrap();
    let vlm = tiny_vlm();
    let serving = Serving::start(folder.path(), &[vlm.to_str().unwrap(), "--name", "tiny"]);
    let ask = |more: Value| {
        let mut request =
            json!({"model": "tiny", "max_tokens": 8, "messages": [{"role": "user", "content": "Well?"}]});
        for (key, value) in more.as_object().unwrap() {
            request[key] = value.clone();
        }
        let (status, body) = serving.chat(&request);
        assert_eq!(status, 200, "{body}");
        body
    };
    let said = |body: &Value| body["choices"][0]["message"]["content"].as_str().unwrap().to_string();
    // Greedy answers repeat; sampled ones are drawn anew, unless there is a seed.
    let greedy = said(&ask(json!({})));
    assert_eq!(said(&ask(json!({}))), greedy);
    let drawn: std::collections::BTreeSet<String> =
        (0..6).map(|_| said(&ask(json!({"temperature": 1.0})))).collect();
    assert!(drawn.len() > 1, "{drawn:?}");
    let seeded = |seed: i64| said(&ask(json!({"temperature": 1.0, "seed": seed})));
    assert_eq!(seeded(7), seeded(7));
    assert!((0..6).any(|seed| seeded(seed) != seeded(7)));
    assert_eq!(said(&ask(json!({"temperature": 1.0, "top_p": 1e-6}))), greedy, "a nucleus of one");
    let several = ask(json!({"temperature": 1.0, "n": 3, "seed": 1}));
    assert_eq!(several["choices"].as_array().unwrap().len(), 3);
    assert_eq!(several["choices"][2]["index"], 2);
    // Every token has its own log-probability, and the drawn one is told, likely or not.
    let body = ask(json!({"temperature": 2.0, "seed": 3, "logprobs": true, "top_logprobs": 2}));
    let tokens = body["choices"][0]["logprobs"]["content"].as_array().unwrap();
    assert_eq!(tokens.len() as u64, body["usage"]["completion_tokens"].as_u64().unwrap());
    let text: String = tokens.iter().map(|token| token["token"].as_str().unwrap()).collect();
    assert_eq!(text, said(&body));
    let is_top = |token: &Value| {
        token["top_logprobs"].as_array().unwrap().iter().any(|top| top["token"] == token["token"])
    };
    assert!(tokens.iter().any(|token| !is_top(token)), "{body}");
    assert!(tokens.iter().all(|token| token["top_logprobs"].as_array().unwrap().len() == 2));
    // A stop ends the answer before it; a bias forces a token.
    let stop: String = greedy.chars().skip(1).take(2).collect();
    let stopped = ask(json!({"stop": [stop]}));
    assert_eq!(said(&stopped), greedy[..greedy.find(&stop).unwrap()]);
    assert_eq!(stopped["choices"][0]["finish_reason"], "stop");
    let forced = ask(json!({"logit_bias": {"40": 100}, "max_tokens": 3, "logprobs": true}));
    let tokens = forced["choices"][0]["logprobs"]["content"].as_array().unwrap();
    assert!(
        tokens
            .iter()
            .all(|token| token["token"] == tokens[0]["token"] && token["logprob"].as_f64().unwrap() > -1e-3)
    );
    let varied = ask(
        json!({"logit_bias": {"40": 4}, "frequency_penalty": 2.0, "presence_penalty": 2.0, "logprobs": true}),
    );
    let tokens = varied["choices"][0]["logprobs"]["content"].as_array().unwrap();
    assert!(tokens.iter().any(|token| token["token"] != tokens[0]["token"]), "{varied}");
    // Labels, in logits and in log-probabilities.
    let labels = json!(["positive", "negative"]);
    let logits = softmax(&ask(json!({"label_logits": labels}))["choices"][0]["label_logits"]);
    let logprobs = ask(json!({"label_logprobs": labels}))["choices"][0]["label_logprobs"].clone();
    assert!(logprobs.as_array().unwrap().iter().all(|logprob| logprob.as_f64().unwrap() < 0.0));
    for (a, b) in logits.iter().zip(softmax(&logprobs)) {
        assert!((a - b).abs() < 1e-6);
    }
    // A stream says the same, token by token.
    let headers = "Content-Type: application/json\r\n";
    let request = json!({"model": "tiny", "max_tokens": 8, "stream": true, "messages": [{"role": "user", "content": "Well?"}]});
    let (_, body) = serving.send("POST", "/v1/chat/completions", headers, request.to_string().as_bytes());
    let body = String::from_utf8(body).unwrap();
    let events =
        body.lines().filter_map(|line| line.strip_prefix("data: ")).filter(|event| *event != "[DONE]");
    let pieces: Vec<String> = events
        .filter_map(|event| {
            serde_json::from_str::<Value>(event).unwrap()["choices"][0]["delta"]["content"]
                .as_str()
                .map(String::from)
        })
        .collect();
    assert_eq!(pieces.concat(), greedy);
    assert!(pieces.len() > 3, "{pieces:?}");
    for (more, expected) in [
        (json!({"logit_bias": {"99999": 1}}), "logit_bias: the model has no token 99999"),
        (json!({"label_logits": ["positive", "positive"]}), "begin with the same token"),
        (json!({"label_logits": ["a", "b"], "n": 2}), "n: there is one answer with label_logits"),
    ] {
        let mut request = request.clone();
        for (key, value) in more.as_object().unwrap() {
            request[key] = value.clone();
        }
        let (status, body) = serving.chat(&request);
        assert_eq!(status, 400, "{body}");
        assert!(body["error"]["message"].as_str().unwrap().contains(expected), "{body}");
    }
}

/// PickCube at 32 pixels, rewarded by a judge of two cameras.
const JUDGE_REWARD_CONFIG: &str = "
env:
  train:
    env_type: embedded
    total_num_envs: 2
    max_episode_steps: 12
    max_steps_per_rollout_epoch: 12
    init_params: {id: PickCube-v1, sensor_configs: {width: 32, height: 32, hand_camera: {}}}
actor:
  micro_batch_size: 24
  global_batch_size: 24
  model: {model_type: mlp_policy, add_value_head: true, obs_dim: 42, action_dim: 8}
algorithm: {loss_type: actor_critic, adv_type: gae, gamma: 0.9, update_epoch: 1}
runner: {max_epochs: 2, save_interval: -1, val_check_interval: -1, logger: {log_path: run}}
reward:
  use_reward_model: true
  reward_mode: history_buffer
  api: {model: judge, timeout_secs: 60, give_up_secs: 5}
  model:
    model_type: buffered_vlm
    history_buffers:
      history_window: {history_size: 5, min_history_size: 5, input_interval: 1, history_keys: [main_images, extra_view_images]}
";

/// How likely each label is, from logits.
fn softmax(logits: &Value) -> Vec<f64> {
    let powers: Vec<f64> =
        logits.as_array().unwrap().iter().map(|logit| logit.as_f64().unwrap().exp()).collect();
    let sum: f64 = powers.iter().sum();
    powers.into_iter().map(|power| power / sum).collect()
}

#[test]
fn a_tuned_judge_is_asked_as_it_was_tuned_whatever_the_route() {
    let place = crate::reward_sft::Place::new(12, 6);
    let here = place.0.path();
    std::fs::write(here.join("mine.yaml"), JUDGE_REWARD_CONFIG).unwrap();
    for layout in ["videos_first", "shared_prefix"] {
        let layout = format!("data.prompt_layout={layout}");
        let run = format!("judge_{}", layout.len());
        let words = ["runner.max_steps=6", "runner.val_check_interval=6", "runner.save_interval=-1", &layout];
        place.learned(&run, &words);
        // An audit found it too sure of itself.
        let card = here.join(&run).join("checkpoints/best_model/plaudit_judge.json");
        let mut told: Value = serde_json::from_slice(&std::fs::read(&card).unwrap()).unwrap();
        let window = json!({"cameras": 2, "frames": 5, "size": [32, 32], "sampling": "sampled", "fps": 24.0});
        assert_eq!(
            (&told["window"], &told["labels"]),
            (&window, &json!(["positive", "negative", "unclear"]))
        );
        told["label_temperature"] = json!(1.7);
        std::fs::write(&card, told.to_string()).unwrap();

        let serving = Serving::start(here, &[&run, "--name", "judge"]);
        let local = here.join(&run);
        for words in [&[][..], &["reward.reward_mode=potential"], &["reward.model.soft_reward=false"]] {
            let [local, served] = [local.to_str().unwrap(), &format!("http://{}/v1", serving.address)]
                .map(|source| columns(here, source, words));
            for (local, served) in local.iter().zip(&served) {
                // Windows are batched differently, which rounds differently.
                assert_eq!(local.total.len(), served.total.len());
                for (local, served) in local.total.iter().zip(&served.total) {
                    assert!((local - served).abs() < 1e-5, "{run} {words:?}: {local} {served}");
                }
            }
            let rewarded = local.iter().flat_map(|column| &column.total).filter(|reward| **reward != 0.0);
            assert!(words.contains(&"reward.model.soft_reward=false") || rewarded.count() > 10);
        }
        routes_agree(&serving);
    }
}

/// Frames as RLinf's worker sends them (images of the first camera, then of the next, and the words), as videos, and as bytes.
fn routes_agree(serving: &Serving) {
    let frames = frames(10);
    let (status, scored) = serving.score("1,2,5,32,32,3", &frames);
    assert_eq!(status, 200, "{scored}");
    let question = "Does the square go to the right? Answer positive, negative, or unclear.";
    let urls: Vec<String> = frames.chunks(32 * 32 * 3).map(|frame| url(frame, 32)).collect();
    let words = json!({"type": "text", "text": question});
    let images = urls.iter().map(|url| json!({"type": "image_url", "image_url": {"url": url}}));
    let images: Vec<Value> = images.chain([words.clone()]).collect();
    let base64 = |url: &String| url.split_once(',').unwrap().1.to_string();
    let videos = urls.chunks(5).map(|frames| {
        let frames: Vec<String> = frames.iter().map(base64).collect();
        let url = format!("data:video/jpeg;base64,{}", frames.join(","));
        json!({"type": "video_url", "video_url": {"url": url}})
    });
    let videos: Vec<Value> = videos.chain([words]).collect();
    for content in [images, videos] {
        let asked = json!({
            "model": "judge", "messages": [{"role": "user", "content": content}],
            "label_logits": ["positive", "negative", "unclear"],
        });
        let (status, said) = serving.chat(&asked);
        assert_eq!(status, 200, "{said}");
        let tempered: Value = said["choices"][0]["label_logits"]
            .as_array()
            .unwrap()
            .iter()
            .map(|logit| json!(logit.as_f64().unwrap() / 1.7))
            .collect();
        for (found, expected) in softmax(&tempered).iter().zip(scored["scores"][0].as_array().unwrap()) {
            assert!((found - expected.as_f64().unwrap()).abs() < 1e-6, "{said} {scored}");
        }
    }
    let odd = json!({"model": "judge", "messages": [{"role": "user", "content": [
        {"type": "image_url", "image_url": {"url": url(&frames[..32 * 32 * 3], 32)}}, {"type": "text", "text": "?"}]}]});
    let (status, body) = serving.chat(&odd);
    assert_eq!(status, 400);
    assert!(
        body["error"]["message"].as_str().unwrap().contains("1 images for a judge of 2 cameras"),
        "{body}"
    );
}

#[test]
fn several_models_are_served_by_one_process() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    crate::serve::model_of(at, &["main_images"]);
    let vlm = tiny_vlm();
    let vlm = vlm.to_str().unwrap();
    let names = ["--name", "classifier", "--name", "judge", "--name", "other judge"];
    let serving = Serving::start(at, &[&["best_model", vlm, vlm][..], &names].concat());
    let (status, body) = serving.send("GET", "/v1/models", "", b"");
    let listed: Value = serde_json::from_slice(&body).unwrap();
    let found: Vec<&str> =
        listed["data"].as_array().unwrap().iter().map(|model| model["id"].as_str().unwrap()).collect();
    assert_eq!((status, found), (200, vec!["classifier", "judge", "other judge"]));
    // Frames name their model in a header or in the address.
    let pixels = frames(2);
    let head = "Content-Type: application/octet-stream\r\nX-Plaudit-Shape: 2,32,32,3\r\n";
    let ask = |path: &str, more: &str| {
        let (status, body) = serving.send("POST", path, &format!("{head}{more}"), &pixels);
        (status, serde_json::from_slice::<Value>(&body).unwrap())
    };
    let (status, scored) = ask("/v1/score", "X-Plaudit-Model: classifier\r\n");
    assert_eq!((status, scored["scores"].as_array().unwrap().len()), (200, 2), "{scored}");
    assert_eq!(ask("/v1/score?model=classifier", "").1["scores"], scored["scores"]);
    let (status, body) = ask("/v1/score", "");
    assert_eq!(status, 400);
    let said = body["error"]["message"].as_str().unwrap();
    assert!(said.contains("X-Plaudit-Model: classifier, judge, other judge"), "{said}");
    let chat = |model: &str| {
        serving.chat(
            &json!({"model": model, "max_tokens": 4, "messages": [{"role": "user", "content": "Well?"}]}),
        )
    };
    let [(status, one), (_, other)] = ["judge", "other judge"].map(chat);
    assert_eq!(
        (status, &one["model"], &other["model"]),
        (200, &json!("judge"), &json!("other judge")),
        "{one}"
    );
    assert_eq!(one["choices"][0]["message"], other["choices"][0]["message"]);
    assert_eq!(chat("nobody").0, 404);
    // A run says which it means.
    std::fs::write(at.join("mine.yaml"), crate::serve::FRAME_REWARD_CONFIG).unwrap();
    let api = format!("reward.api.api_base=http://{}/v1", serving.address);
    let train = |words: &[&str]| {
        let all =
            [&["train", "mine.yaml", "-q", "runner.max_epochs=1", "reward.worker_type=api", &api][..], words]
                .concat();
        crate::runs::plaudit(at, &all)
    };
    let said = crate::runs::on_one_line(&train(&[]).stderr);
    assert!(said.contains("has several models, and nobody says which is meant"), "{said}");
    let output = train(&["reward.api.model=classifier"]);
    assert!(output.status.success(), "{}", crate::runs::on_one_line(&output.stderr));

    let refuses = |words: &[&str], expected: &str| {
        let said = crate::runs::refused(at, &[&["serve", "--port", "0"], words].concat(), 2);
        assert!(said.contains(expected), "{said}");
    };
    refuses(&["best_model", vlm, "--name", "one"], "1 names for 2 models");
    refuses(&["best_model", vlm, "--task", "Lift it."], "--task is for one model");
    let said =
        crate::runs::on_one_line(&crate::runs::plaudit(at, &["serve", "--port", "0", vlm, vlm]).stderr);
    assert!(said.contains("two models are called `model`"), "{said}");
}

#[test]
fn a_small_request_cannot_cost_much() {
    let folder = tempfile::tempdir().unwrap();
    let vlm = tiny_vlm();
    let serving = Serving::start(folder.path(), &[vlm.to_str().unwrap(), "--name", "tiny"]);
    let ask = |content: Value, more: &[(&str, Value)]| {
        let mut request = json!({"model": "tiny", "messages": [{"role": "user", "content": content}]});
        for (key, value) in more {
            request[*key] = value.clone();
        }
        let began = Instant::now();
        let (status, body) = serving.chat(&request);
        assert!(began.elapsed() < Duration::from_secs(20), "{body}");
        (status, body["error"]["message"].as_str().unwrap_or_default().to_string())
    };
    let text = |bytes: usize| json!([{"type": "text", "text": "as it was ".repeat(bytes / 10)}]);
    for (content, expected) in [
        (text(100_000), "the model takes 4096 in all"),
        (text(300_000), "300000 bytes of text, where 262144 are allowed"),
        (
            json!([{"type": "image_url", "image_url": {"url": url(&vec![7; 2048 * 2048 * 3], 2048)}}]),
            "2048x2048 pixels, where 4000000 pixels are allowed",
        ),
        // Two images of nearly four megapixels are 3,844 tokens each.
        (
            {
                let image = url(&vec![7; 1984 * 1984 * 3], 1984);
                let part = json!({"type": "image_url", "image_url": {"url": image}});
                json!([part, part])
            },
            "7688 of them of images",
        ),
    ] {
        let (status, message) = ask(content, &[]);
        assert_eq!(status, 413, "{message}");
        assert!(message.contains(expected), "{message}");
    }
    assert_eq!(ask(text(200), &[("max_tokens", json!(2))]).0, 200);
    // Time and memory are budgets of the server.
    let tight =
        Serving::start(folder.path(), &[vlm.to_str().unwrap(), "--name", "tiny", "--max-time", "0.000001"]);
    let asked = json!({"model": "tiny", "messages": [{"role": "user", "content": text(2000)}]});
    let (status, body) = tight.chat(&asked);
    assert_eq!(status, 413, "{body}");
    assert!(
        body["error"]["message"].as_str().unwrap().contains("s of computing, where 0.000001 s are allowed"),
        "{body}"
    );
}

/// Run by hand, or wherever `PLAUDIT_OPENAI_PYTHON` names an interpreter that has the `openai` package.
#[test]
fn the_real_openai_client_is_understood_by_a_judge() {
    let Some(python) = std::env::var_os("PLAUDIT_OPENAI_PYTHON") else {
        eprintln!("skipped: PLAUDIT_OPENAI_PYTHON names no interpreter with the openai package");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let vlm = tiny_vlm();
    let serving = Serving::start(folder.path(), &[vlm.to_str().unwrap(), "--name", "tiny"]);
    let script = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/serve/openai_judge.py");
    let output = std::process::Command::new(python).arg(script).arg(&serving.address).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "all understood");
}
