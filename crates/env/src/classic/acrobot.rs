//! Two links of which only the joint between them is driven (Sutton 1996, with the equations of the book).

use std::f64::consts::{FRAC_PI_2, PI, TAU};

use plaudit_core::{ActionSpace, Rng};

use super::{ClassicTask, ROWS_PER_THREAD};
use crate::batch::{StepResult, Task};

const STEP_SECS: f64 = 0.2;
const GRAVITY: f64 = 9.8;
/// Where a link's mass is, from its joint. Lengths, masses and moments of inertia are all 1.
const CENTRE: f64 = 0.5;
const MAX_SPEED: [f64; 2] = [4.0 * PI, 9.0 * PI];

/// Swing the tip above the line one link length over the pivot: -1 for every step until then.
#[derive(Debug, Default)]
pub(crate) struct Acrobot {
    /// Angle of the first link (0 hangs down), of the second against the first, and their speeds.
    pub(super) state: [f64; 4],
}

impl ClassicTask for Acrobot {
    const STATE_WIDTH: usize = 6;
    const CONTROL_HZ: f64 = 1.0 / STEP_SECS;

    fn actions() -> ActionSpace {
        ActionSpace::Discrete { n: 3 }
    }
}

impl Task for Acrobot {
    const ROWS_PER_THREAD: usize = ROWS_PER_THREAD;

    fn reset(&mut self, rng: &mut Rng) {
        self.state = std::array::from_fn(|_| f64::from(rng.uniform(-0.1, 0.1) as f32));
    }

    fn step(&mut self, action: &[f32], _last: bool) -> StepResult {
        let torque = f64::from(action[0]) - 1.0;
        let [first, second, first_speed, second_speed] = runge_kutta(self.state, torque);
        self.state = [
            wrap(first),
            wrap(second),
            first_speed.clamp(-MAX_SPEED[0], MAX_SPEED[0]),
            second_speed.clamp(-MAX_SPEED[1], MAX_SPEED[1]),
        ];
        let done = -self.state[0].cos() - (self.state[1] + self.state[0]).cos() > 1.0;
        let reward = if done { 0.0 } else { -1.0 };
        StepResult { reward, terminated: done, success: done, ..StepResult::default() }
    }

    fn observe(&self, state: &mut [f32]) {
        let [first, second, first_speed, second_speed] = self.state;
        let shown = [first.cos(), first.sin(), second.cos(), second.sin(), first_speed, second_speed];
        for (out, value) in state.iter_mut().zip(shown) {
            *out = value as f32;
        }
    }
}

/// One step of the classical fourth-order method.
fn runge_kutta(state: [f64; 4], torque: f64) -> [f64; 4] {
    let along = |rate: [f64; 4], secs: f64| std::array::from_fn(|i| state[i] + secs * rate[i]);
    let k1 = rates(state, torque);
    let k2 = rates(along(k1, STEP_SECS / 2.0), torque);
    let k3 = rates(along(k2, STEP_SECS / 2.0), torque);
    let k4 = rates(along(k3, STEP_SECS), torque);
    std::array::from_fn(|i| state[i] + STEP_SECS / 6.0 * (k1[i] + 2.0 * k2[i] + 2.0 * k3[i] + k4[i]))
}

/// How fast angles and speeds change. The order of operations is Gymnasium's.
fn rates([first, second, first_speed, second_speed]: [f64; 4], torque: f64) -> [f64; 4] {
    let d1 = CENTRE * CENTRE + (1.0 + CENTRE * CENTRE + 2.0 * CENTRE * second.cos()) + 1.0 + 1.0;
    let d2 = (CENTRE * CENTRE + CENTRE * second.cos()) + 1.0;
    let phi2 = CENTRE * GRAVITY * (first + second - FRAC_PI_2).cos();
    let phi1 = -CENTRE * (second_speed * second_speed) * second.sin()
        - 2.0 * CENTRE * second_speed * first_speed * second.sin()
        + (CENTRE + 1.0) * GRAVITY * (first - FRAC_PI_2).cos()
        + phi2;
    let second_up = (torque + d2 / d1 * phi1 - CENTRE * (first_speed * first_speed) * second.sin() - phi2)
        / (CENTRE * CENTRE + 1.0 - d2 * d2 / d1);
    let first_up = -(d2 * second_up + phi1) / d1;
    [first_speed, second_speed, first_up, second_up]
}

/// Whole turns off until the angle is within half a turn of zero.
fn wrap(mut angle: f64) -> f64 {
    while angle > PI {
        angle -= TAU;
    }
    while angle < -PI {
        angle += TAU;
    }
    angle
}
