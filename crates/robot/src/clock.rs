//! Time: a clock that runs, and one that a test turns by hand.

use std::ops::Add;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A time on a [`Clock`]: how long after its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Time(Duration);

impl Time {
    /// So long after the clock's start.
    pub fn after_start(elapsed: Duration) -> Self {
        Self(elapsed)
    }

    /// How long after `earlier` this is; zero if it is before.
    pub fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    /// How long after the clock's start this is.
    pub fn elapsed(self) -> Duration {
        self.0
    }
}

impl Add<Duration> for Time {
    type Output = Self;

    fn add(self, later: Duration) -> Self {
        Self(self.0.saturating_add(later))
    }
}

/// A clock that everybody of a robot shares.
pub trait Clock: Send + Sync {
    /// The time now.
    fn now(&self) -> Time;

    /// Waits until `time`, or not at all if it has passed.
    fn sleep_until(&self, time: Time);

    /// How long the machine takes for `duration` of this clock: time-outs of sockets are in the machine's time.
    fn in_wall_time(&self, duration: Duration) -> Duration {
        duration
    }
}

/// The machine's clock, or one that runs `speed` times as fast, for robots that are simulated.
#[derive(Debug, Clone, Copy)]
pub struct RealClock {
    start: Instant,
    speed: f64,
}

impl RealClock {
    /// The machine's clock.
    pub fn new() -> Self {
        Self::at_speed(1.0)
    }

    /// A clock on which `speed` seconds pass in one. A speed that is no positive number counts as 1.
    pub fn at_speed(speed: f64) -> Self {
        let speed = if speed.is_finite() && speed > 0.0 { speed } else { 1.0 };
        Self { start: Instant::now(), speed }
    }
}

impl Default for RealClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for RealClock {
    fn now(&self) -> Time {
        Time(self.start.elapsed().mul_f64(self.speed))
    }

    fn sleep_until(&self, time: Time) {
        std::thread::sleep(self.in_wall_time(time.since(self.now())));
    }

    fn in_wall_time(&self, duration: Duration) -> Duration {
        duration.div_f64(self.speed)
    }
}

/// A clock that stands still until somebody sleeps on it, which takes no time at all.
#[derive(Debug, Default)]
pub struct VirtualClock {
    now: Mutex<Duration>,
}

impl VirtualClock {
    /// A clock at its start.
    pub fn new() -> Self {
        Self::default()
    }

    /// Turns it forward.
    pub fn advance(&self, by: Duration) {
        *self.now.lock().unwrap_or_else(PoisonError::into_inner) += by;
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> Time {
        Time(*self.now.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn sleep_until(&self, time: Time) {
        let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        *now = (*now).max(time.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleeping_turns_a_virtual_clock_and_never_back() {
        let clock = VirtualClock::new();
        clock.sleep_until(Time(Duration::from_secs(5)));
        clock.sleep_until(Time(Duration::from_secs(3)));
        clock.advance(Duration::from_millis(500));
        assert_eq!(clock.now().elapsed(), Duration::from_millis(5500));
        assert_eq!(Time(Duration::ZERO).since(clock.now()), Duration::ZERO);
    }

    #[test]
    fn a_faster_clock_sleeps_less() {
        let clock = RealClock::at_speed(50.0);
        let before = Instant::now();
        clock.sleep_until(clock.now() + Duration::from_secs(1));
        assert!(before.elapsed() >= Duration::from_millis(19));
        assert!(clock.now().elapsed() >= Duration::from_secs(1));
    }
}
