//! Moving values about in a composed tree before it is read into types. Origins travel with the values.

use plaudit_compose::{COMMAND_LINE, Key, Map, Node, Origin, Value};

/// The node at a dotted path.
pub(crate) fn get<'a>(root: &'a Node, path: &str) -> Option<&'a Node> {
    path.split('.').try_fold(root, |node, key| match &node.value {
        Value::Map(map) => map.get(&Key::Str(key.into())),
        Value::List(items) => items.get(key.parse::<usize>().ok()?),
        _ => None,
    })
}

/// The node at a dotted path, to be changed.
pub(crate) fn get_mut<'a>(root: &'a mut Node, path: &str) -> Option<&'a mut Node> {
    path.split('.').try_fold(root, |node, key| match &mut node.value {
        Value::Map(map) => map.get_mut(&Key::Str(key.into())),
        Value::List(items) => items.get_mut(key.parse::<usize>().ok()?),
        _ => None,
    })
}

/// Whether something other than null stands at a dotted path.
pub(crate) fn is_set(root: &Node, path: &str) -> bool {
    get(root, path).is_some_and(|node| !matches!(node.value, Value::Null))
}

/// The text at a dotted path.
pub(crate) fn text<'a>(root: &'a Node, path: &str) -> Option<&'a str> {
    match &get(root, path)?.value {
        Value::Str(text) => Some(text),
        _ => None,
    }
}

/// Takes the node at a dotted path out of the tree.
pub(crate) fn take(root: &mut Node, path: &str) -> Option<Node> {
    let (parent, key) = match path.rsplit_once('.') {
        Some((parent, key)) => (get_mut(root, parent)?, key),
        None => (root, path),
    };
    match &mut parent.value {
        Value::Map(map) => map.shift_remove(&Key::Str(key.into())),
        _ => None,
    }
}

/// Puts a node at a dotted path, making the blocks on the way. A block put onto a block is merged into it.
/// What was there stays, unless the new value was given on the command line and the old one was not.
pub(crate) fn put(root: &mut Node, path: &str, node: Node) {
    let (key, rest) = match path.split_once('.') {
        Some((key, rest)) => (key, Some(rest)),
        None => (path, None),
    };
    if !matches!(root.value, Value::Map(_)) {
        root.value = Value::Map(Map::new());
    }
    let Value::Map(map) = &mut root.value else { return };
    let origin = node.origin.clone();
    let slot = map.entry(Key::Str(key.into())).or_insert_with(|| Node { value: Value::Null, origin });
    match rest {
        Some(rest) => put(slot, rest, node),
        None => join(slot, node),
    }
}

fn join(slot: &mut Node, node: Node) {
    match (&mut slot.value, node.value) {
        (Value::Null, value) => *slot = Node { value, origin: node.origin },
        (Value::Map(old), Value::Map(new)) => {
            for (key, value) in new {
                match old.get_mut(&key) {
                    Some(present) => join(present, value),
                    None => {
                        old.insert(key, value);
                    }
                }
            }
        }
        (_, value) if from_command_line(&node.origin) && !from_command_line(&slot.origin) => {
            *slot = Node { value, origin: node.origin };
        }
        _ => {}
    }
}

fn from_command_line(origin: &Origin) -> bool {
    &*origin.source == COMMAND_LINE
}

/// A value that stands where `like` stands.
pub(crate) fn beside(like: &Node, value: Value) -> Node {
    Node { value, origin: like.origin.clone() }
}

/// Every dotted path that a pattern matches in the tree; `*` stands for one whole key or one place in a list.
pub(crate) fn matching(root: &Node, pattern: &str) -> Vec<String> {
    let mut found = vec![(String::new(), root)];
    for part in pattern.split('.') {
        let children = found.iter().flat_map(|(path, node)| children(node).map(move |child| (path, child)));
        let matches = children.filter(|(_, (key, _))| part == "*" || part == key);
        found = matches
            .map(|(path, (key, child))| (if path.is_empty() { key } else { format!("{path}.{key}") }, child))
            .collect();
    }
    found.into_iter().map(|(path, _)| path).collect()
}

fn children(node: &Node) -> Box<dyn Iterator<Item = (String, &Node)> + '_> {
    match &node.value {
        Value::Map(map) => Box::new(map.iter().filter_map(|(key, child)| match key {
            Key::Str(key) => Some((key.clone(), child)),
            _ => None,
        })),
        Value::List(items) => Box::new(items.iter().enumerate().map(|(at, child)| (at.to_string(), child))),
        _ => Box::new(std::iter::empty()),
    }
}
