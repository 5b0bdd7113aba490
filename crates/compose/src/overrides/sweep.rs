//! Overrides that stand for several values, as Hydra's basic sweeper takes them apart: `lr=1e-3,3e-4`,
//! `choice(…)`, `range(…)`.
//!
//! Casts and `sort` work on sweeps as they do in Hydra. What is sampled or depends on files is refused by
//! name: `glob`, `interval`, `shuffle` and `tag`.

use super::{CASTS, MAX_DEPTH, Parser, Token, cast, parse_override};
use crate::decimal::float_range;
use crate::error::{ComposeError, ErrorKind, Result};
use crate::node::{COMMAND_LINE, Key, Node, Origin, Value};
use crate::python;
use crate::scan::Kind;
use crate::sort::sorted;

/// An override that stands for more values than this is refused.
const MAX_VALUES: usize = 10_000;

/// An override that stands for several values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SweepOverride {
    /// What stands before the `=`: `actor.optim.lr`, `+env`.
    pub key: String,
    /// Each value, as an override writes it.
    pub values: Vec<String>,
}

impl SweepOverride {
    /// One override for each value, in order.
    pub fn overrides(&self) -> impl Iterator<Item = String> + '_ {
        self.values.iter().map(|value| format!("{}={value}", self.key))
    }
}

/// Reads an override that may be a sweep; `None` for one that has a single value. `position` is its place
/// among them, counted from 1.
///
/// # Errors
/// [`ComposeError`] where Hydra's grammar does not allow it, where the sweep cannot be enumerated, or where
/// it has more than 10,000 values.
pub fn parse_sweep(text: &str, position: usize) -> Result<Option<SweepOverride>> {
    match parse_override(text, position) {
        Ok(_) => return Ok(None),
        Err(error) if matches!(error.kind(), ErrorKind::Sweep { .. }) => {}
        Err(error) => return Err(error),
    }
    let mut parser = Parser { text, at: 0, line: position, depth: 0 };
    let sweep =
        parser.parse_sweep().map_err(|error| error.or_origin(&Origin::new(COMMAND_LINE, position, 1)))?;
    Ok(Some(sweep))
}

/// What an argument of a sweep's function is.
enum Swept {
    Element(Node),
    Choice {
        items: Vec<Node>,
        /// Written with commas alone, without `choice`.
        is_simple: bool,
    },
    Range([Value; 3]),
}

type Arguments<'t> = Vec<(Option<&'t str>, Swept)>;

impl<'t> Parser<'t> {
    fn parse_sweep(&mut self) -> Result<SweepOverride> {
        self.action();
        self.key()?;
        let key = self.text[..self.at].to_owned();
        if !self.rest().starts_with('=') {
            return Err(self.error("`=`"));
        }
        self.at += 1;
        self.at += crate::scan::space(self.rest());
        let mut found = vec![self.swept()?];
        while self.eat_kind(Kind::Comma) {
            found.push(self.swept()?);
        }
        if !self.rest().is_empty() {
            return Err(self.error("the end; put the value in quotes if this belongs to it"));
        }
        let swept = match found.pop() {
            Some(one) if found.is_empty() => one,
            last => self.simple_choice(found.into_iter().chain(last).collect())?,
        };
        let values = self.values_of(swept)?;
        values.iter().try_for_each(|value| self.check(&key, value))?;
        let values = values.iter().map(|value| written(&value.value)).collect();
        Ok(SweepOverride { key, values })
    }

    /// A value, or a function that stands for several.
    fn swept(&mut self) -> Result<Swept> {
        let before = self.at;
        match self.element() {
            Ok(node) => return Ok(Swept::Element(node)),
            Err(error) if matches!(error.kind(), ErrorKind::Sweep { .. }) => self.at = before,
            Err(error) => return Err(error),
        }
        let length = match self.token() {
            Some((Token::Shared(Kind::Id), length)) if self.is_call(length) => length,
            // A list that holds a sweep: an element of a sweep is one value.
            _ => return Err(self.error("a value, and no sweep inside it")),
        };
        if self.depth >= MAX_DEPTH {
            return Err(self.error("fewer nested values"));
        }
        self.depth += 1;
        let swept = self.sweep_function(length);
        self.depth -= 1;
        swept
    }

    fn sweep_function(&mut self, name_length: usize) -> Result<Swept> {
        let (start, name) = (self.at, &self.rest()[..name_length]);
        if ["glob", "interval", "shuffle", "tag"].contains(&name) {
            let kind = ErrorKind::UnsupportedSweep { function: name.to_owned() };
            let hint = "write the values: key=a,b,c, choice(a,b,c) or range(1,4)";
            return Err(ComposeError::at(kind, &self.origin()).or_hint(hint));
        }
        self.at += name_length;
        self.eat(Token::Open);
        let arguments = self.sweep_arguments()?;
        match name {
            "choice" => self.choice(arguments),
            "range" => self.range(arguments),
            "sort" => self.sort_sweep(arguments),
            cast if CASTS.contains(&cast) => self.cast_sweep(cast, arguments),
            _ => {
                self.at = start;
                Err(self.error("one of choice, range, sort, bool, float, int and str"))
            }
        }
    }

    /// All arguments, and the closing bracket.
    fn sweep_arguments(&mut self) -> Result<Arguments<'t>> {
        let mut arguments: Arguments<'t> = Vec::new();
        let mut is_open = !self.eat(Token::Close);
        while is_open {
            let name = self.argument_name();
            if name.is_none() && arguments.iter().any(|(name, _)| name.is_some()) {
                return Err(self.error("a name before this argument, as the one before it has"));
            }
            arguments.push((name, self.swept()?));
            is_open = !self.eat(Token::Close);
            if is_open && !self.eat_kind(Kind::Comma) {
                return Err(self.error("`,` or `)`"));
            }
        }
        Ok(arguments)
    }

    fn simple_choice(&self, found: Vec<Swept>) -> Result<Swept> {
        let element = |one| match one {
            Swept::Element(node) => Ok(node),
            Swept::Choice { .. } | Swept::Range(_) => Err(self.error("single values between the commas")),
        };
        Ok(Swept::Choice { items: found.into_iter().map(element).collect::<Result<_>>()?, is_simple: true })
    }

    fn choice(&self, mut arguments: Arguments<'t>) -> Result<Swept> {
        if arguments.is_empty() || arguments.iter().any(|(name, _)| name.is_some()) {
            return Err(self.error("values, as in choice(a,b)"));
        }
        if let [(_, Swept::Choice { items, is_simple: true })] = &mut arguments[..] {
            return Ok(Swept::Choice { items: std::mem::take(items), is_simple: false });
        }
        match self.simple_choice(arguments.into_iter().map(|(_, value)| value).collect())? {
            Swept::Choice { items, .. } => Ok(Swept::Choice { items, is_simple: false }),
            other => Ok(other),
        }
    }

    fn range(&self, arguments: Arguments<'t>) -> Result<Swept> {
        const NAMES: [&str; 3] = ["start", "stop", "step"];
        let wrong = || self.error("numbers, as in range(4), range(1,4) or range(1,10,3)");
        let mut given: [Option<Value>; 3] = [None, None, None];
        for (place, (name, value)) in arguments.into_iter().enumerate() {
            let place = name.map_or(Some(place), |name| NAMES.iter().position(|known| *known == name));
            let slot = place.and_then(|place| given.get_mut(place)).filter(|slot| slot.is_none());
            match (slot, value) {
                (
                    Some(slot),
                    Swept::Element(Node { value: value @ (Value::Int(_) | Value::Float(_)), .. }),
                ) => {
                    *slot = Some(value);
                }
                _ => return Err(wrong()),
            }
        }
        let step = given[2].take().unwrap_or(Value::Int(1));
        match given {
            [Some(start), Some(stop), _] => Ok(Swept::Range([start, stop, step])),
            [Some(stop), None, _] => Ok(Swept::Range([Value::Int(0), stop, step])),
            _ => Err(wrong()),
        }
    }

    /// The one sweep that a function works on; several values are a sweep with commas.
    fn one_sweep(&self, arguments: Arguments<'t>, name: &str) -> Result<Swept> {
        let is_known = |given: &Option<&str>| given.is_none_or(|given| given == name);
        if arguments.is_empty() || !arguments.iter().all(|(given, _)| is_known(given)) {
            return Err(self.error(&format!("one argument called `{name}`, or none with a name")));
        }
        let mut values: Vec<Swept> = arguments.into_iter().map(|(_, value)| value).collect();
        match values.pop() {
            Some(one) if values.is_empty() => Ok(one),
            last => self.simple_choice(values.into_iter().chain(last).collect()),
        }
    }

    fn cast_sweep(&self, name: &str, arguments: Arguments<'t>) -> Result<Swept> {
        let one =
            |node: &Node| match cast(name, node) {
                Some(value) => Ok(Node::new(value, node.origin.clone())),
                None => Err(self
                    .error(&format!("something that {name}() takes, found {}", python::repr(&node.value)))),
            };
        match self.one_sweep(arguments, "value")? {
            Swept::Element(node) => Ok(Swept::Element(one(&node)?)),
            Swept::Choice { items, is_simple } => {
                Ok(Swept::Choice { items: items.iter().map(one).collect::<Result<_>>()?, is_simple })
            }
            Swept::Range(_) if !["int", "float"].contains(&name) => {
                Err(self.error("int() or float() around a range"))
            }
            Swept::Range(ends) => {
                let [start, stop, step] = ends.map(|end| one(&Node::new(end, self.origin())));
                Ok(Swept::Range([start?.value, stop?.value, step?.value]))
            }
        }
    }

    fn sort_sweep(&self, mut arguments: Arguments<'t>) -> Result<Swept> {
        let mut reverse = false;
        if let Some(at) = arguments.iter().position(|(name, _)| *name == Some("reverse")) {
            match arguments.remove(at).1 {
                Swept::Element(Node { value: Value::Bool(flag), .. }) => reverse = flag,
                _ => return Err(self.error("reverse=true or reverse=false")),
            }
        }
        match self.one_sweep(arguments, "sweep")? {
            Swept::Choice { items, is_simple } => match sorted(items, reverse) {
                Some(Value::List(items)) => Ok(Swept::Choice { items, is_simple }),
                _ => Err(self.error("values of one kind, which can be put in order")),
            },
            Swept::Range(ends) => Ok(Swept::Range(sorted_range(ends, reverse))),
            Swept::Element(node) => Ok(Swept::Element(node)),
        }
    }

    fn values_of(&self, swept: Swept) -> Result<Vec<Node>> {
        let values = match swept {
            Swept::Element(node) => vec![node],
            Swept::Choice { items, .. } => items,
            Swept::Range(ends) => {
                let origin = self.origin();
                let values = range_values(&ends, MAX_VALUES + 1);
                let values =
                    values.ok_or_else(|| self.error("a step other than zero, and finite numbers"))?;
                values.into_iter().map(|value| Node::new(value, origin.clone())).collect()
            }
        };
        match values.len() {
            0 => Err(self.error("at least one value: this range is empty")),
            1..=MAX_VALUES => Ok(values),
            _ => Err(self.error(&format!("at most {MAX_VALUES} values"))),
        }
    }

    /// A value must read back as itself: a key of a mapping may not be writable.
    fn check(&self, key: &str, node: &Node) -> Result<()> {
        let text = format!("{key}={}", written(&node.value));
        let back = parse_override(&text, self.line).ok().and_then(|read| read.value);
        let is_same = back.is_some_and(|back| python::repr(&back.value) == python::repr(&node.value));
        if is_same { Ok(()) } else { Err(self.error("keys without special characters")) }
    }
}

/// A range in ascending or descending order, with the values that Hydra gives it.
fn sorted_range([start, stop, step]: [Value; 3], reverse: bool) -> [Value; 3] {
    let (first, last, size) = (number(&start), number(&stop), number(&step).abs());
    let is_wrong = if reverse { first < last } else { first > last };
    if !is_wrong {
        return [start, stop, step];
    }
    let by = if reverse { -size } else { size };
    let negated = match &step {
        Value::Int(step) => Value::Int(step.saturating_neg()),
        other => Value::Float(-number(other)),
    };
    [moved(&stop, &step, by), moved(&start, &step, by), negated]
}

fn moved(end: &Value, step: &Value, by: f64) -> Value {
    match (end, step) {
        (Value::Int(end), Value::Int(step)) => {
            Value::Int(end.saturating_add(step.saturating_abs() * if by < 0.0 { -1 } else { 1 }))
        }
        _ => Value::Float(number(end) + by),
    }
}

fn number(value: &Value) -> f64 {
    match value {
        Value::Int(number) => *number as f64,
        Value::Float(number) => *number,
        _ => f64::NAN,
    }
}

/// The values of a range, at most `limit`; nothing for a step of zero and for numbers that are not finite.
fn range_values([start, stop, step]: &[Value; 3], limit: usize) -> Option<Vec<Value>> {
    let (Value::Int(start), Value::Int(stop), Value::Int(step)) = (start, stop, step) else {
        let values = float_range([start, stop, step].map(number), limit)?;
        return Some(values.into_iter().map(Value::Float).collect());
    };
    if *step == 0 {
        return None;
    }
    let is_before = |at: &i128| if *step > 0 { at < stop } else { at > stop };
    let values = std::iter::successors(Some(*start), |at| at.checked_add(*step));
    Some(values.take_while(is_before).take(limit).map(Value::Int).collect())
}

/// A value as an override writes it.
fn written(value: &Value) -> String {
    match value {
        Value::Null => "null".into(),
        Value::Bool(flag) => flag.to_string(),
        Value::Int(number) => number.to_string(),
        Value::Float(number) => python::float(*number),
        Value::Str(text) => written_text(text),
        Value::List(items) => {
            format!("[{}]", items.iter().map(|item| written(&item.value)).collect::<Vec<_>>().join(","))
        }
        Value::Map(map) => {
            let entry = |(key, item): (&Key, &Node)| format!("{key}:{}", written(&item.value));
            format!("{{{}}}", map.iter().map(entry).collect::<Vec<_>>().join(","))
        }
    }
}

/// As it is where it reads back as itself, else in quotes: backslashes count only in front of a quote.
fn written_text(text: &str) -> String {
    let is_plain = parse_override(&format!("x=[{text}]"), 1).is_ok_and(|read| {
        let Some(Value::List(items)) = read.value.map(|node| node.value) else { return false };
        matches!(&items[..], [Node { value: Value::Str(one), .. }] if one == text)
    });
    if is_plain && !text.contains(['\'', '"']) {
        return text.to_owned();
    }
    let (mut quoted, mut backslashes) = (String::from("'"), 0);
    for letter in text.chars() {
        if letter == '\'' {
            quoted.push_str(&"\\".repeat(backslashes + 1));
        }
        backslashes = if letter == '\\' { backslashes + 1 } else { 0 };
        quoted.push(letter);
    }
    quoted.push_str(&"\\".repeat(backslashes));
    quoted.push('\'');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(serde::Deserialize)]
    struct Case {
        text: String,
        /// What each value is in Python; nothing where Hydra refuses the override.
        values: Option<Vec<String>>,
    }

    /// Hydra writes text without its quotes, so that what `str` made becomes a number again; it stays text
    /// here.
    const TEXT_STAYS_TEXT: [&str; 2] = ["a=str(1,2)", "a=str(float(1,2))"];

    /// `tests/hydra/sweeps.json`, made by `tests/hydra/make_sweeps.py` with Hydra's own sweeper.
    #[test]
    fn sweeps_are_taken_apart_as_hydra_does() {
        let cases: Vec<Case> = serde_json::from_str(include_str!("../../tests/hydra/sweeps.json")).unwrap();
        assert!(cases.len() > 50);
        for Case { text, values } in cases {
            let values = match TEXT_STAYS_TEXT.contains(&text.as_str()) {
                true => values.map(|all| all.iter().map(|value| format!("'{value}'")).collect()),
                false => values,
            };
            let found = parse_sweep(&text, 1).ok().map(|sweep| {
                let overrides = sweep.map_or_else(|| vec![text.clone()], |sweep| sweep.overrides().collect());
                let read = |text: &String| parse_override(text, 1).unwrap().value.unwrap().value;
                overrides.iter().map(|text| python::repr(&read(text))).collect::<Vec<_>>()
            });
            assert_eq!(found, values, "{text}");
        }
    }

    #[test]
    fn what_cannot_be_enumerated_is_refused_by_name() {
        for (text, expected) in [
            ("a=glob(*)", "`glob()` is not supported in a sweep"),
            ("a=interval(0,1)", "`interval()` is not supported in a sweep"),
            ("a=shuffle(1,2)", "`shuffle()` is not supported in a sweep"),
            ("a=tag(t,choice(1,2))", "`tag()` is not supported in a sweep"),
            ("a=range(1000000000000)", "at most 10000 values"),
            ("a=range(0,1,0)", "a step other than zero"),
            ("a=range(0,1,1e-300)", "at most 10000 values"),
            ("a=[1,choice(1,2)]", "no sweep inside it"),
        ] {
            let error = parse_sweep(text, 1).unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
        let deep = format!("a={}1,2{}", "int(".repeat(1000), ")".repeat(1000));
        assert!(parse_sweep(&deep, 1).is_err());
    }

    #[test]
    fn keys_are_kept_as_they_are_written() {
        let sweep = parse_sweep("+group@here.there='a,b',c", 1).unwrap().unwrap();
        assert_eq!(sweep.overrides().collect::<Vec<_>>(), ["+group@here.there='a,b'", "+group@here.there=c"]);
    }
}
