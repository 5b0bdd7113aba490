//! How people write where a camera is.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use thiserror::Error;

use crate::{
    AtEnd, Camera, CameraError, Clock, FrameFit, MjpegCamera, ReplayCamera, V4l2Camera, V4l2Settings,
};

/// Frames a second of a recording that does not say: what cameras are asked for.
const REPLAY_HZ: f64 = 15.0;

/// Where a camera is: `http://ADDRESS` of an MJPEG stream, `/dev/video0` or another path of a device, a serial number,
/// or `replay:FOLDER` for a folder of JPEG and PNG files, shown over and over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CameraAddress {
    /// An MJPEG stream.
    Http(String),
    /// A device of Video4Linux, by path or serial number.
    Device(String),
    /// A folder of frames.
    Replay(PathBuf),
}

/// An address at which no camera can be.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "`{address}` is no camera: {why}. Write http://HOST:PORT/PATH of an MJPEG stream, /dev/video0, a path of /dev/v4l/by-id, a serial number, or replay:FOLDER"
)]
pub struct CameraAddressError {
    /// What was written.
    pub address: String,
    /// What is wrong with it.
    pub why: String,
}

impl FromStr for CameraAddress {
    type Err = CameraAddressError;

    fn from_str(text: &str) -> Result<Self, CameraAddressError> {
        let wrong = |why: &str| CameraAddressError { address: text.into(), why: why.into() };
        let address = text.trim();
        if let Some(folder) = address.strip_prefix("replay:") {
            return if folder.is_empty() {
                Err(wrong("no folder is named"))
            } else {
                Ok(Self::Replay(folder.into()))
            };
        }
        match address.split_once("://") {
            Some(("http", _)) => Ok(Self::Http(address.into())),
            Some((scheme, _)) => Err(wrong(&format!("`{scheme}` is not spoken here"))),
            None if address.is_empty() => Err(wrong("nothing is written")),
            None if address.starts_with('/') => Ok(Self::Device(address.into())),
            // Parts of a name in /dev/v4l/by-id.
            None if address
                .chars()
                .all(|letter| letter.is_ascii_alphanumeric() || "-_.:".contains(letter)) =>
            {
                Ok(Self::Device(address.into()))
            }
            None => Err(wrong("it is neither an address, nor a path, nor a serial number")),
        }
    }
}

impl fmt::Display for CameraAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Http(address) | Self::Device(address) => f.write_str(address),
            Self::Replay(folder) => write!(f, "replay:{}", folder.display()),
        }
    }
}

impl CameraAddress {
    /// Opens the camera that is there. What is not there yet is waited for; see [`Camera::trouble`].
    pub fn open(
        &self,
        name: &str,
        fit: impl Into<FrameFit>,
        clock: Arc<dyn Clock>,
    ) -> Result<Box<dyn Camera>, CameraError> {
        Ok(match self {
            Self::Http(url) => Box::new(MjpegCamera::open(name, url, fit, clock)?),
            Self::Device(device) => {
                Box::new(V4l2Camera::open(name, device, V4l2Settings::default(), fit, clock)?)
            }
            Self::Replay(folder) => {
                Box::new(ReplayCamera::open(name, folder, REPLAY_HZ, AtEnd::Repeat, fit, clock)?)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::VirtualClock;

    #[test]
    fn addresses_say_what_they_are() {
        let parsed = |text: &str| text.parse::<CameraAddress>().unwrap();
        assert_eq!(
            parsed(" http://10.0.0.3:8080/?action=stream"),
            CameraAddress::Http("http://10.0.0.3:8080/?action=stream".into())
        );
        assert_eq!(parsed("/dev/video2"), CameraAddress::Device("/dev/video2".into()));
        assert_eq!(parsed("230322271473"), CameraAddress::Device("230322271473".into()));
        assert_eq!(parsed("replay:frames/wrist"), CameraAddress::Replay("frames/wrist".into()));
        assert_eq!(parsed("replay:frames/wrist").to_string(), "replay:frames/wrist");
        for (wrong, why) in [
            ("rtsp://10.0.0.3/stream", "`rtsp` is not spoken"),
            ("https://cam", "`https` is not spoken"),
            ("", "nothing is written"),
            ("replay:", "no folder"),
            ("my camera", "neither an address"),
        ] {
            let error = wrong.parse::<CameraAddress>().unwrap_err().to_string();
            assert!(error.contains(why) && error.contains("replay:FOLDER"), "{error}");
        }
    }

    #[test]
    fn a_folder_that_is_not_there_is_named() {
        let address: CameraAddress = "replay:no/such/folder".parse().unwrap();
        let error = address.open("top", FrameFit::square(8), Arc::new(VirtualClock::new())).err().unwrap();
        assert!(error.to_string().starts_with("camera `top` at no/such/folder: "), "{error}");
    }
}
