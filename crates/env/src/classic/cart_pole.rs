//! A pole on a cart, pushed left or right (Barto, Sutton and Anderson 1983).

use std::f64::consts::TAU;

use plaudit_core::{ActionSpace, Rng};

use super::{ClassicTask, ROWS_PER_THREAD};
use crate::batch::{StepResult, Task};

const GRAVITY: f64 = 9.8;
const POLE_MASS: f64 = 0.1;
const TOTAL_MASS: f64 = POLE_MASS + 1.0;
/// Half the pole's length.
const LENGTH: f64 = 0.5;
const POLE_MASS_LENGTH: f64 = POLE_MASS * LENGTH;
const FORCE: f64 = 10.0;
const STEP_SECS: f64 = 0.02;
const MAX_ANGLE: f64 = 12.0 * TAU / 360.0;
const MAX_POSITION: f64 = 2.4;

/// Keep the pole up: 1 for every step until it falls, the falling step included.
#[derive(Debug, Default)]
pub(crate) struct CartPole {
    /// Position, speed, angle, angular speed.
    pub(super) state: [f64; 4],
    pub(super) fallen: bool,
}

impl ClassicTask for CartPole {
    const STATE_WIDTH: usize = 4;
    const CONTROL_HZ: f64 = 1.0 / STEP_SECS;

    fn actions() -> ActionSpace {
        ActionSpace::Discrete { n: 2 }
    }
}

impl Task for CartPole {
    const ROWS_PER_THREAD: usize = ROWS_PER_THREAD;

    fn reset(&mut self, rng: &mut Rng) {
        self.state = std::array::from_fn(|_| rng.uniform(-0.05, 0.05));
        self.fallen = false;
    }

    fn step(&mut self, action: &[f32], last: bool) -> StepResult {
        let [x, speed, angle, spin] = self.state;
        let force = if action[0] == 1.0 { FORCE } else { -FORCE };
        let (sin, cos) = (angle.sin(), angle.cos());
        let push = (force + POLE_MASS_LENGTH * (spin * spin) * sin) / TOTAL_MASS;
        let spin_up =
            (GRAVITY * sin - cos * push) / (LENGTH * (4.0 / 3.0 - POLE_MASS * (cos * cos) / TOTAL_MASS));
        let speed_up = push - POLE_MASS_LENGTH * spin_up * cos / TOTAL_MASS;
        // Euler: positions move by the old speeds.
        self.state = [
            x + STEP_SECS * speed,
            speed + STEP_SECS * speed_up,
            angle + STEP_SECS * spin,
            spin + STEP_SECS * spin_up,
        ];
        let out = self.state[0].abs() > MAX_POSITION || self.state[2].abs() > MAX_ANGLE;
        // Gymnasium gives no reward for steps after the fall; they are only taken if terminations are ignored.
        let reward = if out && self.fallen { 0.0 } else { 1.0 };
        self.fallen |= out;
        StepResult { reward, terminated: out, success: last && !self.fallen, ..StepResult::default() }
    }

    fn observe(&self, state: &mut [f32]) {
        for (out, value) in state.iter_mut().zip(self.state) {
            *out = value as f32;
        }
    }
}
