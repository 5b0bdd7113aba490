//! The server over its real socket: what it answers, what it refuses, and what clients cannot do to it.
#![allow(clippy::unwrap_used)] // a test fails by panicking

mod toy;

use std::io::{Read, Write};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use plaudit_serve::Limits;
use serde_json::{Value, json};
use toy::{Running, data_url, png};

fn asking(content: &Value) -> Value {
    json!({"model": "toy", "messages": [{"role": "user", "content": content}]})
}

fn image(url: &str) -> Value {
    json!({"type": "image_url", "image_url": {"url": url}})
}

fn window() -> Value {
    asking(&json!([
        image(&png(2, 3, [10, 0, 0])),
        image(&png(2, 3, [20, 0, 0])),
        {"type": "text", "text": "better?"},
    ]))
}

#[test]
fn a_chat_is_answered_in_the_protocols_form() {
    let server = Running::plain();
    let reply = server.chat(&window());
    assert_eq!(reply.status, 200, "{reply:?}");
    let body = reply.json();
    assert_eq!(body["object"], "chat.completion");
    assert_eq!(body["model"], "toy");
    assert!(
        body["id"].as_str().unwrap().starts_with("chatcmpl-")
            && body["created"].as_u64().unwrap() > 1_000_000
    );
    let choice = &body["choices"][0];
    assert_eq!(choice["message"]["content"], "better? | 2x3 10, 2x3 20");
    assert_eq!((&choice["finish_reason"], &choice["logprobs"]), (&json!("stop"), &Value::Null));
    assert_eq!(body["usage"], json!({"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}));

    let mut more = window();
    more["logprobs"] = true.into();
    more["top_logprobs"] = 2.into();
    more["max_tokens"] = 1.into();
    let body = server.chat(&more).json();
    assert_eq!(body["choices"][0]["finish_reason"], "length");
    let place = &body["choices"][0]["logprobs"]["content"][0];
    assert_eq!(place["top_logprobs"][0]["token"], "positive");
    assert_eq!(place["top_logprobs"][1]["logprob"], -9999.0, "JSON has no infinity");

    let mut stream = window();
    stream["stream"] = true.into();
    let reply = server.chat(&stream);
    assert!(reply.head.contains("content-type: text/event-stream"));
    let text = String::from_utf8(reply.body).unwrap();
    // Without the lines between, which say how long each chunk is.
    let events: Vec<&str> = text.lines().filter(|line| line.starts_with("data: ")).collect();
    let (end, events) = events.split_last().unwrap();
    assert_eq!(*end, "data: [DONE]");
    let events: Vec<Value> = events
        .iter()
        .map(|event| serde_json::from_str(event.strip_prefix("data: ").unwrap()).unwrap())
        .collect();
    assert_eq!(events[0]["choices"][0]["delta"], json!({"role": "assistant", "content": ""}));
    let words: Vec<&str> =
        events.iter().filter_map(|event| event["choices"][0]["delta"]["content"].as_str()).collect();
    assert_eq!((words.concat().as_str(), words.len()), ("better? | 2x3 10, 2x3 20", 7), "token by token");
    assert_eq!(events.last().unwrap()["choices"][0]["finish_reason"], "stop");
    assert!(events.iter().all(|event| event.get("usage").is_none()), "not asked for");
    stream["stream_options"] = json!({"include_usage": true});
    let text = String::from_utf8(server.chat(&stream).body).unwrap();
    assert!(text.contains(r#""choices":[]"#) && text.contains(r#""total_tokens":10"#), "{text}");
}

/// A video as vLLM takes it: frames joined by commas.
#[test]
fn a_video_is_its_frames() {
    let server = Running::plain();
    let frame = |level: u8| png(2, 3, [level, 0, 0]).split_once(',').unwrap().1.to_string();
    let video = |url: String| {
        server.chat(&asking(&json!([{"type": "video_url", "video_url": {"url": url, "fps": 4}}])))
    };
    let two = format!("data:video/jpeg;base64,{},{}", frame(1), frame(2));
    let reply = video(two.clone()).json();
    assert_eq!(reply["choices"][0]["message"]["content"], " | 2x3 1, 2x3 2");
    let other = png(1, 1, [0; 3]).split_once(',').unwrap().1.to_string();
    for (url, expected) in [
        ("http://x/film.mp4".into(), "nothing is fetched"),
        ("data:video/mp4;base64,AAAA".into(), "files of video are not read; send its frames"),
        ("data:video/jpeg;base64,????".into(), "frame 0: bad base64"),
        (format!("{two},{other}"), "frame 2 has another size"),
        (format!("data:video/jpeg;base64,{}", vec![frame(0); 65].join(",")), "more than 64 images"),
    ] {
        let reply = video(url);
        assert!(matches!(reply.status, 400 | 413) && reply.error().contains(expected), "{}", reply.error());
    }
    let reply = server.chat(&asking(&json!([{"type": "video_url", "video_url": {"url": two, "fps": 0}}])));
    assert!(reply.error().contains("video_url.fps: must be above 0"), "{}", reply.error());
}

#[test]
fn images_are_decoded_in_the_formats_clients_send() {
    let server = Running::plain();
    let jpeg = data_url("image/jpeg", include_bytes!("images/red_16x8.jpg"));
    let grey = data_url("image/png", include_bytes!("images/grey_16bit_4x2.png"));
    let palette = data_url("image/png", include_bytes!("images/palette_alpha_4x2.png"));
    let content = json!([
        image(&jpeg),
        image(&grey),
        image(&palette),
        {"type": "image_url", "image_url": png(1, 1, [7, 0, 0])},
        {"type": "text", "text": ""},
    ]);
    let text = server.chat(&asking(&content)).json()["choices"][0]["message"]["content"].clone();
    let text = text.as_str().unwrap();
    let seen: Vec<&str> = text.trim_start_matches(" | ").split(", ").collect();
    // The JPEG is as red as Pillow decodes it, within two levels.
    let red: u8 = seen[0].strip_prefix("8x16 ").unwrap().parse().unwrap();
    assert!(red.abs_diff(254) <= 2, "{red}");
    assert_eq!(seen[1..], ["2x4 128", "2x4 200", "1x1 7"]);
}

#[test]
fn frames_are_scored_as_json_or_as_bytes() {
    let server = Running::plain();
    let frames: Vec<u8> = [51u8, 255].into_iter().flat_map(|level| [level; 12]).collect();
    let body = server.score("2,2,2,3", &frames).json();
    assert_eq!(body["scores"], json!([0.2, 1.0]));
    assert_eq!((&body["success"], &body["columns"]), (&json!([false, true]), &json!(["success"])));
    let headers = ["Content-Type: application/octet-stream", "Accept: application/octet-stream"];
    let reply = server.request("POST", "/v1/score?shape=2,2,2,3", &headers, &frames);
    assert!(reply.head.contains("x-plaudit-shape: 2\r\n"), "{}", reply.head);
    let floats: Vec<f32> =
        reply.body.chunks(4).map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap())).collect();
    assert_eq!(floats, [0.2, 1.0]);
}

#[test]
fn malformed_requests_get_a_clean_refusal() {
    let server = Running::plain();
    let url = png(1, 1, [0; 3]);
    let with = |key: &str, value: Value| {
        let mut request = window();
        request[key] = value;
        request.to_string()
    };
    let part = |part: Value| asking(&json!([part])).to_string();
    let truncated = data_url("image/png", &[0x89, b'P', b'N', b'G', 13, 10, 26, 10, 0, 0]);
    for (body, status, expected) in [
        (String::new(), 400, "the body is not JSON"),
        ("{".into(), 400, "the body is not JSON"),
        ("[".repeat(100_000), 400, "the body is not JSON"),
        ("null".into(), 400, "not a JSON object"),
        ("[1]".into(), 400, "not a JSON object"),
        ("{}".into(), 400, "model: must be a string"),
        (with("model", json!("gpt")), 404, "there is no model `gpt` here, but toy"),
        (with("messages", json!([])), 400, "messages: must be a list"),
        (with("messages", json!({"role": "user"})), 400, "messages: must be a list"),
        (with("messages", json!([{"role": "robot", "content": ""}])), 400, "messages[0].role"),
        (
            with("messages", json!([{"role": "system", "content": "x"}])),
            400,
            "there is no message of the user",
        ),
        (with("messages", json!([{"role": "user"}])), 400, "messages[0].content: must be"),
        (with("messages", json!([7])), 400, "messages[0].role"),
        (with("n", json!(17)), 400, "n: must be an integer from 1 to 16"),
        (with("n", json!("two")), 400, "n: must be an integer"),
        (with("temperature", json!(-1)), 400, "temperature: must be a number from 0 to 2"),
        (with("top_p", json!(0)), 400, "top_p: must be a number above 0"),
        (with("seed", json!(1.5)), 400, "seed: must be an integer"),
        (with("stop", json!(["a", "b", "c", "d", "e"])), 400, "stop: must be a text or up to 4"),
        (with("stop", json!("")), 400, "stop: must be a text"),
        (with("logit_bias", json!({"x": 1})), 400, "logit_bias: must give up to 1024 tokens"),
        (with("logit_bias", json!({"1": 101})), 400, "logit_bias: must give"),
        (with("presence_penalty", json!(3)), 400, "presence_penalty: must be a number from -2 to 2"),
        (
            with("response_format", json!({"type": "json_object"})),
            400,
            "response_format: answers are plain text",
        ),
        (with("tools", json!([{"type": "function"}])), 400, "tools: this model calls no tools"),
        (with("tool_choice", json!("required")), 400, "tool_choice: this model calls no tools"),
        (with("audio", json!({})), 400, "audio: is no option of this server"),
        (with("top_k", json!(3)), 400, "top_k: is no option of this server"),
        (with("mm_processor_kwargs", json!({"fps": 3})), 400, "only do_sample_frames"),
        (with("label_logits", json!([])), 400, "label_logits: must be a list of 1 to 128 words"),
        (with("stream_options", json!({"x": 1})), 400, "only include_usage"),
        (with("max_tokens", json!(0)), 400, "max_tokens"),
        (with("stream", json!("yes")), 400, "stream: must be true or false"),
        (with("top_logprobs", json!(21)), 400, "top_logprobs: must be an integer from 0 to 20"),
        (with("top_logprobs", json!(5)), 400, "top_logprobs: needs logprobs: true"),
        (part(json!({"type": "text"})), 400, "messages[0].content[0].text: must be a string"),
        (part(json!({"type": "video_url"})), 400, "video_url.url: must be a string"),
        (part(json!({"type": "input_audio"})), 400, "text, image_url and video_url are understood"),
        (part(json!({})), 400, "messages[0].content[0].type"),
        (part(image("http://169.254.169.254/")), 400, "nothing is fetched"),
        (part(image("file:///etc/passwd")), 400, "nothing is fetched"),
        (part(image("data:image/png;base64")), 400, "without data"),
        (part(image("data:image/png,abc")), 400, "only base64"),
        (part(image("data:image/png;base64,????")), 400, "bad base64"),
        (part(image(&data_url("image/gif", b"GIF89a"))), 400, "neither PNG nor JPEG"),
        (part(image(&truncated)), 400, "bad PNG"),
        (part(image(&url[..url.len() - 20])), 400, "messages[0].content[0].image_url.url: bad"),
        (part(image(&data_url("image/jpeg", &[0xff, 0xd8, 0xff, 0xd9]))), 400, "bad JPEG"),
        (part(json!({"type": "image_url"})), 400, "image_url.url: must be a string"),
        (asking(&json!("no image")).to_string(), 400, "no images"),
    ] {
        let headers = ["Content-Type: application/json; charset=utf-8"];
        let reply = server.request("POST", "/v1/chat/completions", &headers, body.as_bytes());
        let shown: String = body.chars().take(120).collect();
        assert_eq!(reply.status, status, "{shown}: {reply:?}");
        assert!(reply.error().contains(expected), "{shown}: {}", reply.error());
    }
    for (shape, bytes, status, expected) in [
        ("", 12, 400, "write sizes with commas"),
        ("2,2", 12, 400, "must end in height, width and 3"),
        ("1,2,2,4", 16, 400, "must end in height, width and 3"),
        ("1,2,2,3", 11, 400, "that is 12 bytes, and 11 came"),
        ("0,2,2,3", 0, 400, "none of them 0"),
        ("1,1,1,1,2,2,3", 12, 400, "at most 3 sizes"),
        ("-1,2,2,3", 12, 400, "write sizes with commas"),
        ("4294967296,4294967296,4294967296,3", 12, 400, "too large"),
        ("1,3000,3000,3", 27_000_000, 413, "frames of 3000x3000"),
        ("5,1000,1,1,3", 15_000, 413, "5000 frames in one request, where 4096 are allowed"),
    ] {
        let reply = server.score(shape, &vec![0; bytes]);
        assert_eq!(reply.status, status, "{shape}: {reply:?}");
        assert!(reply.error().contains(expected), "{shape}: {}", reply.error());
    }
    assert_eq!(server.chat(&window()).status, 200, "and it still answers");
}

#[test]
fn routes_methods_and_types_are_checked() {
    let limits = Limits { header_time: Duration::from_millis(500), ..Limits::default() };
    let server = Running::start(limits, None, Duration::ZERO);
    let reply = server.request("GET", "/v1/nothing", &[], b"");
    assert_eq!((reply.status, reply.error().contains("/v1/nothing")), (404, true));
    let reply = server.request("GET", "/v1/chat/completions", &[], b"");
    assert_eq!((reply.status, reply.head.contains("allow: post")), (405, true), "{}", reply.head);
    assert_eq!(server.request("DELETE", "/v1/models", &[], b"").status, 405);
    assert_eq!(
        server.request("OPTIONS", "/v1/score", &[], b"").status,
        405,
        "no other site may ask for its reader"
    );
    assert_eq!(server.request("POST", "/v1/score", &["Content-Type: text/plain"], b"").status, 415);
    assert_eq!(server.request("POST", "/v1/chat/completions", &[], b"{}").status, 415);
    let reply = server.request("POST", "/v1/score", &["Content-Type: application/octet-stream"], b"");
    assert!(reply.error().contains("X-Plaudit-Shape"));
    assert_eq!(server.request("GET", "/v1/models", &[], b"").json()["data"][0]["id"], "toy");
    assert_eq!(server.request("GET", "/v1/models/toy", &[], b"").json()["id"], "toy");
    assert_eq!(server.request("GET", "/v1/models/t%6Fy", &[], b"").status, 200);
    assert_eq!(
        server.request("GET", "/v1/models/gpt%2F4", &[], b"").error(),
        "there is no model `gpt/4` here, but toy"
    );
    let head = server.request("HEAD", "/v1/models", &[], b"");
    assert_eq!((head.status, head.body.len()), (200, 0));
    assert_eq!(server.request("HEAD", "/health", &[], b"").status, 200);
    assert_eq!(server.request("HEAD", "/v1/score", &[], b"").status, 405);
    assert_eq!(
        server.request("GET", "/healthz", &[], b"").json(),
        json!({"status": "ok", "model": "toy", "models": ["toy"]})
    );
    for nonsense in [
        "\r\n\r\n",
        "GET\r\n\r\n",
        "\0\0\0\0",
        "GET / HTTP/9.9\r\n\r\n",
        "POST /v1/score HTTP/1.1\r\nContent-Length: -5\r\n\r\n",
    ] {
        let reply = server.send(nonsense.as_bytes());
        assert!(reply.status == 0 || (400..500).contains(&reply.status), "{nonsense:?}: {reply:?}");
    }
    let many = format!("GET /healthz HTTP/1.1\r\n{}\r\n", "X: y\r\n".repeat(10_000));
    assert!(matches!(server.send(many.as_bytes()).status, 0 | 431));
    let page = String::from_utf8(server.request("GET", "/metrics", &[], b"").body).unwrap();
    assert!(page.contains("plaudit_requests_total{route=\"/v1/score\",status=\"415\"} 1"), "{page}");
    assert!(page.contains("plaudit_requests_total{route=\"other\",status=\"404\"} 1"), "{page}");
}

#[test]
fn every_route_but_healthz_needs_the_token() {
    let server = Running::start(Limits::default(), Some("s3cret"), Duration::ZERO);
    let with = |header: &str| server.request("GET", "/v1/models", &[header], b"").status;
    assert_eq!(with("Authorization: Bearer s3cret"), 200);
    assert_eq!(with("authorization: bearer s3cret"), 200);
    for wrong in [
        "X: y",
        "Authorization: Bearer s3cre",
        "Authorization: Bearer s3cret2",
        "Authorization: s3cret",
        "Authorization: Basic s3cret",
    ] {
        assert_eq!(with(wrong), 401, "{wrong}");
    }
    let reply = server.request("GET", "/nothing", &[], b"");
    assert_eq!((reply.status, reply.head.contains("www-authenticate: bearer")), (401, true));
    assert_eq!(server.request("GET", "/healthz", &[], b"").status, 200);
    assert_eq!(server.request("GET", "/metrics", &[], b"").status, 401);
}

#[test]
fn bodies_and_images_have_limits() {
    let limits = Limits { body_bytes: 10_000, image_pixels: 100, images: 3, ..Limits::default() };
    let server = Running::start(limits, None, Duration::ZERO);
    let reply = server.chat(&asking(&json!([image(&png(11, 10, [0; 3]))])));
    assert_eq!(reply.status, 413);
    assert!(reply.error().contains("11x10 pixels, where 100 pixels are allowed"), "{}", reply.error());
    let four: Vec<_> = (0..4).map(|_| image(&png(1, 1, [0; 3]))).collect();
    assert_eq!(server.chat(&asking(&json!(four))).status, 413);
    // A head that promises too much is refused before anything of it is read.
    let head = "POST /v1/score HTTP/1.1\r\nConnection: close\r\nContent-Type: application/octet-stream\r\nX-Plaudit-Shape: 1\r\n\
                Content-Length: 99999999999\r\n\r\n";
    let reply = server.send(head.as_bytes());
    assert_eq!((reply.status, reply.error().contains("10000 bytes")), (413, true));
    // One that promises nothing is cut off.
    let mut chunked =
        "POST /v1/score HTTP/1.1\r\nConnection: close\r\nContent-Type: application/octet-stream\r\nX-Plaudit-Shape: 1\r\n\
                       Transfer-Encoding: chunked\r\n\r\n"
            .to_string();
    for _ in 0..11 {
        chunked += &format!("3e8\r\n{}\r\n", "x".repeat(1000));
    }
    chunked += "0\r\n\r\n";
    assert_eq!(server.send(chunked.as_bytes()).status, 413);
    // A PNG that says it is small and inflates to more than it says.
    let bomb = data_url("image/png", include_bytes!("images/bomb.png"));
    let reply = server.chat(&asking(&json!([image(&bomb)])));
    assert_eq!(reply.status, 400, "{reply:?}");
    // Each value takes many times its bytes once it is parsed; what stands in a text is none.
    let server = Running::plain();
    let ask = |body: String| {
        server.request("POST", "/v1/chat/completions", &["Content-Type: application/json"], body.as_bytes())
    };
    let reply = ask(format!(r#"{{"model":"toy","messages":[{}0]}}"#, "0,".repeat(200_000)));
    assert_eq!((reply.status, reply.error().contains("values, where 131072 are allowed")), (413, true));
    let reply = ask(asking(&json!(r#"",[{:"#.repeat(40_000))).to_string());
    assert!(reply.error().contains("no images"), "{reply:?}");
}

#[test]
fn memory_has_a_limit_over_all_requests() {
    let limits = Limits { memory_bytes: 64 << 10, work_bytes: 100, ..Limits::default() };
    let server = Running::start(limits, None, Duration::ZERO);
    let reply = server.score("1,200,200,3", &[0; 120_000]);
    assert_eq!((reply.status, reply.head.contains("retry-after")), (413, false), "{}", reply.error());
    assert!(reply.error().contains("as sent and decoded"), "{}", reply.error());
    assert_eq!(server.score("1,100,100,3", &[0; 30_000]).status, 200);
    // The toy's work costs a byte for each letter.
    let asked = |letters: usize| {
        let words = json!({"type": "text", "text": "x".repeat(letters)});
        server.chat(&asking(&json!([image(&png(1, 1, [0; 3])), words])))
    };
    assert_eq!(asked(100).status, 200);
    let reply = asked(101);
    assert_eq!(reply.status, 413);
    assert!(reply.error().contains("would need about 1 MiB"), "{}", reply.error());
}

/// A request that promises much and sends nothing.
const STALLED: &[u8] =
    b"POST /v1/score HTTP/1.1\r\nConnection: close\r\nContent-Type: application/octet-stream\r\n\
                         X-Plaudit-Shape: 1,4000,4000,3\r\nContent-Length: 48000000\r\n\r\n";

#[test]
fn bodies_that_stall_hold_nothing_and_are_cut_off() {
    let limits = Limits { memory_bytes: 1 << 20, stall_time: Duration::from_secs(2), ..Limits::default() };
    let server = Running::start(limits, None, Duration::ZERO);
    let stalled: Vec<_> = (0..40)
        .map(|_| {
            let mut stream = server.connect();
            stream.write_all(STALLED).unwrap();
            stream.write_all(&[0; 1000]).unwrap();
            stream
        })
        .collect();
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(server.score("1,100,100,3", &[0; 30_000]).status, 200, "others are answered meanwhile");
    let began = Instant::now();
    for mut stream in stalled {
        let mut reply = Vec::new();
        let _ = stream.read_to_end(&mut reply);
        let reply = String::from_utf8_lossy(&reply).into_owned();
        assert!(reply.starts_with("HTTP/1.1 408"), "{reply}");
    }
    assert!(began.elapsed() < Duration::from_secs(10), "well before the time for a body is over");
}

#[test]
fn one_client_cannot_have_all_connections() {
    let limits = Limits { connections: 8, header_time: Duration::from_secs(60), ..Limits::default() };
    let server = Running::start(limits, None, Duration::ZERO);
    // Six of eight are this client's; more of them are closed at once.
    let mut open: Vec<_> = (0..6).map(|_| server.connect()).collect();
    std::thread::sleep(Duration::from_millis(200));
    let mut one_more = server.connect();
    let mut reply = Vec::new();
    let _ = one_more.read_to_end(&mut reply);
    assert_eq!(reply.len(), 0);
    open.pop();
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(server.request("GET", "/health", &[], b"").status, 200);
}

#[test]
fn clients_that_leave_are_counted() {
    let server = Running::start(Limits::default(), None, Duration::from_millis(400));
    let mut leaving = server.connect();
    leaving
        .write_all(
            b"POST /v1/score HTTP/1.1\r\nContent-Type: application/octet-stream\r\nX-Plaudit-Shape: 1,1,3\r\n\
              Content-Length: 3\r\n\r\nxyz",
        )
        .unwrap();
    std::thread::sleep(Duration::from_millis(150));
    drop(leaving);
    std::thread::sleep(Duration::from_millis(150));
    let page = String::from_utf8(server.request("GET", "/metrics", &[], b"").body).unwrap();
    assert!(page.contains("plaudit_cancelled_requests_total{route=\"/v1/score\"} 1"), "{page}");
}

#[test]
fn slow_clients_lose_their_connection() {
    let limits = Limits {
        header_time: Duration::from_millis(300),
        body_time: Duration::from_millis(300),
        ..Limits::default()
    };
    let server = Running::start(limits, None, Duration::ZERO);
    let began = Instant::now();
    let mut slow = server.connect();
    slow.write_all(b"GET /healthz HT").unwrap();
    let mut reply = Vec::new();
    let _ = slow.read_to_end(&mut reply);
    let mut idle = server.connect();
    let _ = idle.read_to_end(&mut reply);
    let mut slow = server.connect();
    slow.write_all(
        b"POST /v1/score HTTP/1.1\r\nConnection: close\r\nContent-Type: application/octet-stream\r\n\
          X-Plaudit-Shape: 1,1,3\r\nContent-Length: 3\r\n\r\nx",
    )
    .unwrap();
    let mut reply = Vec::new();
    let _ = slow.read_to_end(&mut reply);
    assert!(
        String::from_utf8_lossy(&reply).starts_with("HTTP/1.1 408"),
        "{}",
        String::from_utf8_lossy(&reply)
    );
    assert!(began.elapsed() < Duration::from_secs(10));
}

#[test]
fn requests_that_arrive_together_are_answered_together_and_too_many_are_refused() {
    let limits = Limits { queue: 4, ..Limits::default() };
    let server = Running::start(limits, None, Duration::from_millis(300));
    let replies: Vec<_> = std::thread::scope(|scope| {
        let asked: Vec<_> = (0..12)
            .map(|at: u8| {
                let server = &server;
                scope.spawn(move || (at, server.score("1,1,1,3", &[at; 3])))
            })
            .collect();
        asked.into_iter().map(|asked| asked.join().unwrap()).collect()
    });
    let (answered, refused): (Vec<_>, Vec<_>) = replies.iter().partition(|(_, reply)| reply.status == 200);
    assert!(!answered.is_empty() && !refused.is_empty(), "{} answered", answered.len());
    for (at, reply) in answered {
        assert_eq!(
            reply.json()["scores"][0].as_f64().unwrap() as f32,
            f32::from(*at) / 255.0,
            "its own answer"
        );
    }
    for (_, reply) in refused {
        assert_eq!((reply.status, reply.head.contains("retry-after: 1")), (503, true), "{reply:?}");
        assert!(reply.error().contains("too many requests wait"));
    }
    let batches = server.model.batches.lock().unwrap();
    assert!(batches.iter().any(|requests| *requests > 1), "{batches:?}");
}

#[test]
fn stopping_says_how_many_requests_were_cut() {
    let limits = Limits { shutdown_time: Duration::from_millis(300), ..Limits::default() };
    // Each is a batch of its own: some are answered in time, and some are not.
    let server = Running::start(Limits { work_bytes: 0, ..limits }, None, Duration::from_millis(200));
    let mut streams: Vec<_> = (0..10).map(|_| server.connect()).collect();
    for stream in &mut streams {
        stream
            .write_all(
                b"POST /v1/score HTTP/1.1\r\nConnection: close\r\nContent-Type: application/octet-stream\r\n\
                  X-Plaudit-Shape: 64,1,1,3\r\nContent-Length: 192\r\n\r\n",
            )
            .unwrap();
        stream.write_all(&[7; 192]).unwrap();
    }
    std::thread::sleep(Duration::from_millis(100));
    let shutdown = server.end();
    let answered = streams
        .into_iter()
        .filter(|stream| {
            let (mut stream, mut reply) = (stream, Vec::new());
            let _ = stream.read_to_end(&mut reply);
            reply.starts_with(b"HTTP/1.1 200")
        })
        .count();
    assert_eq!((shutdown.answered, shutdown.answered + shutdown.cut), (answered, 10), "{shutdown:?}");
    assert!(shutdown.answered > 0 && shutdown.cut > 0, "{shutdown:?}");
}

#[test]
fn stopping_lets_requests_under_way_finish() {
    let server = Running::start(Limits::default(), None, Duration::from_millis(500));
    let reply = std::thread::scope(|scope| {
        let asked = scope.spawn(|| server.score("1,1,1,3", &[255; 3]));
        std::thread::sleep(Duration::from_millis(200));
        server.stop.store(true, Ordering::SeqCst);
        asked.join().unwrap()
    });
    assert_eq!((reply.status, reply.json()["scores"].clone()), (200, json!([1.0])));
    let address = server.address;
    drop(server);
    assert!(std::net::TcpStream::connect(address).is_err(), "nobody listens any more");
}
