//! Classic control, step for step as in Gymnasium 1.x.
//!
//! Dynamics are computed in the precision and the order of operations of Gymnasium, so that observations
//! (`f32`) are bit-exact as long as both use the same `sin` and `cos`; the parity test replays
//! Gymnasium's own episodes. Initial states have Gymnasium's distributions, but not its random generator.

mod acrobot;
mod cart_pole;
#[cfg(test)]
mod gymnasium_parity;
mod mountain_car;
mod pendulum;

use plaudit_core::ActionSpace;

use crate::batch::Task;

pub(crate) use acrobot::Acrobot;
pub(crate) use cart_pole::CartPole;
pub(crate) use mountain_car::MountainCarContinuous;
pub(crate) use pendulum::Pendulum;

/// Rows below which a second thread costs more than it brings: a step takes 50 to 250 ns, waking a thread
/// some 10 us. On two cores 4,096 rows gain 20 to 50 %, and 1,024 would gain nothing.
const ROWS_PER_THREAD: usize = 2048;

/// A task of classic control: small, without cameras, described by constants.
pub(crate) trait ClassicTask: Task + Default {
    /// Numbers in its observation.
    const STATE_WIDTH: usize;
    /// Steps per simulated second.
    const CONTROL_HZ: f64;

    /// What an action is.
    fn actions() -> ActionSpace;
}
