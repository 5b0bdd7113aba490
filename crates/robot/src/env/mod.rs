//! An arm as an environment of one row that steps in real time.
//!
//! A step asks the pilot, chooses who acts, passes the motion to the guard, waits for an absolute deadline, and shows
//! the arm's state and the newest frames. Cameras and pilots never make it wait: they run on threads of their own.
//!
//! What breaks does not end learning. The arm holds, the reason is told, and `step` returns when a state and frames are
//! there again, with an episode that is truncated and has the fact `invalid`: whoever keeps episodes or transitions
//! drops it.
//!
//! Success is a simulated robot's own ground truth. Of a real one nobody knows it; there, the tool at its target is success. Where a
//! person labels by key ([`EpisodeKeys`]), success, reward and end are what the person says of the frame that is shown.
//!
//! Facts of a step: `intervention`, `clipped`, `held` and `invalid` (0 or 1), `frame_age`, `overrun`, `period` and `time`
//! (seconds), `force` (newtons), `broken_limits` (a count, of a simulated robot); with [`EpisodeKeys::StartEnd`] also `pre_record`
//! (0 or 1) and `segment_id`.

mod control;
mod episode;
mod keys;
mod settings;
mod view;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use plaudit_core::{ActionSpace, Env, EnvError, EnvSpec, FramesNeeded, Obs, Seed, Step};

pub use keys::EpisodeKeys;
pub use settings::{AskPerson, NoTableReset, RobotParts, RobotTask, SimulatedServer, TableReset};

use crate::arm_loop::{ArmEnv, ArmLoop, end_of};
use crate::{Guard, HoldCause, Mode, Person, SharedGuard, Time, ToolPose, Watched};
pub(crate) use control::Done;
pub(crate) use episode::Facts;
use keys::KeyLabels;
use view::{STATE_WIDTH, View, state_parts};

/// Ends an episode that somebody outside of the arm's loop knows to be worthless: the reward server is gone.
#[derive(Debug, Clone, Default)]
pub struct EpisodeBreaker(Arc<Mutex<Option<String>>>);

impl EpisodeBreaker {
    /// The arm holds, and the episode is invalid, for this reason.
    pub fn break_off(&self, why: impl Into<String>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(why.into());
    }

    fn take(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// An arm as an environment.
pub struct RobotEnv {
    spec: EnvSpec,
    task: RobotTask,
    arm: ArmLoop<Guard>,
    parts: Parts,
    breaker: EpisodeBreaker,
    seed: Seed,
    /// Episodes that have begun.
    episodes: u64,
    /// What the policy last saw; nothing before the first reset.
    view: Option<View>,
    /// Where the episode started.
    start: ToolPose,
    held_steps: usize,
    /// When the pilot last did something.
    pilot_moved: Option<Time>,
    /// Whether the pilot watches this episode.
    pilot_is_there: bool,
    /// Keys that were pressed since the last label.
    pressed: Vec<crate::Key>,
    /// What the keys have said of this episode, where they say anything.
    labels: Option<KeyLabels>,
    /// Whether the last step ended with the task solved.
    is_solved: bool,
    /// When the last step of the episode was over.
    stepped_at: Option<Time>,
    /// What the gripper was last told, in the numbers of actions.
    gripper_told: Option<f64>,
    // Ends after everybody who talks to it.
    simulated: Option<SimulatedServer>,
}

/// The parts beside the guard.
struct Parts {
    cameras: Vec<Box<dyn crate::Camera>>,
    pilot: Box<dyn crate::Pilot>,
    table: Box<dyn TableReset>,
}

impl RobotEnv {
    /// Puts an arm, its cameras and its pilot together. Nothing moves yet. A task that does not fit the limits is
    /// refused.
    pub fn new(task: RobotTask, parts: RobotParts) -> Result<Self, EnvError> {
        check(&task, &parts)?;
        let width = if task.has_gripper { 7 } else { 6 };
        let spec = EnvSpec {
            id: task.id.clone(),
            num_envs: 1,
            state_width: STATE_WIDTH,
            state_parts: state_parts(),
            actions: ActionSpace::Continuous { low: vec![-1.0; width], high: vec![1.0; width] },
            cameras: parts.camera_shapes(),
            max_episode_steps: task.max_episode_steps,
            control_hz: task.control_hz,
        };
        let RobotParts { guard, cameras, pilot, table, person, clock, stop, notify, watchdog, simulated } =
            parts;
        if let Some(SimulatedServer::Here(robot)) = &simulated {
            robot.watch(guard.limits().clone());
        }
        let arm = ArmLoop::new(guard, task.control_hz, person, (clock, stop), notify, watchdog)?;
        let start = task.reset_pose;
        Ok(Self {
            spec,
            task,
            arm,
            parts: Parts { cameras, pilot, table },
            breaker: EpisodeBreaker::default(),
            seed: Seed::new(0),
            episodes: 0,
            view: None,
            start,
            held_steps: 0,
            pilot_moved: None,
            pilot_is_there: true,
            pressed: Vec::new(),
            labels: None,
            is_solved: false,
            stepped_at: None,
            gripper_told: None,
            simulated,
        })
    }

    /// Ends episodes from outside.
    pub fn breaker(&self) -> EpisodeBreaker {
        self.breaker.clone()
    }

    /// The guard: for whoever shows its mode.
    pub fn guard(&self) -> SharedGuard {
        self.arm.guard.clone()
    }
}

impl ArmEnv for RobotEnv {
    type Guard = Guard;
    type View = View;

    fn arm(&self) -> &ArmLoop<Guard> {
        &self.arm
    }

    fn arm_mut(&mut self) -> &mut ArmLoop<Guard> {
        &mut self.arm
    }

    fn max_age(&self) -> Duration {
        self.arm.guard.lock().limits().max_state_age
    }

    fn look_once(&mut self, most: Duration) -> Result<View, HoldCause> {
        let state = {
            let mut guard = self.arm.guard.lock();
            let state = guard.observe()?.clone();
            match guard.mode() {
                Mode::Reflex => return Err(HoldCause::Reflex),
                Mode::NeedsPerson(cause) => return Err(cause.clone()),
                Mode::Stopped => return Err(HoldCause::Stopped),
                Mode::Armed | Mode::Disarmed => state,
            }
        };
        let mut frames = Vec::with_capacity(self.parts.cameras.len());
        for camera in &mut self.parts.cameras {
            let (name, now) = (camera.name().to_string(), self.arm.clock.now());
            let old = |age| HoldCause::FrameOld { camera: name.clone(), age };
            let frame = camera.newest().ok_or_else(|| match camera.trouble() {
                Some(trouble) => HoldCause::Other(trouble.to_string()),
                None => HoldCause::Other(format!("camera `{name}` has sent no frame yet")),
            })?;
            let age = now.since(frame.time);
            if age > most {
                return Err(old(age));
            }
            frames.push((name.clone().into(), frame));
        }
        Ok(View { state, frames })
    }

    fn show(&mut self, view: View) {
        self.view = Some(view);
    }

    fn obs(&self) -> Result<Obs, EnvError> {
        self.view.as_ref().ok_or(EnvError::NotReset)?.obs(&self.task, self.start)
    }

    fn check_start(&self, view: &View) -> Result<(), HoldCause> {
        self.arm.guard.lock().check_start(view.state.pose)
    }

    fn let_move(&mut self, person: &Person) -> Result<(), HoldCause> {
        self.arm.guard.lock().arm(person);
        Ok(())
    }

    fn recover(&mut self) -> Result<(), HoldCause> {
        self.arm.guard.lock().recover()
    }

    fn go_to_start(&mut self) -> Result<(), HoldCause> {
        self.reset_table().and_then(|()| self.bring_to(self.start_of_episode()))
    }

    fn begin_episode(&mut self) {
        self.begin();
    }

    fn action_width(&self) -> usize {
        self.spec.actions.width()
    }
}

impl Env for RobotEnv {
    fn spec(&self) -> &EnvSpec {
        &self.spec
    }

    fn reset(&mut self, seed: Seed) -> Result<Obs, EnvError> {
        self.seed = seed;
        self.episodes = 0;
        if self.view.is_none() {
            self.first_look()?;
        }
        self.ask_first()?;
        let compliance = self.task.compliance.clone();
        if !compliance.values().is_empty() {
            let set = self.arm.guard.lock().compliance(&compliance);
            set.map_err(|cause| EnvError::Backend(Box::new(cause)))?;
        }
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
        if let Some(why) = self.breaker.take() {
            let cause = self.arm.guard.lock().hold(HoldCause::Other(why));
            return self.broken_step(actions, cause);
        }
        let done = self.act(actions);
        let overrun = self.arm.wait_for_deadline();
        match self.look() {
            Ok(view) => self.whole_step(view, actions, done, overrun),
            Err(cause) => self.broken_step(actions, cause),
        }
    }

    /// Frames come by themselves.
    fn set_frames_needed(&mut self, _frames: FramesNeeded) {}

    fn may_break(&self) -> bool {
        true
    }

    fn stopper(&self) -> Option<Arc<dyn Fn() + Send + Sync>> {
        let stop = self.arm.stop.clone();
        Some(Arc::new(move || stop.raise()))
    }
}

impl RobotEnv {
    /// A step after which a state and frames were there.
    fn whole_step(
        &mut self,
        view: View,
        actions: &[f32],
        done: Done,
        overrun: Duration,
    ) -> Result<Step, EnvError> {
        self.arm.steps += 1;
        let is_near = self.is_near_target(view.state.pose);
        self.held_steps = if is_near { self.held_steps + 1 } else { 0 };
        let mut reward = self.reward(view.state.pose, is_near, done.gripper_moved);
        let is_solved = self.simulated.as_ref().map_or(Some(is_near), SimulatedServer::is_solved);
        self.is_solved = is_solved.unwrap_or(false);
        let mut success = self.is_solved;
        let mut is_done = self.held_steps >= self.task.success_hold_steps;
        let label = self.key_label();
        if let Some(label) = &label {
            (reward, success, is_done) = (label.reward, label.is_success(), label.is_end);
            // What is not recorded takes no time.
            self.arm.steps = if label.is_recorded { self.arm.steps } else { 0 };
        }
        let now = self.arm.now();
        let period = self.stepped_at.replace(now).map_or(Duration::ZERO, |before| now.since(before));
        let facts = Facts {
            intervention: done.by_person,
            clipped: done.is_clipped,
            held: done.is_held,
            invalid: false,
            frame_age: view.frame_age(self.arm.now()),
            overrun,
            period,
            force_n: view.state.wrench.force_n.length(),
            broken_limits: self.simulated.as_ref().map_or(0, SimulatedServer::broken_limits),
            time: self.arm.episode_time(),
        };
        self.view = Some(view);
        let is_done = is_done && !self.task.ignore_terminations;
        let is_over = self.task.max_episode_steps.is_some_and(|most| self.arm.steps >= most);
        let facts = facts.named().into_iter().chain(self.recording_facts(label)).collect();
        self.end_step(end_of(is_done, is_over), (reward, success), facts, done.interventions(actions))
    }
}

/// Refuses tasks that do not fit their limits.
fn check(task: &RobotTask, parts: &RobotParts) -> Result<(), EnvError> {
    let wrong = |why: String| Err(EnvError::Setting(why.into()));
    let space = &parts.guard.limits().workspace;
    for (name, pose) in [("target", task.target), ("reset pose", task.reset_pose)] {
        let (_, faces) = space.nearest(pose);
        if !space.contains(pose, 1e-6, 1e-3) {
            let faces = faces.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            return wrong(format!("the {name} is outside of the robot's box ({faces})"));
        }
        if space.crosses_keep_out(pose, pose) {
            return wrong(format!("the {name} is inside of a keep-out box"));
        }
    }
    let positive =
        [("control_hz", task.control_hz), ("action_m", task.action_m), ("action_rad", task.action_rad)];
    if let Some((name, value)) = positive.into_iter().find(|(_, value)| !(value.is_finite() && *value > 0.0))
    {
        return wrong(format!("{name} is {value}; it must be a positive number"));
    }
    for (at, camera) in parts.cameras.iter().enumerate() {
        if parts.cameras[..at].iter().any(|other| other.name() == camera.name()) {
            return wrong(format!("two cameras are called `{}`", camera.name()));
        }
    }
    Ok(())
}
