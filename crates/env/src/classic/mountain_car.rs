//! A car in a valley that is too weak to drive out without taking a run-up (Moore 1990).

use plaudit_core::{ActionSpace, Rng};

use super::{ClassicTask, ROWS_PER_THREAD};
use crate::batch::{StepResult, Task};

const POWER: f64 = 0.0015;
const SLOPE: f64 = 0.0025;
const MAX_SPEED: f64 = 0.07;
const LEFT: f64 = -1.2;
const RIGHT: f64 = 0.6;
const FLAG: f64 = 0.45;

/// Reach the flag: 100 there, less a tenth of the action squared on every step.
///
/// As in Gymnasium an action beyond the bounds drives no harder, but costs what was asked for.
#[derive(Debug, Default)]
pub(crate) struct MountainCarContinuous {
    /// Position and speed.
    pub(super) state: [f64; 2],
    /// Whether Gymnasium's state is `f32` by now: it starts in `f64` and is rounded after each step, and
    /// NumPy then computes in `f32`.
    pub(super) single: bool,
}

impl ClassicTask for MountainCarContinuous {
    const STATE_WIDTH: usize = 2;
    /// The task knows no seconds; this is the rate Gymnasium shows it at.
    const CONTROL_HZ: f64 = 30.0;

    fn actions() -> ActionSpace {
        ActionSpace::Continuous { low: vec![-1.0], high: vec![1.0] }
    }
}

impl Task for MountainCarContinuous {
    const ROWS_PER_THREAD: usize = ROWS_PER_THREAD;

    fn reset(&mut self, rng: &mut Rng) {
        *self = Self { state: [rng.uniform(-0.6, -0.4), 0.0], single: false };
    }

    fn step(&mut self, action: &[f32], _last: bool) -> StepResult {
        let [position, speed] = self.state;
        let slope = SLOPE * self.round(3.0 * position).cos();
        let pull = match action[0] {
            within @ -1.0..=1.0 => f64::from(within * POWER as f32 - slope as f32),
            beyond => f64::from(beyond.signum()) * POWER - slope,
        };
        let mut speed = self.add(speed, pull).clamp(self.round(-MAX_SPEED), self.round(MAX_SPEED));
        let position = self.add(position, speed).clamp(self.round(LEFT), self.round(RIGHT));
        if position == self.round(LEFT) && speed < 0.0 {
            speed = 0.0;
        }
        let done = position >= self.round(FLAG) && speed >= 0.0;
        self.single = true;
        self.state = [self.round(position), self.round(speed)];
        let reward = if done { 100.0 } else { 0.0 } - f64::from(action[0]).powi(2) * 0.1;
        StepResult { reward, terminated: done, success: done, ..StepResult::default() }
    }

    fn observe(&self, state: &mut [f32]) {
        state.copy_from_slice(&self.state.map(|value| value as f32));
    }
}

impl MountainCarContinuous {
    /// A number in the precision of the state.
    fn round(&self, value: f64) -> f64 {
        if self.single { f64::from(value as f32) } else { value }
    }

    /// A sum in the precision of the state.
    fn add(&self, a: f64, b: f64) -> f64 {
        if self.single { f64::from(a as f32 + b as f32) } else { a + b }
    }
}
