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

macro_rules! as_pretty {
    ($($name:ident $(($argument:ident: $kind:ty))?),* $(,)?) => {$(
        fn $name<W: ?Sized + io::Write>(&mut self, writer: &mut W $(, $argument: $kind)?) -> io::Result<()> {
            self.0.$name(writer $(, $argument)?)
        }
    )*};
}

impl Formatter for Page {
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

    #[test]
    fn floats_look_as_in_python() {
        let check = |value: f64, expected: &str| assert_eq!(float(value), expected);
        check(0.0, "0.0");
        check(-0.0, "-0.0");
        check(0.1, "0.1");
        check(1e-4, "0.0001");
        check(1e-5, "1e-05");
        check(1.5e-7, "1.5e-07");
        check(0.05000000074505806, "0.05000000074505806");
        check(1e15, "1000000000000000.0");
        check(1e16, "1e+16");
        check(123456789012345680.0, "1.2345678901234568e+17");
        check(1e300, "1e+300");
        check(f64::NAN, "NaN");
        check(f64::NEG_INFINITY, "-Infinity");
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
