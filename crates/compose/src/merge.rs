//! `OmegaConf.merge`: mappings merge key by key, lists and scalars replace, `???` never overwrites.

use crate::error::{ComposeError, ErrorKind, Result, did_you_mean};
use crate::interpolation::Evaluator;
use crate::node::{Key, Map, Node, Value};
use crate::sources::Sources;

/// Whether a merge may bring keys that are not there yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NewKeys {
    Allowed,
    Refused,
}

/// Merges `new` into the container at `path` of `root`.
///
/// It needs the root, because an interpolation that is merged into is first replaced by what it points to.
pub(crate) fn merge_at(
    root: &mut Node,
    path: &[Key],
    new: Node,
    keys: NewKeys,
    sources: &dyn Sources,
) -> Result<()> {
    let Some(old) = node_at(root, path) else { return Ok(()) };
    match (&mut old.value, new.value) {
        (Value::List(items), Value::List(new_items)) => {
            *items = new_items;
            old.origin = new.origin;
            Ok(())
        }
        (Value::Map(_), Value::Map(entries)) => merge_map(root, path, entries, keys, sources),
        (old, new_value) => {
            let kind = ErrorKind::Merge { old: old.kind().to_owned(), new: new_value.kind().to_owned() };
            Err(ComposeError::at(kind, &new.origin).or_key(shown(path)))
        }
    }
}

fn merge_map(
    root: &mut Node,
    path: &[Key],
    entries: Map,
    keys: NewKeys,
    sources: &dyn Sources,
) -> Result<()> {
    let mut below = path.to_vec();
    for (key, new) in entries {
        below.push(key);
        merge_child(root, &below, new, keys, sources)?;
        below.pop();
    }
    Ok(())
}

fn merge_child(root: &mut Node, path: &[Key], new: Node, keys: NewKeys, sources: &dyn Sources) -> Result<()> {
    let Some((key, above)) = path.split_last() else { return Ok(()) };
    if node_at(root, path).is_none() {
        return insert(root, above, key, new, keys);
    }
    expand_interpolation(root, path, sources);
    let Some(old) = node_at(root, path) else { return Ok(()) };
    if new.is_missing() {
        return Ok(());
    }
    if old.is_container() && new.is_container() {
        return merge_at(root, path, new, keys, sources);
    }
    *old = new;
    Ok(())
}

fn insert(root: &mut Node, above: &[Key], key: &Key, new: Node, keys: NewKeys) -> Result<()> {
    let Some(map) = node_at(root, above).and_then(Node::as_map_mut) else { return Ok(()) };
    if keys == NewKeys::Refused {
        let name = key.to_string();
        let known: Vec<String> = map.keys().map(Key::to_string).collect();
        let error = ComposeError::new(ErrorKind::NoSuchKey { key: shown_below(above, key) });
        return Err(error.maybe_hint(did_you_mean(&name, known.iter().map(String::as_str))));
    }
    map.insert(key.clone(), new);
    Ok(())
}

/// Replaces an interpolation that already leads to a container by a copy of it.
fn expand_interpolation(root: &mut Node, path: &[Key], sources: &dyn Sources) {
    if !node_at(root, path).is_some_and(|node| node.is_interpolation()) {
        return;
    }
    let target = Evaluator::new(root, sources, None).container_behind(path);
    if let (Some(target), Some(node)) = (target, node_at(root, path)) {
        *node = target;
    }
}

/// The node at a path of keys, to change.
pub(crate) fn node_at<'n>(root: &'n mut Node, path: &[Key]) -> Option<&'n mut Node> {
    path.iter().try_fold(root, |node, key| match &mut node.value {
        Value::Map(map) => map.get_mut(key),
        Value::List(items) => match key {
            Key::Int(index) => items.get_mut(usize::try_from(*index).ok()?),
            _ => None,
        },
        _ => None,
    })
}

pub(crate) fn shown(path: &[Key]) -> String {
    path.iter().map(Key::to_string).collect::<Vec<_>>().join(".")
}

fn shown_below(above: &[Key], key: &Key) -> String {
    crate::node::join_path(&shown(above), &key.to_string())
}
