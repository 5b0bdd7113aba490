//! The second setting without which messages get lost: the data plane waits before it drops.

use serde_json::{Value, json};
use thiserror::Error;

/// How long zenoh waits, in microseconds, before it drops a message, and a message in fragments. As it comes: one
/// millisecond and fifty, less than a batch of images needs on a link of 200 Mbit/s.
const WAIT_BEFORE_DROP: u64 = 2_000_000;
const WAIT_BEFORE_DROP_FRAGMENTS: u64 = 10_000_000;

const DROP: &str = "/transport/link/tx/queue/congestion_control/drop";

/// The file that daemons are started with.
pub fn overlay() -> String {
    let drop = json!({
        "wait_before_drop": WAIT_BEFORE_DROP,
        "max_wait_before_drop_fragments": WAIT_BEFORE_DROP_FRAGMENTS,
    });
    let settings = json!({"transport": {"link": {"tx": {"queue": {"congestion_control": {"drop": drop}}}}}});
    format!("{settings:#}\n")
}

/// What is wrong with a file that a daemon was started with.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum OverlayError {
    /// Not JSON.
    #[error("the overlay of the data plane cannot be read: {0}")]
    Unreadable(String),
    /// The setting is not there, or too small.
    #[error(
        "the overlay of the data plane has {key} = {found}, and needs {needed} at least: large messages would get lost"
    )]
    TooShort {
        /// Which setting.
        key: &'static str,
        /// What it is.
        found: String,
        /// What it must be.
        needed: u64,
    },
}

/// Whether a file makes the data plane wait long enough.
pub fn check_overlay(text: &str) -> Result<(), OverlayError> {
    let settings: Value =
        serde_json::from_str(text).map_err(|error| OverlayError::Unreadable(error.to_string()))?;
    let waits = [
        ("wait_before_drop", WAIT_BEFORE_DROP),
        ("max_wait_before_drop_fragments", WAIT_BEFORE_DROP_FRAGMENTS),
    ];
    for (key, needed) in waits {
        let found = settings.pointer(&format!("{DROP}/{key}"));
        if found.and_then(Value::as_u64).is_none_or(|found| found < needed) {
            let found = found.map_or_else(|| "nothing".into(), Value::to_string);
            return Err(OverlayError::TooShort { key, found, needed });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_overlay_that_waits_passes() {
        assert_eq!(check_overlay(&overlay()), Ok(()));
        for (text, expected) in [
            ("{}", "has wait_before_drop = nothing"),
            ("{,", "cannot be read"),
            (&overlay().replace("10000000", "50000"), "has max_wait_before_drop_fragments = 50000"),
        ] {
            let error = check_overlay(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
