//! From the YAML a user brings to a configuration that commands can rely on.
//!
//! ```text
//! files and overrides ──compose──► tree ──legacy, foreign, unused──► tree in today's words
//!                     ──blocks───► ConfigWritten ──resolve, check──► Config
//! ```
//!
//! The first arrow is Hydra's work and lives in `plaudit-compose`; values keep the place they were written.
//! The second brings older spellings up to date and takes out what has no meaning here, notifying the user
//! once. The third refuses unknown keys and wrong types; the last fills in defaults and refuses values that
//! cannot go together. Nothing is opened or started on the way: a config that resolves can still name a
//! checkpoint that does not exist, which the command that needs it will say.

pub mod block;
pub mod blocks;
mod check;
pub mod docs;
mod edit;
mod foreign;
mod launch;
mod legacy;
mod overrides;
pub mod range;
pub mod recipes;
mod show;
pub mod sources;
mod unused;
pub mod yaml;

use plaudit_compose::{ComposeError, Composition, Node, Origin, Request, Texts, compose, from_node};

use self::block::{Setting, block};
use self::blocks::actor::{Actor, Rollout};
use self::blocks::algorithm::Algorithm;
use self::blocks::cluster::Cluster;
use self::blocks::data::Data;
use self::blocks::env::Envs;
use self::blocks::reward::RewardSettings;
use self::blocks::runner::Runner;
use self::sources::Disk;
pub use self::unused::UnusedKey;

block! {
    /// The whole configuration of a run.
    Config as ConfigWritten {
        /// How long, how often, where to.
        runner: Runner = Runner::default(),
        /// Which machine does what.
        cluster: Cluster = Cluster::default(),
        /// The environments.
        env: Envs = Envs::default(),
        /// The reward of a policy, and the reward model.
        reward: RewardSettings = RewardSettings::default(),
        /// How a policy learns.
        algorithm: Algorithm = Algorithm::default(),
        /// The network that is trained, and its optimiser.
        actor: Actor = Actor::default(),
        /// The network that acts.
        rollout: Rollout = Rollout::default(),
        /// What reward models are trained on.
        data: Data = Data::default(),
    }
}

/// What a config is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Reinforcement learning, evaluation or collection.
    Rl,
    /// Training an image reward model.
    RewardTraining,
    /// Tuning a vision-language judge.
    JudgeTuning,
}

/// A notice to the user, printed once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// The text of the notice.
    pub text: String,
}

/// A configuration, ready to be used or shown.
#[derive(Debug, Clone)]
pub struct LoadedConfig {
    /// As resolved.
    pub config: Config,
    /// What it is for.
    pub purpose: Purpose,
    /// The name it goes by: the recipe's or the file's.
    pub name: String,
    /// Notices to the user, in order.
    pub notices: Vec<Notice>,
    /// Keys that were written and mean nothing here.
    pub unused: Vec<UnusedKey>,
    /// As written, in today's words, with places.
    written: Node,
    /// The files it was written in, for showing lines.
    texts: Texts,
}

/// Composes a config and interpolates it, and does no more: any YAML of any project will do.
pub fn composed(disk: &Disk, request: &Request) -> Result<(Composition, Node), ComposeError> {
    let composition = compose(disk, request)?;
    let tree = composition.resolve(disk)?;
    Ok((composition, tree))
}

/// Composes, reads and checks a config.
pub fn load(disk: &Disk, request: &Request) -> Result<LoadedConfig, ComposeError> {
    let request = Request { open_keys: Some(overrides::is_known), ..request.clone() };
    let mut composition = compose(disk, &request).map_err(overrides::advise)?;
    disk.note_composition(&composition, &request);
    launch::apply_launcher_defaults(&mut composition.tree, disk, &request.config_name);
    let tree = composition.resolve(disk)?;
    let loaded = read(tree, &request.config_name).map_err(|error| error.with_texts(&composition.texts))?;
    Ok(LoadedConfig { texts: composition.texts, ..loaded }.preceded_by(disk.notices()))
}

/// Reads and checks a tree that is composed already.
pub fn read(mut tree: Node, name: &str) -> Result<LoadedConfig, ComposeError> {
    foreign::refuse_other_work(&tree)?;
    let older = legacy::modernise(&mut tree);
    let mut foreign = foreign::find_foreign(&mut tree);
    let unused = unused::prune(&mut tree);
    let written: ConfigWritten = match from_node(&tree) {
        Ok(written) => written,
        Err(error) => foreign::read_except_foreign(&mut tree, error, &mut foreign)?,
    };
    let mut config = Config::resolve(written);
    let purpose = check::purpose(&config, &tree)?;
    let mut notices = introduction(&older, &foreign.found, &unused);
    notices.extend(check::check(&mut config, &tree)?);
    let name = name.trim_end_matches(".yaml").to_string();
    Ok(LoadedConfig { config, purpose, name, notices, unused, written: tree, texts: Texts::new() })
}

impl LoadedConfig {
    /// Whether a key was written, in a file or on the command line.
    pub fn is_written(&self, key: &str) -> bool {
        edit::is_set(&self.written, key)
    }

    /// The text that was written at a key, whatever became of it.
    pub fn written_text(&self, key: &str) -> Option<&str> {
        edit::text(&self.written, key)
    }

    /// Where a key, or the nearest block around it, was written.
    pub fn place(&self, key: &str) -> Option<&Origin> {
        let mut path = Some(key);
        while let Some(key) = path {
            if let Some(node) = edit::get(&self.written, key) {
                return Some(&node.origin);
            }
            path = key.rsplit_once('.').map(|(parent, _)| parent);
        }
        None
    }

    /// The keyword arguments of a simulator at a dotted key (`env.eval.init_params`), as the user wrote them.
    pub fn keyword_arguments(&self, key: &str) -> serde_json::Map<String, serde_json::Value> {
        let written = edit::get(&self.written, key).and_then(|node| serde_json::to_value(node).ok());
        let mut written = written.and_then(|value| value.as_object().cloned()).unwrap_or_default();
        foreign::undo_pass_through(&mut written);
        written
    }

    /// A problem with the value of a key that only shows when it is used; points at where it was written.
    pub fn problem(&self, key: &str, message: impl Into<String>, hint: impl Into<String>) -> ComposeError {
        check::problem(&self.written, key, message.into(), &hint.into()).with_texts(&self.texts)
    }

    /// What was written, composed and in today's words, without defaults: read again, it is the same config.
    pub fn written_tree(&self) -> &Node {
        &self.written
    }

    /// The whole configuration as a tree, with the place of each value, or `default`.
    pub fn as_tree(&self) -> Node {
        show::as_tree(&self.config, &self.written)
    }

    fn preceded_by(mut self, mut notices: Vec<Notice>) -> Self {
        notices.append(&mut self.notices);
        self.notices = notices;
        self
    }
}

/// At most one notice for each way a config can differ from today's words.
fn introduction(
    older: &[legacy::OlderSpelling],
    foreign: &[foreign::Foreign],
    unused: &[unused::UnusedKey],
) -> Vec<Notice> {
    let mut notices = Vec::new();
    if !older.is_empty() {
        let list: Vec<_> = older.iter().map(|old| format!("  {} → {}", old.written, old.read_as)).collect();
        notices.push(Notice { text: format!("older spellings, read as today's:\n{}", list.join("\n")) });
    }
    if !foreign.is_empty() {
        let list: Vec<_> = foreign.iter().map(|thing| format!("  {}: {}", thing.path, thing.name)).collect();
        let text = format!("plaudit does not run these; they are kept by name only:\n{}", list.join("\n"));
        notices.push(Notice { text });
    }
    if !unused.is_empty() {
        notices.push(Notice { text: unused::notice_text(unused) });
    }
    notices
}
