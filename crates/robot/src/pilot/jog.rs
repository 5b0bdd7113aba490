//! Keys that move the arm, for people without a SpaceMouse.

use std::sync::Arc;
use std::time::Duration;

use glam::DVec3;

use crate::{Buttons, Clock, Deflection, Key, Pilot, PilotError, PilotInput, Time};

/// Keys and where they lead: along x, y, z, then about them. None is one of those that label, stop or end.
const MOTIONS: [(Key, DVec3, DVec3); 12] = [
    (Key::Up, DVec3::X, DVec3::ZERO),
    (Key::Down, DVec3::NEG_X, DVec3::ZERO),
    (Key::Left, DVec3::Y, DVec3::ZERO),
    (Key::Right, DVec3::NEG_Y, DVec3::ZERO),
    (Key::PageUp, DVec3::Z, DVec3::ZERO),
    (Key::PageDown, DVec3::NEG_Z, DVec3::ZERO),
    (Key::Char('m'), DVec3::ZERO, DVec3::X),
    (Key::Char('n'), DVec3::ZERO, DVec3::NEG_X),
    (Key::Char('i'), DVec3::ZERO, DVec3::Y),
    (Key::Char('k'), DVec3::ZERO, DVec3::NEG_Y),
    (Key::Char('j'), DVec3::ZERO, DVec3::Z),
    (Key::Char('l'), DVec3::ZERO, DVec3::NEG_Z),
];
/// The key that closes the gripper, and opens it the next time.
const GRIPPER: Key = Key::Char('g');
/// The share of a full action that a key asks for, until a digit chooses another.
const USUAL_SPEED: f64 = 0.3;
/// How long a press moves the arm where nobody tells when a key is let go of. Keys that repeat prolong it.
const JOG: Duration = Duration::from_millis(200);
/// How long a press moves the arm at least where that is told: shorter than a step, it would be missed.
const TAP: Duration = Duration::from_millis(100);
/// How long a gripper is asked for: longer than it takes until it may be told something again. A key that comes again within
/// this is held.
const ASKS: Duration = Duration::from_millis(700);

/// Moves the arm by the keys of another pilot, which are passed on.
///
/// The arrows lead along x (away and back) and y (left and right), page up and down along z; `m` and `n` turn about x, `i` and
/// `k` about y, `j` and `l` about z. `g` closes the gripper, and opens it the next time. The digits choose how fast: `1` is a tenth
/// of a full action, `0` all of it, `3` at first.
pub struct KeyJog {
    keys: Box<dyn Pilot>,
    clock: Arc<dyn Clock>,
    /// How long a press moves the arm, unless the key is held.
    presses_last: Duration,
    /// Until when each key moves the arm.
    until: [Option<Time>; MOTIONS.len()],
    speed: f64,
    is_closing: bool,
    gripper_pressed: Option<Time>,
}

impl KeyJog {
    /// By keys of which it is known whether they are held: they move the arm as long as they are.
    pub fn by_held_keys(keys: Box<dyn Pilot>, clock: Arc<dyn Clock>) -> Self {
        let until = [None; MOTIONS.len()];
        Self {
            keys,
            clock,
            presses_last: TAP,
            until,
            speed: USUAL_SPEED,
            is_closing: false,
            gripper_pressed: None,
        }
    }

    /// By keys of which presses alone are known, as a terminal tells them: each moves the arm for a fifth of a second.
    pub fn by_presses(keys: Box<dyn Pilot>, clock: Arc<dyn Clock>) -> Self {
        Self { presses_last: JOG, ..Self::by_held_keys(keys, clock) }
    }

    fn press(&mut self, key: Key, now: Time) {
        if let Some(at) = MOTIONS.iter().position(|(known, ..)| *known == key) {
            self.until[at] = Some(now + self.presses_last);
        } else if let Key::Char(digit @ '0'..='9') = key {
            let tenths = digit.to_digit(10).filter(|tenths| *tenths > 0).unwrap_or(10);
            self.speed = f64::from(tenths) / 10.0;
        } else if key == GRIPPER {
            let before = self.gripper_pressed.replace(now);
            self.is_closing ^= before.is_none_or(|before| now.since(before) >= ASKS);
        }
    }

    fn deflection(&self, held: &[Key], now: Time) -> Deflection {
        let moves = |(at, (key, ..)): &(usize, &(Key, DVec3, DVec3))| {
            held.contains(key) || self.until[*at].is_some_and(|until| now < until)
        };
        let mut deflection = Deflection::default();
        for (_, (_, linear, angular)) in MOTIONS.iter().enumerate().filter(moves) {
            deflection.linear += *linear * self.speed;
            deflection.angular += *angular * self.speed;
        }
        deflection
    }
}

impl Pilot for KeyJog {
    fn poll(&mut self) -> Result<PilotInput, PilotError> {
        let input = self.keys.poll()?;
        let now = self.clock.now();
        input.pressed.iter().for_each(|key| self.press(*key, now));
        let asks = self.gripper_pressed.is_some_and(|pressed| now.since(pressed) < ASKS);
        let buttons = Buttons { left: asks && self.is_closing, right: asks && !self.is_closing };
        Ok(PilotInput { deflection: self.deflection(&input.held, now), buttons, ..input })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::VirtualClock;
    use std::sync::Mutex;

    /// Keys that a test presses and holds.
    #[derive(Clone, Default)]
    struct Keys(Arc<Mutex<PilotInput>>);

    impl Pilot for Keys {
        fn poll(&mut self) -> Result<PilotInput, PilotError> {
            let mut input = self.0.lock().unwrap();
            let now = input.clone();
            input.pressed.clear();
            Ok(now)
        }
    }

    struct Bench {
        keys: Keys,
        clock: Arc<VirtualClock>,
        jog: KeyJog,
    }

    fn bench(new: fn(Box<dyn Pilot>, Arc<dyn Clock>) -> KeyJog) -> Bench {
        let (keys, clock) = (Keys::default(), Arc::new(VirtualClock::new()));
        Bench { jog: new(Box::new(keys.clone()), clock.clone()), keys, clock }
    }

    impl Bench {
        /// What comes of keys that go down at a time, in milliseconds, while others are held.
        fn at(&mut self, ms: u64, pressed: &[Key], held: &[Key]) -> PilotInput {
            self.clock.sleep_until(Time::after_start(Duration::from_millis(ms)));
            let (pressed, held) = (pressed.to_vec(), held.to_vec());
            *self.keys.0.lock().unwrap() = PilotInput { pressed, held, ..PilotInput::default() };
            self.jog.poll().unwrap()
        }

        fn linear(&mut self, ms: u64, pressed: &[Key], held: &[Key]) -> [f64; 3] {
            self.at(ms, pressed, held).deflection.linear.to_array()
        }
    }

    #[test]
    fn a_press_at_a_terminal_is_a_short_way_which_repetition_prolongs() {
        let mut bench = bench(KeyJog::by_presses);
        assert_eq!(bench.linear(0, &[], &[]), [0.0; 3]);
        assert_eq!(bench.linear(100, &[Key::Up], &[]), [0.3, 0.0, 0.0]);
        assert_eq!(bench.linear(290, &[], &[]), [0.3, 0.0, 0.0]);
        assert_eq!(bench.linear(300, &[], &[]), [0.0; 3], "nobody tells when it is let go of");
        for ms in (600..1000).step_by(30) {
            assert_eq!(bench.linear(ms, &[Key::Up], &[]), [0.3, 0.0, 0.0], "{ms}");
        }
        assert_eq!(bench.linear(1100, &[Key::Right], &[]), [0.3, -0.3, 0.0], "two at once");
        let label = bench.at(2000, &[Key::Char('c')], &[]);
        assert_eq!(
            (label.intervenes(), label.pressed),
            (false, vec![Key::Char('c')]),
            "others are passed on"
        );
    }

    #[test]
    fn a_held_key_moves_until_it_is_let_go_of() {
        let mut bench = bench(KeyJog::by_held_keys);
        assert_eq!(bench.linear(0, &[Key::PageDown], &[Key::PageDown]), [0.0, 0.0, -0.3]);
        assert_eq!(bench.linear(900, &[], &[Key::PageDown]), [0.0, 0.0, -0.3]);
        assert_eq!(bench.linear(901, &[], &[]), [0.0; 3], "at once");
        assert_eq!(bench.linear(1000, &[Key::Left], &[]), [0.0, 0.3, 0.0], "a tap between two looks counts");
        assert_eq!(bench.linear(1100, &[], &[Key::Left, Key::Right]), [0.0; 3], "both are none");
        assert_eq!(bench.linear(1200, &[Key::Char('0')], &[Key::Left]), [0.0, 1.0, 0.0], "faster");
        assert_eq!(bench.linear(1300, &[Key::Char('1')], &[Key::Left]), [0.0, 0.1, 0.0], "slower");
        let turned = bench.at(1400, &[], &[Key::Char('j'), Key::Char('m')]).deflection;
        assert_eq!((turned.linear, turned.angular), (DVec3::ZERO, DVec3::new(0.1, 0.0, 0.1)));
    }

    #[test]
    fn the_gripper_closes_and_opens_by_turns() {
        let mut bench = bench(KeyJog::by_presses);
        let g = [Key::Char('g')];
        let gripper = |input: PilotInput| (input.buttons.left, input.buttons.right);
        assert_eq!(gripper(bench.at(0, &g, &[])), (true, false));
        assert_eq!(gripper(bench.at(600, &[], &[])), (true, false), "as long as it may be told too soon");
        assert_eq!(gripper(bench.at(650, &g, &[])), (true, false), "a key that repeats is held");
        assert_eq!(gripper(bench.at(1400, &[], &[])), (false, false));
        assert_eq!(gripper(bench.at(1500, &g, &[])), (false, true));
    }

    #[test]
    fn keys_that_label_or_stop_move_nothing() {
        for letter in "abcqu".chars() {
            assert!(MOTIONS.iter().all(|(key, ..)| *key != Key::Char(letter)), "{letter}");
        }
    }
}
