//! A server as tests need one: it answers by a script, and records the requests.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use serde_json::{Value, json};

/// What the server does with a request.
pub(crate) enum Does {
    /// Status, further header lines, body.
    Reply(u16, &'static str, String),
    /// Closes the connection without a word.
    HangUp,
}

/// One request as it came.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) path: String,
    pub(crate) headers: Vec<String>,
    pub(crate) body: Value,
}

pub(crate) struct FakeServer {
    pub(crate) address: String,
    asked: Arc<Mutex<Vec<Asked>>>,
    /// The most requests that were under way at once.
    busiest: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl FakeServer {
    /// Lists the model `judge`; what it does with the n-th question is `script`'s business.
    pub(crate) fn start(script: impl Fn(usize, &Value) -> Does + Send + Sync + 'static) -> Self {
        Self::on("127.0.0.1:0", script)
    }

    pub(crate) fn on(address: &str, script: impl Fn(usize, &Value) -> Does + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind(address).unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let asked: Arc<Mutex<Vec<Asked>>> = Arc::default();
        let (stop, busiest) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (script, busy) = (Arc::new(script), Arc::new(AtomicUsize::new(0)));
        let (seen, stopped, most) = (asked.clone(), stop.clone(), busiest.clone());
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if stopped.load(Ordering::SeqCst) {
                    return;
                }
                let (script, seen, busy, most) = (script.clone(), seen.clone(), busy.clone(), most.clone());
                std::thread::spawn(move || {
                    most.fetch_max(busy.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    serve(stream.unwrap(), &*script, &seen);
                    busy.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        Self { address, asked, busiest, stop, thread: Some(thread) }
    }

    /// The questions that came, without the greetings.
    pub(crate) fn questions(&self) -> Vec<Asked> {
        let asked = self.asked.lock().unwrap();
        asked.iter().filter(|asked| asked.path == "/v1/chat/completions").cloned().collect()
    }

    pub(crate) fn busiest(&self) -> usize {
        self.busiest.load(Ordering::SeqCst)
    }
}

impl Drop for FakeServer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address.trim_start_matches("http://"));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn serve(mut stream: TcpStream, script: &dyn Fn(usize, &Value) -> Does, seen: &Mutex<Vec<Asked>>) {
    let Some(asked) = read(&stream) else { return };
    let is_greeting = asked.path == "/v1/models";
    let body = asked.body.clone();
    let number = {
        let mut seen = seen.lock().unwrap();
        seen.push(asked);
        seen.iter().filter(|asked| asked.path == "/v1/chat/completions").count()
    };
    let done = match is_greeting {
        true => Does::Reply(200, "", json!({"data": [{"id": "judge"}]}).to_string()),
        false => script(number - 1, &body),
    };
    if let Does::Reply(status, headers, body) = done {
        let length = body.len();
        let _ = write!(
            stream,
            "HTTP/1.1 {status} X\r\nContent-Length: {length}\r\nConnection: close\r\n{headers}\r\n{body}"
        );
    }
}

fn read(stream: &TcpStream) -> Option<Asked> {
    let mut reader = BufReader::new(stream);
    let mut first = String::new();
    reader.read_line(&mut first).ok()?;
    let path = first.split(' ').nth(1)?.to_string();
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        match line.trim_end() {
            "" => break,
            line => headers.push(line.to_lowercase()),
        }
    }
    let length = headers.iter().find_map(|line| line.strip_prefix("content-length:"));
    let mut body = vec![0; length.map_or(0, |length| length.trim().parse().unwrap())];
    reader.read_exact(&mut body).ok()?;
    Some(Asked { path, headers, body: serde_json::from_slice(&body).unwrap_or(Value::Null) })
}

/// A reply that says this.
pub(crate) fn says(words: &str) -> Does {
    Does::Reply(200, "", reply(words, Value::Null))
}

/// A reply that says this, with the log-probabilities of its tokens.
pub(crate) fn reply(words: &str, logprobs: Value) -> String {
    let message = json!({"role": "assistant", "content": words});
    json!({"choices": [{"index": 0, "message": message, "logprobs": logprobs}]}).to_string()
}
