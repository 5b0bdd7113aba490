//! Devices that a person moves the arm with, and whether this user may read them.
//!
//! They are found in the system's own tables and opened for reading, which does nothing to them.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::Finding;
use crate::UDEV_RULES_PATH;
use crate::pilot::is_space_mouse;

const ABOUT: &str = "pilot";
/// Linux's codes of buttons and keys.
const BTN_GAMEPAD: usize = 0x130;
const KEYBOARD_KEYS: [usize; 4] = [16, 30, 46, 48]; // q, a, c, b

/// What a device is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DeviceKind {
    /// Moves the arm in six directions.
    SpaceMouse,
    /// Moves the arm with two sticks.
    Gamepad,
    /// Knows which keys are held.
    Keyboard,
}

impl DeviceKind {
    fn name(self) -> &'static str {
        match self {
            Self::SpaceMouse => "SpaceMouse",
            Self::Gamepad => "gamepad",
            Self::Keyboard => "keyboard",
        }
    }
}

/// A device that was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Device {
    /// What it is for.
    pub kind: DeviceKind,
    /// What it calls itself.
    pub name: String,
    /// Where it is read.
    pub node: PathBuf,
    /// Whether this user may.
    pub is_readable: bool,
}

/// All devices of a system whose tables are in `sys` (`/sys`) and whose devices are in `dev` (`/dev`).
pub fn find_devices(sys: &Path, dev: &Path) -> Vec<Device> {
    let mut devices = Vec::new();
    for name in names(&sys.join("class/hidraw")) {
        let uevent = read(&sys.join("class/hidraw").join(&name).join("device/uevent"));
        let value = |key: &str| uevent.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
        if value("HID_ID").and_then(hid_ids).is_some_and(|(vendor, product)| is_space_mouse(vendor, product))
        {
            let called = value("HID_NAME").unwrap_or("SpaceMouse").to_string();
            devices.push(device(DeviceKind::SpaceMouse, called, dev.join(&name)));
        }
    }
    for name in names(&sys.join("class/input")).into_iter().filter(|name| name.starts_with("event")) {
        let folder = sys.join("class/input").join(&name).join("device");
        let keys = read(&folder.join("capabilities/key"));
        let kind = if has_key(&keys, BTN_GAMEPAD) {
            DeviceKind::Gamepad
        } else if KEYBOARD_KEYS.into_iter().all(|key| has_key(&keys, key)) {
            DeviceKind::Keyboard
        } else {
            continue;
        };
        let called = read(&folder.join("name")).trim().to_string();
        devices.push(device(kind, called, dev.join("input").join(&name)));
    }
    devices
}

/// What that means for somebody who wants to move an arm.
pub fn devices_findings(devices: &[Device]) -> Vec<Finding> {
    let finding = |device: &Device| {
        let text = format!("{} `{}` at {}", device.kind.name(), device.name, device.node.display());
        if device.is_readable {
            Finding::fine(ABOUT, text)
        } else if device.kind == DeviceKind::Keyboard {
            // Keys arrive through the terminal as well, and other people's keyboards are nobody's business.
            Finding::fine(ABOUT, format!("{text}, which only the terminal reads"))
        } else {
            let advice = format!(
                "write the rules below to {UDEV_RULES_PATH}, then `sudo udevadm control -R && sudo udevadm \
                 trigger`, and plug it in again"
            );
            Finding::wrong(ABOUT, format!("{text} may not be read by this user"), advice)
        }
    };
    let mut findings: Vec<Finding> = devices.iter().map(finding).collect();
    if !devices.iter().any(|device| device.kind != DeviceKind::Keyboard) {
        let advice = "plug one in to take over by hand, or move the arm by keys; a policy runs without";
        findings.push(Finding::warning(ABOUT, "no SpaceMouse and no gamepad", advice));
    }
    findings
}

fn device(kind: DeviceKind, name: String, node: PathBuf) -> Device {
    let is_readable = match File::open(&node) {
        Ok(_) => true,
        // Busy, or gone since: not a matter of permissions.
        Err(error) => !matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::NotFound),
    };
    Device { kind, name, node, is_readable }
}

/// Names in a folder, in order; none where there is none.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// A small table of the system, or nothing.
fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// Vendor and product of `0003:0000256F:0000C635`.
fn hid_ids(text: &str) -> Option<(u16, u16)> {
    let id = |word| u32::from_str_radix(word, 16).ok().and_then(|id| u16::try_from(id).ok());
    let mut words = text.trim().split(':').skip(1).map(id);
    Some((words.next()??, words.next()??))
}

/// Whether a bit is set in the system's table of keys: words of 64 bits in hexadecimal, the highest first.
fn has_key(table: &str, code: usize) -> bool {
    let word = table.split_whitespace().rev().nth(code / 64);
    word.and_then(|word| u64::from_str_radix(word, 16).ok()).is_some_and(|word| word >> (code % 64) & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::{Level, verdict};

    fn write(path: PathBuf, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn devices_are_found_by_their_numbers_and_keys() {
        let root = std::env::temp_dir().join(format!("plaudit-devices-{}", std::process::id()));
        let (sys, dev) = (root.join("sys"), root.join("dev"));
        let hid = |at: &str| sys.join("class/hidraw").join(at).join("device/uevent");
        write(hid("hidraw0"), "HID_ID=0003:0000256F:0000C635\nHID_NAME=SpaceMouse Compact\n");
        write(hid("hidraw1"), "HID_ID=0003:0000046D:0000C31C\nHID_NAME=a keyboard of the same vendor\n");
        let input = |at: &str| sys.join("class/input").join(at).join("device");
        // Bit 0x130 is bit 48 of the fifth word.
        write(input("event3").join("capabilities/key"), "1000000000000 0 0 0 0\n");
        write(input("event3").join("name"), "Pad\n");
        write(input("event4").join("capabilities/key"), "1000040010000 0\n".trim_end_matches(" 0\n"));
        write(input("event4").join("name"), "no keyboard: b is missing\n");
        let keyboard: u64 = KEYBOARD_KEYS.iter().map(|key| 1 << key).sum();
        write(input("event5").join("capabilities/key"), &format!("{keyboard:x}\n"));
        write(input("event5").join("name"), "Keys\n");
        write(dev.join("hidraw0"), "");
        write(dev.join("input/event3"), "");

        let devices = find_devices(&sys, &dev);
        let found: Vec<_> = devices.iter().map(|d| (d.kind, d.name.as_str(), d.is_readable)).collect();
        assert_eq!(
            found,
            [
                (DeviceKind::SpaceMouse, "SpaceMouse Compact", true),
                (DeviceKind::Gamepad, "Pad", true),
                (DeviceKind::Keyboard, "Keys", false),
            ]
        );
        assert_eq!(verdict(&devices_findings(&devices)), Level::Fine);
        fs::remove_file(dev.join("hidraw0")).unwrap();
        let findings = devices_findings(&find_devices(&sys, &dev));
        assert_eq!(verdict(&findings), Level::Wrong);
        assert!(findings[0].advice.as_ref().unwrap().contains(UDEV_RULES_PATH));
        fs::remove_dir_all(root).unwrap();
        assert_eq!(verdict(&devices_findings(&find_devices(&sys, &dev))), Level::Warning);
    }
}
