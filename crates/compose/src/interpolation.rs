//! Interpolations looked up and put in place, lazily and in scope, as OmegaConf does it.
//!
//! A [`NodeCursor`] is a node together with its parents, so that `${.x}` and `${..x}` find their way even when
//! the node was reached through another interpolation.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use crate::error::{ComposeError, ErrorKind, Result, nearest};
use crate::grammar::{self, Element, Interpolation, Template, TemplatePart};
use crate::node::{Key, Map, Node, Origin, Value, join_path, split_path};
use crate::python;
use crate::sources::Sources;

/// The most values one resolution may produce, evaluations on the way included. Long text counts for more.
const MAX_NODES: usize = 500_000;

/// The longest chain of interpolations and containers that is followed.
const MAX_DEPTH: usize = 160;

/// A node of the tree, or one that a resolver made.
#[derive(Debug, Clone)]
enum NodeRef<'t> {
    Tree(&'t Node),
    Made(Rc<Node>),
}

/// A node together with the path of its parents.
#[derive(Debug)]
pub(crate) struct NodeCursor<'t> {
    node: NodeRef<'t>,
    parent: Option<Rc<NodeCursor<'t>>>,
    step: String,
}

/// What an interpolation resolves to: a node of a tree, or a finished value.
#[derive(Debug, Clone)]
pub(crate) enum Resolved<'t> {
    Node(Rc<NodeCursor<'t>>),
    Plain(Value),
}

/// What following a path ended in.
pub(crate) enum Selected<'t> {
    Resolved(Resolved<'t>),
    /// The key is not there; the cursor is at the container that should have it.
    Absent(Rc<NodeCursor<'t>>, String),
    /// Something on the way is not a container.
    Blocked(String),
}

impl<'t> NodeCursor<'t> {
    fn root(node: &'t Node) -> Rc<Self> {
        Rc::new(NodeCursor { node: NodeRef::Tree(node), parent: None, step: String::new() })
    }

    /// A node that a resolver made, inside the container that asked for it.
    pub(crate) fn made(node: Node, parent: &Rc<Self>) -> Rc<Self> {
        Rc::new(NodeCursor {
            node: NodeRef::Made(Rc::new(node)),
            parent: Some(parent.clone()),
            step: String::new(),
        })
    }

    pub(crate) fn node(&self) -> &Node {
        match &self.node {
            NodeRef::Tree(node) => node,
            NodeRef::Made(node) => node,
        }
    }

    /// Identity, for finding loops.
    fn id(&self) -> *const Node {
        self.node()
    }

    fn child_at(self: &Rc<Self>, pick: impl Fn(&Node) -> Option<&Node>, step: String) -> Option<Rc<Self>> {
        let node = match &self.node {
            NodeRef::Tree(node) => NodeRef::Tree(pick(node)?),
            NodeRef::Made(node) => NodeRef::Made(Rc::new(pick(node)?.clone())),
        };
        Some(Rc::new(NodeCursor { node, parent: Some(self.clone()), step }))
    }

    /// The keys from the root, unless a resolver made this node.
    pub(crate) fn keys(&self) -> Option<Vec<Key>> {
        let Some(parent) = &self.parent else { return Some(Vec::new()) };
        let mut keys = parent.keys()?;
        keys.push(match (&self.node, &parent.node().value) {
            (NodeRef::Made(_), _) => return None,
            (_, Value::List(_)) => Key::Int(self.step.parse().ok()?),
            _ => Key::Str(self.step.clone()),
        });
        Some(keys)
    }

    /// The dotted path from the root.
    pub(crate) fn path(&self) -> String {
        let Some(parent) = &self.parent else { return String::new() };
        let above = parent.path();
        match parent.node().value {
            Value::List(_) if !self.step.is_empty() => format!("{above}[{}]", self.step),
            _ if self.step.is_empty() => above,
            _ => join_path(&above, &self.step),
        }
    }
}

/// Resolves the interpolations of one tree.
pub(crate) struct Evaluator<'t> {
    pub(crate) sources: &'t dyn Sources,
    /// What `${hydra:...}` reads: a mapping with the one key `hydra`.
    pub(crate) hydra: Option<&'t Node>,
    root: Rc<NodeCursor<'t>>,
    active: RefCell<Vec<(*const Node, String)>>,
    produced: Cell<usize>,
}

impl<'t> Evaluator<'t> {
    pub(crate) fn new(root: &'t Node, sources: &'t dyn Sources, hydra: Option<&'t Node>) -> Self {
        Evaluator {
            sources,
            hydra,
            root: NodeCursor::root(root),
            active: RefCell::default(),
            produced: Cell::new(0),
        }
    }

    /// The whole tree with every interpolation replaced.
    pub(crate) fn resolve_all(&self) -> Result<Node> {
        self.expand(&self.root)
    }

    /// What a path from the root leads to, `???` allowed.
    pub(crate) fn at_root(&self, path: &str) -> Result<Selected<'t>> {
        self.select(&self.root, path, false)
    }

    /// A copy of the container that the interpolation at these keys already leads to, if it does.
    pub(crate) fn container_behind(&self, keys: &[Key]) -> Option<Node> {
        let cursor = keys.iter().try_fold(self.root.clone(), |cursor, key| match key {
            Key::Int(index) if cursor.node().as_list().is_some() => {
                let index = usize::try_from(*index).ok()?;
                cursor.child_at(|node| node.as_list()?.get(index), index.to_string())
            }
            key => cursor.child_at(|node| node.as_map()?.get(key), key.to_string()),
        })?;
        match self.dereference(&cursor).ok()? {
            Resolved::Node(target) if target.node().is_container() => Some(target.node().clone()),
            _ => None,
        }
    }

    /// The node at a path, followed through interpolations, if it can be reached.
    pub(crate) fn find(&self, path: &str) -> Option<Resolved<'t>> {
        match self.select(&self.root, path, false) {
            Ok(Selected::Resolved(found)) => Some(found),
            _ => None,
        }
    }

    /// Evaluates text as if it stood at the top of the tree.
    pub(crate) fn evaluate_text(&self, text: &str, origin: &Origin) -> Result<Value> {
        let template = grammar::parse_template(text)?;
        let found = self.evaluate(&template, &self.root, origin)?;
        self.plain(found, origin)
    }

    /// A found thing as a finished value.
    pub(crate) fn plain(&self, found: Resolved<'t>, origin: &Origin) -> Result<Value> {
        match found {
            Resolved::Plain(value) => Ok(value),
            Resolved::Node(cursor) => Ok(self.expand_target(&cursor, origin)?.value),
        }
    }

    /// Keeps a tally, so that interpolations that multiply are stopped before they fill the memory.
    fn count(&self, text_length: usize, origin: &Origin) -> Result<()> {
        self.produced.set(self.produced.get() + 1 + text_length / 64);
        if self.produced.get() > MAX_NODES {
            return Err(ComposeError::at(ErrorKind::TooLarge { limit: MAX_NODES }, origin));
        }
        Ok(())
    }

    /// The value at a place with everything below it resolved.
    fn expand(&self, cursor: &Rc<NodeCursor<'t>>) -> Result<Node> {
        let origin = cursor.node().origin.clone();
        match self.dereference(cursor)? {
            Resolved::Plain(value) => {
                self.count(text_length(&value), &origin)?;
                Ok(Node::new(value, origin))
            }
            Resolved::Node(target) => self.expand_target(&target, &origin),
        }
    }

    /// As `expand`, for a place that is no interpolation; the result carries the origin of the one who asked.
    fn expand_target(&self, target: &Rc<NodeCursor<'t>>, origin: &Origin) -> Result<Node> {
        self.count(text_length(&target.node().value), origin)?;
        if !target.node().is_container() {
            return Ok(Node::new(target.node().value.clone(), origin.clone()));
        }
        self.guarded(target, || {
            let value = match &target.node().value {
                Value::Map(map) => {
                    let mut out = Map::with_capacity(map.len());
                    for (key, _) in map {
                        let child = target.child_at(|node| node.as_map()?.get(key), key.to_string());
                        if let Some(child) = child {
                            out.insert(key.clone(), self.expand(&child)?);
                        }
                    }
                    Value::Map(out)
                }
                Value::List(items) => {
                    let children = (0..items.len()).filter_map(|index| {
                        target.child_at(|node| node.as_list()?.get(index), index.to_string())
                    });
                    Value::List(children.map(|child| self.expand(&child)).collect::<Result<_>>()?)
                }
                other => other.clone(),
            };
            Ok(Node::new(value, origin.clone()))
        })
    }

    /// Runs `body` with `cursor` marked as being worked on; coming back to it is a loop.
    fn guarded<T>(&self, cursor: &Rc<NodeCursor<'t>>, body: impl FnOnce() -> Result<T>) -> Result<T> {
        let path = cursor.path();
        let name = if path.is_empty() { "the root".to_owned() } else { path.clone() };
        {
            let mut active = self.active.borrow_mut();
            if let Some(start) = active.iter().position(|(id, _)| *id == cursor.id()) {
                let mut cycle: Vec<String> = active[start..].iter().map(|(_, name)| name.clone()).collect();
                cycle.push(name);
                return Err(located(ErrorKind::InterpolationLoop { cycle }, cursor, &path));
            }
            if active.len() >= MAX_DEPTH {
                return Err(located(ErrorKind::TooDeep { limit: MAX_DEPTH }, cursor, &path));
            }
            active.push((cursor.id(), name));
        }
        let result = body();
        self.active.borrow_mut().pop();
        result
    }

    /// Follows an interpolation until it is none.
    pub(crate) fn dereference(&self, cursor: &Rc<NodeCursor<'t>>) -> Result<Resolved<'t>> {
        let node = cursor.node();
        let (Some(text), Some(container)) = (node.as_str(), &cursor.parent) else {
            return Ok(Resolved::Node(cursor.clone()));
        };
        if !node.is_interpolation() {
            return Ok(Resolved::Node(cursor.clone()));
        }
        let path = cursor.path();
        let result = grammar::parse_template(text)
            .and_then(|template| self.guarded(cursor, || self.evaluate(&template, container, &node.origin)));
        result.map_err(|error| error.or_origin(&node.origin).or_key(path))
    }

    /// Evaluates text in a container: a lone interpolation keeps its type, anything else is joined.
    fn evaluate(
        &self,
        template: &Template,
        container: &Rc<NodeCursor<'t>>,
        origin: &Origin,
    ) -> Result<Resolved<'t>> {
        if let [TemplatePart::Interpolation(only)] = &template.parts[..] {
            return self.interpolate(only, container, origin);
        }
        self.joined(&template.parts, container, origin).map(|text| Resolved::Plain(Value::Str(text)))
    }

    fn joined(
        &self,
        parts: &[TemplatePart],
        container: &Rc<NodeCursor<'t>>,
        origin: &Origin,
    ) -> Result<String> {
        let mut out = String::new();
        for part in parts {
            match part {
                TemplatePart::Text(text) => out.push_str(text),
                TemplatePart::Interpolation(inner) => {
                    out.push_str(&as_text(&self.interpolate(inner, container, origin)?));
                    self.count(out.len(), origin)?;
                }
            }
        }
        Ok(out)
    }

    fn interpolate(
        &self,
        interpolation: &Interpolation,
        container: &Rc<NodeCursor<'t>>,
        origin: &Origin,
    ) -> Result<Resolved<'t>> {
        self.count(0, origin)?;
        match interpolation {
            Interpolation::Node(pieces) => {
                let path = self.names(pieces, "", container, origin)?;
                self.follow(&path, container)
            }
            Interpolation::Resolver { name, arguments } => {
                let name = self.names(name, ".", container, origin)?;
                let arguments = arguments
                    .iter()
                    .map(|argument| self.element(argument, container, origin))
                    .collect::<Result<Vec<_>>>()?;
                self.call(&name, arguments, container, origin)
            }
        }
    }

    /// Joins the pieces of a path or of a resolver's name; nested interpolations have to give strings.
    fn names(
        &self,
        pieces: &[TemplatePart],
        separator: &str,
        container: &Rc<NodeCursor<'t>>,
        origin: &Origin,
    ) -> Result<String> {
        let mut names = Vec::with_capacity(pieces.len());
        for piece in pieces {
            names.push(match piece {
                TemplatePart::Text(text) => text.clone(),
                TemplatePart::Interpolation(inner) => {
                    match self.value_of(self.interpolate(inner, container, origin)?) {
                        Value::Str(text) => text,
                        other => {
                            return Err(ComposeError::new(ErrorKind::WrongType {
                                expected: "a string to use as a key".to_owned(),
                                found: format!("{} `{}`", other.kind(), python::text(&other)),
                            }));
                        }
                    }
                }
            });
        }
        Ok(names.join(separator))
    }

    /// The value behind a found thing, containers unresolved.
    pub(crate) fn value_of(&self, found: Resolved<'t>) -> Value {
        match found {
            Resolved::Plain(value) => value,
            Resolved::Node(cursor) => cursor.node().value.clone(),
        }
    }

    /// Evaluates `${path}` inside a container.
    fn follow(&self, path: &str, container: &Rc<NodeCursor<'t>>) -> Result<Resolved<'t>> {
        let (start, rest) = self.start_of(path, container)?;
        match self.select(&start, &rest, true)? {
            Selected::Resolved(Resolved::Node(target)) => {
                self.refuse_parent(&target, container)?;
                Ok(Resolved::Node(target))
            }
            Selected::Resolved(plain) => Ok(plain),
            Selected::Absent(cursor, step) => {
                let error = ComposeError::new(ErrorKind::InterpolationKey { path: path.to_owned() });
                Err(error.maybe_hint(self.suggest(&cursor, &step)))
            }
            Selected::Blocked(reason) => {
                Err(ComposeError::new(ErrorKind::Interpolation { text: format!("${{{path}}}"), reason }))
            }
        }
    }

    /// A container that holds the one who points at it would never end.
    fn refuse_parent(&self, target: &Rc<NodeCursor<'t>>, container: &Rc<NodeCursor<'t>>) -> Result<()> {
        let mut above = Some(container);
        while let Some(cursor) = above {
            if cursor.id() == target.id() {
                let name = target.path();
                let cycle = vec![name.clone(), container.path(), name];
                return Err(ComposeError::new(ErrorKind::InterpolationLoop { cycle }));
            }
            above = cursor.parent.as_ref();
        }
        Ok(())
    }

    /// Where a path starts: at the root, or for each dot beyond the first one container up.
    pub(crate) fn start_of(
        &self,
        path: &str,
        container: &Rc<NodeCursor<'t>>,
    ) -> Result<(Rc<NodeCursor<'t>>, String)> {
        let rest = path.trim_start_matches('.');
        let dots = path.len() - rest.len();
        if dots == 0 {
            return Ok((self.root.clone(), rest.to_owned()));
        }
        let mut start = container.clone();
        for _ in 1..dots {
            start = match &start.parent {
                Some(parent) => parent.clone(),
                None => {
                    return Err(ComposeError::new(ErrorKind::InterpolationKey { path: path.to_owned() })
                        .or_hint("there are more dots than levels above"));
                }
            };
        }
        Ok((start, rest.to_owned()))
    }

    /// Follows a path from a container. With `strict`, meeting `???` is an error.
    pub(crate) fn select(
        &self,
        start: &Rc<NodeCursor<'t>>,
        path: &str,
        strict: bool,
    ) -> Result<Selected<'t>> {
        if path.is_empty() {
            return Ok(Selected::Resolved(Resolved::Node(start.clone())));
        }
        let steps = split_path(path);
        let mut current = start.clone();
        for (index, step) in steps.iter().enumerate() {
            let Some(child) = self.step(&current, step)? else {
                return Ok(Selected::Absent(current, step.clone()));
            };
            if strict && child.node().is_missing() {
                return Err(ComposeError::new(ErrorKind::InterpolationToMissing { path: path.to_owned() }));
            }
            let found = self.dereference(&child)?;
            if index + 1 == steps.len() {
                return Ok(Selected::Resolved(found));
            }
            current = match found {
                Resolved::Node(cursor) if cursor.node().is_container() => cursor,
                _ => {
                    let reason = format!("`{}` is not a mapping or a list", steps[..=index].join("."));
                    return Ok(Selected::Blocked(reason));
                }
            };
        }
        Ok(Selected::Resolved(Resolved::Node(current)))
    }

    fn step(&self, container: &Rc<NodeCursor<'t>>, step: &str) -> Result<Option<Rc<NodeCursor<'t>>>> {
        if let Value::List(_) = container.node().value {
            let Some(index) = python::parse_int(step) else {
                return Err(ComposeError::new(ErrorKind::WrongType {
                    expected: format!("an index into the list `{}`", container.path()),
                    found: format!("`{step}`"),
                }));
            };
            let Ok(index) = usize::try_from(index) else { return Ok(None) };
            return Ok(container.child_at(|node| node.as_list()?.get(index), index.to_string()));
        }
        let key = Key::Str(step.to_owned());
        Ok(container.child_at(|node| node.as_map()?.get(&key), step.to_owned()))
    }

    fn element(
        &self,
        element: &Element,
        container: &Rc<NodeCursor<'t>>,
        origin: &Origin,
    ) -> Result<Resolved<'t>> {
        Ok(match element {
            Element::Literal(value) => Resolved::Plain(value.clone()),
            Element::Unquoted(template) => self.evaluate(template, container, origin)?,
            Element::Quoted(template) => {
                Resolved::Plain(Value::Str(self.joined(&template.parts, container, origin)?))
            }
            Element::List(items) => {
                let items = items.iter().map(|item| self.item(item, container, origin));
                Resolved::Plain(Value::List(items.collect::<Result<_>>()?))
            }
            Element::Map(entries) => {
                let entries =
                    entries.iter().map(|(key, item)| Ok((key.clone(), self.item(item, container, origin)?)));
                Resolved::Plain(Value::Map(entries.collect::<Result<_>>()?))
            }
        })
    }

    fn item(&self, item: &Element, container: &Rc<NodeCursor<'t>>, origin: &Origin) -> Result<Node> {
        let value = self.plain(self.element(item, container, origin)?, origin)?;
        Ok(Node::new(value, origin.clone()))
    }

    /// Evaluates what `oc.decode` was given.
    pub(crate) fn decode(
        &self,
        text: &str,
        container: &Rc<NodeCursor<'t>>,
        origin: &Origin,
    ) -> Result<Resolved<'t>> {
        self.element(&grammar::parse_element(text)?, container, origin)
    }

    /// The key that was probably meant: a sibling with a similar name, or the same name elsewhere.
    fn suggest(&self, container: &Rc<NodeCursor<'t>>, step: &str) -> Option<String> {
        let keys: Vec<String> = container.node().as_map()?.keys().map(Key::to_string).collect();
        if let Some(near) = nearest(step, keys.iter().map(String::as_str)) {
            return Some(format!("did you mean `{}`?", join_path(&container.path(), near)));
        }
        let leaves = self.root.node().leaves();
        let elsewhere = leaves.iter().find(|(path, _)| path.rsplit('.').next() == Some(step))?;
        Some(format!("there is a `{}`", elsewhere.0))
    }
}

fn located(kind: ErrorKind, cursor: &NodeCursor<'_>, path: &str) -> ComposeError {
    ComposeError::at(kind, &cursor.node().origin).or_key(path)
}

fn text_length(value: &Value) -> usize {
    match value {
        Value::Str(text) => text.len(),
        _ => 0,
    }
}

/// `str(...)` of a found thing.
pub(crate) fn as_text(found: &Resolved<'_>) -> String {
    match found {
        Resolved::Plain(value) => python::text(value),
        Resolved::Node(cursor) => python::text(&cursor.node().value),
    }
}
