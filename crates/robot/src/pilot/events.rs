//! The kernel's input events, for gamepads and keyboards.

/// Types of events: buttons and keys, axes.
pub(super) const EV_KEY: u16 = 1;
pub(super) const EV_ABS: u16 = 3;

/// What to do about a device that may not be opened.
pub(super) fn explained(path: &str, error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::PermissionDenied => format!(
            "you may not open {path}: sit at the machine, or `sudo usermod -aG input $USER` and log in again"
        ),
        std::io::ErrorKind::NotFound => format!("{path} is not there: is it plugged in?"),
        _ => format!("{path}: {error}"),
    }
}

/// What is known of a device after some events.
pub(super) trait EventState: Send {
    /// Takes an event: type, code and value.
    fn take(&mut self, kind: u16, code: u16, value: i32);

    /// What is held.
    fn controls(&self) -> super::device::Controls;
}

#[cfg(all(feature = "devices", target_os = "linux"))]
pub(super) use linux::{EventStream, open_first, open_only};

#[cfg(all(feature = "devices", target_os = "linux"))]
mod linux {
    use std::time::Duration;

    use evdev::raw_stream::RawDevice;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::super::device::{Controls, InputStream};
    use super::{EventState, explained};

    type IsWanted = fn(&RawDevice) -> bool;

    /// The device at `path`, or without one the first of its kind.
    pub(in super::super) fn open_first(
        path: Option<&str>,
        is_wanted: IsWanted,
    ) -> Result<(String, RawDevice), String> {
        match path {
            Some(path) => open(path, is_wanted),
            None => find(is_wanted)?.into_iter().next().ok_or_else(|| "none is plugged in".into()),
        }
    }

    /// The device at `path`, or without one the only one of its kind.
    pub(in super::super) fn open_only(
        path: Option<&str>,
        is_wanted: IsWanted,
    ) -> Result<(String, RawDevice), String> {
        if let Some(path) = path {
            return open(path, is_wanted);
        }
        let mut found = find(is_wanted)?;
        match (found.pop(), found.is_empty()) {
            (Some(only), true) => Ok(only),
            (Some((last, _)), false) => {
                let others = found.iter().map(|(path, _)| path.as_str()).collect::<Vec<_>>().join(", ");
                Err(format!("there are several; name one of {others}, {last}"))
            }
            (None, _) => Err("none is plugged in".into()),
        }
    }

    fn open(path: &str, is_wanted: IsWanted) -> Result<(String, RawDevice), String> {
        let device = RawDevice::open(path).map_err(|error| explained(path, &error))?;
        if is_wanted(&device) {
            Ok((path.into(), device))
        } else {
            Err(format!("{path} is a device of another kind ({})", device.name().unwrap_or("without a name")))
        }
    }

    /// All devices of a kind; where there are none, the reason of one that could not be opened.
    fn find(is_wanted: IsWanted) -> Result<Vec<(String, RawDevice)>, String> {
        let entries = std::fs::read_dir("/dev/input").map_err(|error| explained("/dev/input", &error))?;
        let mut paths: Vec<String> =
            entries.flatten().map(|entry| entry.path().to_string_lossy().into_owned()).collect();
        paths.retain(|path| path.starts_with("/dev/input/event"));
        paths.sort();
        let (mut found, mut denied) = (Vec::new(), None);
        for path in paths {
            match RawDevice::open(&path) {
                Ok(device) if is_wanted(&device) => found.push((path, device)),
                Ok(_) => {}
                Err(error) => denied = Some(explained(&path, &error)),
            }
        }
        match denied {
            Some(why) if found.is_empty() => Err(format!("none is found that may be opened; {why}")),
            _ => Ok(found),
        }
    }

    /// Type, code and value of the events that come within `wait`.
    fn read_events(device: &mut RawDevice, wait: Duration) -> Result<Vec<(u16, u16, i32)>, String> {
        let wait = Timespec { tv_sec: 0, tv_nsec: wait.subsec_nanos().into() };
        match poll(&mut [PollFd::new(device, PollFlags::IN)], Some(&wait)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => return Ok(Vec::new()),
            Ok(_) => {}
            Err(error) => return Err(error.to_string()),
        }
        let events = device.fetch_events().map_err(|error| error.to_string())?;
        Ok(events.map(|event| (event.event_type().0, event.code(), event.value())).collect())
    }

    /// A device and what is known of it.
    pub(in super::super) struct EventStream<S> {
        pub(in super::super) device: RawDevice,
        pub(in super::super) state: S,
    }

    impl<S: EventState> InputStream for EventStream<S> {
        fn read(&mut self, wait: Duration) -> Result<Option<Controls>, String> {
            let events = read_events(&mut self.device, wait)?;
            events.iter().for_each(|&(kind, code, value)| self.state.take(kind, code, value));
            Ok((!events.is_empty()).then(|| self.state.controls()))
        }

        /// A stick that is held still sends nothing, and keys that are held may repeat or not.
        fn silence(&self) -> Option<Duration> {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::ErrorKind;

    #[test]
    fn what_cannot_be_opened_says_what_to_do() {
        let said = |kind: ErrorKind| explained("/dev/input/event7", &kind.into());
        assert!(said(ErrorKind::PermissionDenied).contains("usermod -aG input"));
        assert!(said(ErrorKind::NotFound).starts_with("/dev/input/event7 is not there"));
    }
}
