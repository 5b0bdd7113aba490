//! What goes wrong on purpose.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use plaudit_core::{Rng, Seed};
use serde::{Deserialize, Serialize};

/// Longer delays than this are a mistake.
const LONGEST_MS: f64 = 600_000.0;

/// What goes wrong, until told otherwise. Rates are of requests or frames, in 0..1; they are sampled by the seed.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Faults {
    /// Decides which requests and frames are hit.
    pub seed: u64,
    /// Routes that are slow or fail; empty: all.
    pub routes: Vec<String>,
    /// Milliseconds that an answer waits.
    pub latency_ms: f64,
    /// Up to so many more, at random.
    pub jitter_ms: f64,
    /// How many requests are answered with status 500.
    pub error_rate: f64,
    /// Milliseconds for which connections are refused from now on.
    pub refuse_for_ms: f64,
    /// How many frames are not sent.
    pub drop_frames: f64,
    /// The cameras repeat the frame that they have.
    pub freeze_frames: bool,
    /// Milliseconds by which frames come too late.
    pub late_frames_ms: f64,
    /// How many frames lack their second half.
    pub tear_frames: f64,
    /// The arm stops itself until `clearerr`.
    pub reflex: bool,
    /// It does not say so, as SERL's servers do not. Otherwise `/pose` answers 409.
    pub silent_reflex: bool,
    /// The gripper does nothing.
    pub stuck_gripper: bool,
    /// Newtons that are added to what the arm feels.
    pub force_n: [f64; 3],
    /// Milliseconds for which the server does nothing at all from now on.
    pub pause_for_ms: f64,
    /// The server ends, as if its process were killed.
    pub kill: bool,
}

impl Faults {
    /// Reads them from JSON.
    pub fn from_json(text: &[u8]) -> Result<Self, String> {
        let faults: Self = serde_json::from_slice(text).map_err(|error| error.to_string())?;
        let rates = [
            ("error_rate", faults.error_rate, 1.0),
            ("drop_frames", faults.drop_frames, 1.0),
            ("tear_frames", faults.tear_frames, 1.0),
            ("latency_ms", faults.latency_ms, LONGEST_MS),
            ("jitter_ms", faults.jitter_ms, LONGEST_MS),
            ("refuse_for_ms", faults.refuse_for_ms, LONGEST_MS),
            ("late_frames_ms", faults.late_frames_ms, LONGEST_MS),
            ("pause_for_ms", faults.pause_for_ms, LONGEST_MS),
        ];
        match rates.into_iter().find(|(_, value, most)| !(0.0..=*most).contains(value)) {
            Some((name, value, most)) => Err(format!("`{name}` is {value}, not within 0 and {most}")),
            None => Ok(faults),
        }
    }
}

/// Samples what is hit.
#[derive(Debug, Default)]
pub(super) struct Dice {
    thrown: AtomicU64,
}

impl Dice {
    fn next(&self, faults: &Faults, purpose: &str) -> Rng {
        Seed::new(faults.seed).purpose(purpose).index(self.thrown.fetch_add(1, Ordering::Relaxed)).rng()
    }

    /// Whether a rate hits this time.
    pub(super) fn hits(&self, faults: &Faults, purpose: &str, rate: f64) -> bool {
        rate > 0.0 && self.next(faults, purpose).unit() < rate
    }

    /// How long a request to this route waits.
    pub(super) fn delay(&self, faults: &Faults) -> Duration {
        let jitter =
            faults.jitter_ms * if faults.jitter_ms > 0.0 { self.next(faults, "jitter").unit() } else { 0.0 };
        millis(faults.latency_ms + jitter)
    }
}

pub(super) fn millis(ms: f64) -> Duration {
    Duration::try_from_secs_f64(ms / 1000.0).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_read_and_misspelt_ones_refused() {
        let faults = Faults::from_json(br#"{"latency_ms": 20, "reflex": true}"#).unwrap();
        assert_eq!((faults.latency_ms, faults.reflex), (20.0, true));
        assert!(Faults::from_json(br#"{"latencyms": 20}"#).unwrap_err().contains("latencyms"));
        let error = Faults::from_json(br#"{"error_rate": 1.5}"#).unwrap_err();
        assert_eq!(error, "`error_rate` is 1.5, not within 0 and 1");
        assert!(Faults::from_json(br#"{"pause_for_ms": 1e300}"#).is_err());
    }

    #[test]
    fn the_seed_decides_what_is_hit() {
        let hits = |seed: u64| {
            let (faults, dice) = (Faults { seed, ..Faults::default() }, Dice::default());
            (0..200).map(|_| dice.hits(&faults, "error", 0.3)).collect::<Vec<_>>()
        };
        assert_eq!(hits(1), hits(1));
        assert_ne!(hits(1), hits(2));
        let share = hits(1).iter().filter(|hit| **hit).count();
        assert!((40..80).contains(&share), "{share}");
    }
}
