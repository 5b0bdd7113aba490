//! `hydra.searchpath`: more directories to look for configs in, from the primary config or an override.

use crate::compose::Request;
use crate::error::{ComposeError, ErrorKind, Result};
use crate::interpolation::{Evaluator, Selected};
use crate::node::{Node, Origin, Value};
use crate::overrides::{Action, Override};
use crate::repository::Repository;
use crate::sources::Sources;

/// Adds the directories; returns a remark for each that does not exist.
pub(crate) fn extend(
    repository: &mut Repository<'_>,
    sources: &dyn Sources,
    request: &Request,
    overrides: &[Override],
) -> Result<Vec<String>> {
    let from_override = overrides
        .iter()
        .find(|change| change.action == Action::Change && change.group_key() == "hydra.searchpath")
        .and_then(|change| change.value.clone());
    let paths = match from_override {
        Some(value) if !value.is_null() => read(value)?,
        _ => match primary(repository, sources, request)? {
            Some(value) if !value.is_null() => read(value)?,
            _ => Vec::new(),
        },
    };
    let mut warnings = Vec::new();
    for directory in paths.into_iter().chain(request.search_path.iter().cloned()) {
        if !sources.is_dir(&directory) {
            warnings.push(format!("the search path `{directory}` does not exist"));
        }
        repository.add_directory(directory);
    }
    Ok(warnings)
}

/// The setting in the primary config, with its interpolations resolved inside that file alone.
fn primary(
    repository: &mut Repository<'_>,
    sources: &dyn Sources,
    request: &Request,
) -> Result<Option<Node>> {
    let Some(config) = repository.load(&request.config_name)? else { return Ok(None) };
    if config.tree.as_map().is_none() {
        let kind = ErrorKind::NotAMapping { found: config.tree.value.a_kind().to_owned() };
        return Err(ComposeError::at(kind, &config.tree.origin));
    }
    let Some(origin) = config.tree.get("hydra.searchpath").map(|node| node.origin.clone()) else {
        return Ok(None);
    };
    let evaluator = Evaluator::new(&config.tree, sources, None);
    match evaluator.at_root("hydra.searchpath")? {
        Selected::Resolved(found) => Ok(Some(Node::new(evaluator.plain(found, &origin)?, origin))),
        _ => Ok(None),
    }
}

fn read(value: Node) -> Result<Vec<String>> {
    let refuse = |reason: String, origin: &Origin| {
        ComposeError::at(ErrorKind::SearchPath { reason }, origin).or_key("hydra.searchpath")
    };
    let Value::List(items) = value.value else {
        return Err(refuse(format!("it must be a list, found {}", value.value.a_kind()), &value.origin));
    };
    items.iter().map(|item| directory(item).map_err(|reason| refuse(reason, &item.origin))).collect()
}

fn directory(item: &Node) -> std::result::Result<String, String> {
    let Some(text) = item.as_str() else {
        return Err(format!("it must be a list of strings, found {}", item.value.a_kind()));
    };
    match text.split_once("://") {
        None => Ok(text.to_owned()),
        Some(("file", path)) => Ok(path.to_owned()),
        Some(("pkg", _)) => Err(format!("`{text}` is inside a Python package; give its directory instead")),
        Some((scheme, _)) => Err(format!("`{scheme}://` is not supported; give a directory")),
    }
}
