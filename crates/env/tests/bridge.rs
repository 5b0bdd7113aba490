//! Environments in Python through the bridge.
//!
//! Tests that need Python run when `PLAUDIT_ORACLE_PYTHON` names an interpreter with numpy and gymnasium (1.1 or
//! later, for those of vector environments), and say so when they do not. The others put a shell script in Python's place.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)] // a test fails by panicking
#![allow(clippy::print_stdout)] // and says when it was skipped

#[path = "bridge/entry_points.rs"]
mod entry_points;
#[path = "bridge/failures.rs"]
mod failures;
#[path = "bridge/maniskill.rs"]
mod maniskill;
#[path = "bridge/parity.rs"]
mod parity;
#[path = "bridge/robot.rs"]
mod robot;
#[path = "bridge/shapes.rs"]
mod shapes;
#[path = "bridge/stubs.rs"]
mod stubs;

use std::path::PathBuf;

use plaudit_env::{Arguments, Bridge, BridgeSettings, Make};
use serde_json::Value;

/// The interpreter for these tests, if there is one.
fn python() -> Option<PathBuf> {
    let python = std::env::var_os("PLAUDIT_ORACLE_PYTHON").map(PathBuf::from);
    if python.is_none() {
        println!("skipped: PLAUDIT_ORACLE_PYTHON names no Python with gymnasium");
    }
    python
}

fn beside(name: &str) -> String {
    format!("{}/tests/bridge/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// Settings for an environment of `odd_envs.py`, or for one that Gymnasium has.
fn settings(python: PathBuf, id: &str, num_envs: usize) -> BridgeSettings {
    BridgeSettings {
        python,
        import: vec![beside("odd_envs.py")],
        start_timeout_secs: 60.0,
        step_timeout_secs: 20.0,
        ..BridgeSettings::gymnasium(id, num_envs)
    }
}

fn arguments(value: Value) -> Arguments {
    value.as_object().unwrap().clone()
}

/// The same settings with arguments for the environment.
fn with(mut settings: BridgeSettings, given: Value) -> BridgeSettings {
    match &mut settings.make {
        Make::Gymnasium { kwargs, .. } => *kwargs = arguments(given),
        Make::Maniskill { init_params, .. } => *init_params = arguments(given),
    }
    settings
}

fn start(settings: BridgeSettings) -> Bridge {
    Bridge::start(settings).unwrap_or_else(|error| panic!("{error}"))
}
