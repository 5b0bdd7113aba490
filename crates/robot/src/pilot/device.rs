//! A thread per input device: it reads, notices when the device is gone, and looks for it again.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::{Buttons, Deflection, Key, Pilot, PilotError, PilotInput, StopToken};

/// How long a read waits.
const READ_SLICE: Duration = Duration::from_millis(50);
/// How often a device that is gone is looked for.
const RESCAN_EVERY: Duration = Duration::from_millis(500);
/// Presses that nobody asks for are forgotten beyond this many.
const MOST_PRESSED: usize = 64;

/// What is held on a device.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Controls {
    pub(super) deflection: Deflection,
    pub(super) buttons: Buttons,
    pub(super) held: Vec<Key>,
}

/// An open device.
pub(super) trait InputStream: Send {
    /// Waits for at most `wait`. What is held now, or nothing if nothing came. An error means that the device is gone.
    fn read(&mut self, wait: Duration) -> Result<Option<Controls>, String>;

    /// A device that reports all the time while it is deflected, and is silent for so long, has lost its connection.
    fn silence(&self) -> Option<Duration>;
}

/// A device that was looked for.
pub(super) type Opened = Result<Box<dyn InputStream>, String>;

/// What is said of devices that this build cannot read.
#[cfg(not(all(feature = "devices", target_os = "linux")))]
pub(super) fn not_built() -> Opened {
    Err("it is not part of this build: the cargo feature `devices` has it, on Linux".into())
}

#[derive(Default)]
struct Shared {
    controls: Controls,
    pressed: Vec<Key>,
    /// What went wrong and was not told yet.
    trouble: Option<String>,
    stop: StopToken,
}

impl Shared {
    fn take(&mut self, controls: Controls) {
        if controls.held.contains(&Key::Escape) {
            self.stop.raise();
        }
        let new = controls.held.iter().filter(|key| !self.controls.held.contains(key));
        let room = MOST_PRESSED.saturating_sub(self.pressed.len());
        self.pressed.extend(new.take(room));
        self.controls = controls;
    }
}

/// A person at an input device, which needs the cargo feature `devices` and Linux. One that is unplugged counts as let go of, and is
/// looked for twice a second.
pub struct DevicePilot {
    name: &'static str,
    shared: Arc<Mutex<Shared>>,
    ended: StopToken,
    thread: Option<JoinHandle<()>>,
}

impl DevicePilot {
    /// Opens the device of this name, which must be there, and reads it from now on.
    /// Esc, on devices that have it, raises `stop` whoever polls and when.
    pub(super) fn start(
        name: &'static str,
        mut open: impl FnMut() -> Opened + Send + 'static,
        stop: StopToken,
    ) -> Result<Self, PilotError> {
        let wrong = |why| PilotError { device: name.into(), why };
        let stream = open().map_err(wrong)?;
        let (shared, ended) = (Arc::new(Mutex::new(Shared { stop, ..Shared::default() })), StopToken::new());
        let (seen, is_over) = (shared.clone(), ended.clone());
        let thread = std::thread::Builder::new()
            .name("pilot".into())
            .spawn(move || run(open, stream, &seen, &is_over))
            .map_err(|error| wrong(error.to_string()))?;
        Ok(Self { name, shared, ended, thread: Some(thread) })
    }
}

impl Pilot for DevicePilot {
    /// What is held and was pressed. Trouble is told once; after that the device is at rest.
    fn poll(&mut self) -> Result<PilotInput, PilotError> {
        let mut shared = lock(&self.shared);
        if let Some(why) = shared.trouble.take() {
            return Err(PilotError { device: self.name.into(), why });
        }
        let Controls { deflection, buttons, held } = shared.controls.clone();
        Ok(PilotInput { deflection, buttons, held, pressed: std::mem::take(&mut shared.pressed) })
    }
}

impl Drop for DevicePilot {
    fn drop(&mut self) {
        self.ended.raise();
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has no more to say.
            let _ = thread.join();
        }
    }
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whatever ends the thread lets go of the arm.
struct ReleaseAtEnd<'a>(&'a Mutex<Shared>);

impl Drop for ReleaseAtEnd<'_> {
    fn drop(&mut self) {
        lock(self.0).controls = Controls::default();
    }
}

fn run(
    mut open: impl FnMut() -> Opened,
    mut stream: Box<dyn InputStream>,
    shared: &Mutex<Shared>,
    ended: &StopToken,
) {
    let _release = ReleaseAtEnd(shared);
    while !ended.is_raised() {
        let why = read_all(stream.as_mut(), shared, ended);
        let Some(why) = why else { return };
        {
            let mut shared = lock(shared);
            shared.take(Controls::default());
            shared.trouble = Some(format!("{why}; it counts as released, and is looked for"));
        }
        stream = loop {
            if ended.is_raised() {
                return;
            }
            std::thread::sleep(RESCAN_EVERY);
            if let Ok(stream) = open() {
                break stream;
            }
        };
    }
}

/// Reads until the device is gone, and says why, or until nobody wants it.
fn read_all(stream: &mut dyn InputStream, shared: &Mutex<Shared>, ended: &StopToken) -> Option<String> {
    let mut last_report = Instant::now();
    while !ended.is_raised() {
        match stream.read(READ_SLICE) {
            Ok(Some(controls)) => {
                last_report = Instant::now();
                lock(shared).take(controls);
            }
            Ok(None) => {
                let is_lost = stream.silence().is_some_and(|silence| last_report.elapsed() > silence);
                let mut shared = lock(shared);
                if is_lost && shared.controls.deflection != Deflection::default() {
                    shared.controls.deflection = Deflection::default();
                }
            }
            Err(why) => return Some(why),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use glam::DVec3;
    use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};

    type Report = Result<Controls, String>;

    struct SentStream(Receiver<Report>);

    /// A device whose reports a test sends; it opens as often as there are streams.
    fn start(streams: Receiver<Receiver<Report>>, stop: StopToken) -> Result<DevicePilot, PilotError> {
        let open = move || -> Opened {
            let stream = streams.try_recv().map_err(|_| "it is not plugged in".to_string())?;
            Ok(Box::new(SentStream(stream)))
        };
        DevicePilot::start("test stick", open, stop)
    }

    impl InputStream for SentStream {
        fn read(&mut self, wait: Duration) -> Result<Option<Controls>, String> {
            match self.0.recv_timeout(wait) {
                Ok(report) => report.map(Some),
                Err(RecvTimeoutError::Timeout) => Ok(None),
                Err(RecvTimeoutError::Disconnected) => Err("unplugged".into()),
            }
        }

        fn silence(&self) -> Option<Duration> {
            Some(Duration::from_millis(200))
        }
    }

    fn plugged(stop: StopToken) -> (Sender<Receiver<Report>>, Sender<Report>, DevicePilot) {
        let ((plug, streams), (reports, stream)) = (channel(), channel());
        plug.send(stream).unwrap();
        (plug, reports, start(streams, stop).unwrap())
    }

    fn pushed() -> Controls {
        let deflection = Deflection { linear: DVec3::X, ..Deflection::default() };
        Controls { deflection, buttons: Buttons { left: true, right: false }, held: vec![Key::Char('c')] }
    }

    fn until(
        reader: &mut DevicePilot,
        is_so: impl Fn(&Result<PilotInput, PilotError>) -> bool,
    ) -> PilotInput {
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            let polled = reader.poll();
            if is_so(&polled) {
                return polled.unwrap_or_default();
            }
            assert!(Instant::now() < deadline, "{polled:?}");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    #[test]
    fn a_device_that_is_not_there_at_first_is_an_error() {
        let (_plug, streams) = channel();
        let error = start(streams, StopToken::new()).err().unwrap();
        assert_eq!(error.to_string(), "the pilot's test stick cannot be read: it is not plugged in");
    }

    #[test]
    fn silence_off_centre_is_a_release_of_the_stick_alone() {
        let (_plug, reports, mut reader) = plugged(StopToken::new());
        reports.send(Ok(pushed())).unwrap();
        let input = until(&mut reader, |input| input.as_ref().is_ok_and(PilotInput::intervenes));
        assert_eq!(input.pressed, [Key::Char('c')]);
        let silent =
            until(&mut reader, |input| input.as_ref().is_ok_and(|input| !input.deflection.is_moved()));
        assert!(silent.buttons.left, "buttons report changes only");
        assert!(silent.pressed.is_empty(), "a press is told once");
    }

    #[test]
    fn escape_stops_though_nobody_polls() {
        let stop = StopToken::new();
        let (_plug, reports, _reader) = plugged(stop.clone());
        reports.send(Ok(pushed())).unwrap();
        reports.send(Ok(Controls { held: vec![Key::Escape], ..Controls::default() })).unwrap();
        let deadline = Instant::now() + Duration::from_secs(20);
        while !stop.is_raised() {
            assert!(Instant::now() < deadline);
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    #[test]
    fn an_unplugged_device_lets_go_says_so_once_and_is_found_again() {
        let (plug, reports, mut reader) = plugged(StopToken::new());
        reports.send(Ok(pushed())).unwrap();
        until(&mut reader, |input| input.as_ref().is_ok_and(PilotInput::intervenes));
        drop(reports);
        until(&mut reader, |input| {
            input.as_ref().is_err_and(|why| why.why.contains("unplugged; it counts as released"))
        });
        assert_eq!(reader.poll().unwrap(), PilotInput::default());
        let (reports, stream) = channel();
        plug.send(stream).unwrap();
        reports.send(Ok(pushed())).unwrap();
        until(&mut reader, |input| input.as_ref().is_ok_and(PilotInput::intervenes));
    }
}
