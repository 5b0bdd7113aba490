//! Typed values out of a tree, with errors that say which key, where, and what was expected.
//!
//! Strict on purpose: text is never a number and a number is never text. The one widening is that an integer
//! may stand where a float is asked for.

use std::cell::RefCell;
use std::fmt;

use serde::de::{
    self, Deserialize, DeserializeSeed, Deserializer, EnumAccess, Error as _, Expected, IntoDeserializer,
    MapAccess, SeqAccess, Unexpected, VariantAccess, Visitor,
};

use crate::error::{ComposeError, ErrorKind, Result, did_you_mean};
use crate::node::{Key, Node, Origin, Value};

/// Reads a typed value from a tree.
///
/// ```
/// use plaudit_compose::{from_node, parse_yaml};
///
/// #[derive(serde::Deserialize)]
/// #[serde(deny_unknown_fields)]
/// struct Optim {
///     lr: f64,
/// }
///
/// let node = parse_yaml("optim.yaml", "lr: 1e-4").unwrap();
/// assert_eq!(from_node::<Optim>(&node).unwrap().lr, 1e-4);
///
/// let node = parse_yaml("optim.yaml", "lr: 1e-4\nlrr: 2").unwrap();
/// let error = from_node::<Optim>(&node).err().unwrap();
/// assert_eq!(error.key(), Some("lrr"));
/// assert_eq!(error.hint(), Some("did you mean `lr`?"));
/// ```
pub fn from_node<'n, T: Deserialize<'n>>(node: &'n Node) -> Result<T> {
    T::deserialize(node)
}

impl de::Error for ComposeError {
    fn custom<M: fmt::Display>(message: M) -> Self {
        ComposeError::new(ErrorKind::Invalid { message: message.to_string() })
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        let (expected, found) = (in_plain_words(&expected.to_string()), describe(found));
        ComposeError::new(ErrorKind::WrongType { expected, found })
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        ComposeError::invalid_type(found, expected)
    }

    fn invalid_length(length: usize, expected: &dyn Expected) -> Self {
        let found = format!("a list of {length}");
        ComposeError::new(ErrorKind::WrongType { expected: in_plain_words(&expected.to_string()), found })
    }

    fn unknown_variant(variant: &str, expected: &'static [&'static str]) -> Self {
        let names: Vec<String> = expected.iter().map(|name| format!("`{name}`")).collect();
        let kind = ErrorKind::WrongType {
            expected: format!("one of {}", names.join(", ")),
            found: format!("`{variant}`"),
        };
        ComposeError::new(kind).maybe_hint(did_you_mean(variant, expected.iter().copied()))
    }

    fn unknown_field(field: &str, expected: &'static [&'static str]) -> Self {
        let known = expected.iter().map(|name| (*name).to_owned()).collect();
        let kind = ErrorKind::UnknownKey { key: field.to_owned(), known };
        ComposeError::new(kind).maybe_hint(did_you_mean(field, expected.iter().copied()))
    }

    fn missing_field(field: &'static str) -> Self {
        ComposeError::new(ErrorKind::MissingField { field: field.to_owned() })
    }
}

/// serde speaks of types; people think of numbers and lists.
fn in_plain_words(expected: &str) -> String {
    match expected {
        "u8" | "u16" | "u32" | "u64" | "u128" | "usize" => "a whole number, 0 or more".into(),
        "i8" | "i16" | "i32" | "i64" | "i128" | "isize" => "a whole number".into(),
        "f32" | "f64" => "a number".into(),
        "a boolean" => "true or false".into(),
        "a string" => "text".into(),
        "a sequence" => "a list".into(),
        "a map" => "a block of keys".into(),
        other if other.starts_with("struct ") => "a block of keys".into(),
        other => match other.strip_prefix("an array of length ") {
            Some(length) => format!("a list of {length}"),
            None => other.into(),
        },
    }
}

fn describe(found: Unexpected<'_>) -> String {
    match found {
        Unexpected::Bool(flag) => format!("`{flag}`"),
        Unexpected::Signed(number) => format!("`{number}`"),
        Unexpected::Unsigned(number) => format!("`{number}`"),
        Unexpected::Float(number) => format!("`{number:?}`"),
        Unexpected::Str(text) => format!("the text `{text}`"),
        Unexpected::Seq => "a list".into(),
        Unexpected::Map => "a block of keys".into(),
        other => other.to_string(),
    }
}

fn unexpected(value: &Value) -> Unexpected<'_> {
    match value {
        Value::Null => Unexpected::Other("null"),
        Value::Bool(flag) => Unexpected::Bool(*flag),
        Value::Int(number) => match i64::try_from(*number) {
            Ok(narrow) => Unexpected::Signed(narrow),
            Err(_) => Unexpected::Other("a very large integer"),
        },
        Value::Float(number) => Unexpected::Float(*number),
        Value::Str(text) => Unexpected::Str(text),
        Value::List(_) => Unexpected::Other("a list"),
        Value::Map(_) => Unexpected::Other("a mapping"),
    }
}

impl Node {
    fn refuse<T>(&self, expected: &dyn Expected) -> Result<T> {
        if self.is_missing() {
            return Err(ComposeError::at(ErrorKind::MandatoryMissing, &self.origin));
        }
        Err(ComposeError::invalid_type(unexpected(&self.value), expected).or_origin(&self.origin))
    }

    fn visit_any<'n, V: Visitor<'n>>(&'n self, visitor: V) -> Result<V::Value> {
        match &self.value {
            Value::Null => visitor.visit_unit(),
            Value::Bool(flag) => visitor.visit_bool(*flag),
            Value::Int(number) => visit_int(*number, visitor),
            Value::Float(number) => visitor.visit_f64(*number),
            Value::Str(text) => visitor.visit_borrowed_str(text),
            Value::List(items) => visit_list(items, visitor),
            Value::Map(map) => visitor.visit_map(MapReader { entries: map.iter(), value: None }),
        }
    }
}

fn visit_int<'n, V: Visitor<'n>>(number: i128, visitor: V) -> Result<V::Value> {
    if let Ok(narrow) = i64::try_from(number) {
        visitor.visit_i64(narrow)
    } else if let Ok(narrow) = u64::try_from(number) {
        visitor.visit_u64(narrow)
    } else {
        visitor.visit_i128(number)
    }
}

fn visit_list<'n, V: Visitor<'n>>(items: &'n [Node], visitor: V) -> Result<V::Value> {
    let mut reader = ListReader { items: items.iter(), index: 0 };
    let value = visitor.visit_seq(&mut reader)?;
    if reader.items.len() > 0 {
        return Err(ComposeError::invalid_length(items.len(), &"fewer items"));
    }
    Ok(value)
}

/// Reads one kind of scalar and refuses the rest.
macro_rules! only {
    ($($method:ident => $($pattern:pat => $visit:expr),+;)+) => {
        $(fn $method<V: Visitor<'n>>(self, visitor: V) -> Result<V::Value> {
            let result = match &self.value {
                $($pattern if !self.is_missing() => $visit(visitor),)+
                _ => return self.refuse(&visitor),
            };
            result.map_err(|error: ComposeError| error.or_origin(&self.origin))
        })+
    };
}

impl<'n> Deserializer<'n> for &'n Node {
    type Error = ComposeError;

    fn deserialize_any<V: Visitor<'n>>(self, visitor: V) -> Result<V::Value> {
        self.visit_any(visitor).map_err(|error| error.or_origin(&self.origin))
    }

    only! {
        deserialize_bool => Value::Bool(flag) => |v: V| v.visit_bool(*flag);
        deserialize_i8 => Value::Int(n) => |v: V| visit_int(*n, v);
        deserialize_i16 => Value::Int(n) => |v: V| visit_int(*n, v);
        deserialize_i32 => Value::Int(n) => |v: V| visit_int(*n, v);
        deserialize_i64 => Value::Int(n) => |v: V| visit_int(*n, v);
        deserialize_i128 => Value::Int(n) => |v: V| visit_int(*n, v);
        deserialize_u8 => Value::Int(n) => |v: V| visit_int(*n, v);
        deserialize_u16 => Value::Int(n) => |v: V| visit_int(*n, v);
        deserialize_u32 => Value::Int(n) => |v: V| visit_int(*n, v);
        deserialize_u64 => Value::Int(n) => |v: V| visit_int(*n, v);
        deserialize_u128 => Value::Int(n) => |v: V| visit_int(*n, v);
        deserialize_f32 => Value::Float(n) => |v: V| v.visit_f64(*n), Value::Int(n) => |v: V| v.visit_f64(*n as f64);
        deserialize_f64 => Value::Float(n) => |v: V| v.visit_f64(*n), Value::Int(n) => |v: V| v.visit_f64(*n as f64);
        deserialize_char => Value::Str(text) => |v: V| v.visit_borrowed_str(text);
        deserialize_str => Value::Str(text) => |v: V| v.visit_borrowed_str(text);
        deserialize_string => Value::Str(text) => |v: V| v.visit_borrowed_str(text);
        deserialize_identifier => Value::Str(text) => |v: V| v.visit_borrowed_str(text);
        deserialize_bytes => Value::Str(text) => |v: V| v.visit_borrowed_bytes(text.as_bytes());
        deserialize_byte_buf => Value::Str(text) => |v: V| v.visit_borrowed_bytes(text.as_bytes());
        deserialize_unit => Value::Null => |v: V| v.visit_unit();
        deserialize_seq => Value::List(items) => |v: V| visit_list(items, v);
        deserialize_map => Value::Map(map) => |v: V| v.visit_map(MapReader { entries: map.iter(), value: None });
    }

    fn deserialize_option<V: Visitor<'n>>(self, visitor: V) -> Result<V::Value> {
        if self.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_unit_struct<V: Visitor<'n>>(self, _: &'static str, visitor: V) -> Result<V::Value> {
        self.deserialize_unit(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'n>>(self, name: &'static str, visitor: V) -> Result<V::Value> {
        if name == WHOLE_NODE {
            HANDOVER.with_borrow_mut(|slot| *slot = Some(self.clone()));
            return visitor.visit_unit();
        }
        visitor.visit_newtype_struct(self).map_err(|error: ComposeError| error.or_origin(&self.origin))
    }

    fn deserialize_tuple<V: Visitor<'n>>(self, _: usize, visitor: V) -> Result<V::Value> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'n>>(
        self,
        _: &'static str,
        _: usize,
        visitor: V,
    ) -> Result<V::Value> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_struct<V: Visitor<'n>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value> {
        self.deserialize_map(visitor)
    }

    fn deserialize_enum<V: Visitor<'n>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value> {
        let result = match &self.value {
            Value::Str(text) if !self.is_missing() => visitor.visit_enum(text.as_str().into_deserializer()),
            Value::Map(map) if map.len() == 1 => visitor.visit_enum(EnumReader { node: self }),
            _ => return self.refuse(&visitor),
        };
        result.map_err(|error: ComposeError| error.or_origin(&self.origin))
    }

    fn deserialize_ignored_any<V: Visitor<'n>>(self, visitor: V) -> Result<V::Value> {
        visitor.visit_unit()
    }
}

struct ListReader<'n> {
    items: std::slice::Iter<'n, Node>,
    index: usize,
}

impl<'n> SeqAccess<'n> for &mut ListReader<'n> {
    type Error = ComposeError;

    fn next_element_seed<S: DeserializeSeed<'n>>(&mut self, seed: S) -> Result<Option<S::Value>> {
        let Some(item) = self.items.next() else { return Ok(None) };
        let step = format!("[{}]", self.index);
        self.index += 1;
        seed.deserialize(item).map(Some).map_err(|error| error.under(&step, &item.origin))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.items.len())
    }
}

struct MapReader<'n> {
    entries: indexmap::map::Iter<'n, Key, Node>,
    value: Option<(&'n Key, &'n Node)>,
}

impl<'n> MapAccess<'n> for MapReader<'n> {
    type Error = ComposeError;

    fn next_key_seed<S: DeserializeSeed<'n>>(&mut self, seed: S) -> Result<Option<S::Value>> {
        let Some((key, value)) = self.entries.next() else { return Ok(None) };
        self.value = Some((key, value));
        let reader = KeyReader { key, origin: &value.origin };
        seed.deserialize(reader).map(Some).map_err(|error| error.under(&key.to_string(), &value.origin))
    }

    fn next_value_seed<S: DeserializeSeed<'n>>(&mut self, seed: S) -> Result<S::Value> {
        let Some((key, value)) = self.value.take() else {
            return Err(ComposeError::custom("a value was asked for before its key"));
        };
        seed.deserialize(value).map_err(|error| error.under(&key.to_string(), &value.origin))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.entries.len())
    }
}

struct KeyReader<'n> {
    key: &'n Key,
    origin: &'n Origin,
}

impl<'n> Deserializer<'n> for KeyReader<'n> {
    type Error = ComposeError;

    fn deserialize_any<V: Visitor<'n>>(self, visitor: V) -> Result<V::Value> {
        let result = match self.key {
            Key::Str(text) => visitor.visit_borrowed_str(text),
            Key::Int(number) => visit_int(*number, visitor),
            Key::Bool(flag) => visitor.visit_bool(*flag),
            Key::Float(bits) => visitor.visit_f64(f64::from_bits(*bits)),
        };
        result.map_err(|error: ComposeError| error.or_origin(self.origin))
    }

    fn deserialize_newtype_struct<V: Visitor<'n>>(self, _: &'static str, visitor: V) -> Result<V::Value> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'n>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value> {
        match self.key {
            Key::Str(text) => visitor.visit_enum(text.as_str().into_deserializer()),
            other => Err(ComposeError::invalid_type(Unexpected::Other(&other.to_string()), &visitor)),
        }
    }

    serde::forward_to_deserialize_any! {
        <V: Visitor<'n>>
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit
        unit_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}

/// An externally tagged enum: a mapping with the variant as its only key.
struct EnumReader<'n> {
    node: &'n Node,
}

struct VariantReader<'n> {
    key: &'n Key,
    value: &'n Node,
}

impl<'n> EnumAccess<'n> for EnumReader<'n> {
    type Error = ComposeError;
    type Variant = VariantReader<'n>;

    fn variant_seed<S: DeserializeSeed<'n>>(self, seed: S) -> Result<(S::Value, Self::Variant)> {
        let Some((key, value)) = self.node.as_map().and_then(|map| map.iter().next()) else {
            return self.node.refuse(&"a mapping with one key");
        };
        let variant = seed.deserialize(KeyReader { key, origin: &value.origin })?;
        Ok((variant, VariantReader { key, value }))
    }
}

impl<'n> VariantReader<'n> {
    fn under<T>(&self, result: Result<T>) -> Result<T> {
        result.map_err(|error| error.under(&self.key.to_string(), &self.value.origin))
    }
}

impl<'n> VariantAccess<'n> for VariantReader<'n> {
    type Error = ComposeError;

    fn unit_variant(self) -> Result<()> {
        self.under(<()>::deserialize(self.value))
    }

    fn newtype_variant_seed<S: DeserializeSeed<'n>>(self, seed: S) -> Result<S::Value> {
        self.under(seed.deserialize(self.value))
    }

    fn tuple_variant<V: Visitor<'n>>(self, _: usize, visitor: V) -> Result<V::Value> {
        self.under(self.value.deserialize_seq(visitor))
    }

    fn struct_variant<V: Visitor<'n>>(self, _: &'static [&'static str], visitor: V) -> Result<V::Value> {
        self.under(self.value.deserialize_map(visitor))
    }
}

/// The name under which a `Node` asks for itself.
const WHOLE_NODE: &str = "$plaudit::Node";

thread_local! {
    /// Serde has no way to pass a whole node through a visitor, so it is left here for a moment.
    static HANDOVER: RefCell<Option<Node>> = const { RefCell::new(None) };
}

/// A field of type [`Node`] keeps its part of the tree as it is, places included. From other formats, the
/// values come without places.
impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_newtype_struct(WHOLE_NODE, NodeVisitor)
    }
}

struct NodeVisitor;

impl NodeVisitor {
    fn node(value: Value) -> Node {
        Node::new(value, Origin::new("", 0, 0))
    }
}

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_unit<E: de::Error>(self) -> Result<Node, E> {
        Ok(HANDOVER.take().unwrap_or_else(|| Self::node(Value::Null)))
    }

    fn visit_none<E: de::Error>(self) -> Result<Node, E> {
        Ok(Self::node(Value::Null))
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_bool<E: de::Error>(self, flag: bool) -> Result<Node, E> {
        Ok(Self::node(Value::Bool(flag)))
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Node, E> {
        Ok(Self::node(Value::Int(number.into())))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Node, E> {
        Ok(Self::node(Value::Int(number.into())))
    }

    fn visit_i128<E: de::Error>(self, number: i128) -> Result<Node, E> {
        Ok(Self::node(Value::Int(number)))
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Node, E> {
        Ok(Self::node(Value::Float(number)))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Node, E> {
        Ok(Self::node(Value::Str(text.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Node, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Self::node(Value::List(list)))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Node, A::Error> {
        let mut map = crate::node::Map::new();
        while let Some((key, value)) = entries.next_entry::<String, Node>()? {
            map.insert(Key::Str(key), value);
        }
        Ok(Self::node(Value::Map(map)))
    }
}
