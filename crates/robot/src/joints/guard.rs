//! The only caller of [`JointArm::target`]: whatever moves the joints goes through here.
//!
//! The rules are those of [`Guard`](crate::Guard), joint by joint. *An arm never moves because something failed*: whatever
//! is missing, late or broken ends in a hold at the measured position, or in silence where that is not known; the motors
//! then keep their last goal, which is never further than the allowed lag. *Nothing moves before a person has armed it.*

use std::sync::Arc;
use std::time::Duration;

use plaudit_core::EnvError;

use super::{JointArm, JointArmError, JointArmSpec, JointLimits, JointState};
use crate::guard::{Gate, Watched};
use crate::{Clock, HoldCause, Mode, Person, Time};

/// What a policy or a person wants the joints to do.
#[derive(Debug, Clone, PartialEq)]
pub struct JointMotion {
    /// Where each joint should go.
    pub target: Vec<f64>,
    /// When the observation was made that it was chosen from.
    pub seen: Time,
}

/// What was sent to the arm.
#[derive(Debug, Clone, PartialEq)]
pub struct JointSent {
    /// The target of each joint.
    pub target: Vec<f64>,
    /// Where the target was before.
    pub from: Vec<f64>,
    /// Whether it is less than what was wanted.
    pub is_clipped: bool,
}

/// Stands between everybody and the arm.
pub struct JointGuard {
    arm: Box<dyn JointArm>,
    gate: Gate<Vec<f64>>,
    limits: JointLimits,
    state: Option<JointState>,
    /// The arm has to be connected anew.
    is_gone: bool,
}

impl JointGuard {
    /// Guards an arm, which stays disarmed. Limits that are not for its joints are refused.
    pub fn new(arm: Box<dyn JointArm>, limits: JointLimits, clock: Arc<dyn Clock>) -> Result<Self, EnvError> {
        limits.check(&arm.spec().joints)?;
        Ok(Self { arm, gate: Gate::new(clock), limits, state: None, is_gone: false })
    }

    /// What the arm is like.
    pub fn spec(&self) -> &JointArmSpec {
        self.arm.spec()
    }

    /// The limits.
    pub fn limits(&self) -> &JointLimits {
        &self.limits
    }

    /// A person lets the arm move, for the first time or after something a person had to look at. An arm that was gone is
    /// connected anew. A stopped guard stays stopped.
    pub fn arm(&mut self, _person: &Person) -> Result<(), HoldCause> {
        if self.gate.mode == Mode::Stopped {
            return Err(HoldCause::Stopped);
        }
        if self.is_gone {
            self.arm.reconnect().map_err(|error| self.failed(error))?;
            self.is_gone = false;
        }
        self.gate.mode = Mode::Armed;
        self.anchor();
        Ok(())
    }

    /// The next target will be the measured position: somebody else moved the arm.
    pub fn anchor(&mut self) {
        self.gate.anchor();
    }

    /// Reads the arm's state.
    pub fn observe(&mut self) -> Result<&JointState, HoldCause> {
        let state = match self.arm.observe() {
            Ok(state) => state,
            Err(error) => return Err(self.failed(error)),
        };
        let finite = |numbers: &[f64]| numbers.iter().all(|number| number.is_finite());
        let has_all = state.positions.len() == self.limits.joints.len();
        if !(has_all && finite(&state.positions) && state.leader.as_deref().is_none_or(finite)) {
            return Err(HoldCause::NoPose);
        }
        Ok(self.state.insert(state))
    }

    /// Whether an arm with these joint positions may begin to move. One step beyond a limit is forgiven: arms sag.
    pub fn check_start(&self, positions: &[f64]) -> Result<(), HoldCause> {
        for (range, at) in self.limits.joints.iter().zip(positions) {
            let (low, high) = (range.low - range.max_step, range.high + range.max_step);
            if !(low..=high).contains(at) {
                let (joint, low, high) = (range.name.to_string(), range.low, range.high);
                return Err(HoldCause::JointOutside { joint, at: *at, low, high });
            }
        }
        Ok(())
    }

    /// Where the next motion starts: at the last target, or where the arm is if there is none.
    pub fn reference(&self) -> Option<Vec<f64>> {
        let measured = || self.state.as_ref().map(|state| self.limits.clamp(&state.positions));
        self.gate.last.as_ref().map(|(last, _)| last.clone()).or_else(measured)
    }

    /// Moves the joints, as far as the limits allow.
    pub fn act(&mut self, motion: &JointMotion) -> Result<JointSent, HoldCause> {
        let now = self.gate.clock.now();
        let (age, most) = (now.since(motion.seen), self.limits.max_action_age);
        let has_all = motion.target.len() == self.limits.joints.len();
        let refused = if let Err(cause) = self.gate.check_mode() {
            Some(cause)
        } else if !has_all || motion.target.iter().any(|target| !target.is_finite()) {
            Some(HoldCause::NotFinite)
        } else if age > most {
            Some(HoldCause::ActionOld { age, most })
        } else {
            None
        };
        if let Some(cause) = refused {
            return Err(self.hold(cause));
        }
        let measured = self.measured()?;
        self.gate.acts();
        self.send_towards(&measured, &motion.target)
    }

    /// Moves towards positions by one step: for resets, which keep the same limits.
    pub fn approach(&mut self, goal: &[f64]) -> Result<JointSent, HoldCause> {
        if let Err(cause) = self.gate.check_mode() {
            return Err(self.hold(cause));
        }
        let measured = self.measured()?;
        self.gate.acts();
        self.send_towards(&measured, goal)
    }

    /// Where the joints are, if that is known.
    fn measured(&mut self) -> Result<Vec<f64>, HoldCause> {
        let Some(state) = &self.state else { return Err(HoldCause::StateOld(Duration::MAX)) };
        let age = self.gate.clock.now().since(state.time);
        if age > self.limits.max_state_age {
            return Err(self.hold(HoldCause::StateOld(age)));
        }
        Ok(state.positions.clone())
    }

    /// Sends the positions that are as near to `wanted` as one step may lead.
    fn send_towards(&mut self, measured: &[f64], wanted: &[f64]) -> Result<JointSent, HoldCause> {
        let Some((last, sent_at)) = self.gate.last.clone() else { return self.send_first() };
        let joints = &self.limits.joints;
        for ((range, at), target) in joints.iter().zip(measured).zip(&last) {
            let (off, most) = ((at - target).abs(), range.max_step * self.limits.max_lag_steps);
            if off > most {
                let cause = HoldCause::JointLost { joint: range.name.to_string(), off, most };
                let cause = self.hold(cause);
                self.anchor();
                return Err(cause);
            }
        }
        let inside = self.limits.clamp(wanted);
        let elapsed = self.gate.clock.now().since(sent_at).as_secs_f64() / self.limits.period.as_secs_f64();
        let part = elapsed.min(1.0);
        let step = joints.iter().zip(&last).zip(&inside).map(|((range, last), inside)| {
            let most = range.max_step * part;
            last + (inside - last).clamp(-most, most)
        });
        let target = self.send(step.collect())?;
        let is_clipped = target.iter().zip(wanted).any(|(target, wanted)| (target - wanted).abs() > 1e-6);
        Ok(JointSent { target, from: last, is_clipped })
    }

    /// The first target is where the arm is, which must be within its limits.
    fn send_first(&mut self) -> Result<JointSent, HoldCause> {
        let measured = self.observe()?.positions.clone();
        self.check_start(&measured)?;
        let inside = self.limits.clamp(&measured);
        let target = self.send(inside.clone())?;
        Ok(JointSent { target, from: inside, is_clipped: true })
    }

    /// The one place that moves the arm. Returns what was really sent.
    fn send(&mut self, target: Vec<f64>) -> Result<Vec<f64>, HoldCause> {
        match self.arm.target(&target) {
            Ok(sent) if sent.len() == target.len() && sent.iter().all(|sent| sent.is_finite()) => {
                self.gate.sent(sent.clone());
                Ok(sent)
            }
            result => {
                // Whether it arrived is not known, so the next target is where the arm is then.
                self.anchor();
                let odd = JointArmError::Failed("the arm does not say what it sent to its motors".into());
                Err(self.failed(result.err().unwrap_or(odd)))
            }
        }
    }

    /// Notes what an error means for the arm.
    fn failed(&mut self, error: JointArmError) -> HoldCause {
        let is_gone = matches!(error, JointArmError::Gone(_));
        let cause = HoldCause::JointArm(error);
        if is_gone {
            self.is_gone = true;
            self.gate.close(cause.clone());
        }
        cause
    }
}

impl Watched for JointGuard {
    type Target = Vec<f64>;

    fn gate(&self) -> &Gate<Vec<f64>> {
        &self.gate
    }

    fn gate_mut(&mut self) -> &mut Gate<Vec<f64>> {
        &mut self.gate
    }

    fn max_action_age(&self) -> Duration {
        self.limits.max_action_age
    }

    /// The measured positions as a target. Nothing is sent where they are not known.
    fn send_hold(&mut self) -> bool {
        // Read anew: a hold where the arm was a moment ago would move it back.
        let Ok(state) = self.observe() else { return false };
        let measured = state.positions.clone();
        let inside = self.limits.clamp(&measured);
        self.send(inside).is_ok()
    }
}

impl Drop for JointGuard {
    /// Also runs while a panic unwinds: the arm must not go on to a target that nobody watches.
    fn drop(&mut self) {
        self.hold(HoldCause::Stopped);
    }
}
