//! What every guard does, whatever kind of arm it guards: who may move it, and when it holds.

use std::sync::Arc;
use std::time::Duration;

use super::{HoldCause, Mode};
use crate::{Clock, Time};

/// Who may move an arm, and what it was last sent.
pub struct Gate<Target> {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) mode: Mode,
    /// The last target since the arm was armed or recovered, and when it was sent.
    pub(crate) last: Option<(Target, Time)>,
    /// When an action last came that was passed on.
    last_action: Time,
    /// A hold was sent, and nothing after it.
    is_holding: bool,
    /// Why a person holds the arm, whatever its mode.
    held: Option<HoldCause>,
}

impl<Target> Gate<Target> {
    /// The gate of an arm that is disarmed.
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        let last_action = clock.now();
        Self { clock, mode: Mode::Disarmed, last: None, last_action, is_holding: false, held: None }
    }

    /// Refuses what may not move now.
    pub(crate) fn check_mode(&self) -> Result<(), HoldCause> {
        if let Some(cause) = &self.held {
            return Err(cause.clone());
        }
        match &self.mode {
            Mode::Armed => Ok(()),
            Mode::Disarmed => Err(HoldCause::NotArmed),
            Mode::Reflex => Err(HoldCause::Reflex),
            Mode::NeedsPerson(cause) => Err(cause.clone()),
            Mode::Stopped => Err(HoldCause::Stopped),
        }
    }

    /// Lets nothing move until a person agrees.
    pub(crate) fn close(&mut self, cause: HoldCause) {
        if self.mode != Mode::Stopped {
            self.mode = Mode::NeedsPerson(cause);
        }
    }

    /// The next target will be where the arm is.
    pub(crate) fn anchor(&mut self) {
        self.last = None;
        self.is_holding = false;
    }

    /// An action came that is passed on.
    pub(crate) fn acts(&mut self) {
        self.last_action = self.clock.now();
    }

    /// A target was sent.
    pub(crate) fn sent(&mut self, target: Target) {
        self.last = Some((target, self.clock.now()));
        self.is_holding = false;
    }
}

/// A guard that a watchdog looks after, and that holds, waits and stops.
pub trait Watched: Send + 'static {
    /// What is sent to the arm.
    type Target;

    /// Who may move it.
    fn gate(&self) -> &Gate<Self::Target>;

    /// Who may move it.
    fn gate_mut(&mut self) -> &mut Gate<Self::Target>;

    /// How old an action may be, and after how long without one the arm holds.
    fn max_action_age(&self) -> Duration;

    /// Sends the arm to where it is; false where that is not known, or not sent.
    fn send_hold(&mut self) -> bool;

    /// What it lets happen now.
    fn mode(&self) -> &Mode {
        &self.gate().mode
    }

    /// Holds the arm where it is, once; then there is silence until the next motion. Returns the cause.
    fn hold(&mut self, cause: HoldCause) -> HoldCause {
        let gate = self.gate();
        if gate.mode == Mode::Armed && gate.last.is_some() && !gate.is_holding {
            self.gate_mut().is_holding = self.send_hold();
        }
        cause
    }

    /// Holds until [`release`](Self::release), and through everything between: a recovery, a person who arms it, another episode.
    fn hold_until_released(&mut self, cause: HoldCause) {
        self.gate_mut().held = Some(cause.clone());
        self.hold(cause);
    }

    /// A person lets an arm go on that was held so. What holds it besides stays.
    fn release(&mut self) {
        self.gate_mut().held = None;
    }

    /// Whether the arm was told to hold, and nothing after that.
    fn is_holding(&self) -> bool {
        self.gate().is_holding
    }

    /// Holds, and lets nothing move until a person agrees.
    fn wait_for_person(&mut self, cause: HoldCause) -> HoldCause {
        let cause = self.hold(cause);
        self.gate_mut().close(cause.clone());
        cause
    }

    /// Holds for good.
    fn stop(&mut self) {
        self.hold(HoldCause::Stopped);
        self.gate_mut().mode = Mode::Stopped;
    }

    /// What has to happen although nobody acts: call it often.
    fn tick(&mut self) {
        let gate = self.gate();
        if let Some(cause) = gate.held.clone() {
            self.hold(cause); // again, where the arm did not hear it
            return;
        }
        let idle = gate.clock.now().since(gate.last_action);
        if gate.mode == Mode::Armed && idle > self.max_action_age() {
            self.hold(HoldCause::NoAction(idle));
        }
    }
}
