//! What goes wrong by itself, now and then, as it does in a laboratory.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use plaudit_core::{Rng, Seed};

use super::{Faults, Shared};

/// How often the end of a wait is looked for, in the machine's time.
const LOOKS_EVERY: Duration = Duration::from_millis(20);
/// An incident lasts between these, on the robot's clock.
const LASTS_SECS: (f64, f64) = (0.2, 1.5);
/// The first comes no sooner than this, so that a run can begin.
const FIRST_SECS: f64 = 10.0;

/// A thread that breaks things and mends them.
pub(super) struct Incidents(Option<JoinHandle<()>>);

impl Incidents {
    /// Begins, if anything is to go wrong at all. It ends with the robot.
    pub(super) fn start(shared: Arc<Shared>, seed: Seed, per_minute: f64) -> std::io::Result<Option<Self>> {
        if !(per_minute.is_finite() && per_minute > 0.0) {
            return Ok(None);
        }
        let run = move || run(&shared, seed.purpose("incidents"), per_minute);
        let thread = std::thread::Builder::new().name("robot-incidents".into()).spawn(run)?;
        Ok(Some(Self(Some(thread))))
    }
}

impl Drop for Incidents {
    fn drop(&mut self) {
        if let Some(thread) = self.0.take() {
            // A thread that panicked breaks nothing any more.
            let _ = thread.join();
        }
    }
}

fn run(shared: &Shared, seed: Seed, per_minute: f64) {
    for number in 0.. {
        let mut rng = seed.index(number).rng();
        // Incidents know nothing of each other: the time between them is exponential.
        let gap = -(1.0 - rng.unit()).ln() * 60.0 / per_minute;
        let gap = if number == 0 { gap + FIRST_SECS } else { gap };
        if !pause(shared, gap) {
            return;
        }
        let lasts = rng.uniform(LASTS_SECS.0, LASTS_SECS.1);
        let (faults, paused) = incident(&mut rng, number, lasts);
        {
            let mut told = shared.told();
            if let Some(paused) = paused {
                told.pause_until = shared.clock.now() + Duration::from_secs_f64(paused);
            }
            told.faults = faults;
        }
        let goes_on = pause(shared, lasts);
        let mut told = shared.told();
        // A reflex lasts until somebody clears it.
        told.faults = Faults { reflex: told.faults.reflex, ..Faults::default() };
        if !goes_on {
            return;
        }
    }
}

/// What goes wrong, and for how many seconds the server stands still.
fn incident(rng: &mut Rng, seed: u64, lasts: f64) -> (Faults, Option<f64>) {
    let none = Faults { seed, ..Faults::default() };
    match rng.below(7) {
        0 => (Faults { latency_ms: 60.0, jitter_ms: 120.0, ..none }, None),
        1 => (Faults { error_rate: 0.5, ..none }, None),
        2 => (Faults { freeze_frames: true, ..none }, None),
        3 => (Faults { drop_frames: 0.7, tear_frames: 0.3, ..none }, None),
        4 => (Faults { reflex: true, ..none }, None),
        5 => (Faults { force_n: [0.0, 0.0, 60.0], ..none }, None),
        _ => (none, Some(lasts)),
    }
}

/// Waits on the robot's clock; false if the robot ended meanwhile.
fn pause(shared: &Shared, seconds: f64) -> bool {
    let until = shared.clock.now() + Duration::from_secs_f64(seconds.min(86_400.0));
    while shared.clock.now() < until {
        if shared.has_ended() {
            return false;
        }
        std::thread::sleep(LOOKS_EVERY.min(shared.clock.in_wall_time(until.since(shared.clock.now()))));
    }
    !shared.has_ended()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_incident_happens_and_the_seed_decides_when() {
        let of = |number: u64| incident(&mut Seed::new(3).index(number).rng(), number, 1.0);
        let all: Vec<_> = (0..100).map(of).collect();
        assert_eq!(all, (0..100).map(of).collect::<Vec<_>>());
        assert!(all.iter().any(|(faults, _)| faults.reflex));
        assert!(all.iter().any(|(faults, _)| faults.freeze_frames));
        assert!(all.iter().any(|(faults, _)| faults.error_rate > 0.0));
        assert!(all.iter().any(|(faults, _)| faults.force_n[2] > 40.0));
        assert!(all.iter().any(|(_, paused)| paused.is_some()));
        assert!(all.iter().all(|(faults, _)| !faults.kill), "a robot that is killed never comes back");
    }
}
