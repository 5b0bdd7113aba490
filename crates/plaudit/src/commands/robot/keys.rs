//! Keys as they are pressed: from a terminal at once, from a pipe byte by byte, from a script in tests.

use std::io::{IsTerminal, Read};
use std::sync::mpsc::{Receiver, TryRecvError, channel};

use plaudit_robot::Key;

use crate::failure::Failure;

/// Where keys come from.
pub(super) trait Keys {
    /// Keys since the last call, in order. Never waits.
    fn pressed(&mut self) -> Vec<Key>;

    /// Whether no more will come.
    fn have_ended(&self) -> bool;
}

/// Keys of the standard input. A terminal gives them without waiting for Enter until this is dropped.
pub(super) struct StdinKeys {
    bytes: Receiver<u8>,
    have_ended: bool,
    _raw: Option<RawTerminal>,
}

impl StdinKeys {
    /// Begins to listen.
    pub(super) fn listen() -> Result<Self, Failure> {
        let cannot = |error: String| Failure::runtime(format!("cannot read keys: {error}"), None);
        let is_terminal = std::io::stdin().is_terminal();
        let raw = if is_terminal { Some(RawTerminal::enter().map_err(cannot)?) } else { None };
        let (sender, bytes) = channel();
        let read = move || {
            let mut byte = [0];
            while let Ok(1) = std::io::stdin().lock().read(&mut byte) {
                if sender.send(byte[0]).is_err() {
                    return;
                }
            }
        };
        // It waits for a key until the process ends.
        std::thread::Builder::new()
            .name("keys".into())
            .spawn(read)
            .map_err(|error| cannot(error.to_string()))?;
        Ok(Self { bytes, have_ended: false, _raw: raw })
    }
}

impl Keys for StdinKeys {
    fn pressed(&mut self) -> Vec<Key> {
        let mut pressed = Vec::new();
        loop {
            match self.bytes.try_recv() {
                Ok(byte) => pressed.extend(key(byte)),
                Err(TryRecvError::Empty) => return pressed,
                Err(TryRecvError::Disconnected) => {
                    self.have_ended = true;
                    return pressed;
                }
            }
        }
    }

    fn have_ended(&self) -> bool {
        self.have_ended
    }
}

fn key(byte: u8) -> Option<Key> {
    match byte {
        b' ' => Some(Key::Space),
        b'\r' | b'\n' => Some(Key::Enter),
        0x1b => Some(Key::Escape),
        0x7f | 0x08 => Some(Key::Char('u')), // backspace takes back
        _ if byte.is_ascii_alphanumeric() => Some(Key::Char(char::from(byte.to_ascii_lowercase()))),
        _ => None,
    }
}

#[cfg(unix)]
mod raw {
    use nix::sys::termios::{LocalFlags, SetArg, Termios, tcgetattr, tcsetattr};

    /// A terminal that gives keys at once and does not show them. Ctrl-C stays what it is.
    pub(super) struct RawTerminal {
        before: Termios,
    }

    impl RawTerminal {
        pub(super) fn enter() -> Result<Self, String> {
            let stdin = std::io::stdin();
            let before = tcgetattr(&stdin).map_err(|error| error.to_string())?;
            let mut raw = before.clone();
            raw.local_flags.remove(LocalFlags::ICANON | LocalFlags::ECHO);
            tcsetattr(&stdin, SetArg::TCSANOW, &raw).map_err(|error| error.to_string())?;
            Ok(Self { before })
        }
    }

    impl Drop for RawTerminal {
        fn drop(&mut self) {
            // A terminal that is gone needs nothing.
            let _ = tcsetattr(std::io::stdin(), SetArg::TCSANOW, &self.before);
        }
    }
}

#[cfg(not(unix))]
mod raw {
    /// Keys come with Enter here.
    pub(super) struct RawTerminal;

    impl RawTerminal {
        pub(super) fn enter() -> Result<Self, String> {
            Ok(Self)
        }
    }
}

use raw::RawTerminal;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_keys() {
        assert_eq!(key(b'C'), Some(Key::Char('c')));
        assert_eq!(
            (key(b' '), key(b'\n'), key(0x1b)),
            (Some(Key::Space), Some(Key::Enter), Some(Key::Escape))
        );
        assert_eq!((key(0x7f), key(b'['), key(0xc3)), (Some(Key::Char('u')), None, None));
    }
}
