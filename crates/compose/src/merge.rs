//! `OmegaConf.merge`: mappings merge key by key, lists and scalars replace, `???` never overwrites.

use crate::error::{ComposeError, ErrorKind, Result, did_you_mean};
use crate::interpolation::Evaluator;
use crate::node::{Key, Map, Node, Origin, Value, join_path};
use crate::sources::Sources;

/// The deepest tree that is composed.
const MAX_DEPTH: usize = 150;

/// The most values that interpolations may bring in when they are merged into.
const MAX_COPIED: usize = 500_000;

/// Refuses a tree that is nested too deeply to walk safely.
pub(crate) fn check_depth(depth: usize, origin: &Origin) -> Result<()> {
    if depth > MAX_DEPTH {
        return Err(ComposeError::at(ErrorKind::TooDeep { limit: MAX_DEPTH }, origin));
    }
    Ok(())
}

/// Whether a merge may bring keys that are not there yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NewKeys {
    Allowed,
    Refused,
}

/// Merges trees into one root.
///
/// It needs the root, because an interpolation that is merged into is first replaced by what it points to.
pub(crate) struct Merger<'s> {
    keys: NewKeys,
    sources: &'s dyn Sources,
    copied: usize,
}

impl<'s> Merger<'s> {
    pub(crate) fn new(keys: NewKeys, sources: &'s dyn Sources) -> Self {
        Merger { keys, sources, copied: 0 }
    }

    /// Merges `new` into the container at `path` of `root`.
    pub(crate) fn merge(&mut self, root: &mut Node, path: &[Key], new: Node) -> Result<()> {
        let Some(old) = node_at(root, path) else { return Ok(()) };
        match (&mut old.value, new.value) {
            (Value::List(items), Value::List(new_items)) => {
                *items = new_items;
                old.origin = new.origin;
                Ok(())
            }
            (Value::Map(_), Value::Map(entries)) => self.map(root, path, entries),
            (old, new_value) => {
                let kind =
                    ErrorKind::Merge { old: old.a_kind().to_owned(), new: new_value.a_kind().to_owned() };
                Err(ComposeError::at(kind, &new.origin).or_key(shown(path)))
            }
        }
    }

    fn map(&mut self, root: &mut Node, path: &[Key], entries: Map) -> Result<()> {
        let mut below = path.to_vec();
        for (key, new) in entries {
            below.push(key);
            self.child(root, &below, new)?;
            below.pop();
        }
        Ok(())
    }

    fn child(&mut self, root: &mut Node, path: &[Key], new: Node) -> Result<()> {
        check_depth(path.len(), &new.origin)?;
        let Some((key, above)) = path.split_last() else { return Ok(()) };
        if node_at(root, path).is_none() {
            return self.insert(root, above, key, new);
        }
        self.expand_interpolation(root, path)?;
        let Some(old) = node_at(root, path) else { return Ok(()) };
        if new.is_missing() {
            return Ok(());
        }
        if old.is_container() && new.is_container() {
            return self.merge(root, path, new);
        }
        *old = new;
        Ok(())
    }

    fn insert(&self, root: &mut Node, above: &[Key], key: &Key, new: Node) -> Result<()> {
        let Some(map) = node_at(root, above).and_then(Node::as_map_mut) else { return Ok(()) };
        if self.keys == NewKeys::Refused {
            let name = key.to_string();
            let known: Vec<String> = map.keys().map(Key::to_string).collect();
            let error = ComposeError::new(ErrorKind::NoSuchKey { key: join_path(&shown(above), &name) });
            return Err(error.maybe_hint(did_you_mean(&name, known.iter().map(String::as_str))));
        }
        map.insert(key.clone(), new);
        Ok(())
    }

    /// Replaces an interpolation that already leads to a container by a copy of it.
    fn expand_interpolation(&mut self, root: &mut Node, path: &[Key]) -> Result<()> {
        if !node_at(root, path).is_some_and(|node| node.is_interpolation()) {
            return Ok(());
        }
        let target = Evaluator::new(root, self.sources, None).container_behind(path);
        if let (Some(target), Some(node)) = (target, node_at(root, path)) {
            self.copied += target.size();
            if self.copied > MAX_COPIED {
                return Err(ComposeError::at(ErrorKind::TooLarge { limit: MAX_COPIED }, &node.origin));
            }
            check_depth(path.len() + target.depth(), &node.origin)?;
            *node = target;
        }
        Ok(())
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

/// A path of keys as users write it.
pub(crate) fn shown(path: &[Key]) -> String {
    path.iter().map(Key::to_string).collect::<Vec<_>>().join(".")
}
