//! A browser that a test drives, over Chromium's own protocol: addresses opened, keys pressed, errors read, pictures taken.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// How long the browser may take for anything, on a machine that is busy with other tests.
const PATIENCE: Duration = Duration::from_secs(120);

/// A browser with one tab.
pub(crate) struct Tab {
    process: Child,
    _profile: tempfile::TempDir,
    socket: TcpStream,
    last_id: u64,
    /// What the page complained about.
    errors: Vec<String>,
}

impl Tab {
    pub(crate) fn open(browser: &Path) -> Self {
        let profile = tempfile::tempdir().unwrap();
        let process = Command::new(browser)
            .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-quic"])
            .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
            .args([
                "--disable-dev-shm-usage",
                "--no-proxy-server",
                "--hide-scrollbars",
                "--remote-debugging-port=0",
            ])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg("about:blank")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let port = waited(|| {
            let text = std::fs::read_to_string(profile.path().join("DevToolsActivePort")).ok()?;
            text.lines().next()?.parse::<u16>().ok()
        });
        let tab = waited(|| {
            let tabs: Value = serde_json::from_str(&http_get(port, "/json/list")?).ok()?;
            let tab = tabs.as_array()?.iter().find(|tab| tab["type"] == "page")?;
            Some(tab["webSocketDebuggerUrl"].as_str()?.to_string())
        });
        let path = tab.splitn(4, '/').nth(3).unwrap();
        let socket = web_socket(port, &format!("/{path}"));
        let mut tab = Self { process, _profile: profile, socket, last_id: 0, errors: Vec::new() };
        for domain in ["Page", "Runtime", "Log"] {
            tab.call(&format!("{domain}.enable"), &json!({}));
        }
        tab
    }

    /// The size of the window, and light or dark.
    pub(crate) fn look(&mut self, width: u32, height: u32, scheme: &str) {
        let mobile = width < 600;
        self.call(
            "Emulation.setDeviceMetricsOverride",
            &json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": mobile}),
        );
        let feature = json!({"name": "prefers-color-scheme", "value": scheme});
        self.call("Emulation.setEmulatedMedia", &json!({"features": [feature]}));
    }

    /// Opens an address, and waits until it was loaded.
    pub(crate) fn go(&mut self, url: &str) {
        let answer = self.call("Page.navigate", &json!({"url": url}));
        assert!(answer.get("errorText").is_none(), "{url}: {answer}");
        self.wait_for("document.readyState === 'complete' && location.href !== 'about:blank'");
    }

    /// What an expression is; promises are waited for.
    pub(crate) fn eval(&mut self, expression: &str) -> Value {
        let asked = json!({"expression": expression, "awaitPromise": true, "returnByValue": true});
        let answer = self.call("Runtime.evaluate", &asked);
        assert!(answer.get("exceptionDetails").is_none(), "{expression}: {answer}");
        answer["result"]["value"].clone()
    }

    /// Waits until an expression is true. While a page changes, nothing is.
    pub(crate) fn wait_for(&mut self, expression: &str) {
        let began = Instant::now();
        loop {
            let asked = json!({"expression": expression, "awaitPromise": true, "returnByValue": true});
            let answer = self.call("Runtime.evaluate", &asked);
            if answer["result"]["value"] == true {
                return;
            }
            assert!(began.elapsed() < PATIENCE, "never: {expression}: {answer}; {:?}", self.errors);
            std::thread::sleep(Duration::from_millis(30));
        }
    }

    /// Presses a key and lets it go, after holding it for so long.
    pub(crate) fn hold(&mut self, key: &str, time: Duration) {
        let text = if key.chars().count() == 1 { key } else { "" };
        let code = text.chars().next().map_or(0, |letter| letter.to_ascii_uppercase() as u32);
        self.call(
            "Input.dispatchKeyEvent",
            &json!({"type": "keyDown", "key": key, "text": text, "windowsVirtualKeyCode": code}),
        );
        std::thread::sleep(time);
        self.call(
            "Input.dispatchKeyEvent",
            &json!({"type": "keyUp", "key": key, "windowsVirtualKeyCode": code}),
        );
    }

    pub(crate) fn key(&mut self, key: &str) {
        self.hold(key, Duration::ZERO);
    }

    /// Presses the mouse at one place and lets it go at another.
    pub(crate) fn drag(&mut self, from: (f64, f64), to: (f64, f64)) {
        for (kind, (x, y)) in [("mousePressed", from), ("mouseMoved", to), ("mouseReleased", to)] {
            let event =
                json!({"type": kind, "x": x, "y": y, "button": "left", "buttons": 1, "clickCount": 1});
            self.call("Input.dispatchMouseEvent", &event);
        }
    }

    /// What pages complained about since this was last asked.
    pub(crate) fn errors(&mut self) -> Vec<String> {
        self.eval("1"); // what was on its way has come
        std::mem::take(&mut self.errors)
    }

    /// What is seen now, as a PNG file.
    pub(crate) fn picture(&mut self, path: &Path) {
        let answer = self.call("Page.captureScreenshot", &json!({"format": "png"}));
        std::fs::write(path, from_base64(answer["data"].as_str().unwrap())).unwrap();
    }

    fn call(&mut self, method: &str, params: &Value) -> Value {
        self.last_id += 1;
        let id = self.last_id;
        send(&mut self.socket, &json!({"id": id, "method": method, "params": params}).to_string());
        loop {
            let message: Value = serde_json::from_str(&receive(&mut self.socket)).unwrap();
            if message["id"] == id {
                assert!(message.get("error").is_none(), "{method}: {message}");
                return message["result"].clone();
            }
            self.errors.extend(complaint(&message));
        }
    }
}

impl Drop for Tab {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// What an event complains about: exceptions, `console.error`, refused scripts and styles, replies that are errors.
fn complaint(event: &Value) -> Option<String> {
    let params = &event["params"];
    match event["method"].as_str()? {
        "Runtime.exceptionThrown" => Some(params["exceptionDetails"].to_string()),
        "Runtime.consoleAPICalled" if params["type"] == "error" => Some(params["args"].to_string()),
        "Log.entryAdded" if params["entry"]["level"] == "error" => {
            Some(format!("{} ({})", params["entry"]["text"], params["entry"]["url"]))
        }
        _ => None,
    }
}

fn waited<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(began.elapsed() < PATIENCE, "the browser did not start");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn http_get(port: u16, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
    let mut reply = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&reply).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head
                .lines()
                .find_map(|line| line.to_lowercase().strip_prefix("content-length:")?.trim().parse().ok());
            if length.is_some_and(|length: usize| body.len() >= length) {
                return Some(body.to_string());
            }
        }
        match stream.read(&mut piece).ok()? {
            0 => return None,
            read => reply.extend_from_slice(&piece[..read]),
        }
    }
}

fn web_socket(port: u16, path: &str) -> TcpStream {
    let mut socket = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n"
    );
    socket.write_all(request.as_bytes()).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        socket.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    assert!(head.starts_with(b"HTTP/1.1 101"), "{}", String::from_utf8_lossy(&head));
    socket
}

/// One text in one frame. Its mask is zero, which leaves the text as it is.
fn send(socket: &mut TcpStream, text: &str) {
    let mut frame = vec![0x81];
    match text.len() {
        short @ ..126 => frame.push(0x80 | short as u8),
        long @ ..65536 => {
            frame.push(0x80 | 126);
            frame.extend((long as u16).to_be_bytes());
        }
        long => {
            frame.push(0x80 | 127);
            frame.extend((long as u64).to_be_bytes());
        }
    }
    frame.extend([0; 4]);
    frame.extend_from_slice(text.as_bytes());
    socket.write_all(&frame).unwrap();
}

/// The next message, from however many frames.
fn receive(socket: &mut TcpStream) -> String {
    let mut text = Vec::new();
    loop {
        let mut head = [0; 2];
        socket.read_exact(&mut head).unwrap();
        let length = match head[1] & 0x7f {
            126 => {
                let mut bytes = [0; 2];
                socket.read_exact(&mut bytes).unwrap();
                u64::from(u16::from_be_bytes(bytes))
            }
            127 => {
                let mut bytes = [0; 8];
                socket.read_exact(&mut bytes).unwrap();
                u64::from_be_bytes(bytes)
            }
            short => u64::from(short),
        };
        let mut piece = vec![0; length as usize];
        socket.read_exact(&mut piece).unwrap();
        match head[0] & 0x0f {
            0x0 | 0x1 => text.extend(piece),
            0x8 => panic!("the browser closed the connection"),
            _ => continue, // pings are not answered; Chromium sends none
        }
        if head[0] & 0x80 != 0 {
            return String::from_utf8(text).unwrap();
        }
    }
}

fn from_base64(text: &str) -> Vec<u8> {
    let digit = |letter: u8| match letter {
        b'A'..=b'Z' => letter - b'A',
        b'a'..=b'z' => letter - b'a' + 26,
        b'0'..=b'9' => letter - b'0' + 52,
        b'+' => 62,
        _ => 63,
    };
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    for four in text.trim_end_matches('=').as_bytes().chunks(4) {
        let word = four.iter().fold(0u32, |word, letter| word << 6 | u32::from(digit(*letter)));
        let word = word << (6 * (4 - four.len()));
        bytes.extend_from_slice(&word.to_be_bytes()[1..four.len()]);
    }
    bytes
}
