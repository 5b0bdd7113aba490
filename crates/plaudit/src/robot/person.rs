//! The person who lets an arm move.

use std::io::{BufRead, IsTerminal};

use plaudit_robot::{AskPerson, Person};

use crate::console;

/// The person at the terminal, who presses Enter.
#[derive(Debug, Clone)]
pub struct TerminalPerson {
    /// Which robot is asked about.
    pub address: String,
}

impl AskPerson for TerminalPerson {
    fn may_move(&mut self, why: &str) -> Option<Person> {
        let stdin = std::io::stdin();
        if !stdin.is_terminal() {
            return None;
        }
        let address = &self.address;
        console::eprintln(&format!(
            "{why}\nThe robot at {address} will move. Is its box clear, and the e-stop in your hand?"
        ));
        console::eprintln("Type `arm` and Enter to let it move; anything else leaves it where it is.");
        let mut line = String::new();
        stdin.lock().read_line(&mut line).ok()?;
        (line.trim() == "arm").then(|| Person::agreed("typed `arm` at the terminal"))
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
