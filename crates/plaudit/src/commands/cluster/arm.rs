//! `plaudit cluster arm`: a person lets a robot of a run move.

use std::io::{BufRead, IsTerminal};
use std::path::PathBuf;

use clap::Args;

use super::{absolute, read_plan};
use crate::console;
use crate::failure::Failure;
use crate::robot::Question;

/// Let a robot of a run move, beside it
///
/// A process that is to move a robot asks a person first, also after it was started again. The question lies on the robot's
/// machine: look at the box of the arm, take the e-stop, and answer there.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plaudit cluster arm logs/two            on the robot's machine")]
pub struct Arm {
    /// The run directory, on the robot's machine
    #[arg(value_name = "RUN_DIR")]
    run_dir: PathBuf,
}

impl Arm {
    pub(super) fn run(self) -> Result<(), Failure> {
        let plan = read_plan(&absolute(&self.run_dir)?)?;
        let folders = plan.processes.iter().map(|process| plan.folder_of(process));
        let mut open =
            folders.filter_map(|folder| Question::read(&folder).map(|question| (folder, question)));
        let Some((folder, question)) = open.next() else {
            let help = "run it on the machine of the robot, when its process asks".to_string();
            return Err(Failure::usage("no robot of this run asks to move, on this machine", help));
        };
        if !std::io::stdin().is_terminal() {
            let message = "a person lets the arm move by typing `arm`, and standard input is no terminal";
            return Err(Failure::usage(message, None));
        }
        console::eprintln(&format!(
            "{}\nThe robot at {} will move. Is its box clear, and the e-stop in your hand?\nType `arm` and Enter to let it \
             move; anything else leaves it where it is.",
            question.why, question.address
        ));
        let mut line = String::new();
        let read = std::io::stdin().lock().read_line(&mut line);
        if read.is_err() || line.trim() != "arm" {
            console::eprintln("it stays where it is");
            return Err(Failure::Stopped);
        }
        // Another process may ask by now, and this answer is not to it.
        question.agree(&folder).map_err(|error| Failure::runtime(error, None))
    }
}
