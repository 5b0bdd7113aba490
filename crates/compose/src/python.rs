//! Values as Python prints them. OmegaConf joins strings with `str`, so `lr_${lr}` has to read `lr_1e-05`.

use crate::node::{Key, Node, Value};

/// `str(value)`.
pub(crate) fn text(value: &Value) -> String {
    match value {
        Value::Str(text) => text.clone(),
        other => repr(other),
    }
}

/// `repr(value)`.
pub(crate) fn repr(value: &Value) -> String {
    match value {
        Value::Null => "None".to_owned(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::Int(number) => number.to_string(),
        Value::Float(number) => float(*number),
        Value::Str(text) => quoted(text),
        Value::List(items) => {
            let items: Vec<String> = items.iter().map(|item: &Node| repr(&item.value)).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Map(map) => {
            let items: Vec<String> =
                map.iter().map(|(key, item)| format!("{}: {}", key_repr(key), repr(&item.value))).collect();
            format!("{{{}}}", items.join(", "))
        }
    }
}

fn key_repr(key: &Key) -> String {
    match key {
        Key::Str(text) => quoted(text),
        other => other.to_string(),
    }
}

/// `repr` of a float: the shortest digits that read back, with an exponent below 1e-4 and from 1e16 on.
pub(crate) fn float(number: f64) -> String {
    if number.is_nan() {
        return "nan".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    let scientific = format!("{number:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if number != 0.0 && !(-4..16).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{digits}e{sign}{:02}", exponent.abs());
    }
    let plain = format!("{number}");
    if plain.contains('.') { plain } else { format!("{plain}.0") }
}

/// `repr` of a string: single quotes unless only those occur inside.
fn quoted(text: &str) -> String {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    let mut out = String::with_capacity(text.len() + 2);
    out.push(quote);
    for character in text.chars() {
        match character {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c == quote => {
                out.push('\\');
                out.push(c);
            }
            c if (c as u32) < 0x20 || c as u32 == 0x7f => out.push_str(&format!("\\x{:02x}", c as u32)),
            c => out.push(c),
        }
    }
    out.push(quote);
    out
}

/// `bool(value)`.
pub(crate) fn truthy(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(flag) => *flag,
        Value::Int(number) => *number != 0,
        Value::Float(number) => *number != 0.0,
        Value::Str(text) => !text.is_empty(),
        Value::List(items) => !items.is_empty(),
        Value::Map(map) => !map.is_empty(),
    }
}

/// The name of a value's Python type, as error messages show it.
pub(crate) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "NoneType",
        Value::Bool(_) => "bool",
        Value::Int(_) => "int",
        Value::Float(_) => "float",
        Value::Str(_) => "str",
        Value::List(_) => "list",
        Value::Map(_) => "dict",
    }
}

/// `float(text)` for the spellings Python reads, underscores between digits included.
pub(crate) fn parse_float(text: &str) -> Option<f64> {
    let trimmed = text.trim();
    let cleaned = without_underscores(trimmed)?;
    let unsigned = cleaned.trim_start_matches(['+', '-']).to_ascii_lowercase();
    let named = matches!(unsigned.as_str(), "inf" | "infinity" | "nan");
    if !named && !unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return None;
    }
    cleaned.parse().ok()
}

/// `int(text)` for the decimal spellings Python reads, underscores between digits included.
pub(crate) fn parse_int(text: &str) -> Option<i128> {
    let cleaned = without_underscores(text.trim())?;
    let digits = cleaned.strip_prefix(['+', '-']).unwrap_or(&cleaned);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    cleaned.parse().ok()
}

/// Python allows single underscores between digits and nowhere else.
fn without_underscores(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let fits = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'_').all(|(index, _)| {
        let digit = |at: Option<usize>| at.and_then(|at| bytes.get(at)).is_some_and(u8::is_ascii_digit);
        digit(index.checked_sub(1)) && digit(Some(index + 1))
    });
    fits.then(|| text.replace('_', ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_print_like_python() {
        for (number, expected) in [
            (1.0, "1.0"),
            (0.1, "0.1"),
            (1e-5, "1e-05"),
            (0.0001, "0.0001"),
            (1e16, "1e+16"),
            (123456789012345680.0, "1.2345678901234568e+17"),
            (1e15, "1000000000000000.0"),
            (-0.0, "-0.0"),
            (2.5e-10, "2.5e-10"),
            (1e100, "1e+100"),
            (f64::NAN, "nan"),
            (f64::NEG_INFINITY, "-inf"),
        ] {
            assert_eq!(float(number), expected);
        }
    }

    #[test]
    fn strings_quote_like_python() {
        assert_eq!(quoted("it's"), "\"it's\"");
        assert_eq!(quoted("a\n\"'"), "'a\\n\"\\''");
    }
}
