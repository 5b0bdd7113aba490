//! An arm of joints as an environment of one row that steps in real time.
//!
//! The state is what the arm reports, in its own units and order; cameras come with it. An action has one number for
//! each joint. What breaks does not end learning: see [`RobotEnv`](crate::RobotEnv), whose facts a step has, too.

use std::sync::Arc;
use std::time::Duration;

use plaudit_core::{ActionSpace, Env, EnvError, EnvSpec, FramesNeeded, Obs, ObsError, Seed, StatePart, Step};

use super::{JointAction, JointMotion, JointParts, JointRange, JointState, JointTask, TakeOver};
use crate::arm_loop::{ArmEnv, ArmLoop, LOOKS_EVERY, end_of};
use crate::env::{Done, Facts};
use crate::{HoldCause, JointGuard, Mode, Person, SharedGuard, Time, Watched};

/// How long one try of a reset may take beyond the time that the largest step asks for.
const SETTLE: Duration = Duration::from_secs(3);
/// A leader that moved less than this part of a step stands still: its encoders are not.
const LEADER_STILL: f64 = 0.2;

/// An arm of joints as an environment.
pub struct JointEnv {
    spec: EnvSpec,
    task: JointTask,
    ranges: Vec<JointRange>,
    arm: ArmLoop<JointGuard>,
    /// What the policy last saw; nothing before the first reset.
    view: Option<JointState>,
    /// Where the leader was when it last counted as moved, and when.
    leader: Option<(Vec<f64>, Option<Time>)>,
}

impl JointEnv {
    /// Puts an arm and its task together. Nothing moves yet. A task that does not fit the arm is refused.
    pub fn new(task: JointTask, parts: JointParts) -> Result<Self, EnvError> {
        let JointParts { guard, person, clock, stop, notify, watchdog } = parts;
        check(&task, &guard)?;
        let arm = guard.spec();
        let part = |(at, name): (usize, &Arc<str>)| StatePart { name: name.clone(), range: at..at + 1 };
        let spec = EnvSpec {
            id: task.id.clone(),
            num_envs: 1,
            state_width: arm.state.len(),
            state_parts: arm.state.iter().enumerate().map(part).collect(),
            actions: ActionSpace::Continuous {
                low: vec![-1.0; arm.joints.len()],
                high: vec![1.0; arm.joints.len()],
            },
            cameras: arm.cameras.iter().map(|(name, _)| (name.clone(), task.fit.shape())).collect(),
            max_episode_steps: task.max_episode_steps,
            control_hz: task.control_hz,
        };
        let ranges = guard.limits().joints.clone();
        let arm = ArmLoop::new(guard, task.control_hz, person, (clock, stop), notify, watchdog)?;
        Ok(Self { spec, task, ranges, arm, view: None, leader: None })
    }

    /// The guard: for whoever shows its mode.
    pub fn guard(&self) -> SharedGuard<JointGuard> {
        self.arm.guard.clone()
    }
}

impl ArmEnv for JointEnv {
    type Guard = JointGuard;
    type View = JointState;

    fn arm(&self) -> &ArmLoop<JointGuard> {
        &self.arm
    }

    fn arm_mut(&mut self) -> &mut ArmLoop<JointGuard> {
        &mut self.arm
    }

    fn max_age(&self) -> Duration {
        self.arm.guard.lock().limits().max_state_age
    }

    fn look_once(&mut self, most: Duration) -> Result<JointState, HoldCause> {
        let mut guard = self.arm.guard.lock();
        match guard.mode() {
            Mode::NeedsPerson(cause) => return Err(cause.clone()),
            Mode::Stopped => return Err(HoldCause::Stopped),
            Mode::Armed | Mode::Disarmed | Mode::Reflex => {}
        }
        let view = guard.observe()?.clone();
        let age = self.arm.clock.now().since(view.time);
        // An answer that came late may have been asked for long ago.
        if age > most { Err(HoldCause::StateOld(age)) } else { Ok(view) }
    }

    fn show(&mut self, view: JointState) {
        self.view = Some(view);
    }

    fn obs(&self) -> Result<Obs, EnvError> {
        let misfit = |error: ObsError| EnvError::Backend(Box::new(error));
        let view = self.view.as_ref().ok_or(EnvError::NotReset)?;
        let state = view.numbers.iter().map(|number| *number as f32).collect();
        let mut obs = Obs::from_state(1, state).map_err(misfit)?;
        for ((name, _), image) in self.spec.cameras.iter().zip(&view.frames) {
            obs = obs.with_camera(name.clone(), self.task.fit.apply((**image).clone())).map_err(misfit)?;
        }
        match &self.task.instruction {
            Some(instruction) => obs.with_tasks(vec![instruction.clone()]).map_err(misfit),
            None => Ok(obs),
        }
    }

    fn check_start(&self, view: &JointState) -> Result<(), HoldCause> {
        self.arm.guard.lock().check_start(&view.positions)
    }

    fn let_move(&mut self, person: &Person) -> Result<(), HoldCause> {
        self.arm.guard.lock().arm(person)
    }

    /// Such arms do not stop themselves.
    fn recover(&mut self) -> Result<(), HoldCause> {
        Ok(())
    }

    fn go_to_start(&mut self) -> Result<(), HoldCause> {
        self.pause().and_then(|()| self.bring_to_start())
    }

    fn begin_episode(&mut self) {
        self.come_to_start();
        self.leader = None;
        self.arm.begin();
    }

    fn action_width(&self) -> usize {
        self.spec.actions.width()
    }
}

/// Who acts in a step, and what came of it.
impl JointEnv {
    fn act(&mut self, actions: &[f32]) -> Done {
        let Some(view) = self.view.clone() else { return Done::nothing(actions.len()) };
        let by_person = self.leader_has_the_arm(&view);
        let reference = self.arm.guard.lock().reference().unwrap_or_else(|| view.positions.clone());
        let target = match &view.leader {
            Some(leader) if by_person => leader.clone(),
            _ => self.wanted(&reference, actions),
        };
        let sent = self.arm.guard.lock().act(&JointMotion { target, seen: view.time });
        let mut done = Done { by_person, ..Done::nothing(actions.len()) };
        match sent {
            Ok(sent) => {
                done.action = self.as_action(&sent.from, &sent.target);
                (done.is_clipped, done.is_held) = (sent.is_clipped, false);
                self.arm.tell_going_on();
            }
            Err(cause) => {
                done.action = self.as_action(&reference, &reference);
                self.arm.tell(&cause);
            }
        }
        done
    }

    /// Where an action of the policy leads. One that is no number is none, which the guard refuses.
    fn wanted(&self, reference: &[f64], actions: &[f32]) -> Vec<f64> {
        let joints = self.ranges.iter().zip(reference).zip(actions);
        let one = |((range, reference), action): ((&JointRange, &f64), &f32)| {
            let action = f64::from(action.clamp(-1.0, 1.0));
            match self.task.action {
                JointAction::Delta => reference + action * range.max_step,
                JointAction::Position => range.low + (action + 1.0) / 2.0 * (range.high - range.low),
            }
        };
        joints.map(one).collect()
    }

    /// The action that leads from one target to another.
    fn as_action(&self, from: &[f64], to: &[f64]) -> Vec<f32> {
        let joints = self.ranges.iter().zip(from).zip(to);
        let one = |((range, from), to): ((&JointRange, &f64), &f64)| {
            let action = match self.task.action {
                JointAction::Delta => (to - from) / range.max_step,
                JointAction::Position => 2.0 * (to - range.low) / (range.high - range.low) - 1.0,
            };
            action.clamp(-1.0, 1.0) as f32
        };
        joints.map(one).collect()
    }

    /// Whether the leader acts.
    fn leader_has_the_arm(&mut self, view: &JointState) -> bool {
        let Some(at) = &view.leader else { return false };
        match self.task.take_over {
            TakeOver::Always => true,
            TakeOver::Events => view.events.is_intervention,
            TakeOver::Moved => {
                let now = self.arm.clock.now();
                let Some((before, moved)) = &mut self.leader else {
                    self.leader = Some((at.clone(), None));
                    return false;
                };
                let mut joints = self.ranges.iter().zip(at.iter()).zip(before.iter());
                let has_moved = |((range, at), before): ((&JointRange, &f64), &f64)| {
                    (at - before).abs() > LEADER_STILL * range.max_step
                };
                if joints.any(has_moved) {
                    (*before, *moved) = (at.clone(), Some(now));
                }
                moved.is_some_and(|moved| now.since(moved) < self.task.leader_keeps)
            }
        }
    }
}

/// From one episode to the next.
impl JointEnv {
    /// Holds while a person resets the table.
    fn pause(&mut self) -> Result<(), HoldCause> {
        let over = self.arm.now() + self.task.reset_pause;
        if self.task.reset_pause.is_zero() {
            return Ok(());
        }
        self.arm.guard.lock().hold(HoldCause::Other("the table is reset".into()));
        while self.arm.now() < over {
            if self.arm.stop.is_raised() {
                return Err(HoldCause::Stopped);
            }
            self.arm.clock.sleep_until((self.arm.now() + LOOKS_EVERY).min(over));
        }
        // A person near the table may have moved the arm.
        self.arm.guard.lock().anchor();
        Ok(())
    }

    fn bring_to_start(&mut self) -> Result<(), HoldCause> {
        let Some(goal) = self.task.reset_positions.clone() else { return Ok(()) };
        let tries = self.task.reset_tries.max(1);
        let mut missed = None;
        for _ in 0..tries {
            missed = self.approach(&goal)?;
            if missed.is_none() {
                return Ok(());
            }
        }
        let Some((joint, off)) = missed else { return Ok(()) };
        let cause = HoldCause::JointResetMissed { joint, off, tries };
        Err(self.arm.guard.lock().wait_for_person(cause))
    }

    /// Sends targets towards `goal` until the arm is there or time is up; returns the joint that is furthest off, if one is
    /// off by more than a step.
    fn approach(&mut self, goal: &[f64]) -> Result<Option<(String, f64)>, HoldCause> {
        let (begun, period) = (self.arm.now(), self.arm.period());
        let mut due = begun;
        loop {
            if self.arm.stop.is_raised() {
                return Err(HoldCause::Stopped);
            }
            let positions = self.look()?.positions;
            let steps = |((range, at), goal): ((&JointRange, &f64), &f64)| {
                ((goal - at).abs() / range.max_step, range.name.clone(), (goal - at).abs())
            };
            let joints = self.ranges.iter().zip(&positions).zip(goal).map(steps);
            let Some((steps, joint, off)) = joints.max_by(|a, b| a.0.total_cmp(&b.0)) else {
                return Ok(None);
            };
            self.arm.guard.lock().approach(goal)?;
            if steps <= 1.0 {
                return Ok(None);
            }
            let needed = period.mul_f64(steps.min(1e4));
            if self.arm.now().since(begun) > SETTLE + needed {
                return Ok(Some((joint.to_string(), off)));
            }
            due = (due + period).max(self.arm.now());
            self.arm.clock.sleep_until(due);
        }
    }
}

impl Env for JointEnv {
    fn spec(&self) -> &EnvSpec {
        &self.spec
    }

    fn reset(&mut self, _seed: Seed) -> Result<Obs, EnvError> {
        if self.view.is_none() {
            self.first_look()?;
        }
        self.ask_first()?;
        self.begin_episode();
        self.obs()
    }

    fn step(&mut self, actions: &[f32]) -> Result<Step, EnvError> {
        self.spec.actions.check(1, actions)?;
        if self.view.is_none() {
            return Err(EnvError::NotReset);
        }
        if self.arm.stop.is_raised() {
            self.arm.guard.lock().stop();
            return self.broken_step(actions, HoldCause::Stopped);
        }
        let done = self.act(actions);
        let overrun = self.arm.wait_for_deadline();
        match self.look() {
            Ok(view) if view.events.is_invalid => {
                self.view = Some(view);
                let cause = HoldCause::Other("the person at the leader wants the episode anew".into());
                let cause = self.arm.guard.lock().hold(cause);
                self.broken_step(actions, cause)
            }
            Ok(view) => self.whole_step(view, actions, done, overrun),
            Err(cause) => self.broken_step(actions, cause),
        }
    }

    /// Frames come with the state.
    fn set_frames_needed(&mut self, _frames: FramesNeeded) {}
}

impl JointEnv {
    /// A step after which a state was there.
    fn whole_step(
        &mut self,
        view: JointState,
        actions: &[f32],
        done: Done,
        overrun: Duration,
    ) -> Result<Step, EnvError> {
        self.arm.steps += 1;
        let events = view.events;
        let facts = Facts {
            intervention: done.by_person,
            clipped: done.is_clipped,
            held: done.is_held,
            frame_age: self.arm.now().since(view.time),
            overrun,
            time: self.arm.episode_time(),
            ..Facts::default()
        };
        self.view = Some(view);
        let is_done = (events.success || events.is_over) && !self.task.ignore_terminations;
        let is_late = self.task.max_episode_steps.is_some_and(|most| self.arm.steps >= most);
        let reward = f32::from(u8::from(events.success));
        let end = end_of(is_done, is_late);
        self.end_step(end, (reward, events.success), facts.named(), done.interventions(actions))
    }
}

/// Refuses tasks that do not fit their arm.
fn check(task: &JointTask, guard: &JointGuard) -> Result<(), EnvError> {
    let wrong = |why: String| Err(EnvError::Setting(why.into()));
    let (arm, ranges) = (guard.spec(), &guard.limits().joints);
    if !(task.control_hz.is_finite() && task.control_hz > 0.0) {
        return wrong(format!("control_hz is {}; it must be a positive number", task.control_hz));
    }
    task.fit.check().or_else(wrong)?;
    if task.take_over == TakeOver::Events && !arm.has_events {
        return wrong("the leader tells no events, so nobody would ever take over".into());
    }
    let Some(start) = &task.reset_positions else { return Ok(()) };
    if start.len() != ranges.len() {
        return wrong(format!("{} reset positions for {} joints", start.len(), ranges.len()));
    }
    let outside = |(range, at): &(&JointRange, &f64)| !(range.low..=range.high).contains(at);
    match ranges.iter().zip(start).find(outside) {
        Some((range, at)) => {
            let JointRange { name, low, high, .. } = range;
            wrong(format!("the reset position of `{name}`, {at}, is outside of {low} to {high}"))
        }
        None => Ok(()),
    }
}
