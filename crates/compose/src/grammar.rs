//! OmegaConf's interpolation grammar: from `x_${a.b}_${f:1,[2]}` to a tree, without looking anything up.

use crate::error::{ComposeError, ErrorKind, Result};
use crate::node::{Key, Value};
use crate::python;
use crate::scan::{self, Kind};

/// Nested interpolations beyond this are refused rather than risking the stack.
const MAX_DEPTH: usize = 64;

/// A string that contains interpolations.
#[derive(Debug, Clone)]
pub(crate) struct Template {
    pub(crate) parts: Vec<TemplatePart>,
}

/// Text (escapes already undone) or something to evaluate.
#[derive(Debug, Clone)]
pub(crate) enum TemplatePart {
    Text(String),
    Interpolation(Interpolation),
}

/// One `${...}`.
#[derive(Debug, Clone)]
pub(crate) enum Interpolation {
    /// `${a.b[c]}`: the pieces of a path, dots and brackets included.
    Node(Vec<TemplatePart>),
    /// `${name:arguments}`; the name's pieces are joined by dots.
    Resolver { name: Vec<TemplatePart>, arguments: Vec<Element> },
}

/// An argument of a resolver.
#[derive(Debug, Clone)]
pub(crate) enum Element {
    /// A scalar that the grammar types by itself.
    Literal(Value),
    /// Text without quotes, or a lone interpolation that keeps its type.
    Unquoted(Template),
    /// Text in quotes: always a string.
    Quoted(Template),
    List(Vec<Element>),
    Map(Vec<(Key, Element)>),
}

/// The value of a single token, as both grammars type it; an integer beyond 128 bits has none.
fn token_value(kind: Kind, text: &str) -> Option<Value> {
    Some(match kind {
        Kind::Null => Value::Null,
        Kind::Bool => Value::Bool(text.eq_ignore_ascii_case("true")),
        Kind::Int => Value::Int(python::parse_int(text)?),
        Kind::Float => Value::Float(python::parse_float(text)?),
        Kind::Escape => Value::Str(scan::unescape(text)),
        _ => Value::Str(text.to_owned()),
    })
}

/// Parses a configuration value: text with interpolations in it.
pub(crate) fn parse_template(text: &str) -> Result<Template> {
    let mut parser = Parser { text, at: 0, depth: 0 };
    parser.text_until(None)
}

/// Parses one element, as `oc.decode` reads its argument.
pub(crate) fn parse_element(text: &str) -> Result<Element> {
    let mut parser = Parser { text, at: 0, depth: 0 };
    let element = parser.element()?;
    if parser.at < text.len() { Err(parser.error("the end")) } else { Ok(element) }
}

struct Parser<'t> {
    text: &'t str,
    at: usize,
    depth: usize,
}

impl<'t> Parser<'t> {
    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn error(&self, expected: &str) -> ComposeError {
        ComposeError::new(ErrorKind::InterpolationSyntax {
            text: self.text.to_owned(),
            position: self.text[..self.at].chars().count() + 1,
            expected: expected.to_owned(),
        })
    }

    /// Reads text up to the closing quote, or to the end if there is no quote to wait for.
    fn text_until(&mut self, quote: Option<char>) -> Result<Template> {
        let mut parts = Vec::new();
        let mut plain = String::new();
        loop {
            let rest = self.rest();
            let backslashes = rest.bytes().take_while(|b| *b == b'\\').count();
            let after = &rest[backslashes..];
            let at_quote = quote.is_some_and(|quote| after.starts_with(quote));
            if after.starts_with("${") || at_quote {
                // Half of the backslashes escape the other half; an odd one escapes what follows.
                plain.push_str(&"\\".repeat(backslashes / 2));
                self.at += backslashes;
                if backslashes % 2 == 1 {
                    let escaped = if at_quote { 1 } else { 2 };
                    plain.push_str(&after[..escaped]);
                    self.at += escaped;
                } else if at_quote {
                    self.at += 1;
                    break;
                } else {
                    if !plain.is_empty() {
                        parts.push(TemplatePart::Text(std::mem::take(&mut plain)));
                    }
                    parts.push(TemplatePart::Interpolation(self.interpolation()?));
                }
                continue;
            }
            plain.push_str(&rest[..backslashes]);
            self.at += backslashes;
            let Some(next) = after.chars().next() else {
                if let Some(quote) = quote {
                    return Err(self.error(&format!("a closing {quote}")));
                }
                break;
            };
            plain.push(next);
            self.at += next.len_utf8();
        }
        if !plain.is_empty() || parts.is_empty() {
            parts.push(TemplatePart::Text(plain));
        }
        Ok(Template { parts })
    }

    /// Reads from `${` to its `}`.
    fn interpolation(&mut self) -> Result<Interpolation> {
        if self.depth >= MAX_DEPTH {
            return Err(self.error("fewer nested interpolations"));
        }
        self.depth += 1;
        self.at += 2;
        self.at += scan::space(self.rest());
        let result = self.interpolation_body();
        self.depth -= 1;
        result
    }

    fn interpolation_body(&mut self) -> Result<Interpolation> {
        let mut pieces: Vec<TemplatePart> = Vec::new();
        let mut state = PathState::default();
        loop {
            let rest = self.rest();
            let space = scan::space(rest);
            match rest[space..].chars().next() {
                Some('}') if state.complete() => {
                    self.at += space + 1;
                    return Ok(Interpolation::Node(pieces));
                }
                Some(':') if state.may_name_resolver() => {
                    self.at += space + 1;
                    self.at += scan::space(self.rest());
                    let arguments = self.arguments()?;
                    return Ok(Interpolation::Resolver { name: resolver_name(pieces), arguments });
                }
                _ if space > 0 => return Err(self.error("`}` or `:`")),
                _ => self.path_piece(&mut pieces, &mut state)?,
            }
        }
    }

    fn path_piece(&mut self, pieces: &mut Vec<TemplatePart>, state: &mut PathState) -> Result<()> {
        let rest = self.rest();
        if let Some(mark @ ('.' | '[' | ']')) = rest.chars().next() {
            if !state.accept_mark(mark) {
                return Err(self.error("a key, `}` or `:`"));
            }
            self.at += 1;
            pieces.push(TemplatePart::Text(mark.to_string()));
            return Ok(());
        }
        let nested = rest.starts_with("${");
        let length = if nested { 0 } else { key_length(rest) };
        let is_id = nested || (length > 0 && scan::identifier(rest) == length);
        if (length == 0 && !nested) || !state.accept_key(is_id) {
            return Err(self.error("a key, `}` or `:`"));
        }
        if nested {
            pieces.push(TemplatePart::Interpolation(self.interpolation()?));
        } else {
            self.at += length;
            pieces.push(TemplatePart::Text(rest[..length].to_owned()));
        }
        Ok(())
    }

    /// Reads the arguments of a resolver and the `}` behind them.
    fn arguments(&mut self) -> Result<Vec<Element>> {
        if self.eat(Kind::BraceClose) {
            return Ok(Vec::new());
        }
        let arguments = self.sequence(Kind::BraceClose)?;
        Ok(arguments)
    }

    /// Reads elements between commas and the token that ends them. What is left out is an empty string.
    fn sequence(&mut self, end: Kind) -> Result<Vec<Element>> {
        let mut elements = Vec::new();
        let empty = || Element::Literal(Value::Str(String::new()));
        loop {
            match self.peek() {
                Some(Kind::Comma) => elements.push(empty()),
                Some(kind) if kind == end => elements.push(empty()),
                _ => elements.push(self.element()?),
            }
            if self.eat(end) {
                return Ok(elements);
            }
            if !self.eat(Kind::Comma) {
                return Err(self.error(if end == Kind::BraceClose { "`,` or `}`" } else { "`,` or `]`" }));
            }
        }
    }

    fn peek(&self) -> Option<Kind> {
        scan::value_token(self.rest()).map(|(kind, _)| kind)
    }

    fn eat(&mut self, wanted: Kind) -> bool {
        match scan::value_token(self.rest()) {
            Some((kind, length)) if kind == wanted => {
                self.at += length;
                true
            }
            _ => false,
        }
    }

    fn element(&mut self) -> Result<Element> {
        if self.depth >= MAX_DEPTH {
            return Err(self.error("fewer nested values"));
        }
        self.depth += 1;
        let element = match self.rest().chars().next() {
            Some(quote @ ('\'' | '"')) => {
                self.at += 1;
                self.text_until(Some(quote)).map(Element::Quoted)
            }
            Some('[') => self.list(),
            Some('{') => self.map(),
            _ => self.primitive(),
        };
        self.depth -= 1;
        element
    }

    fn list(&mut self) -> Result<Element> {
        self.eat(Kind::BracketOpen);
        if self.eat(Kind::BracketClose) {
            return Ok(Element::List(Vec::new()));
        }
        self.sequence(Kind::BracketClose).map(Element::List)
    }

    fn map(&mut self) -> Result<Element> {
        self.eat(Kind::BraceOpen);
        let mut entries = Vec::new();
        if self.eat(Kind::BraceClose) {
            return Ok(Element::Map(entries));
        }
        loop {
            let key = self.map_key()?;
            if !self.eat(Kind::Colon) {
                return Err(self.error("`:`"));
            }
            entries.push((key, self.element()?));
            if self.eat(Kind::BraceClose) {
                return Ok(Element::Map(entries));
            }
            if !self.eat(Kind::Comma) {
                return Err(self.error("`,` or `}`"));
            }
        }
    }

    fn map_key(&mut self) -> Result<Key> {
        let mut tokens = Vec::new();
        while let Some((kind, length)) = scan::value_token(self.rest()) {
            if !is_key_token(kind) {
                break;
            }
            tokens.push((kind, &self.rest()[..length]));
            self.at += length;
        }
        match join_tokens(&tokens).and_then(scalar_key) {
            Some(key) => Ok(key),
            None => Err(self.error("a key")),
        }
    }

    /// Reads words, numbers and interpolations that stand together without quotes.
    fn primitive(&mut self) -> Result<Element> {
        let mut parts: Vec<TemplatePart> = Vec::new();
        let mut tokens: Vec<(Kind, &str)> = Vec::new();
        let mut count = 0;
        loop {
            let rest = self.rest();
            if rest.starts_with("${") {
                flush(&mut tokens, &mut parts);
                parts.push(TemplatePart::Interpolation(self.interpolation()?));
                count += 1;
                continue;
            }
            match scan::value_token(rest) {
                Some((kind, length)) if is_key_token(kind) || kind == Kind::Colon => {
                    tokens.push((kind, &rest[..length]));
                    self.at += length;
                    count += 1;
                }
                _ => break,
            }
        }
        if count == 0 {
            return Err(self.error("a value"));
        }
        if count == 1
            && let [(kind, text)] = tokens[..]
        {
            let value = token_value(kind, text).map(Element::Literal);
            return value.ok_or_else(|| self.error("a smaller number"));
        }
        flush(&mut tokens, &mut parts);
        Ok(Element::Unquoted(Template { parts }))
    }
}

fn flush(tokens: &mut Vec<(Kind, &str)>, parts: &mut Vec<TemplatePart>) {
    if !tokens.is_empty() {
        parts.push(TemplatePart::Text(joined(tokens)));
        tokens.clear();
    }
}

fn joined(tokens: &[(Kind, &str)]) -> String {
    tokens
        .iter()
        .map(|(kind, text)| if *kind == Kind::Escape { scan::unescape(text) } else { (*text).to_owned() })
        .collect()
}

/// The value of tokens that stand together: typed if there is one, text if there are more.
pub(crate) fn join_tokens(tokens: &[(Kind, &str)]) -> Option<Value> {
    match tokens {
        [] => None,
        [(kind, text)] => token_value(*kind, text),
        _ => Some(Value::Str(joined(tokens))),
    }
}

/// The key that a scalar makes; `null` makes none.
pub(crate) fn scalar_key(scalar: Value) -> Option<Key> {
    match scalar {
        Value::Bool(flag) => Some(Key::Bool(flag)),
        Value::Int(number) => Some(Key::Int(number)),
        Value::Float(number) => Some(Key::Float(number.to_bits())),
        Value::Str(text) => Some(Key::Str(text)),
        Value::Null | Value::List(_) | Value::Map(_) => None,
    }
}

/// The tokens that may stand in a key without quotes.
pub(crate) fn is_key_token(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::Id
            | Kind::Null
            | Kind::Int
            | Kind::Float
            | Kind::Bool
            | Kind::Char
            | Kind::Escape
            | Kind::Space
    )
}

/// A key in a path: anything without a special character.
fn key_length(rest: &str) -> usize {
    rest.find(|c: char| "\\{}()[]:. \t'\"".contains(c)).unwrap_or(rest.len())
}

/// The name's pieces without the dots between them.
fn resolver_name(pieces: Vec<TemplatePart>) -> Vec<TemplatePart> {
    pieces.into_iter().filter(|piece| !matches!(piece, TemplatePart::Text(text) if text == ".")).collect()
}

/// What may come next inside `${...}`.
#[derive(Debug)]
struct PathState {
    /// Any key was read.
    keys: usize,
    /// The last piece was a key (or a closed bracket).
    after_key: bool,
    /// Inside `[` ... `]`.
    in_bracket: bool,
    /// Only names and single dots so far, so a `:` may follow.
    simple: bool,
}

impl Default for PathState {
    fn default() -> Self {
        PathState { keys: 0, after_key: false, in_bracket: false, simple: true }
    }
}

impl PathState {
    fn complete(&self) -> bool {
        self.after_key && !self.in_bracket
    }

    fn may_name_resolver(&self) -> bool {
        self.simple && self.complete()
    }

    fn accept_mark(&mut self, mark: char) -> bool {
        match mark {
            '.' if self.in_bracket => false,
            // Leading dots make the path relative; later ones separate keys.
            '.' if self.keys == 0 => {
                self.simple = false;
                true
            }
            '.' => std::mem::replace(&mut self.after_key, false),
            '[' if !self.in_bracket && (self.keys == 0 || self.after_key) => {
                self.simple = false;
                self.in_bracket = true;
                self.after_key = false;
                true
            }
            ']' if self.in_bracket && self.after_key => {
                self.in_bracket = false;
                true
            }
            _ => false,
        }
    }

    fn accept_key(&mut self, is_id: bool) -> bool {
        if self.after_key {
            return false;
        }
        self.simple &= is_id;
        self.keys += 1;
        self.after_key = true;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepts(text: &str) -> bool {
        parse_template(text).is_ok()
    }

    #[test]
    fn good_and_bad_interpolations() {
        for good in [
            "${a}",
            "${ a }",
            "${.a}",
            "${..a.b}",
            "${a[b].c}",
            "${[a]}",
            "${a.${b}}",
            "${${a}}",
            "${f:}",
            "${f:a,}",
            "${f:,}",
            "${oc.env:A,null}",
            "${a-b}",
            "${a/b@c}",
            "${f:'x\\'y'}",
            "${f:{a:1}}",
            "${f:%Y-%m-%d}",
            "\\${x",
            "a $ b",
            "${f:a:b}",
            "${ns.${x}:1}",
            "${1}",
            "${f:[1,[2]],{}}",
        ] {
            assert!(accepts(good), "{good}");
        }
        for bad in [
            "${",
            "${}",
            "${a",
            "${a .b}",
            "${a b}",
            "${a[b}",
            "${a..b}",
            "${a.}",
            "${f:a=b}",
            "${f:'x}",
            "${f: 'a' 'b'}",
            "${f:~}",
            "${a${b}}",
            "${:x}",
            "${f:é}",
            "${.f:x}",
            "${f:{a}}",
            "${a[b.c]}",
            "${f:{'a':1}}",
            "${f:a(b)}",
        ] {
            assert!(!accepts(bad), "{bad}");
        }
    }

    #[test]
    fn backslashes_are_undone_only_where_they_escape() {
        let text = |source: &str| match &parse_template(source).unwrap().parts[..] {
            [TemplatePart::Text(text)] => text.clone(),
            other => panic!("{other:?}"),
        };
        assert_eq!(text(r"a\b\\c"), r"a\b\\c");
        assert_eq!(text(r"\${x}"), "${x}");
        assert_eq!(text(r"\\\${x}"), r"\${x}");
        let parts = parse_template(r"\\${x}").unwrap().parts;
        assert!(matches!(&parts[0], TemplatePart::Text(text) if text == "\\"));
    }

    #[test]
    fn nesting_is_bounded() {
        assert!(!accepts(&"${".repeat(100_000)));
        assert!(!accepts(&format!("${{f:{}", "[".repeat(100_000))));
    }
}
