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
    let text = std::fs::read_to_string(&page).unwrap();
    for outside in ["src=\"http", "href=\"http", "url(http", "<script", "src=\"/", "@import"] {
        assert!(!text.contains(outside), "the page reaches outside itself: {outside}");
    }
    let Some((elements, complaints)) = opened(&page) else { return };
    assert!(elements.contains("<h1>") && elements.contains("<svg"), "{elements}");
    for complaint in ["ERR_FILE_NOT_FOUND", "Failed to load", "CONSOLE"] {
        assert!(!complaints.contains(complaint), "{complaints}");
    }
}

/// The run directory under a log path.
fn find_run(root: &Path) -> std::path::PathBuf {
    if root.join("events.jsonl").is_file() {
        return root.to_path_buf();
    }
    let entries = std::fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path());
    entries.into_iter().filter(|path| path.is_dir()).map(|path| find_run(&path)).next().unwrap()
}
