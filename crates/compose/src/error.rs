//! What can go wrong, as data: the kind, the location, the key, a hint, and the source text that the error points into.

use std::fmt;
use std::sync::Arc;

use indexmap::IndexMap;

use crate::node::{COMMAND_LINE, Origin};

/// The result of everything in this crate that can fail.
pub type Result<T, E = ComposeError> = std::result::Result<T, E>;

/// The texts that were read, by source name. Errors hold on to the one they point into.
pub type Texts = IndexMap<Arc<str>, Arc<str>>;

/// One problem, with everything a caller needs to show it well.
#[derive(Debug, Clone)]
pub struct ComposeError {
    // Boxed so that a `Result` stays small on the good path.
    detail: Box<Detail>,
}

#[derive(Debug, Clone)]
struct Detail {
    kind: ErrorKind,
    origin: Option<Origin>,
    key: Option<String>,
    hint: Option<String>,
    text: Option<Arc<str>>,
}

/// Which problem it was. The message of each is its `Display`.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The text is not YAML.
    #[error("not valid YAML: {message}")]
    Syntax {
        /// What the parser says.
        message: String,
    },
    /// A configuration file holds something else than a mapping.
    #[error("expected a mapping at the top of the file, found {found}")]
    NotAMapping {
        /// What was there.
        found: String,
    },
    /// A key is written twice in one mapping.
    #[error("the key `{key}` is written twice; the first is at {first}")]
    DuplicateKey {
        /// The key.
        key: String,
        /// Where it was written before.
        first: Origin,
    },
    /// A key is neither text nor a number nor a boolean.
    #[error("{found} cannot be a key")]
    BadKey {
        /// What was used as a key.
        found: String,
    },
    /// A tag or a tagged scalar that cannot be read.
    #[error("{message}")]
    BadScalar {
        /// What is wrong with it.
        message: String,
    },
    /// Collections are nested too deeply.
    #[error("nested deeper than {limit} levels")]
    TooDeep {
        /// The most that is read.
        limit: usize,
    },
    /// Aliases or interpolations multiply into too many values.
    #[error("aliases and interpolations expand to more than {limit} values")]
    TooLarge {
        /// The most that is expanded.
        limit: usize,
    },
    /// An override does not follow the grammar.
    #[error("cannot read the override `{text}`: expected {expected} at character {position}")]
    BadOverride {
        /// The override as given.
        text: String,
        /// The character it stops at, counted from 1.
        position: usize,
        /// What would have been right there.
        expected: String,
    },
    /// An override asks for several runs.
    #[error("`{text}` is a sweep: it stands for several values, and a run has one")]
    Sweep {
        /// The override as given.
        text: String,
    },
    /// A sweep has a function whose values cannot be listed.
    #[error("`{function}()` is not supported in a sweep")]
    UnsupportedSweep {
        /// The function.
        function: String,
    },
    /// An override names a key that is not in the configuration.
    #[error("could not override `{key}`: no such key")]
    NoSuchKey {
        /// The key.
        key: String,
    },
    /// An override adds a key that is there already.
    #[error("could not add `{key}`: it already has a value")]
    AlreadyThere {
        /// The key.
        key: String,
    },
    /// An override deletes something that is not there, or has another value.
    #[error("could not delete `{key}`: {reason}")]
    CannotDelete {
        /// The key or group.
        key: String,
        /// Why not.
        reason: String,
    },
    /// An override of a config group that no defaults list mentions.
    #[error("could not override the group `{group}`: no defaults list mentions it")]
    UnusedOverride {
        /// The group, with its package if it has one.
        group: String,
    },
    /// An override is well written but cannot be done.
    #[error("cannot apply the override `{text}`: {reason}")]
    OverrideFailed {
        /// The override as given.
        text: String,
        /// Why not.
        reason: String,
    },
    /// A typed block does not know this key.
    #[error("unknown key `{key}`")]
    UnknownKey {
        /// The key as written.
        key: String,
        /// The keys that would be right.
        known: Vec<String>,
    },
    /// A value has the wrong type or form.
    #[error("expected {expected}, found {found}")]
    WrongType {
        /// What is needed.
        expected: String,
        /// What is there.
        found: String,
    },
    /// A typed block needs a key that is not written.
    #[error("the key `{field}` is required")]
    MissingField {
        /// The key.
        field: String,
    },
    /// The value is `???` and was never given.
    #[error("the value is `???`: it has to be given")]
    MandatoryMissing,
    /// A `${...}` does not follow the grammar.
    #[error("cannot read the interpolation `{text}`: expected {expected} at character {position}")]
    InterpolationSyntax {
        /// The whole string.
        text: String,
        /// The character it stops at, counted from 1.
        position: usize,
        /// What would have been right there.
        expected: String,
    },
    /// A `${...}` names a key that does not exist.
    #[error("interpolation key `{path}` not found")]
    InterpolationKey {
        /// The path as evaluated.
        path: String,
    },
    /// Interpolations lead back to themselves.
    #[error("interpolation loop: {}", cycle.join(" -> "))]
    InterpolationLoop {
        /// The keys in order; the first is repeated at the end.
        cycle: Vec<String>,
    },
    /// A `${...}` names a value that is `???`.
    #[error("interpolation to `{path}`, which is `???`: it has to be given")]
    InterpolationToMissing {
        /// The path as evaluated.
        path: String,
    },
    /// A `${...}` that cannot be evaluated for another reason.
    #[error("cannot evaluate `{text}`: {reason}")]
    Interpolation {
        /// The whole string.
        text: String,
        /// Why not.
        reason: String,
    },
    /// A resolver that is not known.
    #[error("unknown resolver `{name}`; known: {}", known.join(", "))]
    UnknownResolver {
        /// The name as written.
        name: String,
        /// Those that exist.
        known: Vec<String>,
    },
    /// A resolver that refused its arguments.
    #[error("the resolver `{name}` failed: {reason}")]
    Resolver {
        /// Its name.
        name: String,
        /// Why.
        reason: String,
    },
    /// An environment variable that is not set.
    #[error("the environment variable `{name}` is not set")]
    MissingEnv {
        /// Its name.
        name: String,
    },
    /// A configuration that is in none of the directories searched.
    #[error("cannot find the config `{name}`; searched: {}", searched.join(", "))]
    MissingConfig {
        /// Its path below a search directory.
        name: String,
        /// The directories, in order.
        searched: Vec<String>,
        /// The configs that are in its directory.
        options: Vec<String>,
    },
    /// A directory of configurations that does not exist.
    #[error("the config directory `{path}` does not exist")]
    MissingDirectory {
        /// The directory.
        path: String,
    },
    /// A group whose choice is `???`.
    #[error("you must choose a config for the group `{group}`; options: {}", options.join(", "))]
    MissingChoice {
        /// The group.
        group: String,
        /// What can be chosen.
        options: Vec<String>,
    },
    /// A file that includes itself.
    #[error("defaults lists form a cycle: {}", chain.join(" -> "))]
    DefaultsCycle {
        /// The configs in order; the first is repeated at the end.
        chain: Vec<String>,
    },
    /// A group that is chosen twice.
    #[error("the group `{group}` is chosen more than once")]
    DuplicateDefault {
        /// The group, with its package if it has one.
        group: String,
    },
    /// A defaults list that cannot be read.
    #[error("bad defaults list: {reason}")]
    BadDefaults {
        /// What is wrong.
        reason: String,
    },
    /// A `# @package` header or an `@package` that cannot be used.
    #[error("bad package: {reason}")]
    BadPackage {
        /// What is wrong.
        reason: String,
    },
    /// Two values that cannot be merged.
    #[error("cannot merge {new} into {old}")]
    Merge {
        /// The kind that was there.
        old: String,
        /// The kind that comes on top.
        new: String,
    },
    /// A `hydra.searchpath` that cannot be used.
    #[error("bad search path: {reason}")]
    SearchPath {
        /// What is wrong.
        reason: String,
    },
    /// A file that exists but cannot be read.
    #[error("cannot read `{path}`: {reason}")]
    Read {
        /// The file.
        path: String,
        /// Why not.
        reason: String,
    },
    /// A problem that a typed block reports in its own words.
    #[error("{message}")]
    Invalid {
        /// Those words.
        message: String,
    },
}

impl ComposeError {
    /// A problem whose location is not known yet.
    pub fn new(kind: ErrorKind) -> Self {
        ComposeError { detail: Box::new(Detail { kind, origin: None, key: None, hint: None, text: None }) }
    }

    /// A problem at a location.
    pub fn at(kind: ErrorKind, origin: &Origin) -> Self {
        ComposeError::new(kind).or_origin(origin)
    }

    /// Which problem it is.
    pub fn kind(&self) -> &ErrorKind {
        &self.detail.kind
    }

    /// Where it is.
    pub fn origin(&self) -> Option<&Origin> {
        self.detail.origin.as_ref()
    }

    /// The dotted key it is about.
    pub fn key(&self) -> Option<&str> {
        self.detail.key.as_deref()
    }

    /// What to do about it.
    pub fn hint(&self) -> Option<&str> {
        self.detail.hint.as_deref()
    }

    /// The whole text of the source that `origin` points into; for overrides, one per line.
    pub fn text(&self) -> Option<&str> {
        self.detail.text.as_deref()
    }

    /// The line that `origin` points at.
    pub fn line_text(&self) -> Option<&str> {
        let line = self.origin()?.line.checked_sub(1)?;
        self.text()?.lines().nth(line)
    }

    /// Sets the location, unless a closer one is known.
    pub fn or_origin(mut self, origin: &Origin) -> Self {
        self.detail.origin.get_or_insert_with(|| origin.clone());
        self
    }

    /// Sets the key, unless a closer one is known.
    pub fn or_key(mut self, key: impl Into<String>) -> Self {
        self.detail.key.get_or_insert_with(|| key.into());
        self
    }

    /// Sets the hint, unless there is one.
    pub fn or_hint(mut self, hint: impl Into<String>) -> Self {
        self.detail.hint.get_or_insert_with(|| hint.into());
        self
    }

    /// Sets the hint if there is something to say.
    pub(crate) fn maybe_hint(self, hint: Option<String>) -> Self {
        match hint {
            Some(hint) => self.or_hint(hint),
            None => self,
        }
    }

    /// Puts one step in front of the key, as the error leaves a mapping or a list.
    pub(crate) fn under(mut self, step: &str, origin: &Origin) -> Self {
        self.detail.key = Some(match self.detail.key.take() {
            Some(rest) if rest.starts_with('[') => format!("{step}{rest}"),
            Some(rest) => format!("{step}.{rest}"),
            None => step.to_owned(),
        });
        self.or_origin(origin)
    }

    /// Attaches the text that the location points into.
    pub fn with_texts(mut self, texts: &Texts) -> Self {
        if self.detail.text.is_none() {
            self.detail.text = self.detail.origin.as_ref().and_then(|o| texts.get(&o.source)).cloned();
        }
        self
    }
}

/// Shows the location, the key and the message on one line, and the hint on the next.
impl fmt::Display for ComposeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(origin) = self.origin() {
            if &*origin.source == COMMAND_LINE {
                write!(f, "{COMMAND_LINE}: ")?;
            } else {
                write!(f, "{origin}: ")?;
            }
        }
        if let Some(key) = self.key() {
            write!(f, "{key}: ")?;
        }
        write!(f, "{}", self.kind())?;
        match self.hint() {
            Some(hint) => write!(f, "\nhint: {hint}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for ComposeError {}

/// The candidate most like `word`, if one is close enough to be worth naming.
pub(crate) fn nearest<'c>(word: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    candidates
        .into_iter()
        .map(|candidate| (strsim::jaro_winkler(word, candidate), candidate))
        .filter(|(score, _)| *score > 0.87)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate)
}

/// `did you mean ...?`, if there is something close.
pub(crate) fn did_you_mean<'c>(word: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<String> {
    nearest(word, candidates).map(|near| format!("did you mean `{near}`?"))
}
