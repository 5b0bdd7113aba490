//! The robots that a studio can connect to: configs that describe one, and the command that a session is.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use plaudit_robot::{RealClock, SerlArm, hold_unguarded};
use plaudit_studio::RobotConfig;

use super::backend::{in_words, overrides, place};
use crate::cli::ConfigArgs;
use crate::commands::robot::{refuse_no_robot, robot_block};
use crate::config::{self, LoadedConfig};
use crate::failure::Failure;
use crate::load::RequestedConfig;

/// How deep configs are looked for, among how many entries, and how large one is.
const DEEPEST: usize = 3;
const MOST_ENTRIES: usize = 20_000;
const MOST_BYTES: u64 = 64 << 10;
/// What a config of a robot has in it.
const SIGN: &str = "realworld";
/// How often a robot server is told to hold its arm.
const TRIES: usize = 3;

/// A config as it is called from any folder: recipes have names, and files have places.
pub(super) fn wherever(config: &str) -> String {
    let place = Path::new(config).canonicalize().ok().filter(|path| path.is_file());
    place.map_or_else(|| config.into(), |path| path.display().to_string())
}

/// Those that were named, and those of a folder.
pub(super) fn find(folder: &Path, named: &[String]) -> Vec<RobotConfig> {
    let named = named.iter().map(|config| described(config.clone(), config.clone()));
    let (mut files, mut left) = (Vec::new(), MOST_ENTRIES);
    collect(folder, 0, &mut left, &mut files);
    let of_folder = files.into_iter().map(|path| {
        let name = path.strip_prefix(folder).unwrap_or(&path).display().to_string();
        described(name, path.display().to_string())
    });
    let mut found: Vec<RobotConfig> = named.chain(of_folder).collect();
    let mut seen = std::collections::HashSet::new();
    found.retain(|robot| seen.insert(robot.config.clone()));
    found
}

/// Files that may describe a robot. What a run wrote down about itself is none, and links are not followed.
fn collect(folder: &Path, depth: usize, left: &mut usize, files: &mut Vec<PathBuf>) {
    let is_of_a_run = ["events.jsonl", "process.json"].iter().any(|name| folder.join(name).exists());
    if is_of_a_run {
        return;
    }
    let mut entries: Vec<_> = std::fs::read_dir(folder).into_iter().flatten().flatten().take(*left).collect();
    *left -= entries.len();
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let (path, Ok(kind)) = (entry.path(), entry.file_type()) else { continue };
        let is_hidden = entry.file_name().to_string_lossy().starts_with('.');
        if kind.is_dir() && depth < DEEPEST && !is_hidden {
            collect(&path, depth + 1, left, files);
        } else if kind.is_file() && is_robot(&path) {
            files.push(path);
        }
    }
}

fn is_robot(path: &Path) -> bool {
    let is_yaml = path.extension().is_some_and(|extension| extension == "yaml" || extension == "yml");
    let is_small = || path.metadata().is_ok_and(|metadata| metadata.len() <= MOST_BYTES);
    is_yaml && is_small() && std::fs::read_to_string(path).is_ok_and(|text| text.contains(SIGN))
}

/// A config, and what is wrong with it.
fn described(name: String, config: String) -> RobotConfig {
    match loaded(&config, Vec::new()) {
        Ok(loaded) => {
            let settings = robot_block(&loaded).settings(&loaded);
            let robot = &settings.override_cfg;
            let is_simulated = robot.is_dummy || robot.robot_ip.as_deref() == Some("sim");
            let kind = if is_simulated { "simulated robot" } else { "robot" };
            let id = settings.init_params.id.clone().unwrap_or_default();
            let place = robot.server_url.as_ref().map(|url| format!(" at {url}")).unwrap_or_default();
            let about = format!("{kind}{place} {id}").trim().to_string();
            RobotConfig { name, config, about, server: robot.server_url.clone(), problem: None }
        }
        Err(problem) => {
            RobotConfig { name, config, about: "cannot be used".into(), server: None, problem: Some(problem) }
        }
    }
}

/// A config of a robot, with other words after it.
fn loaded(config: &str, words: Vec<String>) -> Result<LoadedConfig, String> {
    let words = std::iter::once(config.to_string()).chain(words).collect();
    let args = ConfigArgs { words, config_path: None, config_name: None, multirun: false };
    let load = || {
        let asked = RequestedConfig::from_args(&args)?;
        let loaded = config::load(&asked.disk, &asked.request).map_err(Failure::from)?;
        refuse_no_robot(&loaded)?;
        Ok::<_, Failure>(loaded)
    };
    load().map_err(|failure| in_words(&failure))
}

/// The command of a session. What a key refuses is said before anything is started.
pub(super) fn session_words(
    folder: &Path,
    config: &str,
    values: &[(String, String)],
    model: Option<&Path>,
    run: &Path,
) -> Result<Vec<String>, String> {
    let mut keys: Vec<String> = overrides(values).collect();
    if let Some(model) = model {
        let before = loaded(config, Vec::new())?;
        // What the config says of a model is of another one; this one says it itself.
        let own = ["reward.model.arch", "reward.model.image_size", "reward.model.image_keys"];
        keys.extend(own.iter().filter(|key| before.is_written(key)).map(|key| format!("~{key}")));
        let path = if model.is_absolute() { model.to_path_buf() } else { folder.join(model) };
        keys.extend(["reward.use_reward_model=true".into(), place("reward.model.model_path", &path)]);
    }
    loaded(config, keys.clone())?;
    let mut words: Vec<String> = ["robot", "teleop", config].map(ToString::to_string).into();
    words.extend(keys);
    words.extend(["--local".into(), "--control".into(), run.display().to_string()]);
    Ok(words)
}

/// Sends an arm to where it is.
pub(super) fn hold(server: &str) -> Result<(), String> {
    let mut arm = SerlArm::new(server, Arc::new(RealClock::new())).map_err(|error| error.to_string())?;
    let mut why = String::new();
    for _ in 0..TRIES {
        match hold_unguarded(&mut arm) {
            Ok(_) => return Ok(()),
            Err(cause) => why = cause.to_string(),
        }
    }
    Err(why)
}
