//! Where a run keeps what it leaves behind.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use jiff::tz::TimeZone;
use plaudit_pyfiles::AtomicFile;

/// Writes a whole file so that a reader, a crash or a power cut sees the old file or the new one, never half.
///
/// # Errors
/// [`RunError::Write`] when that fails; the old file is then untouched and no temporary file is left.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> Result<(), RunError> {
    AtomicFile::write(path, [bytes]).map_err(|source| RunError::Write { path: path.to_owned(), source })
}

/// The folders of a run directory.
const FOLDERS: [&str; 5] = ["tensorboard", "images", "checkpoints", "video", "data"];

/// The directory of one run.
///
/// ```text
/// logs/20260801-12:34:56-reward_training/
///   config.yaml      what was run: the resolved config
///   events.jsonl     what happened, one line per event
///   metrics.log      the numbers, for reading
///   process.json     which process it is
///   tensorboard/     the numbers, for TensorBoard
///   images/          the images that events.jsonl names
///   checkpoints/  video/  data/
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunDir {
    path: PathBuf,
}

impl RunDir {
    /// Creates `root/<local time>-<name>/`. A second run within the same second gets `-2` after its name.
    ///
    /// # Errors
    /// [`RunError`] when the name is not a plain file name, or the directory cannot be made.
    pub fn create(root: &Path, name: &str, when: SystemTime) -> Result<Self, RunError> {
        check_name(name)?;
        make_dirs(root)?;
        let first = format!("{}-{name}", timestamp(when, TimeZone::system()));
        for attempt in 1_u32.. {
            let taken_by = if attempt == 1 { first.clone() } else { format!("{first}-{attempt}") };
            let path = root.join(taken_by);
            // Whoever makes the directory owns it: two runs cannot both succeed.
            match fs::create_dir(&path) {
                Ok(()) => return Self { path }.create_folders(),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(cannot_create(path, error)),
            }
        }
        unreachable!("more runs in a second than a u32 counts")
    }

    /// Starts a run in exactly this directory, creating it if needed.
    ///
    /// # Errors
    /// [`RunError::Occupied`] when a run already lives there; other [`RunError`]s when it cannot be made.
    pub fn at(path: &Path) -> Result<Self, RunError> {
        make_dirs(path)?;
        Self { path: path.to_owned() }.create_folders()
    }

    /// Opens the directory of an earlier run, to resume or to look at it.
    ///
    /// # Errors
    /// [`RunError::NotARun`] when no run lives there.
    pub fn open(path: &Path) -> Result<Self, RunError> {
        let run = Self { path: path.to_owned() };
        if run.events().is_file() { Ok(run) } else { Err(RunError::NotARun { path: path.to_owned() }) }
    }

    /// Where the event log of a run in this folder is, whether the run is there yet or not.
    pub(crate) fn events_in(folder: &Path) -> PathBuf {
        Self { path: folder.to_owned() }.events()
    }

    /// Claims the directory by its event log, and makes the folders.
    fn create_folders(self) -> Result<Self, RunError> {
        match File::create_new(self.events()) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return Err(RunError::Occupied { path: self.path });
            }
            Err(error) => return Err(cannot_create(self.path, error)),
        }
        for folder in FOLDERS {
            make_dirs(&self.path.join(folder))?;
        }
        Ok(self)
    }

    /// Keeps the resolved config with the run.
    ///
    /// # Errors
    /// [`RunError::Write`] when it cannot be written.
    pub fn write_config(&self, yaml: &str) -> Result<(), RunError> {
        write_atomically(&self.config(), yaml.as_bytes())
    }

    /// The directory itself.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Declares where things lie in a run directory.
macro_rules! places {
    ($( $(#[doc = $doc:literal])+ $name:ident = $file:literal, )*) => {
        impl RunDir {
            $(
                $(#[doc = $doc])+
                #[must_use]
                pub fn $name(&self) -> PathBuf {
                    self.path.join($file)
                }
            )*
        }
    };
}

places! {
    /// The resolved config: `config.yaml`.
    config = "config.yaml",
    /// The event log: `events.jsonl`.
    events = "events.jsonl",
    /// The metrics as a table to read: `metrics.log`.
    metrics_log = "metrics.log",
    /// TensorBoard's event files: `tensorboard/`.
    tensorboard = "tensorboard",
    /// Images of the event log: `images/`.
    images = "images",
    /// Saved states: `checkpoints/`.
    checkpoints = "checkpoints",
    /// Recorded videos: `video/`.
    video = "video",
    /// Collected episodes: `data/`.
    data = "data",
}

/// `20260801-12:34:56`.
fn timestamp(when: SystemTime, zone: TimeZone) -> String {
    let when = jiff::Timestamp::try_from(when).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    when.to_zoned(zone).strftime("%Y%m%d-%H:%M:%S").to_string()
}

fn check_name(name: &str) -> Result<(), RunError> {
    let plain = !name.is_empty() && !name.contains(['/', '\\']) && !name.chars().any(char::is_control);
    if plain { Ok(()) } else { Err(RunError::Name { name: name.to_owned() }) }
}

fn make_dirs(path: &Path) -> Result<(), RunError> {
    fs::create_dir_all(path).map_err(|error| cannot_create(path.to_owned(), error))
}

fn cannot_create(path: PathBuf, source: io::Error) -> RunError {
    let file = path.ancestors().find(|ancestor| ancestor.is_file());
    match file {
        Some(file) => RunError::IsAFile { path: file.to_owned() },
        None => RunError::Create { path, source },
    }
}

/// What can go wrong with a run directory.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The name of a run cannot be part of a directory name.
    #[error(
        "`{}` cannot name a run; use a plain name such as reward_training, without slashes or line breaks",
        .name.escape_debug()
    )]
    Name {
        /// The name.
        name: String,
    },
    /// A file is in the way.
    #[error("{} is a file, and a run needs a directory there; choose another log path or move the file", .path.display())]
    IsAFile {
        /// The file.
        path: PathBuf,
    },
    /// The directory cannot be made.
    #[error("cannot create {}: {source}; {}", .path.display(), hint(.source))]
    Create {
        /// The directory or file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Another run already lives there.
    #[error("{} already holds a run; resume that run, or choose another log path", .path.display())]
    Occupied {
        /// The directory.
        path: PathBuf,
    },
    /// No run lives there.
    #[error("{} holds no run (it has no events.jsonl); give the directory of a run, such as logs/20260801-12:34:56-reward_training", .path.display())]
    NotARun {
        /// The directory.
        path: PathBuf,
    },
    /// Another process is writing there.
    #[error("another process is writing {}; wait for it, stop it, or start a run of its own", .path.display())]
    Busy {
        /// The file.
        path: PathBuf,
    },
    /// A file cannot be written.
    #[error("cannot write {}: {source}; {}", .path.display(), hint(.source))]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file cannot be read.
    #[error("cannot read {}: {source}; {}", .path.display(), hint(.source))]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// What to do about an I/O error.
fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "free some space, or choose a log path on another disk"
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "choose a log path that you may write to"
        }
        io::ErrorKind::InvalidFilename => "choose a shorter name",
        io::ErrorKind::NotFound => "check that the path is still there",
        _ => "check the disk and the path",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn noon() -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(1_785_587_696)
    }

    #[test]
    fn names_carry_the_time_as_people_read_it() {
        assert_eq!(timestamp(noon(), TimeZone::UTC), "20260801-12:34:56");
        let zurich = TimeZone::fixed(jiff::tz::offset(2));
        assert_eq!(timestamp(noon(), zurich), "20260801-14:34:56");
    }

    #[test]
    fn two_runs_in_a_second_do_not_share() {
        let root = tempfile::tempdir().unwrap();
        let runs: Vec<_> = std::thread::scope(|scope| {
            let create = || RunDir::create(root.path(), "train", noon()).unwrap();
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(create)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let paths: std::collections::HashSet<_> = runs.iter().map(RunDir::path).collect();
        assert_eq!(paths.len(), 8);
        let name = |run: &RunDir| run.path().file_name().unwrap().to_string_lossy().into_owned();
        let mut names: Vec<_> = runs.iter().map(name).collect();
        names.sort();
        assert!(names[0].ends_with("-train") && names[7].ends_with("-train-8"), "{names:?}");
    }

    #[test]
    fn a_run_has_its_folders_and_is_found_again() {
        let root = tempfile::tempdir().unwrap();
        let run = RunDir::at(&root.path().join("deep/run")).unwrap();
        assert!(FOLDERS.iter().all(|folder| run.path().join(folder).is_dir()));
        run.write_config("seed: 1\n").unwrap();
        assert_eq!(fs::read_to_string(run.config()).unwrap(), "seed: 1\n");
        assert_eq!(RunDir::open(run.path()).unwrap(), run);
    }

    #[test]
    fn errors_name_the_path_and_say_what_to_do() {
        let root = tempfile::tempdir().unwrap();
        let check = |result: Result<RunDir, RunError>, expected: &str| {
            let error = result.unwrap_err().to_string().replace(&root.path().display().to_string(), "ROOT");
            assert_eq!(error, expected);
        };
        check(
            RunDir::create(root.path(), "a/b", noon()),
            "`a/b` cannot name a run; use a plain name such as reward_training, without slashes or line breaks",
        );
        fs::write(root.path().join("file"), b"").unwrap();
        check(
            RunDir::create(&root.path().join("file"), "train", noon()),
            "ROOT/file is a file, and a run needs a directory there; choose another log path or move the file",
        );
        check(
            RunDir::at(&root.path().join("file/run")),
            "ROOT/file is a file, and a run needs a directory there; choose another log path or move the file",
        );
        RunDir::at(&root.path().join("run")).unwrap();
        check(
            RunDir::at(&root.path().join("run")),
            "ROOT/run already holds a run; resume that run, or choose another log path",
        );
        check(
            RunDir::open(&root.path().join("nothing")),
            "ROOT/nothing holds no run (it has no events.jsonl); give the directory of a run, such as logs/20260801-12:34:56-reward_training",
        );
    }

    #[test]
    fn a_name_that_is_too_long_is_reported() {
        let root = tempfile::tempdir().unwrap();
        let error = RunDir::create(root.path(), &"x".repeat(300), noon()).unwrap_err();
        assert!(error.to_string().ends_with("choose a shorter name"), "{error}");
    }

    /// `/proc` refuses new directories to everyone, even to root.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_read_only_place_is_refused_by_name() {
        let error = RunDir::create(Path::new("/proc/logs"), "train", noon()).unwrap_err();
        assert!(matches!(&error, RunError::Create { path, .. } if path.starts_with("/proc/logs")), "{error}");
    }

    #[test]
    fn a_failure_names_the_file_and_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("taken");
        fs::create_dir(&target).unwrap();
        fs::write(target.join("inside"), b"").unwrap();
        let error = write_atomically(&target, b"bytes").unwrap_err();
        assert!(error.to_string().contains("taken"), "{error}");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
