//! How a command can fail, and what a person then reads.

use std::fmt;

use miette::{Diagnostic, LabeledSpan, NamedSource, SourceCode};
use plaudit_compose::{ComposeError, ErrorKind};
use plaudit_core::SyncError;
use thiserror::Error;

use crate::hints;

/// Why a command did not do what it was asked.
#[derive(Debug, Error, Diagnostic)]
pub enum Failure {
    /// The config is wrong: exit code 2.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Config(#[from] Box<ConfigProblem>),
    /// The command was used wrongly: exit code 2.
    #[error("{message}")]
    Usage {
        /// What is wrong.
        message: String,
        /// What to do.
        #[help]
        help: Option<String>,
    },
    /// The work failed: exit code 1.
    #[error("{message}")]
    Runtime {
        /// What failed.
        message: String,
        /// What to do.
        #[help]
        help: Option<String>,
    },
    /// Another rank of the same training failed, and this one ended with it: exit code 1.
    #[error("{message}")]
    OtherRank {
        /// Which rank, and what it said.
        message: String,
        /// What to do.
        #[help]
        help: Option<String>,
    },
    /// The user stopped it, and everything is saved: exit code 1, and nothing more to say.
    #[error("stopped")]
    Stopped,
    /// A model was audited and should not be used, which has been said: exit code 3.
    #[error("not passed")]
    AuditNotPassed,
    /// A check found something, and has said what: exit code 1.
    #[error("found something")]
    FoundProblems,
}

impl Failure {
    /// Whether the failure has been reported already.
    pub fn is_reported(&self) -> bool {
        matches!(self, Self::Stopped | Self::FoundProblems | Self::AuditNotPassed)
    }
}

impl Failure {
    /// The command was used wrongly.
    pub fn usage(message: impl fmt::Display, help: impl Into<Option<String>>) -> Self {
        Self::Usage { message: message.to_string(), help: help.into() }
    }

    /// The work failed.
    pub fn runtime(message: impl fmt::Display, help: impl Into<Option<String>>) -> Self {
        Self::Runtime { message: message.to_string(), help: help.into() }
    }

    /// The work failed in a library, which says what is wrong; what to do is known here.
    pub fn caused_by(error: &(dyn std::error::Error + 'static)) -> Self {
        Self::runtime(error, hints::about(error))
    }

    /// The exit code.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Config(_) | Self::Usage { .. } => 2,
            Self::Runtime { .. } | Self::OtherRank { .. } | Self::Stopped | Self::FoundProblems => 1,
            Self::AuditNotPassed => 3,
        }
    }
}

impl From<SyncError> for Failure {
    fn from(error: SyncError) -> Self {
        match &error {
            SyncError::Peer { .. } => {
                let help =
                    "start all ranks again; with runner.resume_dir they go on from the last checkpoint";
                Self::OtherRank { message: error.to_string(), help: Some(help.into()) }
            }
            SyncError::Different { .. } => {
                let help = "start every rank with the same program, the same words and the same data";
                Self::usage(error, help.to_string())
            }
            _ => Self::runtime(error, None),
        }
    }
}

impl From<ComposeError> for Failure {
    fn from(error: ComposeError) -> Self {
        Self::Config(Box::new(ConfigProblem::new(error)))
    }
}

/// A problem in a config, with the line it is on.
#[derive(Debug)]
pub struct ConfigProblem {
    error: ComposeError,
    source: Option<NamedSource<String>>,
}

impl ConfigProblem {
    fn new(error: ComposeError) -> Self {
        // A line of a megabyte is better not shown.
        let readable = error.line_text().is_some_and(|line| line.len() < 1000);
        let source = error
            .origin()
            .zip(error.text())
            .filter(|_| readable)
            .map(|(origin, text)| NamedSource::new(&*origin.source, text.to_string()));
        Self { error, source }
    }
}

impl fmt::Display for ConfigProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without a snippet the place must be in the sentence.
        if let (None, Some(origin)) = (&self.source, self.error.origin()) {
            write!(f, "{origin}: ")?;
        }
        if let Some(key) = self.error.key() {
            write!(f, "{key}: ")?;
        }
        write!(f, "{}", self.error.kind())
    }
}

impl std::error::Error for ConfigProblem {}

impl Diagnostic for ConfigProblem {
    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        self.error.hint().map(|hint| Box::new(hint) as Box<dyn fmt::Display>)
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        self.source.as_ref().map(|source| source as &dyn SourceCode)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        self.source.as_ref()?;
        let (origin, text) = (self.error.origin()?, self.error.text()?);
        let place = match self.error.kind() {
            ErrorKind::UnknownKey { key, .. } => span_of_key(text, origin.line, origin.column, key),
            _ => None,
        };
        let (start, length) = place.or_else(|| span(text, origin.line, origin.column))?;
        Some(Box::new(std::iter::once(LabeledSpan::underline((start, length)))))
    }
}

/// Bytes from the place to the end of what stands there, on that line.
fn span(text: &str, line: usize, column: usize) -> Option<(usize, usize)> {
    let mut start = 0;
    for (number, content) in text.split_inclusive('\n').enumerate() {
        if number + 1 == line {
            let content = content.trim_end();
            let skip =
                content.char_indices().nth(column.saturating_sub(1)).map_or(content.len(), |(at, _)| at);
            let rest = &content[skip..];
            let end = rest.find(" #").unwrap_or(rest.len());
            return Some((start + skip, rest[..end].trim_end().len().max(1)));
        }
        start += content.len();
    }
    None
}

/// Bytes of a key that stands before its value on the same line: the key is what is wrong, not the value.
fn span_of_key(text: &str, line: usize, column: usize, key: &str) -> Option<(usize, usize)> {
    let content = text.lines().nth(line.checked_sub(1)?)?;
    let at = content.find(key).filter(|&at| at < column)?;
    let (start, _) = span(text, line, 1)?;
    Some((start + at, key.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_covers_the_value_and_not_the_comment() {
        let text = "a: 1\nbé: two words # why\n";
        let (start, length) = span(text, 2, 5).unwrap();
        assert_eq!(&text[start..start + length], "two words");
        assert!(span(text, 9, 1).is_none());
        let (start, length) = span_of_key(text, 2, 5, "bé").unwrap();
        assert_eq!(&text[start..start + length], "bé");
    }
}
