//! Cameras at this machine's own ports, by Video4Linux: webcams, and the colours of RealSense.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::live::{FrameDevice, FrameStream};
use crate::{CameraError, Clock, FrameFit, LiveCamera};

/// Where cameras have names that stay the same.
const BY_ID: &str = "/dev/v4l/by-id";
/// More than this many names are not listed in a message.
const MOST_NAMED: usize = 8;

/// What is asked of a camera; drivers choose the nearest they can.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct V4l2Settings {
    /// Columns.
    pub width: u32,
    /// Rows.
    pub height: u32,
    /// Frames a second.
    pub fps: u32,
}

impl Default for V4l2Settings {
    /// RLinf's: 640x480 at 15 frames a second.
    fn default() -> Self {
        Self { width: 640, height: 480, fps: 15 }
    }
}

/// A camera at one of this machine's ports. Needs the cargo feature `devices` and Linux.
pub type V4l2Camera = LiveCamera<VideoDevice>;

impl V4l2Camera {
    /// Begins to read a camera: `/dev/video0`, a path of `/dev/v4l/by-id`, or a serial number that one of those
    /// contains. A camera that is not there yet, or was unplugged, is looked for again and again.
    pub fn open(
        name: &str,
        device: &str,
        settings: V4l2Settings,
        fit: impl Into<FrameFit>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, CameraError> {
        let wrong = |why: &str| CameraError::Unreachable {
            name: name.into(),
            address: device.into(),
            why: why.into(),
        };
        if !cfg!(all(feature = "devices", target_os = "linux")) {
            return Err(wrong(
                "V4L2 cameras are not part of this build; they need the feature `devices` on Linux",
            ));
        }
        if device.trim().is_empty() {
            return Err(wrong(
                "it has no name; write /dev/video0, a path of /dev/v4l/by-id or a serial number",
            ));
        }
        if settings.width == 0 || settings.height == 0 || settings.fps == 0 {
            return Err(wrong("width, height and frames a second must not be 0"));
        }
        let device = VideoDevice { device: device.trim().into(), settings, clock: clock.clone() };
        Self::start(name, device, fit.into(), clock)
    }
}

/// What is behind a device's name.
pub struct VideoDevice {
    device: String,
    settings: V4l2Settings,
    clock: Arc<dyn Clock>,
}

impl FrameDevice for VideoDevice {
    fn address(&self) -> String {
        self.device.clone()
    }

    /// Tries every node that the name may mean: a RealSense has several, one of which has colours.
    fn open(&mut self) -> Result<Box<dyn FrameStream>, String> {
        let named = names_by_id();
        let nodes = candidates(&self.device, &named);
        let mut whys = Vec::new();
        for node in &nodes {
            match self.open_node(node) {
                Ok(stream) => return Ok(stream),
                Err(why) => whys.push(format!("{}: {why}", node.display())),
            }
        }
        if whys.is_empty() { Err(not_found(&named)) } else { Err(whys.join("; ")) }
    }
}

impl VideoDevice {
    #[cfg(all(feature = "devices", target_os = "linux"))]
    fn open_node(&self, node: &Path) -> Result<Box<dyn FrameStream>, String> {
        let stream = capture::VideoStream::open(node, self.settings, self.clock.clone());
        stream.map(|stream| Box::new(stream) as Box<dyn FrameStream>)
    }

    #[cfg(not(all(feature = "devices", target_os = "linux")))]
    fn open_node(&self, _node: &Path) -> Result<Box<dyn FrameStream>, String> {
        Err("V4L2 cameras are not part of this build".into())
    }
}

/// What cameras are called that are plugged in.
fn names_by_id() -> Vec<String> {
    let entries = std::fs::read_dir(BY_ID).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// The nodes that a name may mean: a path as it is, a serial number wherever it stands in a name.
fn candidates(device: &str, named: &[String]) -> Vec<PathBuf> {
    if device.starts_with('/') {
        return vec![device.into()];
    }
    named.iter().filter(|name| name.contains(device)).map(|name| Path::new(BY_ID).join(name)).collect()
}

fn not_found(named: &[String]) -> String {
    let shown = named.iter().take(MOST_NAMED).map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    let more = if named.len() > MOST_NAMED { ", …" } else { "" };
    match named {
        [] => format!("no camera has this serial number, and {BY_ID} shows none at all: is it plugged in?"),
        _ => format!("no camera has this serial number; {BY_ID} has {shown}{more}"),
    }
}

/// What to do when a device cannot be opened.
fn explained(error: &std::io::Error) -> String {
    match error.kind() {
        ErrorKind::NotFound => "there is no such device: is it plugged in?".into(),
        ErrorKind::PermissionDenied => {
            "you may not open it: `sudo usermod -aG video $USER`, then log in again".into()
        }
        ErrorKind::ResourceBusy => "another program uses it".into(),
        _ => error.to_string(),
    }
}

#[cfg(all(feature = "devices", target_os = "linux"))]
mod capture {
    use std::path::Path;
    use std::sync::Arc;

    use linuxvideo::format::{PixFormat, PixelFormat};
    use linuxvideo::stream::ReadStream;
    use linuxvideo::{BufType, CapabilityFlags, Device, Fract};
    use plaudit_core::Frames;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::super::jpeg::{self, LARGEST_SIDE};
    use super::super::live::{Delivery, FrameStream, READ_SLICE};
    use super::super::yuyv;
    use super::{V4l2Settings, explained};
    use crate::Clock;

    /// The most frames that can wait; drivers have two buffers.
    const MOST_WAITING: usize = 4;
    /// Formats in the order they are wanted: without loss first.
    const FORMATS: [PixelFormat; 3] = [PixelFormat::YUYV, PixelFormat::MJPG, PixelFormat::JPEG];

    /// A device that takes frames.
    pub(super) struct VideoStream {
        stream: ReadStream,
        is_yuyv: bool,
        size: (usize, usize),
        bytes_per_line: usize,
        clock: Arc<dyn Clock>,
    }

    impl VideoStream {
        pub(super) fn open(
            node: &Path,
            settings: V4l2Settings,
            clock: Arc<dyn Clock>,
        ) -> Result<Self, String> {
            let said = |error: std::io::Error| explained(&error);
            let device = Device::open(node).map_err(said)?;
            let able = device.capabilities().map_err(said)?.device_capabilities();
            if !able.contains(CapabilityFlags::VIDEO_CAPTURE | CapabilityFlags::STREAMING) {
                return Err("it takes no video".into());
            }
            let formats = device.formats(BufType::VIDEO_CAPTURE);
            let formats: Vec<PixelFormat> = formats.flatten().map(|format| format.pixel_format()).collect();
            let Some(format) = FORMATS.into_iter().find(|format| formats.contains(format)) else {
                return Err(format!("it has none of YUYV, MJPG and JPEG, but {formats:?}"));
            };
            let wanted = PixFormat::new(settings.width, settings.height, format);
            let capture = device.video_capture(wanted).map_err(said)?;
            let got = capture.format();
            let size = (got.width() as usize, got.height() as usize);
            let (bytes_per_line, got) = (got.bytes_per_line() as usize, got.pixel_format());
            if !FORMATS.contains(&got) || size.0 > LARGEST_SIDE || size.1 > LARGEST_SIDE {
                return Err(format!("it sends {got:?} of {}x{}, which is not read", size.0, size.1));
            }
            // A camera that cannot change its rate keeps its own.
            let _ = capture.set_frame_interval(Fract::new(1, settings.fps));
            let stream = capture.into_stream().map_err(said)?;
            Ok(Self { stream, is_yuyv: got == PixelFormat::YUYV, size, bytes_per_line, clock })
        }

        fn is_ready(&self) -> Result<bool, String> {
            let mut waiting = [PollFd::new(&self.stream, PollFlags::IN)];
            let slice = Timespec { tv_sec: 0, tv_nsec: READ_SLICE.subsec_nanos().into() };
            match poll(&mut waiting, Some(&slice)) {
                Ok(ready) => Ok(ready > 0),
                Err(rustix::io::Errno::INTR) => Ok(false),
                Err(error) => Err(error.to_string()),
            }
        }

        fn decode(&self, bytes: &[u8]) -> Result<Frames, String> {
            if self.is_yuyv {
                yuyv::decode(bytes, self.size, self.bytes_per_line)
            } else {
                jpeg::decode(bytes)
            }
        }
    }

    impl FrameStream for VideoStream {
        fn read(&mut self) -> Result<Delivery, String> {
            if !self.is_ready()? {
                return Ok(Delivery::Nothing);
            }
            let mut newest = None;
            for _ in 0..MOST_WAITING {
                let taken = self.stream.dequeue(|view| Ok((!view.is_error()).then(|| view.to_vec())));
                newest = taken.map_err(|error| explained(&error))?;
                if self.stream.will_block().map_err(|error| explained(&error))? {
                    break;
                }
            }
            let time = self.clock.now();
            Ok(match newest.as_deref().map(|bytes| self.decode(bytes)) {
                Some(Ok(image)) => Delivery::Image(image, time),
                Some(Err(why)) => Delivery::Broken(why),
                None => Delivery::Broken("the driver says that it is damaged".into()),
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RealClock;

    fn open(device: &str) -> Result<V4l2Camera, CameraError> {
        let fit = FrameFit::square(128);
        V4l2Camera::open("wrist_1", device, V4l2Settings::default(), fit, Arc::new(RealClock::new()))
    }

    #[test]
    fn a_serial_number_means_every_node_that_has_it() {
        let named = [
            "usb-Intel_RealSense_435_230322271473-video-index0",
            "usb-Intel_RealSense_435_230322271473-video-index1",
            "usb-Logitech_C920_AB12-video-index0",
        ]
        .map(String::from);
        assert_eq!(candidates("230322271473", &named).len(), 2);
        assert_eq!(
            candidates("AB12", &named),
            [Path::new("/dev/v4l/by-id/usb-Logitech_C920_AB12-video-index0")]
        );
        assert_eq!(candidates("/dev/video7", &named), [Path::new("/dev/video7")]);
        assert!(candidates("999", &named).is_empty());
        assert!(not_found(&named).contains("`usb-Logitech_C920_AB12-video-index0`"));
        assert!(not_found(&[]).contains("plugged in"));
    }

    #[test]
    fn what_cannot_be_opened_says_what_to_do() {
        let said = |kind: ErrorKind| explained(&kind.into());
        assert!(said(ErrorKind::PermissionDenied).contains("usermod -aG video"));
        assert!(said(ErrorKind::ResourceBusy).contains("another program"));
        assert!(said(ErrorKind::NotFound).contains("plugged in"));
    }

    #[cfg(all(feature = "devices", target_os = "linux"))]
    #[test]
    fn a_camera_that_is_not_there_is_named_and_looked_for() {
        let mut camera = open("/dev/video-none").unwrap();
        let error = crate::first_frame(&mut camera, std::time::Duration::from_millis(300)).unwrap_err();
        let said = error.to_string();
        assert!(
            said.contains("camera `wrist_1` at /dev/video-none") && said.contains("no such device"),
            "{said}"
        );
        assert!(open(" ").is_err());
        // A file that is no camera is refused as well.
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut camera = open(file.path().to_str().unwrap()).unwrap();
        assert!(crate::first_frame(&mut camera, std::time::Duration::from_millis(300)).is_err());
    }

    #[cfg(not(all(feature = "devices", target_os = "linux")))]
    #[test]
    fn a_build_without_devices_says_so() {
        assert!(open("/dev/video0").err().unwrap().to_string().contains("`devices`"));
    }
}
