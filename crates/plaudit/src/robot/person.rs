//! The person who lets an arm move.

use std::io::{BufRead, IsTerminal};

use plaudit_robot::{AskPerson, Person, StopToken, TerminalPilot};

use super::question;
use crate::console;

/// The person at the terminal, who types a word; or beside the robot of a process that has no terminal.
#[derive(Clone)]
pub struct TerminalPerson {
    /// Which robot is asked about.
    pub address: String,
    /// Who else reads the terminal.
    pub terminal: Option<TerminalPilot>,
    /// Ends the question.
    pub stop: StopToken,
}

impl AskPerson for TerminalPerson {
    fn may_move(&mut self, why: &str) -> Option<Person> {
        if self.stop.is_raised() {
            return None;
        }
        if !std::io::stdin().is_terminal() {
            if let Some(answered) = question::ask(&self.address, why, &self.stop) {
                return answered;
            }
            console::eprintln(
                "a person lets the arm move by typing `arm`, and standard input is no terminal",
            );
            return None;
        }
        // Asked once the terminal gives whole lines: who answers quickly would type keys otherwise.
        let ask = || {
            let address = &self.address;
            console::eprintln(&format!(
                "{why}\nThe robot at {address} will move. Is its box clear, and the e-stop in your hand?"
            ));
            console::eprintln("Type `arm` and Enter to let it move; anything else leaves it where it is.");
            line(&self.stop)
        };
        let line = match &self.terminal {
            Some(terminal) => terminal.suspended(ask),
            None => ask(),
        };
        (line?.trim() == "arm").then(|| Person::agreed("typed `arm` at the terminal"))
    }
}

/// A line that a person types; none if somebody wants to stop before that.
fn line(stop: &StopToken) -> Option<String> {
    while !waiting::is_line() {
        if stop.is_raised() {
            return None;
        }
    }
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line).ok()?;
    Some(line)
}

#[cfg(unix)]
mod waiting {
    use std::os::fd::AsFd;

    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

    /// Milliseconds of one wait.
    const SLICE_MS: u8 = 50;

    /// Whether a line is there, after a moment. A terminal that cannot be asked has one, or its end.
    pub(super) fn is_line() -> bool {
        let stdin = std::io::stdin();
        let mut asked = [PollFd::new(stdin.as_fd(), PollFlags::POLLIN)];
        match poll(&mut asked, PollTimeout::from(SLICE_MS)) {
            Ok(0) | Err(nix::errno::Errno::EINTR) => false,
            Ok(_) | Err(_) => true,
        }
    }
}

#[cfg(not(unix))]
mod waiting {
    pub(super) fn is_line() -> bool {
        true
    }
}

/// A simulated robot cannot hurt anybody: nobody has to be asked.
#[derive(Debug, Clone, Copy, Default)]
pub struct SimulatedPerson;

impl AskPerson for SimulatedPerson {
    fn may_move(&mut self, _why: &str) -> Option<Person> {
        Some(Person::agreed("the robot is simulated"))
    }
}
