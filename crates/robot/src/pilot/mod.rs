//! Pilots: people, or scripts in their place, who move the arm instead of the policy.

// Parsers are built and tested everywhere; without the devices they are for, nobody else calls them.
#[cfg_attr(not(all(feature = "devices", target_os = "linux")), allow(dead_code))]
mod device;
#[cfg_attr(not(all(feature = "devices", target_os = "linux")), allow(dead_code))]
mod events;
mod function;
#[cfg_attr(not(all(feature = "devices", target_os = "linux")), allow(dead_code))]
mod gamepad;
mod jog;
#[cfg_attr(not(all(feature = "devices", target_os = "linux")), allow(dead_code))]
mod keyboard;
#[cfg_attr(not(unix), allow(dead_code))]
mod keys;
#[cfg_attr(not(all(feature = "devices", target_os = "linux")), allow(dead_code))]
mod spacemouse;
mod terminal;

use glam::DVec3;
use thiserror::Error;

use crate::GripperCommand;

pub use device::DevicePilot;
pub use function::{CombinedPilot, FunctionPilot};
pub use jog::KeyJog;
pub use keys::KeyLatch;
pub(crate) use spacemouse::is_space_mouse;
pub use spacemouse::{UDEV_RULES, UDEV_RULES_PATH};
pub use terminal::{TerminalPilot, restore_terminal};

/// Deflections smaller than this are a device at rest.
const AT_REST: f64 = 1e-3;

/// Somebody who may take over: a SpaceMouse, a gamepad, a keyboard, a script.
pub trait Pilot: Send {
    /// What is held and was pressed since the last call. Never waits: a device that was unplugged is a device at rest.
    fn poll(&mut self) -> Result<PilotInput, PilotError>;
}

/// How far a device is deflected along and about the base's axes: -1 to 1, where 1 is as much as an action may be.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Deflection {
    /// Along x, y, z.
    pub linear: DVec3,
    /// About x, y, z.
    pub angular: DVec3,
}

impl Deflection {
    /// Whether somebody moves the device.
    pub fn is_moved(&self) -> bool {
        self.linear.length() > AT_REST || self.angular.length() > AT_REST
    }
}

/// The two buttons that every device has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Buttons {
    /// Closes the gripper.
    pub left: bool,
    /// Opens it.
    pub right: bool,
}

/// A key of a keyboard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Key {
    /// A letter or digit, in lower case.
    Char(char),
    /// The space bar.
    Space,
    /// Return.
    Enter,
    /// The key that takes back.
    Backspace,
    /// Esc: stop.
    Escape,
    /// An arrow.
    Up,
    /// An arrow.
    Down,
    /// An arrow.
    Left,
    /// An arrow.
    Right,
    /// A page up.
    PageUp,
    /// A page down.
    PageDown,
}

/// What a pilot does now.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PilotInput {
    /// How far the device is deflected.
    pub deflection: Deflection,
    /// The buttons that are down.
    pub buttons: Buttons,
    /// Keys that went down since the last call.
    pub pressed: Vec<Key>,
    /// Keys that are down, from devices that know.
    pub held: Vec<Key>,
}

impl PilotInput {
    /// Whether the pilot takes over.
    pub fn intervenes(&self) -> bool {
        self.deflection.is_moved() || self.buttons.left || self.buttons.right
    }

    /// What the buttons ask of the gripper; both together ask nothing.
    pub fn gripper(&self) -> Option<GripperCommand> {
        match (self.buttons.left, self.buttons.right) {
            (true, false) => Some(GripperCommand::Close),
            (false, true) => Some(GripperCommand::Open),
            _ => None,
        }
    }
}

/// Why a pilot cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("the pilot's {device} cannot be read: {why}")]
pub struct PilotError {
    /// Which device.
    pub device: String,
    /// What the system says.
    pub why: String,
}

/// Nobody: the policy is never interrupted.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoPilot;

impl Pilot for NoPilot {
    fn poll(&mut self) -> Result<PilotInput, PilotError> {
        Ok(PilotInput::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_at_rest_does_not_take_over() {
        let mut input = PilotInput::default();
        assert!(!input.intervenes() && input.gripper().is_none());
        input.deflection.angular.z = 5e-4;
        assert!(!input.intervenes(), "drift");
        input.deflection.angular.z = 0.2;
        assert!(input.intervenes());
        let both = PilotInput { buttons: Buttons { left: true, right: true }, ..PilotInput::default() };
        assert!(both.intervenes() && both.gripper().is_none());
    }
}
