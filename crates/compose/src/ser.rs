//! A tree as serde sees it: plain values, places left out.

use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};

use crate::node::{Key, Node, Value};

impl Serialize for Node {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.value.serialize(serializer)
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Value::Null => serializer.serialize_unit(),
            Value::Bool(flag) => serializer.serialize_bool(*flag),
            Value::Int(number) => serialize_int(*number, serializer),
            Value::Float(number) => serializer.serialize_f64(*number),
            Value::Str(text) => serializer.serialize_str(text),
            Value::List(items) => {
                let mut list = serializer.serialize_seq(Some(items.len()))?;
                for item in items {
                    list.serialize_element(item)?;
                }
                list.end()
            }
            Value::Map(map) => {
                let mut out = serializer.serialize_map(Some(map.len()))?;
                for (key, value) in map {
                    out.serialize_entry(key, value)?;
                }
                out.end()
            }
        }
    }
}

impl Serialize for Key {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Key::Str(text) => serializer.serialize_str(text),
            Key::Int(number) => serialize_int(*number, serializer),
            Key::Bool(flag) => serializer.serialize_bool(*flag),
            Key::Float(bits) => serializer.serialize_f64(f64::from_bits(*bits)),
        }
    }
}

/// The narrow types first: many formats do not know 128-bit integers.
fn serialize_int<S: Serializer>(number: i128, serializer: S) -> Result<S::Ok, S::Error> {
    if let Ok(narrow) = i64::try_from(number) {
        serializer.serialize_i64(narrow)
    } else if let Ok(narrow) = u64::try_from(number) {
        serializer.serialize_u64(narrow)
    } else {
        serializer.serialize_i128(number)
    }
}
