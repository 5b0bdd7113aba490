//! What is left of Hydra's own settings: `${hydra:...}` can read some, the rest is listed as ignored.

use crate::apply::apply;
use crate::compose::Request;
use crate::merge::{Merger, NewKeys};
use crate::node::{Key, Map, Node, Origin, Value};
use crate::overrides::{Action, Override};
use crate::sources::Sources;
use crate::tree::Expansion;

/// Settings that `${hydra:...}` makes visible, so they are not ignored.
const HONOURED: [&str; 3] = ["searchpath", "job.name", "run.dir"];

/// The mapping that `${hydra:...}` reads: `{hydra: {...}}`.
pub(crate) fn settings(
    sources: &dyn Sources,
    request: &Request,
    expansion: &Expansion,
    written: Option<&Node>,
    overrides: &[Override],
) -> Node {
    let origin = Origin::new("hydra", 1, 1);
    let text = |text: &str| Node::new(Value::Str(text.to_owned()), origin.clone());
    let map = |entries: Vec<(&str, Node)>| {
        let entries = entries.into_iter().map(|(key, node)| (Key::from(key), node));
        Node::new(Value::Map(entries.collect()), origin.clone())
    };
    let choices: Map = expansion
        .choices
        .iter()
        .map(|(group, name)| {
            let value = name.as_ref().map_or(Value::Null, |name| Value::Str(name.clone()));
            (Key::Str(group.clone()), Node::new(value, origin.clone()))
        })
        .collect();
    let job_name = if request.job_name.is_empty() { "app" } else { &request.job_name };
    let runtime = map(vec![
        ("cwd", text(&sources.cwd())),
        ("version_base", text("1.1")),
        ("choices", Node::new(Value::Map(choices), origin.clone())),
    ]);
    let job = map(vec![
        ("name", text(job_name)),
        ("config_name", text(&request.config_name)),
        ("override_dirname", text(&override_dirname(request, overrides))),
    ]);
    let defaults = map(vec![
        ("mode", text("RUN")),
        ("run", map(vec![("dir", text("outputs/${now:%Y-%m-%d}/${now:%H-%M-%S}"))])),
        ("runtime", runtime),
        ("job", job),
    ]);
    let mut root = map(vec![("hydra", defaults)]);
    if let Some(written) = written {
        // What cannot be merged has no meaning here either.
        let mut merger = Merger::new(NewKeys::Allowed, sources);
        let _ = merger.merge(&mut root, &[Key::from("hydra")], written.clone());
    }
    for change in overrides.iter().filter(|change| change.key.starts_with("hydra.")) {
        let forced = Override { action: Action::ForceAdd, ..change.clone() };
        let _ = apply(&mut root, &forced, None, sources);
    }
    root
}

/// The overrides that are not about Hydra, sorted and joined, as Hydra names directories after them.
fn override_dirname(request: &Request, about_hydra: &[Override]) -> String {
    let mut lines: Vec<&str> = request
        .overrides
        .iter()
        .map(String::as_str)
        .filter(|line| !about_hydra.iter().any(|change| change.text == *line))
        .collect();
    lines.sort_unstable();
    lines.join(",")
}

/// Everything about Hydra that was found and has no effect.
pub(crate) fn ignored(written: Option<&Node>, overrides: &[Override], expansion: &Expansion) -> Vec<String> {
    let from_files = written.map(Node::leaves).unwrap_or_default();
    let from_files = from_files
        .iter()
        .filter(|(path, _)| !HONOURED.iter().any(|honoured| path.starts_with(honoured)))
        .map(|(path, _)| format!("hydra.{path}"));
    let from_overrides = overrides
        .iter()
        .map(Override::group_key)
        .filter(|key| !HONOURED.iter().any(|honoured| key.strip_prefix("hydra.") == Some(honoured)));
    let mut all: Vec<String> =
        expansion.ignored.iter().cloned().chain(from_files).chain(from_overrides).collect();
    all.sort();
    all.dedup();
    all
}
