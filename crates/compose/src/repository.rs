//! Configs by name: which directory of the search path has them, what their header and defaults list say.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use crate::defaults::{Entry, read_list};
use crate::error::{ComposeError, ErrorKind, Result, Texts, did_you_mean};
use crate::grammar;
use crate::node::{Key, Node, Value};
use crate::sources::Sources;
use crate::yaml::parse_yaml;

/// Hydra reads only this much of a file when it looks for `# @package`.
const HEADER_CHARS: usize = 512;

/// One config file, read.
#[derive(Debug)]
pub(crate) struct Config {
    /// Everything but the defaults list.
    pub(crate) tree: Node,
    /// The package from `# @package`.
    pub(crate) header: Option<String>,
    pub(crate) defaults: Vec<Entry>,
}

/// The search path and what was read through it.
pub(crate) struct Repository<'s> {
    sources: &'s dyn Sources,
    directories: Vec<String>,
    cache: HashMap<String, Option<Rc<Config>>>,
    pub(crate) texts: Texts,
}

impl<'s> Repository<'s> {
    pub(crate) fn new(sources: &'s dyn Sources, directories: Vec<String>) -> Self {
        Repository { sources, directories, cache: HashMap::new(), texts: Texts::new() }
    }

    pub(crate) fn add_directory(&mut self, directory: String) {
        self.directories.push(directory);
    }

    fn file(&self, config_path: &str) -> Option<String> {
        let name = if config_path.ends_with(".yaml") || config_path.ends_with(".yml") {
            config_path.to_owned()
        } else {
            format!("{config_path}.yaml")
        };
        self.directories.iter().map(|dir| join(dir, &name)).find(|path| self.sources.is_file(path))
    }

    pub(crate) fn exists(&self, config_path: &str) -> bool {
        self.file(config_path).is_some()
    }

    pub(crate) fn group_exists(&self, group: &str) -> bool {
        self.directories.iter().any(|dir| self.sources.is_dir(&join(dir, group)))
    }

    /// The configs in a group, by name.
    pub(crate) fn options(&self, group: &str) -> Vec<String> {
        let mut names: Vec<String> = self
            .directories
            .iter()
            .flat_map(|dir| self.sources.list(&join(dir, group)))
            .filter_map(|name| {
                let stem = name.strip_suffix(".yaml").or_else(|| name.strip_suffix(".yml"))?;
                Some(stem.to_owned())
            })
            .collect();
        names.sort();
        names.dedup();
        names
    }

    /// Reads a config, once; `None` if no directory has it.
    pub(crate) fn load(&mut self, config_path: &str) -> Result<Option<Rc<Config>>> {
        if let Some(known) = self.cache.get(config_path) {
            return Ok(known.clone());
        }
        let config = match self.file(config_path) {
            None => None,
            Some(path) => Some(Rc::new(self.read(&path)?)),
        };
        self.cache.insert(config_path.to_owned(), config.clone());
        Ok(config)
    }

    fn read(&mut self, path: &str) -> Result<Config> {
        let text: Arc<str> = match self.sources.read(path) {
            Ok(text) => text.into(),
            Err(reason) => {
                return Err(ComposeError::new(ErrorKind::Read { path: path.to_owned(), reason }));
            }
        };
        self.texts.insert(path.into(), text.clone());
        let header = package_header(&text).map_err(|reason| {
            let origin = crate::node::Origin::new(path, 1, 1);
            ComposeError::at(ErrorKind::BadPackage { reason }, &origin)
        })?;
        let mut tree = parse_yaml(path, &text)?;
        check_interpolations(&tree)?;
        let list = tree.as_map_mut().and_then(|map| map.shift_remove(&Key::from("defaults")));
        let defaults = match list {
            None => Vec::new(),
            Some(list) => read_list(&list)?,
        };
        Ok(Config { tree, header, defaults })
    }

    /// The error for a config that is nowhere, with what is near.
    pub(crate) fn missing(&self, config_path: &str) -> ComposeError {
        let (group, name) = config_path.rsplit_once('/').unwrap_or(("", config_path));
        let options = self.options(group);
        let name = name.trim_end_matches(".yaml");
        let hint = did_you_mean(name, options.iter().map(String::as_str)).or_else(|| {
            let shown: Vec<&str> = options.iter().take(12).map(String::as_str).collect();
            let place = if group.is_empty() { "there".to_owned() } else { format!("in `{group}`") };
            let more = match options.len() - shown.len() {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            (!shown.is_empty()).then(|| format!("{place} are: {}{more}", shown.join(", ")))
        });
        let kind = ErrorKind::MissingConfig {
            name: config_path.to_owned(),
            searched: self.directories.clone(),
            options,
        };
        ComposeError::new(kind).maybe_hint(hint)
    }
}

/// Joins a directory and what is below it; an absolute path stands for itself.
pub(crate) fn join(directory: &str, below: &str) -> String {
    if below.starts_with('/') || directory.is_empty() {
        below.to_owned()
    } else if below.is_empty() {
        directory.to_owned()
    } else {
        format!("{}/{below}", directory.trim_end_matches('/'))
    }
}

/// OmegaConf parses every interpolation when it loads a file, used or not.
pub(crate) fn check_interpolations(node: &Node) -> Result<()> {
    match &node.value {
        Value::Str(text) if text.contains("${") => {
            grammar::parse_template(text).map_err(|error| error.or_origin(&node.origin)).map(drop)
        }
        Value::List(items) => items.iter().try_for_each(check_interpolations),
        Value::Map(map) => map.iter().try_for_each(|(key, child)| {
            check_interpolations(child).map_err(|error| error.under(&key.to_string(), &child.origin))
        }),
        _ => Ok(()),
    }
}

/// The package from `# @package name`, which has to stand before anything else in the file.
fn package_header(text: &str) -> Result<Option<String>, String> {
    let head: String = text.chars().take(HEADER_CHARS).collect();
    let mut package = None;
    for line in head.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let Some(comment) = line.strip_prefix('#') else { break };
        if !comment.trim_start().starts_with('@') {
            break;
        }
        let words: Vec<&str> = line.trim_start_matches('#').split_whitespace().collect();
        match words[..] {
            [key, value] => {
                if key == "@package" {
                    package = Some(value.to_owned());
                }
            }
            [_] => return Err(format!("`{line}` has no value")),
            _ => return Err(format!("`{line}` has too many words")),
        }
    }
    Ok(package)
}
