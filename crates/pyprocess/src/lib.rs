//! A process of the user's own Python: started, asked, and ended, over memory that both sides see.
//!
//! Simulators, robots and reward functions in Python run in a process of their own: if one crashes or hangs, plaudit does not.
//! This crate is what they share, and knows none of them: whoever uses it brings a Python program, and says what goes wrong in
//! its own words.
//!
//! How it works: the process starts with a socket as its standard input and a nameless memory file as its standard output, and
//! takes both over at once, so what it prints later goes elsewhere and is kept. Over the socket it gets its program ([`LINK`], and
//! what follows it), then its settings. It answers with a description of what it has; we lay out the memory file, and both sides
//! map it. From then on a message is some bytes to the process and one byte back. All numbers and pixels lie in the shared memory.

#[cfg(target_os = "linux")]
mod connection;
mod failure;
#[cfg(target_os = "linux")]
mod layout;
#[cfg(target_os = "linux")]
mod link;
#[cfg(target_os = "linux")]
mod output;
#[cfg(target_os = "linux")]
mod process;
#[cfg(target_os = "linux")]
mod shared;

#[cfg(target_os = "linux")]
pub use connection::{Connection, Opened};
pub use failure::{Failure, PythonError, printed};
#[cfg(target_os = "linux")]
pub use layout::{LayoutBuilder, Region};
#[cfg(target_os = "linux")]
pub use link::{Answer, NoAnswer, parse};
#[cfg(target_os = "linux")]
pub use shared::{Plain, SharedMemory};

/// What every program of the process starts with.
pub const LINK: &str = include_str!("link.py");
