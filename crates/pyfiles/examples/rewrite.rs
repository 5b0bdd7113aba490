//! Reads Python files and writes them again in every form that can hold them, with what Python must find there.
//!
//!     cargo run -p plaudit-data --example rewrite -- OUT_DIR FILE…
//!
//! `tests/python/check_written.py OUT_DIR` then loads them in Python and compares.
#![allow(clippy::print_stderr)]

#[path = "../tests/leaves/mod.rs"]
mod leaves;

use std::path::Path;

use plaudit_pyfiles::{PickleStyle, Protocol, PyValue, Storages, TensorStyle, WriteError};

type Outcome = Result<(), Box<dyn std::error::Error>>;

fn main() -> Outcome {
    let mut arguments = std::env::args().skip(1);
    let out = arguments.next().ok_or("say where to write")?;
    for (number, file) in arguments.enumerate() {
        let value = plaudit_pyfiles::read(&file)?;
        rewrite(&value, &format!("{out}/{number:03}"))?;
        write_leaves(format!("{out}/{number:03}.json"), &value)?;
    }
    Ok(())
}

fn rewrite(value: &PyValue, stem: &str) -> Outcome {
    for (name, protocol) in [("2", Protocol::Two), ("4", Protocol::Four), ("5", Protocol::Five)] {
        let style = PickleStyle { protocol, tensors: TensorStyle::Torch };
        keep(plaudit_pyfiles::write_pickle(format!("{stem}.{name}.pkl"), value, style))?;
    }
    keep(plaudit_pyfiles::write_pt(format!("{stem}.own.pt"), value, Storages::Own))?;
    keep(plaudit_pyfiles::write_pt(format!("{stem}.shared.pt"), value, Storages::Shared))?;
    keep(plaudit_pyfiles::write_npy(format!("{stem}.npy"), value))?;
    keep(plaudit_pyfiles::write_npz(format!("{stem}.npz"), [("value", value)]))
}

/// Some values cannot be represented in some files; they are reported and skipped.
fn keep(written: Result<(), WriteError>) -> Outcome {
    match written {
        Err(error @ WriteError::Unsupported { .. }) => eprintln!("{error}"),
        other => other?,
    }
    Ok(())
}

fn write_leaves(path: impl AsRef<Path>, value: &PyValue) -> Outcome {
    let rows: Vec<_> =
        leaves::leaves(value).into_iter().map(|(path, leaf)| serde_json::json!([path, leaf])).collect();
    Ok(std::fs::write(path, serde_json::to_string(&rows)?)?)
}
