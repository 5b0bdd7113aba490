//! The question whether an arm may move, of a process without a terminal: it lies in a folder until a person beside the robot
//! answers it there (`plaudit cluster arm`).

use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use plaudit_robot::{Person, StopToken};
use plaudit_view::write_atomically;
use serde::{Deserialize, Serialize};

use crate::console;

/// How often an answer is looked for.
const LOOKS_EVERY: Duration = Duration::from_millis(100);

/// Where this process asks, if it has no terminal.
static FOLDER: OnceLock<PathBuf> = OnceLock::new();

/// What is asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Question {
    /// No other question has this number: an answer is to one alone.
    pub(crate) number: u64,
    /// The robot.
    pub(crate) address: String,
    /// Why somebody is asked.
    pub(crate) why: String,
}

/// An answer: yes. There is no other.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Agreed {
    number: u64,
}

impl Question {
    /// Its file.
    pub(crate) const FILE: &'static str = "question.json";
    const ANSWER: &'static str = "answer.json";

    /// The question that is open in a folder.
    pub(crate) fn read(folder: &Path) -> Option<Self> {
        serde_json::from_str(&std::fs::read_to_string(folder.join(Self::FILE)).ok()?).ok()
    }

    /// Lets the arm move.
    pub(crate) fn agree(&self, folder: &Path) -> std::io::Result<()> {
        let text = serde_json::to_string(&Agreed { number: self.number })?;
        write_atomically(&folder.join(Self::ANSWER), text.as_bytes()).map_err(std::io::Error::other)
    }

    fn is_agreed(&self, folder: &Path) -> bool {
        let text = std::fs::read_to_string(folder.join(Self::ANSWER)).unwrap_or_default();
        serde_json::from_str(&text).is_ok_and(|agreed: Agreed| agreed.number == self.number)
    }
}

/// From now on, questions of this process lie in a folder.
pub(crate) fn ask_in(folder: &Path) {
    let _ = FOLDER.set(folder.into()); // a process is one worker
}

/// Asks, if there is a folder to ask in, and waits for a person. `None` in the first place where there is none.
pub(super) fn ask(address: &str, why: &str, stop: &StopToken) -> Option<Option<Person>> {
    let folder = FOLDER.get()?;
    let number = RandomState::new().hash_one(std::process::id());
    let question = Question { number, address: address.into(), why: why.into() };
    Some(wait(folder, &question, stop))
}

fn wait(folder: &Path, question: &Question, stop: &StopToken) -> Option<Person> {
    let text = serde_json::to_string(question).ok()?;
    let path = folder.join(Question::FILE);
    if let Err(error) = write_atomically(&path, text.as_bytes()) {
        console::eprintln(&format!("nobody can be asked whether the arm may move: {error}"));
        return None;
    }
    console::eprintln(&format!(
        "{}\nThe robot at {} waits for a person, who types beside it: plaudit cluster arm RUN_DIR",
        question.why, question.address
    ));
    while !question.is_agreed(folder) {
        if stop.is_raised() {
            let _ = std::fs::remove_file(&path);
            return None;
        }
        std::thread::sleep(LOOKS_EVERY);
    }
    let _ = std::fs::remove_file(&path);
    Some(Person::agreed("typed `arm` beside the robot"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_to_one_question_alone() {
        let folder = tempfile::tempdir().unwrap();
        let question = |number| Question { number, address: "http://arm".into(), why: "a reset".into() };
        question(7).agree(folder.path()).unwrap();
        let stop = StopToken::new();
        std::thread::scope(|scope| {
            let asked = scope.spawn(|| wait(folder.path(), &question(8), &stop));
            while Question::read(folder.path()).is_none() {
                std::thread::sleep(Duration::from_millis(5));
            }
            std::thread::sleep(3 * LOOKS_EVERY);
            assert!(!asked.is_finished(), "the answer before was to another question");
            Question::read(folder.path()).unwrap().agree(folder.path()).unwrap();
            assert!(asked.join().unwrap().is_some());
        });
        assert_eq!(Question::read(folder.path()), None, "it is not open any more");
        stop.raise();
        assert!(wait(folder.path(), &question(9), &stop).is_none(), "whoever stops does not wait");
    }
}
