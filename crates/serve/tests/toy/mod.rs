//! A server with a toy model, and a client that can send anything.

#![allow(dead_code)] // not every test needs all of it

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use base64::Engine as _;
use plaudit_serve::{
    Answer, AnswerResult, ApiError, Asked, Batching, ChatAnswer, ChatChoice, Cost, Limits, Model, ModelInfo,
    Question, Scores, Server, ServerSettings, Shutdown, TextPiece, TokenLogprob,
};
use serde_json::Value;

/// Scores an image by its first byte, and answers a chat with what it got. Waits a while over each batch.
pub(crate) struct Toy {
    info: ModelInfo,
    pub(crate) pause: Duration,
    pub(crate) batches: Mutex<Vec<usize>>,
}

impl Toy {
    pub(crate) fn new(pause: Duration) -> Self {
        let info = ModelInfo { name: "toy".into(), details: serde_json::Map::new() };
        Self { info, pause, batches: Mutex::default() }
    }
}

impl Model for Toy {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn cost(&self, question: &Question) -> Result<Cost, ApiError> {
        match question {
            Question::Chat(chat) if chat.images().next().is_none() => Err(ApiError::invalid("no images")),
            // A byte for each word.
            Question::Chat(chat) => Ok(Cost { bytes: chat.last_text().len() }),
            Question::Score(_) => Ok(Cost::default()),
        }
    }

    fn answer(&self, asked: &[Asked<'_>]) -> Vec<AnswerResult> {
        self.batches.lock().unwrap().push(asked.len());
        std::thread::sleep(self.pause);
        let answer = |asked: &Asked<'_>| match asked.question {
            Question::Chat(chat) => {
                let seen: Vec<String> = chat
                    .images()
                    .map(|image| format!("{}x{} {}", image.height, image.width, image.pixels[0]))
                    .collect();
                let text = format!("{} | {}", chat.last_text(), seen.join(", "));
                let top = vec![("positive".into(), -0.1), ("negative".into(), f32::NEG_INFINITY)];
                let token_logprob = TokenLogprob { token: "positive".into(), logprob: -0.1, top };
                let token = chat.options.top_logprobs.map(|_| token_logprob);
                for word in text.split_inclusive(' ') {
                    asked.client.piece(0, &TextPiece { text: word.into(), token: token.clone() });
                }
                let choice = ChatChoice {
                    text,
                    tokens: token.map(|token| vec![token]),
                    completion_tokens: 3,
                    is_truncated: chat.options.max_tokens == Some(1),
                    ..ChatChoice::default()
                };
                Ok(Answer::Chat(ChatAnswer { choices: vec![choice], prompt_tokens: 7 }))
            }
            Question::Score(block) => {
                let bytes = block.height * block.width * 3;
                let numbers: Vec<f32> =
                    block.pixels.chunks(bytes).map(|frame| f32::from(frame[0]) / 255.0).collect();
                let success = Some(numbers.iter().map(|number| *number > 0.5).collect());
                Ok(Answer::Scores(Scores { columns: vec!["success".into()], numbers, success }))
            }
        };
        asked.iter().map(answer).collect()
    }
}

/// A server on a thread of its own, until it is dropped.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    pub(crate) model: Arc<Toy>,
    pub(crate) stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Shutdown>>,
}

impl Running {
    pub(crate) fn plain() -> Self {
        Self::start(Limits::default(), None, Duration::ZERO)
    }

    pub(crate) fn start(limits: Limits, token: Option<&str>, pause: Duration) -> Self {
        let model = Arc::new(Toy::new(pause));
        let settings = ServerSettings {
            address: "127.0.0.1:0".parse().unwrap(),
            token: token.map(String::from),
            limits,
            batching: Batching { images: 64, wait: Duration::from_millis(5), work_bytes: limits.work_bytes },
        };
        let server = Server::bind(settings, vec![model.clone()]).unwrap();
        let (address, stop) = (server.address(), Arc::new(AtomicBool::new(false)));
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || server.run(|| stopped.load(Ordering::SeqCst)).unwrap());
        Self { address, model, stop, thread: Some(thread) }
    }

    /// Ends it, and how it ended.
    pub(crate) fn end(mut self) -> Shutdown {
        self.stop.store(true, Ordering::SeqCst);
        self.thread.take().unwrap().join().unwrap()
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream
    }

    /// Sends bytes as they are, and reads until the server closes.
    pub(crate) fn send(&self, bytes: &[u8]) -> Reply {
        let mut stream = self.connect();
        let _ = stream.write_all(bytes); // the server may have had enough before the end
        let mut reply = Vec::new();
        let _ = stream.read_to_end(&mut reply);
        Reply::of(&reply)
    }

    pub(crate) fn request(&self, method: &str, path: &str, headers: &[&str], body: &[u8]) -> Reply {
        let headers: String = headers.iter().map(|line| format!("{line}\r\n")).collect();
        let length = body.len();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n"
        );
        self.send(&[head.as_bytes(), body].concat())
    }

    pub(crate) fn chat(&self, body: &Value) -> Reply {
        let body = body.to_string();
        self.request("POST", "/v1/chat/completions", &["Content-Type: application/json"], body.as_bytes())
    }

    pub(crate) fn score(&self, shape: &str, body: &[u8]) -> Reply {
        let shape = format!("X-Plaudit-Shape: {shape}");
        let headers = ["Content-Type: application/octet-stream", &shape];
        self.request("POST", "/v1/score", &headers, body)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Reply {
    /// 0: the server said nothing.
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    fn of(bytes: &[u8]) -> Self {
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").map_or(bytes.len(), |at| at + 4);
        let head = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        Self { status, head, body: bytes[end..].to_vec() }
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&self.body)))
    }

    /// The message of an error, which every refusal must have.
    pub(crate) fn error(&self) -> String {
        self.json()["error"]["message"].as_str().unwrap().to_string()
    }
}

/// A PNG of one colour as a data URL.
pub(crate) fn png(height: u32, width: u32, colour: [u8; 3]) -> String {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, width, height);
    encoder.set_color(png::ColorType::Rgb);
    let mut writer = encoder.write_header().unwrap();
    let pixels: Vec<u8> = colour.into_iter().cycle().take((height * width * 3) as usize).collect();
    writer.write_image_data(&pixels).unwrap();
    writer.finish().unwrap();
    data_url("image/png", &bytes)
}

pub(crate) fn data_url(kind: &str, bytes: &[u8]) -> String {
    format!("data:{kind};base64,{}", base64::engine::general_purpose::STANDARD.encode(bytes))
}
