//! From the words of a command to the config they ask for.

use std::path::Path;

use plaudit_compose::Request;

use crate::cli::ConfigArgs;
use crate::config::recipes;
use crate::config::sources::{self, Disk};
use crate::failure::Failure;

/// What a config is called that comes through a pipe.
const STREAMED: &str = "stdin";

/// A config that was asked for, and where to read it from.
#[derive(Debug)]
pub struct Asked {
    /// Which config, with which overrides.
    pub request: Request,
    /// Where files and variables come from.
    pub disk: Disk,
}

impl Asked {
    /// Finds out which config is meant: a recipe's name, a file, or a name in a directory.
    pub fn from_args(args: &ConfigArgs) -> Result<Self, Failure> {
        let (name, overrides) = match (&args.config_name, args.words.split_first()) {
            (Some(name), _) => (name.as_str(), &args.words[..]),
            (None, Some((first, rest))) if !looks_like_override(first) => (first.as_str(), rest),
            _ => {
                let help = "name a recipe (see `plaudit config list`) or a YAML file first, then overrides";
                return Err(Failure::use_of("which config?", help.to_string()));
            }
        };
        let streamed = if args.config_path.is_none() { sources::streamed(name) } else { None };
        let (directory, name) = match &streamed {
            Some(_) => (".".into(), STREAMED.into()),
            None => place(args.config_path.as_deref(), name),
        };
        let mut disk = Disk::for_config_in(&directory);
        if let Some(text) = streamed {
            let text =
                text.map_err(|error| Failure::use_of(format!("cannot read the config: {error}"), None))?;
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

/// `a=b`, `+a=b`, `~a`: no config is called like that, unless a file is.
pub(crate) fn looks_like_override(word: &str) -> bool {
    (word.contains('=') || word.starts_with(['+', '~'])) && !Path::new(word).is_file()
}

/// The directory and the name. A name that is a file on disk, or looks like one, is that file.
fn place(config_path: Option<&str>, name: &str) -> (String, String) {
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
