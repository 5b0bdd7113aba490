//! Names and values of an address or of a form.

use std::str::FromStr;

use super::Refusal;

/// Most parameters of a request.
const MOST: usize = 256;

/// Names and values, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Params(Vec<(String, String)>);

impl Params {
    /// Reads `name=value&name=value`, as addresses and forms have it.
    pub(crate) fn parse(text: &str) -> Self {
        let pair = |pair: &str| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(name), decode(value))
        };
        Self(text.split('&').filter(|pair| !pair.is_empty()).take(MOST).map(pair).collect())
    }

    /// A value; nothing where it is not there or empty.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    }

    /// All values of one name.
    pub(crate) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// A value that must be there.
    pub(crate) fn need(&self, name: &str) -> Result<&str, Refusal> {
        self.get(name).ok_or_else(|| Refusal::bad(format!("`{name}` is missing")))
    }

    /// A value as a number or the like; nothing where it is not there.
    pub(crate) fn parsed<T: FromStr>(&self, name: &str) -> Result<Option<T>, Refusal> {
        let parse = |text: &str| {
            text.parse().map_err(|_| Refusal::bad(format!("`{name}` cannot be `{}`", shortened(text))))
        };
        self.get(name).map(parse).transpose()
    }

    /// A value as a number, which must be there.
    pub(crate) fn need_parsed<T: FromStr>(&self, name: &str) -> Result<T, Refusal> {
        self.parsed(name)?.ok_or_else(|| Refusal::bad(format!("`{name}` is missing")))
    }
}

fn shortened(text: &str) -> String {
    text.chars().take(40).collect()
}

/// `%41` and `+` as what they stand for. What is no such sign stays.
pub(crate) fn decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut plain = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let hex = |byte: Option<&u8>| byte.and_then(|byte| char::from(*byte).to_digit(16));
        match (bytes[at], hex(bytes.get(at + 1)), hex(bytes.get(at + 2))) {
            (b'%', Some(high), Some(low)) => {
                plain.push((high * 16 + low) as u8);
                at += 2;
            }
            (b'+', ..) => plain.push(b' '),
            (byte, ..) => plain.push(byte),
        }
        at += 1;
    }
    String::from_utf8_lossy(&plain).into_owned()
}

/// A text as a value of an address.
pub(crate) fn encode(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'/' | b'~' => {
                safe.push(byte.into())
            }
            byte => safe.push_str(&format!("%{byte:02X}")),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_as_they_were_meant() {
        let params = Params::parse("a=1&b=x+y%2Fz&&c&a=2&d=%zz&e=%F0%9F%8E%89");
        assert_eq!(params.get("a"), Some("1"));
        assert_eq!(params.all("a").collect::<Vec<_>>(), ["1", "2"]);
        assert_eq!(params.get("b"), Some("x y/z"));
        assert_eq!(params.get("c"), None, "nothing was written");
        assert_eq!(params.get("d"), Some("%zz"));
        assert_eq!(params.get("e"), Some("🎉"));
        assert_eq!(params.parsed::<usize>("a").unwrap(), Some(1));
        assert!(params.parsed::<usize>("b").is_err() && params.need("z").is_err());
        let many = "a=1&".repeat(10_000);
        assert_eq!(Params::parse(&many).all("a").count(), MOST);
    }

    #[test]
    fn what_is_encoded_reads_back() {
        for text in ["a b", "x&y=z", "naïve/é", "100 %", "a+b", "\u{0}\n"] {
            assert_eq!(decode(&encode(text)), text);
        }
    }
}
