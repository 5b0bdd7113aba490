//! A keyboard by the kernel's input events, which tell when a key is let go of.

use super::device::{Controls, DevicePilot, Opened};
use super::events::{EV_KEY, EventState};
use crate::{Key, PilotError, StopToken};

/// The rows of a keyboard: code of the first key, and the letters from there on.
const ROWS: [(u16, &str); 4] = [(2, "1234567890"), (16, "qwertyuiop"), (30, "asdfghjkl"), (44, "zxcvbnm")];
const KEY_ESC: u16 = 1;
const KEY_ENTER: u16 = 28;
const KEY_SPACE: u16 = 57;
/// Arrows and pages.
const MOVES: [(u16, Key); 6] = [
    (103, Key::Up),
    (108, Key::Down),
    (105, Key::Left),
    (106, Key::Right),
    (104, Key::PageUp),
    (109, Key::PageDown),
];

impl DevicePilot {
    /// A keyboard at this machine, whichever window has it: a device such as `/dev/input/event3`, or without one the only one
    /// that is plugged in. It knows which keys are held, for labels as in RLinf and for a dead-man's switch; Esc raises `stop` at
    /// once. Over SSH there is none; see [`TerminalPilot`](crate::TerminalPilot).
    pub fn keyboard(device: Option<&str>, stop: StopToken) -> Result<Self, PilotError> {
        let path = device.map(String::from);
        Self::start("keyboard", move || board::open(path.as_deref()), stop)
    }
}

/// The key of a code, as on an American keyboard.
fn key(code: u16) -> Option<Key> {
    match code {
        KEY_ESC => Some(Key::Escape),
        KEY_ENTER => Some(Key::Enter),
        KEY_SPACE => Some(Key::Space),
        _ => {
            let letter = ROWS.iter().find_map(|(first, letters)| {
                let at = usize::from(code.checked_sub(*first)?);
                letters.chars().nth(at).map(Key::Char)
            });
            letter.or_else(|| MOVES.iter().find(|(known, _)| *known == code).map(|(_, key)| *key))
        }
    }
}

/// The keys that are down.
#[derive(Debug, Clone, Default)]
struct KeyboardState {
    held: Vec<Key>,
}

impl EventState for KeyboardState {
    fn take(&mut self, kind: u16, code: u16, value: i32) {
        let Some(key) = key(code).filter(|_| kind == EV_KEY) else { return };
        self.held.retain(|held| *held != key);
        if value != 0 {
            self.held.push(key);
        }
    }

    fn controls(&self) -> Controls {
        Controls { held: self.held.clone(), ..Controls::default() }
    }
}

#[cfg(all(feature = "devices", target_os = "linux"))]
mod board {
    use evdev::{KeyCode, raw_stream::RawDevice};

    use super::super::events::{EventStream, open_only};
    use super::{KEY_ESC, KEY_SPACE, KeyboardState, Opened, ROWS};

    pub(super) fn open(path: Option<&str>) -> Opened {
        let (_, device) = open_only(path, is_keyboard)?;
        Ok(Box::new(EventStream { device, state: KeyboardState::default() }))
    }

    /// Mice have keys, too: a keyboard has Esc, space and the first letter of every row.
    fn is_keyboard(device: &RawDevice) -> bool {
        let needed = [KEY_ESC, KEY_SPACE].into_iter().chain(ROWS.map(|(first, _)| first));
        let mut needed = needed.map(KeyCode::new);
        device.supported_keys().is_some_and(|keys| needed.all(|key| keys.contains(key)))
    }
}

#[cfg(not(all(feature = "devices", target_os = "linux")))]
mod board {
    pub(super) fn open(_: Option<&str>) -> super::Opened {
        super::super::device::not_built()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn codes_are_letters() {
        let letters = [(30, 'a'), (48, 'b'), (46, 'c'), (16, 'q'), (11, '0'), (50, 'm')];
        for (code, letter) in letters {
            assert_eq!(key(code), Some(Key::Char(letter)));
        }
        assert_eq!([key(1), key(28), key(57)], [Some(Key::Escape), Some(Key::Enter), Some(Key::Space)]);
        assert_eq!([key(103), key(109)], [Some(Key::Up), Some(Key::PageDown)]);
        assert_eq!([key(0), key(12), key(42), key(0x110)], [None; 4], "minus, shift, a mouse");
    }

    #[test]
    fn keys_are_held_until_they_are_let_go_of() {
        let mut state = KeyboardState::default();
        for event in [(EV_KEY, 46, 1), (EV_KEY, 46, 2), (EV_KEY, 30, 1), (4, 46, 0)] {
            state.take(event.0, event.1, event.2);
        }
        assert_eq!(state.controls().held, [Key::Char('c'), Key::Char('a')]);
        state.take(EV_KEY, 46, 0);
        assert_eq!(state.controls().held, [Key::Char('a')]);
    }

    #[test]
    fn a_keyboard_that_is_not_there_is_named() {
        let error = DevicePilot::keyboard(Some("/dev/input/event-none"), StopToken::new()).err().unwrap();
        assert!(error.to_string().starts_with("the pilot's keyboard cannot be read: "), "{error}");
    }

    proptest! {
        #[test]
        fn no_key_is_held_twice(events in prop::collection::vec((0u16..5, any::<u16>(), -1i32..3), 0..200)) {
            let mut state = KeyboardState::default();
            for (kind, code, value) in events {
                state.take(kind, code % 120, value);
            }
            let held = state.controls().held;
            prop_assert!(held.iter().enumerate().all(|(at, key)| !held[..at].contains(key)));
        }
    }
}
