//! `plaudit init`: a small project to begin with, for what a person has at hand.

mod kinds;

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use plaudit_view::write_atomically;

pub use self::kinds::ProjectKind;
use crate::console;
use crate::failure::Failure;
use crate::run::quoted;

/// What stands for the folder's own name in a template.
const NAME: &str = "{{name}}";

/// Write a small project to begin with
///
/// It has configs, folders and a README.md with the commands, for images of yours, a LeRobot dataset, a
/// Gymnasium environment or a robot. Nothing that is there already is overwritten.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plaudit init images my_task       a reward model from images of mine
  plaudit init lerobot              one from a LeRobot dataset, in ./lerobot
  plaudit init gymnasium my_env     a policy for an environment of mine
  plaudit init robot bench          demonstrations, a reward and RLPD on an arm")]
pub struct Command {
    /// What there is to begin with
    kind: ProjectKind,
    /// Where the project goes [default: a folder with the kind's name]
    #[arg(value_name = "FOLDER")]
    folder: Option<PathBuf>,
}

impl Command {
    /// Does it.
    pub fn run(self) -> Result<(), Failure> {
        let folder = self.folder.unwrap_or_else(|| PathBuf::from(self.kind.name()));
        let files = self.kind.files();
        refuse_overwriting(&folder, files)?;
        let name = folder.file_name().map_or_else(|| self.kind.name().into(), |name| name.to_string_lossy());
        for inner in self.kind.folders() {
            let path = folder.join(inner);
            fs::create_dir_all(&path).map_err(|error| cannot_write(&path, &error))?;
        }
        fs::create_dir_all(&folder).map_err(|error| cannot_write(&folder, &error))?;
        for (file, text) in files {
            write_new(&folder.join(file), &text.replace(NAME, &name))?;
        }
        let made: Vec<String> = files.iter().map(|(file, _)| format!("  {file}\n")).collect();
        let place = quoted(&folder.display().to_string());
        console::print(&format!(
            "{}\n{}\ngo on with:\n  cd {place}\n  {}\n(README.md there has the rest)\n",
            folder.display(),
            made.concat(),
            self.kind.first_command(),
        ))
    }
}

/// Nothing is written where one of the files is there already.
fn refuse_overwriting(folder: &Path, files: &[(&str, &str)]) -> Result<(), Failure> {
    // A link that leads nowhere is in the way as well.
    let is_there = |(file, _): &&(&str, &str)| fs::symlink_metadata(folder.join(file)).is_ok();
    let Some((file, _)) = files.iter().find(is_there) else { return Ok(()) };
    let message = format!("{} is there already, and nothing is overwritten", folder.join(file).display());
    Err(Failure::usage(message, "give another folder".to_string()))
}

/// A whole file where none is: one that appears meanwhile is not overwritten either.
fn write_new(path: &Path, text: &str) -> Result<(), Failure> {
    let mut claimed = File::create_new(path).map_err(|error| cannot_write(path, &error))?;
    claimed.flush().map_err(|error| cannot_write(path, &error))?;
    write_atomically(path, text.as_bytes()).map_err(|error| Failure::runtime(error, None))
}

fn cannot_write(path: &Path, error: &std::io::Error) -> Failure {
    let message = format!("cannot write {}: {error}", path.display());
    let help = match error.kind() {
        ErrorKind::AlreadyExists => "give another folder",
        _ => "give a folder that can be written",
    };
    Failure::usage(message, help.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn init(kind: ProjectKind, folder: &Path) -> Result<(), Failure> {
        Command { kind, folder: Some(folder.to_path_buf()) }.run()
    }

    #[test]
    fn a_project_is_written_once() {
        for kind in ProjectKind::ALL {
            let root = tempfile::tempdir().unwrap();
            let folder = root.path().join("mine");
            fs::create_dir(&folder).unwrap();
            fs::write(folder.join("notes.txt"), "mine").unwrap();
            init(*kind, &folder).unwrap();
            let readme = fs::read_to_string(folder.join("README.md")).unwrap();
            assert!(readme.starts_with("# mine\n") && !readme.contains("{{"), "{readme}");
            assert_eq!(fs::read_to_string(folder.join("notes.txt")).unwrap(), "mine");
            fs::write(folder.join("README.md"), "changed").unwrap();
            let error = init(*kind, &folder).unwrap_err();
            assert!(error.to_string().contains("nothing is overwritten"), "{error}");
            assert_eq!(fs::read_to_string(folder.join("README.md")).unwrap(), "changed");
        }
    }

    #[test]
    fn nothing_is_written_where_one_file_is_in_the_way() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("my_env.py"), "mine").unwrap();
        init(ProjectKind::Gymnasium, root.path()).unwrap_err();
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 1);
    }
}
