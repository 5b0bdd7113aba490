//! The tree that composition works on: plain values, each with the place it was written.

use std::fmt;
use std::sync::Arc;

use indexmap::IndexMap;

/// The source name of values that were given as overrides.
pub const COMMAND_LINE: &str = "command line";

/// Where a value was written: a file (or the command line) with line and column, both counted from 1.
///
/// A collection that starts on the lines below its key carries the place of the key, because that is
/// where a reader looks for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// A path as the user would type it, or `command line` for overrides.
    pub source: Arc<str>,
    /// Line in `source`; for an override, its position among the overrides.
    pub line: usize,
    /// Column in `source`.
    pub column: usize,
}

impl Origin {
    /// A place in a named source.
    pub fn new(source: impl Into<Arc<str>>, line: usize, column: usize) -> Self {
        Origin { source: source.into(), line, column }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.source, self.line, self.column)
    }
}

/// A value and its place.
#[derive(Debug, Clone)]
pub struct Node {
    /// What was written.
    pub value: Value,
    /// Where it was written.
    pub origin: Origin,
}

/// What YAML can say once anchors and tags are gone. Interpolations are strings until they are resolved.
#[derive(Debug, Clone)]
pub enum Value {
    /// `null`, `~` or nothing.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A whole number.
    Int(i128),
    /// A real number, including `.inf` and `.nan`.
    Float(f64),
    /// Text.
    Str(String),
    /// A sequence.
    List(Vec<Node>),
    /// A mapping, in the order it was written.
    Map(Map),
}

/// A mapping from keys to nodes, in the order written.
pub type Map = IndexMap<Key, Node>;

/// OmegaConf lets keys be more than strings, and they print differently.
///
/// As in Python, `1`, `true` and `1.0` are the same key: the first one written stays, the last value counts.
#[derive(Debug, Clone)]
pub enum Key {
    /// The common case.
    Str(String),
    /// A whole number.
    Int(i128),
    /// `true` or `false`.
    Bool(bool),
    /// A real number, kept by its bits so that keys can be compared.
    Float(u64),
}

/// What decides whether two keys are the same.
#[derive(PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Identity<'k> {
    Text(&'k str),
    Whole(i128),
    Real(u64),
}

impl Key {
    fn identity(&self) -> Identity<'_> {
        match self {
            Key::Str(text) => Identity::Text(text),
            Key::Int(number) => Identity::Whole(*number),
            Key::Bool(flag) => Identity::Whole(i128::from(*flag)),
            Key::Float(bits) => {
                let number = f64::from_bits(*bits);
                let whole = number.fract() == 0.0 && number.abs() < 1e18;
                if whole { Identity::Whole(number as i128) } else { Identity::Real(*bits) }
            }
        }
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.identity() == other.identity()
    }
}

impl Eq for Key {}

impl std::hash::Hash for Key {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.identity().hash(state);
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.identity().cmp(&other.identity())
    }
}

impl From<&str> for Key {
    fn from(text: &str) -> Self {
        Key::Str(text.to_owned())
    }
}

impl From<String> for Key {
    fn from(text: String) -> Self {
        Key::Str(text)
    }
}

/// Prints a key as Python's `str` would, which is how OmegaConf shows it in paths.
impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Key::Str(text) => f.write_str(text),
            Key::Int(number) => write!(f, "{number}"),
            Key::Bool(true) => f.write_str("True"),
            Key::Bool(false) => f.write_str("False"),
            Key::Float(bits) => f.write_str(&crate::python::float(f64::from_bits(*bits))),
        }
    }
}

impl Value {
    /// The word for this kind of value in messages: `mapping`, `list`, `string`, `integer`, ...
    pub fn kind(&self) -> &'static str {
        match self {
            Value::Null => "null",
            Value::Bool(_) => "boolean",
            Value::Int(_) => "integer",
            Value::Float(_) => "float",
            Value::Str(_) => "string",
            Value::List(_) => "list",
            Value::Map(_) => "mapping",
        }
    }

    /// The kind with its article, for the middle of a sentence: `an integer`, `null`.
    pub fn a_kind(&self) -> &'static str {
        match self {
            Value::Null => "null",
            Value::Bool(_) => "a boolean",
            Value::Int(_) => "an integer",
            Value::Float(_) => "a float",
            Value::Str(_) => "a string",
            Value::List(_) => "a list",
            Value::Map(_) => "a mapping",
        }
    }
}

impl Node {
    /// A value at a place.
    pub fn new(value: Value, origin: Origin) -> Self {
        Node { value, origin }
    }

    /// An empty mapping at a place.
    pub fn empty_map(origin: Origin) -> Self {
        Node::new(Value::Map(Map::new()), origin)
    }

    /// The word for this kind of value in messages.
    pub fn kind(&self) -> &'static str {
        self.value.kind()
    }

    /// The mapping, if this is one.
    pub fn as_map(&self) -> Option<&Map> {
        match &self.value {
            Value::Map(map) => Some(map),
            _ => None,
        }
    }

    /// The mapping, if this is one, to change.
    pub fn as_map_mut(&mut self) -> Option<&mut Map> {
        match &mut self.value {
            Value::Map(map) => Some(map),
            _ => None,
        }
    }

    /// The items, if this is a list.
    pub fn as_list(&self) -> Option<&[Node]> {
        match &self.value {
            Value::List(items) => Some(items),
            _ => None,
        }
    }

    /// The text, if this is a string.
    pub fn as_str(&self) -> Option<&str> {
        match &self.value {
            Value::Str(text) => Some(text),
            _ => None,
        }
    }

    /// The truth value, if this is a boolean.
    pub fn as_bool(&self) -> Option<bool> {
        match &self.value {
            Value::Bool(flag) => Some(*flag),
            _ => None,
        }
    }

    /// The whole number, if this is an integer.
    pub fn as_int(&self) -> Option<i128> {
        match &self.value {
            Value::Int(number) => Some(*number),
            _ => None,
        }
    }

    /// The number, if this is a float or an integer.
    pub fn as_f64(&self) -> Option<f64> {
        match &self.value {
            Value::Float(number) => Some(*number),
            Value::Int(number) => Some(*number as f64),
            _ => None,
        }
    }

    /// Whether this is `null`.
    pub fn is_null(&self) -> bool {
        matches!(self.value, Value::Null)
    }

    /// Whether this is a mapping or a list.
    pub fn is_container(&self) -> bool {
        matches!(self.value, Value::Map(_) | Value::List(_))
    }

    /// Whether this is `???`, a value that the user has to give before it is used.
    pub fn is_missing(&self) -> bool {
        self.as_str() == Some("???")
    }

    /// Whether this is text that has to be resolved, such as `${a.b}` or `x_${a}`.
    pub fn is_interpolation(&self) -> bool {
        self.as_str().is_some_and(|text| text.contains("${"))
    }

    /// The child under one step of a path: a string key of a mapping, or an index of a list.
    pub fn child(&self, step: &str) -> Option<&Node> {
        match &self.value {
            Value::Map(map) => map.get(&Key::Str(step.to_owned())),
            Value::List(items) => items.get(step.parse::<usize>().ok()?),
            _ => None,
        }
    }

    /// The node at a dotted path such as `env.train.0.seed` or `env.train[0].seed`.
    pub fn get(&self, path: &str) -> Option<&Node> {
        split_path(path).iter().try_fold(self, |node, step| node.child(step))
    }

    /// Every scalar and every empty collection with its dotted path, in order.
    pub fn leaves(&self) -> Vec<(String, &Node)> {
        let mut found = Vec::new();
        collect_leaves(self, String::new(), &mut found);
        found
    }

    /// How many collections are nested in each other at most.
    pub(crate) fn depth(&self) -> usize {
        match &self.value {
            Value::Map(map) => 1 + map.values().map(Node::depth).max().unwrap_or(0),
            Value::List(items) => 1 + items.iter().map(Node::depth).max().unwrap_or(0),
            _ => 0,
        }
    }

    /// How many values there are, this one included; long text counts for more.
    pub(crate) fn size(&self) -> usize {
        match &self.value {
            Value::Map(map) => 1 + map.values().map(Node::size).sum::<usize>(),
            Value::List(items) => 1 + items.iter().map(Node::size).sum::<usize>(),
            Value::Str(text) => 1 + text.len() / 64,
            _ => 1,
        }
    }

    /// Whether two trees hold the same values, whatever their places. `nan` equals itself here.
    pub fn same_value(&self, other: &Node) -> bool {
        match (&self.value, &other.value) {
            (Value::Null, Value::Null) => true,
            (Value::Bool(a), Value::Bool(b)) => a == b,
            (Value::Int(a), Value::Int(b)) => a == b,
            (Value::Float(a), Value::Float(b)) => a == b || (a.is_nan() && b.is_nan()),
            (Value::Str(a), Value::Str(b)) => a == b,
            (Value::List(a), Value::List(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.same_value(b))
            }
            (Value::Map(a), Value::Map(b)) => {
                a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| a.same_value(b)))
            }
            _ => false,
        }
    }
}

fn collect_leaves<'n>(node: &'n Node, path: String, found: &mut Vec<(String, &'n Node)>) {
    match &node.value {
        Value::Map(map) if !map.is_empty() => {
            for (key, child) in map {
                collect_leaves(child, join_path(&path, &key.to_string()), found);
            }
        }
        Value::List(items) if !items.is_empty() => {
            for (index, child) in items.iter().enumerate() {
                collect_leaves(child, format!("{path}[{index}]"), found);
            }
        }
        _ => found.push((path, node)),
    }
}

/// Appends one key to a dotted path.
pub(crate) fn join_path(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

/// Splits `a.b[c].d` into its steps, the way OmegaConf's `split_key` does for keys that are not relative.
pub(crate) fn split_path(path: &str) -> Vec<String> {
    let head_end = path.find('[').map_or(path.len(), |bracket| bracket);
    let mut steps: Vec<String> = path[..head_end].split('.').map(str::to_owned).collect();
    if head_end == path.len() {
        return steps;
    }
    if steps.last().is_some_and(String::is_empty) {
        steps.pop();
    }
    let mut rest = &path[head_end..];
    while !rest.is_empty() {
        if let Some(inside) = rest.strip_prefix('[') {
            let end = inside.find(']').unwrap_or(inside.len());
            steps.push(inside[..end].to_owned());
            rest = inside.get(end + 1..).unwrap_or("");
        } else {
            let plain = rest.strip_prefix('.').unwrap_or(rest);
            let end = plain.find(['.', '[']).unwrap_or(plain.len());
            steps.push(plain[..end].to_owned());
            rest = &plain[end..];
        }
    }
    steps
}
