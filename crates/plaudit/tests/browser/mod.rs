//! A browser that looks at pages: wide and on a phone, light and dark.

#![allow(dead_code, clippy::print_stderr)] // not every test needs all of it, and one that is skipped says so

pub(crate) mod devtools;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use serde_json::Value;

const PROBE: &str = include_str!("probe.js");
/// Widths of a screen on a desk and of a phone.
const WIDTHS: [u32; 2] = [1400, 400];
/// How long a browser may take for all pages of a test, on a machine that is busy with other tests.
const PATIENCE: Duration = Duration::from_secs(240);

/// The browser of this machine: `PLAUDIT_CHROMIUM`, or one of the usual names. Where there is none, a test says that it
/// was skipped, and fails instead if `PLAUDIT_NEEDS_BROWSER` is set.
pub(crate) fn browser() -> Option<PathBuf> {
    let named = std::env::var_os("PLAUDIT_CHROMIUM").map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let usual = std::env::split_paths(&path)
        .flat_map(|folder| ["chromium", "chromium-browser", "google-chrome"].map(|name| folder.join(name)));
    let found = named.or_else(|| usual.into_iter().find(|path| path.is_file()));
    if found.is_none() {
        assert!(
            std::env::var_os("PLAUDIT_NEEDS_BROWSER").is_none(),
            "PLAUDIT_NEEDS_BROWSER is set, and neither chromium, chromium-browser nor google-chrome is on the path"
        );
        eprintln!(
            "skipped: no browser here (chromium, chromium-browser, google-chrome, or PLAUDIT_CHROMIUM)"
        );
    }
    found
}

/// What the browser saw of a page at one width.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) charts: u64,
    pub(crate) films: u64,
}

/// Opens every page at every width, light and dark, and fails with everything that is wrong. Nothing where there is no
/// browser; else what was seen of each page at the first width.
pub(crate) fn look_at(pages: &[&Path]) -> Option<Vec<Seen>> {
    let browser = browser()?;
    let served = served(pages);
    let mut seen = Vec::new();
    let mut wrong = Vec::new();
    for scheme in ["light", "dark"] {
        for (number, one) in reported(&browser, &served, pages.len(), scheme).iter().enumerate() {
            let (page, width) = (pages[number / WIDTHS.len()], WIDTHS[number % WIDTHS.len()]);
            let at = format!("{} at {width} pixels, {scheme}", page.display());
            assert_eq!(one["seen"]["width"].as_u64(), Some(width.into()), "{at}: {one}");
            assert_eq!(one["seen"]["dark"], scheme == "dark", "{at}");
            wrong.extend(one["wrong"].as_array().unwrap().iter().map(|what| format!("{at}: {what}")));
            if number % WIDTHS.len() == 0 && scheme == "light" {
                let count = |key: &str| one["seen"][key].as_u64().unwrap();
                seen.push(Seen { charts: count("charts"), films: count("films") });
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    Some(seen)
}

/// What the browser can ask for, by path: copies of the pages that look at themselves, and the page that shows them.
fn served(pages: &[&Path]) -> BTreeMap<String, String> {
    let with_probe = |page: &Path| {
        let text = std::fs::read_to_string(page).unwrap();
        text.replacen("<head>", &format!("<head><script>{PROBE}</script>"), 1)
    };
    let mut served: BTreeMap<String, String> = pages
        .iter()
        .enumerate()
        .map(|(number, page)| (format!("/{number}.html"), with_probe(page)))
        .collect();
    served.insert("/".to_string(), host(pages.len()));
    served
}

/// A page that shows every page at every width, one after the other, and sends back what they reported, in that order.
fn host(pages: usize) -> String {
    let widths = WIDTHS.map(|width| width.to_string()).join(",");
    format!(
        "<!doctype html><meta charset=\"utf-8\"><meta name=\"color-scheme\" content=\"light dark\"><body><script>\
         const look = (page, width) => new Promise(seen => {{\
           const frame = document.createElement('iframe');\
           frame.style = `border:0;width:${{width}}px;height:800px`;\
           const heard = event => {{\
             if (event.source !== frame.contentWindow) return;\
             removeEventListener('message', heard);\
             frame.remove();\
             seen(event.data);\
           }};\
           addEventListener('message', heard);\
           frame.src = `/${{page}}.html`;\
           document.body.append(frame);\
         }});\
         (async () => {{\
           const reported = [];\
           for (let page = 0; page < {pages}; page++)\
             for (const width of [{widths}]) reported.push(await look(page, width));\
           fetch('/reported', {{ method: 'POST', body: JSON.stringify(reported) }});\
         }})();</script>"
    )
}

/// A browser that is open, and closes with the test.
struct OpenBrowser {
    process: Child,
    _profile: tempfile::TempDir,
}

impl OpenBrowser {
    fn at(browser: &Path, address: &str, scheme: &str) -> OpenBrowser {
        let profile = tempfile::tempdir().unwrap();
        let number = if scheme == "dark" { 0 } else { 1 };
        let process = Command::new(browser)
            .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-quic"])
            .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
            .args(["--disable-dev-shm-usage", "--no-proxy-server", "--window-size=1500,900"])
            .arg(format!("--blink-settings=preferredColorScheme={number}"))
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg(address)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        OpenBrowser { process, _profile: profile }
    }
}

impl Drop for OpenBrowser {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Serves the pages to a browser of its own until all of them have reported.
///
/// The browser keeps real time and has the pages one by one: with a budget of virtual time, pages that loaded late on a
/// busy machine had reported nothing when it ran out.
fn reported(browser: &Path, served: &BTreeMap<String, String>, pages: usize, scheme: &str) -> Vec<Value> {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/", listener.local_addr().unwrap());
    let requests = serve(listener, served.clone());
    let mut open = OpenBrowser::at(browser, &address, scheme);
    let began = Instant::now();
    let mut asked = Vec::new();
    while began.elapsed() < PATIENCE {
        match requests.recv_timeout(Duration::from_millis(100)) {
            Ok(Request { path, body }) if path == "/reported" => {
                let reported: Vec<Value> = serde_json::from_slice(&body).unwrap();
                assert_eq!(reported.len(), pages * WIDTHS.len(), "{scheme}");
                return reported;
            }
            Ok(request) => asked.push(request.path),
            Err(_) => {
                if let Some(status) = open.process.try_wait().unwrap() {
                    panic!("{} ended ({status}) before it had looked at the pages", browser.display());
                }
            }
        }
    }
    panic!("{scheme}: after {PATIENCE:?} the browser had asked for {asked:?} and not reported")
}

/// Answers every connection on a thread of its own, as browsers open some ahead of need, and passes on what was asked.
fn serve(listener: TcpListener, served: BTreeMap<String, String>) -> Receiver<Request> {
    let (sender, requests) = std::sync::mpsc::channel();
    let served = Arc::new(served);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (sender, served) = (sender.clone(), Arc::clone(&served));
            std::thread::spawn(move || answer(&stream, &served).map(|request| sender.send(request)));
        }
    });
    requests
}

struct Request {
    path: String,
    body: Vec<u8>,
}

/// Reads one request and answers it. Nothing for a connection that the browser opened and did not use.
fn answer(stream: &TcpStream, served: &BTreeMap<String, String>) -> Option<Request> {
    let mut reader = BufReader::new(stream);
    let mut first = String::new();
    reader.read_line(&mut first).ok()?;
    let path = first.split(' ').nth(1)?.to_string();
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.split_once(':') else { break };
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let (status, text) = served.get(&path).map_or(("404 Not Found", ""), |page| ("200 OK", page.as_str()));
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        text.len()
    );
    let mut stream = stream;
    stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(text.as_bytes())).ok()?;
    Some(Request { path, body })
}
