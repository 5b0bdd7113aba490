//! JSON files of bounded size.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use serde_json::Value;

use plaudit_pyfiles::plain_file;

use crate::lerobot::error::{InFile, LeRobotError, Problem, Result};

/// A whole file.
pub(super) fn read_json(path: &Path, limit: u64) -> Result<Value> {
    let file = open(path)?;
    let mut bytes = Vec::new();
    file.take(limit + 1).read_to_end(&mut bytes).in_file(path)?;
    check(path, bytes.len(), limit)?;
    serde_json::from_slice(&bytes).in_file(path)
}

/// A file of one value per line.
pub(super) fn read_lines(path: &Path, limit: u64, lines: u64) -> Result<Vec<Value>> {
    let mut file = BufReader::new(open(path)?);
    let (mut all, mut line) = (Vec::new(), Vec::new());
    loop {
        line.clear();
        if file.by_ref().take(limit + 1).read_until(b'\n', &mut line).in_file(path)? == 0 {
            return Ok(all);
        }
        check(path, line.len(), limit)?;
        if !line.trim_ascii().is_empty() {
            all.push(serde_json::from_slice(&line).in_file(path)?);
        }
        if all.len() as u64 > lines {
            let (what, got, hint) = ("lines", all.len() as u64, "raise the limit on episodes");
            return Err(LeRobotError::new(path, Problem::Limit { what, got, limit: lines, hint }));
        }
    }
}

fn open(path: &Path) -> Result<File> {
    match plain_file::open(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let hint = "every LeRobot dataset has it; is the folder right, and was the dataset copied whole?";
            Err(LeRobotError::new(path, Problem::Missing { what: "the file", hint }))
        }
        other => other.in_file(path),
    }
}

fn check(path: &Path, bytes: usize, limit: u64) -> Result<()> {
    if bytes as u64 <= limit {
        return Ok(());
    }
    let hint = "it is no list of features and episodes; raise the limit on JSON if it is";
    let problem = Problem::Limit { what: "bytes of JSON", got: bytes as u64, limit, hint };
    Err(LeRobotError::new(path, problem))
}
