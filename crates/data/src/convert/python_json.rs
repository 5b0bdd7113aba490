//! JSON as Python's `json.dumps(..., ensure_ascii=False)` writes it, byte for byte.

use std::io;

use serde::Serialize;
use serde_json::ser::{Formatter, PrettyFormatter, Serializer};

/// On one line: `{"a": 1, "b": [1.5, 1e-05]}`.
pub(crate) fn line(value: &impl Serialize) -> serde_json::Result<String> {
    let mut bytes = Vec::new();
    value.serialize(&mut Serializer::with_formatter(&mut bytes, Line))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// On many lines, indented by two spaces, as with `indent=2`.
pub(crate) fn page(value: &impl Serialize) -> serde_json::Result<String> {
    let mut bytes = Vec::new();
    value.serialize(&mut Serializer::with_formatter(&mut bytes, Page(PrettyFormatter::new())))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

struct Line;

impl Formatter for Line {
    fn write_f32<W: ?Sized + io::Write>(&mut self, writer: &mut W, value: f32) -> io::Result<()> {
        write_f32(writer, value)
    }

    fn write_f64<W: ?Sized + io::Write>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        writer.write_all(float(value).as_bytes())
    }

    fn begin_array_value<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_key<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }
}

struct Page(PrettyFormatter<'static>);

/// Python has one kind of float, and so do these files.
fn write_f32<W: ?Sized + io::Write>(writer: &mut W, value: f32) -> io::Result<()> {
    writer.write_all(float(f64::from(value)).as_bytes())
}

macro_rules! as_pretty {
    ($($name:ident $(($argument:ident: $kind:ty))?),* $(,)?) => {$(
        fn $name<W: ?Sized + io::Write>(&mut self, writer: &mut W $(, $argument: $kind)?) -> io::Result<()> {
            self.0.$name(writer $(, $argument)?)
        }
    )*};
}

impl Formatter for Page {
    fn write_f32<W: ?Sized + io::Write>(&mut self, writer: &mut W, value: f32) -> io::Result<()> {
        write_f32(writer, value)
    }

    fn write_f64<W: ?Sized + io::Write>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        writer.write_all(float(value).as_bytes())
    }

    as_pretty! {
        begin_array, end_array, begin_array_value(first: bool), end_array_value, begin_object, end_object,
        begin_object_key(first: bool), begin_object_value, end_object_value,
    }
}

/// As `repr(x)`: the fewest digits that give the number back, with an exponent below 1e-4 and from 1e16 on.
pub(crate) fn float(value: f64) -> String {
    if !value.is_finite() {
        let name = if value.is_nan() { "NaN" } else { "Infinity" };
        return if value < 0.0 { format!("-{name}") } else { name.into() };
    }
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..16).contains(&exponent) {
        return format!("{value:?}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What Python's `json` prints of every number, by its bits.
    const PYTHON: &str = include_str!("../../tests/convert/python_floats.txt");

    #[test]
    fn floats_look_as_in_python() {
        let cases: Vec<(u64, &str)> = PYTHON
            .lines()
            .map(|case| case.split_once(' ').unwrap())
            .map(|(bits, text)| (u64::from_str_radix(bits, 16).unwrap(), text))
            .collect();
        assert!(cases.len() > 500, "{}", cases.len());
        for (bits, text) in cases {
            let value = f64::from_bits(bits);
            assert_eq!(float(value), text);
            if value.is_finite() {
                assert_eq!(line(&value).unwrap(), text);
                assert_eq!(page(&serde_json::json!([value])).unwrap(), format!("[\n  {text}\n]"));
                if f64::from(value as f32) == value {
                    assert_eq!(line(&(value as f32)).unwrap(), text);
                }
            }
        }
    }

    #[test]
    fn text_stays_text() {
        let value = serde_json::json!({"a": "é\u{1}\n\"/\u{7f}", "b": [], "c": {}, "d": [1, null, true]});
        assert_eq!(
            line(&value).unwrap(),
            "{\"a\": \"é\\u0001\\n\\\"/\u{7f}\", \"b\": [], \"c\": {}, \"d\": [1, null, true]}"
        );
        assert_eq!(
            page(&serde_json::json!({"a": [1, 2.0], "b": {}})).unwrap(),
            "{\n  \"a\": [\n    1,\n    2.0\n  ],\n  \"b\": {}\n}"
        );
    }
}
