//! Retries: how often a server is asked again, and after which pauses.

use std::time::{Duration, Instant};

use super::error::RequestError;

/// The first pause; each is twice the one before.
const FIRST: Duration = Duration::from_millis(250);
/// The longest pause.
const LONGEST: Duration = Duration::from_secs(15);
/// Tries of a server with malformed replies: waiting does not help it.
const MAX_MALFORMED: u32 = 3;
/// How often a wait checks whether to stop.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Exponential backoff of one request.
pub(super) struct RetryBackoff {
    give_up: Duration,
    /// When it went wrong first.
    since: Option<Instant>,
    tries: u32,
    malformed: u32,
}

impl RetryBackoff {
    pub(super) fn new(give_up: Duration) -> Self {
        Self { give_up, since: None, tries: 0, malformed: 0 }
    }

    /// How long to wait after this failure; `None`: no more.
    pub(super) fn after(&mut self, failure: &RequestError) -> Option<Duration> {
        self.tries += 1;
        self.malformed += u32::from(failure.is_malformed());
        let since = *self.since.get_or_insert_with(Instant::now);
        let left = self.give_up.checked_sub(since.elapsed())?;
        if failure.is_refusal() || self.malformed >= MAX_MALFORMED || left.is_zero() {
            return None;
        }
        let pause = failure.pause().unwrap_or(FIRST * 2u32.saturating_pow((self.tries - 1).min(10)));
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
            Some(left) if !left.is_zero() => std::thread::sleep(left.min(POLL_INTERVAL)),
            _ => return true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(status: u16, pause: Option<u64>) -> RequestError {
        RequestError::Status { status, message: String::new(), pause: pause.map(Duration::from_secs) }
    }

    #[test]
    fn pauses_grow_up_to_a_limit() {
        let mut backoff = RetryBackoff::new(Duration::from_secs(1000));
        let pauses: Vec<_> = (0..9).map(|_| backoff.after(&status(503, None)).unwrap().as_millis()).collect();
        assert_eq!(pauses, [250, 500, 1000, 2000, 4000, 8000, 15000, 15000, 15000]);
        assert_eq!(backoff.tries(), 9);
    }

    #[test]
    fn a_server_is_left_alone_as_long_as_it_asks_within_reason() {
        let mut backoff = RetryBackoff::new(Duration::from_secs(1000));
        assert_eq!(backoff.after(&status(429, Some(3))), Some(Duration::from_secs(3)));
        assert_eq!(backoff.after(&status(503, Some(86400))), Some(LONGEST));
        let mut hurried = RetryBackoff::new(Duration::from_secs(1));
        assert!(hurried.after(&status(503, Some(86400))).unwrap() <= Duration::from_secs(1));
    }

    #[test]
    fn refusals_and_nonsense_are_not_waited_out() {
        let backoff = || RetryBackoff::new(Duration::from_secs(1000));
        for code in [400, 401, 404, 413, 422] {
            assert_eq!(backoff().after(&status(code, None)), None, "{code}");
        }
        let mut backoff = backoff();
        let malformed = || RequestError::Malformed("no JSON".into());
        let given_up: Vec<bool> = (0..3).map(|_| backoff.after(&malformed()).is_none()).collect();
        assert_eq!(given_up, [false, false, true]);
        assert_eq!(RetryBackoff::new(Duration::ZERO).after(&status(503, None)), None);
    }

    #[test]
    fn whoever_waits_can_be_stopped() {
        let began = Instant::now();
        assert!(!sleep(Duration::from_secs(60), &|| true));
        assert!(sleep(Duration::from_millis(5), &|| false));
        assert!(began.elapsed() < Duration::from_secs(10));
    }
}
