//! Looking into Python's values, with words for what is not there.

use plaudit_core::End;
use plaudit_pyfiles::PyValue;

use super::problem::FileProblem;

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
pub(crate) fn need<'a>(value: &'a PyValue, key: &str, location: &str) -> Result<&'a PyValue, FileProblem> {
    if value.as_dict().is_none() {
        return Err(FileProblem::Kind { location: location.into(), expected: "dict", found: value.kind() });
    }
    let missing =
        || FileProblem::Missing { location: location.into(), key: key.into(), has: of(Some(value)) };
    value.get(key).ok_or_else(missing)
}

/// A list that must be there and have entries.
pub(crate) fn need_list<'a>(value: &'a PyValue, key: &'static str) -> Result<&'a [PyValue], FileProblem> {
    let found = need(value, key, "the file")?;
    match found.as_items() {
        Some([]) => Err(FileProblem::Empty { key }),
        Some(items) => Ok(items),
        None => {
            Err(FileProblem::Kind { location: format!("`{key}`"), expected: "list", found: found.kind() })
        }
    }
}

/// As `bool(x)` in Python: of numbers, of what can be empty, of None.
pub(crate) fn to_bool(value: &PyValue, location: impl Fn() -> String) -> Result<bool, FileProblem> {
    match value {
        PyValue::None => Ok(false),
        PyValue::Str(text) => Ok(!text.is_empty()),
        PyValue::List(items) | PyValue::Tuple(items) => Ok(!items.is_empty()),
        PyValue::Dict(dict) => Ok(!dict.is_empty()),
        other => other.to_bool().ok_or_else(|| not_one(other, "bool", location())),
    }
}

/// A label: 0 or 1, `False` or `True`, or None for a failure. Anything else is no label, whatever `bool(x)` says of it.
pub(crate) fn label(value: &PyValue, location: impl Fn() -> String) -> Result<bool, FileProblem> {
    match value {
        PyValue::None => Ok(false),
        other => match other.to_f64() {
            Some(number) => zero_or_one(number).ok_or_else(|| not_a_label(number, location())),
            None => Err(not_one(other, "bool", location())),
        },
    }
}

/// The label that a number is.
pub(crate) fn zero_or_one(number: f64) -> Option<bool> {
    (number == 0.0 || number == 1.0).then_some(number == 1.0)
}

/// A number that is no label.
pub(crate) fn not_a_label(number: f64, location: String) -> FileProblem {
    FileProblem::Label { location, found: number.to_string() }
}

/// As `float(x)`, finite.
pub(crate) fn number(value: &PyValue, location: impl Fn() -> String) -> Result<f64, FileProblem> {
    match value.to_f64() {
        Some(number) if number.is_finite() => Ok(number),
        Some(number) => Err(FileProblem::NotOne {
            location: location(),
            expected: "finite number",
            found: number.to_string(),
        }),
        None => Err(not_one(value, "number", location())),
    }
}

fn not_one(value: &PyValue, expected: &'static str, location: String) -> FileProblem {
    let found = match value.as_array() {
        Some(array) => format!("a {} of shape {:?}", value.kind(), array.shape()),
        None => format!("a {}", value.kind()),
    };
    FileProblem::NotOne { location, expected, found }
}

/// 0 or 1 where something is said.
pub(crate) fn known_label(
    value: Option<&PyValue>,
    location: impl Fn() -> String,
) -> Result<Option<bool>, FileProblem> {
    match value {
        None | Some(PyValue::None) => Ok(None),
        Some(value) => label(value, location).map(Some),
    }
}

/// A list that may be there.
pub(crate) fn items<'a>(value: &'a PyValue, key: &str) -> &'a [PyValue] {
    value.get(key).and_then(PyValue::as_items).unwrap_or_default()
}

/// A number; NaN where it is none.
pub(crate) fn number_or_nan(value: &PyValue) -> f64 {
    value.to_f64().unwrap_or(f64::NAN)
}

/// A number for each entry of a list or row of an array; none where there is neither.
pub(crate) fn column(value: Option<&PyValue>) -> Vec<f64> {
    match value.map(|value| (value.as_items(), value.as_array())) {
        Some((Some(items), _)) => items.iter().map(number_or_nan).collect(),
        Some((None, Some(array))) => {
            let rows = (0..array.shape().first().copied().unwrap_or(0)).filter_map(|at| array.row(at));
            rows.map(|row| number_or_nan(&row.into())).collect()
        }
        _ => Vec::new(),
    }
}

/// How a step ended.
pub(crate) fn end(terminated: bool, truncated: bool) -> End {
    match (terminated, truncated) {
        (true, _) => End::Terminated,
        (false, true) => End::Truncated,
        (false, false) => End::No,
    }
}

/// A list of labels, or an array of them: all 0 or 1.
pub(crate) fn zeros_and_ones(value: &PyValue) -> Result<Vec<bool>, FileProblem> {
    let location = |at: usize| format!("labels[{at}]");
    if let Some(items) = value.as_items() {
        let label = |(at, item): (usize, &PyValue)| match item {
            PyValue::None => Err(FileProblem::Label { location: location(at), found: "None".into() }),
            item => label(item, || location(at)),
        };
        return items.iter().enumerate().map(label).collect();
    }
    let kind = || FileProblem::Kind { location: "`labels`".into(), expected: "list", found: value.kind() };
    let numbers = value.as_array().and_then(plaudit_pyfiles::Array::to_f64).ok_or_else(kind)?;
    let label = |(at, number)| zero_or_one(number).ok_or_else(|| not_a_label(number, location(at)));
    numbers.into_iter().enumerate().map(label).collect()
}

/// A list of arrays, or one array of all.
pub(crate) fn arrays(value: &PyValue) -> Option<Vec<plaudit_pyfiles::Array>> {
    match value.as_items() {
        Some(items) => items.iter().map(|item| item.as_array().cloned()).collect(),
        None => {
            let stack = value.as_array()?;
            (0..*stack.shape().first()?).map(|at| stack.row(at)).collect()
        }
    }
}
