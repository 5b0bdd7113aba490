//! Gamepads, by the kernel's input events.

use glam::DVec3;

use super::device::{Controls, DevicePilot, Opened};
use super::events::{EV_ABS, EV_KEY, EventState};
use crate::{Buttons, Deflection, Key, PilotError, StopToken};

/// Sticks this near to their centre are at rest.
const DEAD_ZONE: f64 = 0.12;

/// Axes: left stick, right stick, the cross.
const AXES: [u16; 6] = [0, 1, 3, 4, 16, 17];
/// Shoulder buttons.
const BTN_TL: u16 = 0x136;
const BTN_TR: u16 = 0x137;
/// Buttons that are keys: south is success and east failure, as on a keyboard; select stops.
const KEYS: [(u16, Key); 4] =
    [(0x130, Key::Char('c')), (0x131, Key::Char('a')), (0x13b, Key::Enter), (0x13a, Key::Escape)];

impl DevicePilot {
    /// A gamepad: a device such as `/dev/input/event7`, or without one the first that is plugged in.
    ///
    /// The left stick moves along x and y, the right one along z and about z, the cross about x and y. The left shoulder
    /// button closes the gripper, the right one opens it. South is the key `c`, east `a`, start Enter, select Esc, which
    /// raises `stop` at once.
    pub fn gamepad(device: Option<&str>, stop: StopToken) -> Result<Self, PilotError> {
        let path = device.map(String::from);
        Self::start("gamepad", move || pad::open(path.as_deref()), stop)
    }
}

/// The ends of an axis.
#[derive(Debug, Clone, Copy, PartialEq)]
struct AxisRange {
    low: i32,
    high: i32,
}

impl AxisRange {
    /// From -1 to 1, where the dead zone is 0 and the rest begins there.
    fn share(self, value: i32) -> f64 {
        let (low, high) = (f64::from(self.low), f64::from(self.high));
        if high <= low {
            return 0.0;
        }
        let share = ((2.0 * f64::from(value) - low - high) / (high - low)).clamp(-1.0, 1.0);
        let beyond = (share.abs() - DEAD_ZONE).max(0.0) / (1.0 - DEAD_ZONE);
        beyond.copysign(share)
    }
}

/// What is known of a gamepad after some events.
#[derive(Debug, Clone)]
struct GamepadState {
    ranges: [AxisRange; AXES.len()],
    values: [f64; AXES.len()],
    buttons: Buttons,
    held: Vec<Key>,
}

impl GamepadState {
    fn new(ranges: [AxisRange; AXES.len()]) -> Self {
        Self { ranges, values: [0.0; AXES.len()], buttons: Buttons::default(), held: Vec::new() }
    }
}

impl EventState for GamepadState {
    fn take(&mut self, kind: u16, code: u16, value: i32) {
        match (kind, code) {
            (EV_ABS, code) => {
                if let Some(axis) = AXES.iter().position(|known| *known == code) {
                    self.values[axis] = self.ranges[axis].share(value);
                }
            }
            (EV_KEY, BTN_TL) => self.buttons.left = value != 0,
            (EV_KEY, BTN_TR) => self.buttons.right = value != 0,
            (EV_KEY, code) => {
                if let Some((_, key)) = KEYS.iter().find(|(known, _)| *known == code) {
                    self.held.retain(|held| held != key);
                    if value != 0 {
                        self.held.push(*key);
                    }
                }
            }
            _ => {}
        }
    }

    /// Sticks count down and to the right; the base's x is forward, y to the left and z up.
    fn controls(&self) -> Controls {
        let [left_x, left_y, right_x, right_y, cross_x, cross_y] = self.values;
        let deflection = Deflection {
            linear: DVec3::new(-left_y, -left_x, -right_y),
            angular: DVec3::new(cross_x, -cross_y, -right_x),
        };
        Controls { deflection, buttons: self.buttons, held: self.held.clone() }
    }
}

#[cfg(all(feature = "devices", target_os = "linux"))]
mod pad {
    use evdev::{AbsoluteAxisCode, KeyCode, raw_stream::RawDevice};

    use super::super::events::{EventStream, explained, open_first};
    use super::{AXES, AxisRange, EV_ABS, EV_KEY, EventState, GamepadState, KEYS, Opened};

    pub(super) fn open(path: Option<&str>) -> Opened {
        let (path, device) = open_first(path, is_gamepad)?;
        let state = device.get_abs_state().map_err(|error| explained(&path, &error))?;
        let info = |axis: u16| state.get(usize::from(axis)).map(|info| (info.minimum, info.maximum));
        let range =
            |axis| info(axis).map_or(AxisRange { low: 0, high: 0 }, |(low, high)| AxisRange { low, high });
        let mut pad = GamepadState::new(AXES.map(range));
        // A stick or a button that is held already sends no event.
        for (axis, info) in AXES.iter().filter_map(|axis| Some((*axis, state.get(usize::from(*axis))?))) {
            pad.take(EV_ABS, axis, info.value);
        }
        let keys = device.get_key_state().map_err(|error| explained(&path, &error))?;
        keys.iter().for_each(|key| pad.take(EV_KEY, key.code(), 1));
        Ok(Box::new(EventStream { device, state: pad }))
    }

    fn is_gamepad(device: &RawDevice) -> bool {
        let axes = [AbsoluteAxisCode::ABS_X, AbsoluteAxisCode::ABS_Y];
        let known = device.supported_absolute_axes();
        let has_axes = known.is_some_and(|known| axes.iter().all(|axis| known.contains(*axis)));
        has_axes && device.supported_keys().is_some_and(|keys| keys.contains(KeyCode::new(KEYS[0].0)))
    }
}

#[cfg(not(all(feature = "devices", target_os = "linux")))]
mod pad {
    pub(super) fn open(_: Option<&str>) -> super::Opened {
        super::super::device::not_built()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The sticks of an Xbox pad and the cross.
    fn pad() -> GamepadState {
        let (stick, cross) = (AxisRange { low: -32768, high: 32767 }, AxisRange { low: -1, high: 1 });
        GamepadState::new([stick, stick, stick, stick, cross, cross])
    }

    #[test]
    fn sticks_move_as_they_point() {
        let mut pad = pad();
        pad.take(EV_ABS, 1, -32768); // left stick away from the person
        pad.take(EV_ABS, 0, 32767); // and to the right
        pad.take(EV_ABS, 4, -32768); // right stick up
        pad.take(EV_ABS, 16, 1); // cross to the right
        let Deflection { linear, angular } = pad.controls().deflection;
        assert_eq!(linear, DVec3::new(1.0, -1.0, 1.0));
        assert_eq!(angular, DVec3::X);
    }

    #[test]
    fn a_worn_stick_is_at_rest() {
        let mut pad = pad();
        pad.take(EV_ABS, 0, 3000);
        pad.take(EV_ABS, 3, -3500);
        assert!(!pad.controls().deflection.is_moved());
        let bytes = AxisRange { low: 0, high: 255 };
        assert_eq!((bytes.share(128), bytes.share(0), bytes.share(255)), (0.0, -1.0, 1.0));
        assert!((bytes.share(200) - 0.511).abs() < 0.01, "{}", bytes.share(200));
        assert_eq!(AxisRange { low: 5, high: 5 }.share(5), 0.0);
    }

    #[test]
    fn buttons_close_open_and_label() {
        let mut pad = pad();
        pad.take(EV_KEY, BTN_TL, 1);
        pad.take(EV_KEY, 0x130, 1);
        pad.take(EV_KEY, 0x130, 2); // repeated by the kernel
        pad.take(EV_KEY, 0x999, 1);
        let controls = pad.controls();
        assert!(controls.buttons.left && !controls.buttons.right);
        assert_eq!(controls.held, [Key::Char('c')]);
        pad.take(EV_KEY, 0x130, 0);
        pad.take(EV_KEY, BTN_TL, 0);
        assert_eq!(pad.controls(), Controls::default());
    }

    #[test]
    fn a_gamepad_that_is_not_there_is_named() {
        let error = DevicePilot::gamepad(Some("/dev/input/event-none"), StopToken::new()).err().unwrap();
        assert!(error.to_string().starts_with("the pilot's gamepad cannot be read: "), "{error}");
    }

    proptest! {
        #[test]
        fn any_events_give_bounded_controls(events in prop::collection::vec((0u16..5, 0u16..0x140, any::<i32>()), 0..100)) {
            let mut pad = pad();
            for (kind, code, value) in events {
                pad.take(kind, code, value);
            }
            let Controls { deflection, held, .. } = pad.controls();
            prop_assert!(deflection.linear.abs().max_element() <= 1.0 && held.len() <= KEYS.len());
            prop_assert!(deflection.angular.abs().max_element() <= 1.0);
        }
    }
}
