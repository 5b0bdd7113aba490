//! A pendulum whose motor is too weak to lift it at once.

use std::f64::consts::{PI, TAU};

use plaudit_core::{ActionSpace, Rng};

use super::{ClassicTask, ROWS_PER_THREAD};
use crate::batch::{StepResult, Task};

const GRAVITY: f64 = 10.0;
const STEP_SECS: f64 = 0.05;
const MAX_SPEED: f64 = 8.0;
const MAX_TORQUE: f32 = 2.0;

/// Swing up and stay: the cost is the angle from upright, the speed and the torque, all squared.
///
/// It never terminates. Gymnasium has no success here; ours is "upright and slow, at this moment".
#[derive(Debug, Default)]
pub(crate) struct Pendulum {
    /// Angle (0 is upright; it counts turns) and angular speed.
    pub(super) state: [f64; 2],
}

impl ClassicTask for Pendulum {
    const STATE_WIDTH: usize = 3;
    const CONTROL_HZ: f64 = 1.0 / STEP_SECS;

    fn actions() -> ActionSpace {
        ActionSpace::Continuous { low: vec![-MAX_TORQUE], high: vec![MAX_TORQUE] }
    }
}

impl Task for Pendulum {
    const ROWS_PER_THREAD: usize = ROWS_PER_THREAD;

    fn reset(&mut self, rng: &mut Rng) {
        self.state = [rng.uniform(-PI, PI), rng.uniform(-1.0, 1.0)];
    }

    fn step(&mut self, action: &[f32], _last: bool) -> StepResult {
        let [angle, speed] = self.state;
        // NumPy keeps products of the f32 torque in f32.
        let torque = action[0].clamp(-MAX_TORQUE, MAX_TORQUE);
        let from_upright = normalise(angle);
        let cost = from_upright * from_upright + 0.1 * (speed * speed) + f64::from(0.001 * (torque * torque));
        let pull = 3.0 * GRAVITY / 2.0 * angle.sin() + f64::from(3.0 * torque);
        let speed = (speed + pull * STEP_SECS).clamp(-MAX_SPEED, MAX_SPEED);
        self.state = [angle + speed * STEP_SECS, speed];
        let success = normalise(self.state[0]).abs() < 0.2 && speed.abs() < 0.5;
        StepResult { reward: -cost, success, ..StepResult::default() }
    }

    fn observe(&self, state: &mut [f32]) {
        let [angle, speed] = self.state;
        state.copy_from_slice(&[angle.cos() as f32, angle.sin() as f32, speed as f32]);
    }
}

/// The same angle in `[-pi, pi)`.
fn normalise(angle: f64) -> f64 {
    (angle + PI).rem_euclid(TAU) - PI
}
