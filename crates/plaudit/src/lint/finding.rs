//! What a linter found: one thing, where it stands, why it matters, and what to do.

use plaudit_compose::Origin;
use serde::Serialize;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Good to know.
    Note,
    /// Likely not what was meant.
    Warning,
    /// The run cannot give what it is for.
    Error,
}

impl Severity {
    /// Its name in output.
    pub fn word(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// One thing that was found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Finding {
    /// Its name, for looking it up and for allowing it.
    pub code: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// The key it is about.
    pub key: String,
    /// `file:line:column` where the key, or the block around it, was written.
    pub place: Option<String>,
    /// What is wrong.
    pub what: String,
    /// Why it matters.
    pub why: String,
    /// What to do.
    pub fix: String,
}

impl Finding {
    /// For people: one line that says what, and two that say why and how.
    pub fn text(&self) -> String {
        let place = self.place.as_deref().map_or(String::new(), |place| format!("{place}: "));
        let Self { code, key, what, why, fix, .. } = self;
        format!("{place}{} [{code}] {key}: {what}\n    why: {why}\n    fix: {fix}\n", self.severity.word())
    }
}

/// A place as editors and terminals understand it.
pub(crate) fn place(origin: &Origin) -> String {
    origin.to_string()
}
