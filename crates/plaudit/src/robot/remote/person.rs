//! Where the loop that moves an arm waits for the person at the page.

use plaudit_robot::{AskPerson, Person, TableReset};

use super::RemoteControl;

/// The person at the page, who types a word as others do at the terminal.
pub(crate) struct RemotePerson(pub(crate) RemoteControl);

impl AskPerson for RemotePerson {
    fn may_move(&mut self, why: &str) -> Option<Person> {
        self.0.ask(why).then(|| Person::agreed("typed `arm` at the page"))
    }
}

/// Between episodes the arm waits for the person, and goes to its start when the person says so: also after something broke.
pub(crate) struct StartGate {
    pub(crate) control: RemoteControl,
    pub(crate) table: Box<dyn TableReset>,
    /// Episodes that were begun.
    pub(crate) begun: u64,
}

impl TableReset for StartGate {
    fn reset(&mut self, _: u64) -> Result<(), String> {
        self.control.wait_for_start().ok_or("it is to end")?;
        self.table.reset(self.begun)?;
        self.begun += 1;
        Ok(())
    }
}
