//! Keys from the bytes that a terminal sends, and labels that a key switches on.

use crate::Key;

/// The byte of Esc, and of the beginning of arrows.
pub(super) const ESCAPE: u8 = 0x1b;

/// Turns a terminal's bytes into keys. Of long sequences arrows and pages are keys, without Shift and the like.
///
/// Esc alone and the beginning of an arrow are the same byte. One that ends what has come counts as Esc at once: a stop
/// must not wait, and a stop too many is no harm.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct KeyParser {
    place: Place,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Place {
    #[default]
    Ground,
    /// After Esc, which may begin a sequence.
    Escaped,
    /// In a sequence that one letter ends, after this number. One with other signs in it is no key.
    Sequence { number: u16, is_plain: bool },
    /// Before the one byte that ends a sequence.
    LastByte,
}

impl KeyParser {
    /// The keys in what has come.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Vec<Key> {
        let mut keys = Vec::new();
        for (at, &byte) in bytes.iter().enumerate() {
            self.place = match (self.place, byte) {
                (_, ESCAPE) => {
                    let is_alone = !matches!(bytes.get(at + 1), Some(b'[' | b'O'));
                    keys.extend(is_alone.then_some(Key::Escape));
                    Place::Escaped
                }
                (Place::Escaped, b'[') => Place::Sequence { number: 0, is_plain: true },
                (Place::Escaped, b'O') => Place::LastByte,
                (Place::Sequence { number, is_plain }, 0x40..=0x7e) => {
                    keys.extend(sequence_key(number, byte).filter(|_| is_plain));
                    Place::Ground
                }
                (Place::LastByte, _) => {
                    keys.extend(sequence_key(0, byte));
                    Place::Ground
                }
                (Place::Sequence { number, is_plain }, b'0'..=b'9') => {
                    let number = number.saturating_mul(10).saturating_add(u16::from(byte - b'0'));
                    Place::Sequence { number, is_plain }
                }
                (Place::Sequence { number, .. }, _) => Place::Sequence { number, is_plain: false },
                (Place::Ground | Place::Escaped, byte) => {
                    keys.extend(key(byte));
                    Place::Ground
                }
            };
        }
        keys
    }
}

/// The key of a sequence with this number before its last byte.
fn sequence_key(number: u16, last: u8) -> Option<Key> {
    match (number, last) {
        (0, b'A') => Some(Key::Up),
        (0, b'B') => Some(Key::Down),
        (0, b'C') => Some(Key::Right),
        (0, b'D') => Some(Key::Left),
        (5, b'~') => Some(Key::PageUp),
        (6, b'~') => Some(Key::PageDown),
        _ => None,
    }
}

fn key(byte: u8) -> Option<Key> {
    match byte {
        b' ' => Some(Key::Space),
        b'\r' | b'\n' => Some(Key::Enter),
        0x7f | 0x08 => Some(Key::Backspace),
        _ if byte.is_ascii_alphanumeric() => Some(Key::Char(char::from(byte.to_ascii_lowercase()))),
        _ => None,
    }
}

/// A label that one press switches on and space switches off: terminals tell presses, and no releases.
///
/// A key that repeats while it is held leaves its label on. It is not a key that is held: a dead-man's switch needs a
/// device that knows when it is let go of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KeyLatch {
    on: Option<char>,
}

impl KeyLatch {
    /// Takes the keys that went down; letters that `is_label` does not know change nothing.
    pub fn press(&mut self, pressed: &[Key], is_label: impl Fn(char) -> bool) {
        for key in pressed {
            match key {
                Key::Char(letter) if is_label(*letter) => self.on = Some(*letter),
                Key::Space => self.on = None,
                _ => {}
            }
        }
    }

    /// The label that is on.
    pub fn on(&self) -> Option<char> {
        self.on
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn keys(reads: &[&[u8]]) -> Vec<Key> {
        let mut parser = KeyParser::default();
        reads.iter().flat_map(|bytes| parser.take(bytes)).collect()
    }

    #[test]
    fn letters_space_and_return() {
        let wanted = [Key::Char('c'), Key::Char('a'), Key::Space, Key::Enter, Key::Char('7')];
        assert_eq!(keys(&[b"cA \r7"]), wanted);
        assert_eq!(keys(&[&[3, 0xc3, 0xbc, b'~', 127]]), [Key::Backspace], "control, ü, signs");
    }

    #[test]
    fn arrows_are_keys_and_escape_stops_at_once() {
        let arrows = [Key::Up, Key::Down, Key::Right, Key::Left, Key::PageUp, Key::PageDown];
        assert_eq!(keys(&[b"\x1b[A\x1bOB\x1b[C\x1b[D\x1b[5~\x1b[6~"]), arrows);
        assert_eq!(keys(&[b"\x1bOP\x1b[15~\x1b[1;5Cc"]), [Key::Char('c')], "F1, F5, Ctrl-right");
        assert_eq!(keys(&[b"\x1b"]), [Key::Escape]);
        assert_eq!(keys(&[b"\x1b\x1b"]), [Key::Escape, Key::Escape]);
        assert_eq!(keys(&[b"\x1bc"]), [Key::Escape, Key::Char('c')]);
        // A slow connection cuts an arrow in two: it stops.
        assert_eq!(keys(&[b"\x1b", b"[A", b"a"]), [Key::Escape, Key::Up, Key::Char('a')]);
    }

    #[test]
    fn a_label_stays_on_until_space() {
        let mut latch = KeyLatch::default();
        let mut press = |keys: &[Key]| {
            latch.press(keys, |letter| "ac".contains(letter));
            latch.on()
        };
        assert_eq!(press(&[Key::Char('x'), Key::Enter]), None);
        assert_eq!(press(&[Key::Char('c'), Key::Char('c')]), Some('c'));
        assert_eq!(press(&[]), Some('c'));
        assert_eq!(press(&[Key::Char('a')]), Some('a'));
        assert_eq!(press(&[Key::Space]), None);
    }

    proptest! {
        /// No byte is more than a key, and after any bytes a line of text is read as it is.
        #[test]
        fn any_bytes_leave_the_parser_usable(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let mut parser = KeyParser::default();
            prop_assert!(parser.take(&bytes).len() <= bytes.len());
            parser.take(b"~~");
            prop_assert_eq!(parser.take(b"c "), [Key::Char('c'), Key::Space]);
        }
    }
}
