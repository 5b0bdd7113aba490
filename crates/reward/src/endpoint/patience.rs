//! How often a server is asked again, and after which pauses.

use std::time::{Duration, Instant};

use super::error::Trouble;

/// The first pause; each is twice the one before.
const FIRST: Duration = Duration::from_millis(250);
/// The longest pause.
const LONGEST: Duration = Duration::from_secs(15);
/// Tries of a server that answers with nonsense: waiting does not help it.
const NONSENSE: u32 = 3;
/// How often somebody who waits looks up.
const LOOK_UP: Duration = Duration::from_millis(50);

/// One question's patience with its server.
pub(super) struct Patience {
    give_up: Duration,
    /// When it went wrong first.
    since: Option<Instant>,
    tries: u32,
    nonsense: u32,
}

impl Patience {
    pub(super) fn new(give_up: Duration) -> Self {
        Self { give_up, since: None, tries: 0, nonsense: 0 }
    }

    /// How long to wait after this trouble; `None`: no more.
    pub(super) fn after(&mut self, trouble: &Trouble) -> Option<Duration> {
        self.tries += 1;
        self.nonsense += u32::from(trouble.is_garbled());
        let since = *self.since.get_or_insert_with(Instant::now);
        let left = self.give_up.checked_sub(since.elapsed())?;
        if trouble.is_refusal() || self.nonsense >= NONSENSE || left.is_zero() {
            return None;
        }
        let pause = trouble.pause().unwrap_or(FIRST * 2u32.saturating_pow((self.tries - 1).min(10)));
        Some(pause.min(LONGEST).min(left))
    }

    /// Whether anything went wrong.
    pub(super) fn was_tried(&self) -> bool {
        self.tries > 0
    }

    pub(super) fn tries(&self) -> u32 {
        self.tries
    }

    pub(super) fn waited(&self) -> Duration {
        self.since.map_or(Duration::ZERO, |since| since.elapsed())
    }
}

/// Waits; false if `stop` said to stop meanwhile.
pub(super) fn sleep(pause: Duration, stop: &dyn Fn() -> bool) -> bool {
    let until = Instant::now() + pause;
    loop {
        if stop() {
            return false;
        }
        match until.checked_duration_since(Instant::now()) {
            Some(left) if !left.is_zero() => std::thread::sleep(left.min(LOOK_UP)),
            _ => return true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(status: u16, pause: Option<u64>) -> Trouble {
        Trouble::Status { status, message: String::new(), pause: pause.map(Duration::from_secs) }
    }

    #[test]
    fn pauses_grow_up_to_a_limit() {
        let mut patience = Patience::new(Duration::from_secs(1000));
        let pauses: Vec<_> =
            (0..9).map(|_| patience.after(&status(503, None)).unwrap().as_millis()).collect();
        assert_eq!(pauses, [250, 500, 1000, 2000, 4000, 8000, 15000, 15000, 15000]);
        assert_eq!(patience.tries(), 9);
    }

    #[test]
    fn a_server_is_left_alone_as_long_as_it_asks_within_reason() {
        let mut patience = Patience::new(Duration::from_secs(1000));
        assert_eq!(patience.after(&status(429, Some(3))), Some(Duration::from_secs(3)));
        assert_eq!(patience.after(&status(503, Some(86400))), Some(LONGEST));
        let mut hurried = Patience::new(Duration::from_secs(1));
        assert!(hurried.after(&status(503, Some(86400))).unwrap() <= Duration::from_secs(1));
    }

    #[test]
    fn refusals_and_nonsense_are_not_waited_out() {
        let patience = || Patience::new(Duration::from_secs(1000));
        for code in [400, 401, 404, 413, 422] {
            assert_eq!(patience().after(&status(code, None)), None, "{code}");
        }
        let mut patience = patience();
        let nonsense = || Trouble::Garbled("no JSON".into());
        let given_up: Vec<bool> = (0..3).map(|_| patience.after(&nonsense()).is_none()).collect();
        assert_eq!(given_up, [false, false, true]);
        assert_eq!(Patience::new(Duration::ZERO).after(&status(503, None)), None);
    }

    #[test]
    fn whoever_waits_can_be_stopped() {
        let began = Instant::now();
        assert!(!sleep(Duration::from_secs(60), &|| true));
        assert!(sleep(Duration::from_millis(5), &|| false));
        assert!(began.elapsed() < Duration::from_secs(10));
    }
}
