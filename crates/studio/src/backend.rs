//! What a studio cannot do by itself: whoever knows configs and commands does it.

use std::path::{Path, PathBuf};
use std::process::Child;

use plaudit_view::page::Finding;
use plaudit_view::{AuditedModel, ReportedRun, RunDir};

/// What a studio cannot do by itself. What goes wrong is said in words, with what to do about it.
pub trait Backend: Send + Sync {
    /// What an audit left beside a model, and in which file.
    fn audit(&self, model: &Path) -> Option<(PathBuf, AuditedModel)>;

    /// What the config of a run says that pages need.
    ///
    /// # Errors
    /// When the config cannot be read.
    fn reported(&self, run: &RunDir) -> Result<ReportedRun, String>;

    /// Every recipe that trains a policy or a reward model: its name, and what it is for.
    fn recipes(&self) -> Vec<(String, String)>;

    /// Every key of a recipe, with its value there.
    ///
    /// # Errors
    /// When there is no such recipe, or it cannot be read.
    fn fields(&self, recipe: &str) -> Result<Vec<RecipeField>, String>;

    /// What looks wrong about a recipe with other values.
    ///
    /// # Errors
    /// When a value is refused: nothing can be started then.
    fn findings(&self, recipe: &str, values: &[(String, String)]) -> Result<Vec<Finding>, String>;

    /// Starts work in a process of its own, in a folder, which goes on when this one ends. What it says goes into a file.
    ///
    /// # Errors
    /// When it cannot be started.
    fn start(&self, work: &Work, folder: &Path, output: &Path) -> Result<Child, String>;

    /// Asks a process to finish its step, save and end.
    fn ask_to_stop(&self, process: u32);

    /// The robots that configs of a folder name, and those that were named besides.
    fn robots(&self, folder: &Path) -> Vec<RobotConfig>;

    /// Sends the arm behind a robot server to where it is, for a person who wants it to stay.
    ///
    /// # Errors
    /// When the server does not say that it heard it.
    fn hold_arm(&self, server: &str) -> Result<(), String>;
}

/// A robot that a config describes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RobotConfig {
    /// What pages call it: the config's path below the folder, or the word it was named by.
    pub name: String,
    /// What whoever starts a session calls the config.
    pub config: String,
    /// What moves, in a few words.
    pub about: String,
    /// Where its robot server is, unless it is started with the session.
    pub server: Option<String>,
    /// Why it cannot be used.
    pub problem: Option<String>,
}

/// A key of a recipe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecipeField {
    /// The key, with dots.
    pub key: String,
    /// What it means.
    pub about: String,
    /// What it takes.
    pub takes: FieldKind,
    /// Its value in the recipe; empty where it is not set.
    pub value: String,
    /// Whether the recipe itself writes it.
    pub is_written: bool,
}

/// What a key takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FieldKind {
    /// Yes or no.
    Switch,
    /// One of these words, each with its meaning.
    Choice(Vec<(String, String)>),
    /// What is described.
    Text(String),
}

/// Work of a process of its own. Every kind writes a run directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Work {
    /// A run of a recipe with other values of some keys.
    Recipe {
        /// Its name.
        recipe: String,
        /// Keys and their values.
        values: Vec<(String, String)>,
        /// The run directory.
        run: PathBuf,
    },
    /// A run that was stopped goes on.
    Resume {
        /// The run directory.
        run: PathBuf,
        /// What the run does, as its log says.
        job: String,
    },
    /// A run of its own starts from what another one saved last, with other values of some keys.
    Branch {
        /// The run directory of the other one.
        from: PathBuf,
        /// What the runs do, as the log of the other one says.
        job: String,
        /// Keys and their values.
        values: Vec<(String, String)>,
        /// The run directory.
        run: PathBuf,
    },
    /// A reward model learns from more frames.
    Retrain {
        /// The model it starts from.
        model: PathBuf,
        /// Images, sorted into success and failure.
        added: PathBuf,
        /// The run directory.
        run: PathBuf,
    },
    /// A robot is connected to, for a person to move.
    Robot {
        /// Which config.
        config: String,
        /// Keys and their values.
        values: Vec<(String, String)>,
        /// The reward model, where it is not the config's.
        model: Option<PathBuf>,
        /// The folder of the session.
        run: PathBuf,
    },
}
