//! The lexical rules that Hydra's override grammar and OmegaConf's interpolation grammar share.
//!
//! Both are ANTLR lexers: at each point the longest rule wins, and of equally long ones the first.

/// What a piece of a value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Comma,
    BracketOpen,
    BracketClose,
    BraceOpen,
    BraceClose,
    Colon,
    Float,
    Int,
    Bool,
    Null,
    /// One of the characters that may stand in text without quotes.
    Char,
    Id,
    /// One or more escaped characters.
    Escape,
    Space,
}

/// The token at the start of `rest` and its length in bytes, or `None` if no shared rule matches.
pub(crate) fn value_token(rest: &str) -> Option<(Kind, usize)> {
    let space = space(rest);
    let after = &rest[space..];
    let punctuation = match after.bytes().next() {
        Some(b',') => Some((Kind::Comma, true)),
        Some(b':') => Some((Kind::Colon, true)),
        Some(b']') => Some((Kind::BracketClose, false)),
        Some(b'}') => Some((Kind::BraceClose, false)),
        Some(b'[') if space == 0 => Some((Kind::BracketOpen, true)),
        Some(b'{') if space == 0 => Some((Kind::BraceOpen, true)),
        _ => None,
    };
    if let Some((kind, eats_space)) = punctuation {
        let trailing = if eats_space { self::space(&after[1..]) } else { 0 };
        return Some((kind, space + 1 + trailing));
    }
    if space > 0 {
        return Some((Kind::Space, space));
    }
    word(rest)
}

/// Numbers, keywords, identifiers, escapes and the odd character.
fn word(rest: &str) -> Option<(Kind, usize)> {
    let candidates = [
        (Kind::Float, float(rest)),
        (Kind::Int, int(rest)),
        (Kind::Bool, keyword(rest, "true").max(keyword(rest, "false"))),
        (Kind::Null, keyword(rest, "null")),
        (Kind::Char, usize::from(rest.starts_with(is_unquoted_char))),
        (Kind::Id, identifier(rest)),
        (Kind::Escape, escapes(rest)),
    ];
    let longest = candidates.iter().map(|(_, length)| *length).max()?;
    candidates.into_iter().find(|(_, length)| *length == longest && longest > 0)
}

fn is_unquoted_char(c: char) -> bool {
    "/-\\+.$%*@?|".contains(c)
}

/// Blanks and tabs.
pub(crate) fn space(rest: &str) -> usize {
    rest.bytes().take_while(|b| matches!(b, b' ' | b'\t')).count()
}

/// `abc`, `a_b-c1`.
pub(crate) fn identifier(rest: &str) -> usize {
    if !rest.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
        return 0;
    }
    rest.bytes().take_while(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-')).count()
}

fn keyword(rest: &str, word: &str) -> usize {
    match rest.get(..word.len()) {
        Some(start) if start.eq_ignore_ascii_case(word) => word.len(),
        _ => 0,
    }
}

fn sign(rest: &str) -> usize {
    usize::from(rest.starts_with(['+', '-']))
}

/// Digits with single underscores between them, leading zeros allowed.
fn digits(rest: &str) -> usize {
    let bytes = rest.as_bytes();
    let mut end = 0;
    while end < bytes.len() {
        let underscore = usize::from(end > 0 && bytes[end] == b'_');
        if !bytes.get(end + underscore).is_some_and(u8::is_ascii_digit) {
            break;
        }
        end += underscore + 1;
    }
    end
}

/// `0` or digits that do not start with zero.
pub(crate) fn unsigned_int(rest: &str) -> usize {
    if rest.starts_with('0') { 1 } else { digits(rest) }
}

fn int(rest: &str) -> usize {
    let sign = sign(rest);
    match unsigned_int(&rest[sign..]) {
        0 => 0,
        length => sign + length,
    }
}

fn float(rest: &str) -> usize {
    let sign = sign(rest);
    let body = &rest[sign..];
    let named = keyword(body, "inf").max(keyword(body, "nan"));
    let length = named.max(numeric_float(body));
    if length == 0 { 0 } else { sign + length }
}

/// `1.`, `1.5`, `.5`, each with an exponent or not, or `1e5`.
fn numeric_float(body: &str) -> usize {
    let whole = unsigned_int(body);
    let pointed = if body[whole..].starts_with('.') {
        let fraction = digits(&body[whole + 1..]);
        if whole == 0 && fraction == 0 { 0 } else { whole + 1 + fraction }
    } else {
        0
    };
    let mantissa = pointed.max(whole);
    let exponent = if mantissa > 0 { exponent(&body[mantissa..]) } else { 0 };
    if exponent > 0 { mantissa + exponent } else { pointed }
}

fn exponent(rest: &str) -> usize {
    if !rest.starts_with(['e', 'E']) {
        return 0;
    }
    let sign = sign(&rest[1..]);
    match digits(&rest[1 + sign..]) {
        0 => 0,
        length => 1 + sign + length,
    }
}

/// Pairs of a backslash and a character that would otherwise mean something.
fn escapes(rest: &str) -> usize {
    let mut end = 0;
    while let [b'\\', escaped, ..] = &rest.as_bytes()[end..] {
        if !b"\\()[]{}:=, \t".contains(escaped) {
            break;
        }
        end += 2;
    }
    end
}

/// Drops the backslash of every pair.
pub(crate) fn unescape(escapes: &str) -> String {
    escapes.chars().skip(1).step_by(2).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_rule_wins() {
        for (text, kind, length) in [
            ("1e-3x", Kind::Float, 4),
            ("007", Kind::Int, 1),
            ("1_000", Kind::Int, 5),
            ("1.", Kind::Float, 2),
            (".5", Kind::Float, 2),
            ("-inf", Kind::Float, 4),
            ("info", Kind::Id, 4),
            ("True", Kind::Bool, 4),
            ("nullable", Kind::Id, 8),
            ("a-b", Kind::Id, 3),
            ("-b", Kind::Char, 1),
            ("\\\\\\,", Kind::Escape, 4),
            ("\\x", Kind::Char, 1),
            (" , b", Kind::Comma, 3),
            ("  b", Kind::Space, 2),
            (" ]", Kind::BracketClose, 2),
        ] {
            assert_eq!(value_token(text), Some((kind, length)), "{text}");
        }
        assert_eq!(value_token("é"), None);
        assert_eq!(value_token(""), None);
    }
}
