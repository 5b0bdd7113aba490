//! Hydra's override grammar: `key=value`, `+key=value`, `++key=value`, `~key`, for keys and config groups.

mod sweep;

use crate::error::{ComposeError, ErrorKind, Result, did_you_mean};
use crate::grammar::{is_key_token, join_tokens, scalar_key};
use crate::node::{COMMAND_LINE, Key, Map, Node, Origin, Value};
use crate::python;
use crate::scan::{self, Kind};
use crate::sort::sorted;

pub use sweep::{SweepOverride, parse_sweep};

/// Values nested beyond this are refused rather than risking the stack.
const MAX_DEPTH: usize = 64;

/// The functions that change a value; all others that Hydra knows make sweeps, or shuffle a list at random.
const CASTS: [&str; 4] = ["bool", "float", "int", "str"];
const FUNCTIONS: [&str; 5] = ["bool", "float", "int", "sort", "str"];
const COMMA: &str = "for a list write [a,b]; for text with a comma put it in quotes inside the argument; for several \
                     values run a sweep";
const SWEEPS: [&str; 6] = ["choice", "glob", "interval", "range", "shuffle", "tag"];

/// What an override does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    Change,
    Add,
    ForceAdd,
    Delete,
}

/// One override, read.
#[derive(Debug, Clone)]
pub(crate) struct Override {
    pub(crate) action: Action,
    /// A dotted path or a group with slashes.
    pub(crate) key: String,
    /// What follows the `@`.
    pub(crate) package: Option<String>,
    /// `None` only for `~key`.
    pub(crate) value: Option<Node>,
    pub(crate) text: String,
    pub(crate) origin: Origin,
}

impl Override {
    /// The key with its package.
    pub(crate) fn group_key(&self) -> String {
        match &self.package {
            None => self.key.clone(),
            Some(package) => format!("{}@{package}", self.key),
        }
    }

    /// Whether it is about Hydra itself rather than about the configuration.
    pub(crate) fn is_hydra(&self) -> bool {
        self.key == "hydra" || self.key.starts_with("hydra.") || self.key.starts_with("hydra/")
    }
}

/// Reads one override; `position` is its place among them, counted from 1.
pub(crate) fn parse_override(text: &str, position: usize) -> Result<Override> {
    let mut parser = Parser { text, at: 0, line: position, depth: 0 };
    parser.parse().map_err(|error| error.or_origin(&Origin::new(COMMAND_LINE, position, 1)))
}

struct Parser<'t> {
    text: &'t str,
    at: usize,
    line: usize,
    depth: usize,
}

impl<'t> Parser<'t> {
    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn origin(&self) -> Origin {
        Origin::new(COMMAND_LINE, self.line, self.text[..self.at].chars().count() + 1)
    }

    fn error(&self, expected: &str) -> ComposeError {
        let origin = self.origin();
        let kind = ErrorKind::BadOverride {
            text: self.text.to_owned(),
            position: origin.column,
            expected: expected.to_owned(),
        };
        ComposeError::at(kind, &origin)
    }

    fn sweep(&self, hint: &str) -> ComposeError {
        ComposeError::at(ErrorKind::Sweep { text: self.text.to_owned() }, &self.origin()).or_hint(hint)
    }

    fn parse(&mut self) -> Result<Override> {
        let action = self.action();
        let (key, package) = self.key()?;
        let value = if self.rest().is_empty() && action == Action::Delete {
            None
        } else if self.rest().starts_with('=') {
            self.at += 1;
            self.at += scan::space(self.rest());
            Some(self.value()?)
        } else {
            return Err(self.error("`=`"));
        };
        let origin = value
            .as_ref()
            .map_or_else(|| Origin::new(COMMAND_LINE, self.line, 1), |value: &Node| value.origin.clone());
        Ok(Override { action, key, package, value, text: self.text.to_owned(), origin })
    }

    fn action(&mut self) -> Action {
        let (action, length) = match self.text.as_bytes() {
            [b'~', ..] => (Action::Delete, 1),
            [b'+', b'+', ..] => (Action::ForceAdd, 2),
            [b'+', ..] => (Action::Add, 1),
            _ => (Action::Change, 0),
        };
        self.at = length;
        action
    }

    /// `a.b`, `group/sub`, each with `@package` or not.
    fn key(&mut self) -> Result<(String, Option<String>)> {
        let mut key = self.package_name();
        if self.rest().starts_with('/') && scan::identifier(&key) == key.len() && !key.is_empty() {
            while self.rest().starts_with('/') {
                let length = scan::identifier(&self.rest()[1..]);
                if length == 0 {
                    self.at += 1;
                    return Err(self.error("a group name"));
                }
                key.push_str(&self.rest()[..=length]);
                self.at += 1 + length;
            }
        }
        if key.is_empty() {
            return Err(self.error("a key"));
        }
        if !self.rest().starts_with('@') {
            return Ok((key, None));
        }
        self.at += 1;
        let package = self.package_name();
        Ok((key, Some(package)))
    }

    /// A name, or names and numbers between dots; may be empty.
    fn package_name(&mut self) -> String {
        let rest = self.rest();
        let first = special_name(rest);
        let mut end = if first > 0 { first } else { scan::unsigned_int(rest) };
        while end > 0 && rest[end..].starts_with('.') {
            let after = &rest[end + 1..];
            let length = special_name(after).max(scan::unsigned_int(after));
            if length == 0 {
                break;
            }
            end += 1 + length;
        }
        // A number alone is no key.
        if first == 0 && !rest[..end].contains('.') {
            end = 0;
        }
        self.at += end;
        rest[..end].to_owned()
    }

    fn value(&mut self) -> Result<Node> {
        if self.rest().is_empty() {
            return Ok(Node::new(Value::Str(String::new()), self.origin()));
        }
        let value = self.element()?;
        match self.token() {
            None if self.rest().is_empty() => Ok(value),
            Some((Token::Shared(Kind::Comma), _)) => Err(self.sweep(COMMA)),
            _ => Err(self.error("the end; put the value in quotes if this belongs to it")),
        }
    }

    /// The next token with its length: a shared one, or one of those that only overrides have.
    fn token(&self) -> Option<(Token, usize)> {
        let rest = self.rest();
        let space = scan::space(rest);
        let after = &rest[space..];
        let trailing = |from: usize| scan::space(&after[from..]);
        match after.bytes().next() {
            Some(b'(') => return Some((Token::Open, space + 1 + trailing(1))),
            Some(b')') => return Some((Token::Close, space + 1)),
            Some(b'=') => return Some((Token::Equal, space + 1 + trailing(1))),
            Some(b'$') if space == 0 && after.starts_with("${") => {
                // Up to the first brace: nested interpolations need quotes.
                if let Some(end) = after.find('}').filter(|end| *end > 2) {
                    return Some((Token::Interpolation, end + 1));
                }
            }
            Some(quote @ (b'\'' | b'"')) if space == 0 => {
                return quoted_length(after, quote).map(|length| (Token::Quoted, length));
            }
            _ => {}
        }
        scan::value_token(rest).map(|(kind, length)| (Token::Shared(kind), length))
    }

    fn eat(&mut self, wanted: Token) -> bool {
        match self.token() {
            Some((token, length)) if token == wanted => {
                self.at += length;
                true
            }
            _ => false,
        }
    }

    fn eat_kind(&mut self, wanted: Kind) -> bool {
        self.eat(Token::Shared(wanted))
    }

    fn element(&mut self) -> Result<Node> {
        if self.depth >= MAX_DEPTH {
            return Err(self.error("fewer nested values"));
        }
        self.depth += 1;
        let origin = self.origin();
        let value = match self.token() {
            Some((Token::Shared(Kind::BracketOpen), _)) => self.list(),
            Some((Token::Shared(Kind::BraceOpen), _)) => self.map(),
            Some((Token::Quoted, length)) => self.quoted(length),
            Some((Token::Shared(Kind::Id), length)) if self.is_call(length) => self.function(length),
            _ => self.primitive(),
        };
        self.depth -= 1;
        Ok(Node::new(value?, origin))
    }

    fn is_call(&self, name_length: usize) -> bool {
        let after = &self.rest()[name_length..];
        after[scan::space(after)..].starts_with('(')
    }

    fn quoted(&mut self, length: usize) -> Result<Value> {
        let text = &self.rest()[..length];
        self.at += length;
        Ok(Value::Str(unquote(text)))
    }

    fn list(&mut self) -> Result<Value> {
        self.eat_kind(Kind::BracketOpen);
        let mut items = Vec::new();
        if self.eat_kind(Kind::BracketClose) {
            return Ok(Value::List(items));
        }
        loop {
            items.push(self.element()?);
            if self.eat_kind(Kind::BracketClose) {
                return Ok(Value::List(items));
            }
            if !self.eat_kind(Kind::Comma) {
                return Err(self.error("`,` or `]`"));
            }
        }
    }

    fn map(&mut self) -> Result<Value> {
        self.eat_kind(Kind::BraceOpen);
        let mut map = Map::new();
        if self.eat_kind(Kind::BraceClose) {
            return Ok(Value::Map(map));
        }
        loop {
            let key = self.map_key()?;
            if !self.eat_kind(Kind::Colon) {
                return Err(self.error("`:`"));
            }
            map.insert(key, self.element()?);
            if self.eat_kind(Kind::BraceClose) {
                return Ok(Value::Map(map));
            }
            if !self.eat_kind(Kind::Comma) {
                return Err(self.error("`,` or `}`"));
            }
        }
    }

    fn map_key(&mut self) -> Result<Key> {
        let tokens = self.words(false);
        join_tokens(trimmed(&tokens)).and_then(scalar_key).ok_or_else(|| self.error("a key without quotes"))
    }

    /// Words, numbers and interpolations that stand together without quotes.
    fn primitive(&mut self) -> Result<Value> {
        let tokens = self.words(true);
        join_tokens(trimmed(&tokens)).ok_or_else(|| self.error("a value"))
    }

    fn words(&mut self, in_value: bool) -> Vec<(Kind, &'t str)> {
        let mut tokens = Vec::new();
        while let Some((token, length)) = self.token() {
            let kind = match token {
                Token::Shared(kind) if is_key_token(kind) => kind,
                Token::Shared(Kind::Colon) if in_value => Kind::Colon,
                // Its text is kept as it is, like a character's.
                Token::Interpolation if in_value => Kind::Char,
                _ => break,
            };
            tokens.push((kind, &self.rest()[..length]));
            self.at += length;
        }
        tokens
    }

    /// `int(...)` and its like.
    fn function(&mut self, name_length: usize) -> Result<Value> {
        let (start, name) = (self.at, &self.rest()[..name_length]);
        if SWEEPS.contains(&name) {
            return Err(self.sweep(match name {
                "shuffle" => "it orders the list at random; write the list in the order you want: [a,b]",
                _ => "it stands for several values: give one here",
            }));
        }
        if !FUNCTIONS.contains(&name) {
            let error = self.error(&format!("one of the functions {}", FUNCTIONS.join(", ")));
            return Err(error.maybe_hint(did_you_mean(name, FUNCTIONS)));
        }
        self.at += name_length;
        self.eat(Token::Open);
        if !CASTS.contains(&name) {
            return self.sort(start);
        }
        let argument = self.cast_argument()?;
        if self.eat_kind(Kind::Comma) {
            return Err(self.sweep(COMMA));
        }
        if !self.eat(Token::Close) {
            return Err(self.error("`)`"));
        }
        cast(name, &argument).ok_or_else(|| {
            self.at = start;
            self.error(&format!("something that {name}() takes, found {}", python::repr(&argument.value)))
        })
    }

    /// The one argument of a cast, which may be called `value`.
    fn cast_argument(&mut self) -> Result<Node> {
        match self.argument_name() {
            Some("value") | None => self.element(),
            Some(_) => Err(self.error("the argument `value`")),
        }
    }

    /// The arguments of `sort`: a list, which may be called `list`, and `reverse`. It began at `start`.
    fn sort(&mut self, start: usize) -> Result<Value> {
        let (mut given, mut list, mut reverse) = (Vec::new(), None, false);
        let mut is_open = !self.eat(Token::Close);
        while is_open {
            let name = self.argument_name();
            let value = self.element()?;
            match (name, value.value) {
                (None, value) => given.push(value),
                (Some("list"), Value::List(items)) => list = Some(items),
                (Some("reverse"), Value::Bool(flag)) => reverse = flag,
                _ => return Err(self.error("a list, or the arguments `list=[…]` and `reverse=true`")),
            }
            is_open = !self.eat(Token::Close);
            if is_open && !self.eat_kind(Kind::Comma) {
                return Err(self.error("`,` or `)`"));
            }
        }
        let items = match (list, given.len(), given.pop()) {
            (Some(items), _, _) | (None, 1, Some(Value::List(items))) => items,
            (None, 1, Some(one)) => return Ok(one),
            (None, _, Some(last)) if given.iter().chain([&last]).all(is_scalar) => {
                return Err(self.sweep("to sort a list, put it in brackets: sort([b,a])"));
            }
            _ => return Err(self.error("one list, such as sort([b,a])")),
        };
        sorted(items, reverse).ok_or_else(|| {
            self.at = start;
            self.error("values of one kind, which can be put in order")
        })
    }

    /// The name in front of an argument, `name=`, if there is one.
    fn argument_name(&mut self) -> Option<&'t str> {
        let before = self.at;
        if let Some((Token::Shared(Kind::Id), length)) = self.token() {
            let name = &self.rest()[..length];
            self.at += length;
            if self.eat(Token::Equal) {
                return Some(name);
            }
        }
        self.at = before;
        None
    }
}

fn is_scalar(value: &Value) -> bool {
    !matches!(value, Value::List(_) | Value::Map(_))
}

/// A token of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token {
    Shared(Kind),
    Open,
    Close,
    Equal,
    Quoted,
    Interpolation,
}

/// A name that may contain `$`.
fn special_name(rest: &str) -> usize {
    if !rest.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_' || c == '$') {
        return 0;
    }
    rest.bytes().take_while(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'$')).count()
}

/// Text in quotes ends at the first quote with an even number of backslashes before it.
fn quoted_length(text: &str, quote: u8) -> Option<usize> {
    let mut backslashes = 0;
    for (index, byte) in text.bytes().enumerate().skip(1) {
        if byte == quote && backslashes % 2 == 0 {
            return Some(index + 1);
        }
        backslashes = if byte == b'\\' { backslashes + 1 } else { 0 };
    }
    None
}

/// Takes the quotes off; backslashes count only in front of a quote.
fn unquote(quoted: &str) -> String {
    let quote = quoted.chars().next().unwrap_or('"');
    let inner = &quoted[1..quoted.len() - 1];
    let mut out = String::with_capacity(inner.len());
    let mut rest = inner;
    while !rest.is_empty() {
        let backslashes = rest.bytes().take_while(|b| *b == b'\\').count();
        let after = &rest[backslashes..];
        if backslashes > 0 && (after.is_empty() || after.starts_with(quote)) {
            out.push_str(&"\\".repeat(backslashes / 2));
            rest = after;
            if rest.starts_with(quote) {
                out.push(quote);
                rest = &rest[1..];
            }
        } else {
            let end = backslashes + after.find('\\').unwrap_or(after.len());
            out.push_str(&rest[..end]);
            rest = &rest[end..];
        }
    }
    out
}

/// Without the blanks at either end.
fn trimmed<'w, 't>(tokens: &'w [(Kind, &'t str)]) -> &'w [(Kind, &'t str)] {
    let is_space = |token: Option<&(Kind, &str)>| token.is_some_and(|(kind, _)| *kind == Kind::Space);
    let start = usize::from(is_space(tokens.first()));
    let end = tokens.len() - usize::from(tokens.len() > start && is_space(tokens.last()));
    &tokens[start..end]
}

/// `int`, `float`, `bool` and `str` as Hydra casts, element by element for lists and mappings.
fn cast(name: &str, node: &Node) -> Option<Value> {
    let each = |item: &Node| Some(Node::new(cast(name, item)?, item.origin.clone()));
    match &node.value {
        Value::List(items) => Some(Value::List(items.iter().map(each).collect::<Option<_>>()?)),
        Value::Map(map) => {
            let entries = map.iter().map(|(key, item)| Some((key.clone(), each(item)?)));
            Some(Value::Map(entries.collect::<Option<_>>()?))
        }
        scalar => match name {
            "int" => cast_int(scalar),
            "float" => cast_float(scalar),
            "bool" => cast_bool(scalar),
            _ => cast_str(scalar),
        },
    }
}

fn cast_int(scalar: &Value) -> Option<Value> {
    Some(Value::Int(match scalar {
        Value::Bool(flag) => i128::from(*flag),
        Value::Int(number) => *number,
        Value::Float(number) if number.abs() < 1e38 => number.trunc() as i128,
        Value::Str(text) => python::parse_int(text)?,
        _ => return None,
    }))
}

fn cast_float(scalar: &Value) -> Option<Value> {
    Some(Value::Float(match scalar {
        Value::Bool(flag) => f64::from(u8::from(*flag)),
        Value::Int(number) => *number as f64,
        Value::Float(number) => *number,
        Value::Str(text) => python::parse_float(text)?,
        _ => return None,
    }))
}

fn cast_bool(scalar: &Value) -> Option<Value> {
    match scalar {
        Value::Str(text) if text.eq_ignore_ascii_case("true") => Some(Value::Bool(true)),
        Value::Str(text) if text.eq_ignore_ascii_case("false") => Some(Value::Bool(false)),
        Value::Str(_) => None,
        other => Some(Value::Bool(python::truthy(other))),
    }
}

fn cast_str(scalar: &Value) -> Option<Value> {
    match scalar {
        Value::Null => None,
        Value::Bool(flag) => Some(Value::Str(flag.to_string())),
        other => Some(Value::Str(python::text(other))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        match parse_override(text, 1) {
            Ok(parsed) => {
                let value = parsed.value.map_or("-".to_owned(), |node| python::repr(&node.value));
                format!("{:?} {} {value}", parsed.action, parsed.key)
            }
            Err(error) => match error.kind() {
                ErrorKind::Sweep { .. } => "sweep".to_owned(),
                ErrorKind::BadOverride { position, .. } => format!("bad at {position}"),
                other => format!("{other}"),
            },
        }
    }

    #[test]
    fn overrides_read_as_hydra_reads_them() {
        for (text, expected) in [
            ("a.b=c", "Change a.b 'c'"),
            ("+a.b=1", "Add a.b 1"),
            ("++a=1e-3", "ForceAdd a 0.001"),
            ("~a.b", "Delete a.b -"),
            ("~a=null", "Delete a None"),
            ("a=", "Change a ''"),
            ("a= 5 ", "Change a 5"),
            ("a='x y'", "Change a 'x y'"),
            ("a=\"it's\"", "Change a \"it's\""),
            (r"a='it\'s'", "Change a \"it's\""),
            (r"a='x\\'", r"Change a 'x\\'"),
            ("a=[1,2,[a]]", "Change a [1, 2, ['a']]"),
            ("a={b: 1, c: {d: e}}", "Change a {'b': 1, 'c': {'d': 'e'}}"),
            ("a=${b.c}", "Change a '${b.c}'"),
            ("a=x/${b}/y", "Change a 'x/${b}/y'"),
            ("a=http://x:8080/y@z", "Change a 'http://x:8080/y@z'"),
            ("a=x y", "Change a 'x y'"),
            ("a=b=c", "bad at 4"),
            (r"a=b\=c", "Change a 'b=c'"),
            ("a.0=5", "Change a.0 5"),
            ("0=5", "bad at 1"),
            ("a=1,2", "sweep"),
            ("a=choice(1,2)", "sweep"),
            ("a=int('5')", "Change a 5"),
            ("a=str([1, 2.0, true])", "Change a ['1', '2.0', 'true']"),
            ("a=float(value=3)", "Change a 3.0"),
            ("a=sort([3,1,2])", "Change a [1, 2, 3]"),
            ("a=sort( list = [b,a] , reverse = true )", "Change a ['b', 'a']"),
            ("a=sort(3,1)", "sweep"),
            ("a=sort([1],)", "bad at 12"),
            ("a=sort([1,x])", "bad at 3"),
            ("a=sort([1", "bad at 10"),
            ("a=shuffle([1,2])", "sweep"),
            ("a=foo(1)", "bad at 3"),
            ("a=(1)", "bad at 3"),
            ("a=[1", "bad at 5"),
            ("a=${b.${c}}", "bad at 11"),
            ("a=True", "Change a True"),
            ("a=007", "Change a '007'"),
            ("a", "bad at 2"),
            ("=1", "bad at 1"),
            ("$a.b$=1", "Change $a.b$ 1"),
            ("g/h@p.q=x", "Change g/h 'x'"),
        ] {
            assert_eq!(shown(text), expected, "{text}");
        }
    }
}
