//! Plain scalars as OmegaConf's loader types them: YAML 1.1 with a wider rule for floats and no dates.

use crate::node::Value;
use crate::python;

const TRUE: [&str; 9] = ["yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"];
const FALSE: [&str; 9] = ["no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"];
const NULL: [&str; 5] = ["", "~", "null", "Null", "NULL"];

/// The value of an unquoted scalar without a tag. `Err` says why a scalar that looks typed has no value.
pub(crate) fn plain(text: &str) -> Result<Value, String> {
    if NULL.contains(&text) {
        return Ok(Value::Null);
    }
    if let Some(flag) = boolean(text) {
        return Ok(Value::Bool(flag));
    }
    if text == "=" || text == "<<" {
        return Err(format!("`{text}` has a special meaning in YAML; put it in quotes"));
    }
    if looks_float(text) {
        return float(text).map(Value::Float);
    }
    if looks_int(text) {
        return int(text).map(Value::Int);
    }
    Ok(Value::Str(text.to_owned()))
}

/// The value of a scalar with one of YAML's own tags, such as `!!float 1`.
pub(crate) fn tagged(suffix: &str, text: &str) -> Result<Value, String> {
    match suffix {
        "str" => Ok(Value::Str(text.to_owned())),
        "null" => Ok(Value::Null),
        "bool" => match boolean(&text.to_ascii_lowercase()) {
            Some(flag) => Ok(Value::Bool(flag)),
            None => Err(format!("`{text}` is not a boolean")),
        },
        "int" => int(text).map(Value::Int),
        "float" => float(text).map(Value::Float),
        other => Err(format!("the tag `!!{other}` is not supported on a scalar")),
    }
}

fn boolean(text: &str) -> Option<bool> {
    if TRUE.contains(&text) {
        Some(true)
    } else if FALSE.contains(&text) {
        Some(false)
    } else {
        None
    }
}

fn unsigned(text: &str) -> &str {
    text.strip_prefix(['+', '-']).unwrap_or(text)
}

fn all(text: &str, accepts: impl Fn(u8) -> bool) -> bool {
    !text.is_empty() && text.bytes().all(accepts)
}

fn is_digit_or_underscore(byte: u8) -> bool {
    byte.is_ascii_digit() || byte == b'_'
}

/// `0b1`, `017`, `0`, `1_000`, `0x1F` or `12:30:45`.
fn looks_int(text: &str) -> bool {
    let body = unsigned(text);
    if let Some(bits) = body.strip_prefix("0b") {
        return all(bits, |b| matches!(b, b'0' | b'1' | b'_'));
    }
    if let Some(hex) = body.strip_prefix("0x") {
        return all(hex, |b| b.is_ascii_hexdigit() || b == b'_');
    }
    if let Some(octal) = body.strip_prefix('0') {
        return octal.is_empty() || all(octal, |b| matches!(b, b'0'..=b'7' | b'_'));
    }
    let mut parts = body.split(':');
    let head = parts.next().unwrap_or("");
    all(head, is_digit_or_underscore) && !head.starts_with('_') && parts.all(is_sexagesimal_digit)
}

/// One `:30` of `12:30`.
fn is_sexagesimal_digit(part: &str) -> bool {
    match part.as_bytes() {
        [ones] => ones.is_ascii_digit(),
        [tens, ones] => matches!(tens, b'0'..=b'5') && ones.is_ascii_digit(),
        _ => false,
    }
}

/// The loader's two float rules, PyYAML's and OmegaConf's, as one.
fn looks_float(text: &str) -> bool {
    let body = unsigned(text);
    if matches!(body, ".inf" | ".Inf" | ".INF") || matches!(text, ".nan" | ".NaN" | ".NAN") {
        return true;
    }
    if let Some(fraction) = text.strip_prefix('.') {
        return leading_dot_float(fraction);
    }
    if !body.starts_with(|c: char| c.is_ascii_digit()) {
        return false;
    }
    match body.split_once('.') {
        Some((whole, rest)) => pointed_float(whole, rest),
        None => exponent_float(body),
    }
}

/// What follows the dot in `.5` or `.5e+3`; the exponent needs its sign here.
fn leading_dot_float(fraction: &str) -> bool {
    let (digits, exponent) = split_exponent(fraction);
    fraction.starts_with(|c: char| c.is_ascii_digit())
        && all(digits, is_digit_or_underscore)
        && exponent.is_none_or(|e| e.starts_with(['+', '-']) && all(unsigned(e), |b| b.is_ascii_digit()))
}

/// `1.`, `1.5`, `1_0.5e3` or `1:30.5`.
fn pointed_float(whole: &str, rest: &str) -> bool {
    if whole.contains(':') {
        let mut parts = whole.split(':');
        let head = parts.next().unwrap_or("");
        return all(head, is_digit_or_underscore)
            && parts.all(is_sexagesimal_digit)
            && rest.bytes().all(is_digit_or_underscore);
    }
    let (digits, exponent) = split_exponent(rest);
    if !all(whole, is_digit_or_underscore) || !digits.bytes().all(is_digit_or_underscore) {
        return false;
    }
    match exponent {
        None => true,
        // PyYAML wants a signed exponent, OmegaConf single underscores between digits; either will do.
        Some(e) => {
            all(unsigned(e), |b| b.is_ascii_digit())
                && (e.starts_with(['+', '-']) || single_underscores(whole))
        }
    }
}

/// `1e5`, `1_0E-6`.
fn exponent_float(body: &str) -> bool {
    let (whole, exponent) = split_exponent(body);
    exponent.is_some_and(|e| all(unsigned(e), |b| b.is_ascii_digit()))
        && all(whole, is_digit_or_underscore)
        && single_underscores(whole)
}

fn split_exponent(text: &str) -> (&str, Option<&str>) {
    match text.split_once(['e', 'E']) {
        Some((digits, exponent)) => (digits, Some(exponent)),
        None => (text, None),
    }
}

fn single_underscores(digits: &str) -> bool {
    !digits.ends_with('_') && !digits.contains("__")
}

fn int(text: &str) -> Result<i128, String> {
    let cleaned = text.replace('_', "");
    let (sign, body) = match cleaned.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, cleaned.strip_prefix('+').unwrap_or(&cleaned)),
    };
    let parsed = if body == "0" {
        Some(0)
    } else if let Some(bits) = body.strip_prefix("0b") {
        i128::from_str_radix(bits, 2).ok()
    } else if let Some(hex) = body.strip_prefix("0x") {
        i128::from_str_radix(hex, 16).ok()
    } else if body.starts_with('0') {
        i128::from_str_radix(body, 8).ok()
    } else if body.contains(':') {
        sexagesimal(body)
    } else {
        python::parse_int(body)
    };
    parsed
        .and_then(|number| number.checked_mul(sign))
        .ok_or_else(|| format!("`{text}` is not an integer that can be read"))
}

fn sexagesimal(body: &str) -> Option<i128> {
    body.split(':').try_fold(0i128, |total, part| {
        total.checked_mul(60)?.checked_add(part.parse::<u32>().ok().map(i128::from)?)
    })
}

fn float(text: &str) -> Result<f64, String> {
    let cleaned = text.replace('_', "").to_ascii_lowercase();
    let (sign, body) = match cleaned.strip_prefix('-') {
        Some(rest) => (-1.0, rest),
        None => (1.0, cleaned.strip_prefix('+').unwrap_or(&cleaned)),
    };
    let parsed = match body {
        ".inf" => Some(f64::INFINITY),
        ".nan" => Some(f64::NAN),
        _ if body.contains(':') => {
            body.split(':').try_fold(0.0, |total: f64, part| Some(total * 60.0 + python::parse_float(part)?))
        }
        _ => python::parse_float(body),
    };
    parsed.map(|number| sign * number).ok_or_else(|| format!("`{text}` is not a number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        match plain(text) {
            Ok(value) => format!("{} {}", value.kind(), python::text(&value)),
            Err(_) => "error".to_owned(),
        }
    }

    #[test]
    fn scalars_follow_yaml_1_1_with_omegaconf_floats() {
        for (text, expected) in [
            ("yes", "boolean True"),
            ("off", "boolean False"),
            ("y", "string y"),
            ("~", "null None"),
            ("1e-6", "float 1e-06"),
            ("1E5", "float 100000.0"),
            ("012", "integer 10"),
            ("08", "string 08"),
            ("0o14", "string 0o14"),
            ("0x1F", "integer 31"),
            ("0b101", "integer 5"),
            ("1_000", "integer 1000"),
            ("0-0", "string 0-0"),
            ("12:30:45", "integer 45045"),
            ("1:30.5", "float 90.5"),
            ("2024-01-02", "string 2024-01-02"),
            (".inf", "float inf"),
            ("-.INF", "float -inf"),
            ("+.nan", "string +.nan"),
            ("1.", "float 1.0"),
            ("+1", "integer 1"),
            ("-.5", "string -.5"),
            (".5", "float 0.5"),
            (".5e5", "string .5e5"),
            (".5e+5", "float 50000.0"),
            ("1.e5", "float 100000.0"),
            ("1__0.5e5", "string 1__0.5e5"),
            ("1__0.5e+5", "float 1050000.0"),
            ("1_e5", "string 1_e5"),
            ("=", "error"),
            ("0x_", "error"),
        ] {
            assert_eq!(shown(text), expected, "{text}");
        }
    }
}
