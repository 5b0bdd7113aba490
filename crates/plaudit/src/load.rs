//! From the words of a command to the config they ask for.

use std::path::Path;

use plaudit_compose::Request;

use crate::cli::{ConfigArgs, RunArgs, Verbosity};
use crate::config::blocks::reward::WorkerType;
use crate::config::sources::{self, Disk};
use crate::config::{self, LoadedConfig, Notice, recipes};
use crate::console;
use crate::failure::Failure;
use crate::run::quoted;

/// What a config is called that comes through a pipe.
const STREAMED: &str = "stdin";

/// The config of a run, with its notices said. One that needs other machines is refused, unless everything may run here.
pub fn to_run(args: &RunArgs, verbosity: Verbosity) -> Result<LoadedConfig, Failure> {
    let loaded = noticed(&args.config, verbosity)?;
    let hint = "`plaudit cluster run` runs it on all of them; `--local` runs everything on this one";
    refuse_elsewhere(&loaded, args.local, hint, verbosity)?;
    if let Some((component, places)) = loaded.config.cluster.several_places() {
        let text = format!(
            "cluster.component_placement.{component}: {places} — everything runs in one process on this machine; `plaudit cluster run` \
             starts one for each place"
        );
        console::notices(&[Notice { text }], verbosity);
    }
    Ok(loaded)
}

/// The config of a robot's bench. What it places on another machine may be a model on a server.
pub fn to_teleoperate(args: &RunArgs, verbosity: Verbosity) -> Result<LoadedConfig, Failure> {
    let loaded = noticed(&args.config, verbosity)?;
    let reward = &loaded.config.reward;
    if reward.use_reward_model && reward.worker_type == WorkerType::Local {
        let hint = "`--local` runs the model on this one; `plaudit cluster run` runs both where they are placed; `plaudit serve` runs it \
                    on another, with reward.worker_type=api reward.api.api_base=http://GPU:8000";
        refuse_elsewhere(&loaded, args.local, hint, verbosity)?;
    }
    Ok(loaded)
}

/// The config of a run on the machines that it names.
pub fn for_cluster(args: &ConfigArgs, verbosity: Verbosity) -> Result<LoadedConfig, Failure> {
    let loaded = noticed(args, verbosity)?;
    let groups = &loaded.config.cluster.node_groups;
    let python = groups
        .iter()
        .flat_map(|group| &group.env_configs)
        .find_map(|env| env.python_interpreter_path.as_ref());
    if let Some(python) = python {
        let text = format!(
            "cluster.node_groups[].env_configs[].python_interpreter_path: {python} — processes are plaudit's own; a simulator in Python \
             is run by env.train.python"
        );
        console::notices(&[Notice { text }], verbosity);
    }
    Ok(loaded)
}

fn noticed(args: &ConfigArgs, verbosity: Verbosity) -> Result<LoadedConfig, Failure> {
    let asked = RequestedConfig::from_args(args)?;
    let loaded = config::load(&asked.disk, &asked.request)?;
    console::notices(&loaded.notices, verbosity);
    Ok(loaded)
}

fn refuse_elsewhere(
    loaded: &LoadedConfig,
    is_local: bool,
    hint: &str,
    verbosity: Verbosity,
) -> Result<(), Failure> {
    let Some(elsewhere) = loaded.config.cluster.elsewhere() else { return Ok(()) };
    if !is_local {
        let message = format!("{}: this command runs on one machine", elsewhere.what);
        return Err(loaded.problem(&elsewhere.key, message, hint).into());
    }
    let text =
        format!("{}: {}, and everything runs on this machine (--local)", elsewhere.key, elsewhere.what);
    console::notices(&[Notice { text }], verbosity);
    Ok(())
}

/// A config that was requested, and where to read it from.
#[derive(Debug)]
pub struct RequestedConfig {
    /// Which config, with which overrides.
    pub request: Request,
    /// Where files and variables come from.
    pub disk: Disk,
}

impl RequestedConfig {
    /// Finds out which config is meant: a recipe's name, a file, or a name in a directory.
    pub fn from_args(args: &ConfigArgs) -> Result<Self, Failure> {
        if args.multirun {
            return Err(no_multirun(args));
        }
        let (name, overrides) = match (&args.config_name, args.words.split_first()) {
            (Some(name), _) => (name.as_str(), &args.words[..]),
            (None, Some((first, rest))) if !looks_like_override(first) => (first.as_str(), rest),
            _ => {
                let help = "name a recipe (see `plaudit config list`) or a YAML file first, then overrides";
                return Err(Failure::usage("which config?", help.to_string()));
            }
        };
        if args.config_path.is_none() && is_folder_alone(name) {
            let help = "name a YAML file in it, or a recipe (see `plaudit config list`)".to_string();
            return Err(Failure::usage(format!("`{name}` is a folder, not a config"), help));
        }
        let streamed = if args.config_path.is_none() { sources::streamed(name) } else { None };
        let (directory, name) = match &streamed {
            Some(_) => (".".into(), STREAMED.into()),
            None => locate(args.config_path.as_deref(), name),
        };
        let mut disk = Disk::for_config_in(&directory);
        if let Some(text) = streamed {
            let text = text.map_err(|error| {
                let help = "name a YAML file, or `-` to read the config from standard input".to_string();
                Failure::usage(format!("cannot read the config: {error}"), help)
            })?;
            disk = disk.with_text(&format!("{directory}/{name}.yaml"), text);
        }
        // A file whose defaults name RLinf's group files composes without RLinf: the recipes have them too.
        let fallback = if recipes::is_inside(&directory) { vec![] } else { vec![recipes::DIRECTORY.into()] };
        let request = Request {
            config_dir: directory,
            config_name: name,
            overrides: overrides.to_vec(),
            search_path: fallback,
            ..Request::default()
        };
        Ok(Self { request, disk })
    }
}

/// What to do instead of Hydra's `--multirun`: the same words are a sweep.
fn no_multirun(args: &ConfigArgs) -> Failure {
    let command = args.command("sweep").iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ");
    let help = format!("sweeps of training are a command of their own: {command}");
    Failure::usage("there is no --multirun here: a command is one run", help)
}

/// `a=b`, `+a=b`, `~a`: no config is called like that, unless a file is.
pub(crate) fn looks_like_override(word: &str) -> bool {
    (word.contains('=') || word.starts_with(['+', '~'])) && !Path::new(word).is_file()
}

/// A folder, where no recipe and no file has the name as well.
fn is_folder_alone(name: &str) -> bool {
    let file = format!("{name}.yaml");
    let is_recipe = recipes::text(&format!("{}/{file}", recipes::DIRECTORY)).is_some();
    Path::new(name).is_dir() && !is_recipe && !Path::new(&file).is_file()
}

/// The directory and the name. A name that is a file on disk, or looks like one, is that file.
fn locate(config_path: Option<&str>, name: &str) -> (String, String) {
    if let Some(directory) = config_path {
        return (directory.into(), name.into());
    }
    let path = Path::new(name);
    let is_path = name.ends_with(".yaml") || name.ends_with(".yml") || name.contains('/') || path.is_file();
    let is_recipe = || recipes::text(&format!("{}/{name}.yaml", recipes::DIRECTORY)).is_some();
    let is_here = || Path::new(&format!("{name}.yaml")).is_file();
    if !is_path && (is_recipe() || !is_here()) {
        return (recipes::DIRECTORY.into(), name.into());
    }
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let file = path.file_name().map_or_else(|| name.into(), |file| file.to_string_lossy().into_owned());
    (parent.to_string_lossy().into_owned(), file)
}
