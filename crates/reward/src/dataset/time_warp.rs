//! Segments of demonstrations as a policy could play them: rewound, stalled, sped up, cut.
//!
//! A demonstration only ever goes forward, at one pace. A model that sees a frame stack could take the pace for the progress. So, as
//! in ReWiND (Zhang et al., 2025), what it sees of the past is at times the future (a rewound segment), the present (a stalled one),
//! further away (sped up), or anywhere before (a cut). The label stays that of the newest frame. A single-frame model sees no time,
//! and nothing is changed for it.

use plaudit_core::Seed;

/// How often the time between the views of a frame stack is warped.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TimeWarp {
    /// The share of frames whose past is their future: a segment played backwards.
    pub rewind: f64,
    /// The share whose past is the present: nothing moves.
    pub stall: f64,
    /// The share whose past is two or three times as far away.
    pub speed_up: f64,
    /// The share before which some frames are missing.
    pub cut: f64,
}

/// Frames that a cut leaves out, at most.
const LONGEST_CUT: usize = 12;

impl TimeWarp {
    /// By how many steps a view that looks so far back is moved; all views of a frame that have the same seed are warped alike.
    pub(super) fn steps(&self, back: usize, seed: Seed) -> i64 {
        if back == 0 {
            return 0;
        }
        let (back, mut rng) = (back as i64, seed.rng());
        let kind = rng.unit();
        let mut limit = self.rewind;
        if kind < limit {
            return 2 * back;
        }
        limit += self.stall;
        if kind < limit {
            return back;
        }
        limit += self.speed_up;
        if kind < limit {
            return -back * (1 + rng.below(2) as i64);
        }
        if kind < limit + self.cut {
            return -(1 + rng.below(LONGEST_CUT) as i64);
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_comes_as_often_as_asked() {
        let warp = TimeWarp { rewind: 0.2, stall: 0.1, speed_up: 0.1, cut: 0.1 };
        let steps: Vec<i64> = (0..20_000).map(|at| warp.steps(4, Seed::new(1).index(at))).collect();
        let share =
            |of: &dyn Fn(i64) -> bool| steps.iter().filter(|steps| of(**steps)).count() as f64 / 20_000.0;
        // The past of a rewound frame is as far ahead as it was behind; that of a stalled one is the frame itself.
        for (found, expected) in [
            (share(&|steps| steps == 8), 0.2),
            (share(&|steps| steps == 4), 0.1),
            (share(&|steps| steps < 0), 0.2),
            (share(&|steps| steps == 0), 0.5),
        ] {
            assert!((found - expected).abs() < 0.02, "{found} is not {expected}");
        }
        assert!(steps.iter().all(|steps| *steps >= -12));
        assert!((0..100).all(|at| warp.steps(0, Seed::new(1).index(at)) == 0), "now stays now");
    }
}
