//! The world as composition sees it. The crate opens nothing by itself: the caller decides what a file is.

use std::collections::{BTreeMap, BTreeSet};

use jiff::civil::DateTime;

/// Files, environment variables, the clock and the working directory, as the caller provides them.
///
/// Paths are text with `/` between their parts.
pub trait Sources {
    /// The text of a file, or why it cannot be read.
    fn read(&self, path: &str) -> Result<String, String>;

    /// Whether there is a file at this path.
    fn is_file(&self, path: &str) -> bool;

    /// Whether there is a directory at this path.
    fn is_dir(&self, path: &str) -> bool;

    /// The names of what is in a directory; nothing if it cannot be listed.
    fn list(&self, path: &str) -> Vec<String>;

    /// The value of an environment variable.
    fn env(&self, name: &str) -> Option<String>;

    /// The local time, for `${now:...}`.
    fn now(&self) -> DateTime;

    /// The working directory, for `${hydra:runtime.cwd}` and for search paths that are not absolute.
    fn cwd(&self) -> String;
}

/// Sources held in memory, for tests and examples.
///
/// ```
/// use plaudit_compose::{MemorySources, Sources};
///
/// let sources = MemorySources::new().file("conf/config.yaml", "a: 1").var("HOME", "/root");
/// assert!(sources.is_file("conf/config.yaml"));
/// assert!(sources.is_dir("conf"));
/// assert_eq!(sources.list("conf"), ["config.yaml"]);
/// ```
#[derive(Debug, Clone, Default)]
pub struct MemorySources {
    files: BTreeMap<String, String>,
    vars: BTreeMap<String, String>,
    now: DateTime,
}

impl MemorySources {
    /// No files and no variables.
    pub fn new() -> Self {
        MemorySources::default()
    }

    /// With one more file; its directories exist by themselves.
    pub fn file(mut self, path: impl Into<String>, text: impl Into<String>) -> Self {
        self.files.insert(path.into(), text.into());
        self
    }

    /// With one more environment variable.
    pub fn var(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.vars.insert(name.into(), value.into());
        self
    }

    /// With the clock stopped at a time.
    pub fn at(mut self, now: DateTime) -> Self {
        self.now = now;
        self
    }
}

impl Sources for MemorySources {
    fn read(&self, path: &str) -> Result<String, String> {
        self.files.get(path).cloned().ok_or_else(|| "no such file".to_owned())
    }

    fn is_file(&self, path: &str) -> bool {
        self.files.contains_key(path)
    }

    fn is_dir(&self, path: &str) -> bool {
        !self.list(path).is_empty()
    }

    fn list(&self, path: &str) -> Vec<String> {
        let prefix = format!("{}/", path.trim_end_matches('/'));
        let names: BTreeSet<&str> =
            self.files.keys().filter_map(|file| file.strip_prefix(&prefix)?.split('/').next()).collect();
        names.into_iter().map(str::to_owned).collect()
    }

    fn env(&self, name: &str) -> Option<String> {
        self.vars.get(name).cloned()
    }

    fn now(&self) -> DateTime {
        self.now
    }

    fn cwd(&self) -> String {
        "/cwd".to_owned()
    }
}
