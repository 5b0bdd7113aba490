//! The escaped texts of the oldest pickles.

/// `raw-unicode-escape`: Latin-1 bytes with `\uXXXX` and `\UXXXXXXXX`.
pub(super) fn raw_unicode(line: &[u8]) -> Option<String> {
    let mut text = String::with_capacity(line.len());
    let mut rest = line;
    while let Some((byte, tail)) = rest.split_first() {
        let digits = match (byte, tail.first()) {
            (b'\\', Some(b'u')) => 4,
            (b'\\', Some(b'U')) => 8,
            _ => {
                text.push(char::from(*byte));
                rest = tail;
                continue;
            }
        };
        text.push(char::from_u32(hex(tail.get(1..1 + digits)?)?)?);
        rest = &tail[1 + digits..];
    }
    Some(text)
}

/// A `repr` of Python 2: quotes, and backslash escapes inside.
pub(super) fn quoted(line: &[u8]) -> Option<Vec<u8>> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let (quote, inside) = match line {
        [quote @ (b'\'' | b'"'), inside @ .., last] if quote == last => (*quote, inside),
        _ => return None,
    };
    let mut bytes = Vec::with_capacity(inside.len());
    let mut rest = inside.iter();
    while let Some(byte) = rest.next() {
        if *byte == quote {
            return None;
        }
        if *byte != b'\\' {
            bytes.push(*byte);
            continue;
        }
        bytes.push(match rest.next()? {
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'x' => {
                let digits = [*rest.next()?, *rest.next()?];
                u8::try_from(hex(&digits)?).ok()?
            }
            same @ (b'\\' | b'\'' | b'"') => *same,
            _ => return None,
        });
    }
    Some(bytes)
}

/// At most eight digits, without sign.
fn hex(digits: &[u8]) -> Option<u32> {
    digits.iter().try_fold(0, |number, digit| Some(number << 4 | char::from(*digit).to_digit(16)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_undone() {
        assert_eq!(raw_unicode(br"a\u00e9\U0001f600\n").unwrap(), "aé😀\\n");
        assert_eq!(raw_unicode(b"\xe9").unwrap(), "é");
        assert_eq!(quoted(br#"'a\n\x00\'"'"#).unwrap(), b"a\n\0'\"");
    }

    #[test]
    fn broken_escapes_are_refused() {
        for broken in [&br"\u00"[..], br"\ud800", br"\uzzzz", br"\U00110000"] {
            assert!(raw_unicode(broken).is_none());
        }
        for broken in [&b""[..], b"'", b"'a", b"a'", b"'a'b'", br"'\x0'", br"'\'", br"'\q'"] {
            assert!(quoted(broken).is_none(), "{}", String::from_utf8_lossy(broken));
        }
    }
}
