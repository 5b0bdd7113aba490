//! The keys of whoever labels: from the terminal, from a pipe, from a script in tests.

use plaudit_robot::{Key, Pilot, StopToken, TerminalPilot};

use crate::failure::Failure;

/// A pilot of whom only the keys count.
pub(in crate::commands) struct Keys {
    pilot: Box<dyn Pilot>,
    have_ended: bool,
}

impl Keys {
    /// Those of a pilot.
    pub(in crate::commands) fn of(pilot: impl Pilot + 'static) -> Self {
        Self { pilot: Box::new(pilot), have_ended: false }
    }

    /// Those of the standard input. A terminal gives them without waiting for Enter until this is dropped.
    pub(in crate::commands) fn listen() -> Result<Self, Failure> {
        // Nothing moves here, so Esc has nothing to stop: it is a key like others.
        TerminalPilot::open_stdin(StopToken::new())
            .map(Self::of)
            .map_err(|error| Failure::runtime(error, None))
    }

    /// Keys since the last call, in order. Never waits.
    pub(in crate::commands) fn pressed(&mut self) -> Vec<Key> {
        match self.pilot.poll() {
            Ok(input) => input.pressed,
            Err(_) => {
                self.have_ended = true;
                Vec::new()
            }
        }
    }

    /// Whether no more will come.
    pub(in crate::commands) fn have_ended(&self) -> bool {
        self.have_ended
    }
}
