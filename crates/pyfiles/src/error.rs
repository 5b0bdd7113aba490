//! What can be wrong with a Python file, with the place and what to do about it.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// A Python file that could not be read: which file, where in it, and why.
#[derive(Debug)]
pub struct ReadError(Box<Details>);

#[derive(Debug)]
struct Details {
    file: Option<PathBuf>,
    member: Option<String>,
    at: u64,
    problem: Problem,
}

/// Why a Python file could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// The operating system would not give the bytes.
    #[error("cannot read it: {0}")]
    Io(#[source] io::Error),
    /// The file names a Python object that is not on the short list of harmless ones. Nothing was called.
    #[error("refused `{name}`: {hint}")]
    Refused {
        /// `module.name` as the file has it.
        name: String,
        /// What to do.
        hint: &'static str,
    },
    /// The bytes are not what the format wants here.
    #[error("expected {expected}, found {found}")]
    Malformed {
        /// What the format wants.
        expected: &'static str,
        /// What is there.
        found: String,
    },
    /// The file ends, or a length in it reaches past its end.
    #[error("{wanted} bytes are promised here, but only {left} are left: the file is cut short or damaged")]
    Ends {
        /// How many bytes the file says follow.
        wanted: u64,
        /// How many do.
        left: u64,
    },
    /// Well-formed, but of a kind that is not read.
    #[error("{what} cannot be read; {hint}")]
    Unsupported {
        /// What was met.
        what: String,
        /// What to do.
        hint: &'static str,
    },
    /// Reading on would need more than the limits allow.
    #[error("more than {limit} {what}; {hint}")]
    Limit {
        /// What there is too much of.
        what: &'static str,
        /// How much is allowed.
        limit: u64,
        /// What to do.
        hint: &'static str,
    },
    /// A container holds itself.
    #[error("a {what} contains itself; save data without loops")]
    Cycle {
        /// The kind of container.
        what: &'static str,
    },
    /// Something is wrong inside a torch stream that is stored as a string of bytes.
    #[error("in the torch storage saved here, byte {at}: {problem}")]
    Nested {
        /// Byte offset in the inner stream.
        at: u64,
        /// What is wrong there.
        problem: Box<Problem>,
    },
}

pub(crate) type Result<T> = std::result::Result<T, ReadError>;

impl ReadError {
    pub(crate) fn new(at: usize, problem: Problem) -> Self {
        Self(Box::new(Details { file: None, member: None, at: at as u64, problem }))
    }

    pub(crate) fn malformed(at: usize, expected: &'static str, found: impl Into<String>) -> Self {
        Self::new(at, Problem::Malformed { expected, found: found.into() })
    }

    /// The same with a doubt about the whole file, where bytes make no sense.
    pub(crate) fn with_hint(mut self, hint: &str) -> Self {
        if let Problem::Malformed { found, .. } = &mut self.0.problem {
            *found = format!("{found}; {hint}");
        }
        self
    }

    pub(crate) fn unsupported(at: usize, what: impl Into<String>, hint: &'static str) -> Self {
        Self::new(at, Problem::Unsupported { what: what.into(), hint })
    }

    pub(crate) fn ends(at: usize, wanted: u64, left: usize) -> Self {
        Self::new(at, Problem::Ends { wanted, left: left as u64 })
    }

    pub(crate) fn in_file(mut self, file: &Path) -> Self {
        self.0.file.get_or_insert_with(|| file.to_owned());
        self
    }

    pub(crate) fn in_member(mut self, member: &str) -> Self {
        self.0.member.get_or_insert_with(|| member.to_owned());
        self
    }

    /// The same error moved out of an inner stream that is stored at `at`.
    pub(crate) fn nested(self, at: usize) -> Self {
        let inner = Problem::Nested { at: self.0.at, problem: Box::new(self.0.problem) };
        Self::new(at, inner)
    }

    pub(crate) fn shifted(mut self, by: usize) -> Self {
        self.0.at += by as u64;
        self
    }

    /// The file, where the bytes came from one.
    #[must_use]
    pub fn file(&self) -> Option<&Path> {
        self.0.file.as_deref()
    }

    /// The member of the zip archive, where the file is one (`.pt`, `.npz`).
    #[must_use]
    pub fn member(&self) -> Option<&str> {
        self.0.member.as_deref()
    }

    /// The byte offset of the trouble, in the member if there is one, otherwise in the file.
    #[must_use]
    pub fn at(&self) -> u64 {
        self.0.at
    }

    /// What is wrong.
    #[must_use]
    pub fn problem(&self) -> &Problem {
        &self.0.problem
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = &self.0.file {
            write!(f, "{}: ", file.display())?;
        }
        if let Some(member) = &self.0.member {
            write!(f, "{member}: ")?;
        }
        if matches!(self.0.problem, Problem::Io(_)) {
            return write!(f, "{}", self.0.problem);
        }
        write!(f, "byte {}: {}", self.0.at, self.0.problem)
    }
}

impl std::error::Error for ReadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.0.problem {
            Problem::Io(error) => Some(error),
            _ => None,
        }
    }
}

/// A Python file that could not be written. Nothing is left under its name, and what was there before stays.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The operating system refused: no space, no permission, no such folder.
    #[error("cannot write {}: {source}; nothing was changed under that name", file.display())]
    Io {
        /// The file that was to be written.
        file: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A value cannot be represented in this file format.
    #[error("{}cannot write {what} {place}; {hint}", at_key(.key))]
    Unsupported {
        /// Where the value stands, such as `observations[3].states`; empty: it is the whole of what is written.
        key: String,
        /// The kind of value.
        what: String,
        /// The kind of file.
        place: &'static str,
        /// What to do.
        hint: &'static str,
    },
}

fn at_key(key: &str) -> String {
    if key.is_empty() { String::new() } else { format!("`{key}`: ") }
}
