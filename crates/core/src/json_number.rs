//! Numbers in JSON, which has no word for what is not finite.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A number that survives JSON. What is not finite is the text `"NaN"`, `"Infinity"` or `"-Infinity"`: `null` would say
/// that there is no number.
///
/// ```
/// use plaudit_core::JsonNumber;
/// let written = serde_json::to_string(&[1.5, f64::NAN, f64::NEG_INFINITY].map(JsonNumber))?;
/// assert_eq!(written, r#"[1.5,"NaN","-Infinity"]"#);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct JsonNumber(pub f64);

impl JsonNumber {
    /// For `#[serde(serialize_with = "JsonNumber::serialize_f64")]`.
    ///
    /// # Errors
    /// Those of the serializer.
    pub fn serialize_f64<S: Serializer>(number: &f64, serializer: S) -> Result<S::Ok, S::Error> {
        match *number {
            number if number.is_nan() => serializer.serialize_str("NaN"),
            f64::INFINITY => serializer.serialize_str("Infinity"),
            f64::NEG_INFINITY => serializer.serialize_str("-Infinity"),
            number => serializer.serialize_f64(number),
        }
    }
}

impl Serialize for JsonNumber {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Self::serialize_f64(&self.0, serializer)
    }
}

impl<'de> Deserialize<'de> for JsonNumber {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Spelled {
            Finite(f64),
            Word(String),
        }
        match Spelled::deserialize(deserializer)? {
            Spelled::Finite(value) => Ok(Self(value)),
            Spelled::Word(word) => match word.as_str() {
                "NaN" => Ok(Self(f64::NAN)),
                "Infinity" => Ok(Self(f64::INFINITY)),
                "-Infinity" => Ok(Self(f64::NEG_INFINITY)),
                other => Err(D::Error::custom(format!("`{other}` is not a number"))),
            },
        }
    }
}

/// For `#[serde(with)]`: measured numbers.
pub(crate) mod plain {
    use super::{Deserialize, Deserializer, JsonNumber, Serializer};

    pub(crate) fn serialize<S: Serializer>(numbers: &[f64], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(numbers.iter().copied().map(JsonNumber))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<f64>, D::Error> {
        let numbers: Vec<JsonNumber> = Vec::deserialize(deserializer)?;
        Ok(numbers.into_iter().map(|number| number.0).collect())
    }
}

/// The same with the name of each.
pub(crate) mod named {
    use super::{Deserialize, Deserializer, JsonNumber, Serializer};

    type Named = Vec<(String, f64)>;

    pub(crate) fn serialize<S: Serializer>(numbers: &Named, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(numbers.iter().map(|(name, number)| (name, JsonNumber(*number))))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Named, D::Error> {
        let numbers: Vec<(String, JsonNumber)> = Vec::deserialize(deserializer)?;
        Ok(numbers.into_iter().map(|(name, number)| (name, number.0)).collect())
    }
}
