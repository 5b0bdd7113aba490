//! What is done on one machine: finding out what it is, starting and ending its daemon, and sending home what its
//! processes write.
//!
//! Everything here runs on the machine itself. Who drives a cluster asks for it through ssh ([`Errand`]), or does it directly
//! where the machine is the one it runs on.

mod daemons;
mod errand;
mod mirror;
mod probe;
mod processes;
mod shared_memory;

use std::path::PathBuf;

use thiserror::Error;

pub use daemons::{
    Check, DaemonCheck, Ended, StartRequest, Started, check, end, end_daemon, forget_outcomes,
    start_coordinator, start_daemon, write_files,
};
pub use errand::{Errand, ask_dora, errand, errand_stream};
pub use mirror::{Known, MirrorReceiver, known_files, send_changes};
pub use probe::{Probe, dora_version, gpus, probe};

/// Why something could not be done on a machine.
#[derive(Debug, Error)]
pub enum MachineError {
    /// A file could not be read or written.
    #[error("{what} {path}: {error}")]
    File {
        /// What was tried.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Why it failed.
        error: std::io::Error,
    },
    /// A program could not be started.
    #[error("cannot start {program}: {error}")]
    Start {
        /// Which.
        program: String,
        /// Why.
        error: std::io::Error,
    },
    /// A program ended at once.
    #[error("{program} ended at once: {said}")]
    EndedAtOnce {
        /// Which.
        program: &'static str,
        /// Its last words.
        said: String,
    },
    /// A program did not answer in time.
    #[error("{program} did not answer within {seconds} s")]
    NoAnswer {
        /// Which.
        program: String,
        /// How long it was waited for.
        seconds: u64,
    },
    /// An errand failed.
    #[error("{machine}: {said}")]
    Refused {
        /// The machine.
        machine: String,
        /// What it said.
        said: String,
    },
    /// An answer that makes no sense.
    #[error("{machine} answered `{answer}`: {error}")]
    Answer {
        /// The machine.
        machine: String,
        /// What it said.
        answer: String,
        /// What is wrong with it.
        error: serde_json::Error,
    },
}

fn file_error(what: &'static str, path: &std::path::Path) -> impl FnOnce(std::io::Error) -> MachineError {
    let path = path.to_path_buf();
    move |error| MachineError::File { what, path, error }
}
