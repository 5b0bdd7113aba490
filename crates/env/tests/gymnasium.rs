//! Our environments under Gymnasium's own checker.
//!
//! The example `step_server` steps them, `gymnasium/check_env.py` asks. It runs when `PLAUDIT_ORACLE_PYTHON`
//! names an interpreter with gymnasium and numpy, and says so when it does not.
#![allow(clippy::unwrap_used)] // a test fails by panicking

use std::path::PathBuf;
use std::process::Command;

/// Cargo puts examples beside the folder of test binaries.
fn step_server() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let name = format!("step_server{}", std::env::consts::EXE_SUFFIX);
    let server = test.parent().unwrap().with_file_name("examples").join(name);
    let hint = "build it with `cargo build -p plaudit-env --example step_server`";
    assert!(server.exists(), "{} is not there; {hint}", server.display());
    server
}

#[test]
fn every_environment_passes_gymnasiums_checker() {
    let Some(python) = std::env::var_os("PLAUDIT_ORACLE_PYTHON") else {
        println!("skipped: PLAUDIT_ORACLE_PYTHON names no Python with gymnasium");
        return;
    };
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/gymnasium/check_env.py");
    let output = Command::new(python).arg("-B").arg(script).arg(step_server()).output().unwrap();
    let (stdout, failed) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    println!("{stdout}");
    assert!(output.status.success(), "{failed}");
}
