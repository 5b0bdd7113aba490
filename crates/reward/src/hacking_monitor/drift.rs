//! Whether rewarded frames are like those that the run was first rewarded for, by the state: no image is needed, and no truth.
//!
//! A task stays the same while a policy learns it, and so do the states in which it is solved. Each rewarded frame is compared with
//! its nearest neighbour among those of the first checks; one that is further away than 99 in 100 of those are from each other is
//! unlike them. Frames must be of different episodes: those of one are alike.

use super::{LookCount, RewardedFrame};

/// Rewarded frames of the first checks that are remembered, before anything is compared with them.
const FIRST_FRAMES: usize = 256;
/// The share of the first frames that sets the distance.
const QUANTILE: f64 = 0.99;

/// The states of the first rewarded frames.
#[derive(Debug, Clone, Default)]
pub struct FirstFrames {
    states: Vec<Vec<f32>>,
    known: Option<Known>,
}

#[derive(Debug, Clone)]
struct Known {
    mean: Vec<f64>,
    inverse_std: Vec<f64>,
    /// In standard deviations.
    scaled: Vec<Vec<f64>>,
    distance: f64,
}

impl FirstFrames {
    /// Compares frames with the first ones; the first are remembered instead, and compared with each other.
    pub fn compare(&mut self, frames: &[RewardedFrame]) -> Option<LookCount> {
        let states = || frames.iter().map(|frame| frame.obs.row(0).state);
        if let Some(known) = &self.known {
            let seen = states().filter(|state| known.is_unlike(state)).count();
            return Some(LookCount { looked_at: frames.len(), seen });
        }
        let room = FIRST_FRAMES.saturating_sub(self.states.len());
        self.states.extend(states().filter(|state| !state.is_empty()).take(room).map(<[f32]>::to_vec));
        if self.states.len() < FIRST_FRAMES {
            return None;
        }
        let (known, apart) = Known::of(&self.states);
        self.known = Some(known);
        Some(LookCount { looked_at: FIRST_FRAMES, seen: apart })
    }
}

impl Known {
    /// And how many of the first are unlike all others of them.
    fn of(states: &[Vec<f32>]) -> (Self, usize) {
        let (count, width) = (states.len() as f64, states[0].len());
        let column = |at: usize| states.iter().map(move |state| f64::from(state[at]));
        let mean: Vec<f64> = (0..width).map(|at| column(at).sum::<f64>() / count).collect();
        let variance = |at: usize| column(at).map(|x| (x - mean[at]).powi(2)).sum::<f64>() / count;
        // A number that never changed among the first frames counts, but not without limit.
        let inverse_std = (0..width).map(|at| 1.0 / (variance(at).sqrt() + 1e-3)).collect();
        let mut known = Self { mean, inverse_std, scaled: Vec::new(), distance: f64::INFINITY };
        known.scaled = states.iter().map(|state| known.scale(state)).collect();
        let others = |at: usize| known.scaled.iter().enumerate().filter(move |(other, _)| *other != at);
        let nearest = |at: usize| {
            others(at).map(|(_, other)| apart(&known.scaled[at], other)).fold(f64::INFINITY, f64::min)
        };
        let mut distances: Vec<f64> = (0..states.len()).map(nearest).collect();
        distances.sort_by(f64::total_cmp);
        let at = ((distances.len() - 1) as f64 * QUANTILE).round() as usize;
        known.distance = distances[at];
        (known, distances.len() - 1 - at)
    }

    fn scale(&self, state: &[f32]) -> Vec<f64> {
        let scaled = |((x, mean), inverse_std): ((&f32, &f64), &f64)| (f64::from(*x) - mean) * inverse_std;
        state.iter().zip(&self.mean).zip(&self.inverse_std).map(scaled).collect()
    }

    fn is_unlike(&self, state: &[f32]) -> bool {
        let state = self.scale(state);
        self.scaled.iter().all(|known| apart(known, &state) > self.distance)
    }
}

/// The mean squared difference.
fn apart(one: &[f64], other: &[f64]) -> f64 {
    one.iter().zip(other).map(|(a, b)| (a - b).powi(2)).sum::<f64>() / one.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use plaudit_core::{Obs, Rng, Seed};

    use super::*;

    fn frames(rng: &mut Rng, count: usize, moved: f64) -> Vec<RewardedFrame> {
        let state = |rng: &mut Rng| -> Vec<f32> {
            (0..6).map(|at| (rng.normal() * 0.1 + if at == 0 { moved } else { 0.0 }) as f32).collect()
        };
        (0..count)
            .map(|_| RewardedFrame { obs: Obs::from_state(1, state(rng)).unwrap(), true_success: true })
            .collect()
    }

    #[test]
    fn frames_like_the_first_are_like_them_and_others_are_not() {
        let mut rng = Seed::new(1).purpose("drift").rng();
        let mut first = FirstFrames::default();
        assert_eq!(first.compare(&frames(&mut rng, 200, 0.0)), None, "too few so far");
        let themselves = first.compare(&frames(&mut rng, 100, 0.0)).unwrap();
        assert_eq!(themselves, LookCount { looked_at: 256, seen: 3 });
        let same = first.compare(&frames(&mut rng, 400, 0.0)).unwrap();
        assert!(same.seen < 16, "{same:?}");
        let moved = first.compare(&frames(&mut rng, 400, 0.8)).unwrap();
        assert!(moved.seen > 390, "{moved:?}");
    }

    #[test]
    fn without_states_nothing_is_said() {
        let mut first = FirstFrames::default();
        let empty = RewardedFrame { obs: Obs::from_state(1, Vec::new()).unwrap(), true_success: true };
        for _ in 0..4 {
            assert_eq!(first.compare(&vec![empty.clone(); 256]), None);
        }
    }
}
