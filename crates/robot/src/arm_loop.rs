//! An arm in a loop of steps, whatever kind it is: who is asked, what is told, what is waited for, and when a step is over.

use std::sync::Arc;
use std::time::Duration;

use plaudit_core::{End, EnvError, Obs, Step};

use crate::env::{Done, Facts};
use crate::{AskPerson, Clock, HoldCause, Mode, Person, SharedGuard, StopToken, Time, Watchdog, Watched};

/// How often a broken arm is looked at.
pub(crate) const LOOKS_EVERY: Duration = Duration::from_millis(50);
/// How often a state that is not fresh is asked for again.
const ASKS_AGAIN: Duration = Duration::from_millis(10);
/// How long an arm and its cameras may take at first.
const FIRST_LOOK: Duration = Duration::from_secs(5);

/// An arm behind its guard, and the time of its episode.
pub(crate) struct ArmLoop<G: Watched> {
    pub(crate) guard: SharedGuard<G>,
    person: Box<dyn AskPerson>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) stop: StopToken,
    pub(crate) notify: Box<dyn Fn(&str) + Send>,
    period: Duration,
    pub(crate) started_at: Time,
    /// When the next step is over.
    due: Time,
    pub(crate) steps: usize,
    /// The trouble that was told last, so that it is told once.
    trouble: Option<String>,
    // Dropped last of all that uses the guard: it holds.
    _watchdog: Option<Watchdog<G>>,
}

impl<G: Watched> ArmLoop<G> {
    /// With a `watchdog`, a thread of its own holds the arm when nobody acts.
    pub(crate) fn new(
        guard: G,
        control_hz: f64,
        person: Box<dyn AskPerson>,
        (clock, stop): (Arc<dyn Clock>, StopToken),
        notify: Box<dyn Fn(&str) + Send>,
        watchdog: bool,
    ) -> Result<Self, EnvError> {
        let (guard, now) = (SharedGuard::new(guard), clock.now());
        let watchdog = watchdog.then(|| Watchdog::start(guard.clone(), clock.clone(), stop.clone()));
        let _watchdog = watchdog.transpose().map_err(|error| EnvError::Backend(Box::new(error)))?;
        let (period, trouble) = (Duration::from_secs_f64(1.0 / control_hz), None);
        Ok(Self {
            guard,
            person,
            clock,
            stop,
            notify,
            period,
            started_at: now,
            due: now,
            steps: 0,
            trouble,
            _watchdog,
        })
    }

    pub(crate) fn now(&self) -> Time {
        self.clock.now()
    }

    pub(crate) fn period(&self) -> Duration {
        self.period
    }

    /// How long ago the episode began.
    pub(crate) fn episode_time(&self) -> Duration {
        self.now().since(self.started_at)
    }

    /// An episode begins now.
    pub(crate) fn begin(&mut self) {
        self.steps = 0;
        (self.started_at, self.due) = (self.now(), self.now());
    }

    /// Says why the arm holds, once.
    pub(crate) fn tell(&mut self, cause: &HoldCause) {
        let text = cause.to_string();
        // Ages and counts change while the trouble is the same.
        let kind: String = text.chars().filter(|letter| !letter.is_ascii_digit()).collect();
        if self.trouble.as_ref() != Some(&kind) {
            (self.notify)(&format!("the arm holds: {text}"));
            self.trouble = Some(kind);
        }
    }

    pub(crate) fn tell_going_on(&mut self) {
        if self.trouble.take().is_some() {
            (self.notify)("the arm goes on");
        }
    }

    /// Sleeps until the step is over; returns by how much it was over already. After a whole period the deadlines begin
    /// anew: lost time is not run after.
    pub(crate) fn wait_for_deadline(&mut self) -> Duration {
        self.due = self.due + self.period;
        let overrun = self.now().since(self.due);
        if overrun > self.period {
            self.due = self.now();
        }
        self.clock.sleep_until(self.due);
        overrun
    }
}

/// An environment that is an arm.
pub(crate) trait ArmEnv {
    type Guard: Watched;
    /// An arm and its cameras at one time.
    type View;

    fn arm(&self) -> &ArmLoop<Self::Guard>;

    fn arm_mut(&mut self) -> &mut ArmLoop<Self::Guard>;

    /// How old a state and frames may be.
    fn max_age(&self) -> Duration;

    /// State and frames that are at most so old.
    fn look_once(&mut self, most: Duration) -> Result<Self::View, HoldCause>;

    /// What was seen is what is shown from now on.
    fn show(&mut self, view: Self::View);

    /// What is shown.
    fn obs(&self) -> Result<Obs, EnvError>;

    /// Whether an arm that is seen so may begin to move.
    fn check_start(&self, view: &Self::View) -> Result<(), HoldCause>;

    /// A person lets the arm move.
    fn let_move(&mut self, person: &Person) -> Result<(), HoldCause>;

    /// Goes on after an arm has stopped itself.
    fn recover(&mut self) -> Result<(), HoldCause>;

    /// Brings the arm to where the episode starts.
    fn go_to_start(&mut self) -> Result<(), HoldCause>;

    /// Resets what an episode has, and brings the arm to its start.
    fn begin_episode(&mut self);

    /// Numbers of an action.
    fn action_width(&self) -> usize;

    /// State and frames that are fresh, tried for as long as they may be old.
    fn look(&mut self) -> Result<Self::View, HoldCause> {
        let most = self.max_age();
        let give_up = self.arm().now() + most;
        loop {
            let cause = match self.look_once(most) {
                Ok(view) => return Ok(view),
                Err(cause) => cause,
            };
            let arm = self.arm();
            let is_gone = matches!(arm.guard.lock().mode(), Mode::NeedsPerson(_) | Mode::Stopped);
            if is_gone || arm.now() >= give_up || arm.stop.is_raised() {
                return Err(arm.guard.lock().hold(cause));
            }
            arm.clock.sleep_until(arm.now() + ASKS_AGAIN);
        }
    }

    /// The first look of all: what is missing is an error, and nothing has moved.
    fn first_look(&mut self) -> Result<(), EnvError> {
        let wrong = |cause: HoldCause| EnvError::Backend(Box::new(cause));
        let give_up = self.arm().now() + FIRST_LOOK;
        loop {
            match self.look() {
                Ok(view) => {
                    self.check_start(&view).map_err(wrong)?;
                    self.show(view);
                    return Ok(());
                }
                Err(cause) if self.arm().now() >= give_up || self.arm().stop.is_raised() => {
                    return Err(wrong(cause));
                }
                Err(_) => self.arm().clock.sleep_until(self.arm().now() + LOOKS_EVERY),
            }
        }
    }

    /// Asks a person whether the arm may move; `None` if nobody agreed.
    fn ask(&mut self, why: &str) -> Option<Result<(), HoldCause>> {
        let person = self.arm_mut().person.may_move(why)?;
        Some(self.let_move(&person))
    }

    /// Asks a person before anything moves for the first time.
    fn ask_first(&mut self) -> Result<(), EnvError> {
        if *self.arm().guard.lock().mode() != Mode::Disarmed {
            return Ok(());
        }
        match self.ask("nothing has moved yet") {
            Some(armed) => armed.map_err(|cause| EnvError::Backend(Box::new(cause))),
            None => Err(EnvError::Setting("nobody armed the robot, so it does not move".into())),
        }
    }

    /// Waits until arm and cameras are there again, recovers reflexes, asks a person where one has to look. Returns
    /// false if it was told to stop.
    fn wait_until_healthy(&mut self) -> bool {
        loop {
            if self.arm().stop.is_raised() {
                self.arm().guard.lock().stop();
                return false;
            }
            let mode = self.arm().guard.lock().mode().clone();
            let result = match mode {
                Mode::Reflex => self.recover(),
                Mode::NeedsPerson(cause) => self.ask(&cause.to_string()).unwrap_or(Err(cause)),
                Mode::Stopped => return false,
                Mode::Armed | Mode::Disarmed => Ok(()),
            };
            match result.and_then(|()| self.look()) {
                Ok(view) => {
                    self.show(view);
                    return true;
                }
                Err(cause) => self.arm_mut().tell(&cause),
            }
            self.arm().clock.sleep_until(self.arm().now() + LOOKS_EVERY);
        }
    }

    /// Brings the arm to its start and looks. What breaks meanwhile is waited for; false if it was told to stop, which
    /// leaves all as it is.
    fn come_to_start(&mut self) -> bool {
        loop {
            match self.go_to_start().and_then(|()| self.look()) {
                Ok(view) => {
                    self.show(view);
                    self.arm_mut().tell_going_on();
                    return true;
                }
                Err(cause) => {
                    self.arm_mut().tell(&cause);
                    if !self.wait_until_healthy() {
                        return false;
                    }
                }
            }
        }
    }

    /// A step that is whole: begins the next episode if this one is over.
    fn end_step(
        &mut self,
        end: End,
        (reward, success): (f32, bool),
        facts: plaudit_core::Facts,
        interventions: Vec<plaudit_core::Intervention>,
    ) -> Result<Step, EnvError> {
        let last = if end.is_end() { vec![(0, self.obs()?)] } else { Vec::new() };
        if end.is_end() {
            self.begin_episode();
        }
        let (obs, reward, end, success) = (self.obs()?, vec![reward], vec![end], vec![success]);
        Ok(Step { obs, reward, end, success, last, facts, interventions })
    }

    /// The end of an episode that broke: shows what was seen last, and waits until another one can begin.
    fn broken_step(&mut self, actions: &[f32], cause: HoldCause) -> Result<Step, EnvError> {
        let last = self.obs()?;
        self.arm_mut().tell(&cause);
        if self.wait_until_healthy() {
            self.begin_episode();
        } else {
            // A rollout that goes on to its end should do so soon, but not spin.
            self.arm().clock.sleep_until(self.arm().now() + LOOKS_EVERY / 10);
        }
        let facts = Facts { invalid: true, held: true, time: self.arm().episode_time(), ..Facts::default() };
        Ok(Step {
            obs: self.obs()?,
            reward: vec![0.0],
            end: vec![End::Truncated],
            success: vec![false],
            last: vec![(0, last)],
            facts: facts.named(),
            interventions: Done::nothing(self.action_width()).interventions(actions),
        })
    }
}

/// How a step ends an episode: by its task, or by the clock.
pub(crate) fn end_of(is_done: bool, is_over: bool) -> End {
    match (is_done, is_over) {
        (true, _) => End::Terminated,
        (false, true) => End::Truncated,
        (false, false) => End::No,
    }
}
