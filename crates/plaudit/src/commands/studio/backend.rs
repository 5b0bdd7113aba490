//! What the studio asks of configs and commands: recipes, their keys and findings, and runs in processes of their own.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command as Process, Stdio};

use miette::Diagnostic as _;
use plaudit_compose::{Node, Value};
use plaudit_studio::{Backend, FieldKind, RecipeField, RobotConfig, Work};
use plaudit_view::page::{Finding, Tone};
use plaudit_view::{AuditedModel, ReportedRun, RunDir};

use super::robots;
use crate::checkpoint;
use crate::cli::ConfigArgs;
use crate::commands::report::{RunConfig, audit_beside, audit_of, words};
use crate::config::block::{BlockDoc, FieldDoc, Kind, Setting};
use crate::config::{self, Config, LoadedConfig, Purpose, recipes};
use crate::failure::Failure;
use crate::lint::{self, Severity, examine};
use crate::load::RequestedConfig;
use crate::{program, signals};

/// This program, as the studio knows it.
pub(super) struct ThisProgram {
    /// Whether other machines can reach the studio. A config may name programs, so that whoever starts a run may run anything: that
    /// is for this machine alone.
    pub(super) is_exposed: bool,
    /// Robots that were named besides those of the folder.
    pub(super) robots: Vec<String>,
}

impl Backend for ThisProgram {
    fn audit(&self, model: &Path) -> Option<(PathBuf, AuditedModel)> {
        Some((audit_beside(model)?, audit_of(model)?))
    }

    fn reported(&self, run: &RunDir) -> Result<ReportedRun, String> {
        let config = RunConfig::of(run).map_err(|failure| in_words(&failure))?;
        let (flat, task, reward) = (config.flat(), config.task(), config.reward());
        Ok(ReportedRun { dir: run.clone(), config: flat, task, reward })
    }

    fn recipes(&self) -> Vec<(String, String)> {
        let all = recipes::summaries().into_iter();
        all.map(|(name, about)| (name.to_string(), about.to_string())).collect()
    }

    fn fields(&self, recipe: &str) -> Result<Vec<RecipeField>, String> {
        let loaded = loaded(recipe, &[])?;
        let tree = loaded.as_tree();
        let mut fields = Vec::new();
        if let Kind::Block(root) = Config::kind() {
            collect(&root, "", &tree, &loaded, &mut fields);
        }
        Ok(fields)
    }

    fn findings(&self, recipe: &str, values: &[(String, String)]) -> Result<Vec<Finding>, String> {
        let loaded = loaded(recipe, values)?;
        Ok(examine(&loaded).findings.into_iter().map(shown).collect())
    }

    fn start(&self, work: &Work, folder: &Path, output: &Path) -> Result<Child, String> {
        if self.is_exposed {
            let why = "a studio that other machines can reach starts nothing: whoever starts a run may run any program";
            return Err(format!("{why}; leave --bind out"));
        }
        let words = match work {
            Work::Recipe { recipe, values, run } => {
                let loaded = loaded(recipe, values)?;
                let mut words = command_of(loaded.purpose);
                words.push(recipe.clone());
                words.extend(overrides(values));
                words.push(place("runner.logger.log_path", run));
                words
            }
            Work::Resume { run, job } => {
                let mut words = command_of_job(job)?;
                words.push(run.join("config.yaml").display().to_string());
                words.push(place("runner.resume_dir", run));
                words
            }
            Work::Branch { from, job, values, run } => {
                if job != "train" {
                    return Err(format!("a run of `{job}` goes on as it was, and with no other values"));
                }
                let config = from.join("config.yaml").display().to_string();
                loaded_words(std::iter::once(config.clone()).chain(overrides(values)).collect())?;
                let mut words = command_of(Purpose::Rl);
                words.push(config);
                words.extend(overrides(values));
                let newest = checkpoint::newest(&from.join("checkpoints"));
                let newest = newest.ok_or_else(|| format!("{} has no checkpoint", from.display()))?;
                words.push(place("runner.resume_dir", &newest));
                words.push(place("runner.logger.log_path", run));
                words
            }
            Work::Retrain { model, added, run } => {
                let mut words = command_of(Purpose::RewardTraining);
                words.extend(["--from".into(), model.display().to_string()]);
                words.extend(["--add".into(), added.display().to_string()]);
                words.extend([place("runner.logger.log_path", run), "runner.second_model=false".into()]);
                words
            }
            Work::Robot { config, values, model, run } => {
                robots::session_words(folder, config, values, model.as_deref(), run)?
            }
        };
        spawn(&words, folder, output).map_err(|error| format!("the run cannot be started: {error}"))
    }

    fn ask_to_stop(&self, process: u32) {
        signals::ask_to_stop(process);
    }

    fn robots(&self, folder: &Path) -> Vec<RobotConfig> {
        robots::find(folder, &self.robots)
    }

    fn hold_arm(&self, server: &str) -> Result<(), String> {
        robots::hold(server)
    }
}

pub(super) fn in_words(failure: &Failure) -> String {
    match failure.help() {
        Some(help) => format!("{failure}; {help}"),
        None => failure.to_string(),
    }
}

/// A recipe's config, and no file's: the words come from a page.
fn loaded(recipe: &str, values: &[(String, String)]) -> Result<LoadedConfig, String> {
    if !recipes::summaries().iter().any(|(name, _)| *name == recipe) {
        return Err(format!("there is no recipe `{recipe}`"));
    }
    loaded_words(std::iter::once(recipe.to_string()).chain(overrides(values)).collect())
}

/// The config that words of a command line ask for.
fn loaded_words(words: Vec<String>) -> Result<LoadedConfig, String> {
    let args = ConfigArgs { words, config_path: None, config_name: None, multirun: false };
    let load = || {
        let asked = RequestedConfig::from_args(&args)?;
        config::load(&asked.disk, &asked.request).map_err(Failure::from)
    };
    load().map_err(|failure| in_words(&failure))
}

/// Keys and values as the command line has them.
pub(super) fn overrides(values: &[(String, String)]) -> impl Iterator<Item = String> {
    values.iter().map(|(key, value)| format!("{key}={}", written(value)))
}

/// A value as an override writes it: lists and mappings as they are, text in quotes where the grammar would take it apart.
fn written(value: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "._-/+".contains(letter);
    match value {
        "" => "null".into(),
        value if value.starts_with(['[', '{', '\'', '"']) || value.chars().all(is_plain) => value.into(),
        value => format!("'{}'", value.replace('\'', "\\'")),
    }
}

pub(super) fn place(key: &str, path: &Path) -> String {
    format!("{key}={}", written(&path.display().to_string()))
}

fn command_of(purpose: Purpose) -> Vec<String> {
    let words: &[&str] = match purpose {
        Purpose::Rl => &["train"],
        Purpose::RewardTraining => &["reward", "train"],
        Purpose::JudgeTuning => &["reward", "sft"],
    };
    words.iter().map(ToString::to_string).collect()
}

fn command_of_job(job: &str) -> Result<Vec<String>, String> {
    match job {
        "train" => Ok(command_of(Purpose::Rl)),
        "reward_train" => Ok(command_of(Purpose::RewardTraining)),
        "reward_sft" => Ok(command_of(Purpose::JudgeTuning)),
        "eval" | "collect" => Ok(vec![job.into()]),
        other => Err(format!("a run of `{other}` goes on by the command that it printed when it stopped")),
    }
}

/// Starts this program again. It is in a process group of its own and hears no Ctrl-C of the studio's terminal.
fn spawn(words: &[String], folder: &Path, output: &Path) -> std::io::Result<Child> {
    if let Some(parent) = output.parent() {
        std::fs::create_dir_all(parent)?;
    }
    let said = File::options().create(true).append(true).open(output)?;
    let mut process = Process::new(program::path()?);
    process.args(words).current_dir(folder);
    process.stdin(Stdio::null()).stdout(said.try_clone()?).stderr(said);
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut process, 0);
    process.spawn()
}

fn shown(found: lint::Finding) -> Finding {
    let (tone, word) = match found.severity {
        Severity::Error => (Tone::Bad, "error"),
        Severity::Warning => (Tone::Doubtful, "warning"),
        Severity::Note => (Tone::Plain, "note"),
    };
    let what = format!("{}: {}", found.key, found.what);
    Finding { tone, word: word.into(), what, hint: format!("{} {}", found.why, found.fix) }
}

/// Every key of a block and of the blocks in it that holds one value, or a list of plain ones.
fn collect(block: &BlockDoc, path: &str, tree: &Node, loaded: &LoadedConfig, fields: &mut Vec<RecipeField>) {
    for field in &block.fields {
        let name = field.name.trim_start_matches("r#");
        let key = if path.is_empty() { name.to_string() } else { format!("{path}.{name}") };
        match (&field.kind, takes(field)) {
            (Kind::Block(inner), _) => collect(inner, &key, tree, loaded, fields),
            (_, Some(takes)) => {
                let value = match tree.get(&key) {
                    None => String::new(),
                    Some(node) if matches!(node.value, Value::Null) => String::new(),
                    Some(node) => words(node),
                };
                let is_written = loaded.is_written(&key);
                fields.push(RecipeField { key, about: field.about.clone(), takes, value, is_written });
            }
            (_, None) => {}
        }
    }
}

/// What a key takes; nothing of what a form has no place for.
fn takes(field: &FieldDoc) -> Option<FieldKind> {
    let range = field.range.map_or(String::new(), |range| format!(", {}", range.words()));
    match &field.kind {
        Kind::Plain(name) if name == &kind_name::<bool>() => Some(FieldKind::Switch),
        Kind::Plain(name) => Some(FieldKind::Text(format!("{name}{range}"))),
        Kind::Choice(words) => {
            let each = words.iter().map(|(word, meaning)| ((*word).to_string(), meaning.clone()));
            Some(FieldKind::Choice(each.collect()))
        }
        Kind::List(inner) => match &**inner {
            Kind::Plain(name) => Some(FieldKind::Text(format!("[{name}, …]"))),
            Kind::Choice(_) | Kind::Block(_) | Kind::List(_) | Kind::Names(_) => None,
        },
        Kind::Block(_) | Kind::Names(_) => None,
    }
}

/// What declarations call a type.
fn kind_name<T: Setting>() -> String {
    match T::kind() {
        Kind::Plain(name) => name,
        Kind::Choice(_) | Kind::Block(_) | Kind::List(_) | Kind::Names(_) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: ThisProgram = ThisProgram { is_exposed: false, robots: Vec::new() };

    #[test]
    fn every_recipe_has_fields_with_values() {
        let fields = HERE.fields("maniskill_ppo_mlp").unwrap();
        let field = |key: &str| fields.iter().find(|field| field.key == key).unwrap();
        let epochs = field("runner.max_epochs");
        assert!(
            epochs.is_written && epochs.value.parse::<f64>().is_ok() && !epochs.about.is_empty(),
            "{epochs:?}"
        );
        assert_eq!(field("reward.use_reward_model").takes, FieldKind::Switch);
        assert!(matches!(&field("reward.reward_mode").takes, FieldKind::Choice(words) if words.len() > 1));
        assert!(HERE.fields("../etc/passwd").is_err() && HERE.fields("/etc/passwd").is_err());
    }

    #[test]
    fn a_value_that_is_refused_is_said_and_one_that_is_unwise_is_found() {
        let value = |key: &str, value: &str| vec![(key.to_string(), value.to_string())];
        let refused = HERE.findings("maniskill_ppo_mlp", &value("runner.max_epochs", "many")).unwrap_err();
        assert!(refused.contains("max_epochs"), "{refused}");
        let found = HERE.findings("maniskill_ppo_mlp", &value("reward.use_reward_model", "true")).unwrap();
        assert!(!found.is_empty());
        assert!(HERE.findings("maniskill_ppo_mlp", &value("no.such.key", "1")).is_err());
    }

    #[test]
    fn a_studio_that_others_can_reach_starts_nothing() {
        let work = Work::Resume { run: "run".into(), job: "train".into() };
        let said = ThisProgram { is_exposed: true, robots: Vec::new() }
            .start(&work, Path::new("."), Path::new("output.txt"))
            .unwrap_err();
        assert!(said.contains("--bind"), "{said}");
    }

    #[test]
    fn values_are_written_as_overrides_take_them() {
        for (value, expected) in
            [("", "null"), ("1e-3", "1e-3"), ("[1, 2]", "[1, 2]"), ("a b", "'a b'"), ("it's", "'it\\'s'")]
        {
            assert_eq!(written(value), expected);
        }
    }
}
