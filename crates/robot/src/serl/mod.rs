//! SERL's HTTP dialect: what SERL's, HIL-SERL's and many other robot servers speak, from both sides.
//!
//! Every route is a POST without authentication; poses are x, y, z and a quaternion x, y, z, w in the base frame.

mod client;
pub(crate) mod http;
pub(crate) mod server;

pub use client::{AddressError, SERL_PORT, SerlArm};

/// What a server said, to stand at the end of a message.
pub(crate) fn said(message: &str) -> String {
    if message.is_empty() { String::new() } else { format!(": {message}") }
}
