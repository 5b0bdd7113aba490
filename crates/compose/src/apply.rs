//! Overrides applied to the composed tree. The tree is closed: new keys need a `+`.

use crate::error::{ComposeError, ErrorKind, Result, nearest};
use crate::interpolation::{Evaluator, Resolved, Selected};
use crate::merge::{Merger, NewKeys, check_depth, node_at, shown};
use crate::node::{Key, Map, Node, Value, join_path, split_path};
use crate::overrides::{Action, Override};
use crate::python;
use crate::repository::check_interpolations;
use crate::sources::Sources;

/// Applies one override that is not a choice of a group. Keys that are `open` may be new even without a `+`.
pub(crate) fn apply(
    tree: &mut Node,
    change: &Override,
    open: Option<fn(&str) -> bool>,
    sources: &dyn Sources,
) -> Result<()> {
    let is_open = open.is_some_and(|open| open(&change.key));
    let result = match (&change.package, change.action) {
        (Some(_), _) => Err(ComposeError::new(ErrorKind::OverrideFailed {
            text: change.text.clone(),
            reason: format!("it looks like a choice, but there is no config group `{}`", change.key),
        })),
        (None, Action::Delete) => delete(tree, change, sources),
        (None, Action::Add) => add(tree, change, sources),
        (None, Action::ForceAdd) => update(tree, change, NewKeys::Allowed, sources),
        (None, Action::Change) if is_open => update(tree, change, NewKeys::Allowed, sources),
        (None, Action::Change) => {
            update(tree, change, NewKeys::Refused, sources).map_err(|error| explain_missing(error, change))
        }
    };
    result.map_err(|error| error.or_origin(&change.origin).or_key(&change.key))
}

fn explain_missing(error: ComposeError, change: &Override) -> ComposeError {
    match error.kind() {
        ErrorKind::NoSuchKey { .. } => error.or_hint(format!("to add it, write +{}", change.text)),
        _ => error,
    }
}

fn fail<T>(change: &Override, reason: impl Into<String>) -> Result<T> {
    let kind = ErrorKind::OverrideFailed { text: change.text.clone(), reason: reason.into() };
    Err(ComposeError::new(kind))
}

/// What is at the key now, interpolations followed; `None` also for `null` and `???`.
fn current(tree: &Node, key: &str, sources: &dyn Sources) -> Result<Option<Value>> {
    let evaluator = Evaluator::new(tree, sources, None);
    let found = match evaluator.at_root(key)? {
        Selected::Resolved(found) => found,
        _ => return Ok(None),
    };
    let missing = matches!(&found, Resolved::Node(cursor) if cursor.node().is_missing());
    let value = evaluator.value_of(found);
    Ok(if missing || matches!(value, Value::Null) { None } else { Some(value) })
}

fn add(tree: &mut Node, change: &Override, sources: &dyn Sources) -> Result<()> {
    let is_container = change.value.as_ref().is_some_and(Node::is_container);
    if !is_container && current(tree, &change.key, sources)?.is_some() {
        let without = change.text.trim_start_matches('+');
        return Err(ComposeError::new(ErrorKind::AlreadyThere { key: change.key.clone() })
            .or_hint(format!("to change it, write {without} or ++{without}")));
    }
    update(tree, change, NewKeys::Allowed, sources)
}

fn delete(tree: &mut Node, change: &Override, sources: &dyn Sources) -> Result<()> {
    let refuse =
        |reason: String| Err(ComposeError::new(ErrorKind::CannotDelete { key: change.key.clone(), reason }));
    let Some(present) = current(tree, &change.key, sources)? else {
        return refuse("it does not exist".to_owned());
    };
    if let Some(expected) = change.value.as_ref().filter(|value| !value.is_null())
        && !equal(&expected.value, &present)
    {
        let (is, not) = (python::text(&present), python::text(&expected.value));
        return refuse(format!("its value is {is} and not {not}"));
    }
    // Hydra cuts at the last dot, and looks the parent up through interpolations.
    let (above, last) = change.key.rsplit_once('.').unwrap_or(("", &change.key));
    let Some(path) = container_path(tree, above, sources)? else {
        return refuse("its parent is not a part of the configuration".to_owned());
    };
    match node_at(tree, &path).map(|node| &mut node.value) {
        Some(Value::Map(map)) => {
            map.shift_remove(&Key::from(last));
            Ok(())
        }
        _ => refuse("only keys of mappings can be deleted".to_owned()),
    }
}

/// The keys that lead to what a path means, interpolations followed.
fn container_path(tree: &Node, path: &str, sources: &dyn Sources) -> Result<Option<Vec<Key>>> {
    Ok(match Evaluator::new(tree, sources, None).at_root(path)? {
        Selected::Resolved(Resolved::Node(cursor)) => cursor.keys(),
        _ => None,
    })
}

fn step_key(container: &Node, step: &str) -> Option<Key> {
    match container.value {
        Value::List(_) => python::parse_int(step).map(Key::Int),
        _ => Some(Key::Str(step.to_owned())),
    }
}

/// Python's `==` between plain values: numbers compare by value.
fn equal(a: &Value, b: &Value) -> bool {
    let number = |value: &Value| match value {
        Value::Bool(flag) => Some(f64::from(u8::from(*flag))),
        Value::Int(number) => Some(*number as f64),
        Value::Float(number) => Some(*number),
        _ => None,
    };
    match (a, b) {
        (Value::List(a), Value::List(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(&a.value, &b.value))
        }
        (Value::Map(a), Value::Map(b)) => {
            a.len() == b.len()
                && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| equal(&a.value, &b.value)))
        }
        (Value::Str(a), Value::Str(b)) => a == b,
        (Value::Null, Value::Null) => true,
        _ => matches!((number(a), number(b)), (Some(a), Some(b)) if a == b),
    }
}

/// `OmegaConf.update`: walks to the parent, making mappings on the way where that is allowed, then sets.
fn update(tree: &mut Node, change: &Override, keys: NewKeys, sources: &dyn Sources) -> Result<()> {
    let Some(value) = change.value.clone() else { return fail(change, "it has no value") };
    check_interpolations(&value)?;
    let steps = split_path(&change.key);
    check_depth(steps.len(), &value.origin)?;
    let Some((last, above)) = steps.split_last() else { return fail(change, "it has no key") };
    let mut path = Vec::with_capacity(steps.len());
    for step in above {
        path = open(tree, path, step, change, keys)?;
    }
    let Some(parent) = node_at(tree, &path) else { return fail(change, "its parent cannot be reached") };
    let Some(key) = step_key(parent, last) else {
        return fail(change, format!("`{last}` is not an index into a list"));
    };
    path.push(key);
    if value.is_container() && node_at(tree, &path).is_some_and(|node| node.is_container()) {
        return Merger::new(keys, sources).merge(tree, &path, value);
    }
    set(tree, &path, value, change, keys)
}

/// Goes one step down; what is no container becomes an empty mapping.
fn open(
    tree: &mut Node,
    mut path: Vec<Key>,
    step: &str,
    change: &Override,
    keys: NewKeys,
) -> Result<Vec<Key>> {
    let Some(parent) = node_at(tree, &path) else { return fail(change, "its parent cannot be reached") };
    let Some(key) = step_key(parent, step) else {
        return fail(change, format!("`{step}` is not an index into a list"));
    };
    path.push(key);
    if !node_at(tree, &path).is_some_and(|node| node.is_container()) {
        set(tree, &path, Node::empty_map(change.origin.clone()), change, keys)?;
    }
    Ok(path)
}

fn set(tree: &mut Node, path: &[Key], value: Node, change: &Override, keys: NewKeys) -> Result<()> {
    if let Some(present) = node_at(tree, path) {
        *present = value;
        return Ok(());
    }
    let Some((key, above)) = path.split_last() else { return Ok(()) };
    match node_at(tree, above).map(|node| &mut node.value) {
        Some(Value::Map(map)) if keys == NewKeys::Allowed => {
            map.insert(key.clone(), value);
            Ok(())
        }
        Some(Value::Map(map)) => {
            let error = ComposeError::new(ErrorKind::NoSuchKey { key: change.key.clone() });
            Err(error.maybe_hint(near_keys(map, above, key, change)))
        }
        Some(Value::List(items)) => fail(change, format!("the list has only {} items", items.len())),
        _ => fail(change, "its parent is not a mapping or a list"),
    }
}

fn near_keys(map: &Map, above: &[Key], key: &Key, change: &Override) -> Option<String> {
    let known: Vec<String> = map.keys().map(Key::to_string).collect();
    let near = nearest(&key.to_string(), known.iter().map(String::as_str))?;
    let path = join_path(&shown(above), near);
    Some(format!("did you mean `{path}`? To add a new key, write +{}", change.text))
}
