//! The keyboard of the terminal.

use crate::{Pilot, PilotError, PilotInput, StopToken};

/// Keys typed into the terminal, on a thread of its own. Terminals tell presses and no releases, so no key is ever
/// held; see [`KeyLatch`](crate::KeyLatch). Esc raises the stop token at once, whoever polls and when.
///
/// While it lives, lines are not edited and letters not shown; Ctrl-C works as ever. Clones share the keys: whoever
/// asks the person for a whole line keeps one, for [`suspended`](Self::suspended).
#[derive(Clone)]
pub struct TerminalPilot {
    #[cfg(target_os = "linux")]
    reader: std::sync::Arc<unix::Reader>,
}

impl TerminalPilot {
    /// Begins to read standard input, which must be a terminal.
    #[cfg(target_os = "linux")]
    pub fn open(stop: StopToken) -> Result<Self, PilotError> {
        unix::Reader::start(stop).map(|reader| Self { reader: reader.into() }).map_err(wrong)
    }

    /// Begins to read standard input, which must be a terminal.
    #[cfg(not(target_os = "linux"))]
    pub fn open(_stop: StopToken) -> Result<Self, PilotError> {
        Err(wrong("it is read on Linux alone".into()))
    }

    /// Leaves the terminal to `ask`, with lines that are shown and edited, and takes it back after that. Nobody sees
    /// Esc meanwhile, so the arm must not move.
    pub fn suspended<T>(&self, ask: impl FnOnce() -> T) -> T {
        #[cfg(target_os = "linux")]
        let _suspended = self.reader.suspend();
        ask()
    }
}

fn wrong(why: String) -> PilotError {
    PilotError { device: "terminal".into(), why }
}

impl Pilot for TerminalPilot {
    #[cfg(target_os = "linux")]
    fn poll(&mut self) -> Result<PilotInput, PilotError> {
        self.reader.poll().map_err(wrong)
    }

    #[cfg(not(target_os = "linux"))]
    fn poll(&mut self) -> Result<PilotInput, PilotError> {
        Ok(PilotInput::default())
    }
}

#[cfg(target_os = "linux")]
mod unix {
    use std::os::fd::{AsFd, OwnedFd};
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
    use std::thread::JoinHandle;
    use std::time::Duration;

    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::io::Errno;
    use rustix::termios::{
        LocalModes, OptionalActions, SpecialCodeIndex, Termios, isatty, tcgetattr, tcsetattr,
    };

    use super::super::keys::KeyParser;
    use crate::{Key, PilotInput, StopToken};

    /// How long a read waits before it looks whether it is still wanted.
    const READ_SLICE: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
    /// How often a suspended reader looks whether it may go on.
    const LOOKS_EVERY: Duration = Duration::from_millis(20);
    /// Presses that nobody asks for are forgotten beyond this many.
    const MOST_PRESSED: usize = 256;

    #[derive(Default)]
    struct Shared {
        pressed: Vec<Key>,
        trouble: Option<String>,
    }

    /// Whose turn it is to read the terminal.
    #[derive(Default)]
    struct Turn {
        /// How many others want it.
        suspended: AtomicUsize,
        /// Held by whoever reads.
        reading: Mutex<()>,
    }

    /// Reads keys until it is dropped, and then leaves the terminal as it was.
    pub(super) struct Reader {
        terminal: Arc<OwnedFd>,
        before: Termios,
        by_key: Termios,
        turn: Arc<Turn>,
        shared: Arc<Mutex<Shared>>,
        ended: StopToken,
        thread: Option<JoinHandle<()>>,
    }

    impl Reader {
        pub(super) fn start(stop: StopToken) -> Result<Self, String> {
            let input = rustix::stdio::stdin();
            if !isatty(input) {
                return Err("standard input is no terminal; run the command in one".into());
            }
            let terminal = input.try_clone_to_owned().map_err(|error| error.to_string())?;
            Self::on(terminal, stop)
        }

        pub(super) fn on(terminal: OwnedFd, stop: StopToken) -> Result<Self, String> {
            let said = |error: Errno| error.to_string();
            let before = tcgetattr(&terminal).map_err(said)?;
            let mut by_key = before.clone();
            // Keys come one by one and are not shown; signals such as Ctrl-C stay.
            by_key.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
            by_key.special_codes[SpecialCodeIndex::VMIN] = 1;
            by_key.special_codes[SpecialCodeIndex::VTIME] = 0;
            tcsetattr(&terminal, OptionalActions::Now, &by_key).map_err(said)?;
            let (terminal, turn) = (Arc::new(terminal), Arc::<Turn>::default());
            let (shared, ended) = (Arc::<Mutex<Shared>>::default(), StopToken::new());
            let mut keys = Keys {
                input: terminal.clone(),
                turn: turn.clone(),
                shared: shared.clone(),
                ended: ended.clone(),
                stop,
            };
            let mut reader = Self { terminal, before, by_key, turn, shared, ended, thread: None };
            let thread = std::thread::Builder::new().name("pilot-terminal".into());
            let thread = thread.spawn(move || {
                let why = keys.read_all();
                lock(&keys.shared).trouble = why.err();
            });
            reader.thread = Some(thread.map_err(|error| error.to_string())?);
            Ok(reader)
        }

        /// Hands the terminal over until the answer is dropped.
        pub(super) fn suspend(&self) -> Suspended<'_> {
            self.turn.suspended.fetch_add(1, Ordering::SeqCst);
            let turn = self.turn.reading.lock().unwrap_or_else(PoisonError::into_inner);
            // A terminal that is gone needs no settings.
            let _ = tcsetattr(&*self.terminal, OptionalActions::Now, &self.before);
            Suspended { reader: self, _turn: turn }
        }

        pub(super) fn poll(&self) -> Result<PilotInput, String> {
            let mut shared = lock(&self.shared);
            match shared.trouble.take() {
                Some(why) => Err(why),
                None => {
                    Ok(PilotInput { pressed: std::mem::take(&mut shared.pressed), ..PilotInput::default() })
                }
            }
        }
    }

    /// The terminal is somebody else's.
    pub(super) struct Suspended<'a> {
        reader: &'a Reader,
        _turn: MutexGuard<'a, ()>,
    }

    impl Drop for Suspended<'_> {
        fn drop(&mut self) {
            // A terminal that is gone needs no settings.
            let _ = tcsetattr(&*self.reader.terminal, OptionalActions::Now, &self.reader.by_key);
            self.reader.turn.suspended.fetch_sub(1, Ordering::SeqCst);
        }
    }

    impl Drop for Reader {
        fn drop(&mut self) {
            self.ended.raise();
            if let Some(thread) = self.thread.take() {
                // A thread that panicked has no more to say.
                let _ = thread.join();
            }
            // A terminal that is gone needs no restoring.
            let _ = tcsetattr(&*self.terminal, OptionalActions::Now, &self.before);
        }
    }

    fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
        shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The side of the thread.
    struct Keys {
        input: Arc<OwnedFd>,
        turn: Arc<Turn>,
        shared: Arc<Mutex<Shared>>,
        ended: StopToken,
        stop: StopToken,
    }

    impl Keys {
        fn read_all(&mut self) -> Result<(), String> {
            let mut parser = KeyParser::default();
            while !self.ended.is_raised() {
                if self.turn.suspended.load(Ordering::SeqCst) > 0 {
                    std::thread::sleep(LOOKS_EVERY);
                    continue;
                }
                let keys = self.read(&mut parser)?;
                if keys.contains(&Key::Escape) {
                    self.stop.raise();
                }
                let mut shared = lock(&self.shared);
                let room = MOST_PRESSED.saturating_sub(shared.pressed.len());
                shared.pressed.extend(keys.into_iter().take(room));
            }
            Ok(())
        }

        /// The keys that come within a moment.
        fn read(&self, parser: &mut KeyParser) -> Result<Vec<Key>, String> {
            let _turn = self.turn.reading.lock().unwrap_or_else(PoisonError::into_inner);
            let (descriptor, mut bytes) = (self.input.as_fd(), [0; 256]);
            match poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], Some(&READ_SLICE)) {
                Ok(0) | Err(Errno::INTR) => return Ok(Vec::new()),
                Ok(_) => {}
                Err(error) => return Err(error.to_string()),
            }
            match rustix::io::read(&*self.input, &mut bytes) {
                Ok(0) => Err("it was closed".into()),
                Ok(read) => Ok(parser.take(&bytes[..read])),
                Err(Errno::INTR | Errno::AGAIN) => Ok(Vec::new()),
                Err(error) => Err(error.to_string()),
            }
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;
        use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
        use std::time::{Duration, Instant};

        /// A terminal: the end that a person types into, and the end that a program reads.
        fn terminal() -> (OwnedFd, OwnedFd) {
            let person = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
            grantpt(&person).unwrap();
            unlockpt(&person).unwrap();
            let name = ptsname(&person, Vec::new()).unwrap().into_string().unwrap();
            let program = std::fs::OpenOptions::new().read(true).write(true).open(name).unwrap();
            (person, program.into())
        }

        fn until<T>(mut found: impl FnMut() -> Option<T>) -> T {
            let deadline = Instant::now() + Duration::from_secs(20);
            loop {
                if let Some(found) = found() {
                    return found;
                }
                assert!(Instant::now() < deadline);
                std::thread::sleep(Duration::from_millis(2));
            }
        }

        #[test]
        fn keys_come_without_return_and_escape_stops() {
            let (person, program) = terminal();
            let before = tcgetattr(&program).unwrap();
            assert!(before.local_modes.contains(LocalModes::ICANON));
            let (copy, stop) = (program.try_clone().unwrap(), StopToken::new());
            let reader = Reader::on(program, stop.clone()).unwrap();
            rustix::io::write(&person, b"c ").unwrap();
            let mut typed = Vec::new();
            until(|| {
                typed.extend(reader.poll().unwrap().pressed);
                (typed.len() == 2).then_some(())
            });
            assert_eq!(typed, [Key::Char('c'), Key::Space]);
            assert!(!stop.is_raised() && reader.poll().unwrap() == PilotInput::default());
            rustix::io::write(&person, b"\x1b").unwrap();
            until(|| stop.is_raised().then_some(()));
            drop(reader);
            let after = tcgetattr(&copy).unwrap();
            assert_eq!(after.local_modes, before.local_modes, "as it was");
        }

        /// A person who is asked types a line, which is theirs; after that, keys are keys again.
        #[test]
        fn a_suspended_reader_leaves_lines_to_others() {
            let (person, program) = terminal();
            let copy = program.try_clone().unwrap();
            let reader = Reader::on(program, StopToken::new()).unwrap();
            let line = {
                let _suspended = reader.suspend();
                rustix::io::write(&person, b"arm\n").unwrap();
                let mut line = [0; 16];
                let read = rustix::io::read(&copy, &mut line).unwrap();
                line[..read].to_vec()
            };
            assert_eq!(line, b"arm\n", "all at once, as lines come");
            rustix::io::write(&person, b"c").unwrap();
            let typed = until(|| Some(reader.poll().unwrap().pressed).filter(|pressed| !pressed.is_empty()));
            assert_eq!(typed, [Key::Char('c')]);
        }

        #[test]
        fn a_terminal_that_closes_is_told_once() {
            let (person, program) = terminal();
            let reader = Reader::on(program, StopToken::new()).unwrap();
            drop(person);
            until(|| reader.poll().err());
            assert_eq!(reader.poll().unwrap(), PilotInput::default());
        }

        #[test]
        fn what_is_no_terminal_is_refused() {
            let file = std::fs::File::open("/dev/null").unwrap();
            assert!(Reader::on(file.into(), StopToken::new()).is_err());
        }
    }
}
