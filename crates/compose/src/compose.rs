//! The whole way from a config name and overrides to one tree.

use serde::Deserialize;

use crate::apply::apply;
use crate::de::from_node;
use crate::error::{ComposeError, ErrorKind, Result, Texts};
use crate::hydra;
use crate::interpolation::Evaluator;
use crate::merge::{Merger, NewKeys, check_depth};
use crate::node::{COMMAND_LINE, Key, Map, Node, Origin, Value, split_path};
use crate::overrides::{Override, parse_override};
use crate::repository::Repository;
use crate::search_path;
use crate::sources::Sources;
use crate::tree::{self, Step};

/// What to compose.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// The directory that names are relative to.
    pub config_dir: String,
    /// The primary config, with or without `.yaml`, relative to the directory.
    pub config_name: String,
    /// Hydra overrides such as `lr=1e-4`, `env=pick_cube` or `+debug=true`.
    pub overrides: Vec<String>,
    /// More directories to search, after those that `hydra.searchpath` names.
    pub search_path: Vec<String>,
    /// Tells which keys exist although no file writes them, so that `key=value` may add them.
    pub open_keys: Option<fn(&str) -> bool>,
    /// What `${hydra:job.name}` says; `app` if it is empty, as in Hydra.
    pub job_name: String,
}

impl Request {
    /// A config of a directory, without overrides.
    pub fn new(config_dir: impl Into<String>, config_name: impl Into<String>) -> Self {
        Request { config_dir: config_dir.into(), config_name: config_name.into(), ..Request::default() }
    }

    /// With these overrides on top.
    pub fn with_overrides<T: Into<String>>(mut self, overrides: impl IntoIterator<Item = T>) -> Self {
        self.overrides.extend(overrides.into_iter().map(Into::into));
        self
    }
}

/// A composed configuration.
#[derive(Debug, Clone)]
pub struct Composition {
    /// The result with its interpolations still in it.
    pub tree: Node,
    /// The files that were read, in order.
    pub files: Vec<String>,
    /// Settings of Hydra itself that were found and have no effect here.
    pub ignored: Vec<String>,
    /// What was chosen for each config group.
    pub choices: Vec<(String, Option<String>)>,
    /// Remarks that are no errors, such as a search directory that does not exist.
    pub warnings: Vec<String>,
    /// The texts of the files and of the overrides, for drawing errors.
    pub texts: Texts,
    /// What `${hydra:...}` reads.
    hydra: Node,
}

impl Composition {
    /// The tree with every interpolation replaced by its value. `???` stays.
    pub fn resolve(&self, sources: &dyn Sources) -> Result<Node> {
        Evaluator::new(&self.tree, sources, Some(&self.hydra))
            .resolve_all()
            .map_err(|error| error.with_texts(&self.texts))
    }

    /// Reads a typed value out of a tree of this composition; errors know the text they point into.
    pub fn read<'n, T: Deserialize<'n>>(&self, node: &'n Node) -> Result<T> {
        from_node(node).map_err(|error| error.with_texts(&self.texts))
    }
}

/// Composes a config: reads its defaults lists, merges the files, applies the overrides.
pub fn compose(sources: &dyn Sources, request: &Request) -> Result<Composition> {
    let mut repository = Repository::new(sources, vec![request.config_dir.clone()]);
    let result = Composer { sources, request, repository: &mut repository }.run();
    let texts = all_texts(&mut repository, request);
    match result {
        Ok(composition) => Ok(Composition { texts, ..composition }),
        Err(error) => Err(error.with_texts(&texts)),
    }
}

/// The files by name, and the overrides as one text with a line for each.
fn all_texts(repository: &mut Repository<'_>, request: &Request) -> Texts {
    let mut texts = std::mem::take(&mut repository.texts);
    texts.insert(COMMAND_LINE.into(), request.overrides.join("\n").into());
    texts
}

struct Composer<'c, 's> {
    sources: &'s dyn Sources,
    request: &'c Request,
    repository: &'c mut Repository<'s>,
}

impl Composer<'_, '_> {
    fn run(mut self) -> Result<Composition> {
        if !self.sources.is_dir(&self.request.config_dir) {
            let path = self.request.config_dir.clone();
            return Err(ComposeError::new(ErrorKind::MissingDirectory { path }));
        }
        let overrides = self.overrides()?;
        let mut warnings = search_path::extend(self.repository, self.sources, self.request, &overrides)?;
        let (about_hydra, overrides): (Vec<_>, Vec<_>) = overrides.into_iter().partition(Override::is_hydra);
        let expansion = tree::expand(self.repository, self.sources, &self.request.config_name, overrides)?;
        let mut tree = self.merge_steps(&expansion.steps)?;
        let settings = tree.as_map_mut().and_then(|map| map.shift_remove(&Key::from("hydra")));
        for change in &expansion.changes {
            apply(&mut tree, change, self.request.open_keys, self.sources)?;
            check_depth(tree.depth(), &change.origin)?;
        }
        let hydra = hydra::settings(self.sources, self.request, &expansion, settings.as_ref(), &about_hydra);
        let ignored = hydra::ignored(settings.as_ref(), &about_hydra, &expansion);
        warnings.extend(expansion.warnings);
        Ok(Composition {
            tree,
            files: self.repository.texts.keys().map(|name| name.to_string()).collect(),
            ignored,
            choices: expansion.choices.into_iter().collect(),
            warnings,
            texts: Texts::new(),
            hydra,
        })
    }

    fn overrides(&self) -> Result<Vec<Override>> {
        let numbered = self.request.overrides.iter().enumerate();
        numbered.map(|(index, text)| parse_override(text, index + 1)).collect()
    }

    /// Merges the configs in order, each at its package.
    fn merge_steps(&mut self, steps: &[Step]) -> Result<Node> {
        let mut tree = Node::empty_map(Origin::new(self.request.config_name.as_str(), 1, 1));
        let mut merger = Merger::new(NewKeys::Allowed, self.sources);
        for step in steps {
            let Some(config) = self.repository.load(&step.config_path)? else {
                return Err(self.repository.missing(&step.config_path));
            };
            let placed = place(config.tree.clone(), &step.package)?;
            if !step.primary && placed.get("hydra.searchpath").is_some_and(|node| !node.is_null()) {
                let reason = "only the primary config may set hydra.searchpath".to_owned();
                let kind = ErrorKind::SearchPath { reason };
                return Err(ComposeError::at(kind, &config.tree.origin).or_key("hydra.searchpath"));
            }
            merger.merge(&mut tree, &[], placed)?;
            check_depth(tree.depth(), &config.tree.origin)?;
        }
        Ok(tree)
    }
}

/// Wraps a config in the mappings of its package.
fn place(config: Node, package: &str) -> Result<Node> {
    if package.is_empty() {
        return Ok(config);
    }
    let origin = config.origin.clone();
    let steps = split_path(package);
    check_depth(steps.len(), &origin)?;
    if steps.iter().any(String::is_empty) {
        let reason = format!("`{package}` has an empty part");
        return Err(ComposeError::at(ErrorKind::BadPackage { reason }, &origin));
    }
    Ok(steps.into_iter().rev().fold(config, |inner, step| {
        Node::new(Value::Map(Map::from_iter([(Key::Str(step), inner)])), origin.clone())
    }))
}
