//! The keyboard of the terminal.

use crate::{Pilot, PilotError, PilotInput, StopToken};

/// Keys typed into the terminal, on a thread of its own. Terminals tell presses and no releases, so no key is ever
/// held; see [`KeyLatch`](crate::KeyLatch). Esc raises the stop token at once, whoever polls and when.
///
/// While it lives, lines are not edited and letters not shown; Ctrl-C works as ever. Clones share the keys: whoever
/// asks the person for a whole line keeps one, for [`suspended`](Self::suspended).
#[derive(Clone)]
pub struct TerminalPilot {
    #[cfg(unix)]
    reader: std::sync::Arc<unix::Reader>,
}

impl TerminalPilot {
    /// Begins to read standard input, which must be a terminal.
    #[cfg(unix)]
    pub fn open(stop: StopToken) -> Result<Self, PilotError> {
        unix::Reader::terminal(stop).map(|reader| Self { reader: reader.into() }).map_err(wrong)
    }

    /// Begins to read standard input, whatever it is: a pipe has keys, too, and ends.
    #[cfg(unix)]
    pub fn open_stdin(stop: StopToken) -> Result<Self, PilotError> {
        unix::Reader::stdin(stop).map(|reader| Self { reader: reader.into() }).map_err(wrong)
    }

    /// Whether standard input is a terminal, and its keys are for this process: not for one in the background, which the
    /// system stops as soon as it touches the terminal.
    pub fn is_there() -> bool {
        #[cfg(unix)]
        let is_there = unix::is_foreground_terminal();
        #[cfg(not(unix))]
        let is_there = false;
        is_there
    }

    /// Begins to read standard input, which must be a terminal.
    #[cfg(not(unix))]
    pub fn open(_stop: StopToken) -> Result<Self, PilotError> {
        Err(wrong("it is read on Unix alone".into()))
    }

    /// Begins to read standard input, whatever it is.
    #[cfg(not(unix))]
    pub fn open_stdin(stop: StopToken) -> Result<Self, PilotError> {
        Self::open(stop)
    }

    /// Leaves the terminal to `ask`, with lines that are shown and edited, and takes it back after that. Nobody sees
    /// Esc meanwhile, so the arm must not move.
    pub fn suspended<T>(&self, ask: impl FnOnce() -> T) -> T {
        #[cfg(unix)]
        let _suspended = self.reader.suspend();
        ask()
    }
}

/// Leaves the terminal as it was before a [`TerminalPilot`] read it: for whoever ends the process without dropping it.
pub fn restore_terminal() {
    #[cfg(unix)]
    unix::restore();
}

fn wrong(why: String) -> PilotError {
    PilotError { device: "terminal".into(), why }
}

impl Pilot for TerminalPilot {
    #[cfg(unix)]
    fn poll(&mut self) -> Result<PilotInput, PilotError> {
        self.reader.poll().map_err(wrong)
    }

    #[cfg(not(unix))]
    fn poll(&mut self) -> Result<PilotInput, PilotError> {
        Ok(PilotInput::default())
    }
}

#[cfg(unix)]
mod unix {
    use std::os::fd::{AsFd, OwnedFd};
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
    use std::thread::JoinHandle;
    use std::time::Duration;

    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::io::Errno;
    use rustix::process::getpgrp;
    use rustix::termios::{
        LocalModes, OptionalActions, SpecialCodeIndex, Termios, isatty, tcgetattr, tcgetpgrp, tcsetattr,
    };

    use super::super::keys::{ESCAPE, KeyParser};
    use crate::{Key, PilotInput, StopToken};

    /// How long a read waits before it looks whether it is still wanted.
    const READ_SLICE: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
    /// How long the rest of an arrow may take.
    const ARROW_SLICE: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
    /// How often a suspended reader looks whether it may go on.
    const LOOKS_EVERY: Duration = Duration::from_millis(20);
    /// Presses that nobody asks for are forgotten beyond this many.
    const MOST_PRESSED: usize = 256;

    /// The terminal that is read now, and how it was before.
    static CHANGED: Mutex<Option<(Arc<OwnedFd>, Termios)>> = Mutex::new(None);

    pub(super) fn is_foreground_terminal() -> bool {
        let input = rustix::stdio::stdin();
        isatty(input) && tcgetpgrp(input).is_ok_and(|group| group == getpgrp())
    }

    pub(super) fn restore() {
        if let Some((terminal, before)) = lock(&CHANGED).take() {
            // A terminal that is gone needs no restoring.
            let _ = tcsetattr(&*terminal, OptionalActions::Now, &before);
        }
    }

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

    /// How a terminal was, and how it is while keys are read.
    struct Settings {
        before: Termios,
        by_key: Termios,
    }

    impl Settings {
        /// Keys come one by one and are not shown; signals such as Ctrl-C stay.
        fn of(terminal: &OwnedFd) -> Result<Self, Errno> {
            let before = tcgetattr(terminal)?;
            let mut by_key = before.clone();
            by_key.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
            by_key.special_codes[SpecialCodeIndex::VMIN] = 1;
            by_key.special_codes[SpecialCodeIndex::VTIME] = 0;
            Ok(Self { before, by_key })
        }
    }

    /// Reads keys until it is dropped, and then leaves the terminal as it was.
    pub(super) struct Reader {
        input: Arc<OwnedFd>,
        /// Of a terminal; a pipe has none.
        settings: Option<Settings>,
        turn: Arc<Turn>,
        shared: Arc<Mutex<Shared>>,
        ended: StopToken,
        thread: Option<JoinHandle<()>>,
    }

    impl Reader {
        pub(super) fn terminal(stop: StopToken) -> Result<Self, String> {
            match is_foreground_terminal() {
                true => Self::stdin(stop),
                false if isatty(rustix::stdio::stdin()) => Err("this process runs in the background".into()),
                false => Err("standard input is no terminal".into()),
            }
        }

        pub(super) fn stdin(stop: StopToken) -> Result<Self, String> {
            let input = rustix::stdio::stdin().try_clone_to_owned().map_err(|error| error.to_string())?;
            Self::on(input, stop)
        }

        pub(super) fn on(input: OwnedFd, stop: StopToken) -> Result<Self, String> {
            let said = |error: Errno| error.to_string();
            let settings = isatty(&input).then(|| Settings::of(&input)).transpose().map_err(said)?;
            let input = Arc::new(input);
            if let Some(Settings { before, by_key }) = &settings {
                tcsetattr(&*input, OptionalActions::Now, by_key).map_err(said)?;
                *lock(&CHANGED) = Some((input.clone(), before.clone()));
            }
            let turn = Arc::<Turn>::default();
            let (shared, ended) = (Arc::<Mutex<Shared>>::default(), StopToken::new());
            let mut keys = Keys {
                input: input.clone(),
                turn: turn.clone(),
                shared: shared.clone(),
                ended: ended.clone(),
                stop,
            };
            let mut reader = Self { input, settings, turn, shared, ended, thread: None };
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
            self.set(|settings| &settings.before);
            Suspended { reader: self, _turn: turn }
        }

        fn set(&self, which: fn(&Settings) -> &Termios) {
            if let Some(settings) = &self.settings {
                // A terminal that is gone needs no settings.
                let _ = tcsetattr(&*self.input, OptionalActions::Now, which(settings));
            }
        }

        /// What was pressed, and when there is nothing more, why.
        pub(super) fn poll(&self) -> Result<PilotInput, String> {
            let mut shared = lock(&self.shared);
            let pressed = std::mem::take(&mut shared.pressed);
            match shared.trouble.take_if(|_| pressed.is_empty()) {
                Some(why) => Err(why),
                None => Ok(PilotInput { pressed, ..PilotInput::default() }),
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
            self.reader.set(|settings| &settings.by_key);
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
            self.set(|settings| &settings.before);
            lock(&CHANGED).take_if(|(input, _)| Arc::ptr_eq(input, &self.input));
        }
    }

    fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
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
            let mut bytes = self.bytes(&READ_SLICE)?;
            if bytes.last() == Some(&ESCAPE) {
                // The rest of an arrow that a connection has cut in two; Esc alone may wait so long. An end comes again.
                bytes.extend(self.bytes(&ARROW_SLICE).unwrap_or_default());
            }
            Ok(parser.take(&bytes))
        }

        fn bytes(&self, wait: &Timespec) -> Result<Vec<u8>, String> {
            let (descriptor, mut bytes) = (self.input.as_fd(), [0; 256]);
            match poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], Some(wait)) {
                Ok(0) | Err(Errno::INTR) => return Ok(Vec::new()),
                Ok(_) => {}
                Err(error) => return Err(error.to_string()),
            }
            match rustix::io::read(&*self.input, &mut bytes) {
                Ok(0) => Err("it was closed".into()),
                Ok(read) => Ok(bytes[..read].to_vec()),
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
        fn an_arrow_that_comes_in_two_parts_is_no_escape() {
            let (person, program) = terminal();
            let stop = StopToken::new();
            let reader = Reader::on(program, stop.clone()).unwrap();
            rustix::io::write(&person, b"\x1b").unwrap();
            rustix::io::write(&person, b"[A").unwrap();
            let typed = until(|| Some(reader.poll().unwrap().pressed).filter(|pressed| !pressed.is_empty()));
            assert_eq!((typed, stop.is_raised()), (vec![Key::Up], false));
        }

        #[test]
        fn a_terminal_that_closes_is_told_once() {
            let (person, program) = terminal();
            let reader = Reader::on(program, StopToken::new()).unwrap();
            drop(person);
            until(|| reader.poll().err());
            assert_eq!(reader.poll().unwrap(), PilotInput::default());
        }

        /// All that was written is read before the end is told, and once.
        #[test]
        fn a_pipe_has_keys_and_an_end() {
            let (program, mut person) = std::io::pipe().unwrap();
            let reader = Reader::on(program.into(), StopToken::new()).unwrap();
            std::io::Write::write_all(&mut person, b"ca").unwrap();
            drop(person);
            let mut typed = Vec::new();
            let why = until(|| reader.poll().map(|input| typed.extend(input.pressed)).err());
            assert_eq!((typed, why.as_str()), (vec![Key::Char('c'), Key::Char('a')], "it was closed"));
            assert_eq!(reader.poll().unwrap(), PilotInput::default());
        }
    }
}
