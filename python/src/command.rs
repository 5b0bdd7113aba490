//! The `plaudit` command: the same program as the binary.

use std::ffi::OsString;
use std::path::PathBuf;

use plaudit::program::{self, FailureText};
use pyo3::prelude::*;

use crate::process;

/// An exit code, and of a failure what is wrong and what to do.
type Ended = (u8, Option<(String, Option<String>)>);

/// Runs a command line. Gives its exit code and, where it failed, what was wrong and what to do.
///
/// `script` is what starts the program again, for commands that run others.
#[pyfunction]
pub(crate) fn run_command(py: Python<'_>, words: Vec<OsString>, script: Option<PathBuf>) -> PyResult<Ended> {
    if let Some(script) = script {
        program::set_path(&script);
    }
    let outcome = process::compute(py, || program::run(&words, &crate::MEMORY))?;
    let failure = outcome.failure.map(|FailureText { message, hint }| (message, hint));
    Ok((outcome.code, failure))
}
