//! Measuring how late a person presses a key.

use std::time::Duration;

use plaudit_core::Seed;
use plaudit_data::labelling::{Reaction, ReactionTest};
use plaudit_robot::{Clock, Key, Time};

use crate::commands::keys::Keys;

/// How many reactions are measured, in at most so many tries.
const REACTIONS: usize = 5;
const TRIES: u64 = 12;
/// How long a person waits for the signal, seconds.
const WAITS_SECS: (f64, f64) = (1.0, 3.0);
/// How long the signal waits for the person.
const GIVES_UP: Duration = Duration::from_secs(2);
const LOOKS_EVERY: Duration = Duration::from_millis(2);

/// Shows a signal after a wait of unknown length, several times, and measures how long until a key is pressed. `None` when
/// the person pressed too little, or stopped.
pub(super) fn measure(
    keys: &mut Keys,
    clock: &dyn Clock,
    seed: Seed,
    show: &mut dyn FnMut(&str),
    is_stopped: &dyn Fn() -> bool,
) -> Option<Reaction> {
    let mut test = ReactionTest::default();
    let mut waits = seed.purpose("reaction").rng();
    for _ in 0..TRIES {
        if test.count() == REACTIONS {
            break;
        }
        show(&format!("wait …  ({} of {REACTIONS})", test.count() + 1));
        let signal = clock.now() + Duration::from_secs_f64(waits.uniform(WAITS_SECS.0, WAITS_SECS.1));
        if pressed_before(signal, keys, clock, is_stopped)? {
            continue; // too early: nothing was measured
        }
        show("██████  press c now  ██████");
        test.show(clock.now().elapsed().as_secs_f64());
        if pressed_before(clock.now() + GIVES_UP, keys, clock, is_stopped)? {
            test.press(clock.now().elapsed().as_secs_f64());
        }
    }
    test.result()
}

/// Waits for a key until `deadline`. Nothing when the person wants to stop.
fn pressed_before(
    deadline: Time,
    keys: &mut Keys,
    clock: &dyn Clock,
    is_stopped: &dyn Fn() -> bool,
) -> Option<bool> {
    while clock.now() < deadline {
        let pressed = keys.pressed();
        if is_stopped() || keys.have_ended() || pressed.contains(&Key::Escape) {
            return None;
        }
        if !pressed.is_empty() {
            return Some(true);
        }
        clock.sleep_until((clock.now() + LOOKS_EVERY).min(deadline));
    }
    Some(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use plaudit_robot::{Pilot, PilotError, PilotInput, VirtualClock};
    use std::sync::{Arc, Mutex};

    /// Somebody who presses so long after the signal.
    struct Somebody {
        clock: Arc<VirtualClock>,
        signal: Arc<Mutex<Option<Time>>>,
        after: Duration,
    }

    impl Pilot for Somebody {
        fn poll(&mut self) -> Result<PilotInput, PilotError> {
            let mut signal = self.signal.lock().unwrap();
            let shown = signal.take_if(|shown| self.clock.now() >= *shown + self.after);
            let pressed = shown.map(|_| Key::Char('c')).into_iter().collect();
            Ok(PilotInput { pressed, ..PilotInput::default() })
        }
    }

    fn measured(after: Duration, stops: bool) -> Option<Reaction> {
        let clock = Arc::new(VirtualClock::new());
        let signal = Arc::<Mutex<Option<Time>>>::default();
        let mut keys = Keys::of(Somebody { clock: clock.clone(), signal: signal.clone(), after });
        let mut show = |text: &str| {
            if text.contains("press c now") {
                *signal.lock().unwrap() = Some(clock.now());
            }
        };
        measure(&mut keys, &*clock, Seed::new(1), &mut show, &|| stops)
    }

    #[test]
    fn a_reaction_of_a_quarter_of_a_second_is_measured_as_such() {
        let reaction = measured(Duration::from_millis(250), false).unwrap();
        assert!((reaction.median_secs - 0.25).abs() < 0.005, "{reaction:?}");
        assert_eq!((reaction.count, reaction.dropped), (REACTIONS, 0));
        assert_eq!(measured(Duration::from_secs(60), false), None, "nobody presses");
        assert_eq!(measured(Duration::from_millis(250), true), None, "somebody stops");
    }
}
