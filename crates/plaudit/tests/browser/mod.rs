//! A browser that looks at pages: wide and on a phone, light and dark.

#![allow(dead_code, clippy::print_stderr)] // not every test needs all of it, and one that is skipped says so

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

const PROBE: &str = include_str!("probe.js");
/// Widths of a screen on a desk and of a phone.
const WIDTHS: [u32; 2] = [1400, 400];

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
pub(crate) fn look_at(folder: &Path, pages: &[&Path]) -> Option<Vec<Seen>> {
    let browser = browser()?;
    let probed: Vec<PathBuf> =
        pages.iter().enumerate().map(|(number, page)| with_probe(folder, number, page)).collect();
    let frames: String = probed.iter().flat_map(|page| WIDTHS.map(|width| frame(page, width))).collect();
    let all = folder.join("all_pages.html");
    std::fs::write(&all, host(&frames)).unwrap();
    let mut seen = Vec::new();
    let mut wrong = Vec::new();
    for scheme in ["light", "dark"] {
        let reported = reported(&browser, &all, scheme);
        assert_eq!(
            reported.len(),
            pages.len() * WIDTHS.len(),
            "{scheme}: not every page reported what it is"
        );
        for (number, one) in reported.iter().enumerate() {
            let (page, width) = (pages[number / WIDTHS.len()], WIDTHS[number % WIDTHS.len()]);
            let at = format!("{} at {width} pixels, {scheme}", page.display());
            assert_eq!(one["seen"]["width"].as_u64(), Some(width.into()), "{at}");
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

/// A copy of a page that looks at itself.
fn with_probe(folder: &Path, number: usize, page: &Path) -> PathBuf {
    let text = std::fs::read_to_string(page).unwrap();
    let probed = text.replacen("<head>", &format!("<head><script>{PROBE}</script>"), 1);
    let path = folder.join(format!("probed_{number}.html"));
    std::fs::write(&path, probed).unwrap();
    path
}

/// Frames lie over each other: a browser lets those sleep that are out of sight.
fn frame(page: &Path, width: u32) -> String {
    let style = format!("position:absolute;left:0;top:0;border:0;width:{width}px;height:800px");
    format!("<iframe src=\"file://{}\" style=\"{style}\"></iframe>", page.display())
}

/// A page that shows frames, and what each of them reported, in their order.
fn host(frames: &str) -> String {
    format!(
        "<!doctype html><meta charset=\"utf-8\"><meta name=\"color-scheme\" content=\"light dark\"><body>{frames}<pre id=\"reported\"></pre><script>\
         const reported = [];\
         addEventListener('message', event => {{\
           const all = [...document.querySelectorAll('iframe')];\
           reported[all.findIndex(frame => frame.contentWindow === event.source)] = event.data;\
           document.getElementById('reported').textContent = JSON.stringify(reported);\
         }});</script>"
    )
}

fn reported(browser: &Path, page: &Path, scheme: &str) -> Vec<Value> {
    let profile = tempfile::tempdir().unwrap();
    let number = if scheme == "dark" { 0 } else { 1 };
    let out = Command::new(browser)
        .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-quic"])
        .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
        .args(["--virtual-time-budget=20000", "--window-size=1500,900", "--dump-dom"])
        .arg(format!("--blink-settings=preferredColorScheme={number}"))
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg(format!("file://{}", page.display()))
        .output()
        .unwrap();
    let page = String::from_utf8_lossy(&out.stdout);
    let reported =
        page.split("<pre id=\"reported\">").nth(1).and_then(|rest| rest.split("</pre>").next()).unwrap_or("");
    let reported = reported.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    let said = String::from_utf8_lossy(&out.stderr);
    serde_json::from_str(&reported).unwrap_or_else(|error| panic!("{error}: {reported}\n{said}"))
}
