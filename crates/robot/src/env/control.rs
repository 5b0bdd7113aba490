//! Who acts in a step, and what came of it: policy or pilot, in which frame, cut by which limits.

use glam::{DQuat, DVec3};
use plaudit_core::Intervention;

use super::RobotEnv;
use crate::{Buttons, Deflection, GripperCommand, Key, Motion, PilotInput, Watched};

/// Actions that differ by less are the same.
const SAME: f32 = 1e-3;

/// What was done in a step.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Done {
    /// In the policy's frame and numbers.
    pub(crate) action: Vec<f32>,
    pub(crate) by_person: bool,
    pub(crate) is_clipped: bool,
    /// The guard held instead.
    pub(crate) is_held: bool,
    pub(crate) gripper_moved: bool,
}

impl Done {
    pub(crate) fn nothing(width: usize) -> Self {
        Self {
            action: vec![0.0; width],
            by_person: false,
            is_clipped: false,
            is_held: true,
            gripper_moved: false,
        }
    }

    /// What has to be stored instead of what the policy asked for.
    pub(crate) fn interventions(self, asked: &[f32]) -> Vec<Intervention> {
        let is_same = self.action.iter().zip(asked).all(|(done, asked)| (done - asked).abs() <= SAME);
        if is_same && !self.by_person {
            return Vec::new();
        }
        vec![Intervention { row: 0, action: self.action, by_person: self.by_person }]
    }
}

impl RobotEnv {
    /// Lets the pilot or the policy move the arm.
    pub(super) fn act(&mut self, actions: &[f32]) -> Done {
        let Some(view) = self.view.clone() else { return Done::nothing(actions.len()) };
        let mut input = self.poll_pilot();
        if !self.pilot_may_take_over() {
            (input.deflection, input.buttons) = (Deflection::default(), Buttons::default());
        }
        let by_person = self.pilot_has_the_arm(&input);
        // From the policy's axes to the base's.
        let axes = if self.task.relative_frame { view.state.pose.rotation } else { DQuat::IDENTITY };
        let (linear, angular, gripper) = if by_person {
            let gripper = match input.gripper() {
                Some(GripperCommand::Close) => -1.0,
                Some(GripperCommand::Open) => 1.0,
                _ => 0.0,
            };
            (input.deflection.linear, input.deflection.angular, gripper)
        } else {
            let unit = |at: usize| f64::from(actions[at].clamp(-1.0, 1.0));
            let vector = |from: usize| DVec3::new(unit(from), unit(from + 1), unit(from + 2));
            let gripper = if self.task.has_gripper { unit(6) } else { 0.0 };
            (axes * vector(0), axes * vector(3), gripper)
        };
        let motion = Motion {
            translation_m: linear * self.task.action_m,
            rotation_rad: angular * self.task.action_rad,
            seen: if by_person { self.arm.now() } else { view.seen() },
            by_person: by_person || !input.held.is_empty(),
        };
        let gripper_done = if self.task.has_gripper { self.move_gripper(gripper) } else { None };
        let sent = self.arm.guard.lock().act(&motion);
        let mut done = Done { by_person, gripper_moved: gripper_done.is_some(), ..Done::nothing(6) };
        match sent {
            Ok(sent) => {
                let linear = axes.conjugate() * sent.translation_m / self.task.action_m;
                let angular = axes.conjugate() * sent.rotation_rad / self.task.action_rad;
                let values = linear.to_array().into_iter().chain(angular.to_array());
                done.action = values.map(|value| value.clamp(-1.0, 1.0) as f32).collect();
                (done.is_clipped, done.is_held) = (sent.is_clipped, false);
                self.arm.tell_going_on();
            }
            Err(cause) => self.arm.tell(&cause),
        }
        if self.task.has_gripper {
            // A gripper that is where it should be did what was asked.
            let is_there = gripper != 0.0 && self.gripper_told == Some(gripper.signum());
            let value = if is_there { gripper } else { gripper_done.unwrap_or(0.0) };
            done.action.push(value as f32);
        }
        done
    }

    /// What the pilot does. A device that cannot be read is at rest; Esc stops.
    pub(super) fn poll_pilot(&mut self) -> PilotInput {
        let input = match self.parts.pilot.poll() {
            Ok(input) => input,
            Err(error) => {
                (self.arm.notify)(&error.to_string());
                PilotInput::default()
            }
        };
        if input.pressed.contains(&Key::Escape) {
            self.arm.stop.raise();
            self.arm.guard.lock().stop();
        }
        if self.labels.is_some() {
            self.pressed.extend(&input.pressed);
        }
        input
    }

    /// Whether a pilot who is patient has seen enough: the episode is old, and the task not solved.
    fn pilot_may_take_over(&self) -> bool {
        if self.task.pilot_waits.is_zero() {
            return self.pilot_is_there;
        }
        let is_old = self.arm.episode_time() >= self.task.pilot_waits;
        self.pilot_is_there && is_old && !self.is_solved
    }

    /// Whether the pilot acts: while a device is moved, and for a moment after.
    fn pilot_has_the_arm(&mut self, input: &PilotInput) -> bool {
        let now = self.arm.now();
        let deflection = input.deflection;
        let is_sound = deflection.linear.is_finite() && deflection.angular.is_finite();
        if input.intervenes() && is_sound {
            self.pilot_moved = Some(now);
        }
        self.pilot_moved.is_some_and(|moved| now.since(moved) < self.task.pilot_keeps)
    }

    /// Opens or closes the gripper if it is not so already; returns the number that was obeyed.
    fn move_gripper(&mut self, value: f64) -> Option<f64> {
        if value.abs() < self.task.gripper_threshold || self.gripper_told == Some(value.signum()) {
            return None;
        }
        let command = if value < 0.0 { GripperCommand::Close } else { GripperCommand::Open };
        match self.arm.guard.lock().gripper(command) {
            Ok(()) => {
                self.gripper_told = Some(value.signum());
                Some(value)
            }
            Err(_) => None, // too soon; the next step asks again
        }
    }
}
