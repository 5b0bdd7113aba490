//! An arm of joints as an environment of one row that steps in real time.
//!
//! The state is what the arm reports, in its own units and order; cameras come with it. An action has one number for
//! each joint. What breaks does not end learning: see [`RobotEnv`](crate::RobotEnv), whose facts a step has, too.

use std::sync::Arc;
use std::time::Duration;

use plaudit_core::{
    ActionSpace, End, Env, EnvError, EnvSpec, FramesNeeded, Obs, ObsError, Seed, StatePart, Step,
};

use super::{JointAction, JointMotion, JointParts, JointRange, JointState, JointTask, TakeOver};
use crate::env::{Done, Facts};
use crate::guard::Watched;
use crate::{AskPerson, Clock, HoldCause, JointGuard, Mode, SharedGuard, StopToken, Time, Watchdog};

/// How often a broken arm is looked at.
const LOOKS_EVERY: Duration = Duration::from_millis(50);
/// How long an arm and its cameras may take at first.
const FIRST_LOOK: Duration = Duration::from_secs(5);
/// How long one try of a reset may take beyond the time that the largest step asks for.
const SETTLE: Duration = Duration::from_secs(3);
/// A leader that moved less than this part of a step stands still: its encoders are not.
const LEADER_STILL: f64 = 0.2;

/// An arm of joints as an environment.
pub struct JointEnv {
    spec: EnvSpec,
    task: JointTask,
    ranges: Vec<JointRange>,
    guard: SharedGuard<JointGuard>,
    person: Box<dyn AskPerson>,
    clock: Arc<dyn Clock>,
    stop: StopToken,
    notify: Box<dyn Fn(&str) + Send>,
    /// What the policy last saw; nothing before the first reset.
    view: Option<JointState>,
    /// Where the leader was when it last counted as moved, and when.
    leader: Option<(Vec<f64>, Option<Time>)>,
    started_at: Time,
    /// When the next step is over.
    due: Time,
    steps: usize,
    /// The trouble that was told last, so that it is told once.
    trouble: Option<String>,
    // Dropped last of all that uses the guard: it holds.
    _watchdog: Option<Watchdog<JointGuard>>,
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
        let guard = SharedGuard::new(guard);
        let watchdog = watchdog.then(|| Watchdog::start(guard.clone(), clock.clone(), stop.clone()));
        let watchdog = watchdog.transpose().map_err(|error| EnvError::Backend(Box::new(error)))?;
        let now = clock.now();
        Ok(Self {
            spec,
            task,
            ranges,
            guard,
            person,
            clock,
            stop,
            notify,
            view: None,
            leader: None,
            started_at: now,
            due: now,
            steps: 0,
            trouble: None,
            _watchdog: watchdog,
        })
    }

    /// The guard: for whoever shows its mode.
    pub fn guard(&self) -> SharedGuard<JointGuard> {
        self.guard.clone()
    }

    fn period(&self) -> Duration {
        Duration::from_secs_f64(1.0 / self.task.control_hz)
    }

    fn now(&self) -> Time {
        self.clock.now()
    }

    /// A state that is fresh, tried for as long as it may be old.
    fn look(&mut self) -> Result<JointState, HoldCause> {
        let most = self.guard.lock().limits().max_state_age;
        let give_up = self.now() + most;
        loop {
            let cause = match self.look_once(most) {
                Ok(view) => return Ok(view),
                Err(cause) => cause,
            };
            let is_gone = matches!(self.guard.lock().mode(), Mode::NeedsPerson(_) | Mode::Stopped);
            if is_gone || self.now() >= give_up || self.stop.is_raised() {
                return Err(self.guard.lock().hold(cause));
            }
            self.clock.sleep_until(self.now() + Duration::from_millis(10));
        }
    }

    fn look_once(&mut self, most: Duration) -> Result<JointState, HoldCause> {
        let mut guard = self.guard.lock();
        match guard.mode() {
            Mode::NeedsPerson(cause) => return Err(cause.clone()),
            Mode::Stopped => return Err(HoldCause::Stopped),
            Mode::Armed | Mode::Disarmed | Mode::Reflex => {}
        }
        let view = guard.observe()?.clone();
        let age = self.clock.now().since(view.time);
        // An answer that came late may have been asked for long ago.
        if age > most { Err(HoldCause::StateOld(age)) } else { Ok(view) }
    }

    /// Says why the arm holds, once.
    fn tell(&mut self, cause: &HoldCause) {
        let text = cause.to_string();
        // Ages and counts change while the trouble is the same.
        let kind: String = text.chars().filter(|letter| !letter.is_ascii_digit()).collect();
        if self.trouble.as_ref() != Some(&kind) {
            (self.notify)(&format!("the arm holds: {text}"));
            self.trouble = Some(kind);
        }
    }

    fn tell_going_on(&mut self) {
        if self.trouble.take().is_some() {
            (self.notify)("the arm goes on");
        }
    }

    /// Waits until the arm is there again, asks a person where one has to look. Returns false if it was told to stop.
    fn wait_until_healthy(&mut self) -> bool {
        loop {
            if self.stop.is_raised() {
                self.guard.lock().stop();
                return false;
            }
            let mode = self.guard.lock().mode().clone();
            let result = match mode {
                Mode::NeedsPerson(cause) => self.ask(&cause.to_string()).unwrap_or(Err(cause)),
                Mode::Stopped => return false,
                Mode::Armed | Mode::Disarmed | Mode::Reflex => Ok(()),
            };
            match result.and_then(|()| self.look()) {
                Ok(view) => {
                    self.view = Some(view);
                    return true;
                }
                Err(cause) => self.tell(&cause),
            }
            self.clock.sleep_until(self.now() + LOOKS_EVERY);
        }
    }

    /// Asks a person whether the arm may move; `None` if nobody agreed.
    fn ask(&mut self, why: &str) -> Option<Result<(), HoldCause>> {
        let person = self.person.may_move(why)?;
        Some(self.guard.lock().arm(&person))
    }

    /// The first look of all: what is missing is an error, and nothing has moved.
    fn first_look(&mut self) -> Result<(), EnvError> {
        let give_up = self.now() + FIRST_LOOK;
        loop {
            match self.look() {
                Ok(view) => {
                    let first = self.guard.lock().check_start(&view.positions);
                    first.map_err(|cause| EnvError::Backend(Box::new(cause)))?;
                    self.view = Some(view);
                    return Ok(());
                }
                Err(cause) if self.now() >= give_up || self.stop.is_raised() => {
                    return Err(EnvError::Backend(Box::new(cause)));
                }
                Err(_) => self.clock.sleep_until(self.now() + LOOKS_EVERY),
            }
        }
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
}

/// Who acts in a step, and what came of it.
impl JointEnv {
    fn act(&mut self, actions: &[f32]) -> Done {
        let Some(view) = self.view.clone() else { return Done::nothing(actions.len()) };
        let by_person = self.leader_has_the_arm(&view);
        let reference = self.guard.lock().reference().unwrap_or_else(|| view.positions.clone());
        let target = match &view.leader {
            Some(leader) if by_person => leader.clone(),
            _ => self.wanted(&reference, actions),
        };
        let sent = self.guard.lock().act(&JointMotion { target, seen: view.time });
        let mut done = Done { by_person, ..Done::nothing(actions.len()) };
        match sent {
            Ok(sent) => {
                done.action = self.as_action(&sent.from, &sent.target);
                (done.is_clipped, done.is_held) = (sent.is_clipped, false);
                self.tell_going_on();
            }
            Err(cause) => {
                done.action = self.as_action(&reference, &reference);
                self.tell(&cause);
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
                let now = self.clock.now();
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
    /// Brings the arm to its start and looks. What breaks meanwhile is waited for; a stop leaves all as it is.
    fn begin_episode(&mut self) {
        loop {
            let result = self.pause().and_then(|()| self.bring_to_start()).and_then(|()| self.look());
            match result {
                Ok(view) => {
                    self.view = Some(view);
                    self.tell_going_on();
                    break;
                }
                Err(cause) => {
                    self.tell(&cause);
                    if !self.wait_until_healthy() {
                        break;
                    }
                }
            }
        }
        (self.steps, self.leader) = (0, None);
        (self.started_at, self.due) = (self.now(), self.now());
    }

    /// Holds while a person resets the table.
    fn pause(&mut self) -> Result<(), HoldCause> {
        let over = self.now() + self.task.reset_pause;
        if self.task.reset_pause.is_zero() {
            return Ok(());
        }
        self.guard.lock().hold(HoldCause::Other("the table is reset".into()));
        while self.now() < over {
            if self.stop.is_raised() {
                return Err(HoldCause::Stopped);
            }
            self.clock.sleep_until((self.now() + LOOKS_EVERY).min(over));
        }
        // A person near the table may have moved the arm.
        self.guard.lock().anchor();
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
        Err(self.guard.lock().wait_for_person(cause))
    }

    /// Sends targets towards `goal` until the arm is there or time is up; returns the joint that is furthest off, if one is
    /// off by more than a step.
    fn approach(&mut self, goal: &[f64]) -> Result<Option<(String, f64)>, HoldCause> {
        let (begun, period) = (self.now(), self.period());
        let mut due = begun;
        loop {
            if self.stop.is_raised() {
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
            self.guard.lock().approach(goal)?;
            if steps <= 1.0 {
                return Ok(None);
            }
            let needed = period.mul_f64(steps.min(1e4));
            if self.now().since(begun) > SETTLE + needed {
                return Ok(Some((joint.to_string(), off)));
            }
            due = (due + period).max(self.now());
            self.clock.sleep_until(due);
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
        if *self.guard.lock().mode() == Mode::Disarmed {
            match self.ask("nothing has moved yet") {
                Some(armed) => armed.map_err(|cause| EnvError::Backend(Box::new(cause)))?,
                None => {
                    return Err(EnvError::Setting("nobody armed the robot, so it does not move".into()));
                }
            }
        }
        self.begin_episode();
        self.obs()
    }

    fn step(&mut self, actions: &[f32]) -> Result<Step, EnvError> {
        self.spec.actions.check(1, actions)?;
        if self.view.is_none() {
            return Err(EnvError::NotReset);
        }
        if self.stop.is_raised() {
            self.guard.lock().stop();
            return self.broken_step(actions, HoldCause::Stopped);
        }
        let done = self.act(actions);
        let overrun = self.wait_for_deadline();
        match self.look() {
            Ok(view) if view.events.is_invalid => {
                self.view = Some(view);
                let cause = HoldCause::Other("the person at the leader wants the episode anew".into());
                let cause = self.guard.lock().hold(cause);
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
    /// Sleeps until the step is over; returns by how much it was over already. After a whole period the deadlines begin
    /// anew: lost time is not run after.
    fn wait_for_deadline(&mut self) -> Duration {
        let period = self.period();
        self.due = self.due + period;
        let overrun = self.now().since(self.due);
        if overrun > period {
            self.due = self.now();
        }
        self.clock.sleep_until(self.due);
        overrun
    }

    /// A step after which a state was there.
    fn whole_step(
        &mut self,
        view: JointState,
        actions: &[f32],
        done: Done,
        overrun: Duration,
    ) -> Result<Step, EnvError> {
        self.steps += 1;
        let events = view.events;
        let facts = Facts {
            intervention: done.by_person,
            clipped: done.is_clipped,
            held: done.is_held,
            frame_age: self.now().since(view.time),
            overrun,
            time: self.now().since(self.started_at),
            ..Facts::default()
        };
        self.view = Some(view);
        let is_done = (events.success || events.is_over) && !self.task.ignore_terminations;
        let is_late = self.task.max_episode_steps.is_some_and(|most| self.steps >= most);
        let end = match (is_done, is_late) {
            (true, _) => End::Terminated,
            (false, true) => End::Truncated,
            (false, false) => End::No,
        };
        let last = if end.is_end() { vec![(0, self.obs()?)] } else { Vec::new() };
        if end.is_end() {
            self.begin_episode();
        }
        Ok(Step {
            obs: self.obs()?,
            reward: vec![f32::from(u8::from(events.success))],
            end: vec![end],
            success: vec![events.success],
            last,
            facts: facts.named(),
            interventions: done.interventions(actions),
        })
    }

    /// The end of an episode that broke: shows what was seen last, and waits until another one can begin.
    fn broken_step(&mut self, actions: &[f32], cause: HoldCause) -> Result<Step, EnvError> {
        let last = self.obs()?;
        self.tell(&cause);
        if self.wait_until_healthy() {
            self.begin_episode();
        } else {
            // A rollout that goes on to its end should do so soon, but not spin.
            self.clock.sleep_until(self.now() + LOOKS_EVERY / 10);
        }
        let time = self.now().since(self.started_at);
        let facts = Facts { invalid: true, held: true, time, ..Facts::default() };
        Ok(Step {
            obs: self.obs()?,
            reward: vec![0.0],
            end: vec![End::Truncated],
            success: vec![false],
            last: vec![(0, last)],
            facts: facts.named(),
            interventions: Done::nothing(self.spec.actions.width()).interventions(actions),
        })
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
