//! Looking into Python's values, with words for what is not there.

use super::error::FileProblem;
use crate::python::PyValue;

/// The keys of a dict, for a message.
pub(crate) fn of(value: Option<&PyValue>) -> String {
    let Some(dict) = value.and_then(PyValue::as_dict) else { return "nothing".into() };
    let name = |(key, value): (&PyValue, &PyValue)| {
        let none = if *value == PyValue::None { " = None" } else { "" };
        format!("{}{none}", key.as_str().unwrap_or("?"))
    };
    let names: Vec<String> = dict.iter().take(12).map(name).collect();
    if names.is_empty() { "nothing".into() } else { names.join(", ") }
}

/// A value that must be there.
pub(crate) fn need<'a>(value: &'a PyValue, key: &str, place: &str) -> Result<&'a PyValue, FileProblem> {
    if value.as_dict().is_none() {
        return Err(FileProblem::Kind { place: place.into(), expected: "dict", found: value.kind() });
    }
    let missing = || FileProblem::Missing { place: place.into(), key: key.into(), has: of(Some(value)) };
    value.get(key).ok_or_else(missing)
}

/// A list that must be there and have entries.
pub(crate) fn need_list<'a>(value: &'a PyValue, key: &'static str) -> Result<&'a [PyValue], FileProblem> {
    let found = need(value, key, "the file")?;
    match found.as_items() {
        Some([]) => Err(FileProblem::Empty { key }),
        Some(items) => Ok(items),
        None => Err(FileProblem::Kind { place: format!("`{key}`"), expected: "list", found: found.kind() }),
    }
}

/// As `bool(x)` in Python: of numbers, of what can be empty, of None.
pub(crate) fn truth(value: &PyValue, place: impl Fn() -> String) -> Result<bool, FileProblem> {
    match value {
        PyValue::None => Ok(false),
        PyValue::Str(text) => Ok(!text.is_empty()),
        PyValue::List(items) | PyValue::Tuple(items) => Ok(!items.is_empty()),
        PyValue::Dict(dict) => Ok(!dict.is_empty()),
        other => other.to_bool().ok_or_else(|| not_one(other, "truth", place())),
    }
}

/// As `float(x)`, finite.
pub(crate) fn number(value: &PyValue, place: impl Fn() -> String) -> Result<f64, FileProblem> {
    match value.to_f64() {
        Some(number) if number.is_finite() => Ok(number),
        Some(number) => {
            Err(FileProblem::NotOne { place: place(), expected: "finite number", found: number.to_string() })
        }
        None => Err(not_one(value, "number", place())),
    }
}

fn not_one(value: &PyValue, expected: &'static str, place: String) -> FileProblem {
    let found = match value.as_array() {
        Some(array) => format!("a {} of shape {:?}", value.kind(), array.shape()),
        None => format!("a {}", value.kind()),
    };
    FileProblem::NotOne { place, expected, found }
}
