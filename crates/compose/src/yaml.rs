//! YAML text to a [`Node`] tree: anchors, aliases and merge keys expanded, scalars typed as OmegaConf types
//! them, every value with its place.
//!
//! The event parser below is used directly rather than a serde layer, because typing needs to know whether a
//! scalar was quoted, and merge keys and aliases need the position of each use.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use granit_parser::{ErrorKind as ScanKind, Event, Marker, Parser, ScalarStyle, Span, Tag};

use crate::error::{ComposeError, ErrorKind, Result};
use crate::grammar::scalar_key;
use crate::node::{Key, Map, Node, Origin, Value};
use crate::scalar;

/// The most nested collections that are read. OmegaConf itself gives up at a few hundred.
const MAX_DEPTH: usize = 100;

/// The most values that a file may hold once its aliases are expanded, so that a few lines cannot fill the
/// memory. Long text counts for more than one.
const MAX_NODES: usize = 200_000;

/// The most lines of quoted text that are moved in, since each costs a new reading.
const MAX_MOVED_LINES: usize = 200;

/// Reads one YAML document. An empty text is an empty mapping; the document has to be a mapping or a list.
pub fn parse_yaml(source_name: &str, text: &str) -> Result<Node> {
    let source: Arc<str> = source_name.into();
    document(&source, text).map_err(|error| {
        let mut texts = crate::error::Texts::new();
        texts.insert(source.clone(), text.into());
        error.with_texts(&texts)
    })
}

fn document(source: &Arc<str>, text: &str) -> Result<Node> {
    let start = Origin { source: source.clone(), line: 1, column: 1 };
    match root(source, text)? {
        None => Ok(Node::empty_map(start)),
        Some(node) if node.is_null() => Ok(Node::empty_map(start)),
        Some(node) if node.is_container() => Ok(node),
        Some(node) => {
            let kind = ErrorKind::NotAMapping { found: node.value.a_kind().to_owned() };
            Err(ComposeError::at(kind, &node.origin))
        }
    }
}

/// The one document of the text, whatever it is.
///
/// PyYAML lets a quoted text go on at any column, YAML 1.2 does not. The blanks in front of such a line mean
/// nothing, so the line is moved in and the text read again.
fn root(source: &Arc<str>, text: &str) -> Result<Option<Node>> {
    let mut text = Cow::Borrowed(text);
    for _ in 0..MAX_MOVED_LINES {
        let mut reader = Reader::new(source, &text);
        let result = reader.root();
        let Some(line) = reader.under_indented else { return result };
        text = Cow::Owned(with_line_moved(&text, line));
    }
    Reader::new(source, &text).root()
}

/// The text with one line (counted from 1) moved in beyond any indentation that is read.
fn with_line_moved(text: &str, line: usize) -> String {
    let start = text.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum();
    let (before, after) = text.split_at(start);
    format!("{before}{}{after}", " ".repeat(4 * MAX_DEPTH))
}

/// Reads text that `oc.create` was given; a lone word becomes a key without a value, as in OmegaConf.
pub(crate) fn parse_created(text: &str, origin: &Origin) -> Result<Node> {
    let source: Arc<str> = "oc.create".into();
    let mut node = match root(&source, text) {
        Ok(None) => Node::empty_map(origin.clone()),
        Ok(Some(node)) => node,
        Err(error) => return Err(ComposeError::at(error.kind().clone(), origin)),
    };
    node.origin = origin.clone();
    node.value = match node.value {
        Value::Null => Value::Map(Map::new()),
        Value::Str(word) => {
            let entry = Node::new(Value::Null, origin.clone());
            Value::Map(Map::from_iter([(Key::Str(word), entry)]))
        }
        container @ (Value::List(_) | Value::Map(_)) => container,
        other => {
            let kind = ErrorKind::NotAMapping { found: other.a_kind().to_owned() };
            return Err(ComposeError::at(kind, origin));
        }
    };
    Ok(node)
}

struct Reader<'t> {
    parser: Parser<'t, granit_parser::StrInput<'t>>,
    source: Arc<str>,
    anchors: HashMap<usize, (Node, usize)>,
    nodes: usize,
    /// The line of a quoted text that starts too far left.
    under_indented: Option<usize>,
}

/// A mapping under construction: `<<` entries are kept apart because they go first.
struct Entries {
    map: Map,
    merges: Vec<Node>,
    places: HashMap<String, Origin>,
}

impl<'t> Reader<'t> {
    fn new(source: &Arc<str>, text: &'t str) -> Self {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        Reader {
            parser: Parser::new_from_str(text),
            source: source.clone(),
            anchors: HashMap::new(),
            nodes: 0,
            under_indented: None,
        }
    }

    fn origin(&self, marker: &Marker) -> Origin {
        Origin { source: self.source.clone(), line: marker.line(), column: marker.col() + 1 }
    }

    fn next(&mut self) -> Result<(Event<'t>, Span)> {
        match self.parser.next() {
            Some(Ok(event)) => Ok(event),
            Some(Err(error)) => {
                let origin = self.origin(error.marker());
                if *error.kind() == ScanKind::InvalidQuotedScalarIndent {
                    self.under_indented = Some(origin.line);
                }
                let kind = match error.kind() {
                    ScanKind::RecursionLimitExceeded => ErrorKind::TooDeep { limit: MAX_DEPTH },
                    _ => ErrorKind::Syntax { message: error.info() },
                };
                Err(ComposeError::at(kind, &origin))
            }
            None => Ok((Event::StreamEnd, Span::empty(Marker::default()))),
        }
    }

    fn root(&mut self) -> Result<Option<Node>> {
        let mut root: Option<Node> = None;
        loop {
            let (event, span) = self.next()?;
            match event {
                Event::StreamEnd => break,
                Event::StreamStart | Event::DocumentEnd => {}
                Event::DocumentStart(..) if root.is_some() => {
                    let kind = ErrorKind::Syntax { message: "expected a single document".to_owned() };
                    return Err(ComposeError::at(kind, &self.origin(&span.start)));
                }
                Event::DocumentStart(..) => {}
                event => root = Some(self.node(event, span, 0)?),
            }
        }
        Ok(root)
    }

    /// Reads the node that an event starts.
    fn node(&mut self, event: Event<'t>, span: Span, depth: usize) -> Result<Node> {
        let origin = self.origin(&span.start);
        if depth > MAX_DEPTH {
            return Err(ComposeError::at(ErrorKind::TooDeep { limit: MAX_DEPTH }, &origin));
        }
        let before = self.nodes;
        self.count(1, &origin)?;
        let (node, anchor) = match event {
            Event::Alias(anchor) => return self.alias(anchor, &origin),
            Event::Scalar(text, style, anchor, tag) => {
                self.count(text.len() / 64, &origin)?;
                (self.scalar(&text, style, tag.as_deref(), origin)?, anchor)
            }
            Event::SequenceStart(_, anchor, tag) => {
                check_collection_tag(tag.as_deref(), "seq", &origin)?;
                (self.sequence(origin, depth)?, anchor)
            }
            Event::MappingStart(_, anchor, tag) => {
                check_collection_tag(tag.as_deref(), "map", &origin)?;
                (self.mapping(origin, depth)?, anchor)
            }
            other => {
                let kind = ErrorKind::Syntax { message: format!("expected a value, found {other:?}") };
                return Err(ComposeError::at(kind, &origin));
            }
        };
        if anchor != 0 {
            // The copy kept for later counts too, or nested anchors would multiply in silence.
            let size = self.nodes - before;
            self.count(size, &node.origin)?;
            self.anchors.insert(anchor, (node.clone(), size));
        }
        Ok(node)
    }

    fn count(&mut self, more: usize, origin: &Origin) -> Result<()> {
        self.nodes += more;
        if self.nodes > MAX_NODES {
            return Err(ComposeError::at(ErrorKind::TooLarge { limit: MAX_NODES }, origin));
        }
        Ok(())
    }

    fn alias(&mut self, anchor: usize, origin: &Origin) -> Result<Node> {
        let Some((node, size)) = self.anchors.get(&anchor) else {
            let message = "an alias inside its own anchor".to_owned();
            return Err(ComposeError::at(ErrorKind::Syntax { message }, origin));
        };
        let (node, size) = (node.clone(), *size);
        self.count(size, origin)?;
        Ok(node)
    }

    fn scalar(&self, text: &str, style: ScalarStyle, tag: Option<&Tag>, origin: Origin) -> Result<Node> {
        let value = match tag {
            None if style == ScalarStyle::Plain => scalar::plain(text),
            None => Ok(Value::Str(text.to_owned())),
            // A lone `!` makes PyYAML type the scalar as if it were plain, quoted or not.
            Some(tag) if is_non_specific(tag) => scalar::plain(text),
            Some(tag) => match tag.core_suffix() {
                Some(suffix) => scalar::tagged(suffix, text),
                None => Err(format!("the tag `{}{}` is not supported", tag.handle(), tag.suffix())),
            },
        };
        match value {
            Ok(value) => Ok(Node::new(value, origin)),
            Err(message) => Err(ComposeError::at(ErrorKind::BadScalar { message }, &origin)),
        }
    }

    fn sequence(&mut self, origin: Origin, depth: usize) -> Result<Node> {
        let mut items = Vec::new();
        loop {
            match self.next()? {
                (Event::SequenceEnd, _) => return Ok(Node::new(Value::List(items), origin)),
                (event, span) => items.push(self.node(event, span, depth + 1)?),
            }
        }
    }

    fn mapping(&mut self, origin: Origin, depth: usize) -> Result<Node> {
        let mut entries = Entries { map: Map::new(), merges: Vec::new(), places: HashMap::new() };
        loop {
            let (event, span) = self.next()?;
            if matches!(event, Event::MappingEnd) {
                break;
            }
            self.entry(event, span, depth, &mut entries)?;
        }
        let map = self.merged(entries)?;
        Ok(Node::new(Value::Map(map), origin))
    }

    fn entry(&mut self, event: Event<'t>, span: Span, depth: usize, entries: &mut Entries) -> Result<()> {
        let key_origin = self.origin(&span.start);
        let is_merge =
            matches!(&event, Event::Scalar(text, ScalarStyle::Plain, _, None) if text.as_ref() == "<<");
        let key = if is_merge { None } else { Some(key_of(self.node(event, span, depth + 1)?)?) };
        let (event, span) = self.next()?;
        let mut value = self.node(event, span, depth + 1)?;
        if value.is_container() && value.origin.line > key_origin.line {
            value.origin = key_origin.clone();
        }
        match key {
            None => entries.merges.push(value),
            Some(key) => {
                if let Key::Str(text) = &key
                    && let Some(first) = entries.places.insert(text.clone(), key_origin.clone())
                {
                    let kind = ErrorKind::DuplicateKey { key: text.clone(), first };
                    return Err(ComposeError::at(kind, &key_origin).or_key(text.clone()));
                }
                entries.map.insert(key, value);
            }
        }
        Ok(())
    }

    /// Puts what `<<` brings in front, as PyYAML does: earlier mappings win over later ones, own keys over all.
    fn merged(&self, entries: Entries) -> Result<Map> {
        if entries.merges.is_empty() {
            return Ok(entries.map);
        }
        let mut map = Map::new();
        for merge in entries.merges {
            match merge.value {
                Value::Map(brought) => map.extend(brought),
                Value::List(items) => {
                    for item in items.into_iter().rev() {
                        let Value::Map(brought) = item.value else { return Err(bad_merge(&item)) };
                        map.extend(brought);
                    }
                }
                _ => return Err(bad_merge(&merge)),
            }
        }
        map.extend(entries.map);
        Ok(map)
    }
}

fn bad_merge(node: &Node) -> ComposeError {
    let message = format!("`<<` takes a mapping or a list of mappings, found {}", node.value.a_kind());
    ComposeError::at(ErrorKind::Syntax { message }, &node.origin)
}

fn is_non_specific(tag: &Tag) -> bool {
    tag.suffix().is_empty() && tag.handle() == "!" || tag.suffix() == "!" && tag.handle().is_empty()
}

fn check_collection_tag(tag: Option<&Tag>, expected: &str, origin: &Origin) -> Result<()> {
    match tag {
        Some(tag) if !is_non_specific(tag) && tag.core_suffix() != Some(expected) => {
            let message = format!("the tag `{}{}` is not supported", tag.handle(), tag.suffix());
            Err(ComposeError::at(ErrorKind::BadScalar { message }, origin))
        }
        _ => Ok(()),
    }
}

fn key_of(node: Node) -> Result<Key> {
    let kind = ErrorKind::BadKey { found: node.value.a_kind().to_owned() };
    scalar_key(node.value).ok_or_else(|| ComposeError::at(kind, &node.origin))
}
