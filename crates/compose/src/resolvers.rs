//! The functions behind `${name:arguments}`: OmegaConf's own, Hydra's, and those RLinf registers.

use std::rc::Rc;

use crate::error::{ComposeError, ErrorKind, Result, did_you_mean};
use crate::interpolation::{Evaluator, NodeCursor, Resolved, Selected, as_text};
use crate::node::{Key, Node, Origin, Value};
use crate::python;
use crate::time::strftime;
use crate::yaml;

/// Every resolver there is.
pub const RESOLVERS: [&str; 14] = [
    "hydra",
    "int_div",
    "multiply",
    "not",
    "now",
    "oc.create",
    "oc.decode",
    "oc.deprecated",
    "oc.dict.keys",
    "oc.dict.values",
    "oc.env",
    "oc.select",
    "subtract",
    "torch.dtype",
];

/// The dtypes of torch, and what each alias is called when printed.
const DTYPES: [(&str, &str); 33] = [
    ("bfloat16", "bfloat16"),
    ("bool", "bool"),
    ("cdouble", "complex128"),
    ("cfloat", "complex64"),
    ("chalf", "complex32"),
    ("complex128", "complex128"),
    ("complex32", "complex32"),
    ("complex64", "complex64"),
    ("double", "float64"),
    ("float", "float32"),
    ("float16", "float16"),
    ("float32", "float32"),
    ("float64", "float64"),
    ("float8_e4m3fn", "float8_e4m3fn"),
    ("float8_e4m3fnuz", "float8_e4m3fnuz"),
    ("float8_e5m2", "float8_e5m2"),
    ("float8_e5m2fnuz", "float8_e5m2fnuz"),
    ("half", "float16"),
    ("int", "int32"),
    ("int16", "int16"),
    ("int32", "int32"),
    ("int64", "int64"),
    ("int8", "int8"),
    ("long", "int64"),
    ("qint32", "qint32"),
    ("qint8", "qint8"),
    ("quint4x2", "quint4x2"),
    ("quint8", "quint8"),
    ("short", "int16"),
    ("uint16", "uint16"),
    ("uint32", "uint32"),
    ("uint64", "uint64"),
    ("uint8", "uint8"),
];

/// Repeating text beyond this is refused.
const MAX_REPEAT: usize = 1 << 20;

/// One call, with what the resolvers need to know about it.
struct Call<'c, 't> {
    evaluator: &'c Evaluator<'t>,
    name: &'c str,
    container: &'c Rc<NodeCursor<'t>>,
    origin: &'c Origin,
}

impl<'t> Evaluator<'t> {
    /// Calls a resolver by its name.
    pub(crate) fn call(
        &self,
        name: &str,
        arguments: Vec<Resolved<'t>>,
        container: &Rc<NodeCursor<'t>>,
        origin: &Origin,
    ) -> Result<Resolved<'t>> {
        Call { evaluator: self, name, container, origin }.run(&arguments)
    }
}

impl<'t> Call<'_, 't> {
    fn run(&self, arguments: &[Resolved<'t>]) -> Result<Resolved<'t>> {
        match self.name {
            "oc.env" => self.env(arguments),
            "oc.select" => self.select(arguments),
            "oc.decode" => self.decode(arguments),
            "oc.create" => self.create(arguments),
            "oc.deprecated" => self.deprecated(arguments),
            "oc.dict.keys" => self.dict_keys(arguments),
            "oc.dict.values" => self.dict_values(arguments),
            "multiply" => self.arithmetic(arguments, multiply),
            "int_div" => self.arithmetic(arguments, int_div),
            "subtract" => self.arithmetic(arguments, subtract),
            "not" => self.not(arguments),
            "torch.dtype" => self.dtype(arguments),
            "now" => self.now(arguments),
            "hydra" => self.hydra(arguments),
            _ => {
                let known = RESOLVERS.iter().map(|name| (*name).to_owned()).collect();
                let kind = ErrorKind::UnknownResolver { name: self.name.to_owned(), known };
                Err(ComposeError::new(kind).maybe_hint(did_you_mean(self.name, RESOLVERS)))
            }
        }
    }

    fn fail<T>(&self, reason: impl Into<String>) -> Result<T> {
        let kind = ErrorKind::Resolver { name: self.name.to_owned(), reason: reason.into() };
        Err(ComposeError::new(kind))
    }

    fn count(&self, arguments: &[Resolved<'t>], least: usize, most: usize) -> Result<()> {
        if (least..=most).contains(&arguments.len()) {
            return Ok(());
        }
        let wanted = if least == most { least.to_string() } else { format!("{least} to {most}") };
        self.fail(format!("takes {wanted} arguments, got {}", arguments.len()))
    }

    fn value(&self, argument: &Resolved<'t>) -> Value {
        self.evaluator.value_of(argument.clone())
    }

    fn key(&self, arguments: &[Resolved<'t>]) -> Result<String> {
        match arguments.first().map(|argument| self.value(argument)) {
            Some(Value::Str(text)) => Ok(text),
            Some(other) => self.fail(format!("takes a string first, got {}", other.a_kind())),
            None => self.fail("takes a string first, got nothing"),
        }
    }

    /// The variable as text, never typed. A default is turned into text too, except `null`.
    fn env(&self, arguments: &[Resolved<'t>]) -> Result<Resolved<'t>> {
        self.count(arguments, 1, 2)?;
        let name = self.key(arguments)?;
        if let Some(value) = self.evaluator.sources.env(&name) {
            return Ok(Resolved::Plain(Value::Str(value)));
        }
        match arguments.get(1) {
            None => Err(ComposeError::new(ErrorKind::MissingEnv { name: name.clone() })
                .or_hint(format!("set it, or give a default: `${{oc.env:{name},default}}`"))),
            Some(Resolved::Plain(Value::Null)) => Ok(Resolved::Plain(Value::Null)),
            Some(Resolved::Node(cursor)) if cursor.node().is_null() => Ok(Resolved::Plain(Value::Null)),
            Some(default) => Ok(Resolved::Plain(Value::Str(as_text(default)))),
        }
    }

    fn lookup(&self, key: &str, strict: bool) -> Result<Selected<'t>> {
        let (start, rest) = self.evaluator.start_of(key, self.container)?;
        self.evaluator.select(&start, &rest, strict)
    }

    fn select(&self, arguments: &[Resolved<'t>]) -> Result<Resolved<'t>> {
        self.count(arguments, 1, 2)?;
        let default = || Ok(arguments.get(1).cloned().unwrap_or(Resolved::Plain(Value::Null)));
        match self.lookup(&self.key(arguments)?, false)? {
            Selected::Resolved(Resolved::Node(cursor)) if cursor.node().is_missing() => default(),
            Selected::Resolved(found) => Ok(found),
            Selected::Absent(..) | Selected::Blocked(_) => default(),
        }
    }

    fn decode(&self, arguments: &[Resolved<'t>]) -> Result<Resolved<'t>> {
        self.count(arguments, 1, 1)?;
        match self.value(&arguments[0]) {
            Value::Null => Ok(Resolved::Plain(Value::Null)),
            Value::Str(text) => {
                let found = self.evaluator.decode(&text, self.container, self.origin)?;
                match found {
                    Resolved::Node(cursor) if !cursor.node().is_container() => {
                        Ok(Resolved::Plain(cursor.node().value.clone()))
                    }
                    found => Ok(found),
                }
            }
            other => self.fail(format!("takes a string or null, got {}", other.a_kind())),
        }
    }

    /// A mapping or a list out of values, or out of YAML text.
    fn create(&self, arguments: &[Resolved<'t>]) -> Result<Resolved<'t>> {
        self.count(arguments, 1, 1)?;
        let node = match self.value(&arguments[0]) {
            Value::Null => return Ok(Resolved::Plain(Value::Null)),
            Value::Str(text) => yaml::parse_created(&text, self.origin)?,
            value @ (Value::Map(_) | Value::List(_)) => Node::new(value, self.origin.clone()),
            other => return self.fail(format!("takes a mapping, a list or YAML, got {}", other.a_kind())),
        };
        Ok(Resolved::Node(NodeCursor::made(node, self.container)))
    }

    fn deprecated(&self, arguments: &[Resolved<'t>]) -> Result<Resolved<'t>> {
        self.count(arguments, 1, 2)?;
        let key = self.key(arguments)?;
        match self.lookup(&key, false)? {
            Selected::Resolved(found) => Ok(found),
            _ => self.fail(format!("key not found: `{key}`")),
        }
    }

    fn dict(&self, arguments: &[Resolved<'t>]) -> Result<(String, Vec<Key>)> {
        self.count(arguments, 1, 1)?;
        let key = self.key(arguments)?;
        match self.lookup(&key, true)? {
            Selected::Resolved(Resolved::Node(cursor)) => match &cursor.node().value {
                Value::Map(map) => Ok((key, map.keys().cloned().collect())),
                other => self.fail(format!("takes the path of a mapping, `{key}` is {}", other.a_kind())),
            },
            Selected::Resolved(Resolved::Plain(value)) => {
                self.fail(format!("takes the path of a mapping, `{key}` is {}", value.a_kind()))
            }
            _ => self.fail(format!("key not found: `{key}`")),
        }
    }

    fn made_list(&self, items: impl Iterator<Item = Value>) -> Resolved<'t> {
        let items = items.map(|value| Node::new(value, self.origin.clone())).collect();
        let list = Node::new(Value::List(items), self.origin.clone());
        Resolved::Node(NodeCursor::made(list, self.container))
    }

    fn dict_keys(&self, arguments: &[Resolved<'t>]) -> Result<Resolved<'t>> {
        let (_, keys) = self.dict(arguments)?;
        Ok(self.made_list(keys.into_iter().map(key_value)))
    }

    /// A list of interpolations, one to each value, so that they stay lazy.
    fn dict_values(&self, arguments: &[Resolved<'t>]) -> Result<Resolved<'t>> {
        let (path, keys) = self.dict(arguments)?;
        // One more dot, because the list is one level further down.
        let path = if path.starts_with('.') { format!(".{path}") } else { path };
        Ok(self.made_list(keys.into_iter().map(|key| Value::Str(format!("${{{path}.{key}}}")))))
    }

    fn arithmetic(
        &self,
        arguments: &[Resolved<'t>],
        operate: fn(&Value, &Value) -> std::result::Result<Value, String>,
    ) -> Result<Resolved<'t>> {
        self.count(arguments, 2, 2)?;
        let (left, right) = (self.value(&arguments[0]), self.value(&arguments[1]));
        match operate(&left, &right) {
            Ok(value) => Ok(Resolved::Plain(value)),
            Err(reason) => self.fail(reason),
        }
    }

    fn not(&self, arguments: &[Resolved<'t>]) -> Result<Resolved<'t>> {
        self.count(arguments, 1, 1)?;
        Ok(Resolved::Plain(Value::Bool(!python::truthy(&self.value(&arguments[0])))))
    }

    /// Torch's dtype objects become the text they print as, such as `torch.bfloat16`.
    fn dtype(&self, arguments: &[Resolved<'t>]) -> Result<Resolved<'t>> {
        self.count(arguments, 1, 1)?;
        let name = self.key(arguments)?;
        match DTYPES.iter().find(|(alias, _)| *alias == name) {
            Some((_, printed)) => Ok(Resolved::Plain(Value::Str(format!("torch.{printed}")))),
            None => self.fail(format!("torch has no dtype `{name}`")).map_err(|error| {
                error.maybe_hint(did_you_mean(&name, DTYPES.iter().map(|(alias, _)| *alias)))
            }),
        }
    }

    fn now(&self, arguments: &[Resolved<'t>]) -> Result<Resolved<'t>> {
        self.count(arguments, 1, 1)?;
        match strftime(&self.key(arguments)?, self.evaluator.sources.now()) {
            Ok(text) => Ok(Resolved::Plain(Value::Str(text))),
            Err(reason) => self.fail(reason),
        }
    }

    /// Reads Hydra's own settings, as far as they mean something here.
    fn hydra(&self, arguments: &[Resolved<'t>]) -> Result<Resolved<'t>> {
        self.count(arguments, 1, 1)?;
        let path = self.key(arguments)?;
        let Some(settings) = self.evaluator.hydra else {
            return self.fail("Hydra's settings are not known before composition is done");
        };
        let inner = Evaluator::new(settings, self.evaluator.sources, None);
        match inner.find(&format!("hydra.{path}")) {
            Some(found) => inner.plain(found, self.origin).map(Resolved::Plain),
            None => self.fail(format!("`hydra.{path}` has no meaning here")).map_err(|error| {
                error.or_hint("runtime.cwd, runtime.choices, job.name, job.config_name and run.dir are known")
            }),
        }
    }
}

fn key_value(key: Key) -> Value {
    match key {
        Key::Str(text) => Value::Str(text),
        Key::Int(number) => Value::Int(number),
        Key::Bool(flag) => Value::Bool(flag),
        Key::Float(bits) => Value::Float(f64::from_bits(bits)),
    }
}

/// A number as Python's arithmetic sees it: booleans are integers.
#[derive(Clone, Copy)]
enum Number {
    Int(i128),
    Float(f64),
}

impl Number {
    fn of(value: &Value) -> Option<Number> {
        match value {
            Value::Bool(flag) => Some(Number::Int(i128::from(*flag))),
            Value::Int(number) => Some(Number::Int(*number)),
            Value::Float(number) => Some(Number::Float(*number)),
            _ => None,
        }
    }

    fn float(self) -> f64 {
        match self {
            Number::Int(number) => number as f64,
            Number::Float(number) => number,
        }
    }
}

type Computed = std::result::Result<Value, String>;

fn unsupported(operator: &str, left: &Value, right: &Value) -> String {
    let (left, right) = (python::type_name(left), python::type_name(right));
    format!("cannot compute {left} {operator} {right}")
}

fn too_large() -> String {
    "the result is too large".to_owned()
}

fn multiply(left: &Value, right: &Value) -> Computed {
    match (Number::of(left), Number::of(right)) {
        (Some(Number::Int(a)), Some(Number::Int(b))) => {
            a.checked_mul(b).map(Value::Int).ok_or_else(too_large)
        }
        (Some(a), Some(b)) => Ok(Value::Float(a.float() * b.float())),
        (Some(Number::Int(times)), None) => {
            repeat(right, times).unwrap_or_else(|| Err(unsupported("*", left, right)))
        }
        (None, Some(Number::Int(times))) => {
            repeat(left, times).unwrap_or_else(|| Err(unsupported("*", left, right)))
        }
        _ => Err(unsupported("*", left, right)),
    }
}

/// Python repeats text when it is multiplied.
fn repeat(value: &Value, times: i128) -> Option<Computed> {
    let Value::Str(text) = value else { return None };
    let times = usize::try_from(times.max(0)).unwrap_or(usize::MAX);
    if text.len().saturating_mul(times) > MAX_REPEAT {
        return Some(Err(too_large()));
    }
    Some(Ok(Value::Str(text.repeat(times))))
}

fn subtract(left: &Value, right: &Value) -> Computed {
    match (Number::of(left), Number::of(right)) {
        (Some(Number::Int(a)), Some(Number::Int(b))) => {
            a.checked_sub(b).map(Value::Int).ok_or_else(too_large)
        }
        (Some(a), Some(b)) => Ok(Value::Float(a.float() - b.float())),
        _ => Err(unsupported("-", left, right)),
    }
}

fn int_div(left: &Value, right: &Value) -> Computed {
    match (Number::of(left), Number::of(right)) {
        (Some(Number::Int(_)), Some(Number::Int(0))) => Err("division by zero".to_owned()),
        (Some(Number::Int(a)), Some(Number::Int(b))) => floor_div(a, b).map(Value::Int).ok_or_else(too_large),
        (Some(_), Some(b)) if b.float() == 0.0 => Err("division by zero".to_owned()),
        (Some(a), Some(b)) => Ok(Value::Float(float_floor_div(a.float(), b.float()))),
        _ => Err(unsupported("//", left, right)),
    }
}

/// Towards minus infinity, as Python rounds.
fn floor_div(a: i128, b: i128) -> Option<i128> {
    let quotient = a.checked_div(b)?;
    let exact = a.checked_rem(b)? == 0;
    Some(if !exact && (a < 0) != (b < 0) { quotient - 1 } else { quotient })
}

/// CPython's own steps, which differ from `(a / b).floor()` when the quotient rounds up.
fn float_floor_div(a: f64, b: f64) -> f64 {
    let remainder = a % b;
    let mut quotient = (a - remainder) / b;
    if remainder != 0.0 && (b < 0.0) != (remainder < 0.0) {
        quotient -= 1.0;
    }
    if quotient == 0.0 {
        return 0.0f64.copysign(a / b);
    }
    let floored = quotient.floor();
    if quotient - floored > 0.5 { floored + 1.0 } else { floored }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn division_rounds_down() {
        assert_eq!(floor_div(7, 2), Some(3));
        assert_eq!(floor_div(-7, 2), Some(-4));
        assert_eq!(floor_div(i128::MIN, -1), None);
        assert_eq!(float_floor_div(7.5, 2.0), 3.0);
        assert_eq!(float_floor_div(-7.5, 2.0), -4.0);
        assert_eq!(float_floor_div(1.0, 0.1), 9.0);
    }
}
