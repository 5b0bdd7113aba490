//! How a run ended, in the words of the worker that leads it, for whoever supervises the run.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::PathBuf;

use plaudit_cluster::{Plan, Process};
use plaudit_view::write_atomically;
use serde_json::Value;

use crate::failure::Failure;

/// The most that a last word may take, in bytes.
const ROOM: usize = 4096;

/// Where the outcome goes, with room kept for it: a run that ends because the disk is full must still be able to say so.
pub(super) struct OutcomeFile {
    path: PathBuf,
    room: PathBuf,
}

impl OutcomeFile {
    /// Keeps room, unless an earlier process did; where there is none, the outcome is written if it can be.
    pub(super) fn keep_room(plan: &Plan, process: &Process) -> Self {
        let path = plan.outcome(process);
        let room = path.with_extension("room");
        if std::fs::metadata(&room).is_ok_and(|room| room.len() == ROOM as u64) {
            return Self { path, room };
        }
        let _ = std::fs::write(&room, [b' '; ROOM]);
        Self { path, room }
    }

    /// Writes it, into the room that was kept where there is no other.
    pub(super) fn write(&self, outcome: &Value) -> Result<(), Failure> {
        let text = outcome.to_string();
        write_atomically(&self.path, text.as_bytes()).or_else(|error| {
            self.write_in_room(&text).map_err(|_| Failure::runtime(error, None)) // the first one says more
        })
    }

    fn write_in_room(&self, text: &str) -> io::Result<()> {
        if text.len() > ROOM {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        // Over what is there already, and not truncated first: no new block is asked for. JSON may end in spaces.
        let mut room = OpenOptions::new().write(true).open(&self.room)?;
        room.write_all(format!("{text:<ROOM$}").as_bytes())?;
        room.sync_all()?;
        std::fs::rename(&self.room, &self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_room_holds_an_outcome() -> io::Result<()> {
        let folder = tempfile::tempdir()?;
        let file = OutcomeFile {
            path: folder.path().join("outcome.json"),
            room: folder.path().join("outcome.room"),
        };
        std::fs::write(&file.room, [b' '; ROOM])?;
        let outcome = json!({"outcome": "stopped", "reason": "no space left"});
        file.write_in_room(&outcome.to_string())?;
        let read: Value = serde_json::from_str(&std::fs::read_to_string(&file.path)?)?;
        assert_eq!(read, outcome);
        assert!(file.write_in_room(&"x".repeat(ROOM + 1)).is_err());
        Ok(())
    }
}
