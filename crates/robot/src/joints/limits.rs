//! What the joints of an arm may do.

use std::sync::Arc;
use std::time::Duration;

use plaudit_core::EnvError;

/// What one joint may do, in its own units.
#[derive(Debug, Clone, PartialEq)]
pub struct JointRange {
    /// What it is called.
    pub name: Arc<str>,
    /// The lowest position it may be sent to.
    pub low: f64,
    /// The highest position it may be sent to.
    pub high: f64,
    /// How far its target may move in one control period.
    pub max_step: f64,
}

/// What an arm may do.
#[derive(Debug, Clone, PartialEq)]
pub struct JointLimits {
    /// One for each joint, in the arm's order.
    pub joints: Vec<JointRange>,
    /// How many steps a joint may be away from its last target. Further, and something holds it, or somebody moved it.
    pub max_lag_steps: f64,
    /// The time between two targets that steps are reckoned with: after a pause no larger step is allowed.
    pub period: Duration,
    /// An action that was chosen from an older observation moves nothing, and so long without one the arm holds.
    pub max_action_age: Duration,
    /// A state that is older is none.
    pub max_state_age: Duration,
}

impl JointLimits {
    /// Limits for targets at `control_hz`.
    pub fn new(joints: Vec<JointRange>, control_hz: f64) -> Self {
        let control_hz = if control_hz.is_finite() && control_hz > 0.0 { control_hz } else { 10.0 };
        Self {
            joints,
            max_lag_steps: 5.0,
            period: Duration::from_secs_f64(1.0 / control_hz),
            max_action_age: Duration::from_millis(200),
            max_state_age: Duration::from_millis(300),
        }
    }

    /// Refuses limits that do not limit, or are not for these joints.
    pub(super) fn check(&self, joints: &[Arc<str>]) -> Result<(), EnvError> {
        let wrong = |why: String| Err(EnvError::Setting(why.into()));
        if self.joints.len() != joints.len()
            || self.joints.iter().zip(joints).any(|(range, name)| range.name != *name)
        {
            let named: Vec<&str> = self.joints.iter().map(|range| &*range.name).collect();
            return wrong(format!(
                "the limits are for {}, the joints are {}",
                named.join(", "),
                joints.join(", ")
            ));
        }
        for JointRange { name, low, high, max_step } in &self.joints {
            if !(low.is_finite() && high.is_finite() && low < high) {
                return wrong(format!("`{name}` may go from {low} to {high}, which is no range"));
            }
            if !(max_step.is_finite() && *max_step > 0.0) {
                return wrong(format!("`{name}` may go {max_step} in a step; it must be a positive number"));
            }
        }
        if !(self.max_lag_steps.is_finite() && self.max_lag_steps >= 1.0) {
            let lag = self.max_lag_steps;
            return wrong(format!("joints may be {lag} steps behind; it must be at least one"));
        }
        Ok(())
    }

    /// The position within its limits that is nearest to `wanted`, for each joint.
    pub(super) fn clamp(&self, wanted: &[f64]) -> Vec<f64> {
        self.joints.iter().zip(wanted).map(|(range, wanted)| wanted.clamp(range.low, range.high)).collect()
    }
}
