//! The keys of a pilot, for whoever knows what they mean.

use std::sync::{Arc, Mutex, PoisonError};

use plaudit_robot::{Key, Pilot, PilotError, PilotInput};

/// More keys than this wait for nobody.
const MOST_KEYS: usize = 64;

/// Keys that a person pressed while the arm moved. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct KeyTap(Arc<Mutex<Vec<Key>>>);

impl KeyTap {
    /// The keys since the last call, in order.
    pub fn take(&self) -> Vec<Key> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn add(&self, keys: &[Key]) {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let room = MOST_KEYS.saturating_sub(waiting.len());
        waiting.extend(keys.iter().take(room));
    }
}

/// A pilot whose keys somebody else gets as well.
pub struct TappedPilot {
    pilot: Box<dyn Pilot>,
    tap: KeyTap,
}

impl TappedPilot {
    /// Passes the pilot on, and its keys to `tap`.
    pub fn new(pilot: Box<dyn Pilot>, tap: KeyTap) -> Self {
        Self { pilot, tap }
    }
}

impl Pilot for TappedPilot {
    fn poll(&mut self) -> Result<PilotInput, PilotError> {
        let input = self.pilot.poll()?;
        self.tap.add(&input.pressed);
        Ok(input)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Presses;

    impl Pilot for Presses {
        fn poll(&mut self) -> Result<PilotInput, PilotError> {
            Ok(PilotInput { pressed: vec![Key::Char('c')], ..PilotInput::default() })
        }
    }

    #[test]
    fn keys_reach_both_and_are_bounded() {
        let tap = KeyTap::default();
        let mut pilot = TappedPilot::new(Box::new(Presses), tap.clone());
        assert_eq!(pilot.poll().unwrap().pressed, [Key::Char('c')]);
        assert_eq!(tap.take(), [Key::Char('c')]);
        assert!(tap.take().is_empty());
        for _ in 0..1000 {
            pilot.poll().unwrap();
        }
        assert_eq!(tap.take().len(), MOST_KEYS);
    }
}
