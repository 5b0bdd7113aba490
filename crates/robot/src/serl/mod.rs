//! SERL's HTTP dialect: what SERL and HIL-SERL robot servers speak.

/// What a server said, to stand at the end of a message.
pub(crate) fn said(message: &str) -> String {
    if message.is_empty() { String::new() } else { format!(": {message}") }
}
