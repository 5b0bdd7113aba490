//! Whether rewarded frames are like those that the run was first rewarded for, by the state: no image is needed, and no truth.
//!
//! A task stays the same while a policy learns it, and so do the states in which it is solved. Each rewarded frame is compared with
//! its nearest neighbour among those of the first checks; one that is further away than 95 in 100 of those are from each other is
//! unlike them. Distances account for what goes together ([`Whitening`]): a cube beside its goal is far from all that were at theirs.
//! Frames must be of different episodes: those of one are alike.

use super::whitening::Whitening;
use super::{LookCount, RewardedFrame};

/// Rewarded frames of the first checks that are remembered, before anything is compared with them.
const FIRST_FRAMES: usize = 128;
/// The share of the first frames that sets the distance.
const QUANTILE: f64 = 0.95;
/// Parts of the first frames, each of which is compared with the others: what a distance goes by must not know the frame.
const FOLDS: usize = 8;

/// The states of the first rewarded frames.
#[derive(Debug, Clone, Default)]
pub struct FirstFrames {
    states: Vec<Vec<f32>>,
    known: Option<Known>,
}

#[derive(Debug, Clone)]
struct Known {
    neighbours: Neighbours,
    /// Further than that from the nearest is unlike all.
    distance: f64,
}

/// States that others are compared with.
#[derive(Debug, Clone)]
struct Neighbours {
    whitening: Whitening,
    states: Vec<Vec<f64>>,
}

impl FirstFrames {
    /// Compares frames with the first ones; the first are remembered instead, and compared with each other.
    pub fn compare(&mut self, frames: &[RewardedFrame]) -> Option<LookCount> {
        let states = || frames.iter().map(|frame| frame.obs.row(0).state);
        if let Some(known) = &self.known {
            let seen = states().filter(|state| known.neighbours.distance(state) > known.distance).count();
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
    /// And how many of the first are unlike the others.
    fn of(states: &[Vec<f32>]) -> (Self, usize) {
        let mut distances = Vec::new();
        for fold in 0..FOLDS {
            let is_in_it = |at: usize| at % FOLDS == fold;
            let others =
                states.iter().enumerate().filter(|(at, _)| !is_in_it(*at)).map(|(_, state)| &state[..]);
            let others = Neighbours::of(&others.collect::<Vec<_>>());
            let those = states.iter().enumerate().filter(|(at, _)| is_in_it(*at));
            distances.extend(those.map(|(_, state)| others.distance(state)));
        }
        distances.sort_by(f64::total_cmp);
        let at = ((distances.len() - 1) as f64 * QUANTILE).round() as usize;
        let neighbours = Neighbours::of(&states.iter().map(Vec::as_slice).collect::<Vec<_>>());
        (Self { neighbours, distance: distances[at] }, distances.len() - 1 - at)
    }
}

impl Neighbours {
    fn of(states: &[&[f32]]) -> Self {
        let whitening = Whitening::of(states);
        let states = states.iter().map(|state| whitening.apply(state)).collect();
        Self { whitening, states }
    }

    /// From the nearest.
    fn distance(&self, state: &[f32]) -> f64 {
        let state = self.whitening.apply(state);
        self.states.iter().map(|known| apart(known, &state)).fold(f64::INFINITY, f64::min)
    }
}

/// The squared distance.
fn apart(one: &[f64], other: &[f64]) -> f64 {
    one.iter().zip(other).map(|(a, b)| (a - b).powi(2)).sum()
}

#[cfg(test)]
mod tests {
    use plaudit_core::{Obs, Rng, Seed};

    use super::super::RateMonitor;
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
        assert_eq!(first.compare(&frames(&mut rng, 100, 0.0)), None, "too few so far");
        let themselves = first.compare(&frames(&mut rng, 50, 0.0)).unwrap();
        assert_eq!(themselves, LookCount { looked_at: 128, seen: 6 });
        let same = first.compare(&frames(&mut rng, 400, 0.0)).unwrap();
        assert!(same.seen < 40, "{same:?}");
        let moved = first.compare(&frames(&mut rng, 400, 0.8)).unwrap();
        assert!(moved.seen > 390, "{moved:?}");
    }

    /// A cube that lies at its goal, wherever that is, and one that lies beside it: every number is as usual, but not together.
    #[test]
    fn what_goes_together_is_to_stay_together() {
        let mut rng = Seed::new(2).purpose("drift").rng();
        let mut placed = |count: usize, beside: f64| -> Vec<RewardedFrame> {
            let mut state = || {
                let (goal, noise) = ([rng.normal(), rng.normal()], [rng.normal(), rng.normal()]);
                let cube = [goal[0] + beside + 0.1 * noise[0], goal[1] + 0.1 * noise[1]];
                [goal, cube].concat().iter().map(|x| *x as f32).collect::<Vec<f32>>()
            };
            let frame = |state| RewardedFrame { obs: Obs::from_state(1, state).unwrap(), true_success: true };
            (0..count).map(|_| frame(state())).collect()
        };
        let mut first = FirstFrames::default();
        assert!(first.compare(&placed(128, 0.0)).is_some());
        let (same, beside) =
            (first.compare(&placed(200, 0.0)).unwrap(), first.compare(&placed(200, 0.8)).unwrap());
        assert!(same.seen < 24 && beside.seen > 160, "{same:?} {beside:?}");
    }

    /// The promise for drift alone: the distance was found by few frames, and is tested by many.
    #[test]
    fn frames_that_stay_the_same_raise_alarms_as_rarely_as_promised() {
        let has_alarm = |seed: &u64| {
            let mut rng = Seed::new(*seed).purpose("same").rng();
            let (mut first, mut monitor) = (FirstFrames::default(), RateMonitor::new(Some(0.5)));
            (0..30).any(|_| {
                let look = first.compare(&frames(&mut rng, 64, 0.0));
                look.is_some_and(|look| monitor.take(look, 0.05).is_some())
            })
        };
        let alarms = (0..200).filter(has_alarm).count();
        // Three standard deviations of a share of 5 % in 200 runs are 0.046.
        assert!((alarms as f64) < (0.05 + 0.046) * 200.0, "{alarms} of 200");
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
