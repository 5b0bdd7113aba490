//! SpaceMouse: six axes and two buttons over HID.

use glam::DVec3;

use super::device::{Controls, DevicePilot, Opened};
use crate::{Buttons, Deflection, PilotError, StopToken};

/// A deflection of this many counts is a whole action, as RLinf reads it.
const FULL_SCALE: f64 = 350.0;
/// The longest report of all models.
const LONGEST_REPORT: usize = 64;

/// Makers and models: 3Dconnexion, and Logitech, who sold them before.
const MODELS: &[(u16, &[u16])] = &[
    (0x046d, &[0xc625, 0xc626, 0xc627, 0xc629, 0xc62b]),
    (0x256f, &[0xc62e, 0xc632, 0xc633, 0xc635, 0xc638, 0xc63a, 0xc641, 0xc652]),
];

/// Rules for udev that let the person at the machine read SpaceMice and gamepads. They belong into [`UDEV_RULES_PATH`].
pub const UDEV_RULES: &str = r#"KERNEL=="hidraw*", ATTRS{idVendor}=="256f", TAG+="uaccess"
KERNEL=="hidraw*", ATTRS{idVendor}=="046d", ATTRS{idProduct}=="c625|c626|c627|c629|c62b", TAG+="uaccess"
SUBSYSTEM=="input", KERNEL=="event*", ENV{ID_INPUT_JOYSTICK}=="1", TAG+="uaccess"
"#;

/// Where [`UDEV_RULES`] belong; after that `sudo udevadm control -R && sudo udevadm trigger`.
pub const UDEV_RULES_PATH: &str = "/etc/udev/rules.d/60-plaudit-robot.rules";

impl DevicePilot {
    /// The SpaceMouse that is plugged in. Its axes are those of RLinf's teleoperation. One that falls silent off its centre for
    /// half a second has been let go of.
    pub fn space_mouse() -> Result<Self, PilotError> {
        // It has no key that stops.
        Self::start("SpaceMouse", hid::open, StopToken::new())
    }
}

/// Whether a device is a SpaceMouse; others of the same makers are keyboards and mice.
pub(crate) fn is_space_mouse(vendor: u16, product: u16) -> bool {
    MODELS.iter().any(|(maker, models)| *maker == vendor && models.contains(&product))
}

/// One report of the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Report {
    /// Older models send translation and rotation by turns.
    Translation([i16; 3]),
    Rotation([i16; 3]),
    /// Newer ones send both at once.
    Both([i16; 3], [i16; 3]),
    Buttons(Buttons),
}

impl Report {
    /// Reads a report with its id in front. Others, such as the battery's, are none.
    fn parse(report: &[u8]) -> Option<Self> {
        match report {
            [1, rest @ ..] if rest.len() >= 12 => Some(Self::Both(axes(rest)?, axes(&rest[6..])?)),
            [1, rest @ ..] => axes(rest).map(Self::Translation),
            [2, rest @ ..] => axes(rest).map(Self::Rotation),
            [3, bits, ..] => Some(Self::Buttons(Buttons { left: bits & 1 != 0, right: bits & 2 != 0 })),
            _ => None,
        }
    }
}

/// Three numbers of 16 bits, the lower byte first.
fn axes(bytes: &[u8]) -> Option<[i16; 3]> {
    let bytes = bytes.get(..6)?;
    Some(std::array::from_fn(|axis| i16::from_le_bytes([bytes[2 * axis], bytes[2 * axis + 1]])))
}

/// What is known of the device after some reports.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct SpaceMouseState {
    translation: [i16; 3],
    rotation: [i16; 3],
    buttons: Buttons,
}

impl SpaceMouseState {
    fn take(&mut self, report: Report) {
        match report {
            Report::Translation(translation) => self.translation = translation,
            Report::Rotation(rotation) => self.rotation = rotation,
            Report::Both(translation, rotation) => {
                (self.translation, self.rotation) = (translation, rotation)
            }
            Report::Buttons(buttons) => self.buttons = buttons,
        }
    }

    /// Along and about the base's axes, as RLinf maps them: pushed away from the person, the arm goes forward.
    fn controls(&self) -> Controls {
        let share = |count: i16| (f64::from(count) / FULL_SCALE).clamp(-1.0, 1.0);
        let ([x, y, z], [pitch, roll, yaw]) = (self.translation.map(share), self.rotation.map(share));
        let deflection = Deflection { linear: DVec3::new(y, x, -z), angular: DVec3::new(roll, pitch, -yaw) };
        Controls { deflection, buttons: self.buttons, held: Vec::new() }
    }
}

#[cfg(all(feature = "devices", target_os = "linux"))]
mod hid {
    use std::time::Duration;

    use hidapi::{HidApi, HidDevice, HidError};

    use super::super::device::InputStream;
    use super::{Controls, LONGEST_REPORT, Opened, Report, SpaceMouseState, is_space_mouse};

    /// Off its centre, a SpaceMouse reports a hundred times a second.
    const SILENCE: Duration = Duration::from_millis(500);
    /// Generic desktop, multi-axis controller.
    const MULTI_AXIS: (u16, u16) = (1, 8);

    struct HidStream {
        device: HidDevice,
        state: SpaceMouseState,
    }

    /// The first SpaceMouse; of its interfaces the one that has axes.
    pub(super) fn open() -> Opened {
        let api = HidApi::new().map_err(|error| error.to_string())?;
        let found =
            api.device_list().filter(|device| is_space_mouse(device.vendor_id(), device.product_id()));
        let best = found.min_by_key(|device| (device.usage_page(), device.usage()) != MULTI_AXIS);
        let found = best.ok_or("none is plugged in")?;
        let place = found.path().to_string_lossy().into_owned();
        let device = found.open_device(&api).map_err(|error| explained(&place, &error))?;
        Ok(Box::new(HidStream { device, state: SpaceMouseState::default() }))
    }

    fn explained(place: &str, error: &HidError) -> String {
        let is_denied = match error {
            HidError::IoError { error } => error.kind() == std::io::ErrorKind::PermissionDenied,
            other => other.to_string().contains("ermission denied"),
        };
        if is_denied { super::denied(place) } else { format!("{place}: {error}") }
    }

    impl InputStream for HidStream {
        fn read(&mut self, wait: Duration) -> Result<Option<Controls>, String> {
            let mut report = [0; LONGEST_REPORT];
            let wait = i32::try_from(wait.as_millis()).unwrap_or(i32::MAX);
            let length = self.device.read_timeout(&mut report, wait).map_err(|error| error.to_string())?;
            let parsed = Report::parse(&report[..length.min(LONGEST_REPORT)]);
            Ok(parsed.map(|report| {
                self.state.take(report);
                self.state.controls()
            }))
        }

        fn silence(&self) -> Option<Duration> {
            Some(SILENCE)
        }
    }
}

/// What to do about a device that may not be opened.
fn denied(place: &str) -> String {
    format!(
        "you may not open {place}. Write these rules into {UDEV_RULES_PATH}, run `sudo udevadm control -R && sudo udevadm trigger`, and plug it in again:\n{UDEV_RULES}"
    )
}

#[cfg(not(all(feature = "devices", target_os = "linux")))]
mod hid {
    pub(super) fn open() -> super::Opened {
        super::super::device::not_built()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn after(reports: &[&[u8]]) -> Controls {
        let mut state = SpaceMouseState::default();
        reports.iter().filter_map(|report| Report::parse(report)).for_each(|report| state.take(report));
        state.controls()
    }

    /// 350 is 0x015e; -350 is 0xfea2; 175 is 0x00af.
    #[test]
    fn older_models_report_translation_and_rotation_by_turns() {
        let controls = after(&[&[1, 0x5e, 0x01, 0xaf, 0x00, 0xa2, 0xfe], &[2, 0, 0, 0x5e, 0x01, 0xaf, 0x00]]);
        assert_eq!(controls.deflection.linear, DVec3::new(0.5, 1.0, 1.0));
        assert_eq!(controls.deflection.angular, DVec3::new(1.0, 0.0, -0.5));
        let again =
            after(&[&[1, 0x5e, 0x01, 0, 0, 0, 0], &[2, 0x5e, 0x01, 0, 0, 0, 0], &[1, 0, 0, 0, 0, 0, 0]]);
        assert_eq!((again.deflection.linear.length(), again.deflection.angular.y), (0.0, 1.0));
    }

    #[test]
    fn newer_models_report_both_at_once() {
        let controls = after(&[&[1, 0xa2, 0xfe, 0, 0, 0, 0, 0xaf, 0, 0xa2, 0xfe, 0x5e, 0x01]]);
        assert_eq!(controls.deflection.linear, DVec3::new(0.0, -1.0, 0.0));
        assert_eq!(controls.deflection.angular, DVec3::new(-1.0, 0.5, -1.0));
    }

    #[test]
    fn buttons_stay_until_they_change() {
        let push = [1, 0, 0, 0, 0, 0, 0];
        let left = Buttons { left: true, right: false };
        assert_eq!(after(&[&[3, 1, 0], &push]).buttons, left);
        assert_eq!(after(&[&[3, 3, 0, 0, 0]]).buttons, Buttons { left: true, right: true });
        assert_eq!(after(&[&[3, 1], &[3, 0]]).buttons, Buttons::default());
        // Other reports, such as the battery's, and short ones are nothing.
        assert_eq!(after(&[&[23, 90], &[1, 2], &[2], &[3], &[]]), Controls::default());
    }

    #[test]
    fn every_model_is_known_and_in_the_rules() {
        assert!(is_space_mouse(0x256f, 0xc635) && is_space_mouse(0x046d, 0xc62b));
        assert!(!is_space_mouse(0x046d, 0xc52b), "a Logitech receiver for mice");
        let logitech = MODELS[0].1.iter().map(|model| format!("{model:04x}")).collect::<Vec<_>>().join("|");
        assert!(UDEV_RULES.contains(&logitech) && UDEV_RULES.contains("256f"));
        assert!(denied("/dev/hidraw3").contains("/dev/hidraw3") && denied("").contains(UDEV_RULES));
    }

    #[cfg(not(all(feature = "devices", target_os = "linux")))]
    #[test]
    fn a_build_without_devices_says_so() {
        let error = DevicePilot::space_mouse().err().unwrap().to_string();
        assert!(error.contains("SpaceMouse") && error.contains("feature `devices`"), "{error}");
    }

    proptest! {
        #[test]
        fn any_bytes_give_bounded_deflections(reports in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 0..30)) {
            let reports: Vec<&[u8]> = reports.iter().map(Vec::as_slice).collect();
            let Deflection { linear, angular } = after(&reports).deflection;
            prop_assert!(linear.abs().max_element() <= 1.0 && angular.abs().max_element() <= 1.0);
        }
    }
}
